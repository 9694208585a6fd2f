"""Publishing BioKaLMA, and what its report says beside the funnel: pieces a question, people, places, times (§2.3)."""

from collections.abc import Sequence
from typing import Any

from tasks.biokalma.core.evolution import tell_what_decided
from tasks.biokalma.core.rows import BiographyRow, CandidateRow, EvolvingPair, RelationCount, RoundRow
from tasks.core.counting import count_values, divide
from tasks.core.rows import arrow_schema, rows_from_arrow
from tasks.engine.building import Build
from tasks.engine.datasets import Dataset
from tasks.options import BuildReport


def publish_biokalma(
    build: Build, resolved: Dataset, counted: Dataset, evolved: Dataset, asked: Dataset
) -> BuildReport:
    """Publish the questions, their rounds with all candidates, the items that bore the names, and the counts of relations."""
    published = rows_from_arrow(BiographyRow, asked.table(BiographyRow))
    ids = {row.id for row in published}
    pairs = [row for row in rows_from_arrow(EvolvingPair, evolved.table(EvolvingPair)) if row.id in ids]
    tables = {
        "biokalma": asked.table(BiographyRow),
        "biokalma_rounds": evolved.extras(arrow_schema(RoundRow)),
        "biokalma_candidates": resolved.extras(arrow_schema(CandidateRow)),
        "biokalma_relations": counted.extras(arrow_schema(RelationCount)),
    }
    return build.publish(tables, _count_facts(published, pairs, counted.rows))


def _count_facts(published: Sequence[BiographyRow], pairs: list[EvolvingPair], counted: int) -> dict[str, Any]:
    pieces = [len(row.minimum_knowledge) for row in published]
    evolved = [each for pair in pairs for each in pair.rounds[1:]]
    decided = count_values(map(tell_what_decided, evolved))
    weighed = [candidate.is_weighed for each in evolved for candidate in each.candidates]
    years = sorted(year for pair in pairs for year in pair.birth_years)
    return {
        "pieces_per_question": {"mean": divide(sum(pieces), len(pieces), digits=2), "n": len(pieces)},
        "pieces": count_values(pieces),
        "people": len({qid for pair in pairs for qid in (pair.person_qid, pair.other_qid)}),
        "countries": len({qid for pair in pairs for qid in pair.countries}),
        "cities": len({qid for pair in pairs for qid in pair.cities}),
        "occupations": len({qid for pair in pairs for qid in pair.occupations}),
        "born": [years[0], years[-1]] if years else [],
        "relations": count_values(pair.relation_label for pair in pairs),
        "text_sources": count_values(pair.text_source for pair in pairs),
        "names_of_several": sum(pair.person_candidates > 1 or pair.other_candidates > 1 for pair in pairs),
        "removed_citations": sum(pair.rounds[0].removed_citations for pair in pairs),
        "unstated_citations": sum(pair.rounds[0].unstated_citations for pair in pairs),
        "left_out_pieces": sum(len(each.chosen) for pair in pairs for each in pair.rounds) - sum(pieces),
        "asked_share": divide(sum(row.asked_share or 0 for row in published), len(published), digits=3),
        "rounds_decided_by": decided,
        "perplexities": {"weighed": sum(weighed), "spared": len(weighed) - sum(weighed)},
        "refused_pieces": sum(len(each.refused) for pair in pairs for each in pair.rounds),
        "pairs_counted": counted,
    }
