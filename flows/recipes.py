"""Makes a benchmark's Prefect flow from its record and steps; pauses a run for decisions on flagged rows.

A lock covers this module by definition (tasks/engine/naming/code_versions.py), and with a recipe every step in its list.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from prefect import Flow, Task, flow
from prefect.artifacts import create_table_artifact
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from pydantic import Field

from factmill.flows.watching.artifacts import create_build_artifacts, format_artifact_row
from factmill.tasks.core.batch_receipts import BatchReceipt
from factmill.tasks.core.review import format_review_queue_csv, parse_review_queue_csv
from factmill.tasks.engine.batches import StageOutputShards
from factmill.tasks.engine.benchmark import Benchmark, BuildInputs, BuildInputsAndSourceFiles
from factmill.tasks.engine.building import BuildInProgress, open_build
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.options import BenchmarkParams, BuildReport, RunOptions, resolve_warehouse_path
from factmill.tasks.progress import print_and_log
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.human_judgments import load_decisions, load_review_queue, save_decisions

DECISION_TIMEOUT_S = 7 * 24 * 3600
"""Time limit of a pause for decisions, after which the run fails; the published build stays."""
_DECISION_POLL_INTERVAL_S = 2
_DECISION_INSTRUCTIONS = (
    "{rows} rows that a check flagged wait for a decision; the artifact {key} of this run lists them. Submit goes on with "
    "what is decided; what stays open is left out of the benchmark.\n\n"
    "In a spreadsheet: `factmill review {build} --to FILE.csv`, fill it in, `factmill review --from FILE.csv`, then "
    "submit this form as it is.\n\nOr here, in the text below."
)
_DECISION_COLUMNS_HELP = (
    "A line a row. Fill in `decision`: keep, drop or edit; with edit, `edited`: NAME: new text, a line each, as in "
    "`proposed`; `reviewer`: your name; `note`, if you like. Leave the other columns as they are."
)
_DECISION_ARTIFACT_COLUMNS = ("flag", "detail", "context", "proposed", "row_id", "id")
"""Columns of the artifact, in reading order."""


class ReviewDecisionsInput(RunInput):
    """What people decided."""

    queue: str
    """The review queue as CSV, filled in."""


def pause_and_count_decisions(report: BuildReport, run: RunOptions) -> int:
    """Pause this flow run until people decide on a build's open review items; return the number of decisions.

    Decisions arrive in the form, or by `factmill review --from`, and are stored in the warehouse. SourceError if the
    form's text cannot be parsed.
    """
    warehouse = resolve_warehouse_path(run)
    queue = load_review_queue(warehouse, resolve_build(warehouse, report.build_id))
    waiting = [item for item in queue if item.decision == "open"]
    if not waiting:
        return 0
    key = f"{report.benchmark}-review"
    create_table_artifact(
        table=[
            format_artifact_row(
                item.model_dump(mode="json", include=set(_DECISION_ARTIFACT_COLUMNS)), _DECISION_ARTIFACT_COLUMNS
            )
            for item in waiting
        ],
        key=key,
        description=f"{len(waiting)} flagged rows wait for a decision: press Resume on the paused run; its form says how.",
    )
    print_and_log(
        f"note: {len(waiting)} flagged rows wait for a decision, {DECISION_TIMEOUT_S // 86_400} days at most: press Resume on the paused "
        f"run {report.benchmark} in the Prefect UI, whose form says how; the run's artifact {key} lists them"
    )
    form = ReviewDecisionsInput.with_initial_data(
        description=_DECISION_INSTRUCTIONS.format(rows=len(waiting), key=key, build=report.build_id),
        queue=Field(
            default=format_review_queue_csv(waiting), title="Decisions, as CSV", description=_DECISION_COLUMNS_HELP
        ),
    )
    answer = pause_flow_run(wait_for_input=form, timeout=DECISION_TIMEOUT_S, poll_interval=_DECISION_POLL_INTERVAL_S)
    save_decisions(warehouse, parse_review_queue_csv(answer.queue, "the input in Prefect"))
    decided = {item.id for item in load_decisions(warehouse, report.benchmark)}
    count = sum(item.id in decided for item in waiting)
    print_and_log(
        f"{count} of {len(waiting)} rows are decided on{'; they are built in now' if count else ', and are left out'}"
    )
    return count


I = TypeVar("I", bound=BuildInputs)  # noqa: E741 - inputs
StepTask = Task[..., BatchReceipt]
RowsByStep = Mapping[StepTask, StageOutputShards]
"""Step → its output rows, in the order of the steps."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A step and the options with which rows pass through it; see `BuildInProgress.run_stage`."""

    step: StepTask
    single_batch: bool = False
    expands: bool = False
    most_rows: int | None = None


def make_recipe(
    record: Benchmark,
    load: StepTask | Callable[[I], StepTask],
    *steps: StepTask | Stage,
    units: Callable[[BuildInputsAndSourceFiles[Any]], Iterable[str]] = lambda locked: locked.files,
    check: Callable[[BuildRun, I], None] | None = None,
    publish: Callable[[BuildInProgress, RowsByStep], BuildReport] | None = None,
) -> Flow[..., BuildReport]:
    """Return the Prefect flow that builds a benchmark; it takes `params` and `run` and has the record's name.

    `load`: the step that reads the source, or a function that chooses it from the inputs. `units`: names of the
    source's units, one batch each; by default its files. `check`: raises a named error, before anything is read, for
    parameters that no service can fulfil. `publish`: publishes the steps' output; by default the last step's rows are
    the main table. If people are asked for decisions (`--review ask`) and make some, the build is made again with them.
    """

    def make(params: BenchmarkParams, run: RunOptions) -> BuildReport:
        locked: BuildInputsAndSourceFiles[Any] = record.resolve_inputs(params, run)
        first = load if isinstance(load, Task) else load(locked.inputs)
        with open_build(record, locked, run) as build:
            if check:
                check(build.run, locked.inputs)
            rows = build.load_source(first, units(locked))
            left = {first: rows}
            for each in steps:
                stage = each if isinstance(each, Stage) else Stage(each)
                rows = build.run_stage(
                    stage.step, rows, single_batch=stage.single_batch, expands=stage.expands, most_rows=stage.most_rows
                )
                left[stage.step] = rows
            report = (
                publish(build, left)
                if publish
                else build.publish({record.main_table: rows.table(record.main_row_model)})
            )
            create_build_artifacts(record, report, rows.all_rows())
        if getattr(params, "review", None) == "ask" and pause_and_count_decisions(report, run):
            # items that are still open are left out
            return make(params.model_copy(update={"review": "manual"}), run)
        return report

    make.__name__ = make.__qualname__ = record.name
    make.__module__, make.__doc__ = record.recipe.partition(":")[0], f"{record.title}."
    make.__defaults__, make.__annotations__["params"] = (record.params(), RunOptions()), record.params
    return flow(name=record.name, validate_parameters=True, persist_result=False)(make)
