"""How the rules author scores and chooses paths for MultiHal: by where a path ends and what its relations speak of.

Six facts count: whether one end of the path is the answer, whether its other end stands in the question, whether each
relation speaks of what the question asks (by a list of cue words, else by shared words), how many relations there are,
whether the path runs from the question's thing to the answer, and whether it says the years that the question names: else
a qualifier is lost, and it does not state the answer to this very question. It is no judge of language, and rows say so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from tasks.assets import load_list, load_units
from tasks.rules.tables import load_cues
from tasks.text.matching import normal_words, normalise, singular_form
from tasks.text.values.written import look_for, read_answer_date, read_date, read_number

_EMPTY = frozenset({"of", "the", "in", "or", "by", "to", "and", "a", "is", "at", "for", "from", "with"})
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b|(?<=s)['’](?=\s)")
_QUOTED = re.compile(r"[\"“](.+?)[\"”]")
_YEAR = re.compile(r"\b[12][0-9]{3}\b")
_QUALIFIERS = frozenset({"point in time", "start time", "end time"})
"""Relations that tell of the statement before them, so that what it is about must be what is asked."""


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
    loses_year = not {*_YEAR.findall(question)} <= {*_YEAR.findall(path)}
    if not seen.ends_in_answer:
        return 2 if seen.starts_in_question else 1
    if not seen.starts_in_question:
        return 2
    if seen.fitting < seen.relations:
        return 3 if seen.fitting or seen.relations == 1 else 2
    return 5 if seen.runs_to_answer and not loses_year else 4


def choose_paths(question: str, answers: Sequence[str], paths: Sequence[str], number: int) -> list[str]:
    """Return the best paths with a score of 3 or more, at most `number`; equal ones by their text, not their order."""
    scored = sorted((-score_path(question, answers, path), path) for path in dict.fromkeys(paths))
    return [path for score, path in scored if -score >= 3][:number]


def _read_path(question: str, answers: Sequence[str], parts: Sequence[str]) -> _Reading:
    first, last, relations = parts[0], parts[-1], parts[1::2]
    is_asked = {end: bool(_find_name(end, question)) for end in (first, last)}
    is_answer = {end: _is_answer(end, answers, question) for end in (first, last)}
    # an answer that is a sentence may name the question's thing too: then the end that is not asked about is the answer
    runs_back = is_answer[first] and is_asked[last]
    runs_to_answer = is_answer[last] and (is_asked[first] or not runs_back)
    ends_in_answer = runs_to_answer or is_answer[first]
    starts = (first, last) if not ends_in_answer else (first,) if runs_to_answer else (last,)
    bare = _POSSESSIVE.sub("", question)
    asked_words = {*normal_words(bare), *singular_form(bare).split()}
    if not normalise(question).endswith(" from"):
        asked_words.discard("from")
    seen = _Reading(
        ends_in_answer,
        any(is_asked[start] for start in starts),
        runs_to_answer,
        sum(_speaks_of(relation, asked_words.difference(*map(normal_words, starts))) for relation in relations),
        len(relations),
    )
    of_start, at_end = (relations[0], relations[-1]) if runs_to_answer else (relations[-1], relations[0])
    is_of_another = len(relations) == 2 and at_end in _QUALIFIERS and not _find_name(parts[2], question)
    wanted = _find_attached(question, starts[0])
    if is_of_another or (wanted and not _speaks_of(of_start, {wanted, *singular_form(wanted).split()})):
        return replace(seen, fitting=min(seen.fitting, seen.relations - 1))
    return seen


def _is_answer(part: str, answers: Sequence[str], question: str) -> bool:
    for answer in answers:
        if normalise(part) == normalise(answer) or _find_name(part, answer):
            return True
        wanted, found = read_answer_date(answer, question), read_date(part)
        if wanted and found and str(found).startswith(str(wanted)):
            return True
        wanted_number, number = read_number(answer), read_number(part)
        if wanted_number and number and wanted_number.number == number.number:
            units = [look_for(wanted_number, load_units(), question), look_for(number, load_units())]
            return all(units) and (wanted_number.unit is None or units[0] == units[1])
    return False


def _find_name(name: str, text: str) -> tuple[int, int] | None:
    """Return where a name stands in a text (first word, behind the last), None when it is only part of a longer name."""
    wanted = normal_words(name)
    plain = _QUOTED.sub(lambda found: found[0] if normal_words(found[1]) == wanted else _blank(found[0]), text)
    words = plain.split()
    said = [(at, word) for at, raw in enumerate(words) for word in normal_words(_POSSESSIVE.sub("", f"{raw} "))]
    for start in range(len(said) - len(wanted) + 1) if wanted else ():
        if [word for _, word in said[start : start + len(wanted)]] == wanted:
            first, last = said[start][0], said[start + len(wanted) - 1][0]
            if not _goes_on(words, first, -1) and not _goes_on(words, last, 1):
                return first, last + 1
    return None


def _blank(quoted: str) -> str:
    return " ".join("…" for _ in quoted.split())


def _goes_on(words: Sequence[str], edge: int, step: int) -> bool:
    """True when a name goes on beyond its first or last word: another capitalised word is there, or "of" and then one."""
    beyond = words[edge + 1 :] if step > 0 else words[:edge][::-1]
    left, right = (words[edge], "") if step > 0 else ("".join(beyond[:1]), words[edge])
    if not beyond or not left[-1:].isalnum() or (not right[:1].isalnum() if right else not left[:1].isupper()):
        return False
    if beyond[0] == "of":
        # the President of France is no longer name of France
        beyond = [word for word in beyond[1:2] if step > 0 or word.lower() not in _list_titles()]
    return bool(beyond) and _is_of_name(beyond[0])


def _is_of_name(word: str) -> bool:
    bare = word.strip(".,;:?!)")
    return (word[:1].isupper() and bare.lower() not in load_list("function_words")) or (
        bare.isdigit() and len(bare) < 4
    )


def _find_attached(question: str, start: str) -> str | None:
    """Return the word that says what of the start is asked: "wife" in "X's wife" and in "the wife of X"."""
    place = _find_name(start, question)
    if not place:
        return None
    words = question.split()
    first, behind = place
    if _POSSESSIVE.search(f"{words[behind - 1]} "):
        near = [normalise(word) for word in words[behind : behind + 3]]
    else:
        before = [normalise(word) for word in words[max(first - 4, 0) : first]]
        near = before[: len(before) - 1 - before[::-1].index("of")][-1:] if "of" in before[-3:] else []
    return next((word for word in near if word in _all_cues()), None)


@cache
def _all_cues() -> frozenset[str]:
    """Return the words that name a relation; "date", "year" and "meaning" name any."""
    return frozenset().union(*load_cues().values()) - {"date", "year", "meaning"}


def _list_titles() -> frozenset[str]:
    return load_cues()["head of state"] | load_cues()["head of government"]


def _speaks_of(relation: str, asked: set[str]) -> bool:
    cues = load_cues().get(relation)
    if cues is None:
        cues = frozenset({*normal_words(relation), *singular_form(relation).split()} - _EMPTY)
    return not cues.isdisjoint(asked)
