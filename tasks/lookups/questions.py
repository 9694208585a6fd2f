"""Questions made of facts by templates, and questions that say the same."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.rows import Merged, Outcome, Reject, Row
from factmill.tasks.lookups.facts import TakenFact


@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """A question with its answer as a source has it: all of a relation are held until it is known which say the same."""

    id: str
    """Id of the row that it came as."""
    relation: str
    question: str
    answer: str
    source_name: str
    source_row: int
    fact: TakenFact | None = None
    """The fact that it was made of."""


def make_fact_questions(
    facts: Iterable[TakenFact], templates: Mapping[str, str], source: str
) -> Iterator[ReadQuestion | Reject | Merged]:
    """Yield the question that its property's template makes of each fact, or what became of the fact.

    `templates`: PID → question with `[X]` in the place of the subject; `source`: name of the graph.
    """
    for fact in facts:
        if fact.trouble:
            yield fact.trouble
            continue
        assert fact.subject_name and fact.value_name
        question = templates[fact.relation].replace("[X]", fact.subject_name)
        place = f"{source} {fact.subject} {fact.relation} {fact.value}"
        yield ReadQuestion(fact.id, fact.relation, question, fact.value_name, place, fact.number, fact)


def question_id(relation: str, question: str, answers: Sequence[str]) -> str:
    """Return a row's id: its relation and a digest of its content, so that ids stay when rows are added."""
    return f"{relation}-{digest_json([question, sorted(answers)])[:12]}"


def unite_questions(
    read: Iterable[ReadQuestion | Reject | Merged], make: Callable[[ReadQuestion, str], Row]
) -> Iterator[Outcome]:
    """Yield rows of questions that differ: what says the same is united, a question with several answers rejected.

    A question is kept once, under its content's id (`make`: question and id → row); the first that asks it stands for it.
    The reason of a question that different rows answer differently is several_gold_answers.
    """
    asked: list[ReadQuestion] = []
    answers: dict[str, set[str]] = {}
    for each in read:
        if isinstance(each, ReadQuestion):
            asked.append(each)
            answers.setdefault(each.question, set()).add(each.answer)
        else:
            yield each
    kept: set[str] = set()
    for each in asked:
        row_id = question_id(each.relation, each.question, [each.answer])
        if len(found := answers[each.question]) > 1:
            yield Reject(each.id, "several_gold_answers", f"{each.question} {sorted(found)}")
        elif row_id in kept:
            yield Merged(each.id, row_id)
        else:
            kept.add(row_id)
            yield make(each, row_id)
