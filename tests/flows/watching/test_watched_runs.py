"""Test how runs look on a standing Prefect server: names, log, progress, artifacts, and the end of killed ones."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.processes.standing_prefect import ask_server

_LIMIT_S = 120
"""Far above any normal duration, so the test does not wait forever for a missing line."""


class Model:
    """A model that answers once released; the first request sets `asked`."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.status = 200
        self.refusal = ""
        self.web = ScriptedChat(self._answer)
        self.web.free.clear()

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        self.asked.set()
        asked = re.search(
            r"<answer>(.+)</answer>[^$]*<about_the_answer>(.+)</about_the_answer>", messages[-1]["content"]
        )
        return self.status, self.refusal or ("1:: {}\n2:: {}".format(*asked.groups()) if asked else "Yes")


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.web.close()


def ask(api: str, path: str, **body: Any) -> Any:
    reply = ask_server().post(f"{api}/{path}", json=body, timeout=60)
    reply.raise_for_status()
    return reply.json()


def wait_for(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _LIMIT_S
    while not (seen := look()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return seen


def test_next_run_ends_killed_run_and_reports_progress(
    factmill_on_prefect: Factmill, prefect_api: str, model: Model, tmp_path: Path
) -> None:
    world = write_chat_world(tmp_path, model.web.url, ["author"], world="chatty")
    name = f"granola · {world.stem} · P19 · samples 1 · 4"
    options = ["build", "granola", "--world", world, "--relations", "P19", "--limit", "4", "--samples", "1", "--json"]
    runs = lambda: ask(prefect_api, "flow_runs/filter", flow_runs={"name": {"any_": [name]}}, sort="START_TIME_ASC")  # noqa: E731
    of = lambda run: {"flow_run_id": {"any_": [run["id"]]}}  # noqa: E731

    killed = factmill_on_prefect.start(*options, TEST_KEY="x")
    model.asked.wait(_LIMIT_S)
    (run,) = runs()

    def read_progress() -> Any:
        found = ask(prefect_api, "artifacts/filter", artifacts={**of(run), "type": {"any_": ["progress"]}})
        return [each for each in found if each["description"].startswith("generate_granular_answers: ")]

    (progress,) = wait_for(read_progress)
    killed.kill()
    killed.wait()
    assert runs()[0]["state"]["type"] == "RUNNING"
    assert (progress["key"], progress["data"]) == ("granola-generate-granular-answers", 0)
    assert progress["description"].endswith(", 0 of 4 replies")

    model.web.free.set()
    ran = factmill_on_prefect.run_process(*options, TEST_KEY="x")
    assert ran.code == 0, ran.err
    first, second = runs()
    assert (first["state"]["type"], second["state"]["type"]) == ("CRASHED", "COMPLETED")
    assert "process of this run was gone" in first["state"]["message"]
    (crashed,) = ask(prefect_api, "logs/filter", logs={**of(first), "level": {"ge_": 40}})
    assert crashed["message"] == f"Crashed: {first['state']['message']}"
    assert [each["description"].endswith(" replies; crashed here") for each in read_progress()] == [True]
    left = {each.name for each in (factmill_on_prefect.home / "prefect" / "runs").iterdir()}
    assert not left & {first["id"], second["id"]}

    def read_log() -> Any:
        lines = [each["message"] for each in ask(prefect_api, "logs/filter", logs=of(second), sort="TIMESTAMP_ASC")]
        return lines if lines and lines[-1].startswith("done: ") else None

    lines = wait_for(read_log)
    assert lines[0].startswith(f"building granola in world {world.stem}")
    stages = [line.partition(":")[0] for line in lines if " rows in, " in line]
    assert stages == [stage["stage"] for stage in ran.json["stages"]]
    artifacts = {each["key"]: each["data"] for each in ask(prefect_api, "artifacts/filter", artifacts=of(second))}
    funnel = json.loads(artifacts["granola-funnel"])
    columns = (
        "stage, rows in, rows out, rejected, merged, calls sent, replayed, US$, seconds, why rejected, what it does"
    )
    assert list(funnel[0]) == columns.split(", ")
    assert funnel[5]["what it does"].startswith("The author model writes answers from fine to coarse")
    assert second["tags"] == ["factmill", "benchmark:granola", f"world:{world.stem}"]
    assert "](file://" in artifacts["granola-page"]
    assert artifacts["granola-figures"].count("](data:image/svg+xml;base64,") > 2
    sample = json.loads(artifacts["granola-sample"])
    assert next(iter(sample[0])) == "question"
    assert sample[0]["granola_answers"].startswith("Chennai | capital of Tamil Nadu")


def test_failed_run_logs_reason(factmill_on_prefect: Factmill, prefect_api: str, model: Model, tmp_path: Path) -> None:
    world = write_chat_world(tmp_path, model.web.url, ["author"])
    model.status = 401
    model.web.free.set()
    ran = factmill_on_prefect("build", "granola", "--world", world, "--limit", "3", "--samples", "1", TEST_KEY="x")
    assert ran.code == 1
    (run,) = ask(
        prefect_api, "flow_runs/filter", flow_runs={"name": {"any_": [f"granola · {world.stem} · samples 1 · 3"]}}
    )
    assert run["state"]["type"] == "FAILED"
    chosen = {"flow_run_id": {"any_": [run["id"]]}, "level": {"ge_": 40}}

    def read_failure() -> Any:
        lines = [each["message"] for each in ask(prefect_api, "logs/filter", logs=chosen)]
        return [line for line in lines if line.startswith("Failed: ")]

    (line,) = wait_for(read_failure)
    assert line.startswith("Failed: ServiceUnreachable: model tester at ")


def test_build_publishing_nothing_still_records_its_stages(
    factmill_on_prefect: Factmill, prefect_api: str, model: Model, tmp_path: Path
) -> None:
    world = write_chat_world(tmp_path, model.web.url, ["author"])
    model.refusal = "I'm sorry, but I can't assist with that."
    model.web.free.set()
    ran = factmill_on_prefect("build", "granola", "--world", world, "--limit", "2", "--samples", "1", TEST_KEY="x")
    assert ran.code == 1
    assert "with that. What to do: choose a model that does not refuse" in " ".join(ran.err.split())
    (run,) = ask(
        prefect_api, "flow_runs/filter", flow_runs={"name": {"any_": [f"granola · {world.stem} · samples 1 · 2"]}}
    )
    left = ask(prefect_api, "artifacts/filter", artifacts={"flow_run_id": {"any_": [run["id"]]}})
    artifacts = {each["key"]: each["data"] for each in left}
    assert json.loads(artifacts["granola-funnel"])[-1]["why rejected"] == "refused 2"
    (reject,) = json.loads(artifacts["granola-rejects"])
    assert (reject["stage"], reject["reason"], reject["rows"]) == ("generate_granular_answers", "refused", 2)
    assert reject["the first"].startswith("the model refuses: ")
