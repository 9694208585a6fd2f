"""First stages of BioKaLMA: pairs of people, their items, knowledge pools and first paragraph (Appendix A.1 to A.3)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

from prefect import Task, task

from factmill.tasks.assets import load_article_text_removal_rules, load_property_numbers
from factmill.tasks.biokalma.core.evolution import count_pools_by_relation
from factmill.tasks.biokalma.core.knowledge_sentences import verbalise_piece
from factmill.tasks.biokalma.core.pair_relations import (
    compose_opening_about_both_people,
    fold_name_case_and_apostrophes,
    join_lines_and_end_with_stop,
)
from factmill.tasks.biokalma.core.rows import (
    NameBearingPersonCandidateRow,
    PairWithInitialParagraph,
    PairWithKnowledgePools,
    PairWithRelationCounts,
    PersonPair,
    RelationWithPersonGraphCount,
    ResolvedPair,
)
from factmill.tasks.biokalma.params import BiokalmaInputs
from factmill.tasks.biokalma.sources.person_pairs import (
    RELATION_FILE,
    is_complete_name,
    load_build_pair_relations,
    load_relation_wordings,
    parse_person_pair_rows,
)
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.wikidata import HUMAN_QID, ItemMatchedByName, Qid, make_describe_item_call
from factmill.tasks.core.calls.wikipedia import (
    RevisionHtmlContent,
    make_page_revision_at_call,
    make_revision_html_call,
    parse_page_revision_call_body,
    parse_revision_html,
)
from factmill.tasks.core.rows import WIKIDATA_LICENCE, MergedAway, Reject, RowOutcome, make_arrow_table
from factmill.tasks.engine.batches import (
    BatchInProgress,
    make_batch_cache_key,
    open_batch,
    send_calls_and_mark_resultless_for_retry,
)
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.errors import UsageError
from factmill.tasks.lookups.classes import look_up_claims_by_qid, look_up_class_membership_by_qid
from factmill.tasks.lookups.facts import NamedFact, load_named_facts_as_input_rows, look_up_item_facts_by_qid
from factmill.tasks.lookups.labels import (
    look_up_item_candidates_by_name,
    look_up_item_descriptions_by_qid,
    look_up_labels_by_entity_id,
)
from factmill.tasks.storage.source_files import MALFORMED_ROW
from factmill.tasks.text.article_html import extract_article_text
from factmill.tasks.text.values.wikidata_literals import format_wikidata_date
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

BearersByName = dict[str, list[ItemMatchedByName]]
"""Name → items that bear it."""
_MAX_NAMES_IN_REASON = 6


def check_class_exists(run: BuildRun, inputs: BiokalmaInputs) -> None:
    """Raise UsageError for a class that Wikidata does not know, before any pair is drawn."""
    qid, wikidata = inputs.params.class_qid, run.services.wikidata
    if not inputs.from_wikidata or qid == HUMAN_QID:
        return
    asked = [make_describe_item_call(wikidata.identity, qid)]
    if send_calls_and_mark_resultless_for_retry(run, wikidata, asked, lambda body: any(body.values())):
        raise UsageError(f"--class-qid {qid}: {wikidata.identity} has no such item")


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def read_person_pairs(batch: StageBatch) -> BatchReceipt:
    """Read paragraphs about two people from a file, with the relation between the two (Appendix A.1)."""
    work = open_batch(batch)
    inputs = work.inputs(BiokalmaInputs)
    left = inputs.limits[batch.unit]
    (source,) = work.source_files(batch.unit)
    outcomes: list[RowOutcome] = []
    for read in parse_person_pair_rows(
        source,
        complete_names=inputs.params.class_qid == HUMAN_QID,
        own=inputs.own_source,
        user_relations=work.source_files(RELATION_FILE),
    ):
        if left == 0:
            break
        # a row that cannot be read is none of the limit
        is_malformed = isinstance(read.outcome, Reject) and read.outcome.reason == MALFORMED_ROW
        if left is not None and not is_malformed:
            left -= 1
        work.add_input_row(read.row_id, read.raw_json)
        outcomes.append(read.outcome)
    return work.finish(outcomes, PersonPair)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def make_person_pairs_from_facts(batch: StageBatch) -> BatchReceipt:
    """Take the pairs of a class that a relation joins from the world's Wikidata (our alternative to files)."""
    work = open_batch(batch)
    inputs = work.inputs(BiokalmaInputs)
    facts = load_named_facts_as_input_rows(
        work, batch.unit, inputs.limits[batch.unit], name_lookup=partial(look_up_labels_by_entity_id, language="en")
    )
    asked = [(fact.id, qid) for fact in facts for qid in (fact.subject, fact.value)]
    is_instance, failed = look_up_class_membership_by_qid(work, asked, inputs.params.class_qid)
    return work.finish(
        (failed.get(fact.id) or _make_pair_from_fact(work, fact, is_instance) for fact in facts), PersonPair
    )


def _make_pair_from_fact(work: BatchInProgress, fact: NamedFact, is_instance: Mapping[str, bool]) -> RowOutcome:
    class_qid = work.inputs(BiokalmaInputs).params.class_qid
    pair = (fact.subject, fact.value)
    if others := [qid for qid in pair if not is_instance[qid]]:
        return Reject(fact.id, "not_of_class", f"{', '.join(others)}: not an instance of {class_qid}")
    if fact.drop_outcome:
        return fact.drop_outcome
    if fact.subject == fact.value:
        return Reject(fact.id, "self_relation", f"the relation joins {fact.subject} to itself")
    person, other = fact.subject_name, fact.value_name
    assert person and other
    if class_qid == HUMAN_QID and (short := [name for name in (person, other) if not is_complete_name(name)]):
        return Reject(fact.id, "incomplete_name", f"{short[0]!r}: expected a first and a family name")
    return PersonPair(
        id=fact.id,
        person=person,
        relation=fact.relation,
        relation_label=load_build_pair_relations(work.source_files(RELATION_FILE)).labels[fact.relation],
        other=other,
        paragraph=None,
        given=list(pair),
        source_name=work.run.services.wikidata.identity,
        source_row=fact.number,
    )


def choose_pair_reader(inputs: BiokalmaInputs) -> Task[[StageBatch], BatchReceipt]:
    """Return the stage that reads pairs from the build's source."""
    return make_person_pairs_from_facts if inputs.from_wikidata else read_person_pairs


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def resolve_people(batch: StageBatch) -> BatchReceipt:
    """Find the two items with these names that the relation joins (Appendix A.2); publish all candidates."""
    work = open_batch(batch)
    rows = work.rows(PersonPair)
    bearers, failed = look_up_item_candidates_by_name(
        work, ((row.id, name) for row in rows for name in (row.person, row.other))
    )
    asked = [(row.id, item.qid) for row in rows for name in (row.person, row.other) for item in bearers.get(name, [])]
    is_instance, failed_class = look_up_class_membership_by_qid(
        work, asked, work.inputs(BiokalmaInputs).params.class_qid
    )
    values, failed_claims = _look_up_values_by_relation_and_bearer(work, rows, bearers)
    failed |= failed_class | failed_claims
    candidates: list[NameBearingPersonCandidateRow] = []
    outcomes = [
        failed.get(row.id) or _resolve_pair_and_add_candidates(row, bearers, is_instance, values, candidates)
        for row in rows
    ]
    work.extras = make_arrow_table(NameBearingPersonCandidateRow, candidates)
    return work.finish(outcomes, ResolvedPair)


def _look_up_values_by_relation_and_bearer(
    work: BatchInProgress, rows: Sequence[PersonPair], bearers: BearersByName
) -> tuple[dict[tuple[str, str], set[str]], dict[str, Reject]]:
    """Return (relation, bearer of a person's name) → its values, and row id → Reject."""
    values: dict[tuple[str, str], set[str]] = {}
    failed: dict[str, Reject] = {}
    by_relation: dict[str, list[PersonPair]] = defaultdict(list)
    for row in rows:
        by_relation[row.relation].append(row)
    for pid, group in by_relation.items():
        asked = [(row.id, item.qid) for row in group for item in bearers.get(row.person, [])]
        claims, failed_now = look_up_claims_by_qid(work, asked, [pid])
        failed |= failed_now
        values |= {(pid, qid): {edge.qid for edge in edges} for qid, edges in claims.items()}
    return values, failed


def _resolve_pair_and_add_candidates(
    row: PersonPair,
    bearers: BearersByName,
    is_instance: dict[str, bool],
    values: dict[tuple[str, str], set[str]],
    candidates: list[NameBearingPersonCandidateRow],
) -> RowOutcome:
    people = [item.qid for item in bearers[row.person] if is_instance[item.qid]]
    others = [item.qid for item in bearers[row.other] if is_instance[item.qid]]
    joined = [(a, b) for a in people for b in others if b in values[row.relation, a] and a != b]
    if fold_name_case_and_apostrophes(row.person) == fold_name_case_and_apostrophes(row.other):
        # siblings with the same name match in both orders
        joined = [
            (a, b) for a, b in joined if (b, a) not in joined or get_wikidata_id_number(a) < get_wikidata_id_number(b)
        ]
    roles: tuple[tuple[Literal["person", "other"], str, list[tuple[Qid, Qid]]], ...] = (
        ("person", row.person, joined),
        ("other", row.other, [(b, a) for a, b in joined]),
    )
    for role, name, pairs in roles:
        candidates += [
            NameBearingPersonCandidateRow(
                id=f"{row.id}-{role}-{item.qid}",
                row_id=row.id,
                role=role,
                name=name,
                qid=item.qid,
                via=item.matched_by,
                is_of_class=is_instance[item.qid],
                joined_to=[b for a, b in pairs if a == item.qid],
            )
            for item in bearers[name]
        ]
    for name, found in ((row.person, people), (row.other, others)):
        if not found:
            return Reject(row.id, "name_not_found", f"no item of the class has the name {name!r}")
    if not joined:
        both = f"none of {_format_limited_list(people)} to any of {_format_limited_list(others)}"
        return Reject(row.id, "not_joined", f"{row.relation} joins {both}")
    if len(joined) > 1:
        pairs_text = _format_limited_list([f"{a} and {b}" for a, b in joined])
        return Reject(row.id, "ambiguous_pair", f"{row.relation} joins several pairs: {pairs_text}")
    fields = {"person_candidates": len(people), "other_candidates": len(others)}
    return row.extend_to(ResolvedPair, person_qid=joined[0][0], other_qid=joined[0][1], **fields)


def _format_limited_list(found: Sequence[str]) -> str:
    shown = ", ".join(found[:_MAX_NAMES_IN_REASON])
    return f"{shown} and {len(found) - _MAX_NAMES_IN_REASON} more" if len(found) > _MAX_NAMES_IN_REASON else shown


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def deduplicate_person_pairs(batch: StageBatch) -> BatchReceipt:
    """Merge pairs of the same two people: a child and its father are one pair, whatever relation joins them.

    A pair with a paragraph is preferred, then the first. Of a person's pairs only the first `per_person` stay.
    """
    work = open_batch(batch)
    per_person = work.inputs(BiokalmaInputs).params.per_person
    groups: dict[tuple[int, ...], list[ResolvedPair]] = defaultdict(list)
    for row in work.rows(ResolvedPair):
        groups[tuple(sorted(map(get_wikidata_id_number, row.names)))].append(row)
    pairs: Counter[str] = Counter()
    outcomes: list[RowOutcome] = []
    for group in groups.values():
        kept = min(group, key=lambda row: row.paragraph is None)
        if full := [qid for qid in kept.names if pairs[qid] == per_person]:
            detail = f"{per_person} earlier pairs are about {full[0]}; --per-person allows more"
            outcomes.append(Reject(kept.id, "person_has_enough_rows", detail))
        else:
            pairs.update(kept.names.keys())
            outcomes.append(kept)
        outcomes += (MergedAway(row.id, kept.id) for row in group if row is not kept)
    return work.finish(outcomes, ResolvedPair)


DATE_PIDS = frozenset({"P569", "P570", "P571", "P576"})
"""Birth and death of people; inception and dissolution of others. Pools contain no other dates or numbers."""
BIRTH_DATE_PID = "P569"
COUNTED_PIDS = {"countries": ("P27",), "cities": ("P19", "P20"), "occupations": ("P106",)}
"""Column → properties whose values the report counts (§2.3)."""
WIKIPEDIA_LICENCE = "CC-BY-SA-4.0"


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def pool_knowledge(batch: StageBatch) -> BatchReceipt:
    """Fetch both people's one-hop graphs, without properties irrelevant to a biography (Appendix A.2)."""
    work = open_batch(batch)
    rows = work.rows(ResolvedPair)
    facts, failed = look_up_item_facts_by_qid(work, ((row.id, qid) for row in rows for qid in row.names))
    left_out = load_pids_excluded_from_pools(work.inputs(BiokalmaInputs).params.class_qid)
    return work.finish(
        (failed.get(row.id) or _add_pools_and_distinguish_names(row, facts, left_out) for row in rows),
        PairWithKnowledgePools,
    )


def load_pids_excluded_from_pools(class_qid: str) -> set[str]:
    """Load the PIDs of properties that are excluded from a class's pools."""
    lists = ("pool_left_out", "organisation_properties") if class_qid == HUMAN_QID else ("pool_left_out",)
    return {f"P{number}" for name in lists for number in load_property_numbers(name)}


def _add_pools_and_distinguish_names(
    row: ResolvedPair, facts: Mapping[str, Sequence[ItemFact]], left_out: set[str]
) -> RowOutcome:
    pools = {qid: make_knowledge_pool(qid, facts[qid], left_out) for qid in row.names}
    if empty := [qid for qid, pool in pools.items() if not pool]:
        return Reject(row.id, "empty_pool", f"{empty[0]} has no facts except those that pools exclude")
    births = {qid: _list_years_and_dates_of_birth(facts[qid]) for qid in row.names}
    names = _add_elder_or_younger_to_equal_names(row, births)
    if isinstance(names, Reject):
        return names
    known = [fact for qid in row.names for fact in facts[qid]]
    return row.replace(person=names[0], other=names[1]).extend_to(
        PairWithKnowledgePools,
        person_pool=pools[row.person_qid],
        other_pool=pools[row.other_qid],
        birth_years=[year for dates in births.values() for year, _ in dates],
        **{
            kind: sorted({fact.qid for fact in known if fact.pid in pids and fact.qid}, key=get_wikidata_id_number)
            for kind, pids in COUNTED_PIDS.items()
        },
    )


def _add_elder_or_younger_to_equal_names(
    row: ResolvedPair, births: Mapping[str, Sequence[tuple[int, str]]]
) -> tuple[str, str] | Reject:
    """Return the two names; equal names get "(the elder)" and "(the younger)", by dates of birth."""
    if fold_name_case_and_apostrophes(row.person) != fold_name_case_and_apostrophes(row.other):
        return row.person, row.other
    born = [min(births[qid], default=None) for qid in row.names]
    if born[0] is None or born[1] is None or born[0] == born[1]:
        detail = f"{row.person_qid} and {row.other_qid} are both called {row.person}, and dates of birth do not show which one is older"
        return Reject(row.id, "same_name", detail)
    ages = ("the elder", "the younger") if born[0] < born[1] else ("the younger", "the elder")
    return f"{row.person} ({ages[0]})", f"{row.other} ({ages[1]})"


def _list_years_and_dates_of_birth(facts: Iterable[ItemFact]) -> list[tuple[int, str]]:
    """Return each year, negative before the common era, and RDF date; a date's astronomical year 0 is 1 BC."""
    found = []
    for date in (fact.value for fact in facts if fact.pid == BIRTH_DATE_PID and not fact.qid and fact.value):
        year = int(date.lstrip("+-").split("-")[0]) * (-1 if date.startswith("-") else 1)
        found.append((year if year > 0 else year - 1, date))
    return found


def make_knowledge_pool(qid: str, facts: Iterable[ItemFact], excluded_pids: set[str]) -> list[PersonKnowledgePiece]:
    """Return the pieces of knowledge about an item: claims with labels, and dates; each once."""
    pieces: dict[tuple[str, str | None, str], PersonKnowledgePiece] = {}
    for fact in facts:
        if fact.pid in excluded_pids or not (fact.property and fact.value and (fact.qid or fact.pid in DATE_PIDS)):
            continue
        value = fact.value if fact.qid else format_wikidata_date(fact.value, fact.precision)
        piece = PersonKnowledgePiece(
            qid=qid,
            pid=fact.pid,
            property=fact.property,
            value_qid=fact.qid,
            value=value,
            precision=fact.precision,
            statement=fact.statement,
        )
        pieces.setdefault((fact.pid, fact.qid, value), piece)
    return list(pieces.values())


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def find_pair_paragraphs(batch: StageBatch) -> BatchReceipt:
    """Find the paragraph that evolution starts from: the source's, else an article's, else the relation in words."""
    work = open_batch(batch)
    rows = work.rows(PairWithKnowledgePools)
    articles, failed = _look_up_articles_by_qid(work, [row for row in rows if row.paragraph is None])
    return work.finish(
        (failed.get(row.id) or _add_text_from_file_article_or_fact(work, row, articles) for row in rows),
        PairWithInitialParagraph,
    )


def _add_text_from_file_article_or_fact(
    work: BatchInProgress, row: PairWithKnowledgePools, articles: Mapping[str, RevisionHtmlContent]
) -> RowOutcome:
    if row.paragraph is not None:
        licence = work.inputs(BiokalmaInputs).licence
        text = join_lines_and_end_with_stop(row.paragraph)
        return row.extend_to(PairWithInitialParagraph, text=text, text_source="file", text_pages=[], licence=licence)
    for qid, about in ((row.person_qid, row.other), (row.other_qid, row.person)):
        if (page := articles.get(qid)) is None:
            continue
        article = extract_article_text(page.text, load_article_text_removal_rules())
        if opening := compose_opening_about_both_people(article, row.names[qid], about):
            text = join_lines_and_end_with_stop(opening)
            origin = {"text_source": "article", "text_pages": [f"{page.title}, revision {page.revid}"]}
            return row.extend_to(PairWithInitialParagraph, text=text, **origin, licence=WIKIPEDIA_LICENCE)
    relation = next(
        (piece for piece in row.person_pool if (piece.pid, piece.value_qid) == (row.relation, row.other_qid)), None
    )
    if relation is None:
        return Reject(row.id, "no_paragraph", f"no article names both people, and {row.relation} is not in their pools")
    sentence = verbalise_piece(relation, row.person, load_relation_wordings())
    return row.extend_to(
        PairWithInitialParagraph, text=sentence, text_source="fact", text_pages=[], licence=WIKIDATA_LICENCE
    )


def _look_up_articles_by_qid(
    work: BatchInProgress, rows: Sequence[PairWithKnowledgePools]
) -> tuple[dict[str, RevisionHtmlContent], dict[str, Reject]]:
    """Fetch QID → text of its English article as of the epoch, without items that have no article."""
    wikipedia = work.run.services.wikipedia
    asked = [(row.id, qid) for row in rows for qid in row.names]
    items, failed = look_up_item_descriptions_by_qid(work, asked)
    titles = {qid: item.title for qid, item in items.items() if item.title}
    at = work.inputs(BiokalmaInputs).epoch
    found = ((row_id, qid) for row_id, qid in asked if qid in titles)
    dated = ((row_id, qid, make_page_revision_at_call(wikipedia.identity, titles[qid], at)) for row_id, qid in found)
    revisions, failed_now = work.call_and_parse(wikipedia, dated, parse_page_revision_call_body, "wikipedia_failed")
    revids = {qid: revision.revid for qid, revision in revisions.items() if revision.revid is not None}
    there = ((row_id, qid) for row_id, qid in asked if qid in revids)
    texts = (
        (row_id, qid, make_revision_html_call(wikipedia.identity, revids[qid], titles[qid])) for row_id, qid in there
    )
    articles, failed_last = work.call_and_parse(wikipedia, texts, parse_revision_html, "wikipedia_failed")
    return articles, failed | failed_now | failed_last


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def count_relations_over_build(batch: StageBatch) -> BatchReceipt:
    """Count the people's graphs in which each relation occurs, over all pairs of the build (Equation 1)."""
    work = open_batch(batch)
    rows = work.rows(PairWithInitialParagraph)
    counts = count_pools_by_relation([pool for row in rows for pool in (row.person_pool, row.other_pool)])
    labels = {piece.pid: piece.property for row in rows for piece in row.pool}
    counts_by_relation = {
        pid: RelationWithPersonGraphCount(id=pid, property=labels[pid], graphs=graphs, graphs_in_all=2 * len(rows))
        for pid, graphs in sorted(counts.items(), key=lambda pair: get_wikidata_id_number(pair[0]))
    }
    work.extras = make_arrow_table(RelationWithPersonGraphCount, counts_by_relation.values())
    pids = ((row, dict.fromkeys(piece.pid for piece in row.pool)) for row in rows)
    return work.finish(
        (
            row.extend_to(PairWithRelationCounts, relation_counts=[counts_by_relation[pid] for pid in of])
            for row, of in pids
        ),
        PairWithRelationCounts,
    )
