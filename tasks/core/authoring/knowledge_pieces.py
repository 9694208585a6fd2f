"""Pieces of knowledge about people, and their form in prompts (BioKaLMA, Table 9, §3.3, Appendix A.2).

`tasks/biokalma/core/citations.py` reads a model's citations of them. Unpaired square brackets of a label become round ones
(`replace_square_brackets_if_unpaired`), so that a citation's bracket closes at the right place.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from factmill.tasks.errors import SettingsError


class PersonKnowledgePiece(BaseModel):
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
    """Label of the item, or the formatted date (1593-07-08, 1593-07, 1593, 44 BC)."""
    precision: int | None
    """Precision of a date, Wikidata's code; null for items."""
    statement: str | None
    """Id of the statement; null if the graph has direct claims only."""


_BRACKET = re.compile(r"[\[\]]")
_ROUND_BRACKETS = str.maketrans("[]", "()")


def replace_square_brackets_if_unpaired(label: str) -> str:
    """Format a label for citations: on one line, with round brackets if its square brackets do not pair."""
    line, depth = " ".join(label.split()), 0
    for bracket in _BRACKET.findall(line):
        depth += 1 if bracket == "[" else -1
        if depth < 0:
            break
    return line.translate(_ROUND_BRACKETS) if depth else line


def format_person_knowledge(name: str, pieces: Sequence[PersonKnowledgePiece]) -> str:
    """Format the pieces of one person, at least one, as a line `{qid: Q1, name: Ada Lovelace, place of birth: London}`."""
    fields = (
        f"{replace_square_brackets_if_unpaired(piece.property)}: {replace_square_brackets_if_unpaired(piece.value)}"
        for piece in pieces
    )
    return f"{{{', '.join([f'qid: {pieces[0].qid}', f'name: {replace_square_brackets_if_unpaired(name)}', *fields])}}}"


_BIOGRAPHY_COLUMNS = ["property", "aspect", "tie", "theme", "cues", "asked"]


@dataclass(frozen=True, slots=True)
class BiographyPropertyWording:
    """Wording of a property in biographies and questions."""

    label: str
    """The first of its labels."""
    aspect: str
    """Its noun in a question, after a name: `Ada Lovelace's birthplace`."""
    relationship: str
    """Kind of relationship between two people; empty if it relates nobody."""
    theme: str
    """Noun for it and similar properties in a general question: `their origins`."""
    sentence_words: frozenset[str]
    """Words or phrases for it in a sentence."""
    question_words: frozenset[str]
    """Further words for it in a question."""


def parse_biography_wordings_by_label(text: str) -> Mapping[str, BiographyPropertyWording]:
    """Parse the list (CSV) to label → property, one entry per label; SettingsError names an invalid line."""
    reader = csv.DictReader(io.StringIO(text))
    properties: dict[str, BiographyPropertyWording] = {}
    for line in reader:
        if list(line) != _BIOGRAPHY_COLUMNS or None in line.values():
            raise SettingsError(
                f"biography_properties.csv, line {reader.line_num}: expected the columns {_BIOGRAPHY_COLUMNS}"
            )
        labels, cues, asked = (frozenset(line[each].split(";")) - {""} for each in ("property", "cues", "asked"))
        first = line["property"].partition(";")[0]
        known = BiographyPropertyWording(first, line["aspect"], line["tie"], line["theme"], cues - {"*"}, asked)
        properties.update(dict.fromkeys(labels, known))
    return properties
