"""The word lists behind the rules author: which adjective belongs to which country, which region lies where, and so on.

They are facts kept in data/lists/*.csv. A list is read once; everything here is a plain look-up.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tasks.assets import ROOT, load_relations
from tasks.core.authoring.biography import BiographyProperty, read_biography_properties
from tasks.core.relations import Relation
from tasks.errors import SettingsError

_FOLDER = ROOT / "data" / "lists"


@dataclass(frozen=True, slots=True)
class Tables:
    """All lists, arranged for look-up."""

    places: Mapping[str, str]
    """Any known name of a country or region → the name used in answers."""
    within: Mapping[str, str]
    """Region → the region or country around it."""
    countries: frozenset[str]
    """States of today, by the name used in answers."""
    adjectives: Mapping[str, str]
    """Adjective → country or nation; empty text for peoples and states of the past."""
    adjective_of: Mapping[str, str]
    """Country or nation → the adjective used in answers."""
    occupations: Mapping[str, str]
    """Occupation in lower case → the wider occupation, or empty text."""
    kinds: Mapping[str, frozenset[str]]
    """Noun in lower case → kinds of things that it can name."""
    classes: Mapping[str, str]
    """Noun in lower case → the wider noun."""
    common_words: frozenset[str]
    """Every word that stands in a noun of the lists; such a word is no name."""
    relations: Mapping[str, Relation]


@cache
def load_tables() -> Tables:
    """Read the lists of data/lists/; SettingsError names the file that is missing or wrong."""
    places: dict[str, str] = {}
    countries, adjectives, adjective_of = _read_countries(places)
    within = {}
    for line in _lines("regions.csv", ["name", "within", "other_names"]):
        within[line["name"]] = line["within"]
        places.update(dict.fromkeys([line["name"], *_split(line["other_names"])], line["name"]))
    jobs = {line["occupation"]: line["class"] for line in _lines("occupations.csv", ["occupation", "class"])}
    occupations = {job.lower(): wider for job, wider in jobs.items()}
    kinds = dict.fromkeys(occupations, frozenset({"person"}))
    classes = {}
    kinds_only = []
    for line in _lines("kinds.csv", ["noun", "kinds", "class"]):
        kinds[line["noun"]] = kinds.get(line["noun"], frozenset()) | frozenset(line["kinds"].split())
        kinds_only.append(line["noun"])
        if line["class"]:
            classes[line["noun"]] = line["class"]
    return Tables(
        places=places,
        within=within,
        countries=countries,
        adjectives=adjectives,
        adjective_of=adjective_of,
        occupations=occupations,
        kinds=kinds,
        classes=classes,
        common_words=frozenset(
            word
            for noun in [*jobs, *kinds_only]
            for word in noun.split()
            if word.islower() and word.capitalize() not in adjectives
        ),
        relations=load_relations(),
    )


@dataclass(frozen=True, slots=True)
class Wordings:
    """Sentences for a property, for some of its values."""

    values: tuple[str, ...]
    """Patterns of the values as in file names; none for all values."""
    sentences: tuple[str, ...]
    """With $subject and one of $value, $the_value and so on; what stands in [] is left out the first time."""


@cache
def load_words(group: str) -> frozenset[str]:
    """Return one group of data/lists/rule_words.csv, words that steer the reading of descriptions.

    | group | words |
    |---|---|
    | units | kinds of administrative units and parts, as in `province of`, `southern part of` |
    | named_units | units that stay part of the name: `Santa Fe Province` |
    | no_place_before_of | `suburb of X` does not lie in X |
    | chain_ends | after these a list of places is over |
    | name_links | small words within names |
    | features_first, features_last | mark rivers, streets, leagues: no places that hold others |
    | article_before_of, article_alone, article_last | names that take `the` |
    | head_ends, person_ends | after these a noun phrase, or a list of occupations, is over |
    | modifiers | may stand for a noun to come: `film and television actor` |
    | subject_words | an adjective before them is no nationality: `French literature` |
    | shifting_nouns | mean something else without the word before: a talent show judge is no judge |
    | offices | offices that outrank an occupation |
    | bodies_before_of, bodies_last, bodies_first, bodies_alone | bodies whose names take `the` |
    """
    groups = {line["group"]: line["words"] for line in _lines("rule_words.csv", ["group", "words"])}
    return frozenset(_split(groups[group]))


def one_of(group: str) -> str:
    """Return a group of words as a regular expression that matches any of them, the longest first."""
    return "(?:" + "|".join(re.escape(word) for word in sorted(load_words(group), key=lambda w: (-len(w), w))) + ")"


def _read_countries(places: dict[str, str]) -> tuple[frozenset[str], dict[str, str], dict[str, str]]:
    countries: set[str] = set()
    adjectives: dict[str, str] = {}
    adjective_of: dict[str, str] = {}
    for line in _lines("countries.csv", ["name", "kind", "adjectives", "other_names"]):
        name, forms = line["name"], _split(line["adjectives"])
        is_today = line["kind"] in ("country", "nation")
        for form in forms:
            adjectives.setdefault(form, name if is_today else "")
        if forms and name:
            adjective_of[name] = forms[0]
        if line["kind"] == "country":
            countries.add(name)
        if name and line["kind"] != "ambiguous":
            places.update(dict.fromkeys([name, *_split(line["other_names"])], name))
    return frozenset(countries), adjectives, adjective_of


@cache
def load_cues() -> Mapping[str, frozenset[str]]:
    """Return label of a property → words by which questions ask for it (data/lists/relation_cues.csv)."""
    return {line["label"]: frozenset(line["cues"].split()) for line in _lines("relation_cues.csv", ["label", "cues"])}


@cache
def load_biography_properties() -> Mapping[str, BiographyProperty]:
    """Return every label of a property → what biographies tell with it (data/lists/biography_properties.csv)."""
    return read_biography_properties(_read("biography_properties.csv"))


@cache
def load_biography_sentences() -> Mapping[str, tuple[Wordings, ...]]:
    """Return label of a property → its wordings in order; under empty text those for a property without any.

    Lines of data/lists/biography_sentences.csv with the same property and values are different wordings of one thing.
    """
    sentences: dict[tuple[str, str], list[str]] = {}
    for line in _lines("biography_sentences.csv", ["property", "value", "wording"]):
        sentences.setdefault((line["property"], line["value"]), []).append(line["wording"])
    wordings: dict[str, tuple[Wordings, ...]] = {}
    for (labels, values), told in sentences.items():
        for label in _split(labels) or [""]:
            wordings[label] = (*wordings.get(label, ()), Wordings(tuple(_split(values)), tuple(told)))
    return wordings


@cache
def load_biography_questions() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return (general or specific, kind of tie) → the wordings of data/lists/biography_questions.csv."""
    questions: dict[tuple[str, str], tuple[str, ...]] = {}
    for line in _lines("biography_questions.csv", ["question", "tie", "wording"]):
        key = line["question"], line["tie"]
        questions[key] = (*questions.get(key, ()), line["wording"])
    return questions


def _lines(name: str, columns: list[str]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(_read(name)))
    if reader.fieldnames != columns:
        raise SettingsError(f"data/lists/{name}: expected the columns {columns}, found {reader.fieldnames}")
    for line in reader:
        if None in line or None in line.values():
            raise SettingsError(f"data/lists/{name}, line {reader.line_num}: expected {len(columns)} columns")
        yield line


def _read(name: str) -> str:
    path = _FOLDER / name
    if not path.is_file():
        raise SettingsError(f"the file data/lists/{name} that belongs to factmill is missing")
    return path.read_text("utf-8")


def _split(cell: str) -> list[str]:
    return [part for part in cell.split(";") if part]
