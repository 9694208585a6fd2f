"""What a task does with its batch: read the rows, get the replies, write what became of each row; and the rows that a stage left."""

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
"""A stage of more rows than these has no more than so many batches."""
_LOOKED_UP_AT_ONCE = 2_000
"""Calls that a local graph is asked at once."""
_TURNED_AT_ONCE = 1_000
"""Rows that are turned into columns at once: these take a tenth of their room."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[A]):
    """What a model's reply came to."""

    read: A | Reject
    """What was read, or why nothing was."""
    model: str
    key: str
    """Key of the recorded call."""


class Cost(NamedTuple):
    """What a reply cost."""

    tokens_in: int
    tokens_out: int
    usd: float


@dataclass(slots=True)
class Work:
    """A batch being worked on: counts what it costs and which calls serve which row."""

    batch: Batch
    run: Run
    rows_in: int = 0
    originals: dict[str, str | Row] = field(default_factory=dict)
    """Row id → the row as it came in; written out only for those that become rejects."""
    uses: list[tuple[str, str, str]] = field(default_factory=list)
    taken_off: dict[str, str] = field(default_factory=dict)
    """Call → kinds of what was taken off its reply before it was read."""
    calls_sent: int = 0
    calls_replayed: int = 0
    costs: dict[str, Cost] = field(default_factory=dict)
    """Record → what its reply cost."""
    extras: pa.Table | None = None
    unsettled: int = 0
    """Rows that are kept, but lack what a passing failure cost them."""
    started: float = field(default_factory=time.perf_counter)

    def inputs(self, model: type[I]) -> I:
        """Return the build's inputs as its lock has them."""
        return self.run.read_inputs(model)

    def files(self, unit: str) -> list[SourceFile]:
        """Return the files of a unit of the source."""
        found = self.run.origin["files"].get(unit, ())
        return [SourceFile(Path(path), name, sha256, licence) for path, name, sha256, licence in found]

    def rows(self, model: type[R]) -> list[R]:
        """Return the batch's rows."""
        rows = self.rows_to_open(model)
        for row in rows:
            self.take(row.id, row)
        return rows

    def rows_to_open(self, model: type[R]) -> list[R]:
        """Return the batch's rows for a step that makes several rows of each, and takes those instead."""
        return rows_from_arrow(model, read_range(self.batch.files, self.batch.start, self.batch.stop))

    def table(self, model: type[Row] | None = None) -> pa.Table:
        """Return the batch's rows as columns (None: as they are), for a step that keeps them all: none can become a reject."""
        read = read_range(self.batch.files, self.batch.start, self.batch.stop)
        self.rows_in += read.num_rows
        return read if model is None else read.cast(arrow_schema(model))

    def take(self, row_id: str, as_it_came: str | Row) -> None:
        """Note a row that came in, for the funnel and for the reject it may become."""
        self.rows_in += 1
        self.originals[row_id] = as_it_came

    def call(self, service: Service, asked: Iterable[tuple[str, Call]]) -> dict[str, Record]:
        """Get the reply of every (row id, call); return call key → record. Calls for several rows are asked once."""
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
        """Put every (row id, thing, call); return thing → what was read of the reply, and row id → Reject where there is none.

        Of the calls for one thing, which are the same, the first is put; read is its reply, once. What is not recorded is
        asked in portions, so that no more replies than those of one are held.
        """
        found: dict[K, V] = {}
        lost: dict[K, Reply] = {}
        failed: dict[str, Reject] = {}
        told: dict[int, Reply] = {}
        for pairs, calls in _divide(asked, math.inf if service.is_outside else _LOOKED_UP_AT_ONCE):
            if service.is_outside:
                records = self.call(service, ((row_id, calls[thing]) for row_id, thing in pairs))
                replies = {thing: records[call.key].reply() for thing, call in calls.items()}
            else:  # what is not recorded needs no key and no record either
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
        """Put every (row id, row, ask) to the model of a role and read its replies.

        `read` gets the row and the reply's texts, undressed as the form has them, and returns what it read, or an
        Unreadable. Then the model is shown its reply and the reason, once, where that can help (core/replies.py). A
        second Unreadable and a failure become Rejects, the reply kept. Yields (row, answer) in the order given.
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
            del calls  # with the messages, which take most room
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
        """Write what became of each row and return the receipt; BuildError when rows are missing or doubled."""
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
        """Write rows that are columns already, none of them rejected."""
        self._check_balance(rows["id"].to_pylist())
        schema = arrow_schema(model)
        return self._write(rows.select(schema.names).cast(schema), [], [])

    def finish_drawn(self, rows: pa.Table, drawn: Mapping[int, float], reason: str) -> Receipt:
        """Write the rows of these places (→ their sizes, which the receipt tells), and the others as rejected for a reason."""
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
        # Prefect takes a task for an input of those that are given parts of its result, by their identity: what a receipt
        # has of its batch would link all batches of a stage with each other
        return Receipt.model_validate_json(receipt.model_dump_json())

    def _check_balance(self, ids: Sequence[str]) -> None:
        if len(ids) != self.rows_in or len(set(ids)) != len(ids):
            raise BuildError(
                f"stage {self.batch.stage}, batch {self.batch.index}: {self.rows_in} rows came in but {len(ids)} went out "
                f"({len(set(ids))} distinct); this is a fault of the step, please report it"
            )


def work_on(batch: Batch) -> Work:
    """Open a batch for work."""
    return Work(batch, open_run(batch.run))


def ask_before_work(run: Run, service: Service, calls: Sequence[Call], read: Callable[[Any], bool]) -> list[Call]:
    """Return the calls whose replies say, by `read`, that what they ask for is not there; the next run asks them again.

    For what a user named and a service has to know, before a build begins. A replay of a build's own calls asks nothing:
    its first making has. ServiceUnreachable when a reply cannot be had.
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
    """Return the rows of a batch: as told, but more in a large stage, since Prefect keeps a run of every batch."""
    return max(told, math.ceil(rows / _MOST_BATCHES)) if rows > _LARGE_STAGE else told


def shard_path(batch: Batch) -> Path:
    """Return where a batch's shard lies, without endings."""
    return Path(batch.run) / batch.stage / f"{batch.index:05d}-{batch.key[:16]}"


def batch_key(_context: Any, arguments: dict[str, Any]) -> str:
    """Return the explicit cache key of a batch task (Prefect's own does not notice edited prompts or helpers)."""
    batch: Batch = arguments["batch"]
    return f"{Path(batch.run).name}-{batch.stage}-{batch.index:05d}-{batch.key[:32]}"


def finished(batch: Batch) -> Receipt | None:
    """Return the receipt of a batch that is done, or None."""
    return read_receipt(shard_path(batch))


def _digest_script(model: Model, ask: Ask) -> str | None:
    """Return the digest of the scripted reply to a prompt, which its call is keyed by; None for a model that replies itself."""
    if model.kind != "scripted":
        return None
    from factmill.tasks.world.replies import digest_reply

    return digest_reply(ask.prompt.id, ask.variables)


def _reject_failed(row_id: str, reply: Reply) -> Reject:
    """Return the reject of a call that failed; a reply without a word, and one that nobody wrote, have reasons of their own."""
    error = reply.error or "no reason given"
    code = error.partition(":")[0]
    return Reject(
        row_id,
        code if code in {*UNREADABLE_KINDS, "no_scripted_reply"} else "model_failed",
        error,
        retryable=reply.transient,
    )


def _divide(asked: Iterable[tuple[str, K, Call]], most: float) -> Iterator[tuple[list[tuple[str, K]], dict[K, Call]]]:
    """Yield portions of at most so many calls: (row id, thing), and the call of each thing that was in none before."""
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
    """The rows that a stage left: shards in order."""

    receipts: tuple[Receipt, ...]
    units: tuple[tuple[str, ...], ...] = ()
    """For each receipt the units of the source that its rows may come from."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(receipt.rows for receipt in self.receipts)

    def shards_of(self, start: int, stop: int) -> tuple[tuple[str, ...], int]:
        """Return the shards that hold rows `start` to `stop` (the first one when there are none), and the rows before them."""
        kept: list[str] = []
        before = skipped = 0
        for receipt in self.receipts:
            if receipt.rows and before < stop and start < before + receipt.rows:
                skipped = skipped if kept else before
                kept.append(receipt.shard)
            before += receipt.rows
        return tuple(kept or [self.receipts[0].shard]), skipped

    def units_of(self, start: int, stop: int) -> tuple[str, ...]:
        """Return the units of the source that rows `start` to `stop` come from."""
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
        """Return all rows, with the columns of whichever model the stage wrote."""
        return pa.concat_tables([read_shard(receipt.shard, "rows") for receipt in self.receipts])

    def extras(self, schema: pa.Schema) -> pa.Table:
        """Return the side table that the stage's batches left."""
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
    """Return what becomes of the rows of a batch, and leave the decided items as its side table.

    Rows have a column `reviewed_by`. Decisions about items of other batches are left to them; `rules` hold where the policy
    is `auto`.
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
