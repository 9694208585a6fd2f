"""Read a judge's replies on fan-out questions: is one objective, is it well worded? (FanOutQA, Appendices B, F).

The verdict is the last letter Y or N that stands by itself: alone on its line, with any marks around it, or after a
word that announces it ("Answer: N"). A letter within a sentence of the reasoning does not count. On the wording, a
reply says that no change is needed, or gives the rewritten question, or raises a flag with its reason. A rewrite must
keep the numbers and names of the question: with the policy `auto` it replaces the question, and the answer stays.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from factmill.tasks.core.completions import QUESTION_LABEL, CompletionFormat, UnreadableCompletion
from factmill.tasks.text.reply_wrappers import strip_surrounding_emoji
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.values.value_tokens import (
    TokenValue,
    UnitlessNumberValue,
    states_wanted_value,
    tokenize_values,
)

OBJECTIVITY_FORM = CompletionFormat(last_verdict_counts=True)
"""Reasons, then the letter Y or N."""
WORDING_FORM = CompletionFormat(strips_quotes=True, label_pattern=QUESTION_LABEL, needs_clear_end=True)
"""No change, one question, or FLAG with a reason."""

MAX_VERDICT_CHARACTERS = 120
"""Most characters of a line that holds only a verdict."""
_MARKS = r"[\s\"'“”‘’`*_~#>()\[\]{}$.,;:!–—-]*"
_VERDICT_LABEL = (
    r"(?:(?:so|thus|therefore|hence),? )?(?:(?:the|my) )?(?:final )?"
    r"(?:answer|verdict|conclusion|assessment|decision|letter|result)(?: is)?"
)
_VERDICT_LINE = re.compile(
    rf"{_MARKS}(?:{_VERDICT_LABEL}{_MARKS})?(?:\\boxed{{|\\text{{|<\w+>)?{_MARKS}(?P<letter>[YN])(?:</\w+>)?{_MARKS}",
    re.IGNORECASE,
)
_EXPECTED_WORDING = '"No change.", a rewritten question, or FLAG with a reason'
_BULLET = re.compile(r"^(?:[0-9]+[.)]|[-*•]) ")
_NO_CHANGE = re.compile(r"no changes?(?: (?:is |are )?(?:needed|required|necessary))?[.!]*", re.IGNORECASE)
_FLAG_WITHOUT_REASON = re.compile(r"flag[.:!]*", re.IGNORECASE)
_FLAG_WITH_REASON = re.compile(r"\**FLAG\**\s*(?:[:.,;]|[-–—])[\s*]*(?P<reason>\S.*)")
_IMPERATIVE = re.compile(
    r"(?:please )?(?:list|name|find|identify|give|tell|state|provide|describe|determine|compare|rank|order|calculate)\b",
    re.IGNORECASE,
)
_SENTENCE_OPENERS = frozenset({
    "a", "according", "all", "among", "an", "and", "are", "as", "at", "by", "can", "could", "describe", "did",
    "do", "does", "during", "find", "for", "from", "give", "had", "has", "have", "how", "identify", "if", "in",
    "is", "list", "name", "of", "on", "out", "over", "please", "provide", "rank", "since", "state", "tell",
    "the", "to", "under", "until", "was", "were", "what", "when", "where", "which", "who", "whom", "whose",
    "why", "will", "with",
})  # fmt: skip
"""Words that are capitalised only because a sentence begins with them."""


@dataclass(frozen=True, slots=True)
class WordingVerdict:
    """A judge's finding on a question's wording."""

    kind: Literal["fine", "rewrite", "flag"]
    text: str
    """The rewritten question, or the reason of the flag; empty if the wording is fine."""


def read_objectivity_verdict(text: str) -> bool | UnreadableCompletion:
    """Return True if the last letter by itself is Y, False if it is N; Unreadable if there is none."""
    letters = [found["letter"].upper() for line in text.splitlines() if (found := _match_verdict_line(line))]
    if letters:
        return letters[-1] == "Y"
    end = _shorten_reply_to_its_end(text.strip())
    return UnreadableCompletion(f"the reply ends with {end!r}, expected the letter Y or N on a line of its own")


def _match_verdict_line(line: str) -> re.Match[str] | None:
    # marks may stand at four places of the pattern, so a long line of marks alone would backtrack very often
    return _VERDICT_LINE.fullmatch(line) if len(line) <= MAX_VERDICT_CHARACTERS else None


def read_last_reasoning_sentence(text: str) -> str:
    """Return the last sentence of the reasoning in a reply; empty if it has only the letter."""
    reasoning = [line for line in text.splitlines() if line.strip() and not _match_verdict_line(line)]
    last_line = _BULLET.sub("", " ".join(reasoning[-1].split())) if reasoning else ""
    return next(reversed(list(split_sentences(last_line))), "").strip()


def read_wording_verdict(text: str, question: str) -> WordingVerdict | UnreadableCompletion:
    """Read a reply on a question's wording; Unreadable if it is none of the three kinds, or two of them.

    A question repeated unchanged is fine. A rewrite is one line that asks something, and has the numbers and names of
    the question and no other numbers.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return UnreadableCompletion(f"the reply is empty, expected {_EXPECTED_WORDING}")
    if (flagged := _read_flag_reason(lines)) is not None:
        if not flagged:
            return UnreadableCompletion("FLAG without a reason, expected one below it")
        return WordingVerdict("flag", flagged)
    if any(_NO_CHANGE.fullmatch(line) for line in lines):
        if any(line.endswith("?") for line in lines):
            return UnreadableCompletion(
                'the reply says "No change." and asks something too, expected one of them alone'
            )
        return WordingVerdict("fine", "")
    return _read_rewritten_question(lines, question)


def _read_rewritten_question(lines: Sequence[str], question: str) -> WordingVerdict | UnreadableCompletion:
    if len(lines) > 1:
        return UnreadableCompletion(
            f"the reply has {len(lines)} lines, expected the rewritten question alone on one line"
        )
    rewrite = strip_surrounding_emoji(" ".join(lines[0].split()))
    if rewrite == " ".join(question.split()):
        return WordingVerdict("fine", "")
    problem = _find_rewrite_problem(question, rewrite)
    return UnreadableCompletion(problem) if problem else WordingVerdict("rewrite", rewrite)


def describe_word_changes(question: str, rewrite: str) -> str:
    """Return a phrase on what a rewrite changes: `changes "a" to "an", adds "in metres"`."""
    before, after = question.split(), rewrite.split()
    changes = []
    for kind, start, stop, low, high in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        old, new = (f'"{" ".join(words)}"' for words in (before[start:stop], after[low:high]))
        if kind == "replace":
            changes.append(f"changes {old} to {new}")
        elif kind != "equal":
            changes.append(f"adds {new}" if kind == "insert" else f"drops {old}")
    return ", ".join(changes)


def _read_flag_reason(lines: Sequence[str]) -> str | None:
    """Return the reason of a flag, empty if it has none; None if there is no flag."""
    if found := _FLAG_WITH_REASON.match(lines[0]):
        return " ".join([found["reason"], *lines[1:]])
    for at, line in enumerate(lines):
        if _FLAG_WITHOUT_REASON.fullmatch(line):
            return " ".join(lines[at + 1 :] or lines[:at])
    return None


def _find_rewrite_problem(question: str, rewrite: str) -> str | None:
    if "?" not in rewrite and not (_IMPERATIVE.match(rewrite) and _IMPERATIVE.match(question)):
        return f"the reply is {_shorten_reply_to_its_end(rewrite)!r}, expected {_EXPECTED_WORDING}"
    before, after = _list_numeric_values(question), _list_numeric_values(rewrite)
    words = [value for _, value in tokenize_values(_drop_periods_of_initials(rewrite))]
    lost = [source for source, value in before if not any(states_wanted_value(each, value) for _, each in after)]
    new = [source for source, value in after if not any(states_wanted_value(each, value) for _, each in before)]
    lost_names = [source for source, value in _list_capitalised_words(question) if value not in words]
    if new and not lost:
        return f"the rewrite has {new[0]!r}, which the question lacks; expected no other numbers"
    if lost or lost_names:
        name = [*lost, *lost_names][0]
        return f"the rewrite lacks {name!r}, which the question has; expected all its numbers and names"
    return None


def _list_numeric_values(text: str) -> list[tuple[str, TokenValue]]:
    """Return (text, value) of numbers, dates, ordinals and decades; not of "one", which is a pronoun too."""
    return [
        (source, value)
        for source, value in tokenize_values(_drop_periods_of_initials(text))
        if (not isinstance(value, str) or value[0].isdigit()) and value != UnitlessNumberValue("1")
    ]


def _list_capitalised_words(text: str) -> Iterator[tuple[str, TokenValue]]:
    """Yield (text, value) of the capitalised words, except those that merely begin a sentence."""
    for sentence in split_sentences(_drop_periods_of_initials(text)):
        tokens = tokenize_values(sentence)
        for at, (source, value) in enumerate(tokens):
            if not isinstance(value, str) or not source[0].isupper() or value in _SENTENCE_OPENERS:
                continue
            opens_a_name = at + 1 < len(tokens) and tokens[at + 1].source[0].isupper()
            if at or opens_a_name or source.endswith(("'s", "’s")):
                yield source, value


def _drop_periods_of_initials(text: str) -> str:
    """Return a text with initials joined: U.S. becomes US, J.K. becomes JK."""
    return re.sub(r"\b([A-Z])\.(?=[A-Z\s,;:?!)'’]|$)", r"\1", text)


def _shorten_reply_to_its_end(text: str) -> str:
    return text if len(text) <= 120 else f"…{text[-119:]}"
