"""Tokenise texts into words, numbers and dates by meaning: "8 March 1917" equals "March 8, 1917", "1,000" "1000", "two"
2.

Words are folded (`fold_case_accents_and_punctuation`) and compared in the singular, without possessive endings. A date is read where a month or
an era occurs; a bare year is a number, and a date implies its year. Ordinals become 5th in any spelling.

`tokenize_words_numbers_and_dates` reads a text so that all spellings of an amount are equal; answers are searched for in that form. It
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

from factmill.tasks.text.text_normalization import fold_case_accents_and_punctuation, normalize_answer_to_singular
from factmill.tasks.text.values.dates_and_numbers import (
    ERA_WITH_STOPS,
    MONTH_NAMES,
    NUMBER_WORDS,
    ORDINAL_WORDS,
    POWER_BY_SCALE_WORD,
    format_date_in_prose,
    parse_written_date,
    parse_written_number,
)
from factmill.tasks.text.values.wikidata_literals import YEAR_PRECISION, PartialDate, format_ordinal


class UnitlessNumberValue(NamedTuple):
    """A number."""

    number: str
    """In canonical form (text.values.literals.canonical_number)."""


class DayWithoutYear(NamedTuple):
    """A day without its year."""

    month: int
    day: int


TokenValue = str | UnitlessNumberValue | PartialDate | DayWithoutYear
"""Meaning of a part of a text; a str is a folded word in the singular."""


class TextPartWithValue(NamedTuple):
    """A part of a text and its value."""

    source: str
    value: TokenValue


_TOKEN = re.compile(r"[^\W_]+(?:[.,'’^][^\W_]+)*[+#]*|%")
_SUPERSCRIPT_DIGITS = re.compile(r"(?<=[0-9])[⁺⁻]?[⁰¹²³⁴-⁹]+")
_MINUS = re.compile(r"(?<![\w)])[-‐‑–−](?=[0-9])")
_PER_CENT = re.compile(r"\bper cent\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"(?<![\w-])[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?(?![\w-])")
_POSSESSIVE = re.compile(r"(?<=[^\W\d_])(?:'s|s')$")
_DECADE = re.compile(r"([0-9]{2,4})'?s")
_ORDINAL = re.compile(r"[0-9]+(?:st|nd|rd|th)")
_MONTH_PREFIXES = frozenset(month[:3] for month in MONTH_NAMES)
_ERAS = frozenset({"bc", "bce", "ad", "ce"})
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_ONES = {word: number for number, word in enumerate(NUMBER_WORDS[1:10], 1)}
_SMALL_ORDINALS, _LARGE_ORDINALS = (
    {word: format_ordinal(number) for number, word in enumerate(ORDINAL_WORDS, 1) if (number > 12) == is_later}
    for is_later in (False, True)
)
"""Ordinals that both readers take for numbers, and those that only `tokenize_words_numbers_and_dates` does."""
_MAX_DATE_WORDS = 6
_STOP_WORDS = frozenset(
    {
        *("a", "about", "an", "and", "around", "at", "between", "by", "circa", "for", "from", "in", "of", "on", "or"),
        *("the", "till", "to", "until", "with"),
    }
)


def tokenize_values(text: str) -> list[TextPartWithValue]:
    """Return the parts of a text and their values, in order."""
    # signs, powers, eras and ISO dates in forms that word splitting keeps whole
    plain = ERA_WITH_STOPS.sub(r"\1\2\3", unicodedata.normalize("NFC", text))
    plain = _ISO_DATE.sub(lambda found: format_date_in_prose(found[0]), plain)
    plain = _SUPERSCRIPT_DIGITS.sub(
        lambda found: "^" + unicodedata.normalize("NFKC", found[0]).replace("\u2212", "m"), plain
    )
    words = _TOKEN.findall(_MINUS.sub("minus ", _PER_CENT.sub("percent", plain)))
    marks = [(word[:1].isupper() and word[:3].lower() in _MONTH_PREFIXES) or word.lower() in _ERAS for word in words]
    tokens: list[TextPartWithValue] = []
    at = 0
    while at < len(words):
        width, value = _read_width_and_value_at(words, marks, at)
        tokens.append(TextPartWithValue(" ".join(words[at : at + width]), value))
        at += width
    return tokens


def iterate_capitalized_words_with_values(tokens: Sequence[TextPartWithValue]) -> Iterator[tuple[bool, str, str]]:
    """Yield the capitalised words outside dates and numbers: whether it is the first part, the word, and its value."""
    for at, (source, value) in enumerate(tokens):
        if isinstance(value, str) and source[0].isupper() and source != "I":
            yield at == 0, source, value


def drop_stop_words(values: Sequence[TokenValue]) -> list[TokenValue]:
    """Return the values without articles, prepositions and conjunctions; all of them where nothing else is there."""
    return [value for value in values if value not in _STOP_WORDS] or list(values)


def states_wanted_value(found: TokenValue, wanted: TokenValue) -> bool:
    """True when a value states the wanted one: the same, a finer date, or a date of the wanted year."""
    if found == wanted:
        return True
    if isinstance(found, PartialDate):
        if isinstance(wanted, PartialDate):
            return wanted.is_satisfied_by(found.key, found.precision)
        if isinstance(wanted, DayWithoutYear):
            return (found.month, found.day) == wanted
        return isinstance(wanted, UnitlessNumberValue) and wanted.number in (str(found.year), str(1 - found.year))
    return False


def contains_value_sequence(values: Sequence[TokenValue], wanted: Sequence[TokenValue]) -> bool:
    """True when the wanted values stand in a row, in order; False where there are none."""
    width = len(wanted)
    return bool(wanted) and any(
        all(map(states_wanted_value, values[at : at + width], wanted)) for at in range(len(values) - width + 1)
    )


def is_same_or_related_word(found: TokenValue, wanted: TokenValue) -> bool:
    """True when a value states the wanted one, or both are words of one stem: Carthage and Carthaginian."""
    if states_wanted_value(found, wanted):
        return True
    if not (isinstance(found, str) and isinstance(wanted, str) and found.isalpha() and wanted.isalpha()):
        return False
    shared = next((at for at, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), None)
    shorter = min(len(found), len(wanted))
    return (shorter if shared is None else shared) >= max(3, shorter - 2)


def _read_width_and_value_at(words: Sequence[str], marks: Sequence[bool], at: int) -> tuple[int, TokenValue]:
    """Return the number of words in the value at a place, and the value; `marks` are true for months and eras."""
    for width in range(min(_MAX_DATE_WORDS, len(words) - at), 1, -1):
        if True in marks[at : at + width]:
            window = words[at : at + width]
            # cut off from its era, a year would be read as AD
            is_cut = at + width < len(words) and words[at + width].lower() in _ERAS
            if not is_cut and (date := parse_written_date(" ".join(window))):
                return width, date
            # a day without its year; a leap year accepts every day
            day = parse_written_date(f"{' '.join(window)} 2000") if width == 2 else None
            if day and day.month and day.day:
                return width, DayWithoutYear(day.month, day.day)
    width, number = 1, words[at]
    if tens := _TENS.get(words[at].lower()):
        units = _ONES.get(_get_lowercase_word_at(words, at + 1), 0)
        width, number = (2 if units else 1), str(tens + units)
    scale = _get_lowercase_word_at(words, at + width)
    if scale in POWER_BY_SCALE_WORD and (count := _read_unitless_number(f"{number} {scale}")):
        return width + 1, count
    return width, UnitlessNumberValue(number) if tens else _read_word_value(words[at])


def _get_lowercase_word_at(words: Sequence[str], at: int) -> str:
    return words[at].lower() if at < len(words) else ""


def _read_unitless_number(text: str) -> UnitlessNumberValue | None:
    number = parse_written_number(text)
    return UnitlessNumberValue(number.number) if number and number.unit is None else None


@lru_cache(maxsize=65536)
def _read_word_value(word: str) -> TokenValue:
    if word == "%":
        return "percent"
    folded = fold_case_accents_and_punctuation(word)
    if decade := _DECADE.fullmatch(folded):
        return f"{decade[1]}s"
    if folded in _SMALL_ORDINALS or _ORDINAL.fullmatch(folded):
        return _SMALL_ORDINALS.get(folded, folded)
    if count := _read_unitless_number(folded):
        return count
    bare = _POSSESSIVE.sub(lambda found: "s" if found[0] == "s'" else "", folded)
    # a word with other characters than letters stays unchanged
    return normalize_answer_to_singular(bare) or bare if bare.isalpha() and bare not in _STOP_WORDS else bare


def is_year_only_date(value: TokenValue) -> bool:
    """True for a date with the precision of a year."""
    return isinstance(value, PartialDate) and value.precision == YEAR_PRECISION


class WordNumberOrDateToken(NamedTuple):
    """A word, number or date of a text."""

    value: TokenValue
    bare: UnitlessNumberValue | None
    """The number before a scale word (527 of 527 million), where it is long enough to be distinctive; else None."""
    is_capital: bool


PERCENT_UNIT = "percent"
_MIN_BARE_DIGITS = 3
_MAX_CACHED_CHARACTERS = 1000
"""Most characters of a text whose tokens are cached."""
_NUMBER = r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?"
_SCALE = rf"(?:{'|'.join(POWER_BY_SCALE_WORD)})"
_SCALE_BY_LETTERS = {
    **{"k": "thousand", "m": "million", "mn": "million", "mln": "million"},
    **{"b": "billion", "bn": "billion", "t": "trillion", "tn": "trillion"},
}
_CURRENCY_BY_MARK = {
    **{"$": "dollar", "USD": "dollar", "€": "euro", "EUR": "euro", "£": "pound", "GBP": "pound"},
    **{"¥": "yen", "JPY": "yen", "CNY": "yuan", "RMB": "yuan", "₹": "rupee", "INR": "rupee", "₩": "won", "KRW": "won"},
}
_CURRENCY_MARK_PATTERN = (
    r"(?:(?<![A-Za-z])(?:[A-Z]{1,3}|U\.S\.) ?(?=[$¥£]))?"
    r"(?:[$€£¥₹₩]|(?<![A-Za-z])(?:USD|EUR|GBP|JPY|CNY|RMB|INR|KRW)(?![A-Za-z]))"
)
"""A currency's mark, with distinguishing letters before it: US$, HK$."""
_NARROW_SPACES = re.compile(r"[\u00a0\u2007\u2009\u200a\u202f]")
_URL_PREFIX = re.compile(r"https?://(?:www\.)?|\bwww\.")
_COUNTRIES = (
    (re.compile(r"\bU\.? ?S\.?(?: ?A\b\.?)?(?![\w$]|\.\w| ?\$)"), "United States"),
    (re.compile(r"\bUnited States of America\b"), "United States"),
    (re.compile(r"\bU\.? ?K\.?(?!\w|\.\w)"), "United Kingdom"),
)
_INITIALS = re.compile(r"\b([A-Z])\. ?(?=[A-Z]\.)")
_THOUSANDS = re.compile(
    r"(?<![\w.,:/–-])(?<!(?:ary|rch|ril|May|une|uly|ust|ber) )[0-9]{1,3}(?: [0-9]{3})+(?!\w|[,:][0-9])"
)
_SCALE_AFTER_NUMBER = re.compile(rf"(?<=[0-9]) ?(?:({_SCALE})s?|(bn|mn|mln|tn)|(?<! )(M))\b", re.IGNORECASE)
_SCALE_LETTER_OF_MONEY = re.compile(rf"({_CURRENCY_MARK_PATTERN} ?{_NUMBER}) ?([kmbt])\b", re.IGNORECASE)
_SCALED_RANGE = re.compile(
    rf"(?<![\w.,])({_NUMBER})( ?[-–—] ?|(?<![0-9]{{4}}) (?:to|and|or) )((?:{_CURRENCY_MARK_PATTERN} ?)?{_NUMBER}) ({_SCALE})\b"
)
_MONEY = re.compile(
    rf"({_CURRENCY_MARK_PATTERN}) ?({_NUMBER}(?: {_SCALE}\b)?(?:(?: ?[-–—] ?| to ){_NUMBER}(?: {_SCALE}\b)?(?!%))?)"
)
_DASH_AFTER_UNIT_SIGN = re.compile(r"(?<=[%°′″])[-–—](?=[0-9])")
_SHORT_RANGE = re.compile(r"(?<![\w.,])((?:1[0-9]|20)([0-9]{2}))([-–/])([0-9]{2})(?![\w-]|[.,][0-9])")
_CLOCK_DURATION = re.compile(r"(?<![\w:.,])0?([0-9]{1,3}):([0-9]{2})(?::([0-9]{2}))?(?![\w:])")
_HOUR, _MINUTE, _SECOND = r" ?(?:hours?|hrs?|h)\b", r" ?(?:minutes?|mins?|m)\b\.?", r" ?(?:seconds?|secs?|s)\b"
_DURATION_JOINER = r",? (?:and )?"
_DURATIONS = (
    re.compile(
        rf"\b([0-9]{{1,3}}){_HOUR}{_DURATION_JOINER}([0-9]{{1,2}}){_MINUTE}(?:{_DURATION_JOINER}([0-9]{{1,2}}){_SECOND})?"
    ),
    re.compile(rf"\b([0-9]{{1,3}}){_MINUTE}{_DURATION_JOINER}([0-9]{{1,2}}){_SECOND}()"),
)
_COLON_LETTER = "\u02d0"
"""A letter that looks like a colon, so that 3:58 stays one word."""
_INCHES = re.compile(r"(?<=[0-9]) ?in\b\.?(?= *(?:[(),;/×]|$))")
_GLUED_UNIT = re.compile(r"(?<=[0-9])(?=(?:km|cm|mm|m|kg|g|lbs?|oz|ft|mi|yd|ha|mph|kph)(?:[²³23])?\b)")
_UNIT_BY_SPELLING = {
    **{"kilometre": "km", "kilometer": "km", "metre": "m", "meter": "m", "centimetre": "cm", "centimeter": "cm"},
    **{"millimetre": "mm", "millimeter": "mm", "mile": "mi", "foot": "ft", "feet": "ft", "yard": "yd", "inche": "inch"},
    **{"kilogram": "kg", "kilogramme": "kg", "gram": "g", "gramme": "g", "lb": "pound", "lbs": "pound"},
    **{"ounce": "oz", "hectare": "ha", "acre": "acre", "furlong": "furlong", "litre": "l", "liter": "l"},
    **{"min": "minute", "mins": "minute"},
    **{"hr": "hour", "h": "hour", "yr": "year", "usd": "dollar", "eur": "euro", "gbp": "pound", "sqkm": "km2"},
    **{"celsius": "c", "fahrenheit": "f", "pct": PERCENT_UNIT, "hour": "hour", "minute": "minute"},
}
NORMALIZED_UNITS = frozenset(
    {
        *(*_UNIT_BY_SPELLING.values(), *_CURRENCY_BY_MARK.values()),
        *("inch", "km2", "m2", "mi2", "ft2", "km3", "m3", "year", "day"),
    }
)
"""Units and currencies as `tokenize_words_numbers_and_dates` returns them."""
_UNIT_POWER_WORDS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_TWO_WORD_UNITS: dict[tuple[TokenValue | None, TokenValue | None], str] = {
    ("pound", "sterling"): "pound",
    **{("degree", scale): scale[0] for scale in ("c", "f", "celsius", "fahrenheit")},
}
_SPEEDS = {"mph": ("mi", "hour"), "kph": ("km", "hour"), "kmh": ("km", "hour")}
_ALIASES = {"saint": "st", "mount": "mt"}
_CONJUNCTIONS = frozenset({"and", "or"})


def tokenize_words_numbers_and_dates(text: str) -> Sequence[WordNumberOrDateToken]:
    """Return the words, numbers and dates of a paragraph or an answer in order, without small words.

    "and" and "or" stay between words, so that "Paul and Reed" is not "Paul Reed", and are dropped between numbers.
    Short texts are cached: several stages read one article, and each question that names it does too.
    """
    is_short = len(text) <= _MAX_CACHED_CHARACTERS
    return (_tokenize_words_and_amounts_cached if is_short else _tokenize_words_numbers_dates_uncached)(text)


def _tokenize_words_numbers_dates_uncached(text: str) -> Sequence[WordNumberOrDateToken]:
    parts = [(part.source, part.value) for part in tokenize_values(normalize_amount_and_name_spelling(text))]
    joined = _drop_unit_of_range_start(list(_normalize_unit_words(list(_make_tokens_joining_minus_signs(parts)))))
    kept = []
    for at, each in enumerate(joined):
        is_kept = bool(each.value) and each.value not in _STOP_WORDS
        if each.value in _CONJUNCTIONS:
            lines = [*joined[max(0, at - 1) : at], *joined[at + 1 : at + 2]]
            is_kept = not all(is_number_or_date(other.value) for other in lines)
        kept += [each] if is_kept else []
    return tuple(kept)


_tokenize_words_and_amounts_cached = lru_cache(maxsize=4096)(_tokenize_words_numbers_dates_uncached)


def normalize_amount_and_name_spelling(text: str) -> str:
    """Return a text with money, scales, ranges, durations, thousands and initials in forms that are read whole."""
    plain = _URL_PREFIX.sub("", _NARROW_SPACES.sub(" ", text)).replace("&", " and ")
    if any(character.isdigit() for character in plain):
        plain = _normalize_amount_spellings_in_text(plain)
    for pattern, name in _COUNTRIES:
        plain = pattern.sub(name, plain)
    return _INITIALS.sub(r"\1", plain)


def is_number_or_date(value: TokenValue) -> bool:
    """True for numbers and dates."""
    return not isinstance(value, str)


def _normalize_amount_spellings_in_text(plain: str) -> str:
    plain = _DASH_AFTER_UNIT_SIGN.sub(" – ", plain)
    plain = _THOUSANDS.sub(lambda found: found[0].replace(" ", ""), plain)
    plain = _SCALE_LETTER_OF_MONEY.sub(lambda found: f"{found[1]} {_SCALE_BY_LETTERS[found[2].lower()]}", plain)
    plain = _SCALE_AFTER_NUMBER.sub(_spell_out_scale, plain)
    plain = _SCALED_RANGE.sub(r"\1 \4\2\3 \4", plain)
    plain = _MONEY.sub(lambda found: f"{found[2]} {_name_currency(found[1])}", plain)
    plain = _SHORT_RANGE.sub(_complete_year_range, plain)
    for pattern in (_CLOCK_DURATION, *_DURATIONS):
        plain = pattern.sub(
            lambda found: _COLON_LETTER.join(
                [str(int(found[1])), *(f"{int(part):02d}" for part in found.groups()[1:] if part)]
            ),
            plain,
        )
    return _GLUED_UNIT.sub(" ", _INCHES.sub(" inch", plain))


def _spell_out_scale(found: re.Match[str]) -> str:
    word, letters, large = found.groups()
    if large and large != "M":
        return found[0]  # 5m is five metres
    return f" {(word or _SCALE_BY_LETTERS[(letters or large).lower()]).lower()}"


def _name_currency(mark: str) -> str:
    """Return the word for a currency mark; other dollars than those of the United States have a word of their own."""
    bare = mark.replace(".", "").replace(" ", "")
    if bare in _CURRENCY_BY_MARK:
        return _CURRENCY_BY_MARK[bare]
    before, sign = bare[:-1], bare[-1]
    if (before, sign) in (("US", "$"), ("GB", "£"), ("JP", "¥")):
        return _CURRENCY_BY_MARK[sign]
    return "yuan" if (before, sign) == ("CN", "¥") else f"{before.lower()}{_CURRENCY_BY_MARK[sign]}"


def _complete_year_range(found: re.Match[str]) -> str:
    first, short, dash, last = found.groups()
    is_later = int(last) > int(short) or (short == "99" and last == "00")
    if not is_later or (dash == "-" and int(last) <= 12):
        return found[0]
    century = int(first[:2]) + (last == "00")
    return f"{first}–{century}{last}"


def _make_tokens_joining_minus_signs(parts: Sequence[tuple[str, TokenValue]]) -> Iterator[WordNumberOrDateToken]:
    at = 0
    while at < len(parts):
        source, value = parts[at]
        following = parts[at + 1][1] if at + 1 < len(parts) else None
        number = following.number if value == "minus" and isinstance(following, UnitlessNumberValue) else ""
        # more likely the end of a range than a negative number: (–2010)
        is_year = len(number) == 4 and number.isdigit() and int(number) <= 2100
        if number and not is_year:
            yield WordNumberOrDateToken(UnitlessNumberValue(number if number == "0" else f"-{number}"), None, False)
            at += 2
            continue
        before_scale, _, scale = source.partition(" ")
        count = parse_written_number(before_scale) if scale and isinstance(value, UnitlessNumberValue) else None
        is_distinctive = count is not None and ("." in count.number or len(count.number) >= _MIN_BARE_DIGITS)
        bare = UnitlessNumberValue(count.number) if count is not None and is_distinctive else None
        word = _ALIASES.get(value) or _LARGE_ORDINALS.get(value) or value if isinstance(value, str) else value
        yield WordNumberOrDateToken(word, bare, source[:1].isupper())
        at += 1


def _normalize_unit_words(read: Sequence[WordNumberOrDateToken]) -> Iterator[WordNumberOrDateToken]:
    at = 0
    while at < len(read):
        words = [each.value for each in read[at : at + 3]]
        first, second = (*words, None, None)[:2]
        unit = _UNIT_BY_SPELLING.get(second, second) if isinstance(second, str) else None
        if first in _UNIT_POWER_WORDS and unit in NORMALIZED_UNITS:
            yield WordNumberOrDateToken(f"{unit}{_UNIT_POWER_WORDS[str(first)]}", None, False)
            at += 2
        elif words == ["united", "state", "dollar"]:
            yield WordNumberOrDateToken("dollar", None, False)
            at += 3
        elif (first, second) in _TWO_WORD_UNITS:
            yield WordNumberOrDateToken(_TWO_WORD_UNITS[first, second], None, False)
            at += 2
        elif first in _SPEEDS:
            yield from (WordNumberOrDateToken(word, None, False) for word in _SPEEDS[str(first)])
            at += 1
        elif first == "per" and second in ("hour", "h"):
            at += 1
        else:
            yield read[at]._replace(value=_UNIT_BY_SPELLING.get(first, first)) if isinstance(first, str) else read[at]
            at += 1


def _drop_unit_of_range_start(read: list[WordNumberOrDateToken]) -> list[WordNumberOrDateToken]:
    """Return the tokens with the unit of a range only after its end: 44 lb to 71 lb is 44 to 71 lb."""
    kept: list[WordNumberOrDateToken] = []
    for at, each in enumerate(read):
        if each.value in NORMALIZED_UNITS and kept and is_number_or_date(kept[-1].value):
            ahead = [other.value for other in read[at + 1 : at + 4] if other.value not in ("to", "and", "or")][:2]
            if len(ahead) == 2 and is_number_or_date(ahead[0]) and ahead[1] == each.value:
                continue
        kept.append(each)
    return kept
