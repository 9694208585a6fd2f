"""Rebuilds: a flow that makes chosen benchmarks one after another, and measures models on them."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import cast

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State

from flows.commands.reports import report_evaluations
from flows.evaluate.evaluations import EVALUATIONS
from flows.running import make_build
from flows.served import end_in_state, name_error, tell_build
from flows.serving import ChosenBenchmarks, RebuildParams
from flows.watching.runs import watched
from tasks import progress
from tasks.engine.benchmark import Benchmark
from tasks.engine.holding import holding
from tasks.errors import BuildError, BuildHeld
from tasks.evaluation.record import Evaluation, EvaluationParams, settle_batches
from tasks.options import BuildReport, Params, RunOptions, warehouse_of
from tasks.settings import home, load_world
from tasks.storage.recorder import work_folder


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one build or evaluation."""

    what: str
    ending: str
    """made, failed, or left alone (another run is at it)."""
    said: str


@watched
@flow(name="rebuild", validate_parameters=True, persist_result=False)
def rebuild(params: RebuildParams = RebuildParams(), run: RunOptions = RunOptions()) -> State:  # type: ignore[valid-type] # noqa: B008 - frozen
    """Make benchmarks one after another and measure models on them; one that fails leaves the others be."""
    return end_in_state(lambda: rebuild_all(params, run))


def rebuild_all(params: ChosenBenchmarks, run: RunOptions) -> str:
    """Rebuild, and return what was made. BuildError, when all is done, says what failed and why."""
    load_world(run.world, run.graph)
    with holding(work_folder(warehouse_of(run)) / "rebuild", "rebuilding"):
        outcomes = [each for benchmark in params.chosen() for each in _rebuild(benchmark, params, run)]
    create_table_artifact(
        table=[asdict(each) for each in outcomes],
        key="rebuild",
        description="What became of each build and evaluation; each is a run of its own, below this one",
    )
    if failed := [f"{each.what}: {each.said}" for each in outcomes if each.ending == "failed"]:
        raise BuildError(f"{len(failed)} of {len(outcomes)} failed: {'; '.join(failed)}")
    return "; ".join(each.said for each in outcomes)


def _rebuild(benchmark: Benchmark, params: ChosenBenchmarks, run: RunOptions) -> list[Outcome]:
    """Build a benchmark and measure models on it, each a run of its own below this one."""
    own: Params = getattr(params, benchmark.name)
    build, report = _try(benchmark.name, lambda: make_build(benchmark, own, run))
    outcomes, evaluation = [build], EVALUATIONS.get(benchmark.name)
    if report is not None and evaluation is not None:
        for model in params.evaluate:
            asked = cast(EvaluationParams, evaluation.params.model_validate({"model": model, "build": report.build_id}))
            outcomes.append(_try(f"{model} on {benchmark.name}", partial(_evaluate, evaluation, asked, run))[0])
    return outcomes


def _evaluate(evaluation: Evaluation, params: EvaluationParams, run: RunOptions) -> BuildReport:
    made = make_build(evaluation, params, settle_batches(params, run))
    report_evaluations(warehouse_of(run), [made.build_id], home() / "reports")
    return made


def _try(what: str, make: Callable[[], BuildReport]) -> tuple[Outcome, BuildReport | None]:
    try:
        report = make()
    except BuildHeld as held:
        return _tell(Outcome(what, "left alone", str(held))), None
    except Exception as error:  # noqa: BLE001 - whatever fails, the others go on; its own run tells it whole
        return _tell(Outcome(what, "failed", name_error(error))), None
    return _tell(Outcome(what, "made", tell_build(report))), report


def _tell(outcome: Outcome) -> Outcome:
    """Put an outcome into the log of the rebuild."""
    progress.log(f"{outcome.what} {outcome.ending}: {outcome.said}", "error" if outcome.ending == "failed" else "info")
    return outcome
