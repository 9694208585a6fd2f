"""What articles say in fixed forms, and the questions for it: measures, counts, places, makers (article_questions.csv).

A pattern stands at a sentence's beginning. Within it `<topic>` is the topic's name, and `<topic's>` what belongs to it;
`<bare>` is the name without an article; the other marks are below. What is asked and told is written with the pattern's groups, as `$group`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from string import Template

from tasks.rules.questions.clauses import is_person
from tasks.rules.questions.reading import NAME, Told, Topic, own
from tasks.rules.questions.wording import Fact, capitalise
from tasks.rules.tables import load_article_questions

_NUMBER = r"(?:\d[\d,]*(?:\.\d+)?(?: (?:million|billion|trillion|sextillion))?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|sixteen|eighteen|twenty)"
_WORD = r"[^\W\d_a-zß-öø-ÿ][\w’'-]*"
_MARKS = {
    "<number>": _NUMBER,
    "<measure>": rf"{_NUMBER} (?:(?:Earth|astronomical|light|cubic|square|solar) )?[a-z][a-z-]*(?: Celsius)?",
    "<names>": rf"{_WORD}(?: {_WORD})*",
    "<place>": rf"{_WORD}(?: {_WORD})*",
    "<name>": NAME,
    "<person>": NAME,
}


_TOPIC, _BARE = "\u241f", "\u241e"
"""Stand for the topic's names while patterns are looked for, so that one expression serves all topics; no text has them."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    expression: re.Pattern[str]
    people: tuple[str, ...]
    """The groups that have to be people."""
    columns: Mapping[str, str]


def ask_patterns(told: Told, topic: Topic) -> Iterator[Fact]:
    """Yield the questions of the patterns that a sentence begins with."""
    text = _hide(told.text, topic)
    for pattern in _load_patterns():
        found = pattern.expression.match(text)
        if found is None or not all(is_person(found[0], found[group]) for group in pattern.people):
            continue
        groups = {name: value or "" for name, value in found.groupdict().items()}
        parts = {
            column: " ".join(_show(Template(wording).substitute(groups), topic).split())
            for column, wording in pattern.columns.items()
        }
        yield Fact(**parts, place=told.place)


@cache
def _load_patterns() -> tuple[_Pattern, ...]:
    return tuple(
        _Pattern(
            re.compile(_expand(line["pattern"])),
            tuple(re.findall(r"\(\?P<(\w+)><person>\)", line["pattern"])),
            {
                column: _mark(line[column], own_mark=f"{_TOPIC}'s")
                for column in ("asks", "subject", "verb", "tail", "answer", "said")
            },
        )
        for line in load_article_questions()
    )


def _expand(pattern: str) -> str:
    pattern = _mark(pattern, own_mark=f"{_TOPIC}'s?")
    for mark, expression in _MARKS.items():
        pattern = pattern.replace(mark, expression)
    return pattern + r"(?![\w%])(?!,\d)(?! [A-Z])"


def _mark(text: str, own_mark: str) -> str:
    return text.replace("<topic's>", own_mark).replace("<topic>", _TOPIC).replace("<bare>", _BARE)


def _hide(text: str, topic: Topic) -> str:
    for name in (topic.name, capitalise(topic.name)):
        text = text.replace(name, _TOPIC)
    return text.replace(_bare_name(topic), _BARE)


def _show(text: str, topic: Topic) -> str:
    text = text.replace(f"{_TOPIC}'s", own(topic.name)).replace(_TOPIC, topic.name)
    return text.replace(_BARE, _bare_name(topic))


def _bare_name(topic: Topic) -> str:
    return topic.bare.removesuffix("s") if topic.is_plural else topic.bare
