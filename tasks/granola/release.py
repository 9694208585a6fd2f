"""GRANOLA-EQ's release (like the paper's, one table, all for testing) and its build page's figures (§3.1, §3.2)."""

from collections.abc import Iterator, Mapping
from typing import Any

from factmill.tasks.assets import load_entity_questions_relations, load_source_names_and_licences_by_digest
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.publishing.distributions import (
    PublishedBuildForDistributions,
    count_by_power_of_ten,
    count_numbers_filling_gaps,
    count_values_commonest_first,
    make_bar_figure,
    make_grouped_bar_figure,
)
from factmill.tasks.core.publishing.release_spec import (
    PERSONAL_INFORMATION_OF_WIKIDATA,
    BenchmarkReleaseSpec,
    DatasetCardSpec,
    DatasetConfigSpec,
    PaperCitation,
    ParentRowLink,
)
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE, EMBEDDED_WORLD_SOURCE, NO_LICENCE_STATED
from factmill.tasks.storage.user_tables import USER_TABLE_UNIT


def find_source_and_licence(
    lock: Mapping[str, Any], origin: Mapping[str, Any], row: Mapping[str, Any]
) -> tuple[str, str]:
    """Return a question's source and licence: those that the user states, or of its file where the file's digest is known."""
    if lock["params"]["from_wikidata"]:
        return "Wikidata", "CC0-1.0"
    if not origin["flow"]["source"]:  # our own files, in any version
        return EMBEDDED_WORLD_SOURCE, EMBEDDED_WORLD_LICENCE
    files = lock["sources"]["files"]
    digest = dict(files.get(row["relation"]) or files[USER_TABLE_UNIT])[row["source_name"]]
    source, licence = load_source_names_and_licences_by_digest().get(digest, (row["source_name"], NO_LICENCE_STATED))
    own = lock["params"].get("own_source") or {}
    return own.get("name") or source, own.get("licence") or licence


CARD = DatasetCardSpec(
    headline_metric="granola_accuracy",
    part_labels=lambda: {pid: each.label for pid, each in load_entity_questions_relations().items()},
    about=(
        "A row is a question about an entity with its gold answer and coarser answers that are also true, from fine to "
        "coarse: born in Brooklyn, in New York City, in the United States. They allow more than right and wrong: "
        "GRANOLA accuracy counts a match at any level, and informativeness measures how fine that level is."
    ),
    steps={
        "read_entity_questions": "Rows with one gold answer are read from files in the format of EntityQuestions, or questions are made from the facts of a Wikidata.",
        "read_user_questions": "Rows with one gold answer and a known relation are read from a table.",
        "extract_question_entities": "The template of the relation extracts the entity from the question.",
        "link_question_entities": "Names in question and answer are looked up as labels, then as aliases; if several items have a name, the items for which the Wikidata has the fact are chosen, else those with the smallest numbers.",
        "describe_entities": "Both items get Wikidata's English description, or one that is made from class and country and marked as such. If the Wikidata does not have the fact, rows whose places lie in different countries or regions, or whose relatives cannot have met, are dropped; rows that it contradicts, and rows with unlikely pairs of people and places, are reviewed.",
        "measure_popularity": "The page views of both items' articles are summed over the last twelve full months.",
        "generate_granular_answers": "The author model writes answers from fine to coarse, in one call.",
        "score_description_consistency": "A judge model is sampled on whether each description fits the question; if more than half of the samples reject a description, the row is dropped.",
        "remove_trivial_answers": "Answers are removed if they are trivial (a person, a university), repeat a level, or are not supported by the item's claims, its description or our lists.",
    },
    limits=(
        "If `fact_in_graph` is null, the Wikidata does not confirm the fact: the items were chosen by names and descriptions only.",
        "A coarser answer is true of the item, but not every true coarser answer is listed: a model can be right and unmatched.",
        "Popularity is page views of the English Wikipedia over twelve months; days without a count add nothing.",
        "Items were matched to names by rule; `question_entity_candidates` and `answer_entity_candidates` give the number of candidates.",
    ),
    hub_sources={"EntityQuestions": "extended|other-entityquestions"},
    personal_information=PERSONAL_INFORMATION_OF_WIKIDATA,
)

GRANOLA_RELEASE = BenchmarkReleaseSpec(
    paper=PaperCitation(
        title="Narrowing the Knowledge Evaluation Gap: Open-Domain Question Answering with Multi-Granularity Answers",
        authors=(("Gal", "Yona"), ("Roee", "Aharoni"), ("Mor", "Geva")),
        year=2024,
        arxiv="2401.04695",
        venue="ACL 2024, 62nd Annual Meeting, Proceedings",
    ),
    card=CARD,
    canary="6892155f-ffa6-480a-906b-1b3737427a07",
    get_source=lambda lock, origin, row: find_source_and_licence(lock, origin, row)[0],
    get_licence=lambda lock, origin, row: find_source_and_licence(lock, origin, row)[1],
    configs=(
        DatasetConfigSpec(
            name="granola_eq",
            title="Questions about entities with answers from fine to coarse",
            splits={"test": "granola_eq"},
        ),
        DatasetConfigSpec(
            name="candidates",
            title="Wikidata items with the names in questions and answers, and which were chosen",
            splits={"test": "granola_candidates"},
            parent_link=ParentRowLink(column="row_id"),
        ),
    ),
)


_TABLE = "granola_eq"


def draw_granola_distributions(build: PublishedBuildForDistributions) -> Iterator[ReportFigure]:
    """Yield charts: answers per question, page views, questions by relation."""
    answers = count_numbers_filling_gaps(build.load_column(_TABLE, "num_granola_answers"))
    yield make_bar_figure("answers", "Answers per question, from fine to coarse", "questions", answers, "answers")
    popularity = {
        role: count_by_power_of_ten(build.load_column(_TABLE, f"{role}_entity_popularity"))
        for role in ("question", "answer")
    }
    order = sorted({name for counts in popularity.values() for name in counts}, key=_parse_popularity_bin_start)
    views = {f"{role} entity": {name: counts.get(name, 0) for name in order} for role, counts in popularity.items()}
    yield make_grouped_bar_figure("popularity", "Page views of the items' articles", "questions", views, "page views")
    known = load_entity_questions_relations()
    relations = count_values_commonest_first(
        f"{pid} {known[pid].label}" if pid in known else pid for pid in build.load_column(_TABLE, "relation")
    )
    yield make_bar_figure("relations", "Questions by relation", "questions", relations, "relation")


def _parse_popularity_bin_start(name: str) -> int:
    first = name.partition(" ")[0].replace(",", "")
    return int(first) if first.isdigit() else 10**30
