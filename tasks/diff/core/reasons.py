"""Why one call differs from its like in the other build: what of the builds' inputs made it do so.

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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tasks.diff.core.calls import Divergence, SeenCall
from tasks.diff.core.changes import Cause
from tasks.diff.core.locks import Locks

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
