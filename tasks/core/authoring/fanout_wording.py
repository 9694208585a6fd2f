"""The wording of a generated question: what it is made of, and what a model's wording must hold to (FanOutQA, §3.1).

A model gets the pieces of a question, never its answer. Its sentence is taken when it is one question of a readable
length that keeps every piece (the set or all names, the number asked for, the threshold, the unit, the month) and says
nothing of the answer.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from factmill.tasks.core.replies import LABELLED, Form, Unreadable
from factmill.tasks.text.undressing import drop_decoration
from factmill.tasks.text.values.answers import Answer, find_answer, read_known_text

EACH = "each of them"
"""Stands in what is asked for those of whom it is asked."""
LEAST_WORDS, MOST_WORDS = 8, 80
WORDED = Form(quotes=True, label=LABELLED)
"""One question on one line."""

_NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WITH_THE = re.compile(
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
_THE = re.compile(r"^[Tt]he ")
_OWN_THE = frozenset(
    {
        "The Hague",
        "The Valley",
        "The Woodlands",
        "The Villages",
        "The Dalles",
        "The Pas",
        "The Bottom",
        "The Settlement",
    }
)
"""Towns whose names keep their article within a sentence: in The Hague, but in the Bronx."""
_UNIT_SPELLINGS = (("metre", "meter"), ("litre", "liter"), ("feet", "foot"), ("inches", "inch"))


@dataclass(frozen=True, slots=True)
class Wording:
    """What a question is worded from."""

    group: str
    """The set: the countries that share a border with Germany; what the members are, for a named set: films."""
    owner: str
    """Whose set it is; empty for a named set."""
    names: tuple[str, ...]
    """The members of a named set as they stand within a sentence: the Nile."""
    choice: str
    """What those do that are asked for, with its moment where that changes: have the largest areas; empty for all."""
    count: int
    """How many are asked for; 0 where that is not said."""
    limit: str
    """Threshold in `choice`, as it stands there."""
    asked: str
    """What is asked, with its moment, without its question mark: what is the capital of each of them."""
    unit: str
    """Of the numbers that are asked for; empty for none."""
    month: str
    """November 2023, as it stands in the pieces, where the answer changes within years; else empty."""

    def dump(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def load(cls, text: str) -> Self:
        """Read what `dump` wrote."""
        found: dict[str, Any] = json.loads(text)
        return cls(**{**found, "names": tuple(found["names"])})

    def format_choice(self) -> str:
        """Return of whom something is asked: all of them, the five that have the largest areas, those that are …"""
        if not self.choice:
            return "all of them"
        return f"{f'the {count_in_words(self.count)}' if self.count else 'those '}that {self.choice}"

    def find_told(self, answer: Mapping[str, Answer], text: str | None = None) -> list[str]:
        """Return what a question (by default: its pieces) says of the answer, which maps name → value."""
        said = text if text is not None else " — ".join([self.group, *self.names, self.choice, self.asked])
        for known in (self.month, self.limit):
            said = said.replace(known, " ") if known else said
        read = read_known_text(said)
        hidden = [each for value in answer.values() for each in _list_parts(value)]
        hidden += [] if self.names else list(answer)
        return [str(each) for each in dict.fromkeys(hidden) if find_answer(each, read).found is True]


def _list_parts(value: Answer) -> Iterator[Any]:
    yield from value if isinstance(value, list) else [value]


def check_worded(text: str, wording: Wording, answer: Mapping[str, Answer]) -> str | Unreadable:
    """Return a model's question; an Unreadable says in which respect it is none for this wording and answer."""
    question = drop_decoration(text.strip())
    if "\n" in question or not question.endswith("?"):
        return Unreadable("expected one line that ends with a question mark")
    if not LEAST_WORDS <= (words := len(question.split())) <= MOST_WORDS:
        return Unreadable(f"the question has {words} words, expected {LEAST_WORDS} to {MOST_WORDS}")
    if lost := [piece for piece in _list_pieces(wording) if not _holds(question, piece)]:
        return Unreadable(f"the question does not say {', '.join(lost)}")
    if told := wording.find_told(answer, question):
        return Unreadable(f"the question gives away {', '.join(told)}")
    return question


def _list_pieces(wording: Wording) -> Iterator[str]:
    # a name may have its article or not
    yield from (_THE.sub("", name) for name in (wording.owner, *wording.names) if name)
    yield from filter(None, (wording.limit, wording.unit, wording.month))
    if wording.count:
        yield count_in_words(wording.count).strip()


def _holds(question: str, piece: str) -> bool:
    return _spell(piece) in _spell(question)


def _spell(text: str) -> str:
    """Return a text in one spelling of quotes, units and thousands."""
    folded = " ".join(text.casefold().replace("’", "'").split())
    folded = re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", folded)
    for one, other in _UNIT_SPELLINGS:
        folded = folded.replace(one, other)
    return re.sub(r"(?<=[a-z]{3})s\b", "", folded)


def count_in_words(count: int) -> str:
    """Return a count with a space behind it as it stands in a question, "five "; empty for 0."""
    if not count:
        return ""
    return f"{_NUMBERS[count] if count < len(_NUMBERS) else count} "


def put_moment(question: str, moment: str) -> str:
    """Return a question with the moment that it asks about ("as of May 2020"), if there is one."""
    return f"{question[:-1]} {moment}?" if moment else question


def with_article(name: str) -> str:
    """Return a name as it stands within a sentence: the Netherlands, the Bronx, but France and The Hague."""
    if _THE.match(name):
        return name if name in _OWN_THE else with_the(name)
    return with_the(name) if _WITH_THE.search(name) else name


def with_the(name: str) -> str:
    """Return a name with its article, once: the Nile."""
    return f"the {_THE.sub('', name)}"
