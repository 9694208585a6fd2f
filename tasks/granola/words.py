"""The words that descriptions and answers are read by: countries and regions, occupations, kinds of things (data/lists/*.csv)."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tasks.assets import asset_path
from tasks.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Words:
    """All lists, arranged for look-up."""

    places: Mapping[str, str]
    """Any known name of a country or region → the name used in answers."""
    within: Mapping[str, str]
    """Region → the region or country around it."""
    countries: frozenset[str]
    """States of today, by the name used in answers."""
    adjectives: Mapping[str, str]
    """Adjective → country or nation; empty text for peoples and states of the past."""
    occupations: Mapping[str, str]
    """Occupation in lower case → the wider occupation, or empty text."""
    kinds: Mapping[str, frozenset[str]]
    """Noun in lower case → kinds of things that it can name."""
    classes: Mapping[str, str]
    """Noun in lower case → the wider noun."""


@cache
def load_words() -> Words:
    """Read the lists of data/lists/; SettingsError names the file that is missing or wrong."""
    places: dict[str, str] = {}
    countries, adjectives = _read_countries(places)
    within = {}
    for line in _lines("regions.csv", ["name", "within", "other_names"]):
        within[line["name"]] = line["within"]
        places.update(dict.fromkeys([line["name"], *_split(line["other_names"])], line["name"]))
    jobs = _lines("occupations.csv", ["occupation", "class"])
    occupations = {line["occupation"].lower(): line["class"] for line in jobs}
    kinds = dict.fromkeys(occupations, frozenset({"person"}))
    classes = {}
    for line in _lines("kinds.csv", ["noun", "kinds", "class"]):
        kinds[line["noun"]] = kinds.get(line["noun"], frozenset()) | frozenset(line["kinds"].split())
        if line["class"]:
            classes[line["noun"]] = line["class"]
    return Words(places, within, countries, adjectives, occupations, kinds, classes)


@cache
def load_word_groups() -> Mapping[str, frozenset[str]]:
    """Return group → words that steer the reading of descriptions (data/lists/description_words.csv).

    | group | words |
    |---|---|
    | head_ends | after these a noun phrase is over |
    | modifiers | may stand for a noun to come: `film and television actor` |
    | subject_words | an adjective before them is no nationality: `French literature` |
    """
    lines = _lines("description_words.csv", ["group", "words"])
    return {line["group"]: frozenset(_split(line["words"])) for line in lines}


def _read_countries(places: dict[str, str]) -> tuple[frozenset[str], dict[str, str]]:
    countries: set[str] = set()
    adjectives: dict[str, str] = {}
    for line in _lines("countries.csv", ["name", "kind", "adjectives", "other_names"]):
        name, is_today = line["name"], line["kind"] in ("country", "nation")
        for form in _split(line["adjectives"]):
            adjectives.setdefault(form, name if is_today else "")
        if line["kind"] == "country":
            countries.add(name)
        if name and line["kind"] != "ambiguous":
            places.update(dict.fromkeys([name, *_split(line["other_names"])], name))
    return frozenset(countries), adjectives


def _lines(name: str, columns: list[str]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(asset_path("data/lists", name).read_text("utf-8")))
    if reader.fieldnames != columns:
        raise SettingsError(f"data/lists/{name}: expected the columns {columns}, found {reader.fieldnames}")
    for line in reader:
        if None in line or None in line.values():
            raise SettingsError(f"data/lists/{name}, line {reader.line_num}: expected {len(columns)} columns")
        yield line


def _split(cell: str) -> list[str]:
    return [part for part in cell.split(";") if part]
