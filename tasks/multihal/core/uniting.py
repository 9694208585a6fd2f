"""Questions of several foundations that say the same, united into the earliest (MultiHal §2.1)."""

from collections.abc import Iterable, Iterator, Sequence

from tasks.core.rows import Merged
from tasks.core.vectors.duplicates import Duplicates
from tasks.multihal.core.rows import FoundationQuestion


def unite_questions(
    questions: Sequence[FoundationQuestion], duplicates: Duplicates
) -> Iterator[FoundationQuestion | Merged]:
    """Yield what becomes of each question, in order: itself, with what its duplicates add, or Merged into the first.

    The first keeps its question and answer. The others' answers join its optional ones, and incorrect answers and
    contexts are put together, none twice (case and spaces aside); what any of them takes for right is not incorrect.
    """
    if duplicates.count != len(questions):
        raise ValueError(f"{len(questions)} questions, but duplicates among {duplicates.count} rows")
    leaders = duplicates.find_leaders()
    groups: dict[int, list[FoundationQuestion]] = {}
    for question, leader in zip(questions, leaders, strict=True):
        groups.setdefault(leader, []).append(question)
    for number, (question, leader) in enumerate(zip(questions, leaders, strict=True)):
        if leader != number:
            yield Merged(question.id, questions[leader].id)
        elif len(groups[number]) == 1:
            yield question
        else:
            yield _unite(question, groups[number])


def _unite(first: FoundationQuestion, group: Sequence[FoundationQuestion]) -> FoundationQuestion:
    right = [answer for row in group for answer in (row.output, *row.optional_output)]
    optional = _leave_out(right, [first.output])
    incorrect = _leave_out((answer for row in group for answer in row.incorrect_answers), right)
    context = _leave_out((passage for row in group for passage in row.context), [])
    return first.replace(
        optional_output=optional,
        incorrect_answers=incorrect,
        context=context,
        # a row must be used as each foundation whose words it holds allows
        licence=" AND ".join(dict.fromkeys(row.licence for row in group)),
    )


def _leave_out(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the texts in order, without repeats and without the others."""
    seen = {_fold(text) for text in others}
    left: dict[str, str] = {}
    for text in texts:
        if _fold(text) not in seen:
            left.setdefault(_fold(text), text)
    return list(left.values())


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
