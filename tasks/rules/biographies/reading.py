"""How the rules author reads a biographical paragraph: which words stand for whom, and what a sentence speaks of.

A person is known by the full name, by the first or last word of it where nobody else in question bears that, and by a
pronoun where a sentence goes on from one about this person alone, or the gender leaves no other choice. What is said at a place in a sentence is decided by
the cue words of the properties (data/lists/biography_properties.csv) in the same clause; only where a clause has none
and no verb either, as in "born in Warsaw, then part of the Russian Empire, on 7 November 1867", those before it count.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tasks.assets import load_list
from tasks.rules.tables import load_biography_properties
from tasks.text.sentences import split_sentences

_PRONOUN = re.compile(
    r"\b(?:(?P<male>he|him|his|himself)|(?P<female>she|her|hers|herself)|(?P<several>they|them|their|"
    r"both(?= (?:of them|are|were|had|have|born|won|wrote|taught|[a-z]+ed|[a-z]+s [a-z]+ed)\b)))\b",
    re.IGNORECASE,
)
_LINK = r"\s(?:and|but|while|where|when|who|whom|whose|which|before|after|then|until)\s"
_BOUNDARY = re.compile(rf"[,;:()–—]|{_LINK}")
_VERB = re.compile(
    r"\b(?:is|was|are|were|be|been|has|had|have|became|began|bore|brought|built|came|did|fell|fought|found|gave|goes|"
    r"grew|held|knew|led|left|lost|made|met|put|ran|said|sang|saw|spent|spoke|stood|taught|took|went|won|wrote|"
    r"(?!hundred\b|red\b)[a-z]{2,}ed)\b"
)
_RELATIVE = (
    "aunt|brother|child|children|cousin|daughter|father|grandfather|grandmother|grandson|granddaughter|husband|mother|"
    "nephew|niece|parent|sister|son|uncle|widow|widower|wife"
)
_CLOSE = (
    rf"(?:{_RELATIVE}|(?:doctoral )?advisor|assistant|colleague|friend|lover|master|partner|pupil|rival|student|teacher)"
    r"s?\b"
)
_OTHER_PERSON = re.compile(rf"(?:['’]s|\b(?:[Hh]is|[Hh]er|[Tt]heir|whose))(?: [\w-]+){{0,3}}? {_CLOSE}")
_PREDICATE = re.compile(r"(?:,|\b(?:is|was|became|as|being)(?: also)?) $")
_CLOSE_BEHIND = re.compile(rf" (?:[\w-]+ ){{0,2}}?{_CLOSE}")
_BEHIND_PREPOSITION = re.compile(r"\b(?:and|at|beside|by|for|from|like|near|of|to|with) $")
_NUMERAL = re.compile(r"[IVXLC]+\.?|[JS]r\.?")
_TITLES = frozenset(
    [
        "Baron",
        "Baroness",
        "Count",
        "Countess",
        "Dame",
        "Doctor",
        "Dr.",
        "Duchess",
        "Duke",
        "Emperor",
        "Empress",
        "General",
        "King",
        "Lady",
        "Lord",
        "Madame",
        "Miss",
        "Mr.",
        "Mrs.",
        "Ms.",
        "Pope",
        "President",
        "Prince",
        "Princess",
        "Professor",
        "Queen",
        "Saint",
        "Sir",
        "St.",
        "The",
        "Tsar",
    ]
)


@dataclass(frozen=True, slots=True)
class Mention:
    """Words that stand for a person."""

    start: int
    """In the sentence."""
    end: int
    person: int
    """Place in the list of people that was given."""
    is_pronoun: bool


@dataclass(frozen=True, slots=True)
class Cue:
    """Words that speak of properties."""

    start: int
    end: int
    properties: frozenset[str]
    """Their first labels."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, read."""

    start: int
    """In the paragraph."""
    text: str
    people: tuple[Mention, ...]
    """In the order of the sentence."""
    cues: tuple[Cue, ...]

    def properties_told(self, start: int, end: int) -> frozenset[str]:
        """Return the properties that the words around a place speak of."""
        first, last = self.clause_around(start, end)
        told = self.properties_between(first, start) or self.properties_between(end, last)
        while not told and first > 0:
            before, stop = self._clause_before(first)
            if _VERB.search(self.text, stop, start):
                break
            told, first = self.properties_between(before, stop), before
        return told

    def clause_around(self, start: int, end: int) -> tuple[int, int]:
        """Return where the clause around a place begins and ends."""
        behind = _BOUNDARY.search(self.text, end)
        return self._find_boundary(start)[1], behind.start() if behind else len(self.text)

    def properties_of_two(self, one: tuple[int, int], other: tuple[int, int]) -> frozenset[str]:
        """Return the properties that the clauses around and between two places speak of.

        Where no verb follows the second, it comes in a later clause: "A and B, both actors, were married".
        """
        first, last = sorted((one, other))
        start, end = self.clause_around(*first)[0], self.clause_around(*last)[1]
        while not self.has_verb(last[1], end) and end < len(self.text):
            end = self.clause_around(end + 1, end + 1)[1]
        return self.properties_between(start, end)

    def end_of_stretch(self, end: int) -> int:
        """Return where the clause around a place ends, or those without a verb that follow it."""
        last = self.clause_around(end, end)[1]
        while (boundary := _BOUNDARY.match(self.text, last)) and not self.has_verb(
            boundary.end(), following := self.clause_around(boundary.end(), boundary.end())[1]
        ):
            last = following
        return last

    def has_verb(self, start: int, end: int) -> bool:
        """True when a verb stands between two places."""
        return _VERB.search(self.text, start, end) is not None

    def properties_between(self, start: int, end: int) -> frozenset[str]:
        """Return the properties that have a cue between two places."""
        return frozenset().union(*(cue.properties for cue in self.cues if start <= cue.start and cue.end <= end))

    def _clause_before(self, first: int) -> tuple[int, int]:
        """Return where the clause before the one that begins at `first` begins and ends."""
        stop = self._find_boundary(first)[0]
        return self._find_boundary(stop)[1], stop

    def _find_boundary(self, place: int) -> tuple[int, int]:
        """Return start and end of the last boundary before a place; a cue before `and` goes on behind it."""
        cue_ends = {cue.end for cue in self.cues}
        found = (0, 0)
        for boundary in _BOUNDARY.finditer(self.text, 0, place):
            if boundary[0].strip() != "and" or boundary.start() not in cue_ends:
                found = boundary.span()
        return found


def read_paragraph(paragraph: str, names: Sequence[str], genders: Sequence[str]) -> list[Sentence]:
    """Return the sentences of a paragraph, read for some people, whose genders are male, female or empty."""
    forms = [_compile_forms(own) for own in spell_names(names)]
    sentences: list[Sentence] = []
    at, before = 0, frozenset[int]()
    for text in split_sentences(paragraph):
        start = paragraph.index(text, at)
        people = _find_people(text, forms, genders, before)
        sentences.append(Sentence(start, text, people, tuple(_find_cues(text))))
        before = frozenset(mention.person for mention in people)
        at = start + len(text)
    return sentences


def spell_names(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the forms under which each of some people may stand: the full name, then words of it that nobody shares."""
    short = [_short_forms(name) for name in names]
    return [
        (name, *(form for form in own if not any(form in other.split() for other in names if other is not name)))
        for name, own in zip(names, short, strict=True)
    ]


def speaks_of_kin(text: str, start: int, end: int) -> bool:
    """True when somebody close to a person comes to stand between two places: `his teacher`, `Bach's son`.

    Behind a preposition, as in `buried beside her father`, the sentence goes on about the person.
    """
    others = _OTHER_PERSON.finditer(text, start, end)
    return not all(_BEHIND_PREPOSITION.search(text[: found.start()]) for found in others)


def speaks_of_relative(text: str) -> bool:
    """True when a text has a word for a relative."""
    return re.search(rf"\b(?:{_RELATIVE})s?\b", text) is not None


def spell_pattern(text: str) -> str:
    """Return a regular expression for a text with its apostrophes in either form."""
    return re.sub("['’]", "['’]", re.escape(text))


def is_plain_word(word: str) -> bool:
    """True for a word that names nothing, though it may have a capital at the beginning of a sentence."""
    return word.lower() in load_list("function_words")


def _short_forms(name: str) -> list[str]:
    words = name.split()
    capital = [word for word in words if word[:1].isupper() and word not in _TITLES and not _NUMERAL.fullmatch(word)]
    if len(words) < 2 or not capital:
        return []
    # of "Alexander the Great" and "Augustine of Hippo" the last word is no name
    return capital[:1] if {"of", "the"} & set(words) else list(dict.fromkeys((capital[-1], capital[0])))


def _compile_forms(forms: Sequence[str]) -> re.Pattern[str]:
    full, *short = forms
    # further given names may stand between: John Winston Ono Lennon
    whole = r"(?: [A-Z][\w.’'-]*){0,2}? ".join(map(spell_pattern, full.split()))
    either = "|".join([whole, *map(spell_pattern, short)])
    return re.compile(rf"(?<![\w-])(?:(?P<whole>{whole})|{either})(?![\w]|-\w| [A-Z]\w)")


def _find_people(
    text: str, forms: Sequence[re.Pattern[str]], genders: Sequence[str], before: frozenset[int]
) -> tuple[Mention, ...]:
    named = [
        Mention(*found.span(), person, False)
        for person, form in enumerate(forms)
        for found in form.finditer(text)
        if found["whole"] or not _is_in_longer_name(text, found.start())
    ]
    spoken = [
        Mention(*pronoun.span(), person, True)
        for pronoun in _PRONOUN.finditer(text)
        for person in _resolve(pronoun, [each for each in named if each.end <= pronoun.start()], genders, before)
    ]
    return tuple(sorted([*named, *spoken], key=lambda mention: (mention.start, mention.person)))


def _resolve(
    pronoun: re.Match[str], named: Sequence[Mention], genders: Sequence[str], before: frozenset[int]
) -> frozenset[int]:
    """Return the people whom a pronoun stands for: one, or several for `they`; none where that is open.

    `named` are those who come before it in the sentence, `before` those of the sentence before.
    """
    here = frozenset(mention.person for mention in named)
    if pronoun["several"]:
        several = here if len(here) > 1 else before
        return several if len(several) > 1 else frozenset()
    text = pronoun.string
    if named and _PREDICATE.search(text[: pronoun.start()]) and _CLOSE_BEHIND.match(text, pronoun.end()):
        # "Max Born was his advisor": not his own
        here -= {max(named, key=lambda mention: mention.end).person}
    gender = "male" if pronoun["male"] else "female"
    for meant in (here, before):
        if fitting := frozenset(person for person in meant if genders[person] in ("", gender)):
            return fitting if len(fitting) == 1 else frozenset()
    return frozenset()


def _is_in_longer_name(text: str, start: int) -> bool:
    """True when the word before is a name too: `Maria Anna` before `Mozart`; titles and words like `When` are none."""
    before = re.search(r"([\w.’'-]+) $", text[:start])
    return before is not None and before[1][:1].isupper() and before[1] not in _TITLES and not is_plain_word(before[1])


def _find_cues(text: str) -> Iterator[Cue]:
    pattern, properties = _compile_cues()
    for found in pattern.finditer(text[:1].lower() + text[1:]):
        yield Cue(*found.span(), properties[found[0]])


@cache
def _compile_cues() -> tuple[re.Pattern[str], Mapping[str, frozenset[str]]]:
    properties: dict[str, frozenset[str]] = {}
    for known in load_biography_properties().values():
        for cue in known.cues:
            properties[cue] = properties.get(cue, frozenset()) | {known.label}
    longest_first = sorted(properties, key=lambda cue: (-len(cue), cue))
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b"), properties
