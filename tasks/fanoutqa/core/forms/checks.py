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

MAX_SUB_QUESTION_LEVELS = 20
"""Most levels of questions below the top one; released questions have at most 3."""
_MAX_SHOWN_CHARACTERS = 60
_MAX_SHOWN_NUMBER = 10**20
_PATH_STEP = re.compile(r"(\w+)\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class FormViolation:
    """A broken rule of a form."""

    path: str
    """Path of the question that breaks it, such as strategy[1].then[0]; empty: the top-level question."""
    rule: str
    """Short snake_case name."""
    sentence: str
    """The place, what was expected, what was found."""


def make_violation(path: str, rule: str, message: str) -> FormViolation:
    """Return a violation; its sentence begins with the path."""
    return FormViolation(path, rule, f"{path or 'top-level question'}: {message}")


def make_mismatch_violation(path: str, rule: str, wanted: str, found: object) -> FormViolation:
    """Return a violation that says what was expected and what was found."""
    return make_violation(path, rule, f"expected {wanted}, found {format_value_summary(found)}")


def sort_violations_by_path(found: Sequence[FormViolation]) -> list[FormViolation]:
    """Return violations sorted by the paths of their questions, a parent before its children."""
    return sorted(found, key=lambda each: [(key, int(at)) for key, at in _PATH_STEP.findall(each.path)])


def is_nonblank_utf8_text(value: object) -> TypeGuard[str]:
    """True for a non-blank string that can be encoded as UTF-8 (no lone surrogate)."""
    return isinstance(value, str) and bool(value.strip()) and _has_no_surrogates(value)


def format_value_summary(value: object) -> str:
    """Return a short phrase for any value: its JSON text if short, else its kind."""
    summary = f"a value of type {type(value).__name__}"
    match value:
        case None | bool() | float():
            summary = json.dumps(value)
        case int():
            summary = f"{value}" if abs(value) < _MAX_SHOWN_NUMBER else "a number of more than 20 digits"
        case str():
            shown = value if len(value) <= _MAX_SHOWN_CHARACTERS else f"{value[: _MAX_SHOWN_CHARACTERS - 1]}…"
            summary = _quote_json(shown) if value.strip() else "an empty text"
        case Mapping():
            summary = "an object" if value else "an empty object"
        case Sequence():
            summary = f"a list of {len(value)}" if value else "an empty list"
    return summary


def check_unknown_keys(found: Mapping[Any, Any], known: Sequence[str], path: str) -> Iterator[FormViolation]:
    """Yield a violation for each key that this form does not have."""
    for key in found:
        if key not in known:
            yield make_violation(
                path, "unknown_key", f"unknown key {format_value_summary(key)}; expected {', '.join(known)}"
            )


def check_question_text(found: Mapping[Any, Any], path: str) -> Iterator[FormViolation]:
    """Yield violations in the wording."""
    if "question" not in found:
        yield make_violation(
            path, "question_missing", "question is missing; expected the wording under the key question"
        )
    elif not is_nonblank_utf8_text(found["question"]):
        yield make_mismatch_violation(path, "question_no_text", "a text as question", found["question"])


def check_answer(found: Mapping[Any, Any], path: str, may_be_empty: bool) -> Iterator[FormViolation]:
    """Yield violations in the answer.

    A sub-question's answer may be empty: its article does not say it, as in one of the released questions. A top-level
    question without an answer could not be scored.
    """
    if "answer" not in found:
        yield make_violation(
            path, "answer_missing", "answer is missing; expected an object, a list, a text, a number, true or false"
        )
        return
    answer = found["answer"]
    if answer is None:
        yield make_violation(
            path, "answer_null", "the answer is null; expected an object, list, text, number, true or false"
        )
    elif problem := _find_answer_problem(answer):
        yield make_violation(path, "answer_of_wrong_kind", problem)
    elif not may_be_empty and is_empty_answer(answer):
        yield make_violation(
            path, "answer_empty", f"the answer is {format_value_summary(answer)}; expected an answer that is not empty"
        )


def is_empty_answer(answer: object) -> bool:
    """True for a blank text and for an empty list or object."""
    return not answer.strip() if isinstance(answer, str) else isinstance(answer, (list, dict)) and not answer


def check_categories(found: Mapping[Any, Any]) -> Iterator[FormViolation]:
    """Yield violations in the categories of a top-level question, if it has any."""
    categories = found.get("categories", [])
    if not isinstance(categories, list) or not all(map(is_nonblank_utf8_text, categories)):
        shown = (
            next((each for each in categories if not is_nonblank_utf8_text(each)), None)
            if isinstance(categories, list)
            else None
        )
        summary = (
            f"a list with {format_value_summary(shown)}"
            if isinstance(categories, list)
            else format_value_summary(categories)
        )
        yield make_violation("", "wrong_categories", f"expected categories as a list of texts, found {summary}")


def enumerate_sub_questions(found: Mapping[Any, Any], keys: Sequence[str], path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, entry) for everything that a question lists under the keys."""
    above = f"{path}." if path else ""
    for key in keys:
        listed = found.get(key)
        yield from ((f"{above}{key}[{at}]", sub) for at, sub in enumerate(listed if isinstance(listed, list) else ()))


def walk_sub_questions(
    found: Mapping[Any, Any], keys: Sequence[str], path: str = "", level: int = 0
) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield (path, sub-question) for the sub-questions that are objects, down to level DEEPEST."""
    if level == MAX_SUB_QUESTION_LEVELS:
        return
    for sub_path, sub in enumerate_sub_questions(found, keys, path):
        if isinstance(sub, Mapping):
            yield sub_path, sub
            yield from walk_sub_questions(sub, keys, sub_path, level + 1)


def check_repeated_ids(found: Mapping[Any, Any], keys: Sequence[str]) -> Iterator[FormViolation]:
    """Yield a violation for each sub-question that repeats an earlier id."""
    seen: dict[str, str] = {}
    for path, sub in walk_sub_questions(found, keys):
        given = sub.get("id")
        if is_nonblank_utf8_text(given) and given in seen:
            yield make_violation(
                path,
                "repeated_id",
                f"has the same id {format_value_summary(given)} as {seen[given]}; expected a unique id",
            )
        elif is_nonblank_utf8_text(given):
            seen[given] = path


def check_page_and_revision_ids(
    page: Mapping[Any, Any], path: str, above: str, unknown: str | None
) -> Iterator[FormViolation]:
    """Yield violations in a page's id and revision; `unknown` is the value of an unknown one.

    `above`: the page's key at `path`, with a final dot.
    """
    for key in ("pageid", "revid"):
        number = page.get(key)
        if number != unknown and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            yield make_mismatch_violation(
                path, "wrong_page", f"a number above 0 or {unknown or 'null'} as {above}{key}", number
            )


def check_dependency_cycles(needs: Mapping[str, Sequence[str]], paths: Mapping[str, str]) -> Iterator[FormViolation]:
    """Yield a violation for a dependency cycle; `needs`: id → ids whose answers it needs, `paths`: id → path."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        round_trip: list[str] = error.args[1]
        cycle = " → ".join(paths[each] for each in reversed(round_trip))
        yield make_violation(paths[round_trip[0]], "depends_on_itself", f"depends_on forms a cycle: {cycle}")


def _find_answer_problem(answer: object) -> str:
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            if not isinstance(key, str) or not _has_no_surrogates(key):
                return f"expected texts as the answer's keys, found {format_value_summary(key)}"
            for each in value if isinstance(value, list) else [value]:
                if problem := _find_primitive_problem(each):
                    return f"the answer's {format_value_summary(key)}: expected a text, number, true, false or a list of them, {problem}"
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
        return "" if _has_no_surrogates(value) else "found a text with an unpaired surrogate"
    if isinstance(value, float) and not math.isfinite(value):
        return f"found {format_value_summary(value)}, which is not valid JSON"
    return "" if isinstance(value, (bool, int, float)) else f"found {format_value_summary(value)}"


def _quote_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _has_no_surrogates(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
