"""Rules that the authored and the released form of fan-out questions share (Appendix E): texts, answers, pages, order.

Checks assume nothing about their input: it comes from other people's files, and may have any type, size or depth. A
broken rule becomes a Violation and checking continues, so that an author sees all violations at once.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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


_MESSAGES = {
    "question_missing": "question is missing; expected the wording under the key question",
    "answer_missing": "answer is missing; expected an object, a list, a text, a number, true or false",
    "answer_null": "the answer is null; expected an object, list, text, number, true or false",
    "categories_missing": "categories is missing; expected a list of texts, which may be empty",
    "too_deep": f"expected at most {MAX_SUB_QUESTION_LEVELS} levels of sub-questions, found more; put some of them on the same level",
    "evidence_at_top": "has its own evidence; expected evidence only at sub-questions, so that no single article answers the question",
    "evidence_and_strategy": "has both evidence and strategy; expected one of the two",
    "evidence_and_decomposition": "has evidence and decomposition; expected one of the two",
    "evidence_missing": "evidence is missing; expected an article, or null if there are sub-questions",
    "no_evidence_no_strategy": "has neither evidence nor strategy; expected the URL of an article, or sub-questions",
    "no_evidence_no_decomposition": "has neither evidence nor decomposition; expected an article, or sub-questions",
    "no_strategy": "has no strategy; expected a list of sub-questions",
    "then_without_strategy": "has then without strategy; expected a strategy with the first sub-questions",
    "page_without_evidence": "has page without evidence; expected the URL of the article too",
    "depends_on_in_strategy": "has depends_on; put questions with depends_on under then",
}
"""Rule → what is wrong and what was expected, for rules that say the same of every question."""


def make_violation(path: str, rule: str, message: str = "") -> FormViolation:
    """Return a violation; its sentence begins with the path. `message`: by default, the usual one of the rule."""
    return FormViolation(path, rule, f"{path or 'top-level question'}: {message or _MESSAGES[rule]}")


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
            quoted = json.dumps(shown, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
            summary = quoted if value.strip() else "an empty text"
        case Mapping():
            summary = "an object" if value else "an empty object"
        case Sequence():
            summary = f"a list of {len(value)}" if value else "an empty list"
    return summary


def check_unknown_keys(found: Mapping[Any, Any], known: Sequence[str], path: str) -> Iterator[FormViolation]:
    """Yield a violation for each key that this form does not have."""
    for key in found:
        if key not in known:
            message = f"unknown key {format_value_summary(key)}; expected {', '.join(known)}"
            yield make_violation(path, "unknown_key", message)


def check_id(found: Mapping[Any, Any], path: str) -> Iterator[FormViolation]:
    """Yield a violation if the id is no text."""
    if not is_nonblank_utf8_text(found.get("id")):
        yield make_mismatch_violation(path, "wrong_id", "a text as id", found.get("id"))


def check_question_text(found: Mapping[Any, Any], path: str) -> Iterator[FormViolation]:
    """Yield violations in the wording."""
    if "question" not in found:
        yield make_violation(path, "question_missing")
    elif not is_nonblank_utf8_text(found["question"]):
        yield make_mismatch_violation(path, "question_no_text", "a text as question", found["question"])


def check_answer(found: Mapping[Any, Any], path: str, may_be_empty: bool) -> Iterator[FormViolation]:
    """Yield violations in the answer.

    A sub-question's answer may be empty: its article does not say it, as in one of the released questions. A top-level
    question without an answer could not be scored.
    """
    answer = found.get("answer")
    if answer is None:
        yield make_violation(path, "answer_null" if "answer" in found else "answer_missing")
    elif problem := _find_answer_problem(answer):
        yield make_violation(path, "answer_of_wrong_kind", problem)
    elif not may_be_empty and is_empty_answer(answer):
        message = f"the answer is {format_value_summary(answer)}; expected an answer that is not empty"
        yield make_violation(path, "answer_empty", message)


def is_empty_answer(answer: object) -> bool:
    """True for a blank text and for an empty list or object."""
    return not answer.strip() if isinstance(answer, str) else isinstance(answer, (list, dict)) and not answer


def check_categories(found: Mapping[Any, Any]) -> Iterator[FormViolation]:
    """Yield violations in the categories of a top-level question, if it has any."""
    categories = found.get("categories", [])
    if not isinstance(categories, list):
        yield make_mismatch_violation("", "wrong_categories", "categories as a list of texts", categories)
    elif wrong := [each for each in categories if not is_nonblank_utf8_text(each)]:
        message = f"expected categories as a list of texts, found a list with {format_value_summary(wrong[0])}"
        yield make_violation("", "wrong_categories", message)


def enumerate_sub_questions(found: Mapping[Any, Any], keys: Sequence[str], path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, entry) for everything that a question lists under the keys."""
    above = f"{path}." if path else ""
    for key in keys:
        listed = found.get(key)
        yield from ((f"{above}{key}[{at}]", sub) for at, sub in enumerate(listed if isinstance(listed, list) else ()))


def walk_sub_questions(
    found: Mapping[Any, Any], keys: Sequence[str], path: str = "", level: int = 0
) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield (path, sub-question) for the sub-questions that are objects, down to level MAX_SUB_QUESTION_LEVELS."""
    if level < MAX_SUB_QUESTION_LEVELS:
        for sub_path, sub in enumerate_sub_questions(found, keys, path):
            if isinstance(sub, Mapping):
                yield sub_path, sub
                yield from walk_sub_questions(sub, keys, sub_path, level + 1)


def check_sub_question_list(
    found: Mapping[Any, Any],
    key: str,
    path: str,
    level: int,
    check_question: Callable[[Mapping[Any, Any], str, int], Iterator[FormViolation]],
    wanted: str,
) -> Iterator[FormViolation]:
    """Yield violations in the list of sub-questions under a key.

    `level` is that of the question that lists them; `wanted` says what each sub-question should be.
    """
    listed = found.get(key)
    if not isinstance(listed, list):
        yield make_mismatch_violation(path, "no_list", f"a list of questions as {key}", listed)
    elif listed and level == MAX_SUB_QUESTION_LEVELS:
        yield make_violation(path, "too_deep")
    else:
        for sub_path, sub in enumerate_sub_questions(found, [key], path):
            if isinstance(sub, Mapping):
                yield from check_question(sub, sub_path, level + 1)
            else:
                yield make_mismatch_violation(sub_path, "no_object", wanted, sub)


def check_repeated_sub_question_ids(found: Mapping[Any, Any], keys: Sequence[str]) -> Iterator[FormViolation]:
    """Yield a violation for each sub-question that repeats an earlier id."""
    seen: dict[str, str] = {}
    for path, sub in walk_sub_questions(found, keys):
        given = sub.get("id")
        if is_nonblank_utf8_text(given) and seen.setdefault(given, path) != path:
            message = f"has the same id {format_value_summary(given)} as {seen[given]}; expected a unique id"
            yield make_violation(path, "repeated_id", message)


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


def check_dependencies(
    dependent: Sequence[tuple[str, Mapping[Any, Any]]], paths: Mapping[str, str], may_be_empty: bool
) -> Iterator[FormViolation]:
    """Yield violations in `depends_on` of questions on one level, given as (path, question); `paths`: id → path of all."""
    needs: dict[str, list[str]] = {each: [] for each in paths}
    for path, sub in dependent:
        needed = sub.get("depends_on")
        is_complete = bool(needed) or may_be_empty
        if not isinstance(needed, list) or not all(map(is_nonblank_utf8_text, needed)) or not is_complete:
            yield make_mismatch_violation(path, "wrong_depends_on", "a list of ids as depends_on", needed)
        elif unknown := [each for each in needed if each not in paths]:
            known = ", ".join(map(format_value_summary, paths)) or "none has an id"
            message = f"depends_on names {format_value_summary(unknown[0])}; expected ids of questions on the same level ({known})"
            yield make_violation(path, "depends_on_nobody", message)
        elif is_nonblank_utf8_text(sub.get("id")):
            needs[sub["id"]] += needed
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
            if problem := _find_primitive_problem(value):
                return f"the answer's {format_value_summary(key)}: expected a text, number, true, false or a list of them, {problem}"
        return ""
    problem = _find_primitive_problem(answer)
    if problem and isinstance(answer, list):
        return f"in the answer's list: expected texts, numbers, true or false, {problem}"
    return problem and f"expected an object, a list, a text, a number, true or false as answer, {problem}"


def _find_primitive_problem(answer: object) -> str:
    """Return what is wrong with the first part of an answer that is no primitive; empty if all are."""
    for value in answer if isinstance(answer, list) else [answer]:
        if isinstance(value, str) and not _has_no_surrogates(value):
            return "found a text with an unpaired surrogate"
        if isinstance(value, float) and not math.isfinite(value):
            return f"found {format_value_summary(value)}, which is not valid JSON"
        if not isinstance(value, (str, bool, int, float)):
            return f"found {format_value_summary(value)}"
    return ""


def _has_no_surrogates(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
