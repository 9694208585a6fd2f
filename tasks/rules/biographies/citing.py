"""Where a paragraph states what is known of its people: the rules author's part in round 1 of BioKaLMA.

A piece is cited behind the words of its value where the sentence is about its person, speaks of the property, and puts
nobody else in between ("his teacher, born in Paris"). Some properties are stated by the mere mention of a value ("the
painter"). Rather a citation too few than one too many: what is not sure stays without.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tasks.core.authoring.citations import format_citation
from tasks.rules.biographies.pieces import MONTHS, Fact, Known, ToldDate, is_date_property, read_told_date
from tasks.rules.biographies.reading import (
    Mention,
    Sentence,
    is_plain_word,
    read_paragraph,
    speaks_of_kin,
    spell_pattern,
)
from tasks.rules.tables import load_biography_properties

_RELATIVE = re.compile(r",? who(?:m|se)?\b")
_IS_A = re.compile(r",? ?(?:\([^()]*\),? )?(?:(?:is|was|were|became) (?:an?|the|one of the) [^,;:()]*)?")
_OBJECT = re.compile(
    r"\b(?:of|by|with|from|to|for|than|under|between|like|against|met|married|taught|knew|visited|saw)"
    r"(?: (?:an?|the|his|her|their|its|another|some|fellow))?(?: (?!an?\b|and\b|or\b)[\w’'-]+){0,2} $"
)
_BEFORE_NAME = re.compile(r"(?: and [a-z][\w -]*?)? (?=[A-Z])")
_LIFE_DATES = re.compile(r",? \(([^()]*?)(?:\s[-–—]\s|[–—]|(?<=[0-9]{4})-(?=[0-9]{4}))([^()]*)\)")
_COMPOUND = re.compile(
    r"[ -](?:award|class|classes|department|laboratory|lessons|medal|prize|professor|student|teacher)\b"
)
_OPPOSITES = (
    {"father", "child"},
    {"mother", "child"},
    {"student of", "student"},
    {"doctoral advisor", "doctoral student"},
    {"parent organization", "has subsidiary"},
    {"owned by", "owner of"},
)
_STATIONS = ("occupation", "position held")
"""Properties whose values name a person: `a painter` may be somebody else."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Words of a sentence that tell the value of a fact."""

    start: int
    end: int
    person: int | None = None
    """Whom they stand for, where that is one of the people."""
    is_pronoun: bool = False


@dataclass(frozen=True, slots=True)
class _Stated:
    """A fact with the place behind which it is cited."""

    end: int
    person: int
    fact: Fact


def cite_paragraph(paragraph: str, people: Sequence[Known], genders: Sequence[str]) -> str:
    """Return the paragraph with a citation behind the words that state a piece, each piece once."""
    cited: set[tuple[int, Fact]] = set()
    inserted: dict[int, dict[int, list[Fact]]] = {}
    for sentence in read_paragraph(paragraph, [known.name for known in people], genders):
        for stated in _find_stated(sentence, people):
            if (stated.person, stated.fact) not in cited:
                cited.add((stated.person, stated.fact))
                place = _leave_word(paragraph, sentence.start + stated.end)
                inserted.setdefault(place, {}).setdefault(stated.person, []).append(stated.fact)
    return _insert(paragraph, people, inserted)


def _insert(paragraph: str, people: Sequence[Known], inserted: dict[int, dict[int, list[Fact]]]) -> str:
    written, at = [], 0
    for place in sorted(inserted):
        written.append(paragraph[at:place])
        for person, facts in sorted(inserted[place].items()):
            parts = [(fact.property, fact.value) for fact in facts]
            written.append(f" {format_citation(people[person].qid, people[person].name, parts)}")
        at = place
    return "".join([*written, paragraph[at:]])


def _leave_word(paragraph: str, place: int) -> int:
    """Return the place behind a possessive ending and closing quotation marks."""
    tail = re.compile(r"['’]s\b|[\"”»]|['’](?!\w)").match(paragraph, place)
    return tail.end() if tail else place


def _find_stated(sentence: Sentence, people: Sequence[Known]) -> list[_Stated]:
    """Return the facts that a sentence states, in the order of the text."""
    stated = []
    for person, known in enumerate(people):
        taken: list[tuple[int, int]] = []
        # longer values first: of "science fiction writer" the word "writer" is a part
        clear = [fact for fact in dict.fromkeys(known.facts) if not _is_doubtful(sentence, person, fact, known.facts)]
        for fact in sorted(clear, key=lambda fact: -len(fact.value)):
            for place in _find_value(sentence, fact, people):
                span = (place.start, place.end)
                is_part = any(start <= span[0] and span[1] <= end and span != (start, end) for start, end in taken)
                if not is_part and (end := _state(sentence, people, person, fact, place)) is not None:
                    taken.append(span)
                    stated.append(_Stated(end, person, fact))
                    break
    order = {(person, fact): at for person, known in enumerate(people) for at, fact in enumerate(known.facts)}
    return sorted(stated, key=lambda each: (each.end, order[each.person, each.fact]))


def _is_doubtful(sentence: Sentence, person: int, fact: Fact, facts: Sequence[Fact]) -> bool:
    """True for a tie to one of two people of one name, father and child, unless the text has just these words."""
    opposites = [{fact.property, each.property} for each in facts if each.value == fact.value]
    if not any(pair in _OPPOSITES for pair in opposites):
        return False
    own = [mention for mention in sentence.people if mention.person == person]
    return not any(
        re.match(rf"['’]s {re.escape(fact.property)}\b", sentence.text[each.end :])
        or sentence.text[: each.start].endswith(f"{fact.property} of ")
        for each in own
    )


def _find_value(sentence: Sentence, fact: Fact, people: Sequence[Known]) -> Iterator[_Place]:
    """Yield the places that tell the value of a fact; one of the people is told by any name or pronoun."""
    if is_date_property(fact.property):
        date = read_told_date(fact.value)
        for found in re.finditer(_spell_date(date) if date else rf"\b{re.escape(fact.value)}\b", sentence.text):
            yield _Place(*found.span())
        return
    others = [person for person, known in enumerate(people) if known.name == fact.value]
    if others:
        for mention in sentence.people:
            if mention.person in others:
                yield _Place(mention.start, mention.end, mention.person, mention.is_pronoun)
        return
    for found in re.finditer(rf"(?<![\w-]){spell_pattern(fact.value)}(?![\w-])", sentence.text):
        if not _is_in_longer_name(sentence.text, *found.span()):
            yield _Place(*found.span())


def _spell_date(date: ToldDate) -> str:
    """Return a pattern for the ways in which a date is written, at its own precision and no coarser."""
    era = r" (?:BCE?|B\.C\.)" if date.is_before_christ else r"(?! ?(?:BC|B\.C\.))"
    year = rf"{date.year}{era}"
    if date.month is None:
        return rf"(?<![\w-]){year}(?![\w-]|s\b)"
    month = MONTHS[date.month - 1]
    if date.day is None:
        return rf"\b{month},? (?:of )?{year}(?!\w)"
    day = rf"{date.day}(?:st|nd|rd|th)?"
    iso = f"{date.year:04d}-{date.month:02d}-{date.day:02d}"
    return rf"\b(?:(?:{day}(?: of)? {month},?|{month} (?:the )?{day},?) {year}|{iso}{era})(?!\w)"


def _is_in_longer_name(text: str, start: int, end: int) -> bool:
    """True when words go on as another name: Princeton in Princeton University, chemistry in chemistry prize."""
    if not text[start].isupper():
        return _COMPOUND.match(text, end) is not None
    if re.compile(r"[ -][A-Z]\w").match(text, end):
        return True
    before = re.search(r"([\w.’'-]+)[ -]$", text[:start])
    return before is not None and before[1][:1].isupper() and not (before.start() == 0 and is_plain_word(before[1]))


def _state(sentence: Sentence, people: Sequence[Known], person: int, fact: Fact, place: _Place) -> int | None:
    """Return where to cite a fact whose value stands at a place; None when the sentence does not state it."""
    known = load_biography_properties().get(fact.property)
    own = [
        each for each in sentence.people if each.person == person and (each.start, each.end) != (place.start, place.end)
    ]
    if known is None or not own:
        return None
    # who was named last before the value is spoken of, else who is named first behind it
    subject = next((each for each in reversed(own) if each.end <= place.start), own[0])
    told = sentence.properties_told(place.start, place.end)
    if known.tie:
        return _state_tie(sentence, known.label, subject, place, told)
    if is_date_property(fact.property) and (life := _read_life_dates(sentence, place)):
        return place.end if life == (person, known.label) else None
    if known.label not in told and not known.stands_alone:
        return None
    if fact.property in _STATIONS and (named := _read_station(sentence, place)) is not None:
        return place.end if named == person else None
    others = [each for each in sentence.people if each.person != person]
    if known.label in told:
        # who knows no such thing is no rival
        others = [each for each in others if fact in people[each.person].facts]
    return place.end if _is_said_of(sentence.text, subject, place, others) else None


def _state_tie(sentence: Sentence, label: str, subject: Mention, place: _Place, told: frozenset[str]) -> int | None:
    """Return where to cite that a person is tied to another: behind the one who is named last, if by name."""
    if place.person is not None:
        told |= sentence.properties_of_two((subject.start, subject.end), (place.start, place.end))
    ends = [
        end for end, is_pronoun in ((subject.end, subject.is_pronoun), (place.end, place.is_pronoun)) if not is_pronoun
    ]
    return max(ends) if label in told and ends else None


def _read_life_dates(sentence: Sentence, place: _Place) -> tuple[int, str] | None:
    """Return whose birth or death a date in brackets behind a name tells, `(1815–1852)`; None for any other date."""
    for mention in sentence.people:
        life = _LIFE_DATES.match(sentence.text, mention.end)
        if life and life.start() <= place.start and place.end <= life.end():
            return mention.person, "date of birth" if place.end <= life.end(1) else "date of death"
    return None


def _read_station(sentence: Sentence, place: _Place) -> int | None:
    """Return the person whom an occupation or office is told of by where it stands, -1 for somebody else.

    None leaves it to the rest of the sentence: the words are neither set before a name nor the object of a preposition.
    """
    if behind := _BEFORE_NAME.match(sentence.text, place.end):
        return next((each.person for each in sentence.people if each.start == behind.end()), -1)
    return -1 if _OBJECT.search(sentence.text[: place.start]) else None


def _is_said_of(text: str, subject: Mention, place: _Place, others: Sequence[Mention]) -> bool:
    """True when nobody else stands between a person and what is said, or before it where the person comes later."""
    if subject.start > place.start:
        nearer = [each for each in others if each.start < subject.start]
        return all(each.start > place.start and text[each.end : subject.start] == " and " for each in nearer)
    if speaks_of_kin(text, subject.start, place.start):
        return False
    clauses = _RELATIVE.finditer(text, subject.end, place.start)
    if not all(_IS_A.fullmatch(text, subject.end, each.start()) for each in clauses):
        return False
    between = [each for each in others if subject.end <= each.start and each.end <= place.start]
    return all(text[subject.end : each.start] == " and " for each in between)
