"""Publish and release BioKaLMA (questions, minimum knowledge, rounds), with report facts and page figures (§2.3)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from factmill.tasks.biokalma.core.evolution import classify_deciding_score
from factmill.tasks.biokalma.core.rows import (
    BiokalmaRow,
    EvolutionRoundRow,
    NameBearingPersonCandidateRow,
    PairWithEvolutionRounds,
    RelationWithPersonGraphCount,
)
from factmill.tasks.biokalma.sources.person_pairs import load_packaged_pair_relations
from factmill.tasks.core.measures.counts_and_bins import count_values_sorted_by_value, divide_rounded
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.publishing.distributions import (
    PublishedBuildForDistributions,
    count_numbers_filling_gaps,
    count_values_commonest_first,
    make_bar_figure,
)
from factmill.tasks.core.publishing.release_spec import (
    BenchmarkReleaseSpec,
    DatasetCardSpec,
    DatasetConfigSpec,
    PaperCitation,
    PaperComparisons,
    ParentRowLink,
    SourceArticleRevision,
)
from factmill.tasks.core.rows import arrow_schema, rows_from_arrow
from factmill.tasks.options import BuildReport

if TYPE_CHECKING:
    from factmill.tasks.engine.batches import StageOutputShards
    from factmill.tasks.engine.building import BuildInProgress


def publish_biokalma(
    build: "BuildInProgress",
    resolved: "StageOutputShards",
    counted: "StageOutputShards",
    evolved: "StageOutputShards",
    asked: "StageOutputShards",
) -> BuildReport:
    """Publish the questions, rounds with all candidates, items that bear the names, and relation counts."""
    published = rows_from_arrow(BiokalmaRow, asked.table(BiokalmaRow))
    ids = {row.id for row in published}
    pairs = [
        row for row in rows_from_arrow(PairWithEvolutionRounds, evolved.table(PairWithEvolutionRounds)) if row.id in ids
    ]
    tables = {
        "biokalma": asked.table(BiokalmaRow),
        "biokalma_rounds": evolved.companion_rows(arrow_schema(EvolutionRoundRow)),
        "biokalma_candidates": resolved.companion_rows(arrow_schema(NameBearingPersonCandidateRow)),
        "biokalma_relations": counted.companion_rows(arrow_schema(RelationWithPersonGraphCount)),
    }
    return build.publish(tables, _compute_build_report_facts(published, pairs, counted.rows))


def _compute_build_report_facts(
    published: Sequence[BiokalmaRow], pairs: list[PairWithEvolutionRounds], counted: int
) -> dict[str, Any]:
    pieces = [len(row.minimum_knowledge) for row in published]
    evolved = [each for pair in pairs for each in pair.rounds[1:]]
    decided = count_values_sorted_by_value(map(classify_deciding_score, evolved))
    weighed = [candidate.is_weighed for each in evolved for candidate in each.candidates]
    years = sorted(year for pair in pairs for year in pair.birth_years)
    return {
        "pieces_per_question": {"mean": divide_rounded(sum(pieces), len(pieces), digits=2), "n": len(pieces)},
        "pieces": count_values_sorted_by_value(pieces),
        "people": len({qid for pair in pairs for qid in (pair.person_qid, pair.other_qid)}),
        "countries": len({qid for pair in pairs for qid in pair.countries}),
        "cities": len({qid for pair in pairs for qid in pair.cities}),
        "occupations": len({qid for pair in pairs for qid in pair.occupations}),
        "born": [years[0], years[-1]] if years else [],
        "relations": count_values_sorted_by_value(pair.relation_label for pair in pairs),
        "text_sources": count_values_sorted_by_value(pair.text_source for pair in pairs),
        "names_of_several": sum(pair.person_candidates > 1 or pair.other_candidates > 1 for pair in pairs),
        "removed_citations": sum(pair.rounds[0].removed_citations for pair in pairs),
        "unstated_citations": sum(pair.rounds[0].unstated_citations for pair in pairs),
        "left_out_pieces": sum(len(each.chosen) for pair in pairs for each in pair.rounds) - sum(pieces),
        "asked_share": divide_rounded(sum(row.asked_share or 0 for row in published), len(published), digits=3),
        "rounds_decided_by": decided,
        "perplexities": {"weighed": sum(weighed), "spared": len(weighed) - sum(weighed)},
        "refused_pieces": sum(len(each.refused) for pair in pairs for each in pair.rounds),
        "pairs_counted": counted,
    }


_BELONGS_TO_PAIR = ParentRowLink(column="row_id")


def list_paragraph_source_pages(row: Mapping[str, Any], wiki: str) -> Iterator[SourceArticleRevision]:
    """Yield the article that the first round's text is from, if any."""
    for each in row["text_pages"]:
        title, _, revision = each.rpartition(", revision ")
        yield SourceArticleRevision.from_wiki(wiki, title, revision)


def compare_biokalma_with_paper(facts: Mapping[str, Any], rows: int) -> PaperComparisons:
    """Return figure → (this build's value, the paper's value) (§2.3)."""
    return {"questions": (rows, 1_085), "pieces of knowledge per question": (facts["pieces_per_question"]["mean"], 6.8)}


CARD = DatasetCardSpec(
    headline_metric="micro_f1",
    part_labels=lambda: load_packaged_pair_relations().labels,
    about=(
        "A row is a general and a specific question about two people whom a relation joins, with the smallest set of "
        "knowledge (item, property, value) that answers them and the whole pool that it was chosen from. A model answers from "
        "the pool, cites its sources, and marks what the pool lacks with [NA]; citations are scored against the set."
    ),
    steps={
        "read_person_pairs": "Paragraphs about two people are read, or drawn from the facts of a Wikidata.",
        "resolve_people": "Both names are resolved to the only pair of items with these names that the relation joins.",
        "deduplicate_person_pairs": "Pairs of the same people are merged, and only the first few pairs of each person are kept.",
        "pool_knowledge": "The one-hop graphs of both people form the pool.",
        "find_pair_paragraphs": "The text of the first round is taken from the file or from the articles' openings.",
        "count_relations_over_build": "The graphs in which each relation occurs are counted (Equation 1).",
        "annotate_paragraph": "First round: the author model marks which pieces of the pool the text states.",
        "evolve_paragraph": "Each further round adds the most specific and best fitting property, with all its values, as one sentence that a program checks.",
        "write_biography_questions": "The author model writes a general and a specific question that the set answers.",
    },
    limits=(
        "The minimum set is the set that the paragraph was made from; another set may answer a question as well.",
        "For each property asked for, the set has all values that the graph has, but the graph may lack some; the paragraph may state more than the question asks.",
        "The perplexities of one language model determine coherence; with a small model, coherence decides only between equally specific pieces.",
        "The people are real; the facts are from Wikidata at one point in time and may be wrong or outdated.",
    ),
    compare_with_paper=compare_biokalma_with_paper,
    hub_task_ids=("closed-domain-qa",),
    personal_information="Every row is about two real people, some of them living, with what Wikidata and Wikipedia say of "
    "them: family, birth and death, education, work, memberships, beliefs.",
)

BIOKALMA_RELEASE = BenchmarkReleaseSpec(
    paper=PaperCitation(
        title="Towards Verifiable Generation: A Benchmark for Knowledge-aware Language Model Attribution",
        authors=(("Xinze", "Li"), ("Yixin", "Cao"), ("Liangming", "Pan"), ("Yubo", "Ma"), ("Aixin", "Sun")),
        year=2024,
        arxiv="2310.05634",
        venue="Findings of the Association for Computational Linguistics: ACL 2024",
    ),
    card=CARD,
    canary="ee727d69-75a7-47cb-a2ca-e3ac95865a2f",
    source_column="source_name",
    licence_column="licence",
    list_pages=list_paragraph_source_pages,
    configs=(
        DatasetConfigSpec(
            name="biokalma",
            title="Questions about two people, each with the smallest set of facts that answers it",
            splits={"test": "biokalma"},
        ),
        DatasetConfigSpec(
            name="rounds",
            title="Every round in which a paragraph was evolved: the scores of all pieces, the choice, the sentence",
            splits={"test": "biokalma_rounds"},
            parent_link=_BELONGS_TO_PAIR,
        ),
        DatasetConfigSpec(
            name="candidates",
            title="Wikidata items with the people's names, and which of them the relation joins",
            splits={"test": "biokalma_candidates"},
            parent_link=_BELONGS_TO_PAIR,
        ),
        DatasetConfigSpec(
            name="relations",
            title="Number of people's graphs in which each relation occurs (Equation 1 of the paper)",
            splits={"test": "biokalma_relations"},
        ),
    ),
)


_TABLE = "biokalma"


def draw_biokalma_distributions(build: PublishedBuildForDistributions) -> Iterator[ReportFigure]:
    """Yield charts: pieces per question, relations, properties, text sources, deciding scores."""
    knowledge = build.load_column(_TABLE, "minimum_knowledge")
    pieces = count_numbers_filling_gaps(map(len, knowledge))
    yield make_bar_figure("pieces", "Pieces of knowledge that answer a question", "questions", pieces, "pieces")
    pairs = count_values_commonest_first(build.load_column(_TABLE, "relation_label"))
    yield make_bar_figure("pairs", "Pairs by relation", "questions", pairs, "relation")
    properties = count_values_commonest_first(piece["property"] for row in knowledge for piece in row)
    yield make_bar_figure("properties", "Properties of the pieces", "pieces", properties, "property")
    texts = count_values_commonest_first(build.load_column(_TABLE, "text_source"))
    yield make_bar_figure("text_sources", "Source of the first paragraph", "questions", texts, "text")
    decided = dict(sorted(build.facts.get("rounds_decided_by", {}).items(), key=lambda each: (-each[1], each[0])))
    title = "Measure that decided the choice of pieces in later rounds"
    yield make_bar_figure("decided", title, "rounds", decided, "measure")
