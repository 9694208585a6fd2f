"""Rules that the authored and the released form of fan-out questions share (Appendix E): texts, answers, pages, order.

Checks assume nothing about their input: it comes from other people's files, and may have any type, size or depth. A
broken rule becomes a Violation and checking continues, so that an author sees all violations at once.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeGuard

DEEPEST = 20
"""Most levels of questions below the top one; released questions have at most 3."""
_SHOWN = 60
_LONGEST_NUMBER = 10**20
_STEP = re.compile(r"(\w+)\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule of a form."""

    path: str
    """Path of the question that breaks it, such as strategy[1].then[0]; empty: the top-level question."""
    rule: str
    """Short snake_case name."""
    sentence: str
    """The place, what was expected, what was found."""


def violate(path: str, rule: str, told: str) -> Violation:
    """Return a violation; its sentence begins with the path."""
    return Violation(path, rule, f"{path or 'top-level question'}: {told}")


def expect(path: str, rule: str, wanted: str, found: object) -> Violation:
    """Return a violation that says what was expected and what was found."""
    return violate(path, rule, f"expected {wanted}, found {describe_value(found)}")


def in_order_of_file(found: Sequence[Violation]) -> list[Violation]:
    """Return violations sorted by the paths of their questions, a parent before its children."""
    return sorted(found, key=lambda each: [(key, int(at)) for key, at in _STEP.findall(each.path)])


def is_text(value: object) -> TypeGuard[str]:
    """True for a non-blank string that can be encoded as UTF-8 (no lone surrogate)."""
    return isinstance(value, str) and bool(value.strip()) and _is_whole(value)


def describe_value(value: object) -> str:
    """Return a short phrase for any value: its JSON text if short, else its kind."""
    told = f"a value of type {type(value).__name__}"
    match value:
        case None | bool() | float():
            told = json.dumps(value)
        case int():
            told = f"{value}" if abs(value) < _LONGEST_NUMBER else "a number of more than 20 digits"
        case str():
            shown = value if len(value) <= _SHOWN else f"{value[: _SHOWN - 1]}…"
            told = _quote(shown) if value.strip() else "an empty text"
        case Mapping():
            told = "an object" if value else "an empty object"
        case Sequence():
            told = f"a list of {len(value)}" if value else "an empty list"
    return told


def check_keys(found: Mapping[Any, Any], known: Sequence[str], path: str) -> Iterator[Violation]:
    """Yield a violation for each key that this form does not have."""
    for key in found:
        if key not in known:
            yield violate(
                path, "unknown_key", f"the key {describe_value(key)} is not known; expected {', '.join(known)}"
            )


def check_question_text(found: Mapping[Any, Any], path: str) -> Iterator[Violation]:
    """Yield violations in the wording."""
    if "question" not in found:
        yield violate(path, "question_missing", "no question; expected its wording under the key question")
    elif not is_text(found["question"]):
        yield expect(path, "question_no_text", "the wording as question", found["question"])


def check_answer(found: Mapping[Any, Any], path: str, may_be_empty: bool) -> Iterator[Violation]:
    """Yield violations in the answer.

    A sub-question's answer may be empty: its article does not say it, as in one of the released questions. A top-level
    question without an answer could not be scored.
    """
    if "answer" not in found:
        yield violate(path, "answer_missing", "no answer; expected an object, a list, a text, a number, true or false")
        return
    answer = found["answer"]
    if answer is None:
        yield violate(path, "answer_null", "the answer is null; expected an object, list, text, number, true or false")
    elif problem := _find_answer_problem(answer):
        yield violate(path, "answer_of_wrong_kind", problem)
    elif not may_be_empty and is_empty(answer):
        yield violate(path, "answer_empty", f"the answer is {describe_value(answer)}; expected one that says something")


def is_empty(answer: object) -> bool:
    """True for a blank text and for an empty list or object."""
    return not answer.strip() if isinstance(answer, str) else isinstance(answer, (list, dict)) and not answer


def check_categories(found: Mapping[Any, Any]) -> Iterator[Violation]:
    """Yield violations in the categories of a top-level question, if it has any."""
    categories = found.get("categories", [])
    if not isinstance(categories, list) or not all(map(is_text, categories)):
        shown = next((each for each in categories if not is_text(each)), None) if isinstance(categories, list) else None
        told = f"a list with {describe_value(shown)}" if isinstance(categories, list) else describe_value(categories)
        yield violate("", "wrong_categories", f"expected categories as a list of texts, found {told}")


def enumerate_subs(found: Mapping[Any, Any], keys: Sequence[str], path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, entry) for everything that a question lists under the keys."""
    above = f"{path}." if path else ""
    for key in keys:
        listed = found.get(key)
        yield from ((f"{above}{key}[{at}]", sub) for at, sub in enumerate(listed if isinstance(listed, list) else ()))


def walk_subs(
    found: Mapping[Any, Any], keys: Sequence[str], path: str = "", level: int = 0
) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield (path, sub-question) for the sub-questions that are objects, down to level DEEPEST."""
    if level == DEEPEST:
        return
    for sub_path, sub in enumerate_subs(found, keys, path):
        if isinstance(sub, Mapping):
            yield sub_path, sub
            yield from walk_subs(sub, keys, sub_path, level + 1)


def check_ids(found: Mapping[Any, Any], keys: Sequence[str]) -> Iterator[Violation]:
    """Yield a violation for each sub-question that repeats an earlier id."""
    seen: dict[str, str] = {}
    for path, sub in walk_subs(found, keys):
        given = sub.get("id")
        if is_text(given) and given in seen:
            yield violate(path, "repeated_id", f"has the id {describe_value(given)} of {seen[given]}; expected another")
        elif is_text(given):
            seen[given] = path


def check_numbers(page: Mapping[Any, Any], path: str, above: str, unknown: str | None) -> Iterator[Violation]:
    """Yield violations in a page's id and revision; `unknown` is the value of an unknown one.

    `above`: the page's key at `path`, with a final dot.
    """
    for key in ("pageid", "revid"):
        number = page.get(key)
        if number != unknown and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            yield expect(path, "wrong_page", f"a number above 0 or {unknown or 'null'} as {above}{key}", number)


def check_order(needs: Mapping[str, Sequence[str]], paths: Mapping[str, str]) -> Iterator[Violation]:
    """Yield a violation for a dependency cycle; `needs`: id → ids whose answers it needs, `paths`: id → path."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        round_trip: list[str] = error.args[1]
        told = " → ".join(paths[each] for each in reversed(round_trip))
        yield violate(paths[round_trip[0]], "depends_on_itself", f"depends_on leads back to where it began: {told}")


def _find_answer_problem(answer: object) -> str:
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            if not isinstance(key, str) or not _is_whole(key):
                return f"expected texts as the answer's keys, found {describe_value(key)}"
            for each in value if isinstance(value, list) else [value]:
                if problem := _find_primitive_problem(each):
                    return f"the answer's {describe_value(key)}: expected a text, number, true, false or a list of them, {problem}"
        return ""
    for each in answer if isinstance(answer, list) else [answer]:
        if problem := _find_primitive_problem(each):
            where = "in the answer's list: expected texts, numbers, true or false" if isinstance(answer, list) else (
                "expected an object, a list, a text, a number, true or false as answer"
            )  # fmt: skip
            return f"{where}, {problem}"
    return ""


def _find_primitive_problem(value: object) -> str:
    if isinstance(value, str):
        return "" if _is_whole(value) else "found a text with half a surrogate pair"
    if isinstance(value, float) and not math.isfinite(value):
        return f"found {describe_value(value)}, which JSON does not know"
    return "" if isinstance(value, (bool, int, float)) else f"found {describe_value(value)}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
