"""Stages that resolve names to items (GRANOLA-EQ, paper §3.1, Appendix B): QIDs, descriptions, popularity."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from prefect import task

from factmill.tasks.assets import load_property_numbers
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.wikidata import (
    ItemDescription,
    ItemMatchedByName,
    ItemNeighbour,
    Pid,
    Qid,
    make_neighbours_call,
    parse_neighbour_edges,
)
from factmill.tasks.core.review import AutoReviewRules, ReviewItem, make_review_item
from factmill.tasks.core.rows import Reject, RowOutcome, make_arrow_table
from factmill.tasks.engine.batches import (
    BatchInProgress,
    apply_and_store_review_decisions,
    make_batch_cache_key,
    open_batch,
)
from factmill.tasks.granola.core.linking import (
    COMPARED_PIDS,
    DESCRIPTION_PIDS,
    ENCLOSING_PLACE_PIDS,
    KINSHIP_RELATIONS,
    PLACE_RELATIONS,
    NameBearer,
    RelationBetweenBearersOfTwoNames,
    choose_entity_pair,
    find_bearer_pairs_in_relation,
    find_birth_and_death_years,
    find_contradicting_lifetimes_or_places,
    find_relation_doubt_flag,
    is_only_place_in_regions_of_subject,
    make_description,
)
from factmill.tasks.granola.core.rows import (
    DescribedQuestion,
    LinkedQuestion,
    NameBearingItemCandidateRow,
    QuestionWithExtractedEntityName,
    QuestionWithPopularity,
)
from factmill.tasks.granola.description_parsing import load_lexicon, read_kinds_of_thing_described
from factmill.tasks.granola.params import GranolaInputs
from factmill.tasks.lookups.classes import look_up_claims_by_qid
from factmill.tasks.lookups.facts import look_up_claims_within_hops_by_qid, look_up_item_facts_by_qid
from factmill.tasks.lookups.labels import look_up_item_candidates_by_name, look_up_item_descriptions_by_qid
from factmill.tasks.lookups.popularity import look_up_page_views_by_title
from factmill.tasks.text.text_normalization import normalize_answer

EntityRole = Literal["question", "answer"]
BearerPair = tuple[Sequence[ItemMatchedByName], Sequence[ItemMatchedByName]]
"""Items that bear the name of the question entity, and those that bear the answer's."""
OTHER_VALUE_FLAG = "graph_has_another_value"
AUTO_RULES: AutoReviewRules = {OTHER_VALUE_FLAG: "open", "another_country": "drop", "nothing_in_common": "drop"}
"""Review flag → action of the policy `auto`: a row that Wikidata contradicts may be right, so a reviewer decides."""
_ENCLOSING_PLACE_HOPS = 5
"""Maximum steps outwards from a place."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def link_question_entities(batch: StageBatch) -> BatchReceipt:
    """Look up the QIDs of both entities by exact label, then alias; choose one, keep all candidates (Appendix B).

    Items named by the source are not looked up.
    """
    work = open_batch(batch)
    rows = work.rows(QuestionWithExtractedEntityName)
    names = ((row.id, name) for row in rows if not row.subject_qid for name in (row.question_entity, row.answer))
    found, failed = look_up_item_candidates_by_name(work, names)
    bearers = {row.id: _get_items_bearing_row_names(row, found) for row in rows}
    held, unknown = _look_up_relation_matches(work, [row for row in rows if all(bearers[row.id])], bearers)
    failed |= unknown
    candidates: list[NameBearingItemCandidateRow] = []
    policy = work.inputs(GranolaInputs).params.policy
    outcomes = [
        failed.get(row.id)
        or _link_entities_and_add_candidates(row, bearers[row.id], held.get(row.id), policy, candidates)
        for row in rows
    ]
    work.extras = make_arrow_table(NameBearingItemCandidateRow, candidates)
    return work.finish(outcomes, LinkedQuestion)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def describe_entities(batch: StageBatch) -> BatchReceipt:
    """Fetch the English descriptions of both entities (§3.1, Appendix B); a missing one is made of the item's claims.

    Where Wikidata does not have the fact, a row is dropped if its items are certainly wrong namesakes, and goes into
    the review queue (our addition) if they are doubtful.
    """
    work = open_batch(batch)
    rows = work.rows(LinkedQuestion)
    inputs = work.inputs(GranolaInputs)
    policy = inputs.params.policy
    asked = [(row.id, qid) for row in rows for qid in _list_entity_answer_and_rival_qids(row, policy)]
    described, failed = look_up_item_descriptions_by_qid(work, asked)
    bare = [each for each in asked if each[1] in described and not described[each[1]].description]
    person_pids = {f"P{number}" for number in load_property_numbers("person_properties")}
    claims, unknown = look_up_claims_by_qid(work, bare, {*DESCRIPTION_PIDS, *person_pids})
    made = {qid: make_description(edges, person_pids) for qid, edges in claims.items()}
    bearers, lost = _look_up_bearer_data_if_unconfirmed(work, rows, policy, described, made)
    failed |= unknown | lost
    outcomes: list[RowOutcome] = []
    kept: list[DescribedQuestion] = []
    items: list[ReviewItem] = []
    for row in rows:
        found = failed.get(row.id) or _add_entity_descriptions(row, described, made)
        if isinstance(found, DescribedQuestion) and not row.fact_in_graph:
            against = _check_items_of_unconfirmed_fact(found, bearers, policy)
            items += [against] if isinstance(against, ReviewItem) else []
            found = against if isinstance(against, Reject) else found
        if isinstance(found, DescribedQuestion):
            kept.append(found)
        else:
            outcomes.append(found)
    outcomes += apply_and_store_review_decisions(work, kept, items, inputs.reviewing, AUTO_RULES, {})
    return work.finish(outcomes, DescribedQuestion)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def measure_popularity(batch: StageBatch) -> BatchReceipt:
    """Sum the page views of both entities' English articles over the last 12 full months before the epoch."""
    work = open_batch(batch)
    rows = work.rows(DescribedQuestion)
    inputs = work.inputs(GranolaInputs)
    titles = (
        (row.id, title) for row in rows for title in (row.question_entity_title, row.answer_entity_title) if title
    )
    views, failed = look_up_page_views_by_title(work, titles, inputs.views_from, inputs.views_to)
    outcomes = [
        failed.get(row.id)
        or row.extend_to(
            QuestionWithPopularity,
            question_entity_popularity=views.get(row.question_entity_title or ""),
            answer_entity_popularity=views.get(row.answer_entity_title or ""),
        )
        for row in rows
    ]
    return work.finish(outcomes, QuestionWithPopularity)


def _list_entity_answer_and_rival_qids(row: LinkedQuestion, policy: str) -> tuple[str, ...]:
    """Return the QIDs of a row's entities, and of all places with the answer's name where several may be meant."""
    is_open = policy == "linked" and row.relation in PLACE_RELATIONS and not row.fact_in_graph
    return (row.question_entity_qid, row.answer_entity_qid, *(row.answer_rivals if is_open else ()))


def _look_up_bearer_data_if_unconfirmed(
    work: BatchInProgress,
    rows: Sequence[LinkedQuestion],
    policy: str,
    described: Mapping[str, ItemDescription],
    made: Mapping[str, str],
) -> tuple[dict[str, NameBearer], dict[str, Reject]]:
    """Return QID → the item's compared data, for rows whose fact Wikidata does not have, and row id → Reject."""
    doubtful = [row for row in rows if not row.fact_in_graph]
    asked = [
        (row.id, qid) for row in doubtful for qid in _list_entity_answer_and_rival_qids(row, policy) if qid in described
    ]
    claims, failed = look_up_claims_by_qid(work, asked, COMPARED_PIDS)
    dated = {row.id for row in doubtful if row.relation in KINSHIP_RELATIONS}
    facts, unknown = look_up_item_facts_by_qid(work, (each for each in asked if each[0] in dated))
    bearers: dict[str, NameBearer] = {}
    for qid, edges in claims.items():
        description = described[qid].description or made.get(qid, "")
        lifetime = find_birth_and_death_years(facts.get(qid, ()), description)
        bearers[qid] = NameBearer(described[qid].label or "", description, edges, *lifetime)
    return bearers, failed | unknown


def _add_entity_descriptions(
    row: LinkedQuestion, described: Mapping[str, ItemDescription], made: Mapping[str, str]
) -> RowOutcome:
    columns: dict[str, str | bool | None] = {}
    for role, qid in (("question", row.question_entity_qid), ("answer", row.answer_entity_qid)):
        known = described[qid]
        description = known.description or made[qid]
        if not description:
            missing = (
                f"{qid} has no English description, and the Wikidata has no class of the item from which to make one"
            )
            return Reject(row.id, f"{role}_entity_not_described", missing)
        columns |= {
            f"{role}_entity_description": description,
            f"{role}_entity_description_made": not known.description,
            f"{role}_entity_title": known.title,
            f"{role}_entity_modified": known.modified,
        }
    return row.extend_to(DescribedQuestion, **columns, reviewed_by=[])


def _check_items_of_unconfirmed_fact(
    row: DescribedQuestion, bearers: Mapping[str, NameBearer], policy: str
) -> Reject | ReviewItem | None:
    """Return a reject or review item for the items of a row whose fact Wikidata does not have; None where they stay.

    A reject where the relation cannot hold between them; else a review item where Wikidata has only other values.
    Except with the paper's policy, also a reject where the question's name is only an alias of its entity, or where
    several places bear the answer's name and nothing tells which is meant; else a review item for a doubt.
    """
    subject, value = bearers[row.question_entity_qid], bearers[row.answer_entity_qid]
    sides = ((row.question_entity, subject), (row.answer, value))
    descriptions = "; ".join(
        f"{name}: {each.description}{_format_life_years_if_kin(row.relation, each)}" for name, each in sides
    )
    lexicon = load_lexicon()
    if reason := find_contradicting_lifetimes_or_places(row.relation, subject, value, lexicon):
        return Reject(row.id, reason, descriptions)
    if row.fact_in_graph is False:
        known = f"for {row.relation} of {row.question_entity_qid} the Wikidata has {', '.join(row.other_values)}"
        return make_review_item(
            "granola", row.id, OTHER_VALUE_FLAG, f"{known}, not {row.answer}", f"{row.question} {descriptions}"
        )
    if policy == "smallest":
        return None
    if subject.name and normalize_answer(subject.name) != normalize_answer(row.question_entity):
        called = f"{subject.name!r}, {row.question_entity!r} is only its alias"
        detail = f"{row.question_entity_qid} is called {called}, and the Wikidata does not have the fact"
        return Reject(row.id, "namesake_by_alias", detail)
    rivals = [
        bearers[qid] for qid in _list_entity_answer_and_rival_qids(row, policy)[2:] if _may_be_place(bearers[qid])
    ]
    if rivals and not is_only_place_in_regions_of_subject(subject, value, rivals, lexicon):
        several = f"{len(rivals) + 1} places have the name {row.answer!r}, and nothing indicates which one is meant"
        return Reject(row.id, "which_place_unknown", f"{several}: {descriptions}")
    doubt = find_relation_doubt_flag(row.relation, subject, value, lexicon)
    return make_review_item("granola", row.id, doubt, descriptions, f"{row.question} {row.answer}") if doubt else None


def _may_be_place(bearer: NameBearer) -> bool:
    kinds = read_kinds_of_thing_described(bearer.description)
    return not kinds or not kinds.isdisjoint(("place", "site"))


def _format_life_years_if_kin(relation: str, one: NameBearer) -> str:
    # other relations need no dates, and a row's text must not depend on other rows of its batch
    if relation not in KINSHIP_RELATIONS or one.birth_year is one.death_year is None:
        return ""
    return f" ({'–'.join('' if year is None else str(year) for year in (one.birth_year, one.death_year))})"


def _get_items_bearing_row_names(
    row: QuestionWithExtractedEntityName, found: Mapping[str, Sequence[ItemMatchedByName]]
) -> BearerPair:
    if row.subject_qid and row.value_qid:
        return (ItemMatchedByName(Qid(row.subject_qid), "label"),), (ItemMatchedByName(Qid(row.value_qid), "label"),)
    return found.get(row.question_entity, ()), found.get(row.answer, ())


def _look_up_relation_matches(
    work: BatchInProgress, rows: Sequence[QuestionWithExtractedEntityName], bearers: Mapping[str, BearerPair]
) -> tuple[dict[str, RelationBetweenBearersOfTwoNames], dict[str, Reject]]:
    """Return row id → the pairs of bearers for which the relation holds, and row id → Reject where Wikidata failed."""
    wikidata = work.run.services.wikidata
    calls = (
        (row.id, (row.relation, candidate.qid), make_neighbours_call(wikidata.identity, candidate.qid, [row.relation]))
        for row in rows
        if not row.subject_qid
        for candidate in bearers[row.id][0]
    )
    found, failed = work.call_and_parse(wikidata, calls, parse_neighbour_edges)
    claims: dict[str, dict[str, list[ItemNeighbour]]] = defaultdict(dict)
    for (relation, qid), edges in found.items():
        claims[relation][qid] = edges
    for row in rows:
        if row.subject_qid and row.value_qid:
            edge = ItemNeighbour(Pid(row.relation), Qid(row.value_qid), row.answer)
            claims[row.relation].setdefault(row.subject_qid, []).append(edge)

    def match(
        row: QuestionWithExtractedEntityName, around: Mapping[str, Sequence[ItemNeighbour]]
    ) -> RelationBetweenBearersOfTwoNames:
        return find_bearer_pairs_in_relation(row.relation, bearers[row.id], claims[row.relation], around)

    held = {row.id: match(row, {}) for row in rows}
    open_rows = [row for row in rows if row.relation in PLACE_RELATIONS and not held[row.id].pairs]
    places = (
        (row.id, qid)
        for row in open_rows
        if held[row.id].known_values
        for qid in (
            *(candidate.qid for candidate in bearers[row.id][1]),
            *(edge.qid for candidate in bearers[row.id][0] for edge in claims[row.relation].get(candidate.qid, ())),
        )
    )
    around, unknown = look_up_claims_within_hops_by_qid(work, places, ENCLOSING_PLACE_PIDS, _ENCLOSING_PLACE_HOPS)
    return held | {row.id: match(row, around) for row in open_rows}, failed | unknown


def _link_entities_and_add_candidates(
    row: QuestionWithExtractedEntityName,
    bearers: BearerPair,
    matches: RelationBetweenBearersOfTwoNames | None,
    policy: str,
    candidates: list[NameBearingItemCandidateRow],
) -> RowOutcome:
    """Choose a QID for both names of a row, and append all candidates to `candidates`.

    The paper keeps the smallest QID numbers even where they are wrong. With that policy, a row is dropped where, by
    Wikidata, the relation holds for other items of the same names and not for the chosen ones.
    """
    names: tuple[tuple[EntityRole, str], ...] = (("question", row.question_entity), ("answer", row.answer))
    for (role, name), options in zip(names, bearers, strict=True):
        if not options:
            return Reject(row.id, f"{role}_entity_not_found", f"no item has the label or alias {name!r}")
    assert matches is not None
    pair = choose_entity_pair(bearers, matches, policy)
    candidates.extend(
        NameBearingItemCandidateRow(
            id=f"{row.id}-{role}-{option.qid}",
            row_id=row.id,
            role=role,
            name=name,
            qid=option.qid,
            via=option.matched_by,
            chosen=option.qid == pair[side],
            linked=any(each[side] == option.qid for each in matches.pairs) if matches.known_values else None,
        )
        for side, (role, name) in enumerate(names)
        for option in bearers[side]
    )
    if matches.pairs and pair not in matches.pairs:
        others = ", ".join(" and ".join(each) for each in sorted(matches.pairs))
        detail = f"the smallest numbers are {' and '.join(pair)}, but {row.relation} holds between {others}; --policy linked chooses those"
        return Reject(row.id, "other_items_hold_the_relation", detail)
    holds = matches.holds(pair)
    if pair[0] == pair[1] and not holds:
        detail = f"{pair[0]} has both names: {row.question_entity!r} and {row.answer!r}"
        return Reject(row.id, "one_item_for_both", detail)
    return row.extend_to(
        LinkedQuestion,
        question_entity_qid=pair[0],
        answer_entity_qid=pair[1],
        question_entity_candidates=len(bearers[0]),
        answer_entity_candidates=len(bearers[1]),
        answer_rivals=[each.qid for each in bearers[1] if each.qid != pair[1]],
        fact_in_graph=holds,
        other_values=list(matches.known_values[pair[0]]) if holds is False else [],
    )
