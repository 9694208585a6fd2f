"""Read models' replies for SLAQ: five pairs and a long one (paper, Appendix A.1), the second model's check, fact types.

Pairs come as one JSON object (PAIRS_OBJECT), which is read strictly: an extra comma, a missing pair or an extra field
makes the reply Unreadable. The paper's one line (`ShortQ1 : …, ShortA1 : …, …, LongQ : …, LongA : …`) is read too. Its
values may contain commas, colons and quotes, since only the twelve labels in their order separate them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from factmill.tasks.core.replies import Form, Unreadable
from factmill.tasks.text.undressing import BrokenObject, drop_citations, drop_decoration, parse_object

PAIRS = 5
"""Short questions of a topic."""
LABELS = (*(f"Short{part}{number}" for number in range(1, PAIRS + 1) for part in "QA"), "LongQ", "LongA")
"""Labels of the texts, in the order of the one-line form and of the published columns."""

FactType = Literal[
    "PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE", "DATE", "TIME",
    "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL", "none",
]  # fmt: skip
"""Classes of named entities in OntoNotes, or `none` of them."""

_LABEL = re.compile(
    r"(?:^|[,\n])[ \t]*(?P<mark>[\"'“*_]{0,3})(?P<label>Short[QA]\d+|Long[QA])(?P<close>[\"'”*_]{0,3})[ \t]*:(?P<late>\*{0,2})",
    re.IGNORECASE,
)
_VERDICT = re.compile(r"^(?:pair )?(\d+)[:.)](.*)$", re.IGNORECASE | re.MULTILINE)
_OK = re.compile(r"ok(?:ay)?[.!]*", re.IGNORECASE)
_TYPE = re.compile(r"^Type:(.*)$", re.IGNORECASE | re.MULTILINE)

PAIRS_OBJECT = Form(kind="object", label=_LABEL)
"""One JSON object, or the paper's line."""
CHECK_LINES = Form(
    kind="lines", head="(?:pair )?[0-9]+", point="[:.)](?![0-9])", is_numbered=True, quotes=True, is_open=True
)
"""`1: ok` lines."""
FACT_TYPE_LINE = Form(kind="lines", head="Type", quotes=True)
"""`Type: CLASS`."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A short question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Generated:
    """The pairs generated from one article: five short ones, and a long one about all of them."""

    short: tuple[Pair, Pair, Pair, Pair, Pair]
    long_question: str
    long_answer: str


def read_generated(text: str) -> Generated | Unreadable:
    """Read the pairs of a reply to `slaq/generate`, with single spaces; Unreadable says what is wrong."""
    label, brace = _LABEL.search(text), text.find("{")
    is_line = label is not None and (brace < 0 or label.start() < brace)
    try:
        values = _read_line(text) if is_line else _read_object(text)
    except BrokenObject as wrong:
        return Unreadable(str(wrong))
    short = tuple(Pair(values[at], values[at + 1]) for at in range(0, 2 * PAIRS, 2))
    return Generated(short, values[-2], values[-1])  # type: ignore[arg-type]


def read_check(text: str) -> tuple[str | None, ...] | Unreadable:
    """Read the verdict on each of the five pairs in a reply to `slaq/check`: None for ok, else the reason."""
    found = [(int(number), said.strip(" \t\r")) for number, said in _VERDICT.findall(text)]
    counts = Counter(number for number, _ in found)
    for number in range(1, PAIRS + 1):
        if counts[number] != 1:
            return Unreadable(f'{counts[number]} lines of the form "{number}: ok" or "{number}: reason", expected one')
    if unknown := sorted(set(counts) - set(range(1, PAIRS + 1))):
        return Unreadable(f"a line about pair {unknown[0]}, expected lines about the pairs 1 to {PAIRS} alone")
    verdicts: list[str | None] = []
    for number, said in sorted(found):
        is_ok = _OK.fullmatch(said)
        if not is_ok and (not any(map(str.isalnum, said)) or re.match(r"\W*ok\b", said, re.IGNORECASE)):
            return Unreadable(f'line {number} says {said!r}, expected either "ok" and nothing else or a reason')
        verdicts.append(None if is_ok else " ".join(said.split()))
    return tuple(verdicts)


def read_fact_type(text: str) -> FactType | Unreadable:
    """Read the class in a reply to `slaq/fact_type`; "none" for an answer of no class."""
    found = _TYPE.findall(text)
    if len(found) != 1:
        return Unreadable(f'{len(found)} lines of the form "Type: CLASS", expected one')
    said = found[0].strip().rstrip(". \t\r")
    name = re.sub(r"[\s-]+", "_", said)
    for known in get_args(FactType):
        if name.casefold() == known.casefold():
            return known
    return Unreadable(f"the type {said!r} is none of {', '.join(get_args(FactType))}")


def _read_object(text: str) -> list[str]:
    """Parse the JSON object; return its texts in the order of LABELS."""
    value = parse_object(text)
    _check_keys(value, ("short", "long_question", "long_answer"), "the object")
    short = value["short"]
    if not isinstance(short, list):
        raise BrokenObject(f'"short" is {_name_type(short)}, expected a list of {PAIRS} pairs')
    if len(short) != PAIRS:
        raise BrokenObject(f'"short" holds {len(short)} pairs, expected exactly {PAIRS}')
    values = []
    for number, pair in enumerate(short, 1):
        if not isinstance(pair, dict):
            raise BrokenObject(f'pair {number} of "short" is {_name_type(pair)}, expected an object')
        _check_keys(pair, ("question", "answer"), f'pair {number} of "short"')
        values += [_tidy(pair["question"], f"question {number}"), _tidy(pair["answer"], f"answer {number}")]
    return [*values, *(_tidy(value[name], name) for name in ("long_question", "long_answer"))]


def _check_keys(value: dict[str, Any], expected: Sequence[str], where: str) -> None:
    if lacking := [key for key in expected if key not in value]:
        raise BrokenObject(f"{where} has no key {lacking[0]!r}, expected the keys {', '.join(expected)}")
    if unknown := [key for key in value if key not in expected]:
        raise BrokenObject(f"{where} has a key {unknown[0]!r}, expected the keys {', '.join(expected)} alone")


def _read_line(text: str) -> list[str]:
    """Parse the one-line form; each part may also be on a line of its own."""
    found = list(_LABEL.finditer(text))
    labels = [label["label"].casefold() for label in found]
    known = {label.casefold(): label for label in LABELS}
    if lacking := [label for folded, label in known.items() if folded not in labels]:
        raise BrokenObject(
            f"{', '.join(lacking)} missing, expected the {len(LABELS)} labels {LABELS[0]} to {LABELS[-1]}"
        )
    if unknown := [label for label in labels if label not in known]:
        raise BrokenObject(f"there is a label {unknown[0]!r}, expected exactly {PAIRS} pairs and a long one")
    doubled, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise BrokenObject(f"the label {known[doubled]} stands there {times} times, expected once")
    if labels != list(known):
        raise BrokenObject(f"the labels are out of order, expected {', '.join(LABELS)}")
    values = []
    for at, (label, name) in enumerate(zip(found, LABELS, strict=True)):
        end = found[at + 1].start() if at + 1 < len(found) else len(text)
        said = text[label.end() : end].strip()
        if name == LABELS[-1] and "\n" in said:
            raise BrokenObject("text stands behind the line of LongA, expected nothing there")
        said = said.removesuffix(",").rstrip()
        # quotes around the whole value
        quoted = re.fullmatch(r'"([^"]*)"|“([^“”]*)”', said)
        values.append(_tidy(quoted[1] or quoted[2] or "" if quoted else said, name))
    # quotes around the whole line open before the first label and close behind the last value
    opened = found[0]["mark"]
    if opened and not found[0]["close"]:
        values[-1] = values[-1].removesuffix("”" if opened == "“" else opened).rstrip()
    return values


def _tidy(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise BrokenObject(f"{name} is {_name_type(value)}, expected a text")
    tidy = drop_citations(" ".join(value.split()))
    if not name.lower().startswith(("answer", "shorta")):
        # an answer may be a symbol
        tidy = drop_decoration(tidy)
    # lone surrogates, which JSON allows, cannot be stored
    if any(unicodedata.category(character) in ("Cs", "Cc") for character in tidy):
        raise BrokenObject(f"{name} holds characters that no text holds: {tidy[:40]!a}")
    if all(unicodedata.category(character)[0] in "PZC" for character in tidy):
        raise BrokenObject(f"{name} is empty")
    return tidy


def _name_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
