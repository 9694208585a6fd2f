"""[compute] of a world's file: what is refused, and that it is part of no lock."""

from pathlib import Path

import pytest

from factmill.tasks.compute_settings import ComputeSettings
from factmill.tasks.core.service_settings import check_dask_scheduler_address
from factmill.tasks.errors import SettingsError
from factmill.tasks.settings import load_world

WORLD = 'name = "w"\nuser_agent = "me"\n[models.translator]\nkind = "local"\nname = "embedded-nllb-1"\n'
DASK = '[compute]\nengine = "dask"\naddress = "tcp://10.0.0.5:8786"\n'
TLS = DASK.replace("tcp:", "tls:")


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "world.toml"
    path.write_text(text)
    return str(path)


def test_where_is_computed_is_no_part_of_a_world_s_digest(tmp_path: Path) -> None:
    here = load_world(write(tmp_path, WORLD))
    there = load_world(write(tmp_path, WORLD + DASK + "wait_s = 5\n"))
    assert here.compute == ComputeSettings() and there.compute.address == "tcp://10.0.0.5:8786"
    assert here.digest_answer_settings(["translator"]) == there.digest_answer_settings(["translator"])
    # what models compute in is: by their identities
    assert there.compute.device == "auto"


def test_the_environment_names_a_cluster_for_any_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMILL_CLUSTER", "tcp://[::1]:8786")
    assert load_world("embedded").compute == ComputeSettings(engine="dask", address="tcp://[::1]:8786")
    assert load_world(write(tmp_path, WORLD + DASK)).compute.address == "tcp://[::1]:8786"
    for wrong in ("10.0.0.5:8786", "http://10.0.0.5:8786", "tcp://10.0.0.5", "tls://10.0.0.5:8786", "tcp://a:x"):
        monkeypatch.setenv("FACTMILL_CLUSTER", wrong)
        with pytest.raises(SettingsError, match=r"^FACTMILL_CLUSTER: .*tls?:// address|not a scheduler address"):
            load_world("embedded")


def test_an_address_of_the_environment_leaves_the_other_settings_of_a_world_s_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTMILL_CLUSTER", "tcp://10.0.0.9:1")
    # what the workers compute on is part of what translators are known by
    found = load_world(write(tmp_path, WORLD + DASK + 'device = "cuda"\nwait_s = 5\n')).compute
    assert found == ComputeSettings(engine="dask", address="tcp://10.0.0.9:1", device="cuda", wait_s=5)
    monkeypatch.setenv("FACTMILL_CLUSTER", "tls://10.0.0.9:1")
    files = 'ca_file = "a"\ncert_file = "b"\nkey_file = "c"\n'
    assert load_world(write(tmp_path, WORLD + TLS + files)).compute.address == "tls://10.0.0.9:1"


@pytest.mark.parametrize(
    "address",
    [
        "tcp://me:hunter2@h:1",
        "tcp://h:1?token=hunter2",
        "tcp://h:1#hunter2",
        "tcp://hunter2@x@h:y",
        "tcp://hunter2@h:0",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ValueError, match="not a scheduler address") as refused:
        check_dask_scheduler_address(address)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("address", ["tcp://h:0", "tcp://h:1\n", "tcp://h:1/"])
def test_what_only_looks_like_an_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="not a scheduler address"):
        check_dask_scheduler_address(address)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[compute]\nengine = "ray"\n', r"compute.engine: Input should be 'local' or 'dask'"),
        (
            '[compute]\nengine = "dask"\n',
            r"compute: '' .* tcp://10.0.0.5:8786",
        ),
        ('[compute]\naddress = "tcp://10.0.0.5:8786"\n', r'compute: address requires engine = "dask"; add that line'),
        (DASK + "adress = 1\n", r"compute.adress: unknown setting; did you mean address"),
        (DASK + 'ca_file = "ca.pem"\n', "compute: ca_file, cert_file and key_file .* tls://"),
        (TLS + 'ca_file = "ca.pem"\n', "compute: a tls:// address needs ca_file, cert_file and key_file"),
        (DASK + "wait_s = 0\n", "compute.wait_s"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load_world(write(tmp_path, WORLD + text))
