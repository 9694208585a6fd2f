"""The rules author's look at fan-out questions: words of opinion and open sets; grammar, and units that are missing.

It finds only what plain patterns find without doubt, so that a good question is left alone: "best" but not "best-selling",
"five examples of" but not "the five largest". What is written large or stands in quotation marks is a name. A missing
unit is looked for where a measure is asked for ("height of", "how deep"), never where things are ranked by one.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.core.calls.knowledge import Knowledge

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)")
_OPINION = re.compile(
    r"\b(?:beautiful|prett(?:y|iest)|loveliest|famous|interesting|important|influential|iconic|impressive|inspiring|notable"
    r"|noteworthy|legendary|memorable|fascinating|enjoyable|underrated|overrated|favou?rites?|most significant|remarkable"
    r"|renowned|coolest|nicest|funniest|scariest|worst(?! record)"
    r"|best(?![- ](?:selling|sellers?|of|rated|ranked|paid|record|times?)\b)"
    r"|greatest(?! (?:number|amount|height|length|area|depth|distance|population|share|elevation|mass|volume|diameter)\b)"
    r"|(?<!most )(?<!least )popular(?! (?:vote|votes|music|culture)\b))\b"
)
_NUMBER = r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty)"
_OPEN_SET = re.compile(
    r"\b(?:(?:what|which|who) (?:are|were) (?:some|several|a few)|(?:name|list|give|find|identify|provide)(?: me)? (?:any|some"
    r"|several|a few|a couple of)|examples? of|in recent years)\b",
    re.IGNORECASE,
)
_FEW_OF_MANY = re.compile(
    rf"^(?:name|list|give|identify|provide|what are|who are) (?:any )?{_NUMBER} (?!of\b|[^:]*:)", re.IGNORECASE
)
_CHOSEN_BY = re.compile(r"\b(?:most|least|largest|smallest|highest|lowest|oldest|first|last|latest|top|\w+est)\b")
_OWN_WORDS = re.compile(
    r"\b(?:describe|explain|discuss|(?:brief|short|general) (?:descriptions?|overviews?|summar(?:y|ies)|explanations?))\b",
    re.IGNORECASE,
)

_DOUBLED = re.compile(
    r"\b(the|a|an|of|in|is|are|to|and|for|by|at|with|which|who|what|was|were|from)(?: \1)+\b", re.IGNORECASE
)
_A = re.compile(
    r"\b([Aa]) (?=[aeio][a-z]|u[a-z])(?!(?:is|and|in|or|of|on|at|as|are|if|it|an|one|once)\b|eu|ewe|one-|uni(?![mn])"
    r"|us[aeu]|ut[ei]|ub|uk|ur[aeo])"
)
_AN = re.compile(r"\b([Aa])n (?=[bcdgjkpqtvwz][a-z]*[aeiouy][a-z]*\b)")
_PLURALS = (
    "names|populations|capitals|capital cities|heights|areas|lengths|depths|elevations|ages|birthplaces|birthdays|birth dates"
    "|founders|directors|authors|members|winners|dates|years|titles|languages|official languages|countries|cities|presidents"
)
_ONE_OF_SEVERAL = re.compile(rf"^(What|Who|Which) (is|was) the (?=(?:{_PLURALS})\b(?!['’]))")
_ASKS = re.compile(
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|has|have|can|could)\b"
    r"|(?:out of|of|among|for|in|at|from|on|to|by|with)\b.*\b(?:what|which|who|whom|whose|how)\b",
    re.IGNORECASE,
)

_MEASURE = re.compile(
    r"\b(?:heights?|lengths?|depths?|widths?|distances?|altitudes?|elevations?|diameters?|weights?|areas?|land area|speeds?"
    r"|temperatures?|running times?|runtimes?)(?= of\b)"
)
_HOW = re.compile(r"\bhow (?:tall|high|deep|wide|long|far|heavy|fast|hot|cold)\b", re.IGNORECASE)
_UNITS = {
    **{"m": "metres", "km": "kilometres", "cm": "centimetres", "mm": "millimetres", "ft": "feet", "in": "inches"},
    **{"mi": "miles", "kg": "kilograms", "g": "grams", "lb": "pounds", "lbs": "pounds", "t": "tonnes"},
    **{"km²": "square kilometres", "km2": "square kilometres", "m²": "square metres", "sq mi": "square miles"},
    **{"ha": "hectares", "°C": "degrees Celsius", "°F": "degrees Fahrenheit", "mph": "miles an hour"},
    **{"km/h": "kilometres an hour", "min": "minutes", "s": "seconds", "h": "hours"},
}
"""Short form → name, in the plural."""
_LENGTHS = (
    r"(?:(?:square|cubic) )?(?:(?:kilo|centi|milli)?met(?:re|er)s?|feet|foot|inch(?:es)?|yards?|miles?|acres?|hectares?"
    r"|(?:kilo)?grams?|pounds?|tons?|tonnes?|degrees?(?: \w+)?)"
)
_TIMES = r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)"
_SHORT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_NAMES_UNIT = re.compile(
    rf"\b{_LENGTHS}\b|\bin {_TIMES}\b|\b(?:celsius|celcius|fahrenheit|kelvin|units?|percent|mph|km|cm|mm|ft|kg|lbs)\b"
    rf"|\((?:in )?(?:{_TIMES}|{_SHORT})\)|[%°$€£¥²³]",
    re.IGNORECASE,
)
_AMOUNT = re.compile(rf"(?:about |approximately |~)?[\d.,]*\d ?(?P<unit>{_SHORT}|{_LENGTHS}|{_TIMES})")
_BARE = re.compile(r"[-−]?[\d.,]*\d")


def judge_objectivity(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str]:
    """Return for each `question` a sentence and then, twice, Y where it can be answered objectively, or N."""
    return [_judge(asked["question"]) for asked in batch]


def _judge(question: str) -> str:
    plain = _QUOTED.sub("…", question)
    if found := _OPINION.search(plain):
        return f'"{found[0]}" is a matter of opinion.\nN\nN'
    if found := _OWN_WORDS.search(plain):
        return f'"{found[0].lower()}" asks for an account that everybody would give in other words.\nN\nN'
    found = _OPEN_SET.search(plain) or _FEW_OF_MANY.search(plain)
    if found and not _CHOSEN_BY.search(plain):
        return f'"{found[0].strip().lower()}" asks for a few out of many, and nothing says for which.\nN\nN'
    return "What is asked for can be looked up, and the question says of what.\nY\nY"


def mend_wording(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str]:
    """Return for each `question` with its `answer` (JSON, or other text where it is held back) what its wording needs."""
    return [_mend(asked["question"], asked["answer"]) for asked in batch]


def _mend(question: str, answer: str) -> str:
    unit = _find_unit(question, answer)
    if unit == "":
        return "FLAG\nThe answer is bare numbers, and the question does not say in which unit it is asked for."
    mended = _mend_grammar(question)
    if unit is not None:
        mended = _add_unit(mended, unit)
    return "No change." if mended == question else mended


def _mend_grammar(question: str) -> str:
    mended = _DOUBLED.sub(r"\1", " ".join(question.split()))
    mended = re.sub(r"^[a-z]+(?![\w-])", lambda found: found[0][0].upper() + found[0][1:], mended)
    mended = _A.sub(r"\1n ", mended)
    mended = _AN.sub(r"\1 ", mended)
    mended = _ONE_OF_SEVERAL.sub(lambda found: f"{found[1]} {'are' if found[2] == 'is' else 'were'} the ", mended)
    if _ASKS.match(mended) and "?" not in mended:
        mended = mended.rstrip(" .") + "?"
    return re.sub(r" +\?", "?", mended)


def _find_unit(question: str, answer: str) -> str | None:
    """Return the unit that a question lacks: its name, empty where the answer does not tell it; None: it lacks none."""
    plain = _QUOTED.sub("…", question)
    if _NAMES_UNIT.search(plain) or not (_MEASURE.search(plain) or _HOW.search(plain)):
        return None
    values = list(_list_values(answer))
    if values and all(_BARE.fullmatch(value) for value in values):
        return ""
    units = {found["unit"] if (found := _AMOUNT.fullmatch(value)) else "" for value in values}
    (unit,) = units if len(units) == 1 else ("",)
    return _UNITS.get(unit, unit if unit.endswith("s") or unit == "feet" else f"{unit}s") if unit else None


def _list_values(answer: str) -> Iterator[str]:
    """Yield the values of an answer in JSON as texts, those of dicts without their keys."""
    try:
        waiting: list[Any] = [json.loads(answer)]
    except json.JSONDecodeError:
        # it is held back
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        else:
            yield str(value).strip()


def _add_unit(question: str, unit: str) -> str:
    if found := _MEASURE.search(question):
        return f"{question[: found.end()]} in {unit}{question[found.end() :]}"
    return re.sub(r"\?(?=[^?]*$)", f", in {unit}?", question)
