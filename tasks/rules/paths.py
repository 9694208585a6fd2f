"""How the rules author scores and chooses paths for MultiHal: by where a path ends and what its relations speak of.

Five facts count: whether one end of the path is the answer, whether its other end stands in the question, whether each
relation speaks of what the question asks (by a list of cue words, else by shared words), how many relations there are,
and whether the path runs from the question's thing to the answer. It is no judge of language, and rows say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.rules.tables import load_cues
from tasks.text.matching import normal_words, normalise, singular_form
from tasks.text.values.written import read_date, read_number

_EMPTY = frozenset({"of", "the", "in", "or", "by", "to", "and", "a", "is", "at", "for", "from", "with"})


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is seen in a path, given a question and its answers."""

    ends_in_answer: bool
    """One end is an answer."""
    starts_in_question: bool
    """The other end stands in the question; either end, where none is an answer."""
    runs_to_answer: bool
    """The answer is the last part, not the first."""
    fitting: int
    """Relations that speak of what the question asks."""
    relations: int


def score_path(question: str, answers: Sequence[str], path: str) -> int:
    """Return a score from 1 to 5 for a path told as `thing; relation; thing`."""
    seen = _read_path(question, answers, path.split("; "))
    if not seen.ends_in_answer:
        return 2 if seen.starts_in_question else 1
    if not seen.starts_in_question:
        return 2
    if seen.fitting < seen.relations:
        return 3 if seen.fitting or seen.relations == 1 else 2
    return 5 if seen.runs_to_answer else 4


def choose_paths(question: str, answers: Sequence[str], paths: Sequence[str], number: int) -> list[str]:
    """Return the best paths with a score of 3 or more, at most `number`; equal ones by their text, not their order."""
    scored = sorted((-score_path(question, answers, path), path) for path in dict.fromkeys(paths))
    return [path for score, path in scored if -score >= 3][:number]


def _read_path(question: str, answers: Sequence[str], parts: Sequence[str]) -> _Reading:
    first, last, relations = parts[0], parts[-1], parts[1::2]
    asked = f" {normalise(question)} "
    is_asked = {end: f" {normalise(end)} " in asked for end in (first, last)}
    is_answer = {end: _is_answer(end, answers) for end in (first, last)}
    # an answer that is a sentence may name the question's thing too: then the end that is not asked about is the answer
    runs_back = is_answer[first] and is_asked[last]
    runs_to_answer = is_answer[last] and (is_asked[first] or not runs_back)
    ends_in_answer = runs_to_answer or is_answer[first]
    starts = (first, last) if not ends_in_answer else (first,) if runs_to_answer else (last,)
    asked_words = {*normal_words(question), *singular_form(question).split()}
    return _Reading(
        ends_in_answer,
        any(is_asked[start] for start in starts),
        runs_to_answer,
        sum(_speaks_of(relation, asked_words.difference(*map(normal_words, starts))) for relation in relations),
        len(relations),
    )


def _is_answer(part: str, answers: Sequence[str]) -> bool:
    for answer in answers:
        if normalise(part) == normalise(answer) or f" {normalise(part)} " in f" {normalise(answer)} ":
            return True
        wanted, found = read_date(answer), read_date(part)
        if wanted and found and str(found).startswith(str(wanted)):
            return True
        wanted_number, number = read_number(answer), read_number(part)
        if wanted_number and number and wanted_number.number == number.number:
            return True
    return False


def _speaks_of(relation: str, asked: set[str]) -> bool:
    cues = load_cues().get(relation)
    if cues is None:
        cues = frozenset({*normal_words(relation), *singular_form(relation).split()} - _EMPTY)
    return not cues.isdisjoint(asked)
