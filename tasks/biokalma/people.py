"""The first steps of BioKaLMA: pairs of people, and the items that their names mean (paper, Appendix A.1, A.2)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from prefect import task

from tasks.biokalma.core.pair_relations import fold_name
from tasks.biokalma.core.rows import CandidateRow, PersonPair, ResolvedPair
from tasks.biokalma.params import BiokalmaInputs
from tasks.biokalma.sources.lists import load_pair_relations
from tasks.biokalma.sources.person_pairs import is_complete_name, read_pairs
from tasks.core.calls.knowledge import HUMAN, Candidate, Qid, call_describe_item, call_find_items, read_candidates
from tasks.core.fingerprints import canonical_json
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Merged, Outcome, Reject, arrow_table
from tasks.engine.batches import Work, ask_before_work, batch_key, work_on
from tasks.engine.runs import Run
from tasks.errors import UsageError
from tasks.lookups.classes import find_instances, look_up_claims
from tasks.lookups.facts import list_facts
from tasks.lookups.labels import look_up_labels
from tasks.text.ids import id_number

Bearers = dict[str, list[Candidate]]
"""Name → items that bear it."""
_NAMED_IN_REASON = 6


def check_class(run: Run, qid: str) -> None:
    """Raise UsageError for a class of which the Wikidata says nothing, before any pair is drawn."""
    wikidata = run.services.wikidata
    asked = [call_describe_item(wikidata.identity, qid)]
    if ask_before_work(run, wikidata, asked, lambda body: any(body.values())):
        raise UsageError(f"--class {qid}: {wikidata.identity} knows no such item")


@task(cache_key_fn=batch_key, persist_result=True)
def read_person_pairs(batch: Batch) -> Receipt:
    """Read paragraphs about two people from a file, with the relation between the two (Appendix A.1)."""
    work = work_on(batch)
    inputs = work.inputs(BiokalmaInputs)
    limit = inputs.limits[batch.unit]
    (source,) = work.files(batch.unit)
    outcomes: list[Outcome] = []
    for read in read_pairs(source, complete_names=inputs.params.class_qid == HUMAN):
        if limit is not None and work.rows_in >= limit:
            break
        work.take(read.row_id, read.as_it_came)
        outcomes.append(read.outcome)
    return work.finish(outcomes, PersonPair)


@task(cache_key_fn=batch_key, persist_result=True)
def draw_person_pairs(batch: Batch) -> Receipt:
    """Take the pairs of a class that a relation joins from the world's Wikidata (our default beside files)."""
    work = work_on(batch)
    facts = list(dict.fromkeys(list_facts(work, batch.unit, work.inputs(BiokalmaInputs).limits[batch.unit])))
    ids = {(subject, value): f"{batch.unit}-{subject}-{value}" for subject, value in facts}
    asked = [(ids[fact], qid) for fact in facts for qid in fact]
    labels, unlabelled = look_up_labels(work, asked, "en")
    is_instance, failed = find_instances(work, asked, work.inputs(BiokalmaInputs).params.class_qid)
    failed |= unlabelled
    outcomes: list[Outcome] = []
    for number, fact in enumerate(facts, start=1):
        row_id = ids[fact]
        work.take(row_id, canonical_json({"person": fact[0], "relation": batch.unit, "other": fact[1]}))
        outcomes.append(_draw_pair(work, batch.unit, row_id, number, fact, labels, is_instance, failed.get(row_id)))
    return work.finish(outcomes, PersonPair)


def _draw_pair(
    work: Work,
    pid: str,
    row_id: str,
    number: int,
    fact: tuple[str, str],
    labels: dict[str, str],
    is_instance: dict[str, bool],
    failed: Reject | None,
) -> Outcome:
    if failed:
        return failed
    class_qid = work.inputs(BiokalmaInputs).params.class_qid
    if others := [qid for qid in fact if not is_instance[qid]]:
        return Reject(row_id, "not_of_class", f"{', '.join(others)}: not of {class_qid}")
    if missing := [qid for qid in fact if qid not in labels]:
        return Reject(row_id, "item_without_label", f"{missing[0]} has no English label")
    if fact[0] == fact[1]:
        return Reject(row_id, "self_relation", f"{fact[0]} is joined to itself")
    person, other = (labels[qid] for qid in fact)
    if class_qid == HUMAN and (short := [name for name in (person, other) if not is_complete_name(name)]):
        return Reject(row_id, "incomplete_name", f"{short[0]}: a first and a family name are wanted")
    return PersonPair(
        id=row_id,
        person=person,
        relation=pid,
        relation_label=load_pair_relations().label(pid),
        other=other,
        paragraph=None,
        given=list(fact),
        source_name=work.run.services.wikidata.identity,
        source_row=number,
    )


@task(cache_key_fn=batch_key, persist_result=True)
def resolve_people(batch: Batch) -> Receipt:
    """Find the two items that bear the names and are joined by the relation (Appendix A.2); all candidates are kept."""
    work = work_on(batch)
    rows = work.rows(PersonPair)
    bearers, failed = _find_bearers(work, rows)
    asked = [(row.id, item.qid) for row in rows for name in _names(row) for item in bearers.get(name, [])]
    is_instance, failed_class = find_instances(work, asked, work.inputs(BiokalmaInputs).params.class_qid)
    values, failed_claims = _look_up_values(work, rows, bearers)
    failed |= failed_class | failed_claims
    candidates: list[CandidateRow] = []
    outcomes = [failed.get(row.id) or _resolve(row, bearers, is_instance, values, candidates) for row in rows]
    work.extras = arrow_table(CandidateRow, candidates)
    return work.finish(outcomes, ResolvedPair)


def _names(row: PersonPair) -> tuple[str, str]:
    return row.person, row.other


def _find_bearers(work: Work, rows: Sequence[PersonPair]) -> tuple[Bearers, dict[str, Reject]]:
    service = work.run.services.wikidata
    calls = ((row.id, name, call_find_items(service.identity, name)) for row in rows for name in _names(row))
    return work.look_up(service, calls, read_candidates)


def _look_up_values(
    work: Work, rows: Sequence[PersonPair], bearers: Bearers
) -> tuple[dict[tuple[str, str], set[str]], dict[str, Reject]]:
    """Return (relation, bearer of a person's name) → its values, and row id → what failed."""
    values: dict[tuple[str, str], set[str]] = {}
    failed: dict[str, Reject] = {}
    by_relation: dict[str, list[PersonPair]] = defaultdict(list)
    for row in rows:
        by_relation[row.relation].append(row)
    for pid, group in by_relation.items():
        asked = [(row.id, item.qid) for row in group for item in bearers.get(row.person, [])]
        claims, failed_now = look_up_claims(work, asked, [pid])
        failed |= failed_now
        values |= {(pid, qid): {edge.qid for edge in edges} for qid, edges in claims.items()}
    return values, failed


def _resolve(
    row: PersonPair,
    bearers: Bearers,
    is_instance: dict[str, bool],
    values: dict[tuple[str, str], set[str]],
    candidates: list[CandidateRow],
) -> Outcome:
    people = [item.qid for item in bearers[row.person] if is_instance[item.qid]]
    others = [item.qid for item in bearers[row.other] if is_instance[item.qid]]
    joined = [(a, b) for a in people for b in others if b in values[row.relation, a] and a != b]
    if fold_name(row.person) == fold_name(row.other):
        # of two who have one name and are each other's siblings, either may come first
        joined = [(a, b) for a, b in joined if (b, a) not in joined or id_number(a) < id_number(b)]
    roles: tuple[tuple[Literal["person", "other"], str, list[tuple[Qid, Qid]]], ...] = (
        ("person", row.person, joined),
        ("other", row.other, [(b, a) for a, b in joined]),
    )
    for role, name, pairs in roles:
        candidates += [
            CandidateRow(
                id=f"{row.id}-{role}-{item.qid}",
                row_id=row.id,
                role=role,
                name=name,
                qid=item.qid,
                via=item.via,
                is_of_class=is_instance[item.qid],
                joined_to=[b for a, b in pairs if a == item.qid],
            )
            for item in bearers[name]
        ]
    for name, found in ((row.person, people), (row.other, others)):
        if not found:
            return Reject(row.id, "name_not_found", f"nobody of the class bears the name {name!r}")
    if not joined:
        return Reject(
            row.id, "not_joined", f"{row.relation} joins none of {_join_names(people)} to any of {_join_names(others)}"
        )
    if len(joined) > 1:
        told = [f"{a} and {b}" for a, b in joined]
        return Reject(row.id, "ambiguous_pair", f"{row.relation} joins {_join_names(told)}")
    person_qid, other_qid = joined[0]
    return row.extend(
        ResolvedPair,
        person_qid=person_qid,
        other_qid=other_qid,
        person_candidates=len(people),
        other_candidates=len(others),
    )


def _join_names(found: Sequence[str]) -> str:
    shown = ", ".join(found[:_NAMED_IN_REASON])
    return f"{shown} and {len(found) - _NAMED_IN_REASON} more" if len(found) > _NAMED_IN_REASON else shown


@task(cache_key_fn=batch_key, persist_result=True)
def unite_pairs(batch: Batch) -> Receipt:
    """Unite pairs of the same two people: a child and its father are one pair, whatever joins them.

    Of several the one with a paragraph stays, then the one that came first. Of a person's pairs the first few stay.
    """
    work = work_on(batch)
    return work.finish(_unite(work.rows(ResolvedPair), work.inputs(BiokalmaInputs).params.per_person), ResolvedPair)


def _unite(rows: Sequence[ResolvedPair], per_person: int) -> Iterable[Outcome]:
    groups: dict[tuple[int, int], list[ResolvedPair]] = defaultdict(list)
    for row in rows:
        first, second = sorted((id_number(row.person_qid), id_number(row.other_qid)))
        groups[first, second].append(row)
    pairs: Counter[str] = Counter()
    for group in groups.values():
        kept = min(group, key=lambda row: row.paragraph is None)
        people = (kept.person_qid, kept.other_qid)
        if full := [qid for qid in people if pairs[qid] == per_person]:
            told = f"{per_person} pairs before it are about {full[0]}; --per-person allows more"
            yield Reject(kept.id, "person_has_enough_rows", told)
        else:
            pairs.update(people)
            yield kept
        yield from (Merged(row.id, kept.id) for row in group if row is not kept)
