"""What kind of thing an answer is: a date, a rank, a number, or something else that is looked for as items (MultiHal §2.2).

The foundation's own word counts where the answer bears it out: a "number" that cannot be read as one is looked for as
items. Where the foundation says nothing, a text that is a date as a whole is a date, one that is a number is a number,
but a number word with something else behind it is a name (One Direction) unless that something is a unit of measure.
"""

from collections.abc import Container
from dataclasses import dataclass

from tasks.multihal.core.rows import AnswerType
from tasks.text.values.written import read_date, read_number

_MARKS = frozenset({"$", "€", "£", "US$", "%", "percent", "per cent"})


@dataclass(frozen=True, slots=True)
class SettledType:
    """The type of an answer, and why it is not the one that was stated."""

    answer_type: AnswerType
    note: str = ""


def settle_answer_type(answer: str, stated: AnswerType | None, units: Container[str]) -> SettledType:
    """Return the type of an answer; `units` are the names of known units (assets.load_units)."""
    if stated is None:
        return SettledType(_infer(answer, units))
    if stated == "date" and read_date(answer) is None:
        return SettledType("other", f"stated as a date, but {answer!r} is none")
    if stated == "numerical" and read_number(answer) is None:
        return SettledType("other", f"stated as a number, but {answer!r} is none")
    if stated == "rank" and not _is_rank(answer):
        return SettledType("other", f"stated as a rank, but {answer!r} is none")
    return SettledType(stated)


def _infer(answer: str, units: Container[str]) -> AnswerType:
    if read_date(answer) is not None:
        return "date"
    written = read_number(answer)
    if written and (
        written.unit is None or written.unit in _MARKS or written.unit in units or written.unit.lower() in units
    ):
        return "numerical"
    return "other"


def _is_rank(answer: str) -> bool:
    written = read_number(answer)
    return written is not None and written.number.isdigit() and int(written.number) >= 1
