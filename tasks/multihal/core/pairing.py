"""The pairs of a question's items and its answer's items or value, between which paths are looked for (MultiHal, §2.2)."""

from tasks.multihal.core.rows import LinkedQuestion
from tasks.text.ids import id_number
from tasks.text.values.literals import Date, Number, read_plain_date

Target = int | Date | Number
"""Number of the object's item, or the value."""
Pair = tuple[str, int, Target]
"""Row id, number of the subject, and what is looked for from there."""


def pair_up(row: LinkedQuestion) -> list[Pair]:
    """Return a question's subject-object pairs, each once, without those of one item with itself."""
    subjects = list(dict.fromkeys(id_number(link.qid) for link in row.subject_links))
    if row.answer_type == "other":
        objects = list(dict.fromkeys(id_number(link.qid) for link in row.object_links))
        return [(row.id, subject, target) for subject in subjects for target in objects if subject != target]
    assert row.looked_for is not None
    if row.answer_type == "date":
        return [(row.id, subject, read_plain_date(row.looked_for)) for subject in subjects]
    unit = id_number(row.looked_for_unit) if row.looked_for_unit else None
    return [(row.id, subject, Number(row.looked_for, unit)) for subject in subjects]
