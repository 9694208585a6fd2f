"""Paths in words, and what is no word of a path: file names, addresses and other values that nobody would read out (§2.2)."""

import re
from collections.abc import Iterator, Mapping

from tasks.multihal.core.rows import Path
from tasks.text.ids import is_pid, is_qid
from tasks.text.translating.localised import write_value
from tasks.text.values.literals import canonical_number, date_key, format_value

_FILES = "jpe?g|png|gif|svg|tiff?|webp|webm|og[agv]|opus|mp[34]|wav|flac|midi?|pdf|djvu|stl|xcf|map|tab"
_IN_NO_WORDS = re.compile(rf"\S+://|www\.|File:|.*\.(?:{_FILES})$", re.IGNORECASE)


def list_labels(path: Path, labels: Mapping[str, str]) -> list[str]:
    """Return a path in words: labels, and a value as a reader writes it (a semicolon would part it in two)."""
    told = [labels.get(part, part) for part in path.ids]
    if not is_qid(path.ids[-1]):
        value = format_value(path.ids[-1], path.precision, labels.get(path.unit, path.unit) if path.unit else None)
        told[-1] = write_value(value, "en") or value
    return [part.replace(";", ",") for part in told]


def list_ids(path: Path) -> Iterator[str]:
    """Yield the ids of a path that need a label, its unit's among them."""
    yield from filter(is_id, path.ids)
    if path.unit:
        yield path.unit


def find_wordless(path: Path, labels: Mapping[str, str]) -> list[str]:
    """Return the parts of a path that are neither a label in words nor, at its end, a number or date."""
    told = [(part, labels.get(part, part)) for part in path.ids]
    wordless = [
        told_part for part, told_part in told if is_id(part) and (is_id(told_part) or _IN_NO_WORDS.match(told_part))
    ]
    values = [part for part in path.ids if not is_id(part)]
    if values == path.ids[-1:] and (canonical_number(values[0]) or date_key(values[0]) is not None):
        values = []
    return wordless + values


def is_id(part: str) -> bool:
    """True for the QID of an item and the PID of a property."""
    return is_qid(part) or is_pid(part)
