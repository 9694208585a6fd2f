"""Explain why a row differs: find the first difference between two builds that accounts for the change.

A change is traced backwards: from a column to the last reply that contains its change (`is_change_carried_over`), from a call's variable to
the earlier reply or source column that contains its own, until a call differs for a direct reason (calls.py). Where
no reply contains the change (a score, a row rejected for a number), the first call with a direct reason is the cause. If
there is none, the cause is an input that no call records: a list, a parameter, code; several such inputs give one
cause of kind "one of".
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from factmill.tasks.diff.core.call_differences import (
    CallDifference,
    find_direct_causes,
    is_part_set_by_build_inputs,
    merge_possible_causes,
)
from factmill.tasks.diff.core.changes import ChangeCause, ColumnValueChange, RowDropInOneBuild
from factmill.tasks.diff.core.manifest_changes import ManifestComparison

_WORD = re.compile(r"\w+")
_MIN_TEXT_CHARACTERS = 3
"""Least characters of a text for a substring match to count."""
_MIN_TRACEABLE_NUMBER = 10
"""Smaller numbers are too common to trace."""


def is_change_carried_over(source_change: tuple[Any, Any], target_change: tuple[Any, Any]) -> bool:
    """True where what `target_change` gained (or lost) is contained in what `source_change` gained (or lost); both: (before, after)."""
    gone, come = _split_lost_and_gained(source_change)
    lost, won = _split_lost_and_gained(target_change)
    if _shares_leaf_or_substring(won, come) or _shares_leaf_or_substring(lost, gone):
        return True
    new_words, old_words = _collect_words_of_leaf_values(won), _collect_words_of_leaf_values(lost)
    return _contains_half_of_words(
        new_words - old_words, _collect_words_of_leaf_values(come) - _collect_words_of_leaf_values(gone)
    ) or _contains_half_of_words(
        old_words - new_words, _collect_words_of_leaf_values(gone) - _collect_words_of_leaf_values(come)
    )


def _contains_half_of_words(wanted: frozenset[str], found: frozenset[str]) -> bool:
    """True where at least half of `wanted` is in `found`; a text may have been cleaned or reformatted."""
    return bool(wanted) and 2 * len(wanted & found) >= len(wanted)


def _collect_words_of_leaf_values(leaves: frozenset[str]) -> frozenset[str]:
    return frozenset(word for leaf in leaves for word in _split_words_of_minimum_length(leaf))


@lru_cache(maxsize=256)
def _split_words_of_minimum_length(text: str) -> frozenset[str]:
    return frozenset(word for word in _WORD.findall(text) if len(word) >= _MIN_TEXT_CHARACTERS)


def contains_all_values(value: Any, parts: Iterable[Any]) -> bool:
    """True where a value contains every complete text and number of `parts`."""
    return all(
        _collect_traceable_texts_and_numbers(part) <= _collect_traceable_texts_and_numbers(value) for part in parts
    )


def _split_lost_and_gained(change: tuple[Any, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the texts and numbers that only the old value has, and those that only the new one has."""
    before, after = map(_collect_traceable_texts_and_numbers, change)
    return before - after, after - before


def _shares_leaf_or_substring(leaves: frozenset[str], others: frozenset[str]) -> bool:
    return bool(leaves & others) or any(
        leaf in other or (len(other) >= _MIN_TEXT_CHARACTERS and other in leaf)
        for leaf in leaves
        if len(leaf) >= _MIN_TEXT_CHARACTERS
        for other in others
    )


def _collect_traceable_texts_and_numbers(value: Any) -> frozenset[str]:
    return _wrap_non_empty_text_in_set(value) if isinstance(value, str) else frozenset(_iterate_leaf_texts(value))


@lru_cache(maxsize=256)
def _wrap_non_empty_text_in_set(text: str) -> frozenset[str]:
    return frozenset([text]) if text else frozenset()


def _iterate_leaf_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _iterate_leaf_texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _iterate_leaf_texts(each)
    elif isinstance(value, str):
        yield from _wrap_non_empty_text_in_set(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= _MIN_TRACEABLE_NUMBER:
        yield f"{value:g}" if isinstance(value, float) else str(value)


_UNRECORDED_MODEL_ROLES = ("embedder", "answers")
"""Models without recorded calls: sentence encoders, and models under test that are built in or read from a file."""
_OTHER_ROWS_CAUSE = ChangeCause("other rows", "", "a stage compares rows with each other, and other rows changed")
UNEXPLAINED_CAUSE = ChangeCause(
    "unexplained", "", "the row's calls and replies are the same, and so is every input that could affect it"
)
_UNKNOWN_REPLY_CAUSE = ChangeCause(
    "not told",
    "",
    "the manifests are the same, so a reply changed; releases contain no replies: compare the builds in the warehouse that made them",
)
_POSSIBLE_REPLY_CAUSE = ChangeCause(
    "reply", "", "the builds used services and models whose replies may vary, and releases contain no replies"
)
_REVIEW_REJECT_REASONS = ("dropped_in_review", "not_reviewed")
"""Reject reasons set by a reviewer or by the policy."""


@dataclass(frozen=True)
class RowChangeEvidence:
    """Evidence about a differing row."""

    call_differences: Sequence[CallDifference]
    changed_columns: Sequence[ColumnValueChange] = ()
    fate: RowDropInOneBuild | None = None
    source_cause: ChangeCause | None = None
    """Why the source columns differ; None where they do not, or no file holds them."""
    source_changes: Sequence[ColumnValueChange] = ()
    """The changes of the source columns."""
    unrecorded_causes: Sequence[ChangeCause] = ()
    """Changed inputs that may affect the row but show in no call or column."""
    changed_decisions: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]] = ()
    """Changed decisions about the row: (before, after)."""
    other_rows_changed: bool = False
    """True where other rows changed and a stage compares rows with each other."""
    is_cross_row_reject: bool = False
    """True where such a stage rejects the row in one of the builds."""
    has_calls: bool = True
    """False for releases, which have no calls."""
    left_out_reason: str = ""
    """Why a release was made without such rows; empty: it was not."""
    narrowing_parameters: frozenset[str] = frozenset()
    """Parameters that limit how much is read, and of what."""


def explain_row_change(evidence: RowChangeEvidence, manifests: ManifestComparison) -> tuple[ChangeCause, ...]:
    """Return why a row differs, in stage order; UNEXPLAINED alone where nothing explains it."""
    if evidence.left_out_reason:
        return (ChangeCause("left out", "", evidence.left_out_reason),)
    tracer = _RowChangeCauseTracer(evidence, manifests)
    found: dict[ChangeCause, None] = {}
    if evidence.fate is not None:
        found.update(dict.fromkeys(tracer.trace_drop(evidence.fate)))
    elif not evidence.changed_columns:
        found.update(dict.fromkeys(tracer.trace_unread_row()))
    for column in evidence.changed_columns:
        found.update(dict.fromkeys(tracer.trace_column(column)))
    by_label = {cause.label: cause for cause in sorted(found, key=tracer.get_sort_key, reverse=True)}
    return tuple(sorted(by_label.values(), key=tracer.get_sort_key)) or (UNEXPLAINED_CAUSE,)


@dataclass
class _RowChangeCauseTracer:
    evidence: RowChangeEvidence
    manifests: ManifestComparison
    direct_causes: list[list[ChangeCause]] = field(init=False)
    """Direct causes of each divergence, without effects of earlier ones."""

    def __post_init__(self) -> None:
        self.direct_causes = [find_direct_causes(each, self.manifests) for each in self.evidence.call_differences]

    def get_sort_key(self, cause: ChangeCause) -> tuple[bool, int]:
        """Return a cause's sort key: source and decision first, causes that no call shows last."""
        at = next((at for at, own in enumerate(self.direct_causes) if cause in own), len(self.direct_causes))
        return cause.kind not in ("source", "decision") and at == len(self.direct_causes), at if cause.stage else -1

    def trace_drop(self, fate: RowDropInOneBuild) -> list[ChangeCause]:
        """Return why only one build published the row."""
        policy = [each for each in self.manifests.list_causes("decision") if each.what == "policy"]
        if fate.reason in _REVIEW_REJECT_REASONS and (decided := [*self._iterate_decision_causes(), *policy]):
            return decided
        traced = self._trace_change((None, fate.detail), len(self.direct_causes))
        if not traced and self.evidence.is_cross_row_reject and self.evidence.other_rows_changed:
            stage = fate.stage.replace("_", " ")
            return [
                ChangeCause(
                    "other rows", "", f"the stage {stage} compares rows with each other, and other rows changed"
                )
            ]
        return traced or self._find_fallback_causes(len(self.direct_causes))

    def trace_unread_row(self) -> list[ChangeCause]:
        """Return why only one build read the row: its source, what it was drawn from, or a limit on what is read."""
        limits = [
            each for each in self.manifests.list_causes("parameter") if each.what in self.evidence.narrowing_parameters
        ]
        if self.evidence.source_cause:
            return [merge_possible_causes([self.evidence.source_cause, *limits])]
        if drawn := [own[0] for own in self.direct_causes if own]:
            return drawn[:1]
        return [merge_possible_causes(limits)] if limits else self._find_fallback_causes(0)

    def trace_column(self, column: ColumnValueChange) -> list[ChangeCause]:
        """Return why a column changed."""
        change = (column.before, column.after)
        return self._trace_change(change, len(self.direct_causes)) or self._find_fallback_causes(
            len(self.direct_causes)
        )

    def _trace_change(self, change: tuple[Any, Any], upto: int) -> list[ChangeCause]:
        """Return why a value changed, by the last reply or else the input that contains the change; may be empty."""
        for at in reversed(range(upto)):
            found = self.evidence.call_differences[at]
            if is_change_carried_over(
                (_list_call_parts_a_column_may_take(found.before), _list_call_parts_a_column_may_take(found.after)),
                change,
            ):
                return self._find_call_causes(at)
        if self.evidence.source_cause and any(
            is_change_carried_over((each.before, each.after), change) for each in self.evidence.source_changes
        ):
            return [self.evidence.source_cause]
        if decided := [
            cause
            for cause, pair in zip(self._iterate_decision_causes(), self.evidence.changed_decisions, strict=True)
            if is_change_carried_over(pair, change)
        ]:
            return decided
        return [each.cause for each in self.manifests.changes if _is_same_change((each.before, each.after), change)][:1]

    def _find_call_causes(self, at: int) -> list[ChangeCause]:
        """Return why a call differs: its direct causes and those of its changed request."""
        found = self.evidence.call_differences[at]
        causes = list(self.direct_causes[at])
        for name, change in found.get_changed_request_parts().items():
            if not is_part_set_by_build_inputs(name):
                causes += self._trace_change(change, at)
        return list(dict.fromkeys(causes)) or self._find_fallback_causes(at)

    def _find_fallback_causes(self, upto: int) -> list[ChangeCause]:
        """Return the first possible cause before `upto`, where no text shows which it is."""
        if decisions := list(self._iterate_decision_causes()):
            return decisions
        if self.evidence.source_cause or not self.evidence.has_calls:
            return [self.evidence.source_cause or self._merge_manifest_causes()]
        unseen = self._list_unrecorded_causes()
        strong = [
            own[0]
            for own, each in zip(self.direct_causes[:upto], self.evidence.call_differences, strict=False)
            if own and each.latest_call.is_model_call and each.replies_differ  # such a reply is surely read completely
        ]
        if strong:
            return [strong[0]]
        weak = [
            own[0]
            for own, each in zip(self.direct_causes[:upto], self.evidence.call_differences, strict=False)
            if own and (each.replies_differ or not each.is_paired)  # an equal reply changes nothing
        ]
        if weak and not unseen:
            return [weak[0]]
        if not unseen and self.evidence.other_rows_changed:
            return [_OTHER_ROWS_CAUSE]
        return [merge_possible_causes([*weak[:1], *unseen])] if weak or unseen else []

    def _merge_manifest_causes(self) -> ChangeCause:
        """Return the cause from the manifests alone: the changed input, or "one of" several."""
        possible = [each.cause for each in self.manifests.changes if each.cause.kind != "source"]
        possible += self.evidence.unrecorded_causes
        if not possible:
            return _UNKNOWN_REPLY_CAUSE
        return merge_possible_causes(
            [*possible, _POSSIBLE_REPLY_CAUSE] if self.manifests.may_replies_vary else possible
        )

    def _list_unrecorded_causes(self) -> list[ChangeCause]:
        """Return the changed inputs that no recorded call would show."""
        unseen = [*self.evidence.unrecorded_causes, *self.manifests.list_causes("list", "parameter", "code")]
        unseen += [each for each in self.manifests.list_causes("model") if each.what in _UNRECORDED_MODEL_ROLES]
        unseen += [each for each in self.manifests.list_causes("decision") if each.what == "policy"]
        unseen += [
            each.cause
            for each in self.manifests.changes
            if each.cause.kind == "world"
            and isinstance(each.after, str)
            and not each.after.startswith(("http", "embedded-"))  # a local graph, whose look-ups are not recorded
        ]
        return unseen

    def _iterate_decision_causes(self) -> Iterator[ChangeCause]:
        for before, after in self.evidence.changed_decisions:
            each = after or before or {}
            old, new = (f"{one['decision']} by {one['reviewer']}" if one else "none" for one in (before, after))
            yield ChangeCause("decision", str(each["flag"]), f"{old} → {new}")


def _list_call_parts_a_column_may_take(call: Any) -> Any:
    """Return what a column may take from a call: reply, service, model, revision."""
    if call is None:
        return None
    return [call.reply, call.service, call.parts.get("model"), call.parts.get("revid")]


def _is_same_change(input_change: tuple[Any, Any], change: tuple[Any, Any]) -> bool:
    """True where an input changed between exactly these two values."""
    return input_change == change and input_change[0] != input_change[1]
