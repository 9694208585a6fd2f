"""Texts as words, numbers and dates in which an amount is the same however it is written; the ground of answers_in_text.

A text is first spelt so that text/values/words.py reads it whole: money with its mark behind ("US$1.2bn" is "1.2
billion dollar"), scales at both ends of a range, 680 000 as 680000, 2023–24 as 2023–2024, a duration as one word, J. J.
as JJ. What was read is then joined: "square kilometres", "sq km" and "km²" are one unit, a minus belongs to its number,
small words fall away. Units are told apart but never converted: 12 miles is not 19 km.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tasks.text.values.words import Count, Value, drop_light, read_values
from tasks.text.values.written import SCALES, read_number


class Said(NamedTuple):
    """A word, number or date of a text."""

    value: Value
    bare: Count | None
    """Of a number with a scale word the number without it (527 of 527 million), where it is long enough to be told by."""
    is_capital: bool


PERCENT = "percent"
_BARE_DIGITS_AT_LEAST = 3
_SHORT = 1000
"""Characters of a text that is kept when it was read."""
_NUMBER = r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?"
_SCALE = rf"(?:{'|'.join(SCALES)})"
_SCALE_LETTERS = {
    **{"k": "thousand", "m": "million", "mn": "million", "mln": "million"},
    **{"b": "billion", "bn": "billion", "t": "trillion", "tn": "trillion"},
}
_MARKS = {
    **{"$": "dollar", "USD": "dollar", "€": "euro", "EUR": "euro", "£": "pound", "GBP": "pound"},
    **{"¥": "yen", "JPY": "yen", "CNY": "yuan", "RMB": "yuan", "₹": "rupee", "INR": "rupee", "₩": "won", "KRW": "won"},
}
_MARK = (
    r"(?:(?<![A-Za-z])(?:[A-Z]{1,3}|U\.S\.) ?(?=[$¥£]))?"
    r"(?:[$€£¥₹₩]|(?<![A-Za-z])(?:USD|EUR|GBP|JPY|CNY|RMB|INR|KRW)(?![A-Za-z]))"
)
"""A currency's mark, with letters before it where they tell it from others: US$, HK$."""
_SPACES = re.compile(r"[\u00a0\u2007\u2009\u200a\u202f]")
_ADDRESS = re.compile(r"https?://(?:www\.)?|\bwww\.")
_COUNTRIES = (
    (re.compile(r"\bU\.? ?S\.?(?: ?A\b\.?)?(?![\w$]|\.\w| ?\$)"), "United States"),
    (re.compile(r"\bUnited States of America\b"), "United States"),
    (re.compile(r"\bU\.? ?K\.?(?!\w|\.\w)"), "United Kingdom"),
)
_INITIALS = re.compile(r"\b([A-Z])\. ?(?=[A-Z]\.)")
_THOUSANDS = re.compile(
    r"(?<![\w.,:/–-])(?<!(?:ary|rch|ril|May|une|uly|ust|ber) )[0-9]{1,3}(?: [0-9]{3})+(?!\w|[,:][0-9])"
)
_SCALES = re.compile(rf"(?<=[0-9]) ?(?:({_SCALE})s?|(bn|mn|mln|tn)|(?<! )(M))\b", re.IGNORECASE)
_SCALE_OF_MONEY = re.compile(rf"({_MARK} ?{_NUMBER}) ?([kmbt])\b", re.IGNORECASE)
_SCALED_RANGE = re.compile(
    rf"(?<![\w.,])({_NUMBER})( ?[-–—] ?|(?<![0-9]{{4}}) (?:to|and|or) )((?:{_MARK} ?)?{_NUMBER}) ({_SCALE})\b"
)
_MONEY = re.compile(rf"({_MARK}) ?({_NUMBER}(?: {_SCALE}\b)?(?:(?: ?[-–—] ?| to ){_NUMBER}(?: {_SCALE}\b)?(?!%))?)")
_DASH_BEHIND_SIGN = re.compile(r"(?<=[%°′″])[-–—](?=[0-9])")
_SHORT_RANGE = re.compile(r"(?<![\w.,])((?:1[0-9]|20)([0-9]{2}))([-–/])([0-9]{2})(?![\w-]|[.,][0-9])")
_CLOCK = re.compile(r"(?<![\w:.,])0?([0-9]{1,3}):([0-9]{2})(?::([0-9]{2}))?(?![\w:])")
_HOUR, _MINUTE, _SECOND = r" ?(?:hours?|hrs?|h)\b", r" ?(?:minutes?|mins?|m)\b\.?", r" ?(?:seconds?|secs?|s)\b"
_THEN = r",? (?:and )?"
_DURATIONS = (
    re.compile(rf"\b([0-9]{{1,3}}){_HOUR}{_THEN}([0-9]{{1,2}}){_MINUTE}(?:{_THEN}([0-9]{{1,2}}){_SECOND})?"),
    re.compile(rf"\b([0-9]{{1,3}}){_MINUTE}{_THEN}([0-9]{{1,2}}){_SECOND}()"),
)
_COLON = "\u02d0"
"""A letter that looks like a colon, so that 3:58 stays one word."""
_INCHES = re.compile(r"(?<=[0-9]) ?in\b\.?(?= *(?:[(),;/×]|$))")
_GLUED_UNIT = re.compile(r"(?<=[0-9])(?=(?:km|cm|mm|m|kg|g|lbs?|oz|ft|mi|yd|ha|mph|kph)(?:[²³23])?\b)")
_UNITS = {
    **{"kilometre": "km", "kilometer": "km", "metre": "m", "meter": "m", "centimetre": "cm", "centimeter": "cm"},
    **{"millimetre": "mm", "millimeter": "mm", "mile": "mi", "foot": "ft", "feet": "ft", "yard": "yd", "inche": "inch"},
    **{"kilogram": "kg", "kilogramme": "kg", "gram": "g", "gramme": "g", "lb": "pound", "lbs": "pound"},
    **{
        "ounce": "oz",
        "hectare": "ha",
        "acre": "acre",
        "furlong": "furlong",
        "litre": "l",
        "liter": "l",
        "min": "minute",
        "mins": "minute",
    },
    **{"hr": "hour", "h": "hour", "yr": "year", "usd": "dollar", "eur": "euro", "gbp": "pound", "sqkm": "km2"},
    **{"celsius": "c", "fahrenheit": "f", "pct": PERCENT, "hour": "hour", "minute": "minute"},
}
UNITS = frozenset({*_UNITS.values(), *_MARKS.values(), "inch", "km2", "m2", "mi2", "ft2", "km3", "m3", "year", "day"})
"""Units and currencies as `read_amounts` gives them."""
_RAISED_UNITS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_SPELT_UNITS: dict[tuple[Value | None, Value | None], str] = {
    ("pound", "sterling"): "pound",
    **{("degree", scale): scale[0] for scale in ("c", "f", "celsius", "fahrenheit")},
}
_SPEEDS = {"mph": ("mi", "hour"), "kph": ("km", "hour"), "kmh": ("km", "hour")}
_ALIASES = {"saint": "st", "mount": "mt"}
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_ORDINALS = {f"{word}th": f"{at}th" for at, word in enumerate(_TEENS, 13)} | {"twentieth": "20th"}
_JOINING = frozenset({"and", "or"})


def read_amounts(text: str) -> Sequence[Said]:
    """Return what a paragraph or an answer says, in order, without small words.

    "and" and "or" stay between words, so that "Paul and Reed" is not "Paul Reed", and fall away between numbers. What is
    short is kept for a while: one article is read by several stages, and by each question that names it.
    """
    return _read_short(text) if len(text) <= _SHORT else _read(text)


@lru_cache(maxsize=4096)
def _read_short(text: str) -> Sequence[Said]:
    return _read(text)


def _read(text: str) -> Sequence[Said]:
    told = [(part.said, part.value) for part in read_values(spell_amounts(text))]
    joined = _drop_repeated_units(list(_join_units(list(_join_signs(told)))))
    return tuple(each for at, each in enumerate(joined) if _is_kept(joined, at))


def spell_amounts(text: str) -> str:
    """Return a text with money, scales, ranges, durations, thousands and initials in the forms that are read whole."""
    plain = _ADDRESS.sub("", _SPACES.sub(" ", text)).replace("&", " and ")
    if any(character.isdigit() for character in plain):
        plain = _spell_numbers(plain)
    for pattern, name in _COUNTRIES:
        plain = pattern.sub(name, plain)
    return _INITIALS.sub(r"\1", plain)


def is_number(value: Value) -> bool:
    """True for numbers and dates."""
    return not isinstance(value, str)


def _spell_numbers(plain: str) -> str:
    plain = _DASH_BEHIND_SIGN.sub(" – ", plain)
    plain = _THOUSANDS.sub(lambda found: found[0].replace(" ", ""), plain)
    plain = _SCALE_OF_MONEY.sub(lambda found: f"{found[1]} {_SCALE_LETTERS[found[2].lower()]}", plain)
    plain = _SCALES.sub(_write_scale, plain)
    plain = _SCALED_RANGE.sub(r"\1 \4\2\3 \4", plain)
    plain = _MONEY.sub(lambda found: f"{found[2]} {_name_currency(found[1])}", plain)
    plain = _SHORT_RANGE.sub(_write_range, plain)
    for pattern in (_CLOCK, *_DURATIONS):
        plain = pattern.sub(_write_duration, plain)
    return _GLUED_UNIT.sub(" ", _INCHES.sub(" inch", plain))


def _write_scale(found: re.Match[str]) -> str:
    word, letters, large = found.groups()
    if large and large != "M":
        # 5m is five metres
        return found[0]
    return f" {(word or _SCALE_LETTERS[(letters or large).lower()]).lower()}"


def _name_currency(mark: str) -> str:
    """Return the word for a mark; other dollars than those of the United States are another word."""
    bare = mark.replace(".", "").replace(" ", "")
    if bare in _MARKS:
        return _MARKS[bare]
    before, sign = bare[:-1], bare[-1]
    if (before, sign) in (("US", "$"), ("GB", "£"), ("JP", "¥")):
        return _MARKS[sign]
    return "yuan" if (before, sign) == ("CN", "¥") else f"{before.lower()}{_MARKS[sign]}"


def _write_range(found: re.Match[str]) -> str:
    first, short, dash, last = found.groups()
    is_later = int(last) > int(short) or (short == "99" and last == "00")
    if not is_later or (dash == "-" and int(last) <= 12):
        return found[0]
    century = int(first[:2]) + (last == "00")
    return f"{first}–{century}{last}"


def _write_duration(found: re.Match[str]) -> str:
    first, *others = found.groups()
    return _COLON.join([str(int(first)), *(f"{int(part):02d}" for part in others if part)])


def _join_signs(told: Sequence[tuple[str, Value]]) -> Iterator[Said]:
    at = 0
    while at < len(told):
        said, value = told[at]
        following = told[at + 1][1] if at + 1 < len(told) else None
        if value == "minus" and isinstance(following, Count) and not _is_year(following.number):
            number = following.number
            yield Said(Count(number if number == "0" else f"-{number}"), None, False)
            at += 2
            continue
        bare = _read_bare(said) if isinstance(value, Count) else None
        word = _ALIASES.get(value) or _ORDINALS.get(value) or value if isinstance(value, str) else value
        yield Said(word, bare, said[:1].isupper())
        at += 1


def _is_year(number: str) -> bool:
    """True for what is more likely the end of a range than a negative number: (–2010)."""
    return len(number) == 4 and number.isdigit() and int(number) <= 2100


def _read_bare(said: str) -> Count | None:
    first, _, scale = said.partition(" ")
    number = read_number(first) if scale else None
    if number is None or ("." not in number.number and len(number.number) < _BARE_DIGITS_AT_LEAST):
        return None
    return Count(number.number)


def _join_units(read: Sequence[Said]) -> Iterator[Said]:
    at = 0
    while at < len(read):
        words = [each.value for each in read[at : at + 3]]
        first, second = (*words, None, None)[:2]
        if first in _RAISED_UNITS and isinstance(second, str) and _UNITS.get(second, second) in UNITS:
            yield Said(f"{_UNITS.get(second, second)}{_RAISED_UNITS[str(first)]}", None, False)
            at += 2
        elif words == ["united", "state", "dollar"]:
            yield Said("dollar", None, False)
            at += 3
        elif (first, second) in _SPELT_UNITS:
            yield Said(_SPELT_UNITS[first, second], None, False)
            at += 2
        elif first in _SPEEDS:
            yield from (Said(word, None, False) for word in _SPEEDS[str(first)])
            at += 1
        elif first == "per" and second in ("hour", "h"):
            at += 1
        else:
            yield read[at]._replace(value=_UNITS.get(first, first)) if isinstance(first, str) else read[at]
            at += 1


def _drop_repeated_units(read: list[Said]) -> list[Said]:
    """Return what is read with the unit once behind a range: 44 lb to 71 lb is 44 to 71 lb."""
    kept: list[Said] = []
    for at, each in enumerate(read):
        if each.value in UNITS and kept and is_number(kept[-1].value):
            ahead = [other.value for other in read[at + 1 : at + 4] if other.value not in ("to", "and", "or")][:2]
            if len(ahead) == 2 and is_number(ahead[0]) and ahead[1] == each.value:
                continue
        kept.append(each)
    return kept


def _is_kept(read: Sequence[Said], at: int) -> bool:
    value = read[at].value
    if value in _JOINING:
        between = (read[other].value for other in (at - 1, at + 1) if 0 <= other < len(read))
        return not all(is_number(other) for other in between)
    return bool(drop_light([value, ""])[0])
