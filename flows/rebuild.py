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

from factmill.flows.commands.release import release_gated
from factmill.flows.commands.report import report_evaluation
from factmill.flows.prefect_server import LOOK_AGAIN_S
from factmill.flows.running import make_build
from factmill.flows.served import end_in_state, name_error, tell_build
from factmill.flows.serving import ChosenBenchmarks, RebuildParams, check_keys
from factmill.flows.watching.artifacts import leave_page
from factmill.flows.watching.runs import watched
from factmill.tasks import progress
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.runs import holding
from factmill.tasks.engine.spending.bounds import Purse
from factmill.tasks.errors import BudgetReached, BuildError, BuildHeld, PrefectLost
from factmill.tasks.evaluation.record import Evaluation, EvaluationParams, settle_batches
from factmill.tasks.files import absolute_path
from factmill.tasks.options import BuildReport, Params, RunOptions, warehouse_of
from factmill.tasks.release.core.choosing import Gates
from factmill.tasks.settings import home
from factmill.tasks.storage.recording.folders import work_folder

M = TypeVar("M", BuildReport, str)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one build, evaluation or release."""

    what: str
    ending: str
    """made, failed, stopped (by the budget), or left alone (another run is making it)."""
    said: str


@watched
@flow(name="rebuild", validate_parameters=True, persist_result=False)
def rebuild(params: RebuildParams = RebuildParams(), run: RunOptions = RunOptions()) -> State:  # type: ignore[valid-type] # noqa: B008 - frozen
    """Make benchmarks one after another and measure models on them; one that fails leaves the others be."""
    return end_in_state(lambda: rebuild_all(params, run))


def rebuild_all(params: ChosenBenchmarks, run: RunOptions) -> str:
    """Rebuild and return a summary; at the end, BuildError lists failures, BudgetReached what was stopped."""
    check_keys(params, run)
    chosen = params.chosen()
    with holding(work_folder(warehouse_of(run)) / "rebuild", "rebuilding"), ending_with_a_part():
        done = create_progress_artifact(0.0, key="rebuild-progress", description=f"0 of {len(chosen)} benchmarks")
        outcomes: list[Outcome] = []
        purse = Purse(run)
        for number, benchmark in enumerate(chosen, start=1):
            outcomes += _rebuild(benchmark, params, purse)
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
        raise BudgetReached(
            "this rebuild", f"stopped, and gone on with by the next rebuild: {names}. {stopped[0].said}"
        )
    return "; ".join(each.said for each in outcomes)


def _rebuild(benchmark: Benchmark, params: ChosenBenchmarks, purse: Purse) -> list[Outcome]:
    """Build a benchmark, evaluate models on it and perhaps release it; builds and evaluations are child runs."""
    own: Params = getattr(params, benchmark.name)
    build, report = _try(benchmark.name, lambda: make_build(benchmark, own, purse.left))
    outcomes = [build]
    if report is None:
        return outcomes
    if not report.up_to_date:
        leave_page(report)
    for model, evaluation in params.evaluations(benchmark):
        asked = evaluation.params.model_validate({"model": model, "build": report.build_id})
        outcomes.append(_try(f"{model} on {benchmark.name}", partial(_evaluate, evaluation, asked, purse.left))[0])
    if params.release and not any(each.ending in ("failed", "stopped") for each in outcomes):
        gates = Gates(
            rows_within=params.rows_within,
            most_lost=params.most_lost,
            judge_card=not params.unchecked_judge,
            explained=not params.unexplained,
        )
        folder = absolute_path(params.release)
        release = partial(release_gated, warehouse_of(purse.left), report.build_id, folder, gates)
        outcomes.append(_try(f"release of {benchmark.name}", release)[0])
    return outcomes


def _evaluate(evaluation: Evaluation, params: EvaluationParams, run: RunOptions) -> BuildReport:
    # answers of models do not change with items and pages
    made = make_build(evaluation, params, settle_batches(params, run.model_copy(update={"since": None})))
    report_evaluation(warehouse_of(run), made.build_id, home() / "reports")
    return made


def _try(what: str, make: Callable[[], M]) -> tuple[Outcome, M | None]:
    report = None
    try:
        report = make()
        outcome = Outcome(what, "made", report if isinstance(report, str) else tell_build(report))
    except PrefectLost:
        raise  # the whole rebuild waits for the server and then finds the finished parts
    except BuildHeld as held:
        outcome = Outcome(what, "left alone", str(held))
    except BudgetReached as reached:
        outcome = Outcome(what, "stopped", str(reached))
    except Exception as error:  # noqa: BLE001 - the others go on; the child run holds the full error
        outcome = Outcome(what, "failed", name_error(error))
    progress.log(f"{what}: {outcome.ending}: {outcome.said}", "error" if outcome.ending == "failed" else "info")
    return outcome, report


@contextmanager
def ending_with_a_part() -> Iterator[None]:
    """Cancel this run when a user cancels one of its child runs: one process makes them all."""
    run_id, over = FlowRunContext.get().flow_run.id, threading.Event()  # type: ignore[union-attr]
    thread = threading.Thread(target=copy_context().run, args=(_cancel_with_a_part, run_id, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _cancel_with_a_part(run_id: UUID, over: threading.Event) -> None:
    below = {"parent_flow_run_id": {"any_": [run_id]}, "state": {"type": {"any_": [StateType.CANCELLING]}}}
    with get_client(sync_client=True) as client:
        while not over.wait(LOOK_AGAIN_S):
            try:
                if found := client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(below)):
                    client.set_flow_run_state(
                        run_id, Cancelling(message=f"{found[0].name} was cancelled, and this with it")
                    )
                    return
            except Exception:  # noqa: BLE001, S112 - a server that is away cancels nothing; the build itself reports it
                continue
