"""From a place to the places around it, read out of its description: county, state, country.

"town in Holmes County, Ohio, United States" is read as a chain that runs outwards. Only words that are plainly names
count; what cannot be read ends the chain, so that no level is guessed. A region that the lists know leads on to its
country when the description stops short of it.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile

from tasks.rules.reading import is_of_the_past, known_noun, read_head, tidy_description
from tasks.rules.tables import load_tables, load_words, one_of
from tasks.text.matching import normalise

CONTINENTS = frozenset({"Africa", "Asia", "Europe", "North America", "South America", "Oceania", "Antarctica"})
BEYOND_COUNTRIES = CONTINENTS | load_words("macro_regions")

OPENERS = ("in", "within", "of", "on")

_UNIT = one_of("units")
_CAPITAL = r"[A-Z“À-Þ\u0100-\uFFFF]"
_UNIT_IN_FRONT = re.compile(
    rf"^(?:the )?(?P<words>(?:[\w.’'-]+ ){{0,4}}?){_UNIT}(?: and \w+)?(?: called| known as)?(?: of)? (?:the )?"
    rf"(?={_CAPITAL})"
)
_UNIT_BEHIND = re.compile(rf" (?:federated |federal |metropolitan |autonomous |administrative )*{_UNIT}$")
_UNIT_BETWEEN = re.compile(rf"^(?P<inner>[A-Z].*?) {_UNIT} (?:of|in) (?:the )?(?P<outer>[A-Z].*)$")
_UNIT_NAME = re.compile(r" (?:Province|Region|Prefecture|Governorate|Voivodeship)$")
_OPENER = re.compile(
    r"(?:\b(?P<before>[\w-]+) )?\b(?P<word>in|within|of|on|from)(?: (?:and|or) (?:the )?[a-z ]+? (?:of|in))? (?=\S)"
)
_AND_MORE = (
    r"and (?!the [A-Z])(?:the |is |has |was |its |one )?(?:[a-z]+|[A-Z]\S* [^,;]*\b(?:state|capital|seat)\b)|"
    r"on (?:the )?[A-Z]\S*|(?:in )?\d{3,4}"
)
_CUT = re.compile(rf"\s+(?:{one_of('chain_ends')}|{_AND_MORE})\b.*$|\s+[–—-]\s.*$|:.*$")
_OVERSEAS = re.compile(r"\b(?:overseas|colony|dependency|dependent|protectorate|crown)\b", re.IGNORECASE)
_SIDE = re.compile(
    r"^the (?:(?:north|south|east|west|centre|center)(?:[- ]?(?:north|south|east|west|central))?(?: coast)?|coast) of (?:the )?"
)
_RESET = re.compile(
    r"\b(?:counties|or|respectively|provinces|(?:cities|towns|districts|states|villages) of)\b|^and |"
    r"\band (?:north|south|east|west|central)\w* [A-Z]"
)
_WAY = re.compile(r"(?:(?:[Nn]orth|[Ss]outh|[Ee]ast|[Ww]est|[Cc]entral|[Mm]id|[Ii]nner|[Ff]ar)(?:ern)?-?)+")
_NAME_WORD = re.compile(
    rf"(?:[A-Z0-9“À-Þ\u0100-\uFFFF][^\s,;:()]*|{one_of('name_links')}|(?:al|el)-\S+|[ld]'\S+|-(?!$))(?:\s|$)"
)
_PAIR_ALLOWED = re.compile(r"(?:Borough|City|County|District|Province|Territory|Council|Canton|Diocese) of ")
_FEATURE = re.compile(rf"^(?!Lake (?:County|District)){one_of('features_first')}(?:\b|\s)|\b{one_of('features_last')}$")
_ISLAND = re.compile(r"\b(?:Islands?|Peninsula|Cape .*)$")
_BEHIND_COMMA = re.compile(r"(?:,|\b(?:located|situated|lying))$")
_ELSEWHERE = re.compile(
    r"(?:located|situated|within (?:the )?(?:City|London Borough)|and [a-z]+|\w*(?:north|south|east|west)\S* of)\b"
)
_COUNTY = re.compile(r"\b(?:County|Parish|Township|Borough)$")
_NEEDS_THE = re.compile(rf"^{one_of('article_before_of')} of\b|^{one_of('article_alone')}$|\b{one_of('article_last')}$")


@lru_cache(maxsize=16384)
def read_places_around(
    description: str, name: str, openers: tuple[str, ...] = OPENERS, by_adjective: bool = True
) -> tuple[str, ...]:
    """Return the places around the thing described, nearest first, each within the next; empty when none can be read.

    Args:
        description: Description as it stands in the catalogue.
        name: Name of the thing itself; it is no place around itself.
        openers: Prepositions that may open the chain; `of` only where the thing is itself a place.
        by_adjective: True to take the country from an adjective as well: `Italian city`.
    """
    text = tidy_description(description)
    chain: list[str] = []
    for clause in _split_clauses(text):
        more = _read_clause(clause, openers)
        chain = [*more, *chain] if clause.startswith("part of") and more[:1] != chain[:1] else _merge(chain, more)
    own = normalise(name)
    chain = [
        place for place in chain if normalise(place) != own and (not is_country(name) or _is_above_countries(place))
    ]
    return _finish(_add_countries(chain, text if by_adjective else ""), own)


def _is_above_countries(place: str) -> bool:
    """True for what can hold a whole state: a continent, a part of one, a large peninsula, or a state it belongs to."""
    return place in BEYOND_COUNTRIES or is_country(place) or place.split(" ", 1)[-1] in CONTINENTS


def place_with_article(place: str) -> str:
    """Return a place name as it stands within a phrase: `the United States`, but `Ohio`."""
    return f"the {place}" if _NEEDS_THE.search(place) and not place.startswith(("The ", "the ")) else place


def name_places(chain: Sequence[str]) -> list[str]:
    """Return the chain as answers: a county takes its state with it, since many states have one of that name."""
    named = []
    for place, outer in zip(chain, (*chain[1:], None), strict=False):
        is_american = "United States" in chain and outer is not None and outer != "United States"
        named.append(f"{place}, {outer}" if is_american and _COUNTY.search(place) else place)
    return named


def known_place(name: str) -> str | None:
    """Return the name under which the lists know a country or region; None when they do not."""
    return load_tables().places.get(name.removeprefix("the "))


def places_beyond(place: str) -> list[str]:
    """Return what lies around a known region, up to its country; empty when the region is not known."""
    within = load_tables().within
    beyond: list[str] = []
    while place := within.get(place) or within.get(_UNIT_NAME.sub("", place)) or _borough_of_london(place):
        beyond.append(place)
    return beyond


def _borough_of_london(place: str) -> str:
    return "London" if place.startswith("London Borough of ") else ""


def is_country(place: str) -> bool:
    """True for a state of today."""
    return place in load_tables().countries


def _split_clauses(text: str) -> list[str]:
    clauses = []
    for part in re.split(r"\s*;\s*|,\s+(?=(?:the )?(?:capital|county seat|seat|suburb|part of) )", text):
        pieces = re.split(
            r",? and (?=(?:the |its |one )?(?:[a-z]+ )*(?:capital|seat|city|town|largest|district|suburb|borough)\b)",
            part,
        )
        clauses += [piece for piece in pieces if piece]
    return clauses


def _read_clause(clause: str, openers: tuple[str, ...]) -> list[str]:
    text = re.sub(r"\bin and (?:the )?[a-z ]+ (?:of|in) ", "in ", clause)
    text = re.sub(r"\b(?:in|of) in ", "in ", text)
    for opener in _OPENER.finditer(text):
        chain = _read_chain(text[opener.end() :]) if _opens_chain(opener, text, openers) else []
        if chain and (opener["word"] != "on" or _lies_on(text[opener.end() :], chain[0])):
            return chain
    return [] if re.search(r" near |, and ", text) else _known_ending(text)


def _known_ending(text: str) -> list[str]:
    """Return the known places that a description ends with, behind commas: `port at the mouth of …, Kent, England`."""
    known = takewhile(bool, map(known_place, reversed(re.split(r"\s*,\s*", text)[1:])))
    return [place for place in known if place][::-1]


def _opens_chain(opener: re.Match[str], text: str, openers: tuple[str, ...]) -> bool:
    """True when a preposition says where the thing itself is, not something named along with it."""
    before = text[: opener.start("word")].rstrip()
    if opener["word"] not in openers or not _names_a_kind(before):
        return False
    return opener["word"] not in ("of", "on") or (opener["before"] or "").lower() not in load_words(
        "no_place_before_of"
    )


def _names_a_kind(before: str) -> bool:
    """True when the words behind the last comma still name the thing: `private, coeducational college`."""
    words = before.rpartition(",")[2].split()
    if "," not in before or not words or _BEHIND_COMMA.search(before):
        return True
    return words[0] not in load_words("head_ends") and known_noun(" ".join(words)) != ""


def _lies_on(text: str, place: str) -> bool:
    """True for `on South Island`, `on the coast of Fife`; a river or a lake holds no town."""
    is_known = known_place(place) is not None and not text.startswith("the ")
    return is_known or _ISLAND.search(place) is not None or _SIDE.match(text) is not None


def _read_chain(text: str) -> list[str]:
    chain: list[str] = []
    for number, stretch in enumerate(re.split(r"\s*,\s*", text)):
        if number and _ELSEWHERE.match(stretch):
            break
        piece = re.sub(r"^(?:in|within|of)\s+", "", stretch)
        if _RESET.search(piece) or _is_pair(piece):
            if piece.startswith("and ") and any(map(known_place, chain)):
                return []
            chain = []
            continue
        found = _read_piece(piece)
        if found is None:
            if chain:
                break
            continue
        chain += found
        if _CUT.search(piece):
            break
    return _drop_repeats(chain)


def _is_pair(piece: str) -> bool:
    plain = _UNIT_IN_FRONT.sub("", _CUT.sub("", piece)).removeprefix("the ")
    if " and " not in plain or known_place(plain) or _PAIR_ALLOWED.search(plain):
        return False
    inner, outer = plain.split(" and ", 1)
    return known_place(outer) not in places_beyond(known_place(inner) or inner)


def _read_piece(piece: str) -> list[str] | None:
    """Read one stretch between commas as a place, or a place and the one around it; None when it is no name."""
    text = _CUT.sub("", _SIDE.sub("", piece)).strip()
    if known := known_place(text):
        return [known]
    if parts := _split_piece(text):
        return _join(_read_piece(parts[0]), _read_piece(parts[1]))
    if front := _UNIT_IN_FRONT.match(text):
        return _read_after_unit(front["words"], text[front.end() :])
    if direction := _read_direction(text):
        return direction
    name = _name_unit(text.removeprefix("the "))
    return [known_place(name) or _capital_first(name)] if _is_name(name) and not _FEATURE.search(name) else None


def _split_piece(text: str) -> tuple[str, str] | None:
    """Split words that name two places, one within the other: `X in Y`, `Y's X`, `X county of Y`, `X and Y`."""
    if " in " in text:
        inner, outer = text.split(" in ", 1)
        return inner, outer
    possessive = re.fullmatch(r"(?:the )?([A-Z][\w ]+)['’]s ([A-Z].*)", text)
    if possessive and known_place(possessive[1]):
        return possessive[2], possessive[1]
    between = _UNIT_BETWEEN.match(text.removeprefix("the "))
    if between and _is_name(between["inner"]) and between["inner"] not in load_tables().adjectives:
        return between["inner"], between["outer"]
    part = re.fullmatch(r"(?:the )?([A-Z].*?) of (.*)", text)
    if part and known_place(part[2]) and not _names_a_unit(part[1]) and _is_name(part[1]):
        return part[1], part[2]
    inner, link, outer = text.partition(" and ")
    is_chain = bool(link) and known_place(outer) in places_beyond(known_place(inner) or inner)
    return (inner, outer) if is_chain else None


def _names_a_unit(text: str) -> bool:
    """True for the first half of `Republic of Ireland` or `Canton of Vaud`: it is a part of the name."""
    last = text.rsplit(" ", 1)[-1]
    return bool({text, last} & load_words("article_before_of")) or last in load_words("units")


def _read_direction(text: str) -> list[str] | None:
    """Read `south east London` as South East London, London; an unknown place keeps only a direction of its own."""
    words = text.removeprefix("the ").split()
    for taken in range(1, len(words)):
        way, name = words[:taken], " ".join(words[taken:])
        if not all(map(_WAY.fullmatch, way)):
            break
        name = name.removeprefix("of ") if text.startswith("the ") else name
        known = known_place(name) or name
        if known in CONTINENTS or is_country(known) or places_beyond(known):
            part = f"{' '.join(map(_capital_first, way))} {known}"
            return [known] if _COUNTY.search(known) else [part, known]
        if way[-1][0].islower() and name[0].isupper():
            return _read_piece(name)
    return None


def _name_unit(text: str) -> str:
    """Write `Santa Fe province` as `Santa Fe Province`, and `Salzburg federated state` as `Salzburg`."""
    unit = _UNIT_BEHIND.search(text)
    if not unit:
        return text
    name, own = text[: unit.start()], unit[0].split()[-1]
    if own[0].isupper():
        return text
    return f"{name} {own.capitalize()}" if own in load_words("named_units") else name


def _read_after_unit(words: str, name: str) -> list[str] | None:
    found = _read_piece(name)
    country = next((load_tables().adjectives[w] for w in _adjectives(words) if load_tables().adjectives.get(w)), None)
    if found and country and country not in found and not is_of_the_past(words):
        return [*found, *([country] if country not in places_beyond(found[-1]) else [])]
    return found


def _adjectives(words: str) -> list[str]:
    single = words.split()
    return [" ".join(pair) for pair in pairwise(single)] + single


def _join(inner: list[str] | None, outer: list[str] | None) -> list[str] | None:
    if outer is None:
        return inner
    if inner and is_country(inner[-1]) and inner[-1] in places_beyond(outer[0]):
        return [*outer, *inner]
    return [*(inner or []), *outer]


def _is_name(text: str) -> bool:
    position = 0
    while position < len(text):
        word = _NAME_WORD.match(text, position)
        if not word:
            return False
        position = word.end()
    return bool(text) and not text[0].islower() and not text[0].isdigit() and len(text) > 1


def _merge(chain: list[str], more: list[str]) -> list[str]:
    """Unite what two clauses say: the second may lead into the first, or know more of the same."""
    if not chain or not more:
        return chain or more
    for position, place in enumerate(more):
        if place in chain and position:
            return [*more[:position], *chain[chain.index(place) :]]
    if len(more) == 1 and _COUNTY.search(more[0]) and not _COUNTY.search(chain[0]) and not is_country(chain[0]):
        return [*more, *chain]
    if more[0] in chain:
        return chain
    reach = [more[-1], *places_beyond(more[-1])]
    if chain[0] in reach:
        return [*more, *reach[1 : reach.index(chain[0])], *chain]
    return chain


def _add_countries(chain: list[str], text: str) -> list[str]:
    if any(is_country(place) or place in BEYOND_COUNTRIES for place in chain) or _OVERSEAS.search(text):
        return chain
    if chain and (beyond := places_beyond(chain[-1])):
        return [*chain, *beyond]
    head = read_head(text)
    country = load_tables().adjectives.get(head.adjective) or _country_in_front(text)
    if country and not is_of_the_past(text) and country not in chain:
        return [*chain, country, *places_beyond(country)]
    return chain


def _country_in_front(text: str) -> str | None:
    """Return the country that an adjective before the kind of place names: `south Indian city`."""
    kinds = load_tables().kinds
    for found in re.finditer(r"(?<![\w-])([A-Z]\w+(?: [A-Z]\w+)?) (?:[a-z]+ )?([a-z]+)", text):
        country = load_tables().adjectives.get(found[1])
        if country and "place" in kinds.get(found[2], ()):
            return country
    return None


def _finish(chain: Iterable[str], own: str) -> tuple[str, ...]:
    """Drop repeats, and what stands behind a country other than a continent."""
    done: list[str] = []
    for place in _drop_repeats(_fill_in_between(_drop_repeats(chain))):
        if normalise(place) == own or (done and is_country(done[-1]) and place not in CONTINENTS):
            continue
        done.append(place)
    return tuple(done)


def _fill_in_between(chain: list[str]) -> Iterable[str]:
    """Add known regions that a description jumps over: England between Kent and the United Kingdom."""
    for place, outer in zip(chain, (*chain[1:], ""), strict=False):
        yield place
        beyond = places_beyond(place)
        if outer in beyond:
            yield from beyond[: beyond.index(outer)]


def _drop_repeats(chain: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(chain))


def _capital_first(text: str) -> str:
    return text[:1].upper() + text[1:]
