"""How the rules author reads a short description: what kind of thing it names, and in which words.

A description is taken as a noun phrase ("private research university in Durham, United States"): the head is what
stands before the first preposition, comma or relative clause, and its last words name the kind of thing.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from tasks.rules.tables import load_tables, load_words, one_of
from tasks.text.matching import singular_form

_HEAD_END = re.compile(rf"\s+{one_of('head_ends')}\b|[,;:(–—]|\s-\s|\s/\s")
_BRACKET = re.compile(r"\s*\(([^()]*)\)")
_SUPERLATIVE = (
    r"(?:second|third|fourth)?[- ]?(?:old|larg|bigg|high|long|small|tall|young|fin|great)(?:est|gest)|"
    r"most \w+|leading|only|main|major"
)
_OPENING = re.compile(
    r"^(?:(?:the|a|an|one|first|last|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|former|and|now-defunct|defunct|\d+(?:st|nd|rd|th)?|"
    rf"{_SUPERLATIVE})\s+)+",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[a-z]{3})\.\s+(?=[A-Z])")
_SELF_NAMING = re.compile(r"^(?:The )?[A-Z][^,;]{0,60}? (?:is|was) (?:a|an|the|one of the) ")
_OF_GROUP = re.compile(
    r"^(?:one|group|groups|pair|set|any|some|each|several|two|three|four|most|many) of (?:the |several )?",
    re.IGNORECASE,
)
_ADJECTIVE_LINKS = re.compile(r"[-–/]")
_FOOTBALL_CODES = frozenset({"American", "Canadian", "Gaelic", "Australian"})
_PAST = re.compile(
    r"\b(?:former|formerly|ancient|historic|historical|medieval|defunct|extinct|lost|ruined|old)\b", re.IGNORECASE
)
_LIST_END = re.compile(
    r"(?<=\w)\s+(?:by|of|in|from|for|about|who|which|that|with|at|on|to|based|located|created|directed)\b.*$|;.*$"
)
_ENUMERATION = re.compile(r"[,;/]| and | or ")
_LETTER_SOUNDS_VOWEL = frozenset("AEFHILMNORSX")
_VOWEL_BUT_A = re.compile(
    r"(?:uni(?!n|m)|eu|u[sk]\b|u\.[sk]\.|uk[er]|uru|ugand|uzb|ut[ai]|one\b|once\b|use)", re.IGNORECASE
)
_SILENT_H = re.compile(r"(?:hour|honest|heir|honou?r)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Head:
    """The noun phrase a description opens with."""

    phrase: str
    """Words before the first preposition, without article and nationality: `private research university`."""
    adjective: str
    """Nationality in front, as written: `American`, `British-American`; empty when there is none."""
    noun: str
    """Longest known noun at the end of the phrase, in lower case; empty when none is known."""
    rest: str
    """What follows the phrase, opening with its preposition."""


def tidy_description(text: str) -> str:
    """Return a description without brackets and closing stop, white space and the capital's comma made plain."""
    plain = _BRACKET.sub(_keep_places, " ".join(text.split()))
    plain = _SELF_NAMING.sub("", _SENTENCE_END.split(plain, maxsplit=1)[0])
    plain = re.sub(r"Washington,? (?:D\. ?C\.|DC\b)", "Washington D.C.", plain)
    return re.sub(r"(?<!\.[A-Z])\.$", "", plain.strip()).strip()


def _keep_places(bracket: re.Match[str]) -> str:
    """Return a bracket's words as part of the phrase when they are places: `Ithaca (New York, US)`."""
    parts = bracket[1].split(", ")
    return f", {bracket[1]}" if all(part in load_tables().places for part in parts) else ""


def is_of_the_past(text: str) -> bool:
    """True when a description says that the thing, or its nationality, belongs to the past."""
    return _PAST.search(text) is not None


@lru_cache(maxsize=16384)
def read_head(description: str) -> Head:
    """Split a tidied description into nationality, noun phrase and the rest."""
    text = _OPENING.sub("", _OF_GROUP.sub("", description))
    end = _HEAD_END.search(text)
    phrase, rest = (text[: end.start()], text[end.start() :].strip()) if end else (text, "")
    adjective, phrase = find_nationality(phrase)
    phrase = _OPENING.sub("", phrase)
    noun = known_noun(phrase, rest)
    if not noun and rest.startswith("and ") and phrase.split()[-1:] != []:
        more = read_head(rest.removeprefix("and "))
        if more.noun and " " in more.phrase and not more.adjective:
            return Head(f"{phrase} and {more.phrase}", adjective, more.noun, more.rest)
    return Head(phrase, adjective, noun, rest)


def split_nationality(phrase: str) -> tuple[str, str]:
    """Cut the nationality off the front: `British-American film actor` gives `British-American`, `film actor`.

    `French-born` and the like are passed over: they say where someone came from, not what they are.
    """
    words = phrase.split()
    start = 0
    while start < len(words) and words[start].endswith("-born"):
        start += 1
    if start < len(words) - 1 and _is_no_nationality(words[start:]):
        return "", " ".join(words[start:])
    taken, found = start, []
    while taken < len(words):
        pair, single = _adjective(" ".join(words[taken : taken + 2])), _adjective(words[taken])
        if not (pair or single):
            break
        found.append(pair or single)
        taken += 2 if pair else 1
        if words[taken : taken + 1] == ["and"] and taken + 2 < len(words) and _adjective(words[taken + 1]):
            found.append("and")
            taken += 1
    if taken == len(words) and len(found) > 1:
        found.pop()
        taken -= 1
    return " ".join(found), " ".join(words[taken:])


def drop_opening(phrase: str) -> str:
    """Return a phrase without articles, ordinals and superlatives at its front."""
    return _OPENING.sub("", phrase)


def find_nationality(phrase: str) -> tuple[str, str]:
    """Cut the nationality off, also behind other adjectives: `award-winning American actor`; those are dropped."""
    nationality, rest = split_nationality(phrase)
    words = phrase.split()
    for start in range(1, min(len(words), 6)):
        if nationality or words[start - 1].endswith(","):
            break
        nationality, behind = split_nationality(" ".join(words[start:]))
        rest = behind if nationality else rest
    return nationality, rest


def _is_no_nationality(words: list[str]) -> bool:
    """True for American football and French literature: the adjective belongs to the thing, not to the person."""
    kinds = load_tables().kinds
    if words[1].lower() == "football" and words[0] in _FOOTBALL_CODES:
        return True
    return words[1] in load_words("subject_words") or any(
        " ".join(words[:end]).lower() in kinds for end in range(2, len(words) + 1)
    )


def _adjective(text: str) -> str:
    """Return a nationality as it is written in answers; empty when the text is none."""
    tables = load_tables()
    if text in tables.adjectives:
        country = tables.adjectives[text]
        return tables.adjective_of[country] if text in tables.places else text
    parts = _ADJECTIVE_LINKS.split(text)
    if len(parts) > 1 and all(part in tables.adjectives for part in parts):
        spelled = [_adjective(part) for part in parts]
        return "-".join(dict.fromkeys(spelled))
    return text.capitalize() if text.islower() and tables.adjectives.get(text.capitalize()) else ""


def known_noun(phrase: str, rest: str = "") -> str:
    """Return the longest noun of the lists that the phrase ends with, in lower case; empty when there is none."""
    kinds = load_tables().kinds
    words = phrase.lower().split()
    for start in range(max(0, len(words) - 4), len(words)):
        noun = " ".join(words[start:])
        if rest.startswith("of ") and f"{noun} of" in kinds:
            return f"{noun} of"
        if noun in kinds:
            return noun
    last = singular_form(words[-1]) if words else ""
    return last if last in kinds else ""


@lru_cache(maxsize=16384)
def kinds_described(description: str) -> frozenset[str]:
    """Return the kinds of things a description can stand for; empty when it is not understood.

    Among the first phrases of an enumeration a person comes first ("film and television actor" is no film); otherwise
    the first phrase that is understood decides.
    """
    tables = load_tables()
    text = _OF_GROUP.sub("", tidy_description(description))
    if text.lower().startswith("fictional "):
        return frozenset({"character"})
    whole = read_head(text)
    if whole.noun.endswith(" of"):
        return tables.kinds[whole.noun]
    heads = [read_head(piece.strip()) for piece in _ENUMERATION.split(_LIST_END.sub("", text))]
    known = [head for head in heads if head.noun]
    found = [tables.kinds[head.noun] for head in known if not is_modifier(head.phrase)]
    found = found or [tables.kinds[head.noun] for head in known]
    if found:
        return next((kinds for kinds in found if "person" in kinds), found[0])
    others = (tables.kinds.get(read_head(piece.strip()).noun, frozenset()) for piece in _ENUMERATION.split(text))
    return next((kinds for kinds in others if "person" in kinds), frozenset())


def is_modifier(phrase: str) -> bool:
    """True for words like `film` and `stage` that may stand for the noun to come: film and television company."""
    return bool(phrase) and all(word in load_words("modifiers") for word in phrase.lower().split())


def with_article(phrase: str) -> str:
    """Put `a` or `an` before a noun phrase, by sound: an NBA player, a university, an honorary title."""
    first = re.split(r"[\s\-–/&]", phrase, maxsplit=1)[0]
    if re.fullmatch(r"[A-Z]{2,}|[A-Z]", first):
        vowel = first[0] in _LETTER_SOUNDS_VOWEL
    else:
        vowel = bool(_SILENT_H.match(first)) or (first[:1].lower() in "aeiou" and not _VOWEL_BUT_A.match(first))
    return f"{'an' if vowel else 'a'} {phrase}"


def lower_first(phrase: str) -> str:
    """Return the phrase with a capitalised common word at its front in lower case; names like `R&B` stay."""
    tables = load_tables()
    if phrase.istitle() and phrase.lower() in tables.kinds:
        return phrase.lower()
    first, _, rest = phrase.partition(" ")
    is_common = first.lower() in tables.common_words and first[1:2].islower() and not rest[:1].isupper()
    return phrase[:1].lower() + phrase[1:] if is_common else phrase
