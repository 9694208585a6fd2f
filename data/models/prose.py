"""Write facts as prose sentences, to train the embedded language model (prose_sentences.csv).

A line of the list has labels of properties, patterns of values (none matches all), and a wording with $subject and
one of $value, $the_value and so on; text in [] is omitted the first time. The first line that fits the value
applies. A digest of the fact chooses among several equal ones. All wordings are in the past tense, which is right
for the dead and not wrong for past actions of the living.
"""

import csv
import hashlib
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from string import Template

SENTENCES = Path(__file__).with_name("prose_sentences.csv")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DATE = re.compile(r"(?P<year>[0-9]{1,6})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?(?P<era> BC)?")
_REPEATED = re.compile(r"\[(.*?) ?\] ?")
_KIN = {
    "male": {"parent": "father", "child": "son", "sibling": "brother"},
    "female": {"parent": "mother", "child": "daughter", "sibling": "sister"},
}
_EARLY = 1000
"""Earlier years are written with their era, since "in 14" is ambiguous."""
_BODY = re.compile(
    r"\b(?:Academy|Association|Bureau|Center|Centre|Church|College|Conservatory|Council|Court|Department|Faculty|Foundation|Guild|"
    r"House|Institute|Institution|League|Ministry|Museum|Office|Order|Party|School|Society|Union|University) (?:of|for)\b|"
    r"\b(?:Agency|Army|Association|Brotherhood|Bureau|Central Cemetery|Circle|Commission|Company|Conservatory|Corporation|Council|"
    r"Fellowship|Foundation|Fund|Group|Guild|Institute|Institution|Laboratory|League|Movement|Museum|Navy|Orchestra|Party|"
    r"Philharmonic|Quartet|Region|Society|Trio|Union)$|"
    r"^(?:Academia|Accademia|Académie|Collège|Conservatoire|National|Royal|United States|École)\b|"
    r"^(?:BBC|Bauhaus|CIA|FBI|Juilliard School|Kremlin|Louvre|Pantheon|Panthéon|Sorbonne|United Nations|Vatican|White House)$"
)
_PLACE = re.compile(
    r"^(?:Bay|Canton|City|City University|Commonwealth|Democratic Republic|District|Duchy|Electorate|Free State|Grand Duchy|Isle|"
    r"Kingdom|London Borough|Metropolitan Borough|People's Republic|Province|Region|Republic|Royal Borough|State|State University|"
    r"Union|University) of\b|"
    r"^(?:Balkans|Black Forest|Bronx|Caribbean|Deep South|Lake District|Middle East|Midwest|Pacific Northwest|Ruhr|Twin Cities|"
    r"United Kingdom|West Country)$|"
    r"\b(?:Bahamas|Balkans|Bay Area|Borders|Caucasus|Comoros|Emirates|Empire|Federation|Gambia|Highlands|Islands|Maldives|Midlands|"
    r"Netherlands|Peninsula|Philippines|Republic|States|Territories|Territory|Union|Valley)$"
)
"""Names of institutions and places that take `the` within a sentence."""
_VOWEL_BUT_A = re.compile(
    r"(?:uni(?!n|m)|eu|u[sk]\b|u\.[sk]\.|uk[er]|uru|ugand|uzb|ut[ai]|one\b|once\b|use)", re.IGNORECASE
)
_SILENT_H = re.compile(r"(?:hour|honest|heir|honou?r)", re.IGNORECASE)


def verbalise_fact(name: str, label: str, value: str, gender: str, *, is_person: bool, is_repeated: bool) -> str:
    """Return a sentence that states a fact.

    `gender` is male, female or empty. `is_repeated`: the text already has a sentence of this property.
    """
    wordings = _load_sentences()
    # a property whose wordings do not fit the value falls back to the general wordings
    fitting = next(
        result
        for key in (label, "")
        for patterns, result in wordings.get(key, {}).items()
        if not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)
    )
    place = int.from_bytes(hashlib.sha256(f"{name}|{label}|{value}".encode()).digest()[:8])
    wording = _REPEATED.sub(r"\1 " if is_repeated else "", fitting[place % len(fitting)])
    written = _format_value(value) if label == "inception" or "date" in label.split() else value
    kin = _KIN.get(gender, {kind: kind for kind in ("parent", "child", "sibling")})
    sentence = Template(wording).substitute(
        kin,
        a_child=_with_a(kin["child"]),
        a_sibling=_with_a(kin["sibling"]),
        subject=name if is_person else _with_the(name),
        property=label,
        value=written,
        on_value=_format_when(value),
        the_value=_with_the(written),
        the_event=written if written.startswith(("The ", "the ", "World War ")) else f"the {written}",
        a_value=_with_a(written),
    )
    # a value may end with its own stop: Warner Bros., Jeopardy!
    sentence = re.sub(r"([.!?…])\.$", r"\1", sentence)
    return sentence[:1].upper() + sentence[1:] if sentence.startswith("the ") else sentence


@cache
def _load_sentences() -> Mapping[str, Mapping[tuple[str, ...], tuple[str, ...]]]:
    """Return label → patterns of values → equal wordings, in order; the empty label has the general wordings."""
    found: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {}
    with SENTENCES.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            patterns = tuple(filter(None, line["value"].split(";")))
            for label in line["property"].split(";"):
                of_label = found.setdefault(label, {})
                of_label[patterns] = (*of_label.get(patterns, ()), line["wording"])
    return found


def _with_the(name: str) -> str:
    """Return a name as written within a sentence: the University of Oxford, but Oxford."""
    if name.startswith(("The ", "the ")) or not name[:1].isupper():
        return name
    return f"the {name}" if _BODY.search(name) or _PLACE.search(name) else name


def _with_a(phrase: str) -> str:
    """Put `a` or `an` before a noun phrase, by sound: an NBA player, a university, an honorary title."""
    first = re.split(r"[\s\-–/&]", phrase, maxsplit=1)[0]
    if re.fullmatch(r"[A-Z]{2,}|[A-Z]", first):
        is_vowel = first[0] in "AEFHILMNORSX"
    else:
        is_vowel = bool(_SILENT_H.match(first)) or (first[:1].lower() in "aeiou" and not _VOWEL_BUT_A.match(first))
    return f"{'an' if is_vowel else 'a'} {phrase}"


def _read_date(value: str) -> re.Match[str] | None:
    found = _DATE.fullmatch(value)
    return None if found and found["month"] and not 1 <= int(found["month"]) <= 12 else found


def _format_value(value: str) -> str:
    """Return a date with a day or month in words; return any other value, and a mere year, unchanged."""
    date = _read_date(value)
    if date is None or not date["month"]:
        return value
    day = f"{int(date['day'])} " if date["day"] else ""
    return f"{day}{_MONTHS[int(date['month']) - 1]} {int(date['year'])}{date['era'] or ''}"


def _format_when(value: str) -> str:
    """Return a date with its preposition: on 14 March 1879, in 44 BC, in the 1590s."""
    date = _read_date(value)
    if date is None:
        return value if value.startswith("about ") else f"in the {value}"
    if date["day"]:
        return f"on {_format_value(value)}"
    is_early = not date["month"] and not date["era"] and int(date["year"]) < _EARLY
    return f"in {'AD ' if is_early else ''}{_format_value(value)}"
