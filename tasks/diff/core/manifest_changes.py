"""Compare the manifests of two builds of one benchmark, input by input."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from factmill.tasks.diff.core.changes import ChangeCause, ChangeCauseKind, InputChange

_EPOCH_PARAMETERS = ("epoch", "views_from", "views_to")
_MODEL_PARAMETERS = ("embedder", "translator", "perplexity")
_SET_KINDS_PARAMETER, _ALL_FILES_SET_KIND = "units", "files"
"""FanOutQA's input that lists the set kinds for questions, and its entry for all question files."""
_SEPARATELY_COMPARED_PARAMETERS = ("params", "reviewing", _SET_KINDS_PARAMETER, *_EPOCH_PARAMETERS, *_MODEL_PARAMETERS)
_ASSET_CAUSE_KINDS: Mapping[str, ChangeCauseKind] = {
    "prompts": "prompt",
    "lists": "list",
    "queries": "query",
    "scripted": "reply",
}
_EMBEDDED_IDENTITY_PREFIX = "embedded-"
_MAX_NAMED_CODE_CHANGES = 3
"""Most code changes that are named one by one in a cause."""
ManifestContent = Mapping[str, Any]


@dataclass(frozen=True)
class ManifestComparison:
    """Two manifests and their differences."""

    before: ManifestContent
    after: ManifestContent
    changes: tuple[InputChange, ...]

    def list_causes(self, *kinds: ChangeCauseKind) -> list[ChangeCause]:
        """Return the causes of these kinds; more than 3 of code become one."""
        found = [each.cause for each in self.changes if each.cause.kind in kinds]
        code = [each for each in found if each.kind == "code"]
        if len(code) <= _MAX_NAMED_CODE_CHANGES:
            return found
        named = ", ".join(each.what for each in code[:_MAX_NAMED_CODE_CHANGES])
        summary = ChangeCause("code", f"{len(code)} definitions and versions", f"{named}, …")
        return [each for each in found if each.kind != "code"] + [summary]

    def find_cause(self, kind: ChangeCauseKind, what: str) -> ChangeCause | None:
        """Return a cause by kind and name, or None."""
        return next((each for each in self.list_causes(kind) if each.what == what), None)

    @property
    def may_replies_vary(self) -> bool:
        """True where a service or model may reply differently to a repeated request."""
        return any(
            not (lock.get("scripted") or lock.get("rules"))
            or any(str(each).startswith("http") for each in lock["services"].values())
            for lock in (self.before, self.after)
        )

    def find_service_name(self, identity: str) -> str:
        """Return the service name that either build gives an identity; the identity itself if there is none."""
        for lock in (self.after, self.before):
            for name, known in lock["services"].items():
                if known == identity:
                    return str(name)
        return identity

    def is_file_unchanged(self, name: str) -> bool | None:
        """True where both builds read this file with the same bytes; None where neither has it."""
        found = [_index_source_file_digests(lock).get(name) for lock in (self.before, self.after)]
        return None if found == [None, None] else found[0] == found[1]

    def has_file_before_and_after(self, name: str) -> tuple[bool, bool]:
        """Return whether each build read this file: (before, after)."""
        before, after = (name in _index_source_file_digests(lock) for lock in (self.before, self.after))
        return before, after


def compare_manifests(before: ManifestContent, after: ManifestContent) -> ManifestComparison:
    """Compare two manifests of one benchmark."""
    return ManifestComparison(before, after, tuple(_iterate_input_changes(before, after)))


def _iterate_input_changes(before: ManifestContent, after: ManifestContent) -> Iterator[InputChange]:
    yield from _iterate_mapping_changes(
        "source", _index_source_file_digests(before), _index_source_file_digests(after), "content changed"
    )
    old, new = (lock["sources"]["wikidata"] for lock in (before, after))
    if old != new:
        yield _make_input_change("source" if None in (old, new) else "world", "wikidata", old, new, "source of facts")
    yield from _iterate_service_changes(before["services"], after["services"])
    if before["world"]["epoch"] != after["world"]["epoch"]:
        yield _make_input_change("epoch", "", before["world"]["epoch"], after["world"]["epoch"])
    for part, kind in _ASSET_CAUSE_KINDS.items():
        yield from _iterate_mapping_changes(kind, before.get(part) or {}, after.get(part) or {}, "edited")
    yield from _iterate_model_changes(before, after)
    yield from _iterate_parameter_changes(
        before["params"], after["params"], before["world"]["epoch"] != after["world"]["epoch"]
    )
    yield from _iterate_code_changes(before["code"], after["code"])


def _iterate_code_changes(before: str | Mapping[str, Any], after: str | Mapping[str, Any]) -> Iterator[InputChange]:
    """Yield changed definitions, packages and libraries; a manifest with one digest of all code gives one change."""
    if isinstance(before, str) or isinstance(after, str):
        if before != after:
            yield _make_input_change(
                "code",
                "steps",
                *(each if isinstance(each, str) else "one digest per definition" for each in (before, after)),
            )
        return
    for module in sorted(before["definitions"].keys() | after["definitions"].keys()):
        old, new = (each["definitions"].get(module, {}) for each in (before, after))
        for name, *digests in _list_differing_entries(old, new):
            yield _make_input_change("code", f"{module}:{name}", *digests)
    for part in ("rooms", "libraries"):
        for name, *versions in _list_differing_entries(before[part], after[part]):
            yield _make_input_change("code", name, *versions)


def _iterate_service_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[InputChange]:
    """Yield changed services; those of the embedded world count once, since its content names them all."""
    found = _list_differing_entries(before, after)
    embedded = [
        each for each in found if all(str(identity).startswith(_EMBEDDED_IDENTITY_PREFIX) for identity in each[1:])
    ]
    if embedded:
        _, old, new = embedded[0]
        yield _make_input_change("world", "embedded", old.partition("/")[0], new.partition("/")[0])
    for name, old, new in found:
        if (name, old, new) not in embedded:
            yield _make_input_change("world", name, old, new)


def _iterate_model_changes(before: ManifestContent, after: ManifestContent) -> Iterator[InputChange]:
    changes = list(_iterate_mapping_changes("model", before["models"], after["models"], ""))
    yield from changes
    if before["author"] != after["author"] and "author" not in {each.cause.what for each in changes}:
        yield _make_input_change("model", "answers", before["author"], after["author"])
    same = before["services"] == after["services"] and before["world"]["name"] == after["world"]["name"]
    if same and not changes and before["world"]["digest"] != after["world"]["digest"]:
        yield _make_input_change("model", "settings", before["world"]["digest"], after["world"]["digest"])


def _iterate_parameter_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], epoch_listed: bool
) -> Iterator[InputChange]:
    for name, old, new in _list_differing_entries(before, after):
        if name in _MODEL_PARAMETERS:
            yield _make_input_change("model", name, _format_model_identity(old), _format_model_identity(new))
        elif name == "source_digest":
            yield _make_input_change("source", "measured build", old, new)
        elif name == "epoch" and not epoch_listed:
            yield _make_input_change("epoch", "", old, new)
        elif name == _SET_KINDS_PARAMETER and ({*(old or ())} ^ {*(new or ())}) - {_ALL_FILES_SET_KIND}:
            yield _make_input_change("parameter", "sets", ", ".join(old or ()), ", ".join(new or ()))
        elif name not in _SEPARATELY_COMPARED_PARAMETERS:
            yield _make_input_change("parameter", name, old, new)
    for name, old, new in _list_differing_entries(before.get("params", {}), after.get("params", {})):
        if not (name == "model" and "source_digest" in after):  # the measured model, listed as the author
            yield _make_input_change("parameter", name, old, new)
    old, new = (each.get("reviewing") or {} for each in (before, after))
    if old.get("policy") != new.get("policy"):
        yield _make_input_change("decision", "policy", old.get("policy"), new.get("policy"))
    if (change := _find_review_decisions_change(old, new)) is not None:
        yield change


def _find_review_decisions_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> InputChange | None:
    old, new = (_index_review_decisions_by_id(each) for each in (before, after))
    if old == new:
        return None
    return _make_input_change("decision", "reviewers", f"{len(old)} decisions", f"{len(new)} decisions")


def list_changed_review_decisions(
    manifests: ManifestComparison, row_ids: Sequence[str]
) -> list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """Return the changed decisions about a row: (before, after), None where there is none."""
    old, new = (
        _index_review_decisions_by_id(lock["params"].get("reviewing") or {})
        for lock in (manifests.before, manifests.after)
    )
    return [
        (old.get(item), new.get(item))
        for item in sorted(old.keys() | new.keys())
        if old.get(item) != new.get(item) and (new.get(item) or old[item])["row_id"] in row_ids
    ]


def _index_review_decisions_by_id(reviewing: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {each["id"]: each for each in reviewing.get("decisions", ())}


def _index_source_file_digests(manifest: ManifestContent) -> dict[str, str]:
    return {name: digest for files in manifest["sources"]["files"].values() for name, digest in files}


def _iterate_mapping_changes(
    kind: ChangeCauseKind, before: Mapping[str, Any], after: Mapping[str, Any], description: str
) -> Iterator[InputChange]:
    for name, old, new in _list_differing_entries(before, after):
        how = "new" if old is None else "removed" if new is None else description
        yield _make_input_change(kind, name, old, new, how)


def _list_differing_entries(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = [*before, *(name for name in after if name not in before)]
    return [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def _make_input_change(kind: ChangeCauseKind, what: str, before: Any, after: Any, description: str = "") -> InputChange:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        description = description or ", ".join(
            f"{name} {_format_input_value(old)} → {_format_input_value(new)}"
            for name, old, new in _list_differing_entries(before, after)
        )
    return InputChange(
        ChangeCause(kind, what, description or f"{_format_input_value(before)} → {_format_input_value(after)}"),
        before,
        after,
    )


def _format_input_value(value: Any) -> str:
    return "not set" if value is None else str(value)


def _format_model_identity(value: Any) -> Any:
    return f"{value['name']} ({value['digest'][:8]})" if isinstance(value, Mapping) and "digest" in value else value
