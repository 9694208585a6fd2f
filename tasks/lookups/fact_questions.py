"""Make questions from facts by templates, and merge equal questions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.rows import MergedAway, Reject, RowOutcome
from factmill.tasks.lookups.facts import NamedFact


@dataclass(frozen=True, slots=True)
class UnmergedQuestion:
    """A question with its answer as read from a source, before a relation's equal questions are merged."""

    id: str
    """Id of the row that it was read from."""
    relation: str
    question: str
    answer: str
    source_name: str
    source_row: int
    fact: NamedFact | None = None
    """The fact that it was made from, if any."""


def make_fact_questions(
    facts: Iterable[NamedFact], templates: Mapping[str, str], source: str
) -> Iterator[UnmergedQuestion | Reject | MergedAway]:
    """Yield each fact's question, made by its property's template, or the outcome of an unusable fact.

    `templates`: PID → question with `[X]` for the subject; `source`: name of the graph.
    """
    for fact in facts:
        if fact.drop_outcome:
            yield fact.drop_outcome
            continue
        assert fact.subject_name and fact.value_name
        question = templates[fact.relation].replace("[X]", fact.subject_name)
        place = f"{source} {fact.subject} {fact.relation} {fact.value}"
        yield UnmergedQuestion(fact.id, fact.relation, question, fact.value_name, place, fact.number, fact)


def make_question_id(relation: str, question: str, answers: Sequence[str]) -> str:
    """Make a row's id from its relation and a digest of its content, so that ids are stable when rows are added."""
    return f"{relation}-{digest_json([question, sorted(answers)])[:12]}"


def merge_equal_or_reject_conflicting(
    read: Iterable[UnmergedQuestion | Reject | MergedAway], make: Callable[[UnmergedQuestion, str], RowOutcome]
) -> Iterator[RowOutcome]:
    """Yield the rows of distinct questions: equal ones are merged, and questions with different answers rejected.

    The first of equal questions is kept, under an id made from its content (`make`: question and id → row). The reject
    reason of questions that rows answer differently is several_gold_answers.
    """
    asked: list[UnmergedQuestion] = []
    answers: dict[str, set[str]] = {}
    for each in read:
        if isinstance(each, UnmergedQuestion):
            asked.append(each)
            answers.setdefault(each.question, set()).add(each.answer)
        else:
            yield each
    kept: set[str] = set()
    for each in asked:
        row_id = make_question_id(each.relation, each.question, [each.answer])
        if len(found := answers[each.question]) > 1:
            yield Reject(each.id, "several_gold_answers", f"{each.question} {sorted(found)}")
        elif row_id in kept:
            yield MergedAway(each.id, row_id)
        else:
            kept.add(row_id)
            yield make(each, row_id)
