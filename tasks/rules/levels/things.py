"""From a school, company, label or band to wider descriptions of it: what it is, and where.

"private research university in Durham, North Carolina" becomes "a private research university in Durham, North
Carolina", "a university in North Carolina", "a university in the United States". Where the description names a
nationality instead of a place, that is kept: "an American independent record label", "an American record label".
"""

import re
from collections.abc import Sequence

from tasks.rules.places import is_country, known_place, place_with_article, places_beyond, read_places_around
from tasks.rules.reading import Head, lower_first, read_head, tidy_description, with_article
from tasks.rules.tables import load_tables

_LOCATED_IN = ("in", "within")
_THING_IN = ("in", "within", "from")
_SCHOOL_IN = ("in", "within", "of")
_PARENT = re.compile(
    r"(?:of|at) (?:the )?((?:[A-Z][\w.’'&-]*|of|the|for|at|and)(?: (?:[A-Z][\w.’'&-]*|of|the|for|at|and))*)"
)
_PARENT_SCHOOL = re.compile(r"\bUniversity$|\bUniversity of\b")
_OWNER = re.compile(
    r"(?:owned by|(?:a |as a )?(?:division|subsidiary|imprint|sublabel|unit|arm|brand|part) of|^of) "
    r"((?:the )?[A-Z][\w.’'&-]*(?: (?:[A-Z][\w.’'&-]*|of|and|the|&))*)"
)
_FOUNDED_IN = re.compile(r"\b(?:founded|formed|established|started|created) in ([A-Z][\w.’'-]*(?: [A-Z][\w.’'-]*)*)")
_FROM = re.compile(r"\bfrom (?:the )?([A-Z][\w.]*(?: [A-Z][\w.]*)*)$")
_PAST_WORDS = re.compile(r"\b(?:historical|historic|former|defunct|now-defunct) ")
_MADE = re.compile(
    r"of [a-z-]+(?: (?!in\b|based\b|from\b|and\b|or\b|for\b)[a-z-]+)*(?: and [a-z-]+)?"
    r"(?=$|,(?! \w+(?:,| and\b))|\s(?:in|based|from|for)\b)"
)
_BASED = re.compile(r"\b(?:based|headquartered)\b")
_SECTOR = ("private", "public")


def widen_school(description: str, name: str, places: Sequence[str] = ()) -> list[str]:
    """Return wider descriptions of a school; `places` (nearest first) stand in where the description names none."""
    text = tidy_description(description)
    if parent := _parent_school(text, name):
        noun = read_head(text).noun
        region = [place for place in read_places_around(description, name, _LOCATED_IN) if _is_wide(place)]
        is_part = noun.endswith(("college", "campus"))
        whole = with_article(f"{noun} of {place_with_article(parent)}") if is_part else parent
        return [whole, *_located("university", region)[:2]]
    head = _school_head(text)
    if not head.noun:
        return []
    phrase = _sector_phrase(text, head)
    wider = load_tables().classes.get(head.noun, head.noun)
    around = [*read_places_around(_based(text), name, _SCHOOL_IN)] or list(places)
    if around:
        first = with_article(f"{phrase} in {_nearest(around)}")
        return list(dict.fromkeys([first, *_located(wider, around[1:] if len(around) > 1 else around)]))
    return _by_nationality(phrase, wider, head.adjective)


def widen_thing(description: str, name: str, nationality: str = "", places: Sequence[str] = ()) -> list[str]:
    """Return wider descriptions of a company, label, band or the like; nationality and places come from the graph."""
    text = tidy_description(description)
    head = read_head(text)
    noun = head.noun
    if not noun or (noun.endswith(" of") and noun not in load_tables().classes):
        return []
    wider = load_tables().classes.get(noun, noun)
    phrase = _PAST_WORDS.sub("", lower_first(head.phrase))
    if noun.endswith(" of"):
        made = _MADE.match(head.rest)
        phrase = noun = f"{phrase} {made[0]}" if made else wider
    around = [] if _origin(text) else list(read_places_around(_based(text), name, _THING_IN, by_adjective=False))
    adjective = head.adjective or _origin(text) or ("" if around else nationality)
    if not phrase.lower().endswith(noun):
        phrase = noun = wider
    phrase = phrase[: -len(noun)] + noun if _is_plain(phrase) else noun
    levels = _by_nationality(phrase, wider, adjective)
    around = around or ([] if adjective else list(places))
    if around:
        link = "from" if f"from {around[0]}" in text else "based in" if _BASED.search(text) else "in"
        near = with_article(f"{phrase} {link} {_nearest(around)}")
        if adjective:
            return list(dict.fromkeys([near.replace(with_article(phrase), levels[0], 1), *levels]))
        return list(dict.fromkeys([near, *_located(wider, around[1:] if len(around) > 1 else around, link)]))
    if detail := _owner_or_origin(text, head):
        return list(dict.fromkeys([f"{levels[0]} {detail}", *levels]))
    return levels


def _is_wide(place: str) -> bool:
    """True for a country or a first region of one: wide enough to hold a whole university, not just a college."""
    return is_country(place) or is_country((places_beyond(place) or [""])[0])


def _by_nationality(phrase: str, wider: str, adjective: str) -> list[str]:
    front = f"{adjective} " if adjective else ""
    steps = [front + phrase, front + wider]
    return [with_article(step) for step in dict.fromkeys(steps)]


def _located(noun: str, places: Sequence[str], link: str = "in") -> list[str]:
    return [with_article(f"{noun} {link} {place_with_article(place)}") for place in places]


def _nearest(places: Sequence[str]) -> str:
    """Return the nearest place as it stands in a phrase, with the next one when the name alone may be unknown."""
    inner, outer = places[0], places[1] if len(places) > 1 else ""
    if not outer or known_place(inner) or inner.endswith(outer):
        return place_with_article(inner)
    return f"{place_with_article(inner)}, {outer}"


def _origin(text: str) -> str:
    """Return the adjective of the country in `rock band from Australia`."""
    origin = _FROM.search(text)
    return adjective_for(origin[1]) if origin else ""


def _school_head(text: str) -> Head:
    """Return the head of the clause that names a kind of school: some descriptions open with adjectives and commas."""
    head = read_head(text)
    for piece in re.split(r",\s*", text):
        candidate = read_head(piece)
        if "school" in load_tables().kinds.get(candidate.noun, ()):
            adjective = candidate.adjective or head.adjective
            return Head(candidate.phrase, adjective, candidate.noun, candidate.rest)
    return Head(head.phrase, head.adjective, "", head.rest)


def _sector_phrase(text: str, head: Head) -> str:
    """Return the kind of school with `private` or `public` in front where the description says so before a comma."""
    phrase = lower_first(head.phrase)
    if not _is_plain(phrase):
        phrase = head.noun
    opening = text.split(maxsplit=1)[0].strip(",").lower()
    return f"{opening} {phrase}" if opening in _SECTOR and not phrase.startswith(_SECTOR) else phrase


def _is_plain(phrase: str) -> bool:
    """True for a noun phrase of few ordinary words, which can stand in an answer as it is."""
    words = phrase.split()
    return 0 < len(words) <= 6 and not re.search(r"\d|[\"“”]|[A-Z]\w*['’]s ", phrase)


def _parent_school(text: str, name: str) -> str | None:
    head = read_head(text)
    if "school" not in load_tables().kinds.get(head.noun, ()):
        return None
    parent = _PARENT.match(head.rest)
    found = parent[1].removesuffix(" and").removesuffix(" the") if parent else ""
    found = re.sub(r" (?:in|at|of|for|and)$", "", found)
    return found if _PARENT_SCHOOL.search(found) and found != name else None


def _based(text: str) -> str:
    """Cut off where something was founded: that is not where it is."""
    return re.sub(r"\b(?:founded|formed|established|started|created|owned|signed|by|known)\b.*", "", text)


def _owner_or_origin(text: str, head: Head) -> str:
    behind = text[text.find(head.phrase) + len(head.phrase) :].strip()
    owner = _OWNER.search(behind)
    if owner and owner[1] not in load_tables().adjectives:
        return f"{'owned by' if 'owned by' in owner[0] else 'of'} {owner[1]}"
    if origin := _FOUNDED_IN.search(behind):
        return f"founded in {place_with_article(origin[1])}"
    return ""


def adjective_for(country: str | None) -> str:
    """Return the adjective of a country as the lists know it; empty when they do not."""
    known = known_place(country) if country else None
    return load_tables().adjective_of.get(known, "") if known and is_country(known) else ""
