"""From a person to wider descriptions of that person: nationality and occupation, then the wider occupation.

"English novelist and poet" becomes "an English novelist and poet", "an English writer", "a writer". The description
decides; where it names no nationality or occupation, the graph fills in, but only with a value that stands alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.rules.places import known_place, place_with_article
from tasks.rules.reading import (
    drop_opening,
    find_nationality,
    is_modifier,
    lower_first,
    split_nationality,
    tidy_description,
    with_article,
)
from tasks.rules.tables import load_tables, load_words, one_of

_TAIL = re.compile(
    rf"\s+(?:{one_of('person_ends')}|and (?:the|an?|one|former|leading|founder|co-founder|winner|member))\b.*$|"
    r"[;:].*$|\s[–—-]\s.*$|\(.*$"
)
_LIST = re.compile(r"\s*(?:,\s*(?:and\s+)?|\s+and\s+|\s*&\s+|/)\s*")
_ORIGIN = re.compile(r"\bfrom (?:the )?([A-Z][\w.]*(?: [A-Z][\w.]*)*)")
_OFFICE = re.compile(
    r"(?:^|,\s|\band\s|;\s)(?:the\s)?(?:(?:\w+(?:st|nd|rd|th)|[Ss]econd|[Cc]urrent|[Ff]ormer)\s)*"
    rf"(?P<office>(?i:{one_of('offices')}))"
    r"\sof\s(?:the\s)?(?P<place>[A-Z][\w.’'-]*(?: (?:of(?: the)? )?[A-Z][\w.’'-]*)*)"
)
_DATED = re.compile(
    r"\b(?:\w+-language|former|formerly|retired|occasional|late|current|sometime|noted|famous|renowned|acclaimed) "
)
_RULERS = frozenset({"king", "queen", "emperor", "empress", "tsar", "sultan"})


@dataclass(frozen=True, slots=True)
class Person:
    """What is known of a person for wider answers."""

    nationality: str = ""
    """Adjective: `American`; empty when unknown."""
    occupations: tuple[str, ...] = ()
    """Occupations as written, the most important first."""
    office: str = ""
    """High office held, with its country: `president of the United States`."""
    office_class: str = ""
    """`politician` or `monarch` with an office."""


def describe_person(description: str, citizenships: Sequence[str] = (), occupations: Sequence[str] = ()) -> Person:
    """Read a person's description; the graph's citizenships and occupations (labels) fill what it leaves open."""
    text = tidy_description(description)
    nationality, found = "", list[str]()
    for clause in text.split("; "):
        adjective, listed = find_nationality(_cut_tail(clause))
        nationality, found = nationality or adjective, found or _read_occupations(listed)
    nationality = nationality or _origin(text) or _only_citizenship(citizenships)
    if not found and len(set(occupations)) == 1 and occupations[0].lower() in load_tables().occupations:
        found = [occupations[0]]
    office, office_class, office_nationality = _read_office(text)
    return Person(nationality or office_nationality, tuple(found), office, office_class)


def widen_person(person: Person) -> list[str]:
    """Return descriptions of a person from fine to coarse, each true of whomever the one before is true of."""
    nationality = f"{person.nationality} " if person.nationality else ""
    if person.office:
        return _phrases(person.office, nationality + person.office_class, person.office_class)
    if not person.occupations:
        return []
    first = person.occupations[0]
    others = [other for other in person.occupations[1:] if first not in (other, wider_occupation(other))]
    listed = " and ".join([first, *[other for other in others[:1] if not _holds_a_name(other)]])
    wider = wider_occupation(first)
    return _phrases(nationality + listed, nationality + (wider or first), wider or first)


def wider_occupation(occupation: str) -> str:
    """Return the wider occupation: novelist → writer, stage actor → actor; empty when there is none."""
    known = load_tables().occupations
    words = occupation.split()
    for start in range(len(words)):
        ending = " ".join(words[start:])
        wider = known.get(ending.lower())
        if wider is not None:
            is_other = start > 0 and ending.lower() in load_words("shifting_nouns")
            return "" if is_other else wider or (ending if start else "")
    return ""


def _holds_a_name(occupation: str) -> bool:
    return re.search(r"\b[A-Z][a-z]", occupation) is not None


def _phrases(*phrases: str) -> list[str]:
    return [with_article(phrase) for phrase in dict.fromkeys(filter(None, phrases))]


def _cut_tail(clause: str) -> str:
    """Cut off what follows the list of occupations; `…, author of War and Peace` is a work, not an occupation."""
    tail = _TAIL.search(clause)
    listed = clause[: tail.start()] if tail else clause
    pieces = _LIST.split(listed)
    if tail and tail[0].lstrip().startswith("of ") and len(pieces) > 1:
        listed = listed[: listed.rfind(pieces[-1])].rstrip(" ,&/").removesuffix(" and")
    return listed


def _read_occupations(listed: str) -> list[str]:
    """Return the occupations of a list; once one is found, the first words that are none end it."""
    found: list[str] = []
    pending: list[str] = []
    for piece in _LIST.split(listed):
        bare = lower_first(_DATED.sub("", drop_opening(split_nationality(piece)[1])))
        if _ends_in_occupation(bare):
            found.append(" and ".join([*pending, bare]))
            pending = []
        elif is_modifier(bare):
            pending.append(bare)
        elif found:
            break
        else:
            pending = []
    return found


def _ends_in_occupation(words: str) -> bool:
    known = load_tables().occupations
    parts = words.lower().split()
    return len(parts) <= 5 and any(" ".join(parts[start:]) in known for start in range(len(parts)))


def _origin(text: str) -> str:
    origin = _ORIGIN.search(text)
    country = known_place(origin[1]) if origin else None
    return _adjective_of(country)


def _only_citizenship(citizenships: Sequence[str]) -> str:
    countries = {known_place(label) or label for label in citizenships}
    return _adjective_of(countries.pop()) if len(countries) == 1 else ""


def _read_office(text: str) -> tuple[str, str, str]:
    """Return (office with its country, its class, nationality); a president only of a country that is known."""
    found = _OFFICE.search(text)
    if not found:
        return "", "", ""
    title, place = found["office"].lower(), known_place(found["place"])
    if title in _RULERS:
        written = found["place"] if place is None or " " in found["place"] else place
        return f"{title} of {place_with_article(written)}", "monarch", _adjective_of(place)
    return (f"{title} of {place_with_article(place)}", "politician", _adjective_of(place)) if place else ("", "", "")


def _adjective_of(place: str | None) -> str:
    return load_tables().adjective_of.get(place, "") if place else ""
