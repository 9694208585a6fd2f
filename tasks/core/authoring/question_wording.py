"""Pieces of a generated question, and the check of a model's wording of it (FanOutQA, §3.1).

A model gets the pieces of a question, never its answer. Its sentence is accepted if it is one question of readable length
that keeps every piece (the set or all names, the number asked for, the threshold, the unit, the month) and reveals nothing
of the answer.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from factmill.tasks.core.completions import QUESTION_LABEL, CompletionFormat, UnreadableCompletion
from factmill.tasks.text.reply_wrappers import strip_surrounding_emoji
from factmill.tasks.text.values.answer_search import AnswerValue, find_answer_and_missing_parts, index_text

EACH_MEMBER_PHRASE = "each of them"
"""Phrase for the members of the set in the question."""
MIN_QUESTION_WORDS, MAX_QUESTION_WORDS = 8, 80
WORDED_QUESTION_FORMAT = CompletionFormat(strips_quotes=True, label_pattern=QUESTION_LABEL)
"""One question on one line."""

_NUMBER_WORDS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NAMES_WITH_ARTICLE = re.compile(
    r"^(?:Bronx|Sun|Moon|Solar System|United Kingdom|Vatican|Holy See|Gambia|Balkans|Caucasus|Crimea|Sahara|Middle East"
    r"|Eiger|Jungfrau|Mönch|Großglockner|Grossglockner|Watzmann|Brocken|Beatles)$"
    r"|^(?:Republic|Kingdom|Union|State|Commonwealth|Principality|Duchy|Grand Duchy|Province|Region|District|City"
    r"|Gulf|Bay|Isle) of\b"
    r"|^(?:Democratic|People's|River|United States)\b"
    r"|\b(?:States|Republic|Emirates|Islands|Netherlands|Philippines|Bahamas|Maldives|Comoros|Hebrides|Azores|Seychelles"
    r"|Moluccas|Antilles|Andes|Himalayas|Pyrenees|Apennines|Dolomites|Union|Empire|Ocean|Sea|Channel|Canal|Desert"
    r"|Territory|Territories|Federation|Confederation|Mountains|Alps|Range|Peninsula|Archipelago|Highlands|River)$"
    # Matterhorn, Zugspitze
    r"|^\w+(?:horn|spitze)$"
)
_LEADING_ARTICLE = re.compile(r"^[Tt]he ")
_NAMES_INCLUDING_ARTICLE = frozenset(
    f"The {name}" for name in ("Hague", "Valley", "Woodlands", "Villages", "Dalles", "Pas", "Bottom", "Settlement")
)
"""Towns whose names keep a capital article within a sentence: in The Hague, but in the Bronx."""
_UNIT_SPELLINGS = (("metre", "meter"), ("litre", "liter"), ("feet", "foot"), ("inches", "inch"))


@dataclass(frozen=True, slots=True)
class PiecesToWordQuestionFrom:
    """Pieces from which a question is worded."""

    group: str
    """The set: the countries that share a border with Germany; for a named set the kind of its members: films."""
    owner: str
    """Entity that the set belongs to; empty for a named set."""
    names: tuple[str, ...]
    """Members of a named set in the form used within a sentence: the Nile."""
    choice: str
    """Predicate of the chosen members, with its moment if it changes: have the largest areas; empty for all members."""
    count: int
    """Number of chosen members; 0 if not stated."""
    limit: str
    """Threshold as written in `choice`."""
    asked: str
    """The question about the members, with its moment, without question mark: what is the capital of each of them."""
    unit: str
    """Unit of the requested numbers; empty for none."""
    month: str
    """Month as written in the pieces (November 2023), if the answer changes within years; else empty."""

    def to_json(self) -> str:
        """Format the pieces as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON of `to_json`."""
        found: dict[str, Any] = json.loads(text)
        return cls(**{**found, "names": tuple(found["names"])})

    def format_choice(self) -> str:
        """Format the members asked about: all of them, the five that have the largest areas, those that are …"""
        if not self.choice:
            return "all of them"
        return f"{f'the {spell_out_count_with_space(self.count)}' if self.count else 'those '}that {self.choice}"

    def find_revealed_answers(self, answer: Mapping[str, AnswerValue], text: str | None = None) -> list[str]:
        """Return the parts of the answer (name → value) that a question reveals; by default, that its pieces reveal."""
        wording = text if text is not None else " — ".join([self.group, *self.names, self.choice, self.asked])
        for known in (self.month, self.limit):
            wording = wording.replace(known, " ") if known else wording
        read = index_text(wording)
        hidden: list[Any] = []
        for value in answer.values():
            hidden += value if isinstance(value, list) else [value]
        hidden += [] if self.names else list(answer)
        return [str(each) for each in dict.fromkeys(hidden) if find_answer_and_missing_parts(each, read).found is True]


def read_and_check_worded_question(
    text: str, wording: PiecesToWordQuestionFrom, answer: Mapping[str, AnswerValue]
) -> str | UnreadableCompletion:
    """Return a model's question; Unreadable if it does not fit this wording or reveals the answer."""
    question = strip_surrounding_emoji(text.strip())
    if "\n" in question or not question.endswith("?"):
        return UnreadableCompletion("expected one line that ends with a question mark")
    if not MIN_QUESTION_WORDS <= (words := len(question.split())) <= MAX_QUESTION_WORDS:
        return UnreadableCompletion(
            f"the question has {words} words, expected {MIN_QUESTION_WORDS} to {MAX_QUESTION_WORDS}"
        )
    # a name may come with or without its article
    required = [_LEADING_ARTICLE.sub("", name) for name in (wording.owner, *wording.names)]
    required += [wording.limit, wording.unit, wording.month, spell_out_count_with_space(wording.count).strip()]
    folded = _fold_case_units_and_plurals(question)
    if lost := [piece for piece in required if piece and _fold_case_units_and_plurals(piece) not in folded]:
        return UnreadableCompletion(f"the question does not say {', '.join(lost)}")
    if revealed := wording.find_revealed_answers(answer, question):
        return UnreadableCompletion(f"the question gives away {', '.join(revealed)}")
    return question


def _fold_case_units_and_plurals(text: str) -> str:
    """Return a text with normalised case, quotes, units, thousands separators and plurals."""
    folded = " ".join(text.casefold().replace("’", "'").split())
    folded = re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", folded)
    for one, other in _UNIT_SPELLINGS:
        folded = folded.replace(one, other)
    return re.sub(r"(?<=[a-z]{3})s\b", "", folded)


def spell_out_count_with_space(count: int) -> str:
    """Format a count for a question, followed by a space: "five "; empty for 0."""
    if not count:
        return ""
    return f"{_NUMBER_WORDS[count] if count < len(_NUMBER_WORDS) else count} "


def insert_moment(question: str, moment: str) -> str:
    """Insert the moment of a question ("as of May 2020") before its question mark, if there is one."""
    return f"{question[:-1]} {moment}?" if moment else question


def add_definite_article_where_needed(name: str) -> str:
    """Return a name in the form used within a sentence: the Netherlands, the Bronx, but France and The Hague."""
    if _LEADING_ARTICLE.match(name):
        return name if name in _NAMES_INCLUDING_ARTICLE else ensure_definite_article(name)
    return ensure_definite_article(name) if _NAMES_WITH_ARTICLE.search(name) else name


def ensure_definite_article(name: str) -> str:
    """Return a name with exactly one article: the Nile."""
    return f"the {_LEADING_ARTICLE.sub('', name)}"
