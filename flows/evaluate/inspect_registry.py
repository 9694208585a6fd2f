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
from factmill.flows.evaluate.sessions import open_evaluation_session
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.evaluation.definition import EXACT_JUDGE, Evaluation
from factmill.tasks.evaluation.harness.inspect_ai_adapter import (
    compute_sample_metrics,
    make_inspect_samples,
    run_sample_dialogue,
    score_sample,
)
from factmill.tasks.evaluation.scoring_session import EvaluationSession

T = TypeVar("T", bound=Callable[..., Any])
TaskOptions = dict[str, Any]
GRADER_ROLE = "grader"
"""Model role of the judge: `--model-role grader=NAME`; without one, the program `exact` judges."""


def _set_module_to_factmill(function: T) -> T:
    """Set a function's module to `factmill`, by which Inspect names what it registers."""
    function.__module__ = factmill.__name__
    return function


@cache
def _open_cached_session(options: str) -> EvaluationSession:
    return open_evaluation_session(**json.loads(options))


def _get_task_session(options: TaskOptions) -> EvaluationSession:
    return _open_cached_session(canonical_json(options))


@metric("measured", scores="unreduced")
@_set_module_to_factmill
def headline_metrics_with_intervals(options: TaskOptions, group_by: list[str]) -> Metric:
    """The benchmark's headline metrics, each with its n, what is unscored and its interval."""

    def compute(scores: list[SampleScore]) -> Value:
        return compute_sample_metrics(_get_task_session(options), scores, group_by)

    return compute


@solver("asked")
@_set_module_to_factmill
def benchmark_dialogue_solver(options: TaskOptions, max_tokens: int | None = None) -> Solver:
    """Puts the question as its setting has it, in as many turns as that takes."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - its protocol
        return await run_sample_dialogue(_get_task_session(options), state, max_tokens)

    return solve


@scorer(metrics=[], name="scored")
@_set_module_to_factmill
def benchmark_answer_scorer(options: TaskOptions, judge: str | None = None) -> Scorer:
    """Reads, judges and scores an answer as `factmill evaluate` does."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - its protocol
        has_grader = judge != EXACT_JUDGE and GRADER_ROLE in model_roles()
        return await score_sample(
            _get_task_session(options), state, get_model(role=GRADER_ROLE) if has_grader else None
        )

    return score


def _make_inspect_task(evaluation: Evaluation) -> Callable[..., Task]:
    name = evaluation.benchmark.name

    def make(
        source: str | None = None,
        setting: str | list[str] | None = None,
        judge: str | None = None,
        group_by: str | list[str] | None = None,
        max_tokens: int | None = None,
        **more: Any,
    ) -> Task:
        settings = _wrap_single_setting_in_list(setting) or list(evaluation.default_settings)
        options = {"benchmark": name, "source": source, "settings": settings, **more}
        return Task(
            dataset=MemoryDataset(make_inspect_samples(_get_task_session(options)), name=name),
            solver=benchmark_dialogue_solver(options, max_tokens),
            scorer=benchmark_answer_scorer(options, judge),
            metrics=[headline_metrics_with_intervals(options, _wrap_single_setting_in_list(group_by))],
            # a question that the model did not receive stays in the metrics, as unscored
            score_on_error=True,
        )

    make.__name__ = name
    make.__doc__ = f"""{evaluation.title}.

    `source`: a build's id, or a folder that `factmill export` wrote; by default the newest build of factmill's home.
    `setting`: one or several of {", ".join(evaluation.settings)}. `judge`: exact, a program, instead of the model in the
    role `grader`. `group_by`: columns by which metrics are also grouped. `max_tokens`: room of an answer, for a model that
    thinks first. Beside these all that `factmill evaluate {name} --help` names, as Python names it: `-T limit=20`.
    """
    return task(_set_module_to_factmill(make))


def _wrap_single_setting_in_list(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


INSPECT_TASKS = {name: _make_inspect_task(evaluation) for name, evaluation in EVALUATIONS.items()}
"""Benchmark → its Inspect task."""
