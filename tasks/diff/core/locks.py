"""Compare the manifests of two builds of one benchmark, input by input."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factmill.tasks.diff.core.changes import Cause, CauseKind, InputChange

_OF_EPOCH = ("epoch", "views_from", "views_to")
_MODELS_OF_PARAMS = ("embedder", "translator", "perplexity")
_UNITS, _FILES = "units", "files"
"""FanOutQA's input that lists the set kinds for questions, and its entry for all question files."""
_TOLD_ELSEWHERE = ("params", "reviewing", _UNITS, *_OF_EPOCH, *_MODELS_OF_PARAMS)
_ASSETS: Mapping[str, CauseKind] = {"prompts": "prompt", "lists": "list", "queries": "query", "scripted": "reply"}
_EMBEDDED = "embedded-"
_MOST_CODE = 3
"""Most code changes that are named one by one in a cause."""
Lock = Mapping[str, Any]


@dataclass(frozen=True)
class Locks:
    """Two manifests and their differences."""

    before: Lock
    after: Lock
    changes: tuple[InputChange, ...]

    def of(self, *kinds: CauseKind) -> list[Cause]:
        """Return the causes of these kinds; more than 3 of code become one."""
        found = [each.cause for each in self.changes if each.cause.kind in kinds]
        code = [each for each in found if each.kind == "code"]
        if len(code) <= _MOST_CODE:
            return found
        named = ", ".join(each.what for each in code[:_MOST_CODE])
        summary = Cause("code", f"{len(code)} definitions and versions", f"{named}, …")
        return [each for each in found if each.kind != "code"] + [summary]

    def find(self, kind: CauseKind, what: str) -> Cause | None:
        """Return a cause by kind and name, or None."""
        return next((each for each in self.of(kind) if each.what == what), None)

    @property
    def may_answer_otherwise(self) -> bool:
        """True where a service or model may reply differently to a repeated request."""
        return any(
            not (lock.get("scripted") or lock.get("rules"))
            or any(str(each).startswith("http") for each in lock["services"].values())
            for lock in (self.before, self.after)
        )

    def name_service(self, identity: str) -> str:
        """Return the service name that either build gives an identity; the identity itself if there is none."""
        for lock in (self.after, self.before):
            for name, known in lock["services"].items():
                if known == identity:
                    return str(name)
        return identity

    def is_same_file(self, name: str) -> bool | None:
        """True where both builds read this file with the same bytes; None where neither has it."""
        found = [_files(lock).get(name) for lock in (self.before, self.after)]
        return None if found == [None, None] else found[0] == found[1]

    def has_file(self, name: str) -> tuple[bool, bool]:
        """Return whether each build read this file: (before, after)."""
        before, after = (name in _files(lock) for lock in (self.before, self.after))
        return before, after


def compare_locks(before: Lock, after: Lock) -> Locks:
    """Compare two manifests of one benchmark."""
    return Locks(before, after, tuple(_list_changes(before, after)))


def _list_changes(before: Lock, after: Lock) -> Iterator[InputChange]:
    yield from _compare("source", _files(before), _files(after), "another content")
    old, new = (lock["sources"]["wikidata"] for lock in (before, after))
    if old != new:
        yield _change("source" if None in (old, new) else "world", "wikidata", old, new, "facts are drawn from it")
    yield from _list_services(before["services"], after["services"])
    if before["world"]["epoch"] != after["world"]["epoch"]:
        yield _change("epoch", "", before["world"]["epoch"], after["world"]["epoch"])
    for part, kind in _ASSETS.items():
        yield from _compare(kind, before.get(part) or {}, after.get(part) or {}, "edited")
    yield from _list_models(before, after)
    yield from _list_params(before["params"], after["params"], before["world"]["epoch"] != after["world"]["epoch"])
    yield from _list_code(before["code"], after["code"])


def _list_code(before: str | Mapping[str, Any], after: str | Mapping[str, Any]) -> Iterator[InputChange]:
    """Yield changed definitions, packages and libraries; a manifest with one digest of all code gives one change."""
    if isinstance(before, str) or isinstance(after, str):
        if before != after:
            yield _change(
                "code", "steps", *(each if isinstance(each, str) else "by definition" for each in (before, after))
            )
        return
    for module in sorted(before["definitions"].keys() | after["definitions"].keys()):
        old, new = (each["definitions"].get(module, {}) for each in (before, after))
        for name, *digests in _differing(old, new):
            yield _change("code", f"{module}:{name}", *digests)
    for part in ("rooms", "libraries"):
        for name, *versions in _differing(before[part], after[part]):
            yield _change("code", name, *versions)


def _list_services(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[InputChange]:
    """Yield changed services; those of the embedded world count once, since its content names them all."""
    found = _differing(before, after)
    embedded = [each for each in found if all(str(identity).startswith(_EMBEDDED) for identity in each[1:])]
    if embedded:
        _, old, new = embedded[0]
        yield _change("world", "embedded", old.partition("/")[0], new.partition("/")[0])
    for name, old, new in found:
        if (name, old, new) not in embedded:
            yield _change("world", name, old, new)


def _list_models(before: Lock, after: Lock) -> Iterator[InputChange]:
    changes = list(_compare("model", before["models"], after["models"], ""))
    yield from changes
    if before["author"] != after["author"] and "author" not in {each.cause.what for each in changes}:
        yield _change("model", "answers", before["author"], after["author"])
    same = before["services"] == after["services"] and before["world"]["name"] == after["world"]["name"]
    if same and not changes and before["world"]["digest"] != after["world"]["digest"]:
        yield _change("model", "settings", before["world"]["digest"], after["world"]["digest"])


def _list_params(before: Mapping[str, Any], after: Mapping[str, Any], epoch_told: bool) -> Iterator[InputChange]:
    for name, old, new in _differing(before, after):
        if name in _MODELS_OF_PARAMS:
            yield _change("model", name, _name_model(old), _name_model(new))
        elif name == "source_digest":
            yield _change("source", "measured build", old, new)
        elif name == "epoch" and not epoch_told:
            yield _change("epoch", "", old, new)
        elif name == _UNITS and ({*(old or ())} ^ {*(new or ())}) - {_FILES}:
            yield _change("parameter", "sets", ", ".join(old or ()), ", ".join(new or ()))
        elif name not in _TOLD_ELSEWHERE:
            yield _change("parameter", name, old, new)
    for name, old, new in _differing(before.get("params", {}), after.get("params", {})):
        if not (name == "model" and "source_digest" in after):  # the measured model, listed as the author
            yield _change("parameter", name, old, new)
    old, new = (each.get("reviewing") or {} for each in (before, after))
    if old.get("policy") != new.get("policy"):
        yield _change("decision", "policy", old.get("policy"), new.get("policy"))
    if (told := _count_decisions(old, new)) is not None:
        yield told


def _count_decisions(before: Mapping[str, Any], after: Mapping[str, Any]) -> InputChange | None:
    old, new = (_decisions(each) for each in (before, after))
    if old == new:
        return None
    return _change("decision", "reviewers", f"{len(old)} decisions", f"{len(new)} decisions")


def list_decisions(
    locks: Locks, row_ids: Sequence[str]
) -> list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """Return the changed decisions about a row: (before, after), None where there is none."""
    old, new = (_decisions(lock["params"].get("reviewing") or {}) for lock in (locks.before, locks.after))
    return [
        (old.get(item), new.get(item))
        for item in sorted(old.keys() | new.keys())
        if old.get(item) != new.get(item) and (new.get(item) or old[item])["row_id"] in row_ids
    ]


def _decisions(reviewing: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {each["id"]: each for each in reviewing.get("decisions", ())}


def _files(lock: Lock) -> dict[str, str]:
    return {name: digest for files in lock["sources"]["files"].values() for name, digest in files}


def _compare(kind: CauseKind, before: Mapping[str, Any], after: Mapping[str, Any], told: str) -> Iterator[InputChange]:
    for name, old, new in _differing(before, after):
        how = "not there before" if old is None else "not there any more" if new is None else told
        yield _change(kind, name, old, new, how)


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = [*before, *(name for name in after if name not in before)]
    return [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def _change(kind: CauseKind, what: str, before: Any, after: Any, told: str = "") -> InputChange:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        told = told or _tell_entries(before, after)
    return InputChange(Cause(kind, what, told or f"{_tell(before)} → {_tell(after)}"), before, after)


def _tell(value: Any) -> str:
    return "not set" if value is None else str(value)


def _tell_entries(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_tell(old)} → {_tell(new)}" for name, old, new in _differing(before, after))


def _name_model(value: Any) -> Any:
    return f"{value['name']} ({value['digest'][:8]})" if isinstance(value, Mapping) and "digest" in value else value
