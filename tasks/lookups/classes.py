"""Look up items' claims and their membership in a class, through the call cache."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from factmill.tasks.assets import load_property_numbers
from factmill.tasks.core.calls.wikidata import HUMAN_QID, ItemNeighbour, make_neighbours_call, parse_neighbour_edges
from factmill.tasks.core.rows import Reject
from factmill.tasks.engine.batches import BatchInProgress

INSTANCE_OF, SUBCLASS_OF = "P31", "P279"
_MAX_SUBCLASS_LEVELS = 12
"""Largest number of "subclass of" steps followed."""


def look_up_claims_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]], pids: Iterable[str]
) -> tuple[dict[str, list[ItemNeighbour]], dict[str, Reject]]:
    """Return QID → its claims with the given properties, for every (row id, QID), and row id → Reject on failure."""
    service, wanted = work.run.services.wikidata, sorted(set(pids))
    pairs = list(dict.fromkeys(row_qid_pairs))
    calls = {qid: make_neighbours_call(service.identity, qid, wanted) for qid in dict.fromkeys(qid for _, qid in pairs)}
    return work.call_and_parse(service, ((row_id, qid, calls[qid]) for row_id, qid in pairs), parse_neighbour_edges)


def look_up_class_membership_by_qid(
    work: BatchInProgress, row_qid_pairs: Iterable[tuple[str, str]], class_qid: str
) -> tuple[dict[str, bool], dict[str, Reject]]:
    """Return QID → whether it is of the class or a subclass, for every (row id, QID), and row id → Reject on failure.

    For humans only "instance of human" counts. An item without any "instance of" counts as human if it has a property
    that only people have (data/lists/person_properties.txt).
    """
    pairs = list(dict.fromkeys(row_qid_pairs))
    listed = load_property_numbers("person_properties") if class_qid == HUMAN_QID else ()
    only_people = {f"P{number}" for number in listed}
    claims, failed = look_up_claims_by_qid(work, pairs, {INSTANCE_OF, *only_people})
    classes = {qid: {edge.qid for edge in edges if edge.pid == INSTANCE_OF} for qid, edges in claims.items()}
    if class_qid == HUMAN_QID:
        return {qid: HUMAN_QID in of if (of := classes[qid]) else bool(claims[qid]) for qid in claims}, failed
    hung = [(row_id, each) for row_id, qid in pairs for each in sorted(classes.get(qid, ()))]
    above, unknown = _look_up_superclass_graph_and_rejects(work, hung, class_qid)
    below = _collect_classes_and_all_subclasses({class_qid}, above)
    doubtful = _collect_classes_and_all_subclasses(set(unknown), above)
    for row_id, qid in pairs:
        of = classes.get(qid, set())
        if of & doubtful and not of & below:
            failed[row_id] = replace(next(iter(unknown.values())), row_id=row_id)
    return {qid: bool(of & below) for qid, of in classes.items()}, failed


def _look_up_superclass_graph_and_rejects(
    work: BatchInProgress, row_class_pairs: Iterable[tuple[str, str]], class_qid: str
) -> tuple[dict[str, set[str]], dict[str, Reject]]:
    """Return class → its direct superclasses, for these classes and all above them, and class → Reject if unknown."""
    above: dict[str, set[str]] = {}
    unknown: dict[str, Reject] = {}
    rows: dict[str, str] = {each: row_id for row_id, each in row_class_pairs}
    level = set(rows)
    for _ in range(_MAX_SUBCLASS_LEVELS):
        todo = [(rows[each], each) for each in sorted(level) if each not in above and each != class_qid]
        if not todo:
            break
        claims, failed = look_up_claims_by_qid(work, todo, {SUBCLASS_OF})
        unknown |= {each: failed[row_id] for row_id, each in todo if each not in claims}
        level = set()
        for row_id, each in todo:
            above[each] = {edge.qid for edge in claims.get(each, [])}
            level |= above[each]
            rows |= {upper: rows.get(upper, row_id) for upper in above[each]}
    return above, unknown


def _collect_classes_and_all_subclasses(classes: set[str], superclasses_by_class: Mapping[str, set[str]]) -> set[str]:
    """Return these classes and all their subclasses; `direct_superclasses`: class → its direct superclasses."""
    below = set(classes)
    while grown := {each for each, upper in superclasses_by_class.items() if upper & below} - below:
        below |= grown
    return below
