"""Run a build, from its manifest to published tables, stage by stage.

A recipe opens a build, loads a source, passes rows through stages and publishes. The manifest identifies every input by
content. Each stage maps a Prefect task over batches, merges the batches' results into the warehouse in one short
transaction, and checks that rows in = rows out + rejects + merged.
"""

import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from prefect import Task, task
from prefect.settings import get_current_settings
from prefect.task_runners import ThreadPoolTaskRunner

from factmill.tasks import progress
from factmill.tasks.assets import using_own_prompts
from factmill.tasks.clients.sending.sender import cancel_all_sends
from factmill.tasks.core.batch_receipts import (
    PILOT_DRAW_STAGE,
    SUMMED_COUNTS,
    BatchReceipt,
    StageBatch,
    format_batch_name,
    format_stage_summary,
)
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.spending.forecasting import select_pilot_rows
from factmill.tasks.engine.batches import (
    StageOutputShards,
    enlarge_batch_for_many_rows,
    find_batch_receipt,
    make_batch_cache_key,
    open_batch,
)
from factmill.tasks.engine.benchmark import Benchmark, BuildInputs, BuildInputsAndSourceFiles
from factmill.tasks.engine.failures import (
    FAILURE_CAUSES,
    WAITING_REASON,
    all_rows_failed,
    all_rows_left_to_retry,
    count_rejects_by_reason,
    find_main_failure_or_reject_reason,
    format_main_reject_reason_and_advice,
    format_no_answers,
    load_first_evaluation_failure_detail,
    load_first_reject_detail,
)
from factmill.tasks.engine.incremental import (
    get_or_record_world_content_digests,
    revalidate_and_reuse_earlier_replies,
    uses_embedded_world,
)
from factmill.tasks.engine.naming.manifests import (
    format_manifest_summary,
    make_build_input_origins,
    make_build_manifest,
)
from factmill.tasks.engine.runs import (
    BuildRun,
    acquire_run_lock,
    close_run,
    get_run_folder_path,
    open_run,
    parse_oldest_valid_reply_times,
    write_run_description,
)
from factmill.tasks.engine.spending.budgets import (
    StageRequestCounterByService,
    find_forecast_with_actual_usage,
    make_budget_exceeded_error,
    make_unknown_cost_report_fields,
    summarize_spending,
)
from factmill.tasks.errors import (
    AwaitingReplyFile,
    BudgetExhausted,
    BuildError,
    FactmillError,
    NoRowsPublished,
    ResourcesExhausted,
    StageRowCountMismatch,
)
from factmill.tasks.memory import find_resource_shortage, release_free_memory
from factmill.tasks.options import BuildReport, RunOptions, resolve_warehouse_path
from factmill.tasks.processes import request_process_exit
from factmill.tasks.storage.builds import (
    format_scripted_rows_use_restriction,
    list_failed_and_rejected_calls_to_retry,
    load_table_row_counts_and_digests,
    publish_build_tables,
    write_finished_stage_records,
)
from factmill.tasks.storage.housekeeping.warehouse_cleanup import format_verification_folder_prefix
from factmill.tasks.storage.recording.call_records import (
    BuildRevalidation,
    count_scripted_and_faulty_by_prompt,
    summarize_reply_ages,
    write_revalidated_calls,
)
from factmill.tasks.storage.recording.work_folders import make_folder_inside_work_folder
from factmill.tasks.storage.shards import count_and_digest_tables
from factmill.tasks.storage.warehouse import close_engine_if_warehouse_is_large, open_warehouse

_MAX_WAITING_BATCHES = 128
"""Maximum number of batches that wait for batch jobs at the same time."""


class BuildInProgress:
    """One build in progress."""

    def __init__(self, benchmark: Benchmark, run: BuildRun, options: RunOptions, kept: BuildRevalidation) -> None:
        self.benchmark = benchmark
        self.run = run
        self.options = options
        self.revalidation = kept
        self.receipts: list[BatchReceipt] = []
        self.summaries: list[dict[str, Any]] = []
        self.reasons: dict[str, dict[str, int]] = {}
        self._meter = StageRequestCounterByService(run.services.budget)
        self.units: list[str] = []
        """Units by which the source was read: relations, categories, foundations."""
        self.started_at = datetime.now(UTC)
        self._started = time.perf_counter()
        run.pilot_strata_columns, run.pilot_balance_column = (
            benchmark.pilot_strata_columns or (benchmark.group_column,),
            benchmark.pilot_balance_column,
        )
        run.pilot_size = benchmark.pilot_size

    @property
    def run_id(self) -> str:
        """Name of the run's stages in the warehouse until the build is published; never the id of a build."""
        return f"{self.run.folder.name}-unfinished"

    def load_source(self, step: Task[..., BatchReceipt], units: Iterable[str]) -> StageOutputShards:
        """Read a source, one batch per unit (such as a relation)."""
        self.units = list(units)
        batches = [
            StageBatch(
                run=str(self.run.folder),
                stage=step.name,
                index=index,
                unit=unit,
                key=self._digest_batch_key(step.name, unit),
            )
            for index, unit in enumerate(self.units)
        ]
        read = self._run_batches(step, batches, [(unit,) for unit in self.units], 0, expands=True)
        return read if self.benchmark.pilot_stage else self._draw_pilot(read)

    def run_stage(
        self,
        step: Task[..., BatchReceipt],
        rows: StageOutputShards,
        *,
        single_batch: bool = False,
        expands: bool = False,
        most_rows: int | None = None,
    ) -> StageOutputShards:
        """Pass rows through a step, in batches.

        `single_batch`: put all rows in one batch, for a step that compares them with each other. `expands`: the step expands a row
        into several (a question's paths); its rows in are the expanded ones. `most_rows`: maximum rows per batch, for a
        step that needs much memory per row (the articles near a question).
        """
        if step.name == self.benchmark.pilot_stage:
            rows = self._draw_pilot(rows)
        total = rows.rows
        usual = enlarge_batch_for_many_rows(self.options.batch_size, total)
        size = max(total, 1) if single_batch else min(usual, most_rows or usual)
        content = [(receipt.digest, receipt.rows) for receipt in rows.receipts]
        batches, units = [], []
        for index, start in enumerate(range(0, max(total, 1), size)):
            stop = min(start + size, total)
            files, skipped = rows.shards_for_rows(start, stop)
            units.append(rows.units_for_rows(start, stop))
            batches.append(
                StageBatch(
                    run=str(self.run.folder),
                    stage=step.name,
                    index=index,
                    files=files,
                    start=start - skipped,
                    stop=stop - skipped,
                    key=self._digest_batch_key(step.name, content, start, stop),
                )
            )
        return self._run_batches(step, batches, units, total, expands=expands, size=size)

    def _draw_pilot(self, rows: StageOutputShards) -> StageOutputShards:
        """Return the rows drawn for a pilot; all rows if this is no pilot."""
        return self.run_stage(draw_pilot, rows, single_batch=True) if self.options.pilot else rows

    def publish(self, tables: Mapping[str, pa.Table], facts: Mapping[str, Any] | None = None) -> BuildReport:
        """Publish tables atomically and return the report.

        StageRowCountMismatch if row counts do not add up over the whole build; NoRowsPublished if no row is left and none awaits review.
        """
        report = self._report(tables[self.benchmark.main_table].num_rows, facts or {})
        if report.inputs + report.opened != report.rows + report.rejects + report.merged:
            raise StageRowCountMismatch(
                f"rows do not add up: {report.inputs} inputs and {report.opened} expanded rows, but {report.rows} published, "
                f"{report.rejects} rejected and {report.merged} merged"
            )
        if self.options.pinned_build is not None:
            return report.model_copy(
                update={"build_id": self.options.pinned_build, "tables": count_and_digest_tables(tables)}
            )
        if self.options.pilot is not None:
            self.run.call_cache.merge_journal()
            return report
        if not report.rows:
            waiting = sum(reasons.get(WAITING_REASON, 0) for reasons in self.reasons.values())
            if not waiting:
                self._fail_without_rows(report)
            name = self.benchmark.name
            why = (
                f"{name}: no row is published yet; {waiting} rows await a decision: run factmill review latest:{name} --to "
                "FILE.csv, fill in the file, run factmill review --from FILE.csv, then run the same command again"
            )
            report = report.model_copy(update={"nothing_published": why})
        if self.options.mode != "replay" and uses_embedded_world(self.run.manifest):
            get_or_record_world_content_digests(self.run, self.revalidation)
        begun, oldest = (
            datetime.fromisoformat(self.run.options["begun"]),
            parse_oldest_valid_reply_times(self.run.options["oldest"]),
        )
        with self.run.call_cache.merge_transaction() as db:
            write_revalidated_calls(db, self.run_id, self.revalidation)
            summaries = {
                "replies": summarize_reply_ages(db, self.run_id, begun, oldest),
                "scripted": count_scripted_and_faulty_by_prompt(db, self.run_id),
                "forecast": find_forecast_with_actual_usage(db, self.run.manifest, self.run_id),
            }
            report = report.model_copy(update=summaries)
            before = {build_id for (build_id,) in db.execute("SELECT build_id FROM builds").fetchall()}
            record = publish_build_tables(
                db,
                self.run_id,
                self.benchmark.name,
                self.run.manifest,
                self.run.origin,
                tables,
                report.model_dump(mode="json", exclude={"build_id", "tables"}),
                self.started_at,
                self.benchmark.tables,
                self.benchmark.statements_sql,
            )
            described = load_table_row_counts_and_digests(db, record.build_id)
        named = {"build_id": record.build_id, "confirmed": record.build_id in before}
        published = report.model_copy(update={**named, "tables": described})
        return published.model_copy(update={"seconds": round(time.perf_counter() - self._started, 2)})

    def _run_batches(
        self,
        step: Task[..., BatchReceipt],
        batches: Sequence[StageBatch],
        units: Sequence[tuple[str, ...]],
        rows_in: int,
        *,
        expands: bool,
        size: int = 0,
    ) -> StageOutputShards:
        """Run a step over batches; `units`: for each batch, its rows' source units; `size`: rows of a full batch."""
        started = time.perf_counter()
        with progress.show_stage_progress(step.name, len(batches)) as bar:
            done = [find_batch_receipt(batch) for batch in batches]
            _batch_names.set(
                {batch.index: format_batch_name(batch, units[batch.index], size, rows_in) for batch in batches}
            )
            receipts: list[BatchReceipt] = []
            awaited: AwaitingReplyFile | None = None
            # our own task runner, since a flow's is created before its options are known
            with (
                ThreadPoolTaskRunner[BatchReceipt](max_workers=self._count_workers(len(batches), size)) as runner,
                _interrupt_sending_on_stop(),
            ):
                futures = [
                    runner.submit(_with_run_names_and_cache_refresh(step, receipt is None), {"batch": batch})
                    for batch, receipt in zip(batches, done, strict=True)
                ]
                for future, before in zip(futures, done, strict=True):
                    try:
                        made = future.result()
                        if not isinstance(made, BatchReceipt):
                            raise BuildError(
                                f"the step {step.name} returned {type(made).__name__}; expected the BatchReceipt that work.finish returns"
                            )
                        receipts.append(made if before is None else made.as_replayed())
                        bar.count_batch(receipts[-1])
                    except AwaitingReplyFile as error:
                        awaited = error  # the other batches write their requests too
        if awaited:
            raise awaited
        self._close_stage(step.name, receipts, rows_in, time.perf_counter() - started, expands=expands)
        return StageOutputShards(tuple(receipts), tuple(units))

    def _count_workers(self, batches: int, size: int) -> int:
        """Return the number of concurrent batches; if a model uses batch jobs, as many as fill one job, since batches that
        wait for a job do nothing else."""
        models = [] if self.options.mode == "replay" else self.run.services.world.models.items()
        asked = (model for role, model in models if role in self.run.manifest["models"] and model.mode == "batch")
        most = max((model.jobs.requests for model in asked), default=0)
        return max(self.options.concurrency, min(batches, _MAX_WAITING_BATCHES, -(-most // max(size, 1))))

    def _close_stage(
        self, stage: str, receipts: Sequence[BatchReceipt], rows_in: int, seconds: float, *, expands: bool
    ) -> None:
        totals = {name: sum(getattr(receipt, name) for receipt in receipts) for name in ("rows", *SUMMED_COUNTS)}
        came_in = totals["rows_in"]
        if (not expands and rows_in != came_in) or came_in != totals["rows"] + totals["rejects"] + totals["merged"]:
            raise StageRowCountMismatch(
                f"stage {stage}: rows do not add up: {rows_in} rows passed in, {came_in} read, results: {totals}"
            )
        summary = {"stage": stage, **totals, "rows_out": totals.pop("rows"), "seconds": round(seconds, 3)}
        summary["opened"] = came_in - rows_in
        summary |= self._meter.read_new_requests()
        if drawn := {row: size for each in receipts for row, size in each.drawn.items()}:
            summary["drawn"] = drawn
        self.summaries.append(summary)
        self.reasons[stage] = count_rejects_by_reason(receipts)
        progress.log_to_current_run(format_stage_summary(summary, self.reasons[stage]))
        self.receipts.extend(receipts)
        if self.options.pinned_build is None:
            with self.run.call_cache.merge_transaction() as db:
                write_finished_stage_records(db, self.run_id, len(self.summaries), receipts, summary)
            close_engine_if_warehouse_is_large(resolve_warehouse_path(self.options))
            release_free_memory()
            if all_rows_failed(came_in, self.reasons[stage], sum(receipt.unsettled for receipt in receipts)):
                self._fail_without_rows(self._report(0, {}))

    def end_without_rows(self, message: str) -> NoReturn:
        """End the build, since none of its rows has a usable result; raises NoRowsPublished with cause and advice."""
        self._fail_without_rows(self._report(0, {}), message)

    def _fail_without_rows(self, report: BuildReport, why: str = "") -> NoReturn:
        """End the build without rows: mark the calls that lost them for retry and raise NoRowsPublished with the cause."""
        message = f"{self.benchmark.name}: nothing is published, because no row was read: {', '.join(self.units)} hold no rows"
        # rows that a pilot did not draw are not lost
        reasons = {stage: found for stage, found in self.reasons.items() if stage != PILOT_DRAW_STAGE}
        last = self.summaries[-1]
        receipts = [receipt for receipt in self.receipts if receipt.stage == last["stage"]]
        if all_rows_left_to_retry(
            last["rows_in"], self.reasons[last["stage"]], sum(receipt.unsettled for receipt in receipts)
        ):
            silence = format_no_answers(last, self.options.world, load_first_evaluation_failure_detail(receipts))
            message = f"{self.benchmark.name}: nothing is published: {silence}"
        elif main := find_main_failure_or_reject_reason(reasons):
            detail = load_first_reject_detail([each for each in self.receipts if each.stage == main[0]], main[1])
            lost = format_main_reject_reason_and_advice(reasons, detail, self.options.world, report.unsettled > 0)
            given = f" --warehouse {self.options.warehouse}" if self.options.warehouse else ""
            message = (
                f"{self.benchmark.name}: {report.inputs} rows were read and nothing is published: {lost}. All rejects: "
                f"factmill show {self.benchmark.name} --rejects --build {self.run_id}{given}"
            )
        message = why or message
        with open_warehouse(resolve_warehouse_path(self.options)) as db:
            spoilt = list_failed_and_rejected_calls_to_retry(db, self.run_id, FAILURE_CAUSES)
        self.run.call_cache.mark_for_retry({record_id for _, record_id in spoilt})
        for stage in {stage for stage, _ in spoilt}:
            shutil.rmtree(self.run.folder / stage, ignore_errors=True)
        raise NoRowsPublished(message, report.model_copy(update={"nothing_published": message}))

    def _report(self, rows: int, facts: Mapping[str, Any]) -> BuildReport:
        def total(name: str) -> Any:
            return sum(summary[name] for summary in self.summaries)

        unknown: dict[str, Any] = {}
        if self.options.pinned_build is None:
            with self.run.call_cache.merge_transaction() as db:
                unknown = make_unknown_cost_report_fields(self.run.services.world, db, self.run_id)
        return BuildReport(
            build_id=self.run_id,
            benchmark=self.benchmark.name,
            world=self.run.services.world.name,
            author=self.run.manifest["author"],
            caution=format_scripted_rows_use_restriction(self.run.manifest),
            inputs=self.summaries[0]["rows_in"],
            opened=sum(summary["opened"] for summary in self.summaries[1:]),
            rows=rows,
            rejects=total("rejects"),
            merged=total("merged"),
            calls_sent=total("calls_sent"),
            calls_replayed=total("calls_replayed"),
            tokens_in=total("tokens_in"),
            tokens_out=total("tokens_out"),
            cost_usd=round(total("cost_usd"), 6),
            **unknown,
            seconds=round(time.perf_counter() - self._started, 2),
            warehouse=str(resolve_warehouse_path(self.options)),
            unsettled=sum(receipt.unsettled for receipt in self.receipts),
            stages=self.summaries,
            reasons={stage: reasons for stage, reasons in self.reasons.items() if reasons},
            since=self.revalidation.counts,
            own_prompts={name: prompt.digest for name, prompt in sorted(self.run.own_prompts.items())},
            spent=summarize_spending(self.run.services.budget),
            facts=dict(facts),
            notes=self.run.services.notes(),
        )

    def _digest_batch_key(self, *parts: Any) -> str:
        return digest_json(
            [digest_json(self.run.manifest), self.run.options["floor"], self.run.options["oldest"], *parts]
        )


_batch_names: ContextVar[Mapping[int, str]] = ContextVar("_names")
"""Batch index → name of its task run, for the current stage."""


@contextmanager
def open_build(
    benchmark: Benchmark, inputs: BuildInputsAndSourceFiles[BuildInputs], options: RunOptions
) -> Iterator[BuildInProgress]:
    """Open a build: write its run folder, acquire the run lock, and clean up after publishing.

    After a crash or an interrupt the folder stays, and the same call resumes from it. BuildAlreadyRunning if another process is
    making the same build.
    """
    lock = make_build_manifest(benchmark, inputs, options)
    prefix = format_verification_folder_prefix(resolve_warehouse_path(options))
    scratch = Path(tempfile.mkdtemp(prefix=prefix)) if options.pinned_build else None
    folder = scratch or get_run_folder_path(benchmark.name, lock, options)
    if not scratch:
        make_folder_inside_work_folder(folder)
    holder = acquire_run_lock(folder)
    build: BuildInProgress | None = None
    finished_well = False
    try:
        write_run_description(folder, lock, make_build_input_origins(benchmark, inputs, options), options)
        run = open_run(str(folder))
        progress.log_to_current_run("\n".join([format_manifest_summary(run.manifest), *inputs.notes]))
        run.services.budget.start_run(options.budget_limits)
        build = BuildInProgress(benchmark, run, options, revalidate_and_reuse_earlier_replies(run))
        with using_own_prompts(run.own_prompts):
            yield build
        finished_well = True
    except BudgetExhausted as reached:
        raise make_budget_exceeded_error(run, build.summaries if build else (), reached) from None
    except AwaitingReplyFile:
        assert run.services.request_files is not None
        raise AwaitingReplyFile(run.services.request_files.finish_request_files()) from None
    except FactmillError:
        raise
    except Exception as error:  # log a bug in factmill in the run's log too, and re-raise
        if short := find_resource_shortage(error):
            request_process_exit(short)
            raise ResourcesExhausted(short) from error
        progress.log_to_current_run(traceback.format_exc(), "error")
        raise
    finally:
        close_run(str(folder))
        os.close(holder)
        if finished_well or scratch or not any(path.is_dir() for path in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
            for cached in get_current_settings().results.local_storage_path.glob(f"{folder.name}-*"):
                cached.unlink(missing_ok=True)


@cache
def _with_run_names_and_cache_refresh(step: Task[..., BatchReceipt], refresh: bool) -> Task[..., BatchReceipt]:
    """Return a step whose runs are named after batches; cached, since Prefect reads the step's source for each copy."""

    def get_batch_name(parameters: Mapping[str, Any]) -> str:
        return _batch_names.get()[parameters["batch"].index]

    return step.with_options(refresh_cache=refresh, task_run_name=get_batch_name)  # type: ignore[arg-type] # Prefect gives it the parameters


@contextmanager
def _interrupt_sending_on_stop() -> Iterator[None]:
    """Interrupt sending if the flow is stopped, or the system runs out of threads or memory: the batches' threads never
    see a signal, and the flow would wait for them."""
    try:
        yield
    except BaseException as error:
        short = find_resource_shortage(error)
        # otherwise Ctrl-C, SIGTERM, or Prefect's own exception for a cancelled run
        if short or not isinstance(error, Exception):
            cancel_all_sends()
            request_process_exit(short)
        raise


NOT_DRAWN = "not_in_pilot"


@task(name=PILOT_DRAW_STAGE, cache_key_fn=make_batch_cache_key, persist_result=True)
def draw_pilot(batch: StageBatch) -> BatchReceipt:
    """Draw a pilot's representative rows and pass them on; reject the others as not drawn."""
    work = open_batch(batch)
    table = work.table()
    rows = table.to_pylist()
    by = [name for name in work.run.pilot_strata_columns if name in table.column_names]
    parts = [[str(row[name]) for name in by] for row in rows]
    sides = [str(row.get(work.run.pilot_balance_column, "")) for row in rows]
    sizes, ids = [work.run.pilot_size(row) for row in rows], [row["id"] for row in rows]
    drawn = select_pilot_rows(parts, sides, sizes, ids, work.run.options["pilot"])
    mean = sum(sizes) / max(1, len(sizes)) or 1.0
    return work.finish_pilot_draw(table, {at: sizes[at] / mean for at in drawn}, NOT_DRAWN)
