"""Kinds of sets, and properties with their phrases, from which fan-out questions are generated (FanOutQA, §3.1).

A set is listed in the article of its owner ("the countries that share a border with Germany"), or the question names
its members. Both come from our own CSV files; every phrase in them is a template of `string.Template`:

- $name: the label ("the $name": a label with its article); $place: the label, with its article if it takes one, as in
  "the Netherlands";
- $x: the member asked about; $unit: the unit in the plural; $limit: a threshold with its unit; $month: the month of the
  epoch.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from string import Template
from typing import Literal, cast, get_args

from factmill.tasks.core.authoring.question_wording import (
    add_definite_article_where_needed,
    ensure_definite_article,
    insert_moment,
)
from factmill.tasks.errors import SettingsError
from factmill.tasks.text.wikidata_ids import is_pid, is_qid

PropertyKind = Literal["item", "time", "quantity"]

_SETS_FILE, _PROPERTIES_FILE = "fanout_sets.csv", "fanout_properties.csv"
_SET_COLUMNS = (
    "relation", "listed", "owner_classes", "member_classes", "members", "called", "group", "changes", "properties",
)  # fmt: skip
_PROPERTY_COLUMNS = ("pid", "members", "kind", "moment", "question", "most", "least", "above", "below")


@dataclass(frozen=True, slots=True)
class SetKind:
    """One kind of sets."""

    relation: str
    """PID of the relation between owner and members; for a named set, of a relation that its members have."""
    is_named: bool
    """True: the question names the members; False: the owner's article does."""
    owner_classes: frozenset[str]
    """QIDs; an owner is an instance of one of them. Empty: any item."""
    member_classes: frozenset[str]
    """QIDs; the same for members."""
    members: str
    """What the members are, in the plural: countries."""
    called: str
    """Template of a member's name in a sub-question: the film $name."""
    group: str
    """The set in words, with the owner: the countries that share a border with $place; empty for a named set."""
    changes: bool
    """True if the members change over the years."""
    properties: tuple[str, ...]
    """PIDs that questions may ask of members, or rank them by."""
    unit: str
    """Name of the kind: the relation and the first class of members."""

    def format_member_name(self, name: str) -> str:
        """Return a member's name in a sub-question: the film Jaws, the Nile, the Netherlands."""
        return _fill_name_template(self.called, name)

    def format_listed_name(self, name: str) -> str:
        """Return a member's name in a question that lists the members: Jaws, the Nile, the Netherlands."""
        return self.format_member_name(name) if self.called in ("the $name", "$place") else name

    def format_group(self, owner: str, month: str) -> str:
        """Return an owner's set in words, with the month if its members change over the years."""
        return _fill_name_template(self.group, owner) + (f" as of {month}" if self.changes else "")


@dataclass(frozen=True, slots=True)
class PropertyPhrases:
    """The phrases in which questions ask for a property."""

    pid: str
    kind: PropertyKind
    moment: str
    """Time phrase for answers that change within years: as of $month; else empty."""
    question: str
    """Question about one member: What is the area of $x in $unit?"""
    most: str
    """Predicate of the five with the highest or latest values: have the largest areas; empty for items."""
    least: str
    above: str
    """Predicate of those beyond a threshold: have an area of more than $limit."""
    below: str

    def format_moment(self, month: str) -> str:
        """Return the time phrase, such as "as of May 2020"; empty if the answer stays the same."""
        return Template(self.moment).substitute(month=month)

    def format_question(self, name: str, unit: str, moment: str) -> str:
        """Return the question about a member, with its unit and its time phrase."""
        return insert_moment(Template(self.question).substitute(x=name, unit=unit), moment)


PropertyPhraseTable = Mapping[tuple[str, str], PropertyPhrases]
"""(PID, members) → property; members is empty for phrases that fit all members."""


def parse_set_kinds_csv_by_source_unit(text: str, file: str = _SETS_FILE) -> dict[str, SetKind]:
    """Parse CSV text into unit → kind of sets, in the order of the list; SettingsError names the file and the wrong line."""
    found: dict[str, SetKind] = {}
    for place, line in _parse_csv_lines(text, file, _SET_COLUMNS):
        owners, members = (_parse_ids(place, line[name], is_qid) for name in ("owner_classes", "member_classes"))
        kind = SetKind(
            relation=_parse_property_id(place, line["relation"]),
            is_named=_parse_choice(place, line["listed"], {"by name": True, "by owner": False}),
            owner_classes=frozenset(owners),
            member_classes=frozenset(members),
            members=line["members"],
            called=_parse_phrase_template(place, line["called"], "name", "place"),
            group=line["group"] and _parse_phrase_template(place, line["group"], "name", "place"),
            changes=_parse_choice(place, line["changes"], {"yes": True, "no": False}),
            properties=_parse_ids(place, line["properties"], is_pid),
            unit=" ".join([line["relation"], *members[:1]]),
        )
        if kind.is_named == bool(kind.group) or not kind.members or not kind.properties:
            raise SettingsError(
                f"{place}: expected members and properties, a group for sets listed by owner, and no group for sets listed by "
                f"name, found {line}"
            )
        if kind.unit in found:
            raise SettingsError(f"{place}: {kind.unit} is in the list twice; expected each relation and class once")
        found[kind.unit] = kind
    return found


def parse_phrases_by_property_and_members(
    text: str, file: str = _PROPERTIES_FILE
) -> dict[tuple[str, str], PropertyPhrases]:
    """Parse CSV text into (PID, members or empty) → property; SettingsError names the file and the wrong line."""
    found: dict[tuple[str, str], PropertyPhrases] = {}
    for place, line in _parse_csv_lines(text, file, _PROPERTY_COLUMNS):
        if line["kind"] not in get_args(PropertyKind):
            raise SettingsError(f"{place}: expected one of {', '.join(get_args(PropertyKind))}, found {line['kind']!r}")
        phrases = {name: line[name] for name in ("most", "least", "above", "below")}
        if any(bool(phrase) != (line["kind"] != "item") for phrase in phrases.values()):
            raise SettingsError(
                f"{place}: expected most, least, above and below for times and quantities, none for items"
            )
        key = (_parse_property_id(place, line["pid"]), line["members"])
        if key in found:
            raise SettingsError(f"{place}: {' of '.join(filter(None, key))} is in the list twice; expected it once")
        for limited in filter(None, (phrases["above"], phrases["below"])):
            _parse_phrase_template(place, limited, "limit")
        found[key] = PropertyPhrases(
            pid=key[0],
            kind=cast(PropertyKind, line["kind"]),
            moment=line["moment"] and _parse_phrase_template(place, line["moment"], "month"),
            question=_parse_phrase_template(place, line["question"], "x", optional="unit"),
            **phrases,
        )
        if not line["question"].endswith("?"):
            raise SettingsError(
                f"{place}: expected a question that ends in a question mark, found {line['question']!r}"
            )
    return found


def get_property_phrases(properties: PropertyPhraseTable, pid: str, kind: SetKind) -> PropertyPhrases:
    """Return a property's phrases for the members of a kind of sets; SettingsError if the list has none."""
    found = properties.get((pid, kind.members)) or properties.get((pid, ""))
    if found is None:
        raise SettingsError(
            f"the kind of sets {kind.unit} uses the property {pid}, but {_PROPERTIES_FILE} has no line for it with members "
            f"{kind.members!r} or none; add one (--property-file)"
        )
    return found


def _fill_name_template(template: str, name: str) -> str:
    if template == "the $name":
        return ensure_definite_article(name)
    return Template(template).substitute(name=name, place=add_definite_article_where_needed(name))


def _parse_csv_lines(text: str, file: str, columns: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != columns:
        raise SettingsError(f"{file}: expected the columns {', '.join(columns)}, found {reader.fieldnames}")
    for line in reader:
        place = f"{file}, line {reader.line_num}"
        if len(line) != len(columns) or None in line.values():
            raise SettingsError(f"{place}: expected {len(columns)} columns, found {line}")
        yield place, {name: value.strip() for name, value in line.items()}


def _parse_property_id(place: str, text: str) -> str:
    if not is_pid(text):
        raise SettingsError(f"{place}: expected the id of a property, like P47, found {text!r}")
    return text


def _parse_ids(place: str, text: str, is_id: Callable[[str], bool]) -> tuple[str, ...]:
    ids = tuple(filter(None, text.split("|")))
    if wrong := [each for each in ids if not is_id(each)]:
        raise SettingsError(f"{place}: expected ids separated by |, found {wrong[0]!r}")
    return ids


def _parse_choice(place: str, text: str, choices: Mapping[str, bool]) -> bool:
    if text not in choices:
        raise SettingsError(f"{place}: expected {' or '.join(choices)}, found {text!r}")
    return choices[text]


def _parse_phrase_template(place: str, text: str, *one_of: str, optional: str = "") -> str:
    names = set(Template(text).get_identifiers())
    if len(names & {*one_of}) != 1 or names - {*one_of, optional}:
        raise SettingsError(f"{place}: expected {' or '.join(f'${name}' for name in one_of)} once in {text!r}")
    return text
