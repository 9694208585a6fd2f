"""Test docker-compose.yml, .env.example, Dockerfile and .dockerignore without a container engine."""

import io
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml
from dotenv import dotenv_values
from prefect.settings import Settings
from prefect.settings.legacy import _get_valid_setting_names
from support.processes.ready import run_ready

from factmill.flows.cli.main import app
from factmill.tasks.world.serving import get_oxigraph_binary

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
EXAMPLE = (ROOT / ".env.example").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SECRET = {"PREFECT_DB_PASSWORD": "p@ss:w/r%d#1"}
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::([-?])([^{}]*))?\})")


def fill(node: Any, messages: Mapping[str, str]) -> Any:
    """Return a parsed file with its variables filled in as Compose does: $$, ${NAME:-default} and ${NAME:?message}."""
    if isinstance(node, dict):
        return {name: fill(value, messages) for name, value in node.items()}
    if isinstance(node, list):
        return [fill(value, messages) for value in node]
    return _VARIABLE.sub(lambda found: _value(found, messages), node) if isinstance(node, str) else node


def _value(found: re.Match[str], messages: Mapping[str, str]) -> str:
    if found[1]:
        return "$"
    if not (value := messages.get(found[2])) and found[3] != "-":
        raise LookupError(f"{found[2]}: {found[4] or 'neither a default nor a message'}")
    return value or found[4]


def services(**text: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = fill(COMPOSE, SECRET | text)["services"]
    return found


SERVICES = services()


def split_command(command: str | list[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else command


def test_compose_file_follows_compose_schema() -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    for project in (COMPOSE, fill(COMPOSE, SECRET)):
        assert [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(project)] == []
    assert not validator.is_valid(COMPOSE | {"service": {}})


def test_docker_compose_parses_file(tmp_path: Path) -> None:
    compose = ["docker", "compose"]
    if not shutil.which("docker") or subprocess.run([*compose, "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no plugin compose on this machine")
    settings = tmp_path / "env"
    settings.write_text(EXAMPLE.replace("PASSWORD=", "PASSWORD=x"))
    ran = subprocess.run(
        [*compose, "--env-file", settings, "--profile", "*", "config", "--quiet"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_env_example_lists_every_variable_with_default_and_no_secret() -> None:
    with_defaults = re.sub(r"^#(?=[A-Z_]+=)", "", EXAMPLE, flags=re.MULTILINE)
    example = dotenv_values(stream=io.StringIO(with_defaults))
    used = {found[2]: found for found in _VARIABLE.finditer(json.dumps(COMPOSE, ensure_ascii=False)) if found[2]}
    # a variable without a value gets .env's value, or is not passed at all
    passed_on = {
        name for each in SERVICES.values() for name, value in each.get("environment", {}).items() if value is None
    }
    assert passed_on == {"PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"}
    assert example == dict.fromkeys(passed_on, "") | {
        name: "" if found[3] == "?" else json.loads(f'"{found[4]}"') for name, found in used.items()
    }, "variables of docker-compose.yml and .env.example"
    assert [name for name, found in used.items() if found[3] == "?"] == list(SECRET)
    assert dotenv_values(stream=io.StringIO(EXAMPLE)) == dict.fromkeys(SECRET, "")
    with pytest.raises(LookupError, match=r"PREFECT_DB_PASSWORD: set it in \.env"):
        fill(COMPOSE, {})


def test_images_are_pinned_and_ours_has_package_version() -> None:
    for name, service in SERVICES.items():
        assert re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+(\.\d+)*(-[a-z0-9.]+)?", service["image"]), name
        assert ("build" in service) == (service["image"] == f"factmill:{PROJECT['project']['version']}"), name


@pytest.mark.parametrize("name", SERVICES)
def test_service_restarts_reports_health_and_limits_log_size(name: str) -> None:
    service = SERVICES[name]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    if service["restart"] == "no":
        assert service["healthcheck"] == {"disable": True}
        return
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"].keys() >= {"test", "interval", "timeout", "retries"}
    assert service["healthcheck"]["test"][0] == "CMD"


def test_services_wait_only_for_services_of_same_profiles() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            waited = SERVICES[other]
            assert set(waited.get("profiles", [])) <= set(service.get("profiles", [])), f"{name} waits for {other}"
            ends = waited["restart"] == "no"
            assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")


def test_ports_bind_loopback_and_database_exposes_none() -> None:
    for name, service in services(PREFECT_PORT="5200", MODELS_PORT="8000").items():
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), name
    assert "ports" not in SERVICES["postgres"]
    assert SERVICES["postgres"]["networks"] == ["database"]
    assert COMPOSE["networks"]["database"] == {"internal": True}


def test_volumes_and_networks_are_declared_and_used() -> None:
    mounted = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert {volume for volume in mounted if not volume.startswith(".")} == set(COMPOSE["volumes"])
    assert {network for service in SERVICES.values() for network in service["networks"]} == set(COMPOSE["networks"])
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {".env", ".env.keys", "/files/"} <= set(ignored)
    assert {volume for volume in mounted if volume.startswith(".")} == {"./files", "./prefect.yaml"}


def programs_of(command: list[str]) -> list[list[str]]:
    """Return the programs of ours, Prefect's and Oxigraph's that a command starts."""
    if command[0] == "sh":
        parts = re.split(r"\n|&&|\|\|", command[-1].replace("exec ", ""))
        return [shlex.split(part) for part in parts if part.strip().startswith(("oxigraph ", "prefect "))]
    return [command]


def ask_for_help(program: str, *words: str) -> str:
    """Return the help text of a command of Prefect's or Oxigraph's programs."""
    if program == "oxigraph":
        command = [str(get_oxigraph_binary()), *words, "--help"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = run_ready(f"from {program}.cli import app; app()", *words, "--help")
    assert result.code == 0, result.err
    return result.out


def test_service_commands_and_options_exist() -> None:
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    known = {"factmill serve": {option for parameter in serve.params for option in parameter.opts}}
    seen = set()
    for service in SERVICES.values():
        if "build" not in service:
            continue
        for command in programs_of(split_command(service["command"])):
            words = [word for word in command if not word.startswith("-")]
            what = " ".join(words[: 3 if words[0] == "prefect" and words[1] != "deploy" else 2])
            if what not in known:
                known[what] = set(re.findall(r"--[a-z][a-z-]*", ask_for_help(*what.split())))
            assert {word for word in command if word.startswith("--")} <= known[what], what
            seen.add(what)
    assert seen == {
        "factmill serve",
        "oxigraph load",
        "oxigraph serve-read-only",
        "prefect deploy",
        "prefect server start",
        "prefect work-pool create",
        "prefect worker start",
    }


def test_prefect_environment_variables_are_valid_prefect_settings() -> None:
    result = {name for service in SERVICES.values() for name in service.get("environment", {})}
    result |= set(re.findall(r"PREFECT_\w+(?==)", "\n".join(DOCKERFILE)))
    assert {name for name in result if name.startswith("PREFECT_")} <= _get_valid_setting_names(Settings)


def instructions(name: str) -> list[list[str]]:
    """Return the words of the Dockerfile's instructions of one name."""
    return [line.split()[1:] for line in DOCKERFILE if line.startswith(f"{name} ")]


def test_image_is_built_from_lock_files_and_package_contents() -> None:
    copied = [word for words in instructions("COPY") if words[0] != "--from=built" for word in words[:-1]]
    allowed = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for source in copied:
        assert (ROOT / source).exists()
        assert any(line == f"!{source}" or line.startswith(f"!{source}/") for line in allowed), source
    assert all((ROOT / line[1:]).exists() for line in allowed if line.startswith("!"))
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    for needed in [*wheel["packages"], "flows", "tasks", *wheel["force-include"], PROJECT["project"]["readme"]]:
        assert any(line.startswith("!") and f"{needed}/".startswith(f"{line[1:]}/") for line in allowed), needed
    locks = re.findall(r"--require-hashes -r (\S+)", "\n".join(DOCKERFILE))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert locks == re.findall(r"(?:PIP\) --require-hashes -r |install,)(requirements\S*\.lock)", makefile)[:3]
    assert "--no-deps" in "\n".join(DOCKERFILE)
    assert not re.search(r"index-url|find-links|trusted-host|https?://(?!127\.0\.0\.1)", "\n".join(DOCKERFILE))


def test_image_uses_oldest_supported_python_and_non_root_user() -> None:
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert all(re.fullmatch(rf"python:{oldest}\.\d+-slim-\w+", words[0]) for words in instructions("FROM"))
    assert instructions("USER") == [["factmill"]]
    assert DOCKERFILE.index("USER factmill") > DOCKERFILE.index("COPY --from=built /opt/factmill /opt/factmill")
    assert instructions("CMD") == [['["factmill",', '"serve"]']]
    assert len(instructions("HEALTHCHECK")) == 1
