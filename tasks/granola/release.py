"""GRANOLA-EQ's release (like the paper's, one table, all for testing) and its build page's figures (§3.1, §3.2)."""

from collections.abc import Iterator, Mapping
from typing import Any

from factmill.tasks.assets import load_known_source_licences, load_relations
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.publishing.distributions import (
    PublishedTables,
    count_by_frequency,
    count_by_number,
    count_by_power_of_ten,
    make_bar_figure,
    make_grouped_bar_figure,
)
from factmill.tasks.core.publishing.release_spec import CardSpec, ConfigSpec, PaperCitation, ParentRowLink, ReleaseSpec
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE, EMBEDDED_WORLD_SOURCE, NO_LICENCE_STATED


def find_source_and_licence(
    lock: Mapping[str, Any], origin: Mapping[str, Any], row: Mapping[str, Any]
) -> tuple[str, str]:
    """Return a question's source and licence: those of its file where the file's digest is known."""
    if lock["params"]["from_wikidata"]:
        return "Wikidata", "CC0-1.0"
    if not origin["flow"]["source"]:  # our own files, in any version
        return EMBEDDED_WORLD_SOURCE, EMBEDDED_WORLD_LICENCE
    digest = dict(lock["sources"]["files"][row["relation"]])[row["source_name"]]
    return load_known_source_licences().get(digest, (row["source_name"], NO_LICENCE_STATED))


CARD = CardSpec(
    headline_metric="granola_accuracy",
    part_labels=lambda: {pid: each.label for pid, each in load_relations().items()},
    about=(
        "A row is a question about an entity with its gold answer and coarser answers that are also true, from fine to "
        "coarse: born in Brooklyn, in New York City, in the United States. With them an answer is not just right or wrong: "
        "GRANOLA accuracy counts a match at any level, informativeness how fine that level is."
    ),
    steps={
        "read_entity_questions": "Rows with one gold answer are read from files in EntityQuestions' form, or questions are made of a Wikidata's facts.",
        "extract_question_entities": "The entity that a question is about is cut out of it by its relation's template.",
        "link_question_entities": "Names in question and answer are looked up as labels, then as aliases; of several bearers the ones of which the Wikidata holds the fact are meant, else those with the smallest numbers.",
        "describe_entities": "Both items get Wikidata's English description, or one made of class and country, and marked. Where the Wikidata does not hold the fact, places that lie apart and relatives who never met are dropped; rows that it contradicts, and people and places that hardly go together, are reviewed.",
        "measure_popularity": "Page views of both items' articles over the last twelve full months are added up.",
        "generate_granular_answers": "The author model writes answers from fine to coarse, in one call.",
        "score_description_consistency": "Samples of a judge say whether each description fits the question; where more than half object to either, the row goes.",
        "remove_trivial_answers": "Answers of a list of trivial ones (a person, a university), that repeat a level, or that neither the item's claims nor its description nor our lists bear out go.",
    },
    limits=(
        "Where `fact_in_graph` is null the Wikidata does not confirm the fact: names and descriptions alone say which items are meant.",
        "A coarser answer is true of the item, but not every true coarser answer is listed: a model can be right and unmatched.",
        "Popularity is page views of the English Wikipedia over twelve months; days without a count add none.",
        "Items were matched to names by rule; `question_entity_candidates` and `answer_entity_candidates` say how many there were.",
    ),
)

GRANOLA_RELEASE = ReleaseSpec(
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
        ConfigSpec(
            name="granola_eq",
            title="Questions about entities with answers from fine to coarse",
            splits={"test": "granola_eq"},
        ),
        ConfigSpec(
            name="candidates",
            title="Items of Wikidata that bear the names in questions and answers, and which were chosen",
            splits={"test": "granola_candidates"},
            parent_link=ParentRowLink(column="row_id"),
        ),
    ),
)


_TABLE = "granola_eq"


def draw_granola_distributions(build: PublishedTables) -> Iterator[ReportFigure]:
    """Yield charts: answers per question, page views, questions by relation."""
    yield make_bar_figure(
        "answers",
        "Answers a question, from fine to coarse",
        "questions",
        count_by_number(build.load_column(_TABLE, "num_granola_answers")),
        "answers",
    )
    popularity = {
        role: count_by_power_of_ten(build.load_column(_TABLE, f"{role}_entity_popularity"))
        for role in ("question", "answer")
    }
    order = sorted({name for counts in popularity.values() for name in counts}, key=_popularity_bin_start)
    yield make_grouped_bar_figure(
        "popularity",
        "Page views of the items' articles",
        "questions",
        {f"item of the {role}": {name: counts.get(name, 0) for name in order} for role, counts in popularity.items()},
        "page views",
    )
    known = load_relations()
    relations = count_by_frequency(
        f"{pid} {known[pid].label}" if pid in known else pid for pid in build.load_column(_TABLE, "relation")
    )
    yield make_bar_figure("relations", "Questions by relation", "questions", relations, "relation")


def _popularity_bin_start(name: str) -> int:
    first = name.partition(" ")[0].replace(",", "")
    return int(first) if first.isdigit() else 10**30
