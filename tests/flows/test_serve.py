"""Test deployments on a standing Prefect server: what `factmill serve` registers, and every final state of a run."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import ROOT, Factmill, Process
from support.models.scripted_chat import write_chat_world
from support.processes.automations import make_automations
from support.processes.standing import Standing, standing_server
from support.webs.loopback import Loopback, Seen

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.storage.builds import list_builds

_CONFIG = """
benchmarks = ["granola", "slaq"]
cron = "0 3 1 * *"
concurrency = 2
[granola]
limit = 4
samples = 1
min_levels = 1
[slaq]
categories = ["No such category"]
"""


def short(limit: int) -> dict[str, Any]:
    """Return parameters of a short build."""
    return {"limit": limit, "samples": 1, "min_levels": 1}


class Model:
    """A model that answers once `free` is set, and returns status 429 after `answers` completions."""

    def __init__(self) -> None:
        self.web = Loopback()
        self.web.handle = self._answer
        self.free = threading.Event()
        self.free.set()
        self.answers: int | None = None
        """Number of completions before status 429; None: no limit."""
        self.answered: list[str] = []

    def _answer(self, seen: Seen) -> dict[str, Any]:
        said = seen.json()["messages"][-1]["content"]
        if self.answers is not None and len(self.answered) >= self.answers:
            return {"status": 429, "headers": {"Retry-After": "500"}, "text": "later"}
        self.answered.append(said)
        answer = re.findall("<answer>(.*?)</answer>", said)[-1]
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"1:: {answer}"}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "tester", "usage": usage}
        return {"json": {**reply, "choices": [choice]}, "until": self.free}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.free.set()
    model.web.close()


@pytest.fixture(scope="module")
def standing(session_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing_server(tmp_path_factory.mktemp("server"), session_home / "prefect" / "prefect.db") as server:
        yield server


@pytest.fixture(scope="module")
def factmill(session_home: Path, standing: Standing, tmp_path_factory: pytest.TempPathFactory) -> Factmill:
    home = tmp_path_factory.mktemp("served")
    for name in ("world-cache", "world-graphs"):
        if (session_home / name).is_dir():
            (home / name).symlink_to(session_home / name)
    return Factmill(home, standing.api)


@pytest.fixture(scope="module")
def world(model: Model, factmill: Factmill) -> Path:
    return write_chat_world(factmill.home, f"{model.web.url}/v1", ["author"], world="chatty")


class Served:
    """A `factmill serve` process whose output, and that of its runs, is read as it arrives."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._over = threading.Event()
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: Iterable[str]) -> None:
        for line in stream:
            self.lines.append(line)
        self._over.set()

    def has_said(self, text: str) -> bool:
        found = any(text in line for line in self.lines)
        assert found or not self._over.is_set(), self.lines
        return found


def start_serving(factmill: Factmill, world: Path, standing: Standing, *options: str) -> Served:
    """Serve from a file whose concurrency a flag overrides; a lost server is noticed soon."""
    config = factmill.home / "serve.toml"
    config.write_text(_CONFIG, "utf-8")
    result = {"TEST_KEY": "x", "PREFECT_CLIENT_MAX_RETRIES": "2"}
    process = factmill.start("serve", "--config", config, "--world", world, "--concurrency", "1", *options, **result)
    served = Served(process)
    standing.wait(lambda: served.has_said("serving at"))
    return served


@pytest.fixture(scope="module")
def served(factmill: Factmill, world: Path, standing: Standing) -> Iterator[Served]:
    served = start_serving(factmill, world, standing)
    yield served
    served.process.kill()
    served.process.wait()


@pytest.fixture(scope="module")
def alarms(standing: Standing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """Return the webhook that data/automations/failure.yaml calls."""
    web = Loopback()
    web.script({"json": {}})
    assert make_automations(tmp_path_factory.mktemp("alarms"), web.url, "failure.yaml", standing.api) == 1
    yield web
    web.close()


def start_held(standing: Standing, model: Model, name: str = "granola/granola-chatty", **parameters: Any) -> Any:
    """Start a deployment's run, and return it once it waits for the model, which replies when `free` is set."""
    seen = len(model.web.seen)
    model.free.clear()
    run = standing.start(name, **parameters).json()
    standing.wait(lambda: len(model.web.seen) > seen)
    return run


def find_alarm(alarms: Loopback, run: str, state: str) -> bool:
    result = [each.json() for each in alarms.seen]
    return any(each["run"] == run and each["state"] == state for each in result)


@pytest.mark.usefixtures("served")
def test_deployments_have_names_limits_and_no_internal_options(standing: Standing, world: Path) -> None:
    granola = standing.deployment("granola/granola-chatty")
    assert granola["tags"] == ["factmill", "benchmark:granola", "world:chatty"]
    assert re.search(r"\n\d+\. `generate_granular_answers`: The author model writes", granola["description"])
    assert granola["version"]
    assert granola["description"].startswith(f"{BENCHMARKS['granola'].title}.\n")
    assert granola["parameters"]["params"]["limit"] == 4
    result = granola["parameters"]["run"]
    assert (result["world"], result["concurrency"], "pinned_build" in result) == (str(world), 1, False)
    titles = granola["parameter_openapi_schema"]["properties"]
    assert (titles["params"]["title"], titles["run"]["title"]) == ("What to make", "How to make it")
    form = granola["parameter_openapi_schema"]["definitions"]
    assert form["RunOptions"]["properties"]["stale_if_error"]["title"] == "Stale if error"
    assert "pinned_build" not in form["RunOptions"]["properties"]
    assert form["RunOptions"]["properties"]["concurrency"]["description"].endswith("From 1 to 64.")
    rebuild = standing.deployment("rebuild/rebuild-chatty")
    assert [each["schedule"]["cron"] for each in rebuild["schedules"]] == ["0 3 1 * *"]
    assert rebuild["parameters"]["params"]["benchmarks"] == ["granola", "slaq"]
    chosen = rebuild["parameter_openapi_schema"]["definitions"]["RebuildParams"]["properties"]["benchmarks"]
    assert chosen["items"]["enum"] == list(BENCHMARKS)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"params": {"limit": -1}}, "-1 is less than the minimum of 1"),
        ({"run": {"world": "embedded", "pinned_build": "latest"}}, "'pinned_build' was unexpected"),
        ({"run": {"mode": "replay"}}, "'world' is a required property"),
    ],
)
def test_server_rejects_invalid_run(standing: Standing, given: Any, said: str) -> None:
    refused = standing.start("granola/granola-chatty", **given)
    assert refused.status_code == 409
    assert said in refused.text


def test_invalid_run_accepted_by_server_fails_with_one_line_error(
    standing: Standing, factmill: Factmill, served: Served, alarms: Loopback
) -> None:
    run = standing.start("granola/granola-chatty", run={"world": "nowhere.toml"}).json()
    state = standing.end_of(run["id"])
    assert state["type"] == "FAILED"
    assert state["message"].startswith("SettingsError: no world 'nowhere.toml': no such file in ")
    assert list_builds(factmill.home / "factmill.duckdb") == []
    name = "granola · nowhere · samples 1 · min levels 1 · 4"
    standing.wait(lambda: find_alarm(alarms, name, "Failed"))
    standing.wait(lambda: served.has_said(f"granola/granola-chatty {name} started\n"))
    standing.wait(lambda: served.has_said(": SettingsError: no world 'nowhere.toml'"))


def test_unknown_and_invalid_parameters_are_named(standing: Standing, served: Served) -> None:
    given = {"params": {"relation": ["P19"], "limit": "many"}, "relations": ["P19"], "paramz": {}}
    run = standing.start("granola/granola-chatty", enforce=False, **given).json()
    state = standing.end_of(run["id"])
    result = (
        "UsageError: relations: unknown parameter; did you mean params.relations?; "
        "paramz: unknown parameter; did you mean params?; "
        "params.limit: Input should be a valid integer, unable to parse string as an integer; "
        "params.relation: unknown parameter; did you mean relations?"
    )
    assert (state["type"], state["name"], state["message"]) == ("FAILED", "Failed", result)
    standing.wait(lambda: f"Failed: {result}" in standing.log_of(run["id"]))
    standing.wait(lambda: served.has_said(f" failed after 0 s: {result}"))
    assert not any("Traceback" in line or "nanobind" in line for line in served.lines), served.lines


@pytest.mark.usefixtures("served")
def test_cancelled_run_stops_during_requested_wait_and_next_run_resumes(standing: Standing, model: Model) -> None:
    model.answers = 2
    run = standing.start("granola/granola-chatty", params=short(4)).json()
    standing.wait(lambda: len(model.web.seen) > 2)
    standing.cancel(run["id"])
    state = standing.end_of(run["id"])
    assert state["type"] == "CANCELLED", state
    why = "Cancelled: what was done is kept; the same run again goes on from it"
    standing.wait(lambda: why in standing.log_of(run["id"]))
    model.answers = None
    again = standing.start("granola/granola-chatty", params=short(4)).json()
    assert standing.end_of(again["id"])["message"].startswith("granola-")
    assert len(model.answered) == len(set(model.answered)) == 4


def test_run_with_killed_process_raises_alarm(
    standing: Standing, served: Served, model: Model, alarms: Loopback
) -> None:
    run = start_held(standing, model, params=short(12))
    os.kill(find_process(run["id"]), signal.SIGKILL)
    model.free.set()
    assert standing.end_of(run["id"])["type"] == "CRASHED"
    standing.wait(lambda: find_alarm(alarms, "granola · chatty · samples 1 · min levels 1 · 12", "Crashed"))
    standing.wait(lambda: served.has_said("crashed after "))


def find_process(run_id: str) -> int:
    """Return a run's process; its children inherited its environment."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            is_a_run = b"execute_deployed_run" in (process / "cmdline").read_bytes()
            if is_a_run and f"PREFECT__FLOW_RUN_ID={run_id}".encode() in (process / "environ").read_bytes():
                return int(process.name)
    raise AssertionError(f"no process executes {run_id}")


@pytest.mark.usefixtures("served")
def test_build_active_in_other_run_is_left_alone_and_respects_concurrency(standing: Standing, model: Model) -> None:
    model.web.most_at_once = 0
    given = {
        "params": short(9),
        "run": {**standing.deployment("granola/granola-chatty")["parameters"]["run"], "batch_size": 1},
    }
    first = start_held(standing, model, **given)
    second = standing.end_of(standing.start("granola/granola-chatty", **given).json()["id"])
    assert (second["type"], second["name"]) == ("COMPLETED", "LeftAlone")
    assert " is making the same build in " in second["message"]
    model.free.set()
    assert standing.end_of(first["id"])["type"] == "COMPLETED"
    assert model.web.most_at_once == 1


@pytest.mark.usefixtures("served")
def test_scheduled_rebuild_continues_after_benchmark_failure_and_reports_it(
    standing: Standing, factmill: Factmill
) -> None:
    rebuild = standing.deployment("rebuild/rebuild-chatty")["id"]
    due = standing.wait(
        lambda: standing.runs(deployment_id={"any_": [rebuild]}, state={"type": {"any_": ["SCHEDULED"]}})
    )
    assert due[0]["auto_scheduled"]
    name = "rebuild · chatty · granola,slaq"
    standing.wait(lambda: standing.ask(f"/flow_runs/{due[0]['id']}")["name"] == name)
    # the month has passed
    run = min(due, key=lambda each: each["expected_start_time"])
    standing.ask(
        f"/flow_runs/{run['id']}/set_state",
        state={"type": "SCHEDULED", "state_details": {"scheduled_time": run["created"]}},
        force=True,
    )
    state = standing.end_of(run["id"])
    assert state["type"] == "FAILED"
    assert state["message"].startswith("BuildError: 1 of 2 failed: slaq: UsageError: --categories 'No such category': ")
    below = standing.runs(parent_flow_run_id={"any_": [run["id"]]})
    assert {each["state_type"] for each in below} <= {"COMPLETED", "FAILED"}
    assert standing.ask(f"/flow_runs/{run['id']}")["name"] == name
    assert "granola" in {each.benchmark for each in list_builds(factmill.home / "factmill.duckdb")}
    made = standing.ask("/artifacts/filter", artifacts={"flow_run_id": {"any_": [run["id"]]}})
    assert ("progress", "2 of 2 benchmarks") in {(each["type"], each["description"]) for each in made}
    logged = standing.wait(lambda: "Failed: BuildError" in (lines := standing.log_of(run["id"])) and lines)
    assert "granola: made: granola-" in logged
    assert "slaq: failed: UsageError: " in logged


def test_run_survives_server_outage(standing: Standing, model: Model, served: Served, factmill: Factmill) -> None:
    run = start_held(standing, model, params=short(14))
    standing.stop_server()
    standing.wait(lambda: served.has_said("does not answer"))
    model.free.set()
    standing.wait(lambda: served.has_said("the run waits for it"))
    standing.start_server()
    state = standing.end_of(run["id"])
    assert state["type"] == "COMPLETED", state
    build = list_builds(factmill.home / "factmill.duckdb")[-1].build_id
    assert state["message"].startswith(f"{build} is there already, made of exactly these inputs: ")
    standing.wait(lambda: state["message"] in standing.log_of(run["id"]))
    standing.wait(lambda: served.has_said("answers again"))
    assert not served.has_said("Traceback")


@pytest.mark.usefixtures("served")
def test_part_cancelled_during_outage_cancels_its_rebuild(standing: Standing, model: Model) -> None:
    given = standing.deployment("rebuild/rebuild-chatty")["parameters"]["params"]
    run = start_held(standing, model, "rebuild/rebuild-chatty", params={**given, "granola": short(15)})
    (part,) = standing.runs(parent_flow_run_id={"any_": [run["id"]]})
    standing.cancel(part["id"])
    assert standing.end_of(run["id"])["type"] == "CANCELLED"
    assert standing.end_of(part["id"])["type"] == "CANCELLED"
    model.free.set()


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(("was", "ended"), [("RUNNING", "CRASHED"), ("CANCELLING", "CANCELLED")])
def test_run_without_process_is_ended_while_serving(
    standing: Standing, factmill: Factmill, was: str, ended: str
) -> None:
    flow = standing.ask("/flows/", name="granola")["id"]
    run = standing.ask("/flow_runs/", flow_id=flow, state={"type": was})
    markers = factmill.home / "prefect" / "runs"
    markers.mkdir(parents=True, exist_ok=True)
    (markers / run["id"]).write_text(standing.api, "utf-8")
    assert standing.end_of(run["id"])["type"] == ended


def test_run_stopped_by_serve_raises_alarm_and_resumes_with_next_serve(
    standing: Standing, model: Model, served: Served, alarms: Loopback, factmill: Factmill, world: Path
) -> None:
    run = start_held(standing, model, params=short(16))
    served.process.send_signal(signal.SIGHUP)
    assert served.process.wait() == 128 + signal.SIGHUP
    name = "granola · chatty · samples 1 · min levels 1 · 16"
    assert standing.end_of(run["id"])["name"] == "Stopped"
    standing.wait(lambda: find_alarm(alarms, name, "Stopped"))
    assert standing.deployment("rebuild/rebuild-chatty")["paused"]
    model.free.set()
    again = start_serving(factmill, world, standing, "--log-json")
    said = standing.wait(lambda: [each for each in map(json.loads, again.lines) if each["event"] == "ended"])
    again.process.send_signal(signal.SIGTERM)
    assert again.process.wait() == 128 + signal.SIGTERM
    (ended,) = said
    assert (ended["deployment"], ended["run"], ended["slot"], ended["state"]) == (
        "granola/granola-chatty",
        name,
        None,
        "Completed",
    )
    assert ended["message"].startswith("granola-")
    assert standing.ask(f"/flow_runs/{run['id']}")["state"]["message"].endswith(f" as {ended['run_id']}")
    assert not any("nanobind" in line or "Traceback" in line for line in [*served.lines, *again.lines])


def test_prefect_yaml_has_every_deployment_and_worker_runs_them(
    standing: Standing, factmill: Factmill, tmp_path: Path
) -> None:
    def prefect(*words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "prefect", "--no-prompt", *words], cwd=tmp_path, env=result)

    # a folder whose modules have the names of factmill's folders; `python -m` imports from it first
    (tmp_path / "flows").mkdir()
    for name in ("tasks.py", "flows/__init__.py"):
        (tmp_path / name).write_text("raise RuntimeError('a module of the user was imported')\n")
    (tmp_path / "prefect.yaml").write_bytes((ROOT / "prefect.yaml").read_bytes())
    result = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
        "FACTMILL_HOME": str(factmill.home),
    }
    result |= {"PREFECT_HOME": str(factmill.home / "prefect"), "PREFECT_API_URL": standing.api}
    assert prefect("work-pool", "create", "factmill", "--type", "process").wait() == 0
    assert prefect("deploy", "--all").wait() == 0
    for name in (*BENCHMARKS, "rebuild"):
        standing.deployment(f"{name}/{name}-pool")
    run = standing.start("granola/granola-pool", params=short(2)).json()
    worker = prefect("worker", "start", "--pool", "factmill")
    try:
        assert standing.end_of(run["id"])["message"].startswith("granola-")
    finally:
        worker.terminate()
        worker.wait()


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (["--world", "nowhere.toml"], "expected `embedded`, `live` or the path of a TOML file"),
        (["--world", "live", "--benchmarks", "granola"], "granola: "),
        (
            ["--benchmarks", "granola", "--evaluate", "nobody"],
            "granola: --evaluate nobody: the built-in world 'embedded' has no chat model",
        ),
        (["--cron", "often"], "--cron: "),
        (["--cron", "0 3 1 * *", "--interval", "1d"], "--cron and --interval: "),
        (["--interval", "0"], "--interval 0: "),
        (["--cron", "0 3 1 * *", "--timezone", "Mars/Olympus"], "'Mars/Olympus': expected the name of a time zone"),
        (["--interval", "1 year"], "'1 year' is not an age; expected one such as 90m, 12h"),
    ],
)
def test_invalid_serve_arguments_are_reported_at_once(factmill: Factmill, messages: list[str], said: str) -> None:
    ran = factmill("serve", *messages)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_serve_without_server_explains_next_step(factmill: Factmill) -> None:
    ran = Factmill(factmill.home)("serve")
    assert ran.code == 2
    assert "`prefect server start`" in ran.err and "PREFECT_API_URL=http://127.0.0.1:4200/api factmill serve" in ran.err


def test_config_file_with_unknown_settings_is_rejected(factmill: Factmill, tmp_path: Path) -> None:
    for text, said in (
        ("granola = 3", "serve.toml: "),
        ("often = true", "serve.toml: often: Extra inputs are not permitted"),
        ("[slaq]\nper_half = 0", "per_half: Input should be greater than or equal to 1"),
    ):
        (tmp_path / "serve.toml").write_text(text, "utf-8")
        ran = factmill("serve", "--config", tmp_path / "serve.toml")
        assert (ran.code, said in ran.err) == (2, True), ran.err


def test_unwritable_log_lines_end_no_run() -> None:
    program = "import os; from factmill.flows.serving.runner import ServeLogPrinter; ServeLogPrinter(True).note('x'); os._exit(7)"
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([sys.executable, "-c", program], stdout=full, check=False).returncode == 7
