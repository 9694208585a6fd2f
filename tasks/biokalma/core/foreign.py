"""What a text says beyond what it may: names, numbers, dates and units that stand in none of the given texts.

Of a row, that is a program's way to tell an invented fact: a sentence that is added, and both questions, say nothing of
that kind but what the pieces of knowledge and the people's names hold. Words in small letters it cannot judge.
"""

from collections.abc import Iterable

from tasks.core.authoring.pieces import Piece
from tasks.text.sentences import OPENING_WORDS
from tasks.text.values.amounts import UNITS, read_amounts
from tasks.text.values.dates import write_date
from tasks.text.values.words import Value, read_values, says

_ASKING = frozenset(
    {
        *("Am", "Are", "Can", "Could", "Did", "Do", "Does", "Had", "Has", "Have", "How", "Is", "May", "Might"),
        *("Should", "Was", "Were", "Where", "Who", "Whom", "Whose", "Why", "Would"),
    }
)
_FREE_UNITS = frozenset({"year", "day", "hour", "minute", "second", "pound", "c", "f", "l", "m", "inch", "won"})
"""That are ordinary words too."""
_FREE_NUMBERS = frozenset({"one", "two"})
"""One of many, and the two people."""
_SPANS = frozenset({"century", "decade", "millennium"})


def find_foreign(text: str, known: Iterable[str]) -> str | None:
    """Return the first name, number, date or unit of a text that none of the known texts has; None when there is none.

    A date that a known one says, being finer, is known. A word that opens a text is a name unless
    it is one that opens sentences.
    """
    said = [part.value for each in known for part in read_values(each)]
    words = frozenset(value for value in said if isinstance(value, str))
    for at, (written, value) in enumerate(read_values(text)):
        if isinstance(value, str):
            if value not in words and (_is_name(written, opens=at == 0) or _is_time(value)):
                return written
        elif written.lower() not in _FREE_NUMBERS and not any(says(each, value) for each in said):
            return written
    units = (each.value for each in read_amounts(text))
    return next((str(unit) for unit in units if unit in UNITS - _FREE_UNITS and unit not in words), None)


def list_known(pieces: Iterable[Piece], names: Iterable[str]) -> list[str]:
    """Return what a text about some pieces may name: the people, and values with their properties."""
    told = [(write_date(piece.value) if piece.value_qid is None else piece.value, piece.property) for piece in pieces]
    return [*names, *(text for both in told for text in both)]


def _is_name(written: str, *, opens: bool) -> bool:
    if not written[0].isupper() or written in OPENING_WORDS | _ASKING | {"I"}:
        return False
    # Formerly, Following, Born
    return not (opens and written.endswith(("ly", "ing", "ed", "orn")))


def _is_time(value: Value) -> bool:
    return isinstance(value, str) and (value in _SPANS or any(character.isdigit() for character in value))
