"""Rows of MultiHal, one model a stage; the last is the published table (paper §2, Appendix A, Table 6)."""

from typing import Literal

from tasks.core.rows import Row

AnswerType = Literal["date", "rank", "numerical", "other"]
"""What kind of thing the answer is; the first three are looked for as values, `other` as items."""


class FoundationQuestion(Row):
    """A question of one of the seven foundations, as its reader leaves it (paper §2, Table 1)."""

    source_dataset: str
    """Foundation: halueval, truthfulqa, felm, halubench, shroom2024, defan, simpleqa."""
    domain: str
    """The foundation's own name of the topic; "N/A" where it has none."""
    licence: str
    """Licence of the foundation's rows (SPDX id, or "none stated")."""
    input: str
    """The question."""
    output: str
    """The expected answer."""
    optional_output: list[str]
    """Other answers that are right too."""
    incorrect_answers: list[str]
    context: list[str]
    """Passages or addresses that the foundation gives with the question."""
    answer_type: AnswerType | None
    """As the foundation states it; null where it does not."""
    source_name: str
    """File that the row stands in."""
    source_row: int
    """Number of the row in its file, from 1."""
