"""Find which calls of one row differ between two builds, in what, and why.

Two calls with equal request and reply do not differ, whatever their keys: services of the embedded world are named by
the content of the whole world, so the keys of all calls change with any of its items.

| the calls differ in | cause |
|---|---|
| the prompt's digest | prompt |
| the model's name | model |
| a time or window of days | epoch, or the parameter that sets it |
| samples, a limit, a language | parameter |
| a list of properties | list |
| the reply, and the model's address or digest | model |
| only a model's reply, or the scripted reply | reply |
| a service's reply, and its query was edited | query; "one of" query and world if the service may have changed too |
| a service's reply | world |
| variables, names, titles | none here: traced to an earlier difference |
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
"""Call parts that choose the model and how it is asked; the other parts are the request."""
_FOLLOW = ("correction", "rejected", "turns")
"""Call parts that follow from the model's earlier replies."""
_MOST_PAIRED = 40
"""Most unmatched calls of a stage that are paired by similarity; beyond it only equal requests are paired."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A recorded call of one build that a row was made from."""

    position: int
    """Position of its stage, from 1."""
    stage: str
    operation: str
    service: str
    parts: Mapping[str, Any]
    key: str
    status: str
    reply: Any
    """Response body; for a failed call the error message."""
    asked_at: str = ""
    """Date (ISO 8601)."""

    @property
    def is_of_model(self) -> bool:
        """True where a model replies; its reply may vary between calls."""
        known = find_operation(self.operation)
        return known is not None and known.service in ("model", "translator")

    def list_asked(self) -> dict[str, Any]:
        """Return the request parts by name; a prompt's variables as `$name`."""
        asked = {name: value for name, value in self.parts.items() if name not in (*_ASKED_BY, "variables")}
        return asked | {f"${name}": value for name, value in self.parts.get("variables", {}).items()}


@dataclass(frozen=True, slots=True)
class Divergence:
    """A difference in a row's calls: a call that one build alone made, or a pair with another request or reply."""

    before: SeenCall | None
    after: SeenCall | None

    @property
    def either(self) -> SeenCall:
        """Return the later build's call, or else the earlier build's."""
        call = self.after or self.before
        assert call is not None
        return call

    @property
    def is_paired(self) -> bool:
        """True where both builds made the call."""
        return self.before is not None and self.after is not None

    @property
    def replies_differ(self) -> bool:
        """True where there are two replies and they differ."""
        return bool(self.before and self.after and _replied(self.before) != _replied(self.after))

    def asked_otherwise(self) -> dict[str, tuple[Any, Any]]:
        """Return changed request parts: name → (before, after), without parts that follow from a model's replies."""
        if not (self.before and self.after):
            return {}
        old, new = self.before.list_asked(), self.after.list_asked()
        names = [name for name in dict.fromkeys([*old, *new]) if name not in _FOLLOW]
        return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}

    def differs_in(self, name: str) -> bool:
        """True where this part differs between the calls."""
        return bool(self.before and self.after and self.before.parts.get(name) != self.after.parts.get(name))


def find_divergences(before: Sequence[SeenCall], after: Sequence[SeenCall]) -> list[Divergence]:
    """Return a row's call differences in stage order; within a stage, pairs with equal requests come first."""
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
    """Pair calls with equal requests, then those that differ in the fewest parts."""
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
    """True where a pair with equal requests has different replies, models or prompts."""
    return pair.replies_differ or any(map(pair.differs_in, _ASKED_BY))


def _replied(call: SeenCall) -> tuple[str, Any]:
    return call.status, call.reply


_MOMENTS = ("at", "start", "end", "$epoch")
_PARAMETERS = ("samples", "limit", "language", "k", "follow", "form")
_LISTED = ("pids", "properties")
_SUBJECTS = ("qid", "id", "name", "title", "text", "subject", "category", "pid", "resource", "revid", "words")
_LONGEST = 60


def is_settled_by_input(name: str) -> bool:
    """True for a part set by an input of the build, not by an earlier reply; it needs no tracing."""
    return name in _MOMENTS or name in _PARAMETERS or name in _LISTED


def find_own_causes(found: Divergence, locks: Locks) -> list[Cause]:
    """Return why a call differs, without effects of earlier calls; empty where nothing else differs."""
    if not (found.before and found.after):
        return []
    asked = found.asked_otherwise()
    causes = [*_find_how_asked(found, found.before, found.after, locks), *_find_what_asked(asked, locks)]
    if not causes and not asked and found.replies_differ:
        causes = _find_why_answered(found.before, found.after, locks)
    return [replace(cause, stage=found.either.stage) for cause in causes]


def join(causes: Sequence[Cause], told: str = "") -> Cause:
    """Merge several possible causes into one of kind "one of"."""
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
    """Describe how a service's reply changed; for a page, its revisions."""
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
    """Return the roles, as the manifests name them, in which one model replaced another."""
    models = [each for each in locks.changes if each.cause.kind == "model"]
    roles = [each.cause.what for each in models if (str(each.before), str(each.after)) == (before, after)]
    return ", ".join(roles) or after.partition("@")[0]
