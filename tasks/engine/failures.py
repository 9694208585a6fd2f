"""Failures that leave a build without rows: find what lost the rows, and say what to do about it.

A reject reason is a failure of the run if a service or model gave nothing to judge a row by (CAUSES); any other reason
is a verdict about the row, such as a filter's. If a stage loses all its rows, even a single one, to failures, the build
ends there, since no later stage can bring rows back. A build that loses its rows to verdicts, or to both, ends at
publishing. Rows that await a reviewer's decision are not lost; they are just not published yet.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from factmill.tasks.core.batch_receipts import BatchReceipt
from factmill.tasks.storage.shards import load_shard_table

WAITING_REASON = "not_reviewed"
"""Reject reason of rows that await a person's decision."""
_SERVICE_ADVICE = "check the service with `factmill doctor --world {world}`"
_MODEL_ADVICE = (
    "check the model with `factmill doctor --world {world}` and fix its section of the world's file, or its server"
)
_FORMAT_ADVICE = "read its replies, then fix its section of the world's file or its server, or choose another model"
FAILURE_CAUSES = {
    "model_failed": _MODEL_ADVICE,
    "no_scripted_reply": "name a model under [models.author] and [models.judge] in a world's file and build with --world FILE; scripted "
    "replies exist only for the embedded world's own sources",
    "cut_off": "raise the model's token limit in the world's file",
    "refused": "choose a model that does not refuse",
    "reply_not_in_format": _FORMAT_ADVICE,
    "unscored": _FORMAT_ADVICE,
    "no_piece_brought_in": _FORMAT_ADVICE,
    "wikidata_failed": _SERVICE_ADVICE,
    "wikipedia_failed": _SERVICE_ADVICE,
    "pageviews_failed": _SERVICE_ADVICE,
    "linker_failed": _SERVICE_ADVICE,
    "perplexity_failed": _MODEL_ADVICE,
}
"""Reject reason that is a failure of the run → advice."""
_VERDICT_ADVICE = (
    "these are verdicts on the rows, not failures of the run: read them, then change the source or the parameters"
)

_MAX_DETAIL_CHARS = 240
"""Maximum characters shown of the first reject's detail."""
_MAX_OTHER_LOSSES = 4
"""Maximum number of other losses shown after the main one."""
RejectCounts = Mapping[str, Mapping[str, int]]
"""Stage → reason → rejected rows."""


def all_rows_failed(rows_in: int, reasons: Mapping[str, int], rows_to_retry: int) -> bool:
    """True if all rows of a stage were rejected for failures of the run, or for transient failures."""
    caused = sum(count for reason, count in reasons.items() if reason in FAILURE_CAUSES)
    return rows_in > 0 and rows_in in (caused, rows_to_retry)


def all_rows_left_to_retry(rows_in: int, reasons: Mapping[str, int], rows_to_retry: int) -> bool:
    """True if no row of a stage was rejected, but none got a usable answer (such as from an evaluation's judge)."""
    return not reasons and 0 < rows_in == rows_to_retry


def find_main_failure_or_reject_reason(reasons: RejectCounts) -> tuple[str, str] | None:
    """Return (stage, reason) that lost the most rows, failures before verdicts; None if no row was lost."""
    losses = [(stage, reason, count) for stage, found in reasons.items() for reason, count in found.items()]
    return min(losses, key=lambda loss: (loss[1] not in FAILURE_CAUSES, -loss[2]))[:2] if losses else None


def format_main_reject_reason_and_advice(reasons: RejectCounts, detail: str, world: str, has_transient: bool) -> str:
    """Return where and why rows were lost, and what to do, in a few sentences.

    `detail`: of the first reject of the main loss; `world`: as given on the command line; `has_transient`: some rows were lost
    to transient failures.
    """
    main = find_main_failure_or_reject_reason(reasons)
    assert main is not None
    stage, reason = main
    first = f"{stage} lost {reasons[stage][reason]} to {reason}"
    losses = [(place, other, count) for place, found in reasons.items() for other, count in found.items()]
    others = sorted(losses, key=lambda loss: -loss[2])
    other_losses = [f"{place} {count} to {other}" for place, other, count in others if (place, other) != main]
    more = (
        f". Other losses: {', '.join(other_losses[:_MAX_OTHER_LOSSES])}{' …' if len(other_losses) > _MAX_OTHER_LOSSES else ''}"
        if other_losses
        else ""
    )
    advice = FAILURE_CAUSES.get(reason) or (_SERVICE_ADVICE if has_transient else _VERDICT_ADVICE)
    again = "" if advice is _VERDICT_ADVICE else ", then run the same command again: it retries what failed"
    return f"{first}, first reject: {_shorten_reject_detail(detail).rstrip('.') or 'no details'}{more}. What to do: {advice.format(world=world)}{again}"


def format_no_answers(stage: Mapping[str, Any], world: str, detail: str = "") -> str:
    """Return a message that a stage got no answer for any of its rows, and what to do.

    `stage`: its counts; `detail`: from the first row that has one; empty if none does.
    """
    first = f"; first failure: {_shorten_reject_detail(detail).rstrip('.')}" if detail else ""
    return (
        f"{stage['stage']} got no answer for any of its {stage['rows_in']:,} rows{first}. What to do: {_SERVICE_ADVICE.format(world=world)}, "
        "then run the same command again: it retries what failed"
    )


def _shorten_reject_detail(detail: str) -> str:
    flat = " ".join(detail.split())
    return flat if len(flat) <= _MAX_DETAIL_CHARS else f"{flat[: _MAX_DETAIL_CHARS - 1]}…"


def load_first_reject_detail(receipts: Sequence[BatchReceipt], reason: str) -> str:
    """Return the detail of the first reject with a reason; empty if there is none."""
    tables = (load_shard_table(receipt.shard, "rejects").to_pylist() for receipt in receipts if receipt.rejects)
    return next((each["detail"] for rejects in tables for each in rejects if each["reason"] == reason), "")


def load_first_evaluation_failure_detail(receipts: Sequence[BatchReceipt]) -> str:
    """Return the first detail of why an evaluation's row has no answer or verdict; empty if no row has one."""
    tables = (load_shard_table(receipt.shard, "rows") for receipt in receipts if receipt.rows)
    columns = ("detail", "judge_detail")
    details = (table[name].to_pylist() for table in tables for name in columns if name in table.column_names)
    return next((str(detail) for found in details for detail in found if detail), "")


def count_rejects_by_reason(receipts: Sequence[BatchReceipt]) -> dict[str, int]:
    """Return reason → number of rejects, most frequent first."""
    counts = Counter[str]()
    for receipt in receipts:
        if receipt.rejects:
            counts.update(load_shard_table(receipt.shard, "rejects")["reason"].to_pylist())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
