"""Look up facts of a relation and around items in a world's Wikidata, and make questions from facts by templates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from factmill.tasks.core.calls.item_facts import ItemFact, make_item_facts_call, parse_item_facts
from factmill.tasks.core.calls.wikidata import ItemNeighbour, make_list_facts_call, parse_fact_pairs
from factmill.tasks.core.digests import canonical_json, digest_json
from factmill.tasks.core.rows import MergedAway, Reject, RowOutcome
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.lookups.classes import look_up_claims_by_qid
from factmill.tasks.lookups.labels import look_up_aliases_by_qid, look_up_item_names_by_qid

SUBJECTS_PER_PAGE = 5000
"""Largest number of subjects per page."""
NameLookup = Callable[
    [BatchInProgress, Iterable[tuple[str, str]]], tuple[Mapping[str, str | None], Mapping[str, Reject]]
]
"""Function from (row id, QID) pairs to QID → its name, and row id → Reject on failure."""


@dataclass(frozen=True, slots=True)
class NamedFact:
    """A fact with the names of its items, as a row of a batch."""

    id: str
    """Id of the row: relation, subject and value."""
    number: int
    """Position among the relation's facts, from 1."""
    subject: str
    relation: str
    value: str
    subject_name: str | None
    value_name: str | None
    aliases: tuple[str, ...]
    """Other names of the value, sorted, if requested; then names of other values that were merged into it."""
    values: tuple[str, ...]
    """The value, then values of the subject's other facts that were merged into it."""
    drop_outcome: Reject | MergedAway | None
    """Outcome of an unusable row: names are missing or could not be looked up, or there are several values."""

    @property
    def answers(self) -> tuple[str, ...]:
        """All names of the values, starting with the first value's label."""
        return tuple(dict.fromkeys([*filter(None, [self.value_name]), *self.aliases]))


def look_up_claims_within_hops_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]], pids: Iterable[str], hops: int
) -> tuple[dict[str, list[ItemNeighbour]], dict[str, Reject]]:
    """Return QID → its claims with the given properties, for every (row id, QID) and the items reached in `hops` steps.

    Also returns row id → Reject for failed look-ups.
    """
    wanted = list(pids)
    claims: dict[str, list[ItemNeighbour]] = {}
    failed: dict[str, Reject] = {}
    todo, seen = list(dict.fromkeys(row_qid_pairs)), set[tuple[str, str]]()
    for _ in range(hops):
        found, lost = look_up_claims_by_qid(work, todo, wanted)
        claims |= found
        failed |= lost
        seen.update(todo)
        reached = ((row_id, edge.qid) for row_id, qid in todo for edge in found.get(qid, ()))
        todo = [each for each in dict.fromkeys(reached) if each not in seen]
    return claims, failed


def look_up_item_facts_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]]
) -> tuple[dict[str, list[ItemFact]], dict[str, Reject]]:
    """Return QID → its one-hop facts, for every (row id, QID), and row id → Reject if Wikidata failed."""
    service = work.run.services.wikidata
    calls = ((row_id, qid, make_item_facts_call(service.identity, qid)) for row_id, qid in row_qid_pairs)
    return work.call_and_parse(service, calls, parse_item_facts)


def look_up_fact_pairs(work: BatchInProgress, relation: str, max_subjects: int | None) -> list[tuple[str, str]]:
    """Look up a relation's (subject, value) pairs page by page, of at most `limit` subjects (None: all)."""
    wikidata = work.run.services.wikidata
    facts: list[tuple[str, str]] = []
    after: str | None = None
    while True:
        asked = len({subject for subject, _ in facts})
        page_size = SUBJECTS_PER_PAGE if max_subjects is None else min(SUBJECTS_PER_PAGE, max_subjects - asked)
        if page_size <= 0:
            return facts
        call = make_list_facts_call(wikidata.identity, relation, after, page_size)
        reply = work.get_call_records(wikidata, [(relation, call)])[call.key].reply()
        if reply.status != "ok":
            raise ServiceUnreachable(
                f"{wikidata.identity} did not return the facts of {relation}: {reply.error}; try again later"
            )
        page = parse_fact_pairs(reply.body)
        if not page:
            return facts
        facts.extend(page)
        after = page[-1][0]


def load_named_facts_as_input_rows(
    work: BatchInProgress,
    relation: str,
    max_subjects: int | None,
    *,
    multiple_values: Literal["keep", "reject", "first", "all"] = "keep",
    aliases: bool = False,
    name_lookup: NameLookup = look_up_item_names_by_qid,
) -> list[NamedFact]:
    """Load a relation's distinct facts as rows of a batch, with the English names of subject and value.

    `limit`: largest number of subjects; None: all. `multiple_values`: handling of a subject with several values. `keep`: each
    is a fact; `reject`: none is (reason several_gold_answers); `first` and `all`: the first named one, by number, is,
    and the others are merged into it; with `first` it keeps only its own names, with `all` it gets those of all values.
    `aliases`: also look up other names of values. `name_lookup`: looks up names. A fact with an unnamed item is rejected
    (item_without_label).
    """
    pairs = list(dict.fromkeys(look_up_fact_pairs(work, relation, max_subjects)))
    ids = {pair: f"{relation}-{pair[0]}-{pair[1]}" for pair in pairs}
    names, failed = name_lookup(work, ((ids[pair], qid) for pair in pairs for qid in pair))
    others: Mapping[str, list[str]] = {}
    if aliases:
        others, lost = look_up_aliases_by_qid(work, ((ids[pair], pair[1]) for pair in pairs))
        failed = {**failed, **lost}
    values: dict[str, list[str]] = {}
    for subject, value in pairs:
        values.setdefault(subject, []).append(value)
    first: dict[str, str] = {}

    def find_trouble(pair: tuple[str, str]) -> Reject | MergedAway | None:
        row_id, subject = ids[pair], pair[0]
        if row_id in failed:
            return failed[row_id]
        if missing := [qid for qid in pair if not names.get(qid)]:
            return Reject(row_id, "item_without_label", f"{missing[0]} has no English label")
        if multiple_values == "reject" and len(values[subject]) > 1:
            return Reject(row_id, "several_gold_answers", f"{subject} has {len(values[subject])} values of {relation}")
        if multiple_values in ("first", "all") and first.setdefault(subject, row_id) != row_id:
            return MergedAway(row_id, first[subject])
        return None

    taken = []
    for number, pair in enumerate(pairs, start=1):
        subject, value = pair
        work.add_input_row(ids[pair], canonical_json({"subject": subject, "relation": relation, "value": value}))
        more = values[subject] if multiple_values == "all" else []
        found = [value, *(each for each in more if each != value and names.get(each))]
        aliases_of = [*others.get(value, ())]
        for each in found[1:]:
            aliases_of += [names[each] or "", *others.get(each, ())]
        named = (names.get(subject), names.get(value), tuple(aliases_of))
        taken.append(NamedFact(ids[pair], number, subject, relation, value, *named, tuple(found), find_trouble(pair)))
    return taken


@dataclass(frozen=True, slots=True)
class QuestionBeforeMergingEqual:
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
) -> Iterator[QuestionBeforeMergingEqual | Reject | MergedAway]:
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
        yield QuestionBeforeMergingEqual(fact.id, fact.relation, question, fact.value_name, place, fact.number, fact)


def make_question_id(relation: str, question: str, answers: Sequence[str]) -> str:
    """Make a row's id from its relation and a digest of its content, so that ids are stable when rows are added."""
    return f"{relation}-{digest_json([question, sorted(answers)])[:12]}"


def merge_equal_or_reject_conflicting(
    read: Iterable[QuestionBeforeMergingEqual | Reject | MergedAway],
    make: Callable[[QuestionBeforeMergingEqual, str], RowOutcome],
) -> Iterator[RowOutcome]:
    """Yield the rows of distinct questions: equal ones are merged, and questions with different answers rejected.

    The first of equal questions is kept, under an id made from its content (`make`: question and id → row). The reject
    reason of questions that rows answer differently is several_gold_answers.
    """
    asked: list[QuestionBeforeMergingEqual] = []
    answers: dict[str, set[str]] = {}
    for each in read:
        if isinstance(each, QuestionBeforeMergingEqual):
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
