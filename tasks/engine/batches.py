"""Work of a batch task: read rows, get replies, write each row's outcome; and Dataset, the rows that a stage wrote."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from factmill.tasks.core.calls.call import Call, Reply, Service
from factmill.tasks.core.calls.chat import call_chat, quote_reply, read_chat
from factmill.tasks.core.prompts import Ask
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import UNREADABLE_KINDS, Form, Unreadable, hear
from factmill.tasks.core.review import (
    AutoRules,
    Editable,
    Reviewing,
    ReviewItem,
    apply_decisions,
    decide_items,
)
from factmill.tasks.core.rows import Merged, Outcome, Reject, Row, arrow_schema, arrow_table, rows_from_arrow
from factmill.tasks.core.service_settings import Model
from factmill.tasks.engine.benchmark import Inputs
from factmill.tasks.engine.runs import Run, open_run
from factmill.tasks.errors import BuildError, ServiceUnreachable
from factmill.tasks.memory import give_back_memory
from factmill.tasks.storage.recording.journal import Record, make_record
from factmill.tasks.storage.shards import (
    MERGED,
    REJECTS,
    USES,
    has_kind,
    make_table,
    read_range,
    read_receipt,
    read_shard,
    write_receipt,
    write_shard,
)
from factmill.tasks.storage.source_files import SourceFile

R = TypeVar("R", bound=Row)
I = TypeVar("I", bound=Inputs)  # noqa: E741 - inputs
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_LARGE_STAGE, _MOST_BATCHES = 32_000, 64
"""A stage with more rows than the first number has at most the second number of batches."""
_LOOKED_UP_AT_ONCE = 2_000
"""Calls sent to a local graph at a time."""
_TURNED_AT_ONCE = 1_000
"""Rows converted to columns at a time: columns take a tenth of the memory."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[A]):
    """Parsed completion of a model, or the reject."""

    read: A | Reject
    """The parsed value, or the reject that says why there is none."""
    model: str
    key: str
    """Key of the recorded call."""


class Cost(NamedTuple):
    """Tokens and price of a reply."""

    tokens_in: int
    tokens_out: int
    usd: float


@dataclass(slots=True)
class Work:
    """A batch in progress: its rows, the calls that each row uses, and their cost."""

    batch: Batch
    run: Run
    rows_in: int = 0
    originals: dict[str, str | Row] = field(default_factory=dict)
    """Row id → the row as received; written only for rows that become rejects."""
    uses: list[tuple[str, str, str]] = field(default_factory=list)
    taken_off: dict[str, str] = field(default_factory=dict)
    """Call key → kinds of wrappers stripped from its reply before it was parsed."""
    calls_sent: int = 0
    calls_replayed: int = 0
    costs: dict[str, Cost] = field(default_factory=dict)
    """Record id → cost of its reply."""
    extras: pa.Table | None = None
    unsettled: int = 0
    """Rows that pass on, but lack data because of a transient failure."""
    started: float = field(default_factory=time.perf_counter)

    def inputs(self, model: type[I]) -> I:
        """Return the build's inputs as recorded in its manifest."""
        return self.run.read_inputs(model)

    def files(self, unit: str) -> list[SourceFile]:
        """Return the files of a source unit."""
        found = self.run.origin["files"].get(unit, ())
        return [SourceFile(Path(path), name, sha256, licence) for path, name, sha256, licence in found]

    def rows(self, model: type[R]) -> list[R]:
        """Return the batch's rows."""
        rows = self.rows_to_open(model)
        for row in rows:
            self.take(row.id, row)
        return rows

    def rows_to_open(self, model: type[R]) -> list[R]:
        """Return the batch's rows for a step that expands each into several rows and registers those with `take`."""
        return rows_from_arrow(model, read_range(self.batch.files, self.batch.start, self.batch.stop))

    def table(self, model: type[Row] | None = None) -> pa.Table:
        """Return the batch's rows as a table (None: with its own schema), for a step that rejects none of them."""
        read = read_range(self.batch.files, self.batch.start, self.batch.stop)
        self.rows_in += read.num_rows
        return read if model is None else read.cast(arrow_schema(model))

    def take(self, row_id: str, as_it_came: str | Row) -> None:
        """Register an input row, for the row count and for the reject it may become."""
        self.rows_in += 1
        self.originals[row_id] = as_it_came

    def call(self, service: Service, asked: Iterable[tuple[str, Call]]) -> dict[str, Record]:
        """Get the reply to every (row id, call); return call key → record. A call shared by rows is sent once."""
        pairs = list(asked)
        calls = list({call.key: call for _, call in pairs}.values())
        if not service.is_outside:
            told: dict[str, Record] = {}
            service.send(calls, lambda call, reply: told.__setitem__(call.key, make_record(call, reply)))
            return told
        answers = self.run.recorder.answer(calls, service)
        records = answers.records
        self.calls_sent += answers.sent
        self.calls_replayed += answers.replayed
        self.costs |= {
            each.record_id: Cost(each.tokens_in, each.tokens_out, each.cost_usd) for each in records.values()
        }
        self.uses.extend((row_id, call.key, records[call.key].record_id) for row_id, call in pairs)
        return records

    def look_up(
        self,
        service: Service,
        asked: Iterable[tuple[str, K, Call]],
        read: Callable[[Any], V],
        failure: str = "wikidata_failed",
    ) -> tuple[dict[K, V], dict[str, Reject]]:
        """Get every (row id, thing, call); return thing → parsed reply, and row id → Reject if the call failed.

        Calls for the same thing are equal: only the first is sent, and its reply is parsed once. Calls that are not recorded
        are sent in portions, so that only the replies of one portion are in memory.
        """
        found: dict[K, V] = {}
        lost: dict[K, Reply] = {}
        failed: dict[str, Reject] = {}
        told: dict[int, Reply] = {}
        for pairs, calls in _divide(asked, math.inf if service.is_outside else _LOOKED_UP_AT_ONCE):
            if service.is_outside:
                records = self.call(service, ((row_id, calls[thing]) for row_id, thing in pairs))
                replies = {thing: records[call.key].reply() for thing, call in calls.items()}
            else:  # a call that is not recorded needs neither key nor record
                told.clear()
                service.send(list(calls.values()), lambda call, reply: told.__setitem__(id(call), reply))
                replies = {thing: told[id(call)] for thing, call in calls.items()}
            for thing, reply in replies.items():
                if reply.status == "ok":
                    found[thing] = read(reply.body)
                else:
                    lost[thing] = reply
            for row_id, thing in pairs:
                if reason := lost.get(thing):
                    failed[row_id] = Reject(row_id, failure, reason.error or "no reason given", reason.transient)
        return found, failed

    def ask(
        self, role: str, asked: Iterable[tuple[str, T, Ask]], form: Form, read: Callable[[T, list[str]], A | Unreadable]
    ) -> Iterator[tuple[T, Answered[A]]]:
        """Prompt the model of a role for every (row id, row, ask) and parse its completions.

        `read` gets the row and the completion's texts, without wrappers, in the form; it returns the parsed value or an
        Unreadable. After an Unreadable, the model is prompted once more with its reply and the reason, if that can help
        (core/replies.py). A second Unreadable, or a failure, becomes a Reject that quotes the reply. Yields (row, answer) in
        the given order.
        """
        service, model = self.run.services.model(role)
        profile = model.profile()
        pending = list(asked)
        asks = [ask for _, _, ask in pending]
        answers: dict[int, Answered[A]] = {}
        for attempt in (1, 2):
            todo = [index for index in range(len(pending)) if index not in answers]
            calls = {
                index: call_chat(
                    service.identity, model.name, asks[index], profile, script=_digest_script(model, asks[index])
                )
                for index in todo
            }
            records = self.call(service, ((pending[index][0], calls[index]) for index in todo))
            keys = {index: call.key for index, call in calls.items()}
            del calls  # frees the messages, which take most memory
            for index in todo:
                row_id, row, _ = pending[index]
                key = keys[index]
                reply = records[key].reply()
                if reply.status != "ok":
                    answers[index] = Answered(_reject_failed(row_id, reply), model.name, key)
                    continue
                chat = read_chat(reply.body)
                heard = hear(chat.texts, chat.finish, form, partial(read, row))
                if heard.taken_off:
                    self.taken_off[key] = ", ".join(heard.taken_off)
                if not isinstance(heard.read, Unreadable):
                    answers[index] = Answered(heard.read, model.name, key)
                elif attempt == 1 and heard.rejected:
                    asks[index] = asks[index].correct(heard.rejected, heard.read.correction())
                else:
                    told = f"{heard.read.reason}; the reply was: {quote_reply(reply.body)}"
                    answers[index] = Answered(Reject(row_id, heard.read.kind, told), model.name, key)
        for index, (_, row, _) in enumerate(pending):
            yield row, answers[index]

    def finish(self, outcomes: Iterable[Outcome], model: type[BaseModel]) -> Receipt:
        """Write each row's outcome and return the receipt; BuildError if rows are missing or duplicated."""
        rows: list[Row] = []
        rejects: list[Reject] = []
        merged: list[Merged] = []
        ids: list[str] = []
        tables: list[pa.Table] = []
        for outcome in outcomes:
            if isinstance(outcome, Reject):
                rejects.append(outcome)
            elif isinstance(outcome, Merged):
                merged.append(outcome)
            else:
                rows.append(outcome)
                ids.append(outcome.id)
                if len(rows) == _TURNED_AT_ONCE:
                    tables.append(arrow_table(model, rows))
                    rows.clear()
        self._check_balance([*ids, *(reject.row_id for reject in rejects), *(each.row_id for each in merged)])
        table = pa.concat_tables([*tables, arrow_table(model, rows)]).combine_chunks()
        return self._write(table, rejects, merged)

    def finish_table(self, rows: pa.Table, model: type[BaseModel]) -> Receipt:
        """Write a table of rows and return the receipt; no row is rejected."""
        self._check_balance(rows["id"].to_pylist())
        schema = arrow_schema(model)
        return self._write(rows.select(schema.names).cast(schema), [], [])

    def finish_drawn(self, rows: pa.Table, drawn: Mapping[int, float], reason: str) -> Receipt:
        """Write the drawn rows (row index → size, which the receipt records); reject the others for a reason."""
        left = sorted({*range(rows.num_rows)} - {*drawn})
        rejects = [Reject(row_id, reason, "") for row_id in rows["id"].take(pa.array(left, pa.int64())).to_pylist()]
        passed = rows.take(pa.array(list(drawn), pa.int64()))
        return self._write(passed, rejects, [], dict(zip(passed["id"].to_pylist(), drawn.values(), strict=True)))

    def _write(
        self,
        rows: pa.Table,
        rejects: Sequence[Reject],
        merged: Sequence[Merged],
        drawn: Mapping[str, float] | None = None,
    ) -> Receipt:
        batch = self.batch
        shard = shard_path(batch)
        came = {reject.row_id: self.originals.get(reject.row_id) for reject in rejects}
        texts = {row_id: row.model_dump_json() if isinstance(row, Row) else row for row_id, row in came.items()}
        tables = {
            "rows": rows,
            "rejects": make_table(REJECTS, [(r.row_id, r.reason, r.detail, texts[r.row_id]) for r in rejects]),
            "merged": make_table(MERGED, [(m.row_id, m.into) for m in merged]),
            "uses": make_table(USES, [(*use, self.taken_off.get(use[1])) for use in dict.fromkeys(self.uses)]),
        }
        if self.extras is not None:
            tables["extras"] = self.extras
        digest = write_shard(shard, tables)
        receipt = Receipt(
            stage=batch.stage,
            index=batch.index,
            key=batch.key,
            shard=str(shard),
            rows_in=self.rows_in,
            rows=rows.num_rows,
            rejects=len(rejects),
            merged=len(merged),
            digest=digest,
            calls_sent=self.calls_sent,
            calls_replayed=self.calls_replayed,
            tokens_in=sum(cost.tokens_in for cost in self.costs.values()),
            tokens_out=sum(cost.tokens_out for cost in self.costs.values()),
            cost_usd=sum(cost.usd for cost in self.costs.values()),
            seconds=round(time.perf_counter() - self.started, 3),
            drawn=drawn or {},
            unsettled=self.unsettled + sum(reject.retryable for reject in rejects),
        )
        write_receipt(receipt)
        give_back_memory()
        # Prefect links tasks whose parameters share objects with another task's result: objects that the receipt shares
        # with its batch would link all batches of a stage
        return Receipt.model_validate_json(receipt.model_dump_json())

    def _check_balance(self, ids: Sequence[str]) -> None:
        if len(ids) != self.rows_in or len(set(ids)) != len(ids):
            raise BuildError(
                f"stage {self.batch.stage}, batch {self.batch.index}: {self.rows_in} rows came in but {len(ids)} went out "
                f"({len(set(ids))} distinct); this is a fault of the step, please report it"
            )


def work_on(batch: Batch) -> Work:
    """Open a batch and its run for work."""
    return Work(batch, open_run(batch.run))


def ask_before_work(run: Run, service: Service, calls: Sequence[Call], read: Callable[[Any], bool]) -> list[Call]:
    """Return the calls for which `read` of the reply is False: the service lacks what was requested. They are retried next run.

    Checks, before a build begins, that services know what the user named. A replay of a build's own calls sends nothing,
    since the original build has checked. ServiceUnreachable if a call fails.
    """
    if run.options["pinned_build"] is not None:
        return []
    work = Work(Batch(run=str(run.folder), stage="", index=0, key=""), run)
    records = work.call(service, (("", call) for call in calls))
    replies = {call.key: records[call.key].reply() for call in calls}
    if failed := next((reply for reply in replies.values() if reply.status != "ok"), None):
        raise ServiceUnreachable(
            f"{service.identity} does not answer: {failed.error}; see `factmill doctor`, try again later"
        )
    missing = [call for call in calls if not read(replies[call.key].body)]
    run.recorder.ask_again({records[call.key].record_id for call in missing} if service.is_outside else ())
    return missing


def choose_size(told: int, rows: int) -> int:
    """Return the rows per batch: as configured, but more in a large stage, since Prefect stores a run for each batch."""
    return max(told, math.ceil(rows / _MOST_BATCHES)) if rows > _LARGE_STAGE else told


def shard_path(batch: Batch) -> Path:
    """Return the path of a batch's shard, without suffixes."""
    return Path(batch.run) / batch.stage / f"{batch.index:05d}-{batch.key[:16]}"


def batch_key(_context: Any, arguments: dict[str, Any]) -> str:
    """Return the explicit cache key of a batch task (Prefect's own does not notice edited prompts or helpers)."""
    batch: Batch = arguments["batch"]
    return f"{Path(batch.run).name}-{batch.stage}-{batch.index:05d}-{batch.key[:32]}"


def finished(batch: Batch) -> Receipt | None:
    """Return the receipt of a finished batch, or None."""
    return read_receipt(shard_path(batch))


def _digest_script(model: Model, ask: Ask) -> str | None:
    """Return the digest of the scripted reply to a prompt, a part of its call's key; None if the model is not scripted."""
    if model.kind != "scripted":
        return None
    from factmill.tasks.world.replies import digest_reply

    return digest_reply(ask.prompt.id, ask.variables)


def _reject_failed(row_id: str, reply: Reply) -> Reject:
    """Return the reject of a failed call; an unreadable and a missing scripted reply have reasons of their own."""
    error = reply.error or "no reason given"
    code = error.partition(":")[0]
    return Reject(
        row_id,
        code if code in {*UNREADABLE_KINDS, "no_scripted_reply"} else "model_failed",
        error,
        retryable=reply.transient,
    )


def _divide(asked: Iterable[tuple[str, K, Call]], most: float) -> Iterator[tuple[list[tuple[str, K]], dict[K, Call]]]:
    """Yield portions of at most `most` calls: pairs (row id, thing), and thing → call for things new in this portion."""
    known: set[K] = set()
    pairs: list[tuple[str, K]] = []
    calls: dict[K, Call] = {}
    for row_id, thing, call in asked:
        pairs.append((row_id, thing))
        if thing not in known:
            known.add(thing)
            calls[thing] = call
        if len(calls) >= most:
            yield pairs, calls
            pairs, calls = [], {}
    yield pairs, calls


@dataclass(frozen=True, slots=True)
class Dataset:
    """The rows that a stage wrote, as shards in order."""

    receipts: tuple[Receipt, ...]
    units: tuple[tuple[str, ...], ...] = ()
    """For each receipt, the source units that its rows may come from."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(receipt.rows for receipt in self.receipts)

    def shards_of(self, start: int, stop: int) -> tuple[tuple[str, ...], int]:
        """Return the shards that hold rows `start` to `stop` (the first shard if none), and the number of rows before them."""
        kept: list[str] = []
        before = skipped = 0
        for receipt in self.receipts:
            if receipt.rows and before < stop and start < before + receipt.rows:
                skipped = skipped if kept else before
                kept.append(receipt.shard)
            before += receipt.rows
        return tuple(kept or [self.receipts[0].shard]), skipped

    def units_of(self, start: int, stop: int) -> tuple[str, ...]:
        """Return the source units that rows `start` to `stop` may come from."""
        found: dict[str, None] = {}
        before = 0
        for receipt, units in zip(self.receipts, self.units, strict=False):
            if receipt.rows and before < stop and start < before + receipt.rows:
                found.update(dict.fromkeys(units))
            before += receipt.rows
        return tuple(found)

    def table(self, model: type[BaseModel]) -> pa.Table:
        """Return all rows (shape: rows × columns of the model)."""
        return self._all("rows", arrow_schema(model))

    def all_rows(self) -> pa.Table:
        """Return all rows, with the columns that the stage wrote."""
        return pa.concat_tables([read_shard(receipt.shard, "rows") for receipt in self.receipts])

    def extras(self, schema: pa.Schema) -> pa.Table:
        """Return the rows of the companion table that the stage's batches wrote."""
        return self._all("extras", schema)

    def _all(self, kind: str, schema: pa.Schema) -> pa.Table:
        parts = [
            read_shard(receipt.shard, kind).cast(schema) for receipt in self.receipts if has_kind(receipt.shard, kind)
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()


def review_rows(
    work: Work,
    rows: Sequence[R],
    items: Sequence[ReviewItem],
    reviewing: Reviewing,
    rules: AutoRules,
    editable: Editable,
) -> list[Outcome]:
    """Apply review decisions to a batch's rows; return their outcomes and store the decided items in `work.extras`.

    Rows need a column `reviewed_by`. Decisions on items of other batches are ignored; `rules` apply if the policy is `auto`.
    """
    known = {item.id for item in items}
    given = [each for each in reviewing.decisions if each.id in known]
    decided = decide_items(items, given, rules if reviewing.policy == "auto" else None)
    reviewers: dict[str, dict[str, None]] = {}
    for item in decided:
        if item.reviewer:
            reviewers.setdefault(item.row_id, {})[item.reviewer] = None
    work.extras = arrow_table(ReviewItem, decided)
    return [
        row.replace(reviewed_by=list(reviewers[row.id])) if isinstance(row, Row) and row.id in reviewers else row
        for row in apply_decisions(rows, decided, editable)
    ]
