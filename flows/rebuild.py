"""The rebuild flow, which builds benchmarks one after another, evaluates models on them and releases them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar, cast
from uuid import UUID

from prefect import flow
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State, StateType
from prefect.context import FlowRunContext
from prefect.states import Cancelling

from factmill.flows.build_runner import make_or_reuse_build
from factmill.flows.commands.release import release_if_gates_pass
from factmill.flows.commands.report import write_evaluation_report
from factmill.flows.deployment_flows import (
    format_build_outcome,
    format_error_with_class_name,
    run_and_return_final_state,
)
from factmill.flows.prefect_server import SERVER_POLL_INTERVAL_S
from factmill.flows.serve_options import (
    MultiBenchmarkRebuildParamsBase,
    RebuildParams,
    check_rebuild_models_and_credentials,
)
from factmill.flows.watching.flow_runs import REBUILD_FLOW, track_flow_runs
from factmill.tasks import progress
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.runs import run_lock
from factmill.tasks.engine.spending.budgets import MultiBuildBudget
from factmill.tasks.errors import BudgetExhausted, BuildAlreadyRunning, BuildError, PrefectServerLost
from factmill.tasks.evaluation.definition import Evaluation, EvaluationParams, enlarge_batches_if_no_model_calls
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import BenchmarkParams, BuildReport, RunOptions, resolve_warehouse_path
from factmill.tasks.release.core.selection_and_gates import ReleaseGates
from factmill.tasks.settings import factmill_home
from factmill.tasks.storage.recording.work_folders import work_folder

M = TypeVar("M", BuildReport, str)


@dataclass(frozen=True, slots=True)
class RebuildStepOutcome:
    """Outcome of one build, evaluation or release."""

    what: str
    ending: str
    """made, failed, stopped (by the budget), or left alone (another run is making it)."""
    said: str


@track_flow_runs
@flow(name=REBUILD_FLOW, validate_parameters=True, persist_result=False)
def rebuild(params: RebuildParams = RebuildParams(), run: RunOptions = RunOptions()) -> State:  # type: ignore[valid-type] # noqa: B008 - frozen
    """Make benchmarks one after another and measure models on them; one that fails leaves the others be."""
    return run_and_return_final_state(lambda: rebuild_and_evaluate_benchmarks(params, run))


def rebuild_and_evaluate_benchmarks(params: MultiBenchmarkRebuildParamsBase, run: RunOptions) -> str:
    """Rebuild and return a summary; at the end, BuildError lists failures, BudgetExhausted what was stopped."""
    check_rebuild_models_and_credentials(params, run)
    chosen = params.list_chosen_benchmarks()
    with (
        run_lock(work_folder(resolve_warehouse_path(run)) / "rebuild", "rebuilding"),
        cancelling_if_child_run_cancelled(),
    ):
        done = create_progress_artifact(0.0, key="rebuild-progress", description=f"0 of {len(chosen)} benchmarks")
        outcomes: list[RebuildStepOutcome] = []
        shared_budget = MultiBuildBudget(run)
        for number, benchmark in enumerate(chosen, start=1):
            outcomes += _build_evaluate_and_release(benchmark, params, shared_budget)
            update_progress_artifact(
                cast(UUID, done), 100.0 * number / len(chosen), f"{number} of {len(chosen)} benchmarks"
            )
    create_table_artifact(
        table=[asdict(each) for each in outcomes],
        key="rebuild",
        description="What became of each build and evaluation; each is a run of its own, below this one",
    )
    if failed := [f"{each.what}: {each.said}" for each in outcomes if each.ending == "failed"]:
        raise BuildError(f"{len(failed)} of {len(outcomes)} failed: {'; '.join(failed)}")
    if stopped := [each for each in outcomes if each.ending == "stopped"]:
        names = ", ".join(each.what for each in stopped)
        raise BudgetExhausted(
            "this rebuild", f"stopped, and gone on with by the next rebuild: {names}. {stopped[0].said}"
        )
    return "; ".join(each.said for each in outcomes)


def _build_evaluate_and_release(
    benchmark: Benchmark, params: MultiBenchmarkRebuildParamsBase, budget: MultiBuildBudget
) -> list[RebuildStepOutcome]:
    """Build a benchmark, evaluate models on it and perhaps release it; builds and evaluations are child runs."""
    own: BenchmarkParams = getattr(params, benchmark.name)
    build, report = _attempt_rebuild_part(
        benchmark.name, lambda: make_or_reuse_build(benchmark, own, budget.remaining_options)
    )
    outcomes = [build]
    if report is None:
        return outcomes
    for model, evaluation in params.list_model_evaluations(benchmark):
        asked = evaluation.params.model_validate({"model": model, "build": report.build_id})
        outcomes.append(
            _attempt_rebuild_part(
                f"{model} on {benchmark.name}",
                partial(_evaluate_and_write_report, evaluation, asked, budget.remaining_options),
            )[0]
        )
    if params.release and not any(each.ending in ("failed", "stopped") for each in outcomes):
        gates = ReleaseGates(
            max_row_change=params.rows_within,
            max_reject_share=params.most_lost,
            requires_judge_card=not params.unchecked_judge,
            requires_explained_changes=not params.unexplained,
        )
        folder = resolve_absolute_path(params.release)
        release = partial(
            release_if_gates_pass,
            resolve_warehouse_path(budget.remaining_options),
            report.build_id,
            folder,
            gates,
            params.authors,
        )
        outcomes.append(_attempt_rebuild_part(f"release of {benchmark.name}", release)[0])
    return outcomes


def _evaluate_and_write_report(evaluation: Evaluation, params: EvaluationParams, run: RunOptions) -> BuildReport:
    # answers of models do not change with items and pages
    made = make_or_reuse_build(
        evaluation, params, enlarge_batches_if_no_model_calls(params, run.model_copy(update={"since": None}))
    )
    write_evaluation_report(resolve_warehouse_path(run), made.build_id, factmill_home() / "reports")
    return made


def _attempt_rebuild_part(what: str, make: Callable[[], M]) -> tuple[RebuildStepOutcome, M | None]:
    report = None
    try:
        report = make()
        outcome = RebuildStepOutcome(what, "made", report if isinstance(report, str) else format_build_outcome(report))
    except PrefectServerLost:
        raise  # the whole rebuild waits for the server and then finds the finished parts
    except BuildAlreadyRunning as held:
        outcome = RebuildStepOutcome(what, "left alone", str(held))
    except BudgetExhausted as reached:
        outcome = RebuildStepOutcome(what, "stopped", str(reached))
    except Exception as error:  # noqa: BLE001 - the others go on; the child run holds the full error
        outcome = RebuildStepOutcome(what, "failed", format_error_with_class_name(error))
    progress.log_to_current_run(
        f"{what}: {outcome.ending}: {outcome.said}", "error" if outcome.ending == "failed" else "info"
    )
    return outcome, report


@contextmanager
def cancelling_if_child_run_cancelled() -> Iterator[None]:
    """Cancel this run when a user cancels one of its child runs: one process makes them all."""
    run_id, over = FlowRunContext.get().flow_run.id, threading.Event()  # type: ignore[union-attr]
    thread = threading.Thread(target=copy_context().run, args=(_cancel_when_child_cancelled, run_id, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _cancel_when_child_cancelled(run_id: UUID, over: threading.Event) -> None:
    below = {"parent_flow_run_id": {"any_": [run_id]}, "state": {"type": {"any_": [StateType.CANCELLING]}}}
    with get_client(sync_client=True) as client:
        while not over.wait(SERVER_POLL_INTERVAL_S):
            try:
                if found := client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(below)):
                    client.set_flow_run_state(
                        run_id, Cancelling(message=f"{found[0].name} was cancelled, and this with it")
                    )
                    return
            except Exception:  # noqa: BLE001, S112 - a server that is away cancels nothing; the build itself reports it
                continue
