"""One sentence of English for a piece of knowledge: the rules author's part in rounds 2 to 5 of BioKaLMA.

The wordings stand in data/lists/biography_sentences.csv, the first that fits the value; which of several equal ones is
taken is decided by a digest of the piece, so that it stays the same. Articles, dates and words for kin are put in here.
All of them are in the past tense, which is right for the dead and not wrong for what the living did.
"""

import hashlib
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from string import Template

from tasks.rules.biographies.pieces import MONTHS, Fact, is_date_property, read_told_date
from tasks.rules.places import place_with_article
from tasks.rules.reading import with_article
from tasks.rules.tables import load_biography_sentences, one_of

_IS_BODY = re.compile(
    rf"\b{one_of('bodies_before_of')} (?:of|for)\b|\b{one_of('bodies_last')}$|^{one_of('bodies_first')}\b|"
    rf"^{one_of('bodies_alone')}$"
)
_REPEATED = re.compile(r"\[(.*?) ?\] ?")
KIN = {
    "male": {"parent": "father", "child": "son", "sibling": "brother"},
    "female": {"parent": "mother", "child": "daughter", "sibling": "sister"},
}
_IS_ONE = re.compile(r"\$\w*(?<!subject) (?:is|was)\b|^One of\b")
"""A wording for one value."""
_EARLY = 1000
"""Years before it are told with their era: in 14 is more than a year."""


def verbalise_facts(name: str, facts: Sequence[Fact], gender: str, *, is_person: bool, is_repeated: bool) -> str:
    """Return a sentence that tells facts of one property with their values as they stand, or as written dates.

    `gender` is male, female or empty; `is_repeated` says that the text has told something of this property before.
    """
    wordings = load_biography_sentences()
    # a property whose wordings all want other values is told like one that has none
    label, values = facts[0].property, [fact.value for fact in facts]
    fitting = [
        told
        for key in (label, "")
        for told in wordings.get(key, ())
        if all(_fits(value, told.values) for value in values)
    ]
    wordings_of_all = [each for each in fitting[0].sentences if not _IS_ONE.search(each)] if values[1:] else []
    wording = choose_wording(wordings_of_all or fitting[0].sentences, f"{name}|{label}|{values[0]}")
    wording = _REPEATED.sub(r"\1 " if is_repeated else "", wording)
    written = [_format_value(value) if is_date_property(label) else value for value in values]
    kin = KIN.get(gender, {kind: kind for kind in ("parent", "child", "sibling")})
    sentence = Template(wording).substitute(
        kin,
        a_child=with_article(kin["child"]),
        a_sibling=with_article(kin["sibling"]),
        subject=name if is_person else name_with_article(name),
        property=label,
        value=enumerate_words(written),
        on_value=enumerate_words([_format_when(value) for value in values]),
        the_value=enumerate_words([name_with_article(value) for value in written]),
        the_event=enumerate_words([_name_event(value) for value in written]),
        a_value=enumerate_words([with_article(value) for value in written]),
    )
    # a value may bring its own stop: Warner Bros., Jeopardy!
    sentence = re.sub(r"([.!?…])\.$", r"\1", sentence)
    return sentence[:1].upper() + sentence[1:] if sentence.startswith("the ") else sentence


def choose_wording(wordings: Sequence[str], key: str) -> str:
    """Return one of some equal wordings, always the same one for a key."""
    return wordings[int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % len(wordings)]


def name_with_article(name: str) -> str:
    """Return a name as it stands within a sentence: the University of Oxford, but Oxford."""
    if name.startswith(("The ", "the ")) or not name[:1].isupper():
        return name
    return f"the {name}" if _IS_BODY.search(name) else place_with_article(name)


def enumerate_words(words: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _name_event(value: str) -> str:
    return value if value.startswith(("The ", "the ", "World War ")) else f"the {value}"


def _fits(value: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)


def _format_value(value: str) -> str:
    """Return a date to the day or month in words; anything else, and a mere year, as it is."""
    date = read_told_date(value)
    if date is None or date.month is None:
        return value
    day = f"{date.day} " if date.day is not None else ""
    return f"{day}{MONTHS[date.month - 1]} {_format_year(date.year, date.is_before_christ)}"


def _format_year(year: int, is_before_christ: bool) -> str:
    return f"{year} BC" if is_before_christ else f"{year}"


def _format_when(value: str) -> str:
    """Return when something was, with its preposition: on 14 March 1879, in 44 BC, in the 1590s."""
    date = read_told_date(value)
    if date is None:
        return value if value.startswith("about ") else f"in the {value}"
    told = _format_value(value)
    if date.day is not None:
        return f"on {told}"
    return f"in AD {told}" if date.month is None and not date.is_before_christ and date.year < _EARLY else f"in {told}"
