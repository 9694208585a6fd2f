"""What kind of thing an answer is: a date, a rank, a number, or something else that is looked for as items (MultiHal §2.2).

The foundation's own word counts where the answer bears it out: a "number" that cannot be read as one is looked for as
items. Where the foundation says nothing, a text that is a date as a whole is a date, one that is a number is a number,
but a number word with something else behind it is a name (One Direction) unless that something is a unit of measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.multihal.core.rows import AnswerType
from tasks.text.values.literals import Date, Number
from tasks.text.values.written import look_for, read_answer_date, read_number


@dataclass(frozen=True, slots=True)
class SettledType:
    """The type of an answer, and the value that is looked for."""

    answer_type: AnswerType
    value: Date | Number | None = None
    """None for what is looked for as items, and for a number in a unit that is not known, which nothing is."""


def settle_answer_type(answer: str, stated: AnswerType | None, units: Mapping[str, int], question: str) -> SettledType:
    """Return the type of an answer; `units` are those known by name (assets.load_units), the question may order dates and name what is counted."""
    if stated in (None, "date") and (date := read_answer_date(answer, question)):
        return SettledType("date", date)
    written = None if stated in ("other", "date") else read_number(answer)
    if written is None:
        return SettledType("other")
    wanted = look_for(written, units, question)
    if stated == "rank":
        is_rank = written.number.isdigit() and int(written.number) >= 1
        return SettledType("rank", Number(written.number)) if is_rank else SettledType("other")
    if stated is None and wanted is None and "." not in written.number:
        # One Direction, 10 Rillington Place
        return SettledType("other")
    return SettledType("numerical", wanted)
