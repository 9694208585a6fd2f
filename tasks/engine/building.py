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
from factmill.tasks.clients.sending.sender import interrupt_sending
from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.receipts import DRAWING, SUMMED, Batch, Receipt, describe_stage, name_batch
from factmill.tasks.core.spending.forecasting import draw_places
from factmill.tasks.engine.batches import Dataset, batch_key, choose_size, finished, work_on
from factmill.tasks.engine.benchmark import Benchmark, Inputs, Locked
from factmill.tasks.engine.endings import (
    CAUSES,
    WAITING,
    count_reasons,
    describe_loss,
    describe_silence,
    find_main_loss,
    first_detail,
    first_trouble,
    is_lost_to_run,
    is_silent,
)
from factmill.tasks.engine.naming.locks import describe_lock, describe_origin, make_lock
from factmill.tasks.engine.runs import Run, close_run, describe_run, hold, open_run, read_moments, run_folder
from factmill.tasks.engine.since import is_embedded, note_contents, settle_since
from factmill.tasks.engine.spending.bounds import Meter, compare, find_unknown_costs, tell_reached, tell_spent
from factmill.tasks.errors import (
    BudgetReached,
    BuildError,
    FactmillError,
    FunnelError,
    NothingPublished,
    RepliesAwaited,
    ResourcesExhausted,
)
from factmill.tasks.memory import find_shortage, give_back_memory
from factmill.tasks.options import BuildReport, RunOptions, warehouse_of
from factmill.tasks.processes import end_soon
from factmill.tasks.storage.builds import describe_caution, describe_tables, list_spoilt_calls, merge_stage, publish
from factmill.tasks.storage.housekeeping.warehouse import VERIFYING
from factmill.tasks.storage.recording.folders import make_work_folder
from factmill.tasks.storage.recording.records import Kept, count_scripted, sum_up_ages, write_kept
from factmill.tasks.storage.shards import digest_tables
from factmill.tasks.storage.warehouse import close_engine, open_warehouse

_MOST_WAITING = 128
"""Maximum number of batches that wait for batch jobs at the same time."""


class Build:
    """One build in progress."""

    def __init__(self, benchmark: Benchmark, run: Run, options: RunOptions, kept: Kept) -> None:
        self.benchmark = benchmark
        self.run = run
        self.options = options
        self.kept = kept
        self.receipts: list[Receipt] = []
        self.summaries: list[dict[str, Any]] = []
        self.reasons: dict[str, dict[str, int]] = {}
        self._meter = Meter(run.services.budget)
        self.units: list[str] = []
        """Units by which the source was read: relations, categories, foundations."""
        self.started_at = datetime.now(UTC)
        self._started = time.perf_counter()
        run.pilot_by, run.pilot_sides = benchmark.pilot_by or (benchmark.part,), benchmark.pilot_sides
        run.pilot_size = benchmark.pilot_size

    @property
    def run_id(self) -> str:
        """Name of the run's stages in the warehouse until the build is published; never the id of a build."""
        return f"{self.run.folder.name}-unfinished"

    def load(self, step: Task[..., Receipt], units: Iterable[str]) -> Dataset:
        """Read a source, one batch per unit (such as a relation)."""
        self.units = list(units)
        batches = [
            Batch(run=str(self.run.folder), stage=step.name, index=index, unit=unit, key=self._key(step.name, unit))
            for index, unit in enumerate(self.units)
        ]
        read = self._map(step, batches, [(unit,) for unit in self.units], 0, opens=True)
        return read if self.benchmark.pilot_at else self._draw_pilot(read)

    def stage(
        self,
        step: Task[..., Receipt],
        rows: Dataset,
        *,
        whole: bool = False,
        opens: bool = False,
        most_rows: int | None = None,
    ) -> Dataset:
        """Pass rows through a step, in batches.

        `whole`: put all rows in one batch, for a step that compares them with each other. `opens`: the step expands a row
        into several (a question's paths); its rows in are the expanded ones. `most_rows`: maximum rows per batch, for a
        step that needs much memory per row (the articles near a question).
        """
        if step.name == self.benchmark.pilot_at:
            rows = self._draw_pilot(rows)
        total = rows.rows
        usual = choose_size(self.options.batch_size, total)
        size = max(total, 1) if whole else min(usual, most_rows or usual)
        content = [(receipt.digest, receipt.rows) for receipt in rows.receipts]
        batches, units = [], []
        for index, start in enumerate(range(0, max(total, 1), size)):
            stop = min(start + size, total)
            files, skipped = rows.shards_of(start, stop)
            units.append(rows.units_of(start, stop))
            batches.append(
                Batch(
                    run=str(self.run.folder),
                    stage=step.name,
                    index=index,
                    files=files,
                    start=start - skipped,
                    stop=stop - skipped,
                    key=self._key(step.name, content, start, stop),
                )
            )
        return self._map(step, batches, units, total, opens=opens, size=size)

    def _draw_pilot(self, rows: Dataset) -> Dataset:
        """Return the rows drawn for a pilot; all rows if this is no pilot."""
        return self.stage(draw_pilot, rows, whole=True) if self.options.pilot else rows

    def publish(self, tables: Mapping[str, pa.Table], facts: Mapping[str, Any] | None = None) -> BuildReport:
        """Publish tables atomically and return the report.

        FunnelError if row counts do not add up over the whole build; NothingPublished if no row is left and none awaits review.
        """
        report = self._report(tables[self.benchmark.main_table].num_rows, facts or {})
        if report.inputs + report.opened != report.rows + report.rejects + report.merged:
            raise FunnelError(
                f"{report.inputs} rows came in and {report.opened} were opened, but {report.rows} are published, "
                f"{report.rejects} rejected and {report.merged} merged"
            )
        if self.options.pinned_build is not None:
            return report.model_copy(update={"build_id": self.options.pinned_build, "tables": digest_tables(tables)})
        if self.options.pilot is not None:
            self.run.recorder.merge()
            return report
        if not report.rows:
            waiting = sum(reasons.get(WAITING, 0) for reasons in self.reasons.values())
            if not waiting:
                self._end(report)
            name = self.benchmark.name
            why = (
                f"{name}: no row is published yet, {waiting} wait for a decision: factmill review export latest:{name} --to "
                "FILE.csv, fill it in, factmill review import FILE.csv, then run the same command again"
            )
            report = report.model_copy(update={"nothing_published": why})
        if self.options.mode != "replay" and is_embedded(self.run.lock):
            note_contents(self.run, self.kept)
        begun, oldest = datetime.fromisoformat(self.run.options["begun"]), read_moments(self.run.options["oldest"])
        with self.run.recorder.merging() as db:
            write_kept(db, self.run_id, self.kept)
            told = {
                "replies": sum_up_ages(db, self.run_id, begun, oldest),
                "scripted": count_scripted(db, self.run_id),
                "forecast": compare(db, self.run.lock, self.run_id),
            }
            report = report.model_copy(update=told)
            before = {build_id for (build_id,) in db.execute("SELECT build_id FROM builds").fetchall()}
            record = publish(
                db,
                self.run_id,
                self.benchmark.name,
                self.run.lock,
                self.run.origin,
                tables,
                report.model_dump(mode="json", exclude={"build_id", "tables"}),
                self.started_at,
                self.benchmark.tables,
                self.benchmark.statements,
            )
            described = describe_tables(db, record.build_id)
        named = {"build_id": record.build_id, "confirmed": record.build_id in before}
        published = report.model_copy(update={**named, "tables": described})
        return published.model_copy(update={"seconds": round(time.perf_counter() - self._started, 2)})

    def _map(
        self,
        step: Task[..., Receipt],
        batches: Sequence[Batch],
        units: Sequence[tuple[str, ...]],
        rows_in: int,
        *,
        opens: bool,
        size: int = 0,
    ) -> Dataset:
        """Run a step over batches; `units`: for each batch, its rows' source units; `size`: rows of a full batch."""
        started = time.perf_counter()
        with progress.stage(step.name, len(batches)) as bar:
            done = [finished(batch) for batch in batches]
            _names.set({batch.index: name_batch(batch, units[batch.index], size, rows_in) for batch in batches})
            receipts: list[Receipt] = []
            awaited: RepliesAwaited | None = None
            # our own task runner, since a flow's is created before its options are known
            with (
                ThreadPoolTaskRunner[Receipt](max_workers=self._count_workers(len(batches), size)) as runner,
                _interrupting(),
            ):
                futures = [
                    runner.submit(_prepare(step, receipt is None), {"batch": batch})
                    for batch, receipt in zip(batches, done, strict=True)
                ]
                for future, before in zip(futures, done, strict=True):
                    try:
                        made = future.result()
                        if not isinstance(made, Receipt):
                            raise BuildError(
                                f"the step {step.name} returned {type(made).__name__}; expected what work.finish returns"
                            )
                        receipts.append(made if before is None else made.found_again())
                        bar.advance(receipts[-1])
                    except RepliesAwaited as error:
                        awaited = error  # the other batches write their requests too
        if awaited:
            raise awaited
        self._close_stage(step.name, receipts, rows_in, time.perf_counter() - started, opens=opens)
        return Dataset(tuple(receipts), tuple(units))

    def _count_workers(self, batches: int, size: int) -> int:
        """Return the number of concurrent batches; if a model uses batch jobs, as many as fill one job, since batches that
        wait for a job do nothing else."""
        models = [] if self.options.mode == "replay" else self.run.services.world.models.items()
        asked = (model for role, model in models if role in self.run.lock["models"] and model.mode == "batch")
        most = max((model.jobs.requests for model in asked), default=0)
        return max(self.options.concurrency, min(batches, _MOST_WAITING, -(-most // max(size, 1))))

    def _close_stage(
        self, stage: str, receipts: Sequence[Receipt], rows_in: int, seconds: float, *, opens: bool
    ) -> None:
        totals = {name: sum(getattr(receipt, name) for receipt in receipts) for name in ("rows", *SUMMED)}
        came_in = totals["rows_in"]
        if (not opens and rows_in != came_in) or came_in != totals["rows"] + totals["rejects"] + totals["merged"]:
            raise FunnelError(f"stage {stage}: {rows_in} rows were handed over, {came_in} read, {totals} left")
        summary = {"stage": stage, **totals, "rows_out": totals.pop("rows"), "seconds": round(seconds, 3)}
        summary["opened"] = came_in - rows_in
        summary |= self._meter.read()
        if drawn := {row: size for each in receipts for row, size in each.drawn.items()}:
            summary["drawn"] = drawn
        self.summaries.append(summary)
        self.reasons[stage] = count_reasons(receipts)
        progress.log(describe_stage(summary, self.reasons[stage]))
        self.receipts.extend(receipts)
        if self.options.pinned_build is None:
            with self.run.recorder.merging() as db:
                merge_stage(db, self.run_id, len(self.summaries), receipts, summary)
            close_engine(warehouse_of(self.options))
            give_back_memory()
            if is_lost_to_run(came_in, self.reasons[stage], sum(receipt.unsettled for receipt in receipts)):
                self._end(self._report(0, {}))

    def end_without_rows(self, told: str) -> NoReturn:
        """End the build, since none of its rows has a usable result; raises NothingPublished with cause and advice."""
        self._end(self._report(0, {}), told)

    def _end(self, report: BuildReport, why: str = "") -> NoReturn:
        """End the build without rows: mark the calls that lost them for retry and raise NothingPublished with the cause."""
        told = f"{self.benchmark.name}: no row was read, so nothing is published: {', '.join(self.units)} hold none"
        # rows that a pilot did not draw are not lost
        reasons = {stage: found for stage, found in self.reasons.items() if stage != DRAWING}
        last = self.summaries[-1]
        receipts = [receipt for receipt in self.receipts if receipt.stage == last["stage"]]
        if is_silent(last["rows_in"], self.reasons[last["stage"]], sum(receipt.unsettled for receipt in receipts)):
            silence = describe_silence(last, self.options.world, first_trouble(receipts))
            told = f"{self.benchmark.name}: nothing is published: {silence}"
        elif main := find_main_loss(reasons):
            detail = first_detail([each for each in self.receipts if each.stage == main[0]], main[1])
            lost = describe_loss(reasons, detail, self.options.world, report.unsettled > 0)
            given = f" --warehouse {self.options.warehouse}" if self.options.warehouse else ""
            told = (
                f"{self.benchmark.name}: {report.inputs} rows were read and nothing is published: {lost}. All rejects: "
                f"factmill show {self.benchmark.name} --rejects --build {self.run_id}{given}"
            )
        told = why or told
        with open_warehouse(warehouse_of(self.options)) as db:
            spoilt = list_spoilt_calls(db, self.run_id, CAUSES)
        self.run.recorder.ask_again({record_id for _, record_id in spoilt})
        for stage in {stage for stage, _ in spoilt}:
            shutil.rmtree(self.run.folder / stage, ignore_errors=True)
        raise NothingPublished(told, report.model_copy(update={"nothing_published": told}))

    def _report(self, rows: int, facts: Mapping[str, Any]) -> BuildReport:
        def total(name: str) -> Any:
            return sum(summary[name] for summary in self.summaries)

        unknown: dict[str, Any] = {}
        if self.options.pinned_build is None:
            with self.run.recorder.merging() as db:
                unknown = find_unknown_costs(self.run.services.world, db, self.run_id)
        return BuildReport(
            build_id=self.run_id,
            benchmark=self.benchmark.name,
            world=self.run.services.world.name,
            author=self.run.lock["author"],
            caution=describe_caution(self.run.lock),
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
            warehouse=str(warehouse_of(self.options)),
            unsettled=sum(receipt.unsettled for receipt in self.receipts),
            stages=self.summaries,
            reasons={stage: reasons for stage, reasons in self.reasons.items() if reasons},
            since=self.kept.counts,
            spent=tell_spent(self.run.services.budget),
            facts=dict(facts),
            notes=self.run.services.notes(),
        )

    def _key(self, *parts: Any) -> str:
        return digest_json([digest_json(self.run.lock), self.run.options["floor"], self.run.options["oldest"], *parts])


_names: ContextVar[Mapping[int, str]] = ContextVar("_names")
"""Batch index → name of its task run, for the current stage."""


@contextmanager
def open_build(benchmark: Benchmark, inputs: Locked[Inputs], options: RunOptions) -> Iterator[Build]:
    """Open a build: write its run folder, acquire the run lock, and clean up after publishing.

    After a crash or an interrupt the folder stays, and the same call resumes from it. BuildHeld if another process is
    making the same build.
    """
    lock = make_lock(benchmark, inputs, options)
    scratch = Path(tempfile.mkdtemp(prefix=VERIFYING)) if options.pinned_build else None
    folder = scratch or run_folder(benchmark.name, lock, options)
    if not scratch:
        make_work_folder(folder)
    holder = hold(folder)
    build: Build | None = None
    finished_well = False
    try:
        describe_run(folder, lock, describe_origin(inputs, options), options)
        run = open_run(str(folder))
        progress.log(describe_lock(run.lock))
        run.services.budget.bind(options.bounds)
        build = Build(benchmark, run, options, settle_since(run))
        yield build
        finished_well = True
    except BudgetReached as reached:
        raise tell_reached(run, build.summaries if build else (), reached) from None
    except RepliesAwaited:
        assert run.services.files is not None
        raise RepliesAwaited(run.services.files.publish()) from None
    except FactmillError:
        raise
    except Exception as error:  # log a bug in factmill in the run's log too, and re-raise
        if short := find_shortage(error):
            end_soon(short)
            raise ResourcesExhausted(short) from error
        progress.log(traceback.format_exc(), "error")
        raise
    finally:
        close_run(str(folder))
        os.close(holder)
        if finished_well or scratch or not any(path.is_dir() for path in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
            for cached in get_current_settings().results.local_storage_path.glob(f"{folder.name}-*"):
                cached.unlink(missing_ok=True)


@cache
def _prepare(step: Task[..., Receipt], refresh: bool) -> Task[..., Receipt]:
    """Return a step whose runs are named after batches; cached, since Prefect reads the step's source for each copy."""
    return step.with_options(refresh_cache=refresh, task_run_name=_name_run)  # type: ignore[arg-type] # Prefect gives it the parameters


def _name_run(parameters: Mapping[str, Any]) -> str:
    return _names.get()[parameters["batch"].index]


@contextmanager
def _interrupting() -> Iterator[None]:
    """Interrupt sending if the flow is stopped, or the system runs out of threads or memory: the batches' threads never
    see a signal, and the flow would wait for them."""
    try:
        yield
    except BaseException as error:
        short = find_shortage(error)
        # otherwise Ctrl-C, SIGTERM, or Prefect's own exception for a cancelled run
        if short or not isinstance(error, Exception):
            interrupt_sending()
            end_soon(short)
        raise


NOT_DRAWN = "not_in_pilot"


@task(name=DRAWING, cache_key_fn=batch_key, persist_result=True)
def draw_pilot(batch: Batch) -> Receipt:
    """Draw a pilot's representative rows and pass them on; reject the others as not drawn."""
    work = work_on(batch)
    table = work.table()
    rows = table.to_pylist()
    by = [name for name in work.run.pilot_by if name in table.column_names]
    parts = [[str(row[name]) for name in by] for row in rows]
    sides = [str(row.get(work.run.pilot_sides, "")) for row in rows]
    sizes, ids = [work.run.pilot_size(row) for row in rows], [row["id"] for row in rows]
    drawn = draw_places(parts, sides, sizes, ids, work.run.options["pilot"])
    mean = sum(sizes) / max(1, len(sizes)) or 1.0
    return work.finish_drawn(table, {at: sizes[at] / mean for at in drawn}, NOT_DRAWN)
