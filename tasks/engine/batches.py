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

from factmill.tasks.assets import use_own_prompts
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.call import Call, CallResponse, CallService
from factmill.tasks.core.calls.chat import join_completion_texts_shortened, make_chat_call, parse_chat_response
from factmill.tasks.core.completions import (
    UNREADABLE_COMPLETION_KINDS,
    CompletionFormat,
    UnreadableCompletion,
    strip_samples_and_parse_together,
)
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.core.review import (
    AutoReviewRules,
    EditableTexts,
    ReviewItem,
    ReviewPolicyAndDecisions,
    apply_decisions,
    decide_review_items,
)
from factmill.tasks.core.rows import (
    MergedAway,
    Reject,
    Row,
    RowOutcome,
    arrow_schema,
    make_arrow_table,
    rows_from_arrow,
)
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.engine.benchmark import BuildInputs
from factmill.tasks.engine.runs import BuildRun, open_run
from factmill.tasks.errors import BuildError, ServiceUnreachable
from factmill.tasks.memory import release_free_memory
from factmill.tasks.storage.recording.journal import CallRecord, make_record
from factmill.tasks.storage.shards import (
    CALL_USES_SCHEMA,
    MERGED_SCHEMA,
    REJECTS_SCHEMA,
    find_reusable_receipt,
    has_shard_table,
    load_shard_row_range,
    load_shard_table,
    make_table,
    write_receipt,
    write_shard_and_digest_rows_file,
)
from factmill.tasks.storage.source_files import SourceFile

R = TypeVar("R", bound=Row)
I = TypeVar("I", bound=BuildInputs)  # noqa: E741 - inputs
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_LARGE_STAGE, _MAX_BATCHES = 32_000, 64
"""A stage with more rows than the first number has at most the second number of batches."""
_LOCAL_LOOKUP_CHUNK = 2_000
"""Calls sent to a local graph at a time."""
_ARROW_CHUNK_ROWS = 1_000
"""Rows converted to columns at a time: columns take a tenth of the memory."""


@dataclass(frozen=True, slots=True)
class ParsedCompletion(Generic[A]):
    """Parsed completion of a model, or the reject."""

    parsed: A | Reject
    """The parsed value, or the reject that says why there is none."""
    model: str
    key: str
    """Key of the recorded call."""


class ReplyCost(NamedTuple):
    """Tokens and price of a reply."""

    tokens_in: int
    tokens_out: int
    usd: float


@dataclass(slots=True)
class BatchInProgress:
    """A batch in progress: its rows, the calls that each row uses, and their cost."""

    batch: StageBatch
    run: BuildRun
    rows_in: int = 0
    rows_as_received: dict[str, str | Row] = field(default_factory=dict)
    """Row id → the row as received; written only for rows that become rejects."""
    call_uses: list[tuple[str, str, str]] = field(default_factory=list)
    stripped_wrappers: dict[str, str] = field(default_factory=dict)
    """Call key → kinds of wrappers stripped from its reply before it was parsed."""
    calls_sent: int = 0
    calls_replayed: int = 0
    costs: dict[str, ReplyCost] = field(default_factory=dict)
    """Record id → cost of its reply."""
    extras: pa.Table | None = None
    retryable_rows: int = 0
    """Rows that pass on, but lack data because of a transient failure."""
    started: float = field(default_factory=time.perf_counter)

    def inputs(self, model: type[I]) -> I:
        """Return the build's inputs as recorded in its manifest."""
        return self.run.read_inputs(model)

    def source_files(self, unit: str) -> list[SourceFile]:
        """Return the files of a source unit."""
        return self.run.source_files(unit)

    def rows(self, model: type[R]) -> list[R]:
        """Return the batch's rows."""
        rows = self.rows_to_expand(model)
        for row in rows:
            self.add_input_row(row.id, row)
        return rows

    def rows_to_expand(self, model: type[R]) -> list[R]:
        """Return the batch's rows for a step that expands each into several rows and registers those with `add_input_row`."""
        return rows_from_arrow(model, load_shard_row_range(self.batch.files, self.batch.start, self.batch.stop))

    def table(self, model: type[Row] | None = None) -> pa.Table:
        """Return the batch's rows as a table (None: with its own schema), for a step that rejects none of them."""
        read = load_shard_row_range(self.batch.files, self.batch.start, self.batch.stop)
        self.rows_in += read.num_rows
        return read if model is None else read.cast(arrow_schema(model))

    def add_input_row(self, row_id: str, as_it_came: str | Row) -> None:
        """Register an input row, for the row count and for the reject it may become."""
        self.rows_in += 1
        self.rows_as_received[row_id] = as_it_came

    def get_call_records(self, service: CallService, row_calls: Iterable[tuple[str, Call]]) -> dict[str, CallRecord]:
        """Get the reply to every (row id, call); return call key → record. A call shared by rows is sent once."""
        pairs = list(row_calls)
        calls = list({call.key: call for _, call in pairs}.values())
        if not service.is_outside:
            uncached: dict[str, CallRecord] = {}
            service.send(calls, lambda call, reply: uncached.__setitem__(call.key, make_record(call, reply)))
            return uncached
        answers = self.run.call_cache.get_or_send(calls, service)
        records = answers.records
        self.calls_sent += answers.sent
        self.calls_replayed += answers.replayed
        self.costs |= {
            each.record_id: ReplyCost(each.tokens_in, each.tokens_out, each.cost_usd) for each in records.values()
        }
        self.call_uses.extend((row_id, call.key, records[call.key].record_id) for row_id, call in pairs)
        return records

    def call_and_parse(
        self,
        service: CallService,
        asked: Iterable[tuple[str, K, Call]],
        read: Callable[[Any], V],
        failure: str = "wikidata_failed",
    ) -> tuple[dict[K, V], dict[str, Reject]]:
        """Get every (row id, thing, call); return thing → parsed reply, and row id → Reject if the call failed.

        Calls for the same thing are equal: only the first is sent, and its reply is parsed once. Calls that are not recorded
        are sent in portions, so that only the replies of one portion are in memory.
        """
        found: dict[K, V] = {}
        lost: dict[K, CallResponse] = {}
        failed: dict[str, Reject] = {}
        uncached: dict[int, CallResponse] = {}
        for pairs, calls in _split_calls_into_portions(asked, math.inf if service.is_outside else _LOCAL_LOOKUP_CHUNK):
            if service.is_outside:
                records = self.get_call_records(service, ((row_id, calls[thing]) for row_id, thing in pairs))
                replies = {thing: records[call.key].reply() for thing, call in calls.items()}
            else:  # a call that is not recorded needs neither key nor record
                uncached.clear()
                service.send(list(calls.values()), lambda call, reply: uncached.__setitem__(id(call), reply))
                replies = {thing: uncached[id(call)] for thing, call in calls.items()}
            for thing, reply in replies.items():
                if reply.status == "ok":
                    found[thing] = read(reply.body)
                else:
                    lost[thing] = reply
            for row_id, thing in pairs:
                if reason := lost.get(thing):
                    failed[row_id] = Reject(row_id, failure, reason.error or "no reason given", reason.transient)
        return found, failed

    def prompt_model(
        self,
        role: str,
        prompts: Iterable[tuple[str, T, FilledPrompt]],
        form: CompletionFormat,
        read: Callable[[T, list[str]], A | UnreadableCompletion],
    ) -> Iterator[tuple[T, ParsedCompletion[A]]]:
        """Prompt the model of a role for every (row id, row, ask) and parse its completions.

        `read` gets the row and the completion's texts, without wrappers, in the form; it returns the parsed value or an
        Unreadable. After an Unreadable, the model is prompted once more with its reply and the reason, if that can help
        (core/completions.py). A second Unreadable, or a failure, becomes a Reject that quotes the reply. Yields (row, answer) in
        the given order.
        """
        service, model = self.run.services.model(role)
        profile = model.request_profile()
        pending = list(prompts)
        asks = [ask for _, _, ask in pending]
        answers: dict[int, ParsedCompletion[A]] = {}
        for attempt in (1, 2):
            todo = [index for index in range(len(pending)) if index not in answers]
            calls = {
                index: make_chat_call(
                    service.identity,
                    model.name,
                    asks[index],
                    profile,
                    scripted_reply_digest=_digest_scripted_reply(model, asks[index]),
                )
                for index in todo
            }
            records = self.get_call_records(service, ((pending[index][0], calls[index]) for index in todo))
            keys = {index: call.key for index, call in calls.items()}
            del calls  # frees the messages, which take most memory
            for index in todo:
                row_id, row, _ = pending[index]
                key = keys[index]
                reply = records[key].reply()
                if reply.status != "ok":
                    answers[index] = ParsedCompletion(_make_failure_reject(row_id, reply), model.name, key)
                    continue
                chat = parse_chat_response(reply.body)
                parsed = strip_samples_and_parse_together(chat.texts, chat.finish, form, partial(read, row))
                if parsed.removed_wrappers:
                    self.stripped_wrappers[key] = ", ".join(parsed.removed_wrappers)
                if not isinstance(parsed.result, UnreadableCompletion):
                    answers[index] = ParsedCompletion(parsed.result, model.name, key)
                elif attempt == 1 and parsed.rejected_text:
                    asks[index] = asks[index].with_correction(parsed.rejected_text, parsed.result.format_correction())
                else:
                    detail = f"{parsed.result.reason}; the reply was: {join_completion_texts_shortened(reply.body)}"
                    answers[index] = ParsedCompletion(Reject(row_id, parsed.result.kind, detail), model.name, key)
        for index, (_, row, _) in enumerate(pending):
            yield row, answers[index]

    def finish(self, outcomes: Iterable[RowOutcome], model: type[BaseModel]) -> BatchReceipt:
        """Write each row's outcome and return the receipt; BuildError if rows are missing or duplicated."""
        rows: list[Row] = []
        rejects: list[Reject] = []
        merged: list[MergedAway] = []
        ids: list[str] = []
        tables: list[pa.Table] = []
        for outcome in outcomes:
            if isinstance(outcome, Reject):
                rejects.append(outcome)
            elif isinstance(outcome, MergedAway):
                merged.append(outcome)
            else:
                rows.append(outcome)
                ids.append(outcome.id)
                if len(rows) == _ARROW_CHUNK_ROWS:
                    tables.append(make_arrow_table(model, rows))
                    rows.clear()
        self._check_balance([*ids, *(reject.row_id for reject in rejects), *(each.row_id for each in merged)])
        table = pa.concat_tables([*tables, make_arrow_table(model, rows)]).combine_chunks()
        return self._write(table, rejects, merged)

    def finish_table(self, rows: pa.Table, model: type[BaseModel]) -> BatchReceipt:
        """Write a table of rows and return the receipt; no row is rejected."""
        self._check_balance(rows["id"].to_pylist())
        schema = arrow_schema(model)
        return self._write(rows.select(schema.names).cast(schema), [], [])

    def finish_pilot_draw(self, rows: pa.Table, drawn: Mapping[int, float], reason: str) -> BatchReceipt:
        """Write the drawn rows (row index → size, which the receipt records); reject the others for a reason."""
        left = sorted({*range(rows.num_rows)} - {*drawn})
        rejects = [Reject(row_id, reason, "") for row_id in rows["id"].take(pa.array(left, pa.int64())).to_pylist()]
        passed = rows.take(pa.array(list(drawn), pa.int64()))
        return self._write(passed, rejects, [], dict(zip(passed["id"].to_pylist(), drawn.values(), strict=True)))

    def _write(
        self,
        rows: pa.Table,
        rejects: Sequence[Reject],
        merged: Sequence[MergedAway],
        drawn: Mapping[str, float] | None = None,
    ) -> BatchReceipt:
        batch = self.batch
        shard = shard_path_without_suffix(batch)
        came = {reject.row_id: self.rows_as_received.get(reject.row_id) for reject in rejects}
        texts = {row_id: row.model_dump_json() if isinstance(row, Row) else row for row_id, row in came.items()}
        tables = {
            "rows": rows,
            "rejects": make_table(REJECTS_SCHEMA, [(r.row_id, r.reason, r.detail, texts[r.row_id]) for r in rejects]),
            "merged": make_table(MERGED_SCHEMA, [(m.row_id, m.into) for m in merged]),
            "uses": make_table(
                CALL_USES_SCHEMA, [(*use, self.stripped_wrappers.get(use[1])) for use in dict.fromkeys(self.call_uses)]
            ),
        }
        if self.extras is not None:
            tables["extras"] = self.extras
        digest = write_shard_and_digest_rows_file(shard, tables)
        receipt = BatchReceipt(
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
            unsettled=self.retryable_rows + sum(reject.retryable for reject in rejects),
        )
        write_receipt(receipt)
        release_free_memory()
        # Prefect links tasks whose parameters share objects with another task's result: objects that the receipt shares
        # with its batch would link all batches of a stage
        return BatchReceipt.model_validate_json(receipt.model_dump_json())

    def _check_balance(self, ids: Sequence[str]) -> None:
        if len(ids) != self.rows_in or len(set(ids)) != len(ids):
            raise BuildError(
                f"stage {self.batch.stage}, batch {self.batch.index}: {self.rows_in} rows in, {len(ids)} out "
                f"({len(set(ids))} distinct); this is a bug in the step, please report it"
            )


def open_batch(batch: StageBatch) -> BatchInProgress:
    """Open a batch and its run for work; prompts are read as the run recorded them, in whichever process and thread."""
    run = open_run(batch.run)
    use_own_prompts(run.own_prompts)
    return BatchInProgress(batch, run)


def send_calls_and_mark_resultless_for_retry(
    run: BuildRun, service: CallService, calls: Sequence[Call], has_result: Callable[[Any], bool]
) -> list[Call]:
    """Return the calls whose reply fails `has_result`: the service lacks what was requested. They are retried next run.

    Checks, before a build begins, that services know what the user named. A replay of a build's own calls sends nothing,
    since the original build has checked. ServiceUnreachable if a call fails.
    """
    if run.options["pinned_build"] is not None:
        return []
    work = BatchInProgress(StageBatch(run=str(run.folder), stage="", index=0, key=""), run)
    records = work.get_call_records(service, (("", call) for call in calls))
    replies = {call.key: records[call.key].reply() for call in calls}
    if failed := next((reply for reply in replies.values() if reply.status != "ok"), None):
        raise ServiceUnreachable(
            f"{service.identity} does not answer: {failed.error}; run `factmill doctor`, or try again later"
        )
    missing = [call for call in calls if not has_result(replies[call.key].body)]
    run.call_cache.mark_for_retry({records[call.key].record_id for call in missing} if service.is_outside else ())
    return missing


def enlarge_batch_for_many_rows(requested: int, rows: int) -> int:
    """Return the rows per batch: as configured, but more in a large stage, since Prefect stores a run for each batch."""
    return max(requested, math.ceil(rows / _MAX_BATCHES)) if rows > _LARGE_STAGE else requested


def shard_path_without_suffix(batch: StageBatch) -> Path:
    """Return the path of a batch's shard, without suffixes."""
    return Path(batch.run) / batch.stage / f"{batch.index:05d}-{batch.key[:16]}"


def make_batch_cache_key(_context: Any, arguments: dict[str, Any]) -> str:
    """Return the explicit cache key of a batch task (Prefect's own does not notice edited prompts or helpers)."""
    batch: StageBatch = arguments["batch"]
    return f"{Path(batch.run).name}-{batch.stage}-{batch.index:05d}-{batch.key[:32]}"


def find_batch_receipt(batch: StageBatch) -> BatchReceipt | None:
    """Return the receipt of a finished batch, or None."""
    return find_reusable_receipt(shard_path_without_suffix(batch))


def _digest_scripted_reply(model: ModelSettings, ask: FilledPrompt) -> str | None:
    """Return the digest of the scripted reply to a prompt, a part of its call's key; None if the model is not scripted."""
    if model.kind != "scripted":
        return None
    from factmill.tasks.world.scripted_replies import digest_reply_scripted_for_prompt

    return digest_reply_scripted_for_prompt(ask.prompt.id, ask.variables)


def _make_failure_reject(row_id: str, reply: CallResponse) -> Reject:
    """Return the reject of a failed call; an unreadable and a missing scripted reply have reasons of their own."""
    error = reply.error or "no reason given"
    code = error.partition(":")[0]
    return Reject(
        row_id,
        code if code in {*UNREADABLE_COMPLETION_KINDS, "no_scripted_reply"} else "model_failed",
        error,
        retryable=reply.transient,
    )


def _split_calls_into_portions(
    row_calls: Iterable[tuple[str, K, Call]], max_calls: float
) -> Iterator[tuple[list[tuple[str, K]], dict[K, Call]]]:
    """Yield portions of at most `max_calls` calls: pairs (row id, key), and key → call for keys new in this portion."""
    known: set[K] = set()
    pairs: list[tuple[str, K]] = []
    calls: dict[K, Call] = {}
    for row_id, thing, call in row_calls:
        pairs.append((row_id, thing))
        if thing not in known:
            known.add(thing)
            calls[thing] = call
        if len(calls) >= max_calls:
            yield pairs, calls
            pairs, calls = [], {}
    yield pairs, calls


@dataclass(frozen=True, slots=True)
class StageOutputShards:
    """The rows that a stage wrote, as shards in order."""

    receipts: tuple[BatchReceipt, ...]
    units: tuple[tuple[str, ...], ...] = ()
    """For each receipt, the source units that its rows may come from."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(receipt.rows for receipt in self.receipts)

    def shards_for_rows(self, start: int, stop: int) -> tuple[tuple[str, ...], int]:
        """Return the shards that hold rows `start` to `stop` (the first shard if none), and the number of rows before them."""
        kept: list[str] = []
        before = skipped = 0
        for receipt in self.receipts:
            if receipt.rows and before < stop and start < before + receipt.rows:
                skipped = skipped if kept else before
                kept.append(receipt.shard)
            before += receipt.rows
        return tuple(kept or [self.receipts[0].shard]), skipped

    def units_for_rows(self, start: int, stop: int) -> tuple[str, ...]:
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
        return self._concat_shards("rows", arrow_schema(model))

    def all_rows(self) -> pa.Table:
        """Return all rows, with the columns that the stage wrote."""
        return pa.concat_tables([load_shard_table(receipt.shard, "rows") for receipt in self.receipts])

    def companion_rows(self, schema: pa.Schema) -> pa.Table:
        """Return the rows of the companion table that the stage's batches wrote."""
        return self._concat_shards("extras", schema)

    def _concat_shards(self, kind: str, schema: pa.Schema) -> pa.Table:
        parts = [
            load_shard_table(receipt.shard, kind).cast(schema)
            for receipt in self.receipts
            if has_shard_table(receipt.shard, kind)
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()


def apply_and_store_review_decisions(
    work: BatchInProgress,
    rows: Sequence[R],
    items: Sequence[ReviewItem],
    reviewing: ReviewPolicyAndDecisions,
    rules: AutoReviewRules,
    editable: EditableTexts,
) -> list[RowOutcome]:
    """Apply review decisions to a batch's rows; return their outcomes and store the decided items in `work.extras`.

    Rows need a column `reviewed_by`. Decisions on items of other batches are ignored; `rules` apply if the policy is `auto`.
    """
    known = {item.id for item in items}
    given = [each for each in reviewing.decisions if each.id in known]
    decided = decide_review_items(items, given, rules if reviewing.policy == "auto" else None)
    reviewers: dict[str, dict[str, None]] = {}
    for item in decided:
        if item.reviewer:
            reviewers.setdefault(item.row_id, {})[item.reviewer] = None
    work.extras = make_arrow_table(ReviewItem, decided)
    return [
        row.replace(reviewed_by=list(reviewers[row.id])) if isinstance(row, Row) and row.id in reviewers else row
        for row in apply_decisions(rows, decided, editable)
    ]
