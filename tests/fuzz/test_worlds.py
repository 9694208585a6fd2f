"""Fuzz a world's file: it parses, or a SettingsError names the problem on one line, without a key."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.damage import mutilate

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.engine.naming.identities import service_identities
from factmill.tasks.engine.services import check_model_variables_and_libraries
from factmill.tasks.errors import FactmillError, SettingsError
from factmill.tasks.settings import BUILD_MODEL_ROLES, SERVICE_SECTIONS, load_world

WORLDS = [(ASSETS_ROOT / "data" / "worlds" / f"{name}.toml").read_bytes() for name in ("embedded", "live")]
SECRET = "sk-0123456789abcdef"
ADDRESSES = (
    "embedded", "", "https://example.org/sparql", "http://[::1]:80/x", "file:///etc/passwd", "example.org", "http://", "http://:80", "ftp://example.org",
    "http://example.org:99999", "http://[", "https://user:sk-0123456789abcdef@example.org", "https://example.org/?key=sk-0123456789abcdef",
    "javascript:alert(1)", "http://exa\\u001b[31mmple.org", "//example.org", "HTTP://EXAMPLE.ORG", "http://ex ample.org", "\\\\\\\\server",
)  # fmt: skip
patient = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def load(path: Path, content: bytes, graph: str | None = None) -> None:
    """Read a world and everything available before the first call."""
    path.write_bytes(content)
    try:
        world = load_world(str(path), graph)
        service_identities(world, path.parent)
        check_model_variables_and_libraries(world, BUILD_MODEL_ROLES)
        world.require_service_access(*SERVICE_SECTIONS)
    except FactmillError as error:
        assert str(error).encode()
        assert SECRET not in str(error)


@patient
@given(content=st.sampled_from(WORLDS).flatmap(mutilate), graph=st.none() | st.text(max_size=5))
def test_damaged_world_is_read_or_named(tmp_path: Path, content: bytes, graph: str | None) -> None:
    load(tmp_path / "world.toml", content, graph)


@patient
@given(
    address=st.sampled_from(ADDRESSES),
    key=st.sampled_from(["", SECRET, "NO_SUCH_KEY", "path", "A" * 90]),
    kind=st.sampled_from(["openai", "scripted", "local", "x"]),
    number=st.sampled_from(["1", "-1", "1e999", "nan", "'a'", "9" * 5000, "2026-01-01", "[]"]),
)
def test_world_with_odd_values_is_read_or_named(tmp_path: Path, address: str, key: str, kind: str, number: str) -> None:
    content = (
        f'name = "odd"\nuser_agent = "x"\n[wikidata]\nurl = "{address}"\nlimits = {{ timeout_s = {number} }}\n'
        f'[models.author]\nkind = "{kind}"\nname = "m"\nurl = "{address}"\nkey_env = "{key}"\n'
    )
    load(tmp_path / "world.toml", content.encode())


@patient
@given(
    name=st.text(max_size=20)
    | st.sampled_from(["x" * 5000, "\0", ".", "/", "/dev/null", "/dev/zero/x", "~", "http://example.org/world.toml"])
)
def test_world_of_any_name_is_found_or_named(name: str) -> None:
    try:
        load_world(name)
    except SettingsError as error:
        assert len(str(error)) < 500
