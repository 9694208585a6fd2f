"""Test [compute] in a world's file: what is refused, and that no manifest contains it."""

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


def test_compute_location_does_not_change_world_digest(tmp_path: Path) -> None:
    here = load_world(write(tmp_path, WORLD))
    there = load_world(write(tmp_path, WORLD + DASK + "wait_s = 5\n"))
    assert here.compute == ComputeSettings() and there.compute.address == "tcp://10.0.0.5:8786"
    assert here.digest_answer_settings(["translator"]) == there.digest_answer_settings(["translator"])
    # the models' identities contain the precision of their computing
    assert there.compute.device == "auto"


def test_environment_sets_cluster_for_any_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMILL_CLUSTER", "tcp://[::1]:8786")
    assert load_world("embedded").compute == ComputeSettings(engine="dask", address="tcp://[::1]:8786")
    assert load_world(write(tmp_path, WORLD + DASK)).compute.address == "tcp://[::1]:8786"
    for wrong in ("10.0.0.5:8786", "http://10.0.0.5:8786", "tcp://10.0.0.5", "tls://10.0.0.5:8786", "tcp://a:x"):
        monkeypatch.setenv("FACTMILL_CLUSTER", wrong)
        with pytest.raises(SettingsError, match=r"^FACTMILL_CLUSTER: .*tls?:// address|not a scheduler address"):
            load_world("embedded")


def test_cluster_address_from_environment_keeps_other_compute_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTMILL_CLUSTER", "tcp://10.0.0.9:1")
    # the identities of translators contain the workers' device
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
def test_cluster_address_with_password_is_rejected_without_repeating_it(address: str) -> None:
    with pytest.raises(ValueError, match="not a scheduler address") as refused:
        check_dask_scheduler_address(address)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("address", ["tcp://h:0", "tcp://h:1\n", "tcp://h:1/"])
def test_malformed_cluster_address_is_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="not a scheduler address"):
        check_dask_scheduler_address(address)


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_invalid_compute_settings_are_reported(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        load_world(write(tmp_path, WORLD + text))
