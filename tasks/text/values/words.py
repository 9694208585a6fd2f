"""Tokenise texts into words, numbers and dates by meaning: "8 March 1917" equals "March 8, 1917", "1,000" "1000", "two"
2.

Words are folded (`fold_text`) and compared in the singular, without possessive endings. A date is read where a month or
an era occurs; a bare year is a number, and a date implies its year. Ordinals become 5th in any spelling.

`read_amounts` reads a text so that all spellings of an amount are equal; answers are searched for in that form. It
first normalises the spelling so that amounts are read whole: money with its mark after it ("US$1.2bn" is "1.2 billion
dollar"), scales at both ends of a range, 680 000 as 680000, 2023–24 as 2023–2024, a duration as one word, J. J. as JJ.
Then it joins tokens: "square kilometres", "sq km" and "km²" are one unit, a minus belongs to its number, small words
are dropped. Units are distinguished but never converted: 12 miles is not 19 km.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from factmill.tasks.text.matching import fold_text, singular_form
from factmill.tasks.text.values.literals import YEAR, Date, format_ordinal
from factmill.tasks.text.values.written import (
    ERA,
    MONTHS,
    NUMBER_WORDS,
    ORDINAL_WORDS,
    SCALES,
    read_date,
    read_number,
    write_date,
)


class Count(NamedTuple):
    """A number."""

    number: str
    """In canonical form (text.values.literals.canonical_number)."""


class DayOfYear(NamedTuple):
    """A day without its year."""

    month: int
    day: int


Value = str | Count | Date | DayOfYear
"""Meaning of a part of a text; a str is a folded word in the singular."""


class Told(NamedTuple):
    """A part of a text and its value."""

    said: str
    value: Value


_TOKEN = re.compile(r"[^\W_]+(?:[.,'’^][^\W_]+)*[+#]*|%")
_RAISED = re.compile(r"(?<=[0-9])[⁺⁻]?[⁰¹²³⁴-⁹]+")
_MINUS = re.compile(r"(?<![\w)])[-‐‑–−](?=[0-9])")
_PER_CENT = re.compile(r"\bper cent\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"(?<![\w-])[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?(?![\w-])")
_POSSESSIVE = re.compile(r"(?<=[^\W\d_])(?:'s|s')$")
_DECADE = re.compile(r"([0-9]{2,4})'?s")
_ORDINAL = re.compile(r"[0-9]+(?:st|nd|rd|th)")
_MONTHS = frozenset(month[:3] for month in MONTHS)
_ERAS = frozenset({"bc", "bce", "ad", "ce"})
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_ONES = {word: number for number, word in enumerate(NUMBER_WORDS[1:10], 1)}
_ORDINALS, _LATER_ORDINALS = (
    {word: format_ordinal(number) for number, word in enumerate(ORDINAL_WORDS, 1) if (number > 12) == is_later}
    for is_later in (False, True)
)
"""Ordinals that both readers take for numbers, and those that only `read_amounts` does."""
_DATE_WORDS_AT_MOST = 6
_LIGHT = frozenset(
    {
        *("a", "about", "an", "and", "around", "at", "between", "by", "circa", "for", "from", "in", "of", "on", "or"),
        *("the", "till", "to", "until", "with"),
    }
)


def read_values(text: str) -> list[Told]:
    """Return the parts of a text and their values, in order."""
    words = _TOKEN.findall(_spell(text))
    marks = [_is_month(word) or word.lower() in _ERAS for word in words]
    told: list[Told] = []
    at = 0
    while at < len(words):
        width, value = _read_at(words, marks, at)
        told.append(Told(" ".join(words[at : at + width]), value))
        at += width
    return told


def find_capitals(told: Sequence[Told]) -> Iterator[tuple[bool, str, str]]:
    """Yield the capitalised words of a sentence: whether it is the first part, the word, and its value.

    Words within a date or number are not included.
    """
    for at, (said, value) in enumerate(told):
        if isinstance(value, str) and said[0].isupper() and said != "I":
            yield at == 0, said, value


def drop_light(values: Sequence[Value]) -> list[Value]:
    """Return the values without articles, prepositions and conjunctions; all of them where nothing else is there."""
    return [value for value in values if value not in _LIGHT] or list(values)


def says(found: Value, wanted: Value) -> bool:
    """True when a value states the wanted one: the same, a finer date, or a date of the wanted year."""
    if found == wanted:
        return True
    if isinstance(found, Date):
        if isinstance(wanted, Date):
            return wanted.fits(found.key, found.precision)
        if isinstance(wanted, DayOfYear):
            return (found.month, found.day) == wanted
        return isinstance(wanted, Count) and wanted.number in (str(found.year), str(1 - found.year))
    return False


def has_sequence(values: Sequence[Value], wanted: Sequence[Value]) -> bool:
    """True when the wanted values stand in a row, in order; False where there are none."""
    width = len(wanted)
    return bool(wanted) and any(
        all(map(says, values[at : at + width], wanted)) for at in range(len(values) - width + 1)
    )


def is_kin(found: Value, wanted: Value) -> bool:
    """True when a value states the wanted one, or both are words of one stem: Carthage and Carthaginian, cross and
    crossing."""
    if says(found, wanted):
        return True
    if not (isinstance(found, str) and isinstance(wanted, str) and found.isalpha() and wanted.isalpha()):
        return False
    shared = next((at for at, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), None)
    shorter = min(len(found), len(wanted))
    return (shorter if shared is None else shared) >= max(3, shorter - 2)


def _spell(text: str) -> str:
    """Return a text with signs, powers, eras and ISO dates in forms that word splitting keeps whole."""
    plain = ERA.sub(r"\1\2\3", unicodedata.normalize("NFC", text))
    plain = _ISO_DATE.sub(lambda found: write_date(found[0]), plain)
    plain = _RAISED.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]).replace("\u2212", "m"), plain)
    return _MINUS.sub("minus ", _PER_CENT.sub("percent", plain))


def _read_at(words: Sequence[str], marks: Sequence[bool], at: int) -> tuple[int, Value]:
    """Return the number of words in the value at a place, and the value; `marks` are true for months and eras."""
    for width in range(min(_DATE_WORDS_AT_MOST, len(words) - at), 1, -1):
        if True in marks[at : at + width]:
            window = words[at : at + width]
            # cut off from its era, a year would be read as AD
            is_cut = at + width < len(words) and words[at + width].lower() in _ERAS
            if not is_cut and (date := read_date(" ".join(window))):
                return width, date
            if width == 2 and (day := _read_day(window)):
                return width, day
    width, number = 1, words[at]
    if tens := _TENS.get(words[at].lower()):
        units = _ONES.get(_word_at(words, at + 1), 0)
        width, number = (2 if units else 1), str(tens + units)
    scale = _word_at(words, at + width)
    if scale in SCALES and (count := _read_count(f"{number} {scale}")):
        return width + 1, count
    return width, Count(number) if tens else _read_word(words[at])


def _word_at(words: Sequence[str], at: int) -> str:
    return words[at].lower() if at < len(words) else ""


def _is_month(word: str) -> bool:
    return word[:1].isupper() and word[:3].lower() in _MONTHS


def _read_day(window: Sequence[str]) -> DayOfYear | None:
    """Return the day given by a month and a number in either order; a leap year accepts every day."""
    date = read_date(f"{' '.join(window)} 2000")
    return DayOfYear(date.month, date.day) if date and date.month and date.day else None


def _read_count(text: str) -> Count | None:
    number = read_number(text)
    return Count(number.number) if number and number.unit is None else None


@lru_cache(maxsize=65536)
def _read_word(word: str) -> Value:
    if word == "%":
        return "percent"
    folded = fold_text(word)
    if decade := _DECADE.fullmatch(folded):
        return f"{decade[1]}s"
    if folded in _ORDINALS or _ORDINAL.fullmatch(folded):
        return _ORDINALS.get(folded, folded)
    if count := _read_count(folded):
        return count
    bare = _POSSESSIVE.sub(lambda found: "s" if found[0] == "s'" else "", folded)
    # a word with other characters than letters stays unchanged
    return singular_form(bare) or bare if bare.isalpha() and bare not in _LIGHT else bare


def is_year(value: Value) -> bool:
    """True for a date with the precision of a year."""
    return isinstance(value, Date) and value.precision == YEAR


class Said(NamedTuple):
    """A word, number or date of a text."""

    value: Value
    bare: Count | None
    """The number before a scale word (527 of 527 million), where it is long enough to be distinctive; else None."""
    is_capital: bool


PERCENT = "percent"
_BARE_DIGITS_AT_LEAST = 3
_SHORT = 1000
"""Most characters of a text whose tokens are cached."""
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
"""A currency's mark, with distinguishing letters before it: US$, HK$."""
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
"""Units and currencies as `read_amounts` returns them."""
_RAISED_UNITS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_SPELT_UNITS: dict[tuple[Value | None, Value | None], str] = {
    ("pound", "sterling"): "pound",
    **{("degree", scale): scale[0] for scale in ("c", "f", "celsius", "fahrenheit")},
}
_SPEEDS = {"mph": ("mi", "hour"), "kph": ("km", "hour"), "kmh": ("km", "hour")}
_ALIASES = {"saint": "st", "mount": "mt"}
_JOINING = frozenset({"and", "or"})


def read_amounts(text: str) -> Sequence[Said]:
    """Return the words, numbers and dates of a paragraph or an answer in order, without small words.

    "and" and "or" stay between words, so that "Paul and Reed" is not "Paul Reed", and are dropped between numbers.
    Short texts are cached: several stages read one article, and each question that names it does too.
    """
    return _read_short(text) if len(text) <= _SHORT else _read(text)


def _read(text: str) -> Sequence[Said]:
    told = [(part.said, part.value) for part in read_values(spell_amounts(text))]
    joined = _drop_repeated_units(list(_join_units(list(_join_signs(told)))))
    return tuple(each for at, each in enumerate(joined) if _is_kept(joined, at))


_read_short = lru_cache(maxsize=4096)(_read)


def spell_amounts(text: str) -> str:
    """Return a text with money, scales, ranges, durations, thousands and initials in forms that are read whole."""
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
    """Return the word for a currency mark; other dollars than those of the United States have a word of their own."""
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
        number = following.number if value == "minus" and isinstance(following, Count) else ""
        # more likely the end of a range than a negative number: (–2010)
        is_year = len(number) == 4 and number.isdigit() and int(number) <= 2100
        if number and not is_year:
            yield Said(Count(number if number == "0" else f"-{number}"), None, False)
            at += 2
            continue
        bare = _read_bare(said) if isinstance(value, Count) else None
        word = _ALIASES.get(value) or _LATER_ORDINALS.get(value) or value if isinstance(value, str) else value
        yield Said(word, bare, said[:1].isupper())
        at += 1


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
    """Return the tokens with the unit of a range only after its end: 44 lb to 71 lb is 44 to 71 lb."""
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
