"""The properties that biographies tell of, and the words for them (data/lists/biography_properties.csv; BioKaLMA, Appendix A.3)."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from tasks.errors import SettingsError

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
