"""What the page of a build tells of BioKaLMA's rows: pieces, relations of the pairs, kinds of facts, rounds (§2.3, App. A)."""

from collections.abc import Iterator

from tasks.core.measures.figures import Figure
from tasks.core.publishing.distributions import Published, count_numbers, draw_counts, sort_counts

_TABLE = "biokalma"


def list_distributions(build: Published) -> Iterator[Figure]:
    """Yield what rows have how many of."""
    knowledge = build.column(_TABLE, "minimum_knowledge")
    yield draw_counts(
        "pieces",
        "Pieces of knowledge that answer a question",
        "questions",
        count_numbers(map(len, knowledge)),
        "pieces",
    )
    pairs = sort_counts(build.column(_TABLE, "relation_label"))
    yield draw_counts("pairs", "Pairs by their relation", "questions", pairs, "relation")
    yield draw_counts(
        "properties",
        "What the pieces tell",
        "pieces",
        sort_counts(piece["property"] for pieces in knowledge for piece in pieces),
        "property",
    )
    yield draw_counts(
        "text_sources",
        "Where the first paragraph is from",
        "questions",
        sort_counts(build.column(_TABLE, "text_source")),
        "text",
    )
    decided = build.facts.get("rounds_decided_by", {})
    yield draw_counts(
        "decided",
        "What chose the pieces of the later rounds",
        "rounds",
        dict(sorted(decided.items(), key=lambda each: (-each[1], each[0]))),
        "measure",
    )
