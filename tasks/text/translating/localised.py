"""Dates, numbers and units of English texts in another language's form, by Unicode's CLDR as Babel has it (MultiHal, §2.4).

5 October 1975 is "5 octobre 1975", 8,611 metres "8.611 Meter". What may be something else than an amount stays as it is:
numbers of up to four digits (years), codes, and decimals without a unit inside a sentence (versions). Portuguese is that
of Brazil, as CLDR's `pt` is, here and in the embedded world's labels. Babel parts thousands from four digits on, also
where CLDR would from five on (Spanish).
"""

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cache

from babel import Locale
from babel.dates import format_date, format_skeleton
from babel.numbers import format_decimal, format_percent
from babel.units import format_unit

from tasks.text.translating.protected import list_protected
from tasks.text.values.literals import Date
from tasks.text.values.written import read_date

_LANGUAGES = ("de", "fr", "it", "es", "pt")
_LEAP_YEAR = 2000
"""Stands for any year while a date is written."""
_GROUPED = r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?"
_AMOUNT = re.compile(
    rf"(?P<number>{_GROUPED}|[+-]?[0-9]+(?:\.[0-9]+)?)(?: ?(?P<sign>%|°[CF])| (?P<unit>[^\W\d_].*?))?\.?"
)
_VALUE = re.compile(r"(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?) (?P<unit>[^\W\d_].*)")
_SYMBOLS = {
    **{"m": "length-meter", "km": "length-kilometer", "cm": "length-centimeter", "mm": "length-millimeter"},
    **{"kg": "mass-kilogram", "g": "mass-gram", "m²": "area-square-meter", "km²": "area-square-kilometer"},
    **{"km/h": "speed-kilometer-per-hour", "ha": "area-hectare"},
    **{"°C": "temperature-celsius", "°F": "temperature-fahrenheit"},
}


def write_amount(text: str, language: str) -> str | None:
    """Return a text that as a whole is a number, with a unit that CLDR has or none; None for any other text."""
    found = _AMOUNT.fullmatch(" ".join(text.split()))
    if not found:
        return None
    number = Decimal(found["number"].replace(",", ""))
    decimals = max(0, -int(number.as_tuple().exponent))
    pattern = "#,##0" + "." * bool(decimals) + "0" * decimals
    unit = found["sign"] or found["unit"]
    if unit == "%":
        return format_percent(number / 100, locale=language, decimal_quantization=False)
    if unit in _SYMBOLS:
        return str(format_unit(number, _SYMBOLS[unit], "short", pattern, language))
    if unit:
        name, _ = _unit_names(_LANGUAGES).get(unit.lower(), ("", ""))
        return str(format_unit(number, name, "long", pattern, language)) if name else None
    is_year = found["number"].isdigit() and len(found["number"]) <= 4
    return None if is_year else format_decimal(number, pattern, language)


def write_value(text: str, language: str) -> str | None:
    """Return a value that ends a path with its unit in the number that goes with it: 1.98 metre is "1.98 metres" in English.

    The number stays as it is. None for any other text, also for titles such as 127 Hours, and for units that CLDR lacks.
    """
    found = _VALUE.fullmatch(text)
    names = _unit_names(() if language == "en" else _LANGUAGES)
    if not found or found["unit"] not in names:
        return None
    name, spelling = names[found["unit"]]
    locale = Locale.parse(spelling if language == "en" else language)
    forms = locale._data["unit_patterns"][name]["long"]
    form = forms.get(locale.plural_form(Decimal(found["number"])), forms["other"])
    return str(form.replace("{0}", found["number"]).replace("\N{NO-BREAK SPACE}", " "))


def localise(translation: str, source: str, language: str) -> str:
    """Return a translation with the dates and numbers that it holds as its source writes them in its language's form."""
    forms = {each: _write(each, language) for each in sorted(list_protected(source), key=len, reverse=True)}
    if not forms:
        return translation
    pattern = "|".join(map(re.escape, forms))
    return re.sub(rf"(?<![\w.,])(?:{pattern})(?!\w|[.,][0-9])", lambda found: forms[found[0]], translation)


def _write(original: str, language: str) -> str:
    """Return the form of what translation leaves as it is; the same where nothing shows it to be a date or an amount."""
    if re.search("[A-Za-z]", original) and (when := read_date(original)):
        return _write_date(when, language)
    if re.search("[A-Za-z]{3}", original) and (day := read_date(f"{original} {_LEAP_YEAR}")) and day.month and day.day:
        return str(format_skeleton("MMMMd", datetime.date(_LEAP_YEAR, day.month, day.day), locale=language))
    mark, amount = re.fullmatch(r"([$€£]?)(.*)", original, re.DOTALL).groups()  # type: ignore[union-attr]
    if re.match(_GROUPED, amount) or re.search(r"[0-9] ?[^\W\d_%]*[^\W\d_°²]$|%$", amount):
        return mark + (write_amount(amount, language) or amount)
    return original


def _write_date(when: Date, language: str) -> str:
    day = datetime.date(_LEAP_YEAR, when.month or 1, when.day or 1)
    told = format_date(day, "long", language) if when.day else str(format_skeleton("yMMMM", day, locale=language))
    year, era = (
        (when.year, "") if when.year > 0 else (1 - when.year, f" {Locale.parse(language).eras['abbreviated'][0]}")
    )
    return (told.replace(str(_LEAP_YEAR), str(year)) if when.month else str(year)) + era


@cache
def _unit_names(languages: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return English name → CLDR's unit, and the English that spells it so; of those with words in all the languages."""
    spellings = ("en", "en_GB")
    patterns = {language: Locale.parse(language)._data["unit_patterns"] for language in (*spellings, *languages)}
    names: dict[str, tuple[str, str]] = {}
    for unit in patterns["en"]:
        if all({"one", "other"} <= set(each.get(unit, {}).get("long", {})) for each in patterns.values()):
            for spelling in spellings:
                forms = patterns[spelling][unit]["long"]
                names |= {forms[form].replace("{0}", "").strip(): (unit, spelling) for form in ("one", "other")}
    return names
