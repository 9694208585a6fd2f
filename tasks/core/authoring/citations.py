"""Pieces of knowledge about people, and how they are told to a model (BioKaLMA, Table 9, §3.3, Appendix A.2).

How a model's citations of them are read says `tasks/biokalma/core/citations.py`. A label whose own brackets do not pair is
told with round ones (`format_label`), so that a citation's bracket closes where it is meant to.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from factmill.tasks.errors import SettingsError


class Piece(BaseModel):
    """A piece of knowledge: one property of one person with one value."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    qid: str
    """The person."""
    pid: str
    property: str
    """Label of the property."""
    value_qid: str | None
    """The value, where it is an item."""
    value: str
    """Label of the item, or the date as it is told (1593-07-08, 1593-07, 1593, 44 BC)."""
    precision: int | None
    """Of a date, as Wikidata counts it; null for items."""
    statement: str | None
    """Id of the statement; null where the graph holds direct claims alone."""


_BRACKET = re.compile(r"[\[\]]")
_ROUND = str.maketrans("[]", "()")


def format_label(label: str) -> str:
    """Return a label as citations hold it: on one line, brackets that do not pair made round."""
    line, depth = " ".join(label.split()), 0
    for bracket in _BRACKET.findall(line):
        depth += 1 if bracket == "[" else -1
        if depth < 0:
            break
    return line.translate(_ROUND) if depth else line


def format_knowledge(name: str, pieces: Sequence[Piece]) -> str:
    """Return one person's pieces, one at least, as a line `{qid: Q1, name: Ada Lovelace, place of birth: London}`."""
    told = (f"{format_label(piece.property)}: {format_label(piece.value)}" for piece in pieces)
    return f"{{{', '.join([f'qid: {pieces[0].qid}', f'name: {format_label(name)}', *told])}}}"


_COLUMNS = ["property", "aspect", "tie", "theme", "cues", "asked"]


@dataclass(frozen=True, slots=True)
class BiographyProperty:
    """What is known of a property that biographies tell of."""

    label: str
    """The first of its labels."""
    aspect: str
    """What a question calls it, behind a name: `Ada Lovelace's birthplace`."""
    tie: str
    """Kind of tie between two people; empty for what ties nobody."""
    theme: str
    """What a general question calls it and others like it: `their origins`."""
    cues: frozenset[str]
    """Words, one or more, that a sentence tells it with."""
    asked: frozenset[str]
    """Further words that a question asks for it with."""


def read_biography_properties(text: str) -> Mapping[str, BiographyProperty]:
    """Read the list (CSV) as label → property, once for each of its labels; SettingsError names the line that is wrong."""
    reader = csv.DictReader(io.StringIO(text))
    properties: dict[str, BiographyProperty] = {}
    for line in reader:
        if list(line) != _COLUMNS or None in line.values():
            raise SettingsError(f"biography_properties.csv, line {reader.line_num}: expected the columns {_COLUMNS}")
        labels, cues, asked = (frozenset(line[each].split(";")) - {""} for each in ("property", "cues", "asked"))
        first = line["property"].partition(";")[0]
        known = BiographyProperty(first, line["aspect"], line["tie"], line["theme"], cues - {"*"}, asked)
        properties.update(dict.fromkeys(labels, known))
    return properties
