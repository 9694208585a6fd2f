"""Read models' replies for SLAQ: five pairs and a long one (paper, Appendix A.1), the second model's check, fact types.

Pairs come as one JSON object (PAIRS_FORM), which is read strictly: an extra comma, a missing pair or an extra field
makes the reply Unreadable. The paper's one line (`ShortQ1 : …, ShortA1 : …, …, LongQ : …, LongA : …`) is read too. Its
values may contain commas, colons and quotes, since only the twelve labels in their order separate them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.text.reply_wrappers import (
    MalformedJsonObject,
    parse_only_json_object_ending_text,
    strip_citation_marks,
    strip_surrounding_emoji,
)

PAIRS_PER_TOPIC = 5
"""Short questions of a topic."""
PAIR_LABELS = (*(f"Short{part}{number}" for number in range(1, PAIRS_PER_TOPIC + 1) for part in "QA"), "LongQ", "LongA")
"""Labels of the texts, in the order of the one-line form and of the published columns."""

FactType = Literal[
    "PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE", "DATE", "TIME",
    "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL", "none",
]  # fmt: skip
"""Classes of named entities in OntoNotes, or `none` of them."""

_PAIR_LABEL_PATTERN = re.compile(
    r"(?:^|[,\n])[ \t]*(?P<mark>[\"'“*_]{0,3})(?P<label>Short[QA]\d+|Long[QA])(?P<close>[\"'”*_]{0,3})[ \t]*:(?P<late>\*{0,2})",
    re.IGNORECASE,
)
_CHECK_LINE_PATTERN = re.compile(r"^(?:pair )?(\d+)[:.)](.*)$", re.IGNORECASE | re.MULTILINE)
_OK = re.compile(r"ok(?:ay)?[.!]*", re.IGNORECASE)
_TYPE = re.compile(r"^Type:(.*)$", re.IGNORECASE | re.MULTILINE)

PAIRS_FORM = CompletionFormat(kind="object", label_pattern=_PAIR_LABEL_PATTERN)
"""One JSON object, or the paper's line."""
CHECK_LINES_FORM = CompletionFormat(
    kind="lines",
    line_head="(?:pair )?[0-9]+",
    separator="[:.)](?![0-9])",
    is_numbered=True,
    strips_quotes=True,
    needs_clear_end=True,
)
"""`1: ok` lines."""
FACT_TYPE_FORM = CompletionFormat(kind="lines", line_head="Type", strips_quotes=True)
"""`Type: CLASS`."""


@dataclass(frozen=True, slots=True)
class ShortQuestionAnswerPair:
    """A short question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class GeneratedQuestionAnswerPairs:
    """The pairs generated from one article: five short ones, and a long one about all of them."""

    short: tuple[
        ShortQuestionAnswerPair,
        ShortQuestionAnswerPair,
        ShortQuestionAnswerPair,
        ShortQuestionAnswerPair,
        ShortQuestionAnswerPair,
    ]
    long_question: str
    long_answer: str


def read_generated_question_answer_pairs(text: str) -> GeneratedQuestionAnswerPairs | UnreadableCompletion:
    """Read the pairs of a reply to `slaq/generate`, with single spaces; Unreadable says what is wrong."""
    label, brace = _PAIR_LABEL_PATTERN.search(text), text.find("{")
    is_line = label is not None and (brace < 0 or label.start() < brace)
    try:
        values = _parse_labelled_pairs_line(text) if is_line else _parse_pairs_json_object(text)
    except MalformedJsonObject as wrong:
        return UnreadableCompletion(str(wrong))
    short = tuple(ShortQuestionAnswerPair(values[at], values[at + 1]) for at in range(0, 2 * PAIRS_PER_TOPIC, 2))
    return GeneratedQuestionAnswerPairs(short, values[-2], values[-1])  # type: ignore[arg-type]


def read_fault_per_question_answer_pair(text: str) -> tuple[str | None, ...] | UnreadableCompletion:
    """Read the verdict on each of the five pairs in a reply to `slaq/check`: None for ok, else the reason."""
    found = [(int(number), line_text.strip(" \t\r")) for number, line_text in _CHECK_LINE_PATTERN.findall(text)]
    counts = Counter(number for number, _ in found)
    for number in range(1, PAIRS_PER_TOPIC + 1):
        if counts[number] != 1:
            return UnreadableCompletion(
                f'{counts[number]} lines of the form "{number}: ok" or "{number}: reason", expected one'
            )
    if unknown := sorted(set(counts) - set(range(1, PAIRS_PER_TOPIC + 1))):
        return UnreadableCompletion(
            f"a line about pair {unknown[0]}, expected lines about the pairs 1 to {PAIRS_PER_TOPIC} alone"
        )
    verdicts: list[str | None] = []
    for number, line_text in sorted(found):
        is_ok = _OK.fullmatch(line_text)
        if not is_ok and (not any(map(str.isalnum, line_text)) or re.match(r"\W*ok\b", line_text, re.IGNORECASE)):
            return UnreadableCompletion(
                f'line {number} says {line_text!r}, expected either "ok" and nothing else or a reason'
            )
        verdicts.append(None if is_ok else " ".join(line_text.split()))
    return tuple(verdicts)


def read_fact_type(text: str) -> FactType | UnreadableCompletion:
    """Read the class in a reply to `slaq/fact_type`; "none" for an answer of no class."""
    found = _TYPE.findall(text)
    if len(found) != 1:
        return UnreadableCompletion(f'{len(found)} lines of the form "Type: CLASS", expected one')
    type_text = found[0].strip().rstrip(". \t\r")
    name = re.sub(r"[\s-]+", "_", type_text)
    for known in get_args(FactType):
        if name.casefold() == known.casefold():
            return known
    return UnreadableCompletion(f"the type {type_text!r} is none of {', '.join(get_args(FactType))}")


def _parse_pairs_json_object(text: str) -> list[str]:
    """Parse the JSON object; return its texts in the order of LABELS."""
    value = parse_only_json_object_ending_text(text)
    _require_exact_keys(value, ("short", "long_question", "long_answer"), "the object")
    short = value["short"]
    if not isinstance(short, list):
        raise MalformedJsonObject(f'"short" is {_format_json_type(short)}, expected a list of {PAIRS_PER_TOPIC} pairs')
    if len(short) != PAIRS_PER_TOPIC:
        raise MalformedJsonObject(f'"short" holds {len(short)} pairs, expected exactly {PAIRS_PER_TOPIC}')
    values = []
    for number, pair in enumerate(short, 1):
        if not isinstance(pair, dict):
            raise MalformedJsonObject(f'pair {number} of "short" is {_format_json_type(pair)}, expected an object')
        _require_exact_keys(pair, ("question", "answer"), f'pair {number} of "short"')
        values += [_check_and_clean_pair_text(pair[part], f"{part} {number}") for part in ("question", "answer")]
    return [*values, *(_check_and_clean_pair_text(value[name], name) for name in ("long_question", "long_answer"))]


def _require_exact_keys(value: dict[str, Any], expected: Sequence[str], where: str) -> None:
    if lacking := [key for key in expected if key not in value]:
        raise MalformedJsonObject(f"{where} has no key {lacking[0]!r}, expected the keys {', '.join(expected)}")
    if unknown := [key for key in value if key not in expected]:
        raise MalformedJsonObject(f"{where} has a key {unknown[0]!r}, expected the keys {', '.join(expected)} alone")


def _parse_labelled_pairs_line(text: str) -> list[str]:
    """Parse the one-line form; each part may also be on a line of its own."""
    found = list(_PAIR_LABEL_PATTERN.finditer(text))
    labels = [label["label"].casefold() for label in found]
    known = {label.casefold(): label for label in PAIR_LABELS}
    if lacking := [label for folded, label in known.items() if folded not in labels]:
        raise MalformedJsonObject(
            f"{', '.join(lacking)} missing, expected the {len(PAIR_LABELS)} labels {PAIR_LABELS[0]} to {PAIR_LABELS[-1]}"
        )
    if unknown := [label for label in labels if label not in known]:
        raise MalformedJsonObject(
            f"there is a label {unknown[0]!r}, expected exactly {PAIRS_PER_TOPIC} pairs and a long one"
        )
    doubled, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise MalformedJsonObject(f"the label {known[doubled]} stands there {times} times, expected once")
    if labels != list(known):
        raise MalformedJsonObject(f"the labels are out of order, expected {', '.join(PAIR_LABELS)}")
    values = []
    for at, (label, name) in enumerate(zip(found, PAIR_LABELS, strict=True)):
        end = found[at + 1].start() if at + 1 < len(found) else len(text)
        value_text = text[label.end() : end].strip()
        if name == PAIR_LABELS[-1] and "\n" in value_text:
            raise MalformedJsonObject("text stands behind the line of LongA, expected nothing there")
        value_text = value_text.removesuffix(",").rstrip()
        # quotes around the whole value
        quoted = re.fullmatch(r'"([^"]*)"|“([^“”]*)”', value_text)
        values.append(_check_and_clean_pair_text(quoted[1] or quoted[2] or "" if quoted else value_text, name))
    # quotes around the whole line open before the first label and close behind the last value
    opened = found[0]["mark"]
    if opened and not found[0]["close"]:
        values[-1] = values[-1].removesuffix("”" if opened == "“" else opened).rstrip()
    return values


def _check_and_clean_pair_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise MalformedJsonObject(f"{name} is {_format_json_type(value)}, expected a text")
    tidy = strip_citation_marks(" ".join(value.split()))
    if not name.lower().startswith(("answer", "shorta")):
        # an answer may be a symbol
        tidy = strip_surrounding_emoji(tidy)
    # lone surrogates, which JSON allows, cannot be stored
    if any(unicodedata.category(character) in ("Cs", "Cc") for character in tidy):
        raise MalformedJsonObject(f"{name} holds characters that no text holds: {tidy[:40]!a}")
    if all(unicodedata.category(character)[0] in "PZC" for character in tidy):
        raise MalformedJsonObject(f"{name} is empty")
    return tidy


def _format_json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
