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
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.diff.core.changes import ChangeCause
from factmill.tasks.diff.core.manifest_changes import ManifestComparison

_MODEL_AND_PROMPT_PARTS = ("model", "prompt_digest", "temperature", "max_tokens", "profile", "script")
"""Call parts that choose the model and how it is asked; the other parts are the request."""
_PARTS_FROM_EARLIER_REPLIES = ("correction", "rejected", "turns")
"""Call parts that follow from the model's earlier replies."""
_MAX_SIMILARITY_PAIRED_CALLS = 40
"""Most unmatched calls of a stage that are paired by similarity; beyond it only equal requests are paired."""


@dataclass(frozen=True, slots=True)
class RecordedRowCall:
    """A recorded call of one build that a row was made from."""

    stage_position: int
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
    def is_model_call(self) -> bool:
        """True where a model replies; its reply may vary between calls."""
        known = find_operation(self.operation)
        return known is not None and known.service in ("model", "translator")

    def get_request_parts(self) -> dict[str, Any]:
        """Return the request parts by name; a prompt's variables as `$name`."""
        asked = {
            name: value for name, value in self.parts.items() if name not in (*_MODEL_AND_PROMPT_PARTS, "variables")
        }
        return asked | {f"${name}": value for name, value in self.parts.get("variables", {}).items()}


@dataclass(frozen=True, slots=True)
class CallDifference:
    """A difference in a row's calls: a call that one build alone made, or a pair with another request or reply."""

    before: RecordedRowCall | None
    after: RecordedRowCall | None

    @property
    def latest_call(self) -> RecordedRowCall:
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
        return bool(
            self.before and self.after and _get_status_and_reply(self.before) != _get_status_and_reply(self.after)
        )

    def get_changed_request_parts(self) -> dict[str, tuple[Any, Any]]:
        """Return changed request parts: name → (before, after), without parts that follow from a model's replies."""
        if not (self.before and self.after):
            return {}
        old, new = self.before.get_request_parts(), self.after.get_request_parts()
        names = [name for name in dict.fromkeys([*old, *new]) if name not in _PARTS_FROM_EARLIER_REPLIES]
        return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}

    def has_changed_part(self, name: str) -> bool:
        """True where this part differs between the calls."""
        return bool(self.before and self.after and self.before.parts.get(name) != self.after.parts.get(name))


def find_call_differences(before: Sequence[RecordedRowCall], after: Sequence[RecordedRowCall]) -> list[CallDifference]:
    """Return a row's call differences in stage order; within a stage, pairs with equal requests come first."""
    groups: dict[tuple[int, str, str], tuple[list[RecordedRowCall], list[RecordedRowCall]]] = defaultdict(
        lambda: ([], [])
    )
    for side, calls in enumerate((before, after)):
        for call in calls:
            groups[call.stage_position, call.operation, str(call.parts.get("prompt", ""))][side].append(call)
    by_stage: dict[int, list[CallDifference]] = defaultdict(list)
    for (position, *_), sides in groups.items():
        by_stage[position] += _pair_differing_calls(*sides)
    return [
        each
        for position in sorted(by_stage)
        for each in sorted(
            by_stage[position], key=lambda found: (not found.is_paired, bool(found.get_changed_request_parts()))
        )
    ]


def _pair_differing_calls(
    before: Sequence[RecordedRowCall], after: Sequence[RecordedRowCall]
) -> Iterator[CallDifference]:
    """Pair calls with equal requests, then those that differ in the fewest parts."""
    wanted: dict[str, list[RecordedRowCall]] = defaultdict(list)
    for call in before:
        wanted[canonical_json(call.get_request_parts())].append(call)
    left: list[RecordedRowCall] = []
    for call in after:
        same = wanted.get(canonical_json(call.get_request_parts()))
        if not same:
            left.append(call)
        elif _differs_in_reply_or_model_or_prompt(found := CallDifference(same.pop(0), call)):
            yield found
    lost = [call for calls in wanted.values() for call in calls]
    if max(len(lost), len(left)) > _MAX_SIMILARITY_PAIRED_CALLS:
        yield from (CallDifference(call, None) for call in lost)
        yield from (CallDifference(None, call) for call in left)
        return
    for call in lost:
        nearest = min(left, key=lambda each: len(CallDifference(call, each).get_changed_request_parts()), default=None)
        if nearest is not None:
            left.remove(nearest)
        yield CallDifference(call, nearest)
    yield from (CallDifference(None, call) for call in left)


def _differs_in_reply_or_model_or_prompt(pair: CallDifference) -> bool:
    """True where a pair with equal requests has different replies, models or prompts."""
    return pair.replies_differ or any(map(pair.has_changed_part, _MODEL_AND_PROMPT_PARTS))


def _get_status_and_reply(call: RecordedRowCall) -> tuple[str, Any]:
    return call.status, call.reply


_TIME_PARTS = ("at", "start", "end", "$epoch")
_PARAMETER_PARTS = ("samples", "limit", "language", "k", "follow", "form")
_LIST_PARTS = ("pids", "properties")
_SUBJECT_PARTS = ("qid", "id", "name", "title", "text", "subject", "category", "pid", "resource", "revid", "words")
_MAX_SUBJECT_CHARACTERS = 60


def is_part_set_by_build_inputs(part: str) -> bool:
    """True for a part set by an input of the build, not by an earlier reply; it needs no tracing."""
    return part in _TIME_PARTS or part in _PARAMETER_PARTS or part in _LIST_PARTS


def find_direct_causes(difference: CallDifference, manifests: ManifestComparison) -> list[ChangeCause]:
    """Return why a call differs, without effects of earlier calls; empty where nothing else differs."""
    if not (difference.before and difference.after):
        return []
    asked = difference.get_changed_request_parts()
    causes = [
        *_find_prompt_and_model_causes(difference, difference.before, difference.after, manifests),
        *_find_request_causes(asked, manifests),
    ]
    if not causes and not asked and difference.replies_differ:
        causes = _find_reply_causes(difference.before, difference.after, manifests)
    return [replace(cause, stage=difference.latest_call.stage) for cause in causes]


def merge_possible_causes(causes: Sequence[ChangeCause], description: str = "") -> ChangeCause:
    """Merge several possible causes into one of kind "one of"."""
    unique = list(dict.fromkeys(causes))
    if len(unique) == 1:
        return replace(unique[0], change_description=description or unique[0].change_description)
    labels = list(dict.fromkeys(each.label for each in unique))
    what = ", ".join(labels) if len(labels) > 1 else labels[0]
    return ChangeCause(
        "one of",
        what,
        description or "; ".join(f"{each.label}: {each.change_description}" for each in unique),
        unique[0].stage,
    )


def _find_prompt_and_model_causes(
    difference: CallDifference, before: RecordedRowCall, after: RecordedRowCall, manifests: ManifestComparison
) -> Iterator[ChangeCause]:
    if difference.has_changed_part("prompt_digest"):
        prompt = str(after.parts["prompt"])
        yield ChangeCause(
            "prompt", prompt, f"edited ({_get_short_prompt_digest(before)} → {_get_short_prompt_digest(after)})"
        )
    if difference.has_changed_part("model"):
        old, new = str(before.parts.get("model")), str(after.parts.get("model"))
        yield ChangeCause("model", _format_roles_of_replaced_model(old, new, manifests), f"{old} → {new}")


def _find_request_causes(
    changed_parts: dict[str, tuple[Any, Any]], manifests: ManifestComparison
) -> Iterator[ChangeCause]:
    if moments := [name for name in changed_parts if name in _TIME_PARTS]:
        days = [each for each in manifests.list_causes("parameter") if each.what == "days"]
        old, new = changed_parts[moments[-1]]
        yield next(iter([*manifests.list_causes("epoch"), *days]), ChangeCause("epoch", "", f"{old} → {new}"))
    for name in changed_parts:
        if name in _PARAMETER_PARTS:
            changed = manifests.find_cause("parameter", name) or manifests.find_cause("parameter", f"{name}s")
            yield changed or ChangeCause("parameter", name, f"{changed_parts[name][0]} → {changed_parts[name][1]}")
    if any(name in _LIST_PARTS for name in changed_parts) and (
        lists := manifests.list_causes("list") or manifests.list_causes("code")
    ):
        yield merge_possible_causes(lists)


def _find_reply_causes(
    before: RecordedRowCall, after: RecordedRowCall, manifests: ManifestComparison
) -> list[ChangeCause]:
    if failed := [each for each in (before, after) if each.status != "ok"]:
        return [
            ChangeCause(
                "reply",
                after.operation,
                f"{_format_call_subject(after)}: failed on {failed[0].asked_at}: {failed[0].reply}",
            )
        ]
    return [
        _find_model_reply_cause(before, after, manifests)
        if after.is_model_call
        else _find_service_reply_cause(before, after, manifests)
    ]


def _find_model_reply_cause(
    before: RecordedRowCall, after: RecordedRowCall, manifests: ManifestComparison
) -> ChangeCause:
    what = str(after.parts.get("prompt", after.operation))
    if before.service != after.service:
        role = _format_roles_of_replaced_model(before.service, after.service, manifests)
        return ChangeCause("model", role, f"{before.service} → {after.service}")
    if before.parts.get("script") != after.parts.get("script"):
        return ChangeCause("reply", what, "the scripted reply was edited")
    if before.key != after.key and (settings := manifests.find_cause("model", "settings")):
        return settings
    if before.key != after.key and (code := manifests.list_causes("code")):
        return merge_possible_causes(code)
    return ChangeCause("reply", what, f"sent on {before.asked_at} and again on {after.asked_at}")


def _find_service_reply_cause(
    before: RecordedRowCall, after: RecordedRowCall, manifests: ManifestComparison
) -> ChangeCause:
    service = manifests.find_service_name(after.service)
    when = "" if before.asked_at == after.asked_at else f" ({before.asked_at} → {after.asked_at})"
    world = ChangeCause("world", service, f"{_format_reply_change(before, after)}{when}")
    hops = after.parts.get("hops")
    name = f"{after.operation}_{hops}" if hops else after.operation
    query = next((each for each in manifests.list_causes("query") if each.what.rpartition("/")[2] == name), None)
    is_live = after.service.startswith("http")
    may_differ = is_live or before.service != after.service
    if query:
        return merge_possible_causes([query, world]) if may_differ else query
    if may_differ:
        return world
    return (
        merge_possible_causes(code)
        if (code := manifests.list_causes("code"))
        else ChangeCause("reply", after.operation, world.change_description)
    )


def _format_reply_change(before: RecordedRowCall, after: RecordedRowCall) -> str:
    """Describe how a service's reply changed; for a page, its revisions."""
    subject = _format_call_subject(after)
    if isinstance(before.reply, dict) and isinstance(after.reply, dict):
        old, new = before.reply.get("revid"), after.reply.get("revid")
        if old != new:
            return f"page {subject}: revision {old} → {new}"
        if (views := before.reply.get("views")) != after.reply.get("views"):
            return f"views of {subject}: {views} → {after.reply.get('views')}"
    return f"{after.operation} of {subject} returned something else"


def _format_call_subject(call: RecordedRowCall) -> str:
    named = next((str(call.parts[name]) for name in _SUBJECT_PARTS if call.parts.get(name) is not None), "")
    return named if len(named) <= _MAX_SUBJECT_CHARACTERS else f"{named[: _MAX_SUBJECT_CHARACTERS - 1]}…"


def _get_short_prompt_digest(call: RecordedRowCall) -> str:
    return str(call.parts.get("prompt_digest"))[:8]


def _format_roles_of_replaced_model(model_before: str, model_after: str, manifests: ManifestComparison) -> str:
    """Return the roles, as the manifests name them, in which one model replaced another."""
    models = [each for each in manifests.changes if each.cause.kind == "model"]
    roles = [each.cause.what for each in models if (str(each.before), str(each.after)) == (model_before, model_after)]
    return ", ".join(roles) or model_after.partition("@")[0]
