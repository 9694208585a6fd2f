"""Test the benchmarks as Inspect AI tasks with its mock model: equal answers give equal figures."""

import math
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval as run_eval
from inspect_ai._util.registry import registry_lookup
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessage, Model, ModelOutput, ModelUsage, get_model
from support.commands.command import ROOT

from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.errors import UsageError

from .conftest import Played

Say = Callable[[list[ChatMessage]], ModelOutput]


def mock(say: Say) -> Model:
    def answer(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        output = say(messages)
        # otherwise the mock model downloads a file to count tokens
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return output

    return get_model("mockllm/model", custom_outputs=answer, memoize=False)


def say_text(text: str, stop: Any = "stop") -> ModelOutput:
    return ModelOutput.from_content("mockllm/model", text, stop_reason=stop)


def run(name: str, folder: Path, model: Model, grader: Model | None = None, **args: Any) -> EvalLog:
    roles: Any = {"grader": grader} if grader else None
    (log,) = run_eval(
        f"factmill/{name}", model=model, task_args=args, log_dir=str(folder), display="none", model_roles=roles
    )
    return log


def read_values(log: EvalLog) -> dict[str, float]:
    assert log.results is not None
    (score,) = log.results.scores
    return {name: metric.value for name, metric in score.metrics.items()}


@pytest.fixture(autouse=True)
def registered() -> None:
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["inspect_ai"]
    EntryPoint("factmill", entry["factmill"], "inspect_ai").load()


def test_every_benchmark_is_registered_as_factmill_task() -> None:
    assert all(registry_lookup("task", f"factmill/{name}") for name in EVALUATIONS)


def test_same_answers_yield_identical_figures(played: Played, tmp_path: Path) -> None:
    name, headline = played.session.evaluation.benchmark.name, played.session.evaluation.headline_metrics
    model = mock(lambda messages: say_text(played.by_prompt[messages[-1].text]))
    part = played.session.evaluation.group_column
    more = {"group_by": part} if part not in ("setting", "split") else {}
    log = run(name, tmp_path, model, source=str(played.store.path), setting=list(played.settings), **more)
    assert log.status == "success", log.error
    values = read_values(read_eval_log(log.location))
    several = len(played.settings) > 1
    shown = [each for each in played.metrics if each["metric"] in headline and each["group_by"] in ("", *more.values())]
    assert len(shown) >= len(played.settings)
    for each in shown:
        place = (each["setting"] if several else "", each["metric"], each["group_by"], each["group"])
        key = "/".join(filter(None, place))
        assert values[key] == each["value"] or (each["value"] is None and math.isnan(values[key])), key
        assert (values[f"{key}_n"], values[f"{key}_unscored"]) == (each["n"], each["n_unscored"]), key
        assert (values.get(f"{key}_ci_low"), values.get(f"{key}_ci_high")) == (each["ci_low"], each["ci_high"]), key


SLAQ = pytest.mark.parametrize("played", ["slaq"], indirect=True)
GRANOLA = pytest.mark.parametrize("played", ["granola"], indirect=True)


@SLAQ
def test_unreadable_answer_is_unscored_and_model_error_is_counted(played: Played, tmp_path: Path) -> None:
    outcomes = iter([say_text("It is", "max_tokens"), say_text("", "content_filter"), None, say_text("It is so.")])

    def say(_: list[ChatMessage]) -> ModelOutput:
        if (outcome := next(outcomes, say_text("No."))) is None:
            raise RuntimeError("the server is gone")
        return outcome

    log = run("slaq", tmp_path, mock(say), source=str(played.store.path), setting="short", limit=1)
    assert log.samples is not None
    rows = [sample.scores["scored"].metadata["row"] for sample in log.samples if sample.scores]  # type: ignore[index]
    assert sorted(row["unscored"] for row in rows) == ["", "", "cut_off", "model_failed", "refused"]
    values = read_values(log)
    # a refusal is wrong
    assert (values["accuracy_n"], values["accuracy_unscored"]) == (3, 2)


@SLAQ
@pytest.mark.parametrize(
    ("verdicts", "accuracy", "n"), [(["Verdict: 1"], 1.0, 5), (["Hm.", "Verdict: 0"], 0.0, 5), (["Hm."], math.nan, 0)]
)
def test_grader_role_model_judges_answers(
    played: Played, tmp_path: Path, verdicts: list[str], accuracy: float, n: int
) -> None:

    def judge(messages: list[ChatMessage]) -> ModelOutput:
        return say_text(verdicts[min(len(verdicts) - 1, "could not be read" in messages[-1].text)])

    model = mock(lambda _: say_text("Something."))
    log = run("slaq", tmp_path, model, mock(judge), source=str(played.store.path), setting="short", limit=1)
    values = read_values(log)
    assert values["accuracy"] == accuracy or math.isnan(accuracy)
    assert (values["accuracy_n"], values["accuracy_unscored"]) == (n, 5 - n)
    exact = run(
        "slaq", tmp_path, model, mock(judge), source=str(played.store.path), setting="short", limit=1, judge="exact"
    )
    assert read_values(exact)["accuracy_n"] == 5


@GRANOLA
def test_multi_turn_setting_uses_harness_model(played: Played, tmp_path: Path) -> None:
    asked: list[str] = []

    def say(messages: list[ChatMessage]) -> ModelOutput:
        asked.append(messages[-1].text)
        return say_text("Aggregated answer: Atlantis" if "<responses>" in messages[-1].text else "Avalon")

    log = run("granola", tmp_path, mock(say), source=str(played.store.path), setting="drag", samples=3, limit=2)
    assert log.samples is not None
    for sample in log.samples:
        assert sample.scores is not None
        row = sample.scores["scored"].metadata["row"]  # type: ignore[index]
        assert (row["answer_read"], row["samples"], row["tokens_out"]) == ("Atlantis", ["Avalon"] * 3, 12)
    assert len(asked) == 2 * 4


@pytest.mark.parametrize("played", ["fanoutqa"], indirect=True)
def test_model_searches_with_harness_tools(played: Played, tmp_path: Path) -> None:
    shown: list[str] = []

    def say(messages: list[ChatMessage]) -> ModelOutput:
        shown.extend(each.text for each in messages if each.role == "tool")
        if any(each.role == "tool" for each in messages):
            return say_text("That is all.")
        return ModelOutput.for_tool_call("mockllm/model", "search", {"title": "Atlantis Colony of Nowhere"})

    log = run("fanoutqa", tmp_path, mock(say), source=str(played.store.path), setting="open_book", limit=1)
    assert log.status == "success", log.error
    assert log.samples is not None
    (sample,) = log.samples
    assert sample.scores is not None, sample.error
    row = sample.scores["scored"].metadata["row"]  # type: ignore[index]
    assert [search["title"] for search in row["searches"]] == ["Atlantis Colony of Nowhere"]
    assert row["answer_read"] == "That is all."
    assert len(shown) == 1


def test_invalid_arguments_name_expected_values(played: Played) -> None:
    task: Any = registry_lookup("task", f"factmill/{played.session.evaluation.benchmark.name}")
    with pytest.raises(UsageError, match="Input should be"):
        task(source=str(played.store.path), setting="loud")
    with pytest.raises(UsageError, match="did you mean limit"):
        task(source=str(played.store.path), limits=3)
