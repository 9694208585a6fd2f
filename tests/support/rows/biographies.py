"""Make pairs of people for BioKaLMA's steps, of which tests write only what matters."""

from collections.abc import Sequence
from typing import Any

from factmill.tasks.biokalma.core.evolution import count_pools_by_relation
from factmill.tasks.biokalma.core.rows import (
    PairWithEvolutionRounds,
    PairWithInitialParagraph,
    PairWithKnowledgePools,
    PairWithRelationCounts,
    ParagraphEvolutionRound,
    PersonPair,
    RelationWithPersonGraphCount,
    ResolvedPair,
)
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece


def make_piece(qid: str, pid: str, value: str, value_qid: str | None = None, **changed: Any) -> PersonKnowledgePiece:
    """Return a piece whose property label is its PID; a date if no item is given."""
    plain: dict[str, Any] = {"property": pid, "precision": None, "statement": None}
    return PersonKnowledgePiece(**{**plain, "qid": qid, "pid": pid, "value_qid": value_qid, "value": value, **changed})


def person_pair(row_id: str, person: str, other: str, relation: str = "P26", **changed: Any) -> PersonPair:
    """Return a pair as a file gives it, without a paragraph."""
    return PersonPair(
        **{
            "id": row_id,
            "person": person,
            "relation": relation,
            "relation_label": relation,
            "other": other,
            "paragraph": None,
            "given": [],
            "source_name": "pairs.jsonl",
            "source_row": 1,
            **changed,
        }
    )


def resolved_pair(row_id: str, person_qid: str, other_qid: str, **changed: Any) -> ResolvedPair:
    """Return a pair whose items are known; names follow from their ids unless given."""
    names = {"person": f"Person {person_qid}", "other": f"Person {other_qid}"}
    return person_pair(row_id, **{**names, **changed}).extend_to(
        ResolvedPair, person_qid=person_qid, other_qid=other_qid, person_candidates=1, other_candidates=1
    )


def pooled_pair(
    row_id: str, person_pool: Sequence[PersonKnowledgePiece], other_pool: Sequence[PersonKnowledgePiece], **changed: Any
) -> PairWithKnowledgePools:
    """Return a pair with the pools of both people, at least one piece each."""
    return resolved_pair(row_id, person_pool[0].qid, other_pool[0].qid, **changed).extend_to(
        PairWithKnowledgePools,
        person_pool=list(person_pool),
        other_pool=list(other_pool),
        birth_years=[],
        countries=[],
        cities=[],
        occupations=[],
    )


def described_pair(
    row_id: str, text: str, *pools: Sequence[PersonKnowledgePiece], **changed: Any
) -> PairWithInitialParagraph:
    """Return a pair with the text that evolution begins with."""
    return pooled_pair(row_id, *pools, **changed).extend_to(
        PairWithInitialParagraph, text=text, text_source="file", text_pages=[], licence="none stated"
    )


def counted_pair(
    row_id: str, text: str, *pools: Sequence[PersonKnowledgePiece], **changed: Any
) -> PairWithRelationCounts:
    """Return a pair with the counts of its relations, over its own two pools alone unless `counts` is given.

    `counts`: PID → number of graphs with the relation; `graphs`: the number of all graphs.
    """
    counts = {**count_pools_by_relation(pools), **changed.pop("counts", {})}
    graphs = changed.pop("graphs", 2)
    lines = [
        RelationWithPersonGraphCount(id=pid, property=pid, graphs=count, graphs_in_all=graphs)
        for pid, count in counts.items()
    ]
    return described_pair(row_id, text, *pools, **changed).extend_to(PairWithRelationCounts, relation_counts=lines)


def evolving_pair(
    row_id: str,
    text: str,
    known: Sequence[PersonKnowledgePiece],
    *pools: Sequence[PersonKnowledgePiece],
    **changed: Any,
) -> PairWithEvolutionRounds:
    """Return a pair after round 1, in which the pieces `known` were found in the text."""
    first = ParagraphEvolutionRound(
        number=1,
        chosen=list(known),
        sentence=text,
        candidates=[],
        refused=[],
        removed_citations=0,
        unstated_citations=0,
        call="c" * 64,
    )
    return counted_pair(row_id, text, *pools, **changed).extend_to(
        PairWithEvolutionRounds, rounds=[first], minimum_knowledge=list(known), paragraph_now=text
    )
