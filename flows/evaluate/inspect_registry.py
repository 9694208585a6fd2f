"""The benchmarks as Inspect AI tasks; Inspect finds this module by its entry point: `inspect eval factmill/granola`."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import get_model, model_roles
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

import factmill
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.evaluate.sessions import open_session
from factmill.tasks.core.fingerprints import canonical_json
from factmill.tasks.evaluation.harness.inspect_tasks import hold, list_samples, list_values, score_sample
from factmill.tasks.evaluation.offline import Session
from factmill.tasks.evaluation.record import EXACT, Evaluation

T = TypeVar("T", bound=Callable[..., Any])
Options = dict[str, Any]
GRADER = "grader"
"""Model role of the judge: `--model-role grader=NAME`; without one, the program `exact` judges."""


def _ours(function: T) -> T:
    """Set a function's module to `factmill`, by which Inspect names what it registers."""
    function.__module__ = factmill.__name__
    return function


@cache
def _open(options: str) -> Session:
    return open_session(**json.loads(options))


def _session(options: Options) -> Session:
    return _open(canonical_json(options))


@metric(scores="unreduced")
@_ours
def measured(options: Options, group_by: list[str]) -> Metric:
    """The benchmark's headline metrics, each with its n, what is unscored and its interval."""

    def compute(scores: list[SampleScore]) -> Value:
        return list_values(_session(options), scores, group_by)

    return compute


@solver
@_ours
def asked(options: Options, max_tokens: int | None = None) -> Solver:
    """Puts the question as its setting has it, in as many turns as that takes."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - its protocol
        return await hold(_session(options), state, max_tokens)

    return solve


@scorer(metrics=[])
@_ours
def scored(options: Options, judge: str | None = None) -> Scorer:
    """Reads, judges and scores an answer as `factmill evaluate` does."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - its protocol
        has_grader = judge != EXACT and GRADER in model_roles()
        return await score_sample(_session(options), state, get_model(role=GRADER) if has_grader else None)

    return score


def _make_task(evaluation: Evaluation) -> Callable[..., Task]:
    name = evaluation.of.name

    def make(
        source: str | None = None,
        setting: str | list[str] | None = None,
        judge: str | None = None,
        group_by: str | list[str] | None = None,
        max_tokens: int | None = None,
        **more: Any,
    ) -> Task:
        settings = _list(setting) or list(evaluation.usual)
        options = {"benchmark": name, "source": source, "settings": settings, **more}
        return Task(
            dataset=MemoryDataset(list_samples(_session(options)), name=name),
            solver=asked(options, max_tokens),
            scorer=scored(options, judge),
            metrics=[measured(options, _list(group_by))],
            # a question that the model did not receive stays in the metrics, as unscored
            score_on_error=True,
        )

    make.__name__ = name
    make.__doc__ = f"""{evaluation.title}.

    `source`: a build's id, or a folder that `factmill export` wrote; by default the newest build of factmill's home.
    `setting`: one or several of {", ".join(evaluation.settings)}. `judge`: exact, a program, instead of the model in the
    role `grader`. `group_by`: columns by which metrics are told too. `max_tokens`: room of an answer, for a model that
    thinks first. Beside these all that `factmill evaluate {name} --help` names, as Python names it: `-T limit=20`.
    """
    return task(_ours(make))


def _list(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


TASKS = {name: _make_task(evaluation) for name, evaluation in EVALUATIONS.items()}
"""Benchmark → its Inspect task."""
