"""Numbers, dates, units and ids in a translation: kept by placeholders, then localised (CLDR; MultiHal, §2.4).

A translation model never sees them. Each is replaced by a stand-in, a year that we choose, which a model copies where
it would rewrite "3,755,251" as "3.755.251". A translation counts only when every stand-in comes back exactly once.
Dates are kept whole, including months, so that they can still be compared with a gold answer. Ordinals (19th) are
words, and are translated. A text of only numbers, dates or ids is not sent at all.

5 October 1975 becomes "5 octobre 1975", 8,611 metres "8.611 Meter". Anything that may not be an amount is unchanged:
numbers of up to four digits (years), codes, and decimals without a unit inside a sentence (versions). Portuguese is
Brazilian, as in CLDR's `pt`, here and in the embedded world's labels. Babel groups thousands from four digits on, also
where CLDR does so from five on (Spanish).
"""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from babel import Locale
from babel.dates import format_date, format_skeleton
from babel.numbers import format_decimal, format_percent
from babel.units import format_unit

from factmill.tasks.text.values.dates_and_numbers import parse_written_date

PLACEHOLDER_YEARS = ("2001", "2002", "2003", "2004", "2005", "2006", "2007", "2008", "2009")
"""Stand-ins that a model sees for numbers, dates and ids, in this order, except those that the text contains itself."""

_MONTH_NAME_PATTERN = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan\\.|Feb\\.|Mar\\.|Apr\\.|Jun\\.|Jul\\.|Aug\\.|Sept?\\.|Oct\\.|Nov\\.|Dec\\."
)
_UNIT_SYMBOL_PATTERN = r"(?:[mck]?m[²³23]?|[mk]?g|km/h|°[CF]?|ha|[kMGT]?Hz|[kMG]W)"
_ERA = r"(?:\ (?:BCE?|AD|CE)\b)?"
_UNTRANSLATED_SPAN = re.compile(
    rf"""
    (?:https?://|www\.)[^\s<>"]*[^\s<>".,;:!?)\]]                                  # addresses
    | \b10\.[0-9]{{4,9}}/[^\s"]*[^\s".,;:!?)\]]                                    # DOIs
    | (?<![\w.])[-+−]?[0-9]{{4,}}-[0-9]{{2}}(?:-[0-9]{{2}}(?:T[0-9:.]+Z?)?)?{_ERA}(?!\w)  # 1879-03-14, 1879-03
    | \b[0-9]{{1,2}}(?:st|nd|rd|th)?(?:\ of)?\ (?:{_MONTH_NAME_PATTERN})(?:,?\ [0-9]{{1,4}}\b{_ERA})? # 14 March 1879
    | \b(?:{_MONTH_NAME_PATTERN})\ (?:[0-9]{{1,2}}(?:st|nd|rd|th)?,?\ )?[0-9]{{1,4}}\b{_ERA}          # March 14, 1879; March 1879
    | \b[0-9]+(?:st|nd|rd|th)\ (?:century|millennium)\b{_ERA}
    | \b[0-9]+s\b{_ERA}                                                             # 1950s
    | \b[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}})?\b                                     # 14:30
    | \b(?![0-9]+(?:st|nd|rd|th)\b)(?:[A-Z]{{1,6}}-)?(?:[A-Za-z]+[0-9]\w*|[0-9]+[A-Za-z]\w*)\b(?:[-/][0-9]\w*)*  # Q42, K2
    | \b[A-Z]{{1,6}}-[0-9]\w*\b                                                     # F-16, COVID-19
    | (?<![\w.,])[-+−]?[$€£]?[0-9]+(?:[.,:/–-][0-9]+)*(?:\ ?%)?(?![\w])               # 3,755,251  4805.59  1914–1918  12%
      (?:\ (?:BCE?|AD|CE)\b|\ {_UNIT_SYMBOL_PATTERN}(?!\w))?
    """,
    re.VERBOSE,
)
_APPROXIMATE_YEAR = re.compile(r"about [0-9]+(?: BC)?")
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class TextWithPlaceholders:
    """A text as the model sees it, and the originals of its stand-ins."""

    text: str
    stand_ins: tuple[tuple[str, str], ...]
    """(stand-in, original), in the order of the source."""


def needs_no_translation(text: str) -> bool:
    """True when nothing in a text needs translation: no letter outside numbers, dates and ids."""
    return bool(_APPROXIMATE_YEAR.fullmatch(text)) or not _LETTERS.search(_UNTRANSLATED_SPAN.sub("", text))


def mask_untranslated_spans(text: str) -> TextWithPlaceholders | None:
    """Replace the numbers, dates and ids of a text by stand-ins; None when it has more of them than there are."""
    found = list(_UNTRANSLATED_SPAN.finditer(text))
    free = [stand_in for stand_in in PLACEHOLDER_YEARS if stand_in not in _UNTRANSLATED_SPAN.sub("", text)]
    if len(found) > len(free):
        return None
    pieces, end = [], 0
    for match, stand_in in zip(found, free, strict=False):
        pieces += [text[end : match.start()], stand_in]
        end = match.end()
    pieces.append(text[end:])
    return TextWithPlaceholders("".join(pieces), tuple(zip(free, (match[0] for match in found), strict=False)))


def restore_placeholders(protected: TextWithPlaceholders, translation: str) -> str | None:
    """Replace the stand-ins in a translation by their originals; None unless each occurs exactly once, as a word."""
    originals = dict(protected.stand_ins)
    if not originals:
        return translation
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(originals)})(?!\w)")
    if sorted(pattern.findall(translation)) != sorted(originals):
        return None
    return pattern.sub(lambda match: originals[match[0]], translation)


def split_text_flagging_translatable_spans(text: str) -> list[tuple[str, bool]]:
    """Split a text into stretches (text, is words); blanks and marks at the edges of words stay with the numbers."""
    stretches: list[tuple[str, bool]] = []
    end = 0
    for match in _UNTRANSLATED_SPAN.finditer(text):
        stretches += [*_split_off_nonletter_edges(text[end : match.start()]), (match[0], False)]
        end = match.end()
    return [stretch for stretch in [*stretches, *_split_off_nonletter_edges(text[end:])] if stretch[0]]


def list_numbers_dates_and_ids(text: str) -> list[str]:
    """Return the numbers, dates and ids of a text, in order."""
    return [match[0] for match in _UNTRANSLATED_SPAN.finditer(text)]


def list_letter_runs(text: str) -> list[str]:
    """Return the words of a text: its unbroken runs of letters."""
    return _WORD.findall(text)


def _split_off_nonletter_edges(stretch: str) -> list[tuple[str, bool]]:
    words = _LETTERS.search(stretch)
    if not words:
        return [(stretch, False)]
    start = words.start()
    end = max(match.end() for match in _LETTERS.finditer(stretch))
    return [(stretch[:start], False), (stretch[start:end], True), (stretch[end:], False)]


_LANGUAGES = ("de", "fr", "it", "es", "pt")
_LEAP_YEAR = 2000
"""Stands for any year while a date is formatted."""
_COMMA_GROUPED_NUMBER = r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?"
_NUMBER_WITH_UNIT = re.compile(
    rf"(?P<number>{_COMMA_GROUPED_NUMBER}|[+-]?[0-9]+(?:\.[0-9]+)?)(?: ?(?P<sign>%|°[CF])| (?P<unit>[^\W\d_].*?))?\.?"
)
_PATH_VALUE = re.compile(r"(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?) (?P<unit>[^\W\d_].*)")
_CLDR_UNIT_BY_SYMBOL = {
    **{"m": "length-meter", "km": "length-kilometer", "cm": "length-centimeter", "mm": "length-millimeter"},
    **{"kg": "mass-kilogram", "g": "mass-gram", "m²": "area-square-meter", "km²": "area-square-kilometer"},
    **{"km/h": "speed-kilometer-per-hour", "ha": "area-hectare"},
    **{"°C": "temperature-celsius", "°F": "temperature-fahrenheit"},
}


def format_localized_amount(text: str, language: str) -> str | None:
    """Format a text that is a number, with a unit known to CLDR or none, for a language; None for any other text."""
    found = _NUMBER_WITH_UNIT.fullmatch(" ".join(text.split()))
    if not found:
        return None
    number = Decimal(found["number"].replace(",", ""))
    decimals = max(0, -int(number.as_tuple().exponent))
    pattern = "#,##0" + "." * bool(decimals) + "0" * decimals
    unit = found["sign"] or found["unit"]
    if unit == "%":
        return format_percent(number / 100, locale=language, decimal_quantization=False)
    if unit in _CLDR_UNIT_BY_SYMBOL:
        return str(format_unit(number, _CLDR_UNIT_BY_SYMBOL[unit], "short", pattern, language))
    if unit:
        name, _ = _get_shared_cldr_units_by_english_name(_LANGUAGES).get(unit.lower(), ("", ""))
        return str(format_unit(number, name, "long", pattern, language)) if name else None
    is_year = found["number"].isdigit() and len(found["number"]) <= 4
    return None if is_year else format_decimal(number, pattern, language)


def format_value_with_plural_unit(text: str, language: str) -> str | None:
    """Format a value that ends a path with its unit's plural form: 1.98 metre is "1.98 metres" in English.

    The number is unchanged. None for any other text, including titles such as 127 Hours, and for units not in CLDR.
    """
    found = _PATH_VALUE.fullmatch(text)
    names = _get_shared_cldr_units_by_english_name(() if language == "en" else _LANGUAGES)
    if not found or found["unit"] not in names:
        return None
    name, spelling = names[found["unit"]]
    locale = Locale.parse(spelling if language == "en" else language)
    forms = locale._data["unit_patterns"][name]["long"]
    form = forms.get(locale.plural_form(Decimal(found["number"])), forms["other"])
    return str(form.replace("{0}", found["number"]).replace("\N{NO-BREAK SPACE}", " "))


def localize_dates_and_numbers(translation: str, source: str, language: str) -> str:
    """Convert the dates and numbers of a translation from the source's format to the language's."""
    spans = sorted(list_numbers_dates_and_ids(source), key=len, reverse=True)
    forms = {span: _localize_date_or_amount(span, language) for span in spans}
    if not forms:
        return translation
    pattern = "|".join(map(re.escape, forms))
    return re.sub(rf"(?<![\w.,])(?:{pattern})(?!\w|[.,][0-9])", lambda found: forms[found[0]], translation)


def _localize_date_or_amount(original: str, language: str) -> str:
    """Return a kept date or amount in the language's format; unchanged where it is not clearly one."""
    if re.search("[A-Za-z]", original) and (when := parse_written_date(original)):
        day = datetime.date(_LEAP_YEAR, when.month or 1, when.day or 1)
        localized = str(_LEAP_YEAR)
        if when.month:
            localized = (
                format_date(day, "long", language) if when.day else str(format_skeleton("yMMMM", day, locale=language))
            )
        era = "" if when.year > 0 else f" {Locale.parse(language).eras['abbreviated'][0]}"
        return localized.replace(str(_LEAP_YEAR), str(when.year if when.year > 0 else 1 - when.year)) + era
    day_of_year = parse_written_date(f"{original} {_LEAP_YEAR}") if re.search("[A-Za-z]{3}", original) else None
    if day_of_year and day_of_year.month and day_of_year.day:
        day = datetime.date(_LEAP_YEAR, day_of_year.month, day_of_year.day)
        return str(format_skeleton("MMMMd", day, locale=language))
    mark, amount = re.fullmatch(r"([$€£]?)(.*)", original, re.DOTALL).groups()  # type: ignore[union-attr]
    if re.match(_COMMA_GROUPED_NUMBER, amount) or re.search(r"[0-9] ?[^\W\d_%]*[^\W\d_°²]$|%$", amount):
        return mark + (format_localized_amount(amount, language) or amount)
    return original


@cache
def _get_shared_cldr_units_by_english_name(languages: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return English name → CLDR's unit and the English locale of that spelling, for units of all the languages."""
    spellings = ("en", "en_GB")
    patterns = {language: Locale.parse(language)._data["unit_patterns"] for language in (*spellings, *languages)}
    names: dict[str, tuple[str, str]] = {}
    for unit in patterns["en"]:
        if all({"one", "other"} <= set(each.get(unit, {}).get("long", {})) for each in patterns.values()):
            for spelling in spellings:
                forms = patterns[spelling][unit]["long"]
                names |= {forms[form].replace("{0}", "").strip(): (unit, spelling) for form in ("one", "other")}
    return names
