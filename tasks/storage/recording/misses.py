"""What a replay that lacks a call says of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.core.calls.call import Call
from tasks.core.fingerprints import canonical_json
from tasks.storage.warehouse import is_there, open_warehouse, read_json


def explain_miss(warehouse: Path, missing: Sequence[Call]) -> str:
    """Say what is missing and in which parts it differs from the nearest recorded call."""
    call = missing[0]
    text = f"replay: {len(missing)} calls were never recorded, the first: {describe_call(call)}"
    near: list[tuple[str, str, str]] = []
    if is_there(warehouse):
        with open_warehouse(warehouse) as db:
            near = db.execute(
                "SELECT record_id, service, parts FROM calls WHERE operation = ? ORDER BY record_id DESC LIMIT 5000",
                [call.operation],
            ).fetchall()
    differences = [
        _differences(call, service, read_json(parts, f"calls.parts of {record_id}", dict))
        for record_id, service, parts in near
    ]
    if not differences:
        return f"{text}; no call of that operation is recorded. Build once with mode record, then replay"
    nearest = min(differences, key=len)
    if not nearest:
        return f"{text}; the nearest recorded call differs only in the rendered messages or in its age"
    return f"{text}; the nearest recorded call differs in {'; '.join(nearest)}"


def _differences(call: Call, service: str, parts: Mapping[str, object]) -> list[str]:
    pairs: list[tuple[str, object, object]] = [("service", call.service, service)]
    pairs += [(name, call.parts.get(name), parts.get(name)) for name in sorted({*call.parts, *parts})]
    return [f"{name}: {_short(ours)} here, {_short(theirs)} recorded" for name, ours, theirs in pairs if ours != theirs]


def describe_call(call: Call) -> str:
    """Return a call in words."""
    return f"{call.operation} of {call.service} with {_short(dict(call.parts))}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return repr(text if len(text) <= 80 else text[:77] + "…")
