"""The calls of one row in two builds: which of them differ, and in what.

A call that asks the same and is answered alike is no difference, whatever its key: services of the embedded world are
named by the content of the whole world, so the keys of all calls change with any of its items.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.fingerprints import canonical_json

MODEL_OPERATIONS = ("chat", "perplexity", "translate_text", "translate_path")
_ASKED_BY = ("model", "prompt_digest", "temperature", "max_tokens", "profile", "script")
"""Parts that say who is asked and how; the others say what."""
_FOLLOW = ("correction", "rejected", "turns")
"""Parts that follow from what the model said before."""
_MOST_PAIRED = 40
"""Calls of a stage that are paired with those they are most like; of more, only those that ask the same are."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A recorded call that a row of one of the builds rests on."""

    position: int
    """Of its stage, from 1."""
    stage: str
    operation: str
    service: str
    parts: Mapping[str, Any]
    key: str
    status: str
    reply: Any
    """Its body; of a failed call what the error says."""
    asked_at: str = ""
    """Day (ISO 8601)."""

    @property
    def is_of_model(self) -> bool:
        """True where a model answers: its reply may differ whenever it is asked."""
        return self.operation in MODEL_OPERATIONS

    def list_asked(self) -> dict[str, Any]:
        """Return what it asks, by name; variables of a prompt by theirs."""
        asked = {name: value for name, value in self.parts.items() if name not in (*_ASKED_BY, "variables")}
        return asked | {f"${name}": value for name, value in self.parts.get("variables", {}).items()}


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where the calls of a row part: a call that only one of the builds made, or that differs in question or reply."""

    before: SeenCall | None
    after: SeenCall | None

    @property
    def either(self) -> SeenCall:
        """Return the call of the later build, or else of the earlier one."""
        call = self.after or self.before
        assert call is not None
        return call

    @property
    def is_paired(self) -> bool:
        """True where both builds asked."""
        return self.before is not None and self.after is not None

    @property
    def replies_differ(self) -> bool:
        """True where there are two replies that are not the same."""
        return bool(self.before and self.after and _replied(self.before) != _replied(self.after))

    def asked_otherwise(self) -> dict[str, tuple[Any, Any]]:
        """Return what the two ask otherwise: name → before, after; but for what follows from a model's first reply."""
        if not (self.before and self.after):
            return {}
        old, new = self.before.list_asked(), self.after.list_asked()
        names = [name for name in dict.fromkeys([*old, *new]) if name not in _FOLLOW]
        return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}

    def differs_in(self, name: str) -> bool:
        """True where the calls have this part otherwise."""
        return bool(self.before and self.after and self.before.parts.get(name) != self.after.parts.get(name))


def find_divergences(before: Sequence[SeenCall], after: Sequence[SeenCall]) -> list[Divergence]:
    """Return where the calls of a row part, in the order of stages; within one, those that ask the same come first."""
    groups: dict[tuple[int, str, str], tuple[list[SeenCall], list[SeenCall]]] = defaultdict(lambda: ([], []))
    for side, calls in enumerate((before, after)):
        for call in calls:
            groups[call.position, call.operation, str(call.parts.get("prompt", ""))][side].append(call)
    by_stage: dict[int, list[Divergence]] = defaultdict(list)
    for (position, *_), sides in groups.items():
        by_stage[position] += _pair(*sides)
    return [
        each
        for position in sorted(by_stage)
        for each in sorted(by_stage[position], key=lambda found: (not found.is_paired, bool(found.asked_otherwise())))
    ]


def _pair(before: Sequence[SeenCall], after: Sequence[SeenCall]) -> Iterator[Divergence]:
    """Pair calls that ask the same, then those that differ in the fewest parts."""
    wanted: dict[str, list[SeenCall]] = defaultdict(list)
    for call in before:
        wanted[canonical_json(call.list_asked())].append(call)
    left: list[SeenCall] = []
    for call in after:
        same = wanted.get(canonical_json(call.list_asked()))
        if not same:
            left.append(call)
        elif _differ(found := Divergence(same.pop(0), call)):
            yield found
    lost = [call for calls in wanted.values() for call in calls]
    if max(len(lost), len(left)) > _MOST_PAIRED:
        yield from (Divergence(call, None) for call in lost)
        yield from (Divergence(None, call) for call in left)
        return
    for call in lost:
        nearest = min(left, key=lambda each: len(Divergence(call, each).asked_otherwise()), default=None)
        if nearest is not None:
            left.remove(nearest)
        yield Divergence(call, nearest)
    yield from (Divergence(None, call) for call in left)


def _differ(pair: Divergence) -> bool:
    """True where a pair that asks the same is answered otherwise, or is asked of another model or by another prompt."""
    return pair.replies_differ or any(map(pair.differs_in, _ASKED_BY))


def _replied(call: SeenCall) -> tuple[str, Any]:
    return call.status, call.reply
