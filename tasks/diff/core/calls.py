"""The calls of one row in two builds: which of them differ, in what, and why.

A call that asks the same and is answered alike is no difference, whatever its key: services of the embedded world are
named by the content of the whole world, so the keys of all calls change with any of its items.

| the calls differ in | cause |
|---|---|
| the prompt's digest | prompt |
| the model's name | model |
| a moment or window of days | epoch, or the parameter that sets it |
| samples, a limit, a language | parameter |
| a list of properties | list |
| the reply, and the model's address or digest | model |
| the reply alone, of a model, or the scripted reply | reply |
| the reply of a service, and its query was edited | query; where the service may say something else too, one of the two |
| the reply of a service | world |
| variables, names, titles | none of its own: what made them differ, differs before |
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from factmill.tasks.core.calls.operation import find_operation
from factmill.tasks.core.fingerprints import canonical_json
from factmill.tasks.diff.core.changes import Cause
from factmill.tasks.diff.core.locks import Locks

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
        known = find_operation(self.operation)
        return known is not None and known.service in ("model", "translator")

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


_MOMENTS = ("at", "start", "end", "$epoch")
_PARAMETERS = ("samples", "limit", "language", "k", "follow", "form")
_LISTED = ("pids", "properties")
_SUBJECTS = ("qid", "id", "name", "title", "text", "subject", "category", "pid", "resource", "revid", "words")
_LONGEST = 60


def is_settled_by_input(name: str) -> bool:
    """True for what an input of the build says and no earlier reply: it needs no tracing."""
    return name in _MOMENTS or name in _PARAMETERS or name in _LISTED


def find_own_causes(found: Divergence, locks: Locks) -> list[Cause]:
    """Return why a call differs, but for what follows from earlier ones; none where nothing else differs."""
    if not (found.before and found.after):
        return []
    asked = found.asked_otherwise()
    causes = [*_find_how_asked(found, found.before, found.after, locks), *_find_what_asked(asked, locks)]
    if not causes and not asked and found.replies_differ:
        causes = _find_why_answered(found.before, found.after, locks)
    return [replace(cause, stage=found.either.stage) for cause in causes]


def join(causes: Sequence[Cause], told: str = "") -> Cause:
    """Return the one cause of several that may be it."""
    unique = list(dict.fromkeys(causes))
    if len(unique) == 1:
        return replace(unique[0], told=told or unique[0].told)
    labels = list(dict.fromkeys(each.label for each in unique))
    what = ", ".join(labels) if len(labels) > 1 else labels[0]
    return Cause("one of", what, told or "; ".join(f"{each.label}: {each.told}" for each in unique), unique[0].stage)


def _find_how_asked(found: Divergence, before: SeenCall, after: SeenCall, locks: Locks) -> Iterator[Cause]:
    if found.differs_in("prompt_digest"):
        prompt = str(after.parts["prompt"])
        yield Cause("prompt", prompt, f"edited ({_digest(before)} → {_digest(after)})")
    if found.differs_in("model"):
        old, new = str(before.parts.get("model")), str(after.parts.get("model"))
        yield Cause("model", _name_role(old, new, locks), f"{old} → {new}")


def _find_what_asked(asked: dict[str, tuple[Any, Any]], locks: Locks) -> Iterator[Cause]:
    if moments := [name for name in asked if name in _MOMENTS]:
        days = [each for each in locks.of("parameter") if each.what == "days"]
        old, new = asked[moments[-1]]
        yield next(iter([*locks.of("epoch"), *days]), Cause("epoch", "", f"{old} → {new}"))
    for name in asked:
        if name in _PARAMETERS:
            changed = locks.find("parameter", name) or locks.find("parameter", f"{name}s")
            yield changed or Cause("parameter", name, f"{asked[name][0]} → {asked[name][1]}")
    if any(name in _LISTED for name in asked) and (lists := locks.of("list") or locks.of("code")):
        yield join(lists)


def _find_why_answered(before: SeenCall, after: SeenCall, locks: Locks) -> list[Cause]:
    if failed := [each for each in (before, after) if each.status != "ok"]:
        return [
            Cause("reply", after.operation, f"{_subject(after)}: failed on {failed[0].asked_at}: {failed[0].reply}")
        ]
    return [_find_why_model(before, after, locks) if after.is_of_model else _find_why_service(before, after, locks)]


def _find_why_model(before: SeenCall, after: SeenCall, locks: Locks) -> Cause:
    what = str(after.parts.get("prompt", after.operation))
    if before.service != after.service:
        role = _name_role(before.service, after.service, locks)
        return Cause("model", role, f"{before.service} → {after.service}")
    if before.parts.get("script") != after.parts.get("script"):
        return Cause("reply", what, "the scripted reply was edited")
    if before.key != after.key and (settings := locks.find("model", "settings")):
        return settings
    if before.key != after.key and (code := locks.of("code")):
        return join(code)
    return Cause("reply", what, f"asked on {before.asked_at} and again on {after.asked_at}")


def _find_why_service(before: SeenCall, after: SeenCall, locks: Locks) -> Cause:
    service = locks.name_service(after.service)
    when = "" if before.asked_at == after.asked_at else f" ({before.asked_at} → {after.asked_at})"
    world = Cause("world", service, f"{_tell_answer(before, after)}{when}")
    hops = after.parts.get("hops")
    name = f"{after.operation}_{hops}" if hops else after.operation
    query = next((each for each in locks.of("query") if each.what.rpartition("/")[2] == name), None)
    is_live = after.service.startswith("http")
    may_differ = is_live or before.service != after.service
    if query:
        return join([query, world]) if may_differ else query
    if may_differ:
        return world
    return join(code) if (code := locks.of("code")) else Cause("reply", after.operation, world.told)


def _tell_answer(before: SeenCall, after: SeenCall) -> str:
    """Return what a service says otherwise: of a page its revisions."""
    subject = _subject(after)
    if isinstance(before.reply, dict) and isinstance(after.reply, dict):
        old, new = before.reply.get("revid"), after.reply.get("revid")
        if old != new:
            return f"page {subject}: revision {old} → {new}"
        if (views := before.reply.get("views")) != after.reply.get("views"):
            return f"views of {subject}: {views} → {after.reply.get('views')}"
    return f"{after.operation} of {subject} says otherwise"


def _subject(call: SeenCall) -> str:
    named = next((str(call.parts[name]) for name in _SUBJECTS if call.parts.get(name) is not None), "")
    return named if len(named) <= _LONGEST else f"{named[: _LONGEST - 1]}…"


def _digest(call: SeenCall) -> str:
    return str(call.parts.get("prompt_digest"))[:8]


def _name_role(before: str, after: str, locks: Locks) -> str:
    """Return the roles in which one model took the place of another, by what the locks call them."""
    models = [each for each in locks.changes if each.cause.kind == "model"]
    roles = [each.cause.what for each in models if (str(each.before), str(each.after)) == (before, after)]
    return ", ".join(roles) or after.partition("@")[0]
