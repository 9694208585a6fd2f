"""How sub-answers change when their articles are pinned to another moment: the drift report of FanOutQA (ours).

Both sides are references as a build publishes them (fanoutqa/core/rows.py), matched by id: one side at the build's
epoch, one at another. If a service was down for either side, the reference never counts as changed.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from factmill.tasks.fanoutqa.core.rows import EvidenceReference

DriftKind = Literal[
    "no_longer_found",
    "now_found",
    "other_parts_missing",
    "no_longer_pinned",
    "now_pinned",
    "not_looked_up",
    "unchanged",
]
LOST_DRIFT_KINDS: tuple[DriftKind, ...] = ("no_longer_found", "other_parts_missing", "no_longer_pinned")
"""Changes that put a benchmark out of date; the other changes are gains."""
OUTAGE_REASON = "wikipedia_failed"
"""Problem reason of an outage, which says nothing about the article."""
DRIFT_COLUMNS = (
    *("kind", "question_id", "path", "sub_question", "answer"),
    *("title_before", "revid_before", "timestamp_before", "missing_before", "problem_before"),
    *("title_after", "revid_after", "timestamp_after", "missing_after", "problem_after", "url"),
)
"""Columns of the drift report."""


@dataclass(frozen=True, slots=True)
class EvidenceReferenceDrift:
    """One reference at two moments."""

    kind: DriftKind
    before: EvidenceReference
    after: EvidenceReference


def classify_reference_drifts(
    before: Iterable[EvidenceReference], after: Iterable[EvidenceReference]
) -> list[EvidenceReferenceDrift]:
    """Return the drift of every reference, by id; ValueError unless both sides hold the same references."""
    earlier, later = ({each.id: each for each in side} for side in (before, after))
    if alone := sorted(earlier.keys() ^ later.keys()):
        raise ValueError(
            f"{len(alone)} references are on only one side, the first is {alone[0]}; expected the same references on both"
        )
    pairs = ((earlier[each], later[each]) for each in sorted(earlier))
    return [EvidenceReferenceDrift(_classify_pin_or_found_change(*pair), *pair) for pair in pairs]


def count_drift_report_figures(drifts: Sequence[EvidenceReferenceDrift]) -> dict[str, int]:
    """Return the report's counts: references, questions, references in another revision, and each kind of change."""
    kinds = Counter(drift.kind for drift in drifts)
    revisions = [(drift.before.revid, drift.after.revid) for drift in drifts]
    return {
        "references": len(drifts),
        "questions": len({drift.before.question_id for drift in drifts}),
        "in_another_revision": sum(None not in pair and pair[0] != pair[1] for pair in revisions),
        **{kind: kinds[kind] for kind in get_args(DriftKind)},
    }


def compute_lost_share(counts: Mapping[str, int]) -> float | None:
    """Return the share of looked-up references whose article no longer says the answer, or only in part.

    None if none was looked up. `counts`: as returned by count_drift_report_figures.
    """
    looked_up = counts["references"] - counts["not_looked_up"]
    return sum(counts[kind] for kind in LOST_DRIFT_KINDS) / looked_up if looked_up else None


def check_lost_share(counts: Mapping[str, int], limit: float) -> Literal["within", "over", "untold"]:
    """Check whether more than a share `limit` (0 to 1) of references is lost; `untold`: failed look-ups would decide."""
    share = compute_lost_share(counts)
    if share is not None and share > limit:
        return "over"
    at_worst = sum(counts[kind] for kind in LOST_DRIFT_KINDS) + counts["not_looked_up"]
    return "untold" if at_worst > limit * counts["references"] else "within"


def flatten_drift(drift: EvidenceReferenceDrift) -> dict[str, Any]:
    """Return a reference at two moments as one row of the columns DRIFT_COLUMNS."""
    fields: dict[str, Any] = {**dict(drift.before), "kind": drift.kind}
    for side, reference in (("before", drift.before), ("after", drift.after)):
        fields |= {f"{name}_{side}": value for name, value in reference}
    return {name: fields[name] for name in DRIFT_COLUMNS}


def format_drift_csv(drifts: Iterable[EvidenceReferenceDrift]) -> str:
    """Return the report as CSV text with a header; missing parts of an answer share a cell, one a line."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writerow(DRIFT_COLUMNS)
    for drift in drifts:
        writer.writerow([_format_formula_safe_cell(value) for value in flatten_drift(drift).values()])
    return file.getvalue()


def _classify_pin_or_found_change(before: EvidenceReference, after: EvidenceReference) -> DriftKind:
    if any((each.problem or "").partition(":")[0] == OUTAGE_REASON for each in (before, after)):
        return "not_looked_up"
    if (before.problem is None) != (after.problem is None):
        return "now_pinned" if after.problem is None else "no_longer_pinned"
    if before.found is not None and after.found is not None and before.found != after.found:
        return "now_found" if after.found else "no_longer_found"
    if before.found is False and after.found is False and set(before.missing) != set(after.missing):
        return "other_parts_missing"
    return "unchanged"


def _format_formula_safe_cell(value: Any) -> str:
    """Return a value as cell text; an apostrophe precedes text that a spreadsheet would run as a formula."""
    text = "" if value is None else "\n".join(value) if isinstance(value, list) else str(value)
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") and text else text
