"""Explain why a row differs: find the first difference between two builds that accounts for the change.

A change is traced backwards: from a column to the last reply that contains its change (`shows`), from a call's variable to
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

from factmill.tasks.diff.core.calls import Divergence, find_own_causes, is_settled_by_input, join
from factmill.tasks.diff.core.changes import Cause, ColumnChange, Fate
from factmill.tasks.diff.core.locks import Locks

_WORD = re.compile(r"\w+")
_SHORTEST = 3
"""Least characters of a text for a substring match to count."""
_LEAST = 10
"""Smaller numbers are too common to trace."""


def shows(given: tuple[Any, Any], taken: tuple[Any, Any]) -> bool:
    """True where what `taken` gained (or lost) is contained in what `given` gained (or lost); both: (before, after)."""
    gone, come = _split(given)
    lost, won = _split(taken)
    if _stands_in(won, come) or _stands_in(lost, gone):
        return True
    new_words, old_words = _list_words(won), _list_words(lost)
    return _share_words(new_words - old_words, _list_words(come) - _list_words(gone)) or _share_words(
        old_words - new_words, _list_words(gone) - _list_words(come)
    )


def _share_words(wanted: frozenset[str], found: frozenset[str]) -> bool:
    """True where at least half of `wanted` is in `found`; a text may have been cleaned or reformatted."""
    return bool(wanted) and 2 * len(wanted & found) >= len(wanted)


def _list_words(leaves: frozenset[str]) -> frozenset[str]:
    return frozenset(word for leaf in leaves for word in _words_of(leaf))


@lru_cache(maxsize=256)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(word for word in _WORD.findall(text) if len(word) >= _SHORTEST)


def holds(value: Any, parts: Iterable[Any]) -> bool:
    """True where a value contains every text and number of `parts`, whole."""
    return all(_list_leaves(part) <= _list_leaves(value) for part in parts)


def _split(change: tuple[Any, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the texts and numbers that only the old value has, and those that only the new one has."""
    before, after = map(_list_leaves, change)
    return before - after, after - before


def _stands_in(leaves: frozenset[str], others: frozenset[str]) -> bool:
    return bool(leaves & others) or any(
        leaf in other or (len(other) >= _SHORTEST and other in leaf)
        for leaf in leaves
        if len(leaf) >= _SHORTEST
        for other in others
    )


def _list_leaves(value: Any) -> frozenset[str]:
    return _of_text(value) if isinstance(value, str) else frozenset(_walk(value))


@lru_cache(maxsize=256)
def _of_text(text: str) -> frozenset[str]:
    return frozenset([text]) if text else frozenset()


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _walk(each)
    elif isinstance(value, str):
        yield from _of_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= _LEAST:
        yield f"{value:g}" if isinstance(value, float) else str(value)


_OF_NO_CALL = ("embedder", "answers")
"""Models without recorded calls: sentence encoders, and models under test that are built in or read from a file."""
_OTHER_ROWS = Cause("other rows", "", "rows are weighed together, and others of them changed")
UNEXPLAINED = Cause("unexplained", "", "its calls and replies are the same, and so is every input that could touch it")
_NOT_TOLD = Cause(
    "not told",
    "",
    "the locks are the same, so a reply was another; releases hold no replies: compare the builds where they were made",
)
_ASKED_ANEW = Cause(
    "reply", "", "services and models that may answer otherwise were asked, and releases hold no replies"
)
_DECIDED = ("dropped_in_review", "not_reviewed")
"""Reject reasons set by a reviewer or by the policy."""


@dataclass(frozen=True)
class RowFacts:
    """Evidence about a differing row."""

    divergences: Sequence[Divergence]
    columns: Sequence[ColumnChange] = ()
    fate: Fate | None = None
    source: Cause | None = None
    """Why the source columns differ; None where they do not, or no file holds them."""
    given: Sequence[ColumnChange] = ()
    """The changes of the source columns."""
    unseen: Sequence[Cause] = ()
    """Changed inputs that may affect the row but show in no call or column."""
    decisions: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]] = ()
    """Changed decisions about the row: (before, after)."""
    others_changed: bool = False
    """True where other rows changed and a stage compares rows with each other."""
    is_weighed: bool = False
    """True where such a stage rejects the row in one of the builds."""
    has_calls: bool = True
    """False for releases, which have no calls."""
    left_out: str = ""
    """Why a release was made without such rows; empty: it was not."""
    narrowing: frozenset[str] = frozenset()
    """Parameters that limit how much is read, and of what."""


def explain_row(facts: RowFacts, locks: Locks) -> tuple[Cause, ...]:
    """Return why a row differs, in stage order; UNEXPLAINED alone where nothing explains it."""
    if facts.left_out:
        return (Cause("left out", "", facts.left_out),)
    tracer = _Tracer(facts, locks)
    found: dict[Cause, None] = {}
    if facts.fate is not None:
        found.update(dict.fromkeys(tracer.trace_fate(facts.fate)))
    elif not facts.columns:
        found.update(dict.fromkeys(tracer.trace_unread()))
    for column in facts.columns:
        found.update(dict.fromkeys(tracer.trace_column(column)))
    by_label = {cause.label: cause for cause in sorted(found, key=tracer.order, reverse=True)}
    return tuple(sorted(by_label.values(), key=tracer.order)) or (UNEXPLAINED,)


@dataclass
class _Tracer:
    facts: RowFacts
    locks: Locks
    own: list[list[Cause]] = field(init=False)
    """Direct causes of each divergence, without effects of earlier ones."""

    def __post_init__(self) -> None:
        self.own = [find_own_causes(each, self.locks) for each in self.facts.divergences]

    def order(self, cause: Cause) -> tuple[bool, int]:
        """Return a cause's sort key: source and decision first, causes that no call shows last."""
        at = next((at for at, own in enumerate(self.own) if cause in own), len(self.own))
        return cause.kind not in ("source", "decision") and at == len(self.own), at if cause.stage else -1

    def trace_fate(self, fate: Fate) -> list[Cause]:
        """Return why only one build published the row."""
        policy = [each for each in self.locks.of("decision") if each.what == "policy"]
        if fate.reason in _DECIDED and (decided := [*self._list_decisions(), *policy]):
            return decided
        traced = self._trace((None, fate.detail), len(self.own))
        if not traced and self.facts.is_weighed and self.facts.others_changed:
            return [_OTHER_ROWS]
        return traced or self._fall_back(len(self.own))

    def trace_unread(self) -> list[Cause]:
        """Return why only one build read the row: its source, what it was drawn from, or a limit on what is read."""
        limits = [each for each in self.locks.of("parameter") if each.what in self.facts.narrowing]
        if self.facts.source:
            return [join([self.facts.source, *limits])]
        if drawn := [own[0] for own in self.own if own]:
            return drawn[:1]
        return [join(limits)] if limits else self._fall_back(0)

    def trace_column(self, column: ColumnChange) -> list[Cause]:
        """Return why a column changed."""
        change = (column.before, column.after)
        return self._trace(change, len(self.own)) or self._fall_back(len(self.own))

    def _trace(self, change: tuple[Any, Any], upto: int) -> list[Cause]:
        """Return why a value changed, by the last reply or else the input that contains the change; may be empty."""
        for at in reversed(range(upto)):
            found = self.facts.divergences[at]
            if shows((_tell_reply(found.before), _tell_reply(found.after)), change):
                return self._find_origins(at)
        if self.facts.source and any(shows((each.before, each.after), change) for each in self.facts.given):
            return [self.facts.source]
        if decided := [
            cause
            for cause, pair in zip(self._list_decisions(), self.facts.decisions, strict=True)
            if shows(pair, change)
        ]:
            return decided
        return [each.cause for each in self.locks.changes if _says((each.before, each.after), change)][:1]

    def _find_origins(self, at: int) -> list[Cause]:
        """Return why a call differs: its direct causes and those of its changed request."""
        found = self.facts.divergences[at]
        causes = list(self.own[at])
        for name, change in found.asked_otherwise().items():
            if not is_settled_by_input(name):
                causes += self._trace(change, at)
        return list(dict.fromkeys(causes)) or self._fall_back(at)

    def _fall_back(self, upto: int) -> list[Cause]:
        """Return the first possible cause before `upto`, where no text shows which it is."""
        if decisions := list(self._list_decisions()):
            return decisions
        if self.facts.source or not self.facts.has_calls:
            return [self.facts.source or self._tell_possible()]
        unseen = self._list_unseen()
        strong = [
            own[0] for own, each in zip(self.own[:upto], self.facts.divergences, strict=False) if own and _is_read(each)
        ]
        if strong:
            return [strong[0]]
        weak = [
            own[0]
            for own, each in zip(self.own[:upto], self.facts.divergences, strict=False)
            if own and (each.replies_differ or not each.is_paired)  # an equal reply changes nothing
        ]
        if weak and not unseen:
            return [weak[0]]
        if not unseen and self.facts.others_changed:
            return [_OTHER_ROWS]
        return [join([*weak[:1], *unseen])] if weak or unseen else []

    def _tell_possible(self) -> Cause:
        """Return the cause from the manifests alone: the changed input, or "one of" several."""
        possible = [each.cause for each in self.locks.changes if each.cause.kind != "source"]
        possible += self.facts.unseen
        if not possible:
            return _NOT_TOLD
        return join([*possible, _ASKED_ANEW] if self.locks.may_answer_otherwise else possible)

    def _list_unseen(self) -> list[Cause]:
        """Return the changed inputs that no recorded call would show."""
        unseen = [*self.facts.unseen, *self.locks.of("list", "parameter", "code")]
        unseen += [each for each in self.locks.of("model") if each.what in _OF_NO_CALL]
        unseen += [each for each in self.locks.of("decision") if each.what == "policy"]
        unseen += [each.cause for each in self.locks.changes if each.cause.kind == "world" and _is_graph(each.after)]
        return unseen

    def _list_decisions(self) -> Iterator[Cause]:
        for before, after in self.facts.decisions:
            each = after or before or {}
            old, new = (f"{one['decision']} by {one['reviewer']}" if one else "none" for one in (before, after))
            yield Cause("decision", str(each["flag"]), f"{old} → {new}")


def _tell_reply(call: Any) -> Any:
    """Return what a column may take from a call: reply, service, model, revision."""
    if call is None:
        return None
    return [call.reply, call.service, call.parts.get("model"), call.parts.get("revid")]


def _is_read(found: Divergence) -> bool:
    """True for a changed model reply, which is surely read whole."""
    return found.either.is_of_model and found.replies_differ


def _says(given: tuple[Any, Any], change: tuple[Any, Any]) -> bool:
    """True where an input changed between exactly these two values."""
    return given == change and given[0] != given[1]


def _is_graph(identity: Any) -> bool:
    """True for a local Wikidata graph, whose look-ups are not recorded."""
    return isinstance(identity, str) and not identity.startswith(("http", "embedded-"))
