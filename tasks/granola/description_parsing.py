"""Word lists (data/lists/*.csv), and a parser that finds the kind of thing a description names.

A description is parsed as a noun phrase ("private research university in Durham, United States"): the head is the part
before the first preposition, comma or relative clause, and its last words name the kind of thing.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from factmill.tasks.assets import asset_path
from factmill.tasks.errors import SettingsError
from factmill.tasks.granola.core.grounding import GEORGIA_STATE, PlaceAndNounLexicon
from factmill.tasks.text.text_normalization import normalize_answer, normalize_answer_to_singular


@dataclass(frozen=True, slots=True)
class DescriptionLookUpTables:
    """All lists as look-up tables."""

    places: Mapping[str, str]
    """Any known name of a country or region → the name used in answers."""
    within: Mapping[str, str]
    """Region → the region or country that encloses it."""
    countries: frozenset[str]
    """Present states, by the name used in answers."""
    adjectives: Mapping[str, str]
    """Adjective → country or nation; empty for peoples and former states."""
    occupations: Mapping[str, str]
    """Occupation in lower case → the wider occupation, or empty text."""
    kinds: Mapping[str, frozenset[str]]
    """Noun in lower case → kinds of things that it can name."""
    classes: Mapping[str, str]
    """Noun in lower case → the wider noun."""


@cache
def load_description_word_lists() -> DescriptionLookUpTables:
    """Load the lists of data/lists/; SettingsError names the missing or malformed file."""
    places: dict[str, str] = {}
    countries: set[str] = set()
    adjectives: dict[str, str] = {}
    for line in _iterate_csv_list_lines("countries.csv", ["name", "kind", "adjectives", "other_names"]):
        name, kind = line["name"], line["kind"]
        for form in _split_csv_list_cell(line["adjectives"]):
            adjectives.setdefault(form, name if kind in ("country", "nation") else "")
        if kind == "country":
            countries.add(name)
        if name and kind != "ambiguous":
            places.update(dict.fromkeys([name, *_split_csv_list_cell(line["other_names"])], name))
    within = {}
    for line in _iterate_csv_list_lines("regions.csv", ["name", "within", "other_names"]):
        within[line["name"]] = line["within"]
        places.update(dict.fromkeys([line["name"], *_split_csv_list_cell(line["other_names"])], line["name"]))
    jobs = _iterate_csv_list_lines("occupations.csv", ["occupation", "class"])
    occupations = {line["occupation"].lower(): line["class"] for line in jobs}
    kinds = dict.fromkeys(occupations, frozenset({"person"}))
    nouns = list(_iterate_csv_list_lines("kinds.csv", ["noun", "kinds", "class"]))
    for line in nouns:
        kinds[line["noun"]] = kinds.get(line["noun"], frozenset()) | frozenset(line["kinds"].split())
    classes = {line["noun"]: line["class"] for line in nouns if line["class"]}
    return DescriptionLookUpTables(places, within, frozenset(countries), adjectives, occupations, kinds, classes)


@cache
def load_description_parsing_words() -> Mapping[str, frozenset[str]]:
    """Return group → words that control the parsing of descriptions (data/lists/description_words.csv).

    | group | words |
    |---|---|
    | head_ends | end a noun phrase |
    | modifiers | may stand for a later noun: `film and television actor` |
    | subject_words | an adjective before them is no nationality: `French literature` |
    """
    lines = _iterate_csv_list_lines("description_words.csv", ["group", "words"])
    return {line["group"]: frozenset(_split_csv_list_cell(line["words"])) for line in lines}


def _iterate_csv_list_lines(name: str, columns: list[str]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(asset_path("data/lists", name).read_text("utf-8")))
    if reader.fieldnames != columns:
        raise SettingsError(f"data/lists/{name}: expected the columns {columns}, found {reader.fieldnames}")
    for line in reader:
        if None in line or None in line.values():
            raise SettingsError(f"data/lists/{name}, line {reader.line_num}: expected {len(columns)} columns")
        yield line


def _split_csv_list_cell(cell: str) -> list[str]:
    return [part for part in cell.split(";") if part]


@cache
def load_lexicon() -> PlaceAndNounLexicon:
    """Return the lists' places and nouns; names of former states count as ordinary words."""
    words = load_description_word_lists()
    names = {**words.adjectives, **words.places}
    nouns = {**words.occupations, **words.classes}
    return PlaceAndNounLexicon(
        places={
            # as in texts that are read: without hyphens and possessives
            normalize_answer(name.replace("-", " ").replace("'s ", " ")): place
            for name, place in names.items()
            if place in words.countries or place in words.within
        },
        enclosing_places={**words.within, GEORGIA_STATE: "United States"},
        wider_nouns={
            normalize_answer_to_singular(noun.replace("-", " ")): wider for noun, wider in nouns.items() if wider
        },
    )


_BRACKET = re.compile(r"\s*\(([^()]*)\)")
_SUPERLATIVE = (
    r"(?:second|third|fourth)?[- ]?(?:old|larg|bigg|high|long|small|tall|young|fin|great)(?:est|gest)|"
    r"most \w+|leading|only|main|major"
)
_LEADING_WORDS = re.compile(
    r"^(?:(?:the|a|an|one|first|last|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|former|and|now-defunct|defunct|\d+(?:st|nd|rd|th)?|"
    rf"{_SUPERLATIVE})\s+)+",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[a-z]{3})\.\s+(?=[A-Z])")
_SELF_NAMING = re.compile(r"^(?:The )?[A-Z][^,;]{0,60}? (?:is|was) (?:a|an|the|one of the) ")
_GROUP_OPENING = re.compile(
    r"^(?:one|group|groups|pair|set|any|some|each|several|two|three|four|most|many) of (?:the |several )?",
    re.IGNORECASE,
)
_ADJECTIVE_LINKS = re.compile(r"[-–/]")
_FOOTBALL_CODES = frozenset({"American", "Canadian", "Gaelic", "Australian"})
_ENUMERATION_END = re.compile(
    r"(?<=\w)\s+(?:by|of|in|from|for|about|who|which|that|with|at|on|to|based|located|created|directed)\b.*$|;.*$"
)
_ENUMERATION = re.compile(r"[,;/]| and | or ")


@dataclass(frozen=True, slots=True)
class DescriptionNounPhrase:
    """The noun phrase that begins a description."""

    phrase: str
    """Words before the first preposition, without article and nationality: `private research university`."""
    has_nationality: bool
    """True when a nationality preceded the phrase: `American`, `British-American`."""
    noun: str
    """Longest known noun at the end of the phrase, in lower case; empty when none is known."""


@lru_cache(maxsize=16384)
def read_kinds_of_thing_described(description: str) -> frozenset[str]:
    """Return the kinds of things that a description can name; empty when it is not understood.

    In an enumeration, a phrase that names a person takes precedence ("film and television actor" is no film); otherwise
    the first phrase understood decides.
    """
    kinds = load_description_word_lists().kinds
    text = _GROUP_OPENING.sub("", simplify_to_first_sentence(description))
    if text.lower().startswith("fictional "):
        return frozenset({"character"})
    head = read_description_head(text)
    if head.noun.endswith(" of"):
        return kinds[head.noun]
    modifiers = load_description_parsing_words()["modifiers"]
    known = [head for head in _read_enumerated_heads(_ENUMERATION_END.sub("", text)) if head.noun]
    # words like `film` and `stage` may stand for a later noun: film and television company
    own = [head for head in known if not (head.phrase and modifiers.issuperset(head.phrase.lower().split()))]
    found = [kinds[head.noun] for head in own or known]
    others = () if found else (kinds.get(head.noun, frozenset()) for head in _read_enumerated_heads(text))
    return next((each for each in (*found, *others) if "person" in each), found[0] if found else frozenset())


def _read_enumerated_heads(text: str) -> list[DescriptionNounPhrase]:
    return [read_description_head(piece.strip()) for piece in _ENUMERATION.split(text)]


def simplify_to_first_sentence(text: str) -> str:
    """Return a description without brackets and final stop, with single spaces and "Washington D.C." in one form."""
    plain = _BRACKET.sub(_keep_place_bracket, " ".join(text.split()))
    plain = _SELF_NAMING.sub("", _SENTENCE_END.split(plain, maxsplit=1)[0])
    plain = re.sub(r"Washington,? (?:D\. ?C\.|DC\b)", "Washington D.C.", plain)
    return re.sub(r"(?<!\.[A-Z])\.$", "", plain.strip()).strip()


def _keep_place_bracket(bracket: re.Match[str]) -> str:
    """Return a bracket's words as part of the phrase when they are places, else nothing: `Ithaca (New York, US)`."""
    is_of_places = all(part in load_description_word_lists().places for part in bracket[1].split(", "))
    return f", {bracket[1]}" if is_of_places else ""


@lru_cache(maxsize=16384)
def read_description_head(description: str) -> DescriptionNounPhrase:
    """Return the noun phrase that begins a tidied description."""
    text = _LEADING_WORDS.sub("", _GROUP_OPENING.sub("", description))
    end = _compile_head_end_pattern().search(text)
    phrase, rest = (text[: end.start()], text[end.start() :].strip()) if end else (text, "")
    has_nationality, phrase = cut_nationality_and_words_before(phrase)
    phrase = _LEADING_WORDS.sub("", phrase)
    noun = _find_listed_head_noun(phrase, rest)
    if not noun and rest.startswith("and ") and phrase.split():
        more = read_description_head(rest.removeprefix("and "))
        if more.noun and " " in more.phrase and not more.has_nationality:
            return DescriptionNounPhrase(f"{phrase} and {more.phrase}", has_nationality, more.noun)
    return DescriptionNounPhrase(phrase, has_nationality, noun)


@cache
def _compile_head_end_pattern() -> re.Pattern[str]:
    words = sorted(load_description_parsing_words()["head_ends"], key=lambda word: (-len(word), word))
    return re.compile(rf"\s+(?:{'|'.join(map(re.escape, words))})\b|[,;:(–—]|\s-\s|\s/\s")


def cut_nationality_and_words_before(phrase: str) -> tuple[bool, str]:
    """Return whether a phrase has a nationality, and the rest: `famous American film actor` gives `film actor`."""
    words = phrase.split()
    is_found, rest = _cut_leading_nationality_and_get_rest(words)
    for start in range(1, min(len(words), 6)):
        if is_found or words[start - 1].endswith(","):
            break
        is_found, behind = _cut_leading_nationality_and_get_rest(words[start:])
        rest = behind if is_found else rest
    return is_found, rest


def _cut_leading_nationality_and_get_rest(words: list[str]) -> tuple[bool, str]:
    """Cut a leading nationality; `French-born` gives an origin, not a nationality, and is skipped."""
    start = next((at for at, word in enumerate(words) if not word.endswith("-born")), len(words))
    if start < len(words) - 1 and _is_adjective_part_of_noun(words[start:]):
        return False, " ".join(words[start:])
    taken, found = start, 0
    while taken < len(words):
        is_pair = _is_nationality(" ".join(words[taken : taken + 2]))
        if not (is_pair or _is_nationality(words[taken])):
            break
        found += 1
        taken += 2 if is_pair else 1
        if words[taken : taken + 1] == ["and"] and taken + 2 < len(words) and _is_nationality(words[taken + 1]):
            found += 1
            taken += 1
    if taken == len(words) and found > 1:
        taken -= 1
    return found > 0, " ".join(words[taken:])


def _is_adjective_part_of_noun(words: list[str]) -> bool:
    """True for American football and French literature: the adjective belongs to the noun, not to the person."""
    if words[1].lower() == "football" and words[0] in _FOOTBALL_CODES:
        return True
    kinds = load_description_word_lists().kinds
    return words[1] in load_description_parsing_words()["subject_words"] or any(
        " ".join(words[:end]).lower() in kinds for end in range(2, len(words) + 1)
    )


def _is_nationality(text: str) -> bool:
    adjectives = load_description_word_lists().adjectives
    parts = _ADJECTIVE_LINKS.split(text)
    return (
        text in adjectives
        or (len(parts) > 1 and all(part in adjectives for part in parts))
        or (text.islower() and bool(adjectives.get(text.capitalize())))
    )


def _find_listed_head_noun(phrase: str, rest: str) -> str:
    """Return the longest listed noun at the phrase's end, in lower case; empty when there is none."""
    kinds = load_description_word_lists().kinds
    words = phrase.lower().split()
    for start in range(max(0, len(words) - 4), len(words)):
        noun = " ".join(words[start:])
        if rest.startswith("of ") and f"{noun} of" in kinds:
            return f"{noun} of"
        if noun in kinds:
            return noun
    last = normalize_answer_to_singular(words[-1]) if words else ""
    return last if last in kinds else ""
