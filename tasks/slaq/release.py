"""Publish and release SLAQ (one row a topic, as in the paper's Figure 6), with report facts and page figures."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from factmill.tasks.core.measures.counts_and_bins import count_values_sorted_by_value, divide_rounded
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.publishing.distributions import (
    PublishedBuildForDistributions,
    count_by_power_of_ten,
    count_values_commonest_first,
    make_bar_figure,
    make_grouped_bar_figure,
)
from factmill.tasks.core.publishing.release_spec import (
    PERSONAL_INFORMATION_OF_WIKIPEDIA,
    BenchmarkReleaseSpec,
    DatasetCardSpec,
    DatasetConfigSpec,
    PaperCitation,
    PaperComparisons,
    SourceArticleRevision,
    format_wikipedia_name,
)
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import arrow_schema
from factmill.tasks.options import BuildReport
from factmill.tasks.slaq.core.rows import CategoryPageCount, SlaqTopicRow

if TYPE_CHECKING:
    from factmill.tasks.engine.batches import StageOutputShards
    from factmill.tasks.engine.building import BuildInProgress


def publish_slaq(
    build: "BuildInProgress", drawn: "StageOutputShards", checked: "StageOutputShards", typed: "StageOutputShards"
) -> BuildReport:
    """Publish the topics, the page counts of their categories, and the review queue with its decisions."""
    rows = typed.table(SlaqTopicRow)
    queue = checked.companion_rows(arrow_schema(ReviewItem)).drop_columns(["file", "line"])
    counts = drawn.companion_rows(arrow_schema(CategoryPageCount))
    entities = sum(pc.sum(rows[f"ShortQ{number}_Entity"]).as_py() or 0 for number in range(1, 6))
    facts = {
        "categories": count_values_sorted_by_value(rows["Category"].to_pylist()),
        "halves": count_values_sorted_by_value(rows["half"].to_pylist()),
        "members": dict(zip(counts["id"].to_pylist(), counts["members"].to_pylist(), strict=True)),
        "entity_answers": {"share": divide_rounded(entities, 5 * len(rows)), "n": 5 * len(rows)},
        "fact_types": count_values_sorted_by_value(each for types in rows["fact_types"].to_pylist() for each in types),
        "review": count_values_sorted_by_value(queue["decision"].to_pylist()),
    }
    return build.publish({"slaq": rows, "slaq_categories": counts, "slaq_review": queue}, facts)


def list_slaq_source_pages(row: Mapping[str, Any], wiki: str) -> Iterator[SourceArticleRevision]:
    """Yield the Wikipedia article that a topic's facts are from."""
    yield SourceArticleRevision.from_wiki(wiki, row["Topic"], str(row["revid"]))


def compare_slaq_with_paper(facts: Mapping[str, Any], rows: int) -> PaperComparisons:
    """Return label → (this build's figure, the paper's) (§3)."""
    share = facts["entity_answers"]["share"]
    return {
        "topics": (rows, 600),
        "short questions": (5 * rows, 3_000),
        "categories": (len(facts["categories"]), 15),
        "share of answers that name an entity": ("–" if share is None else share, 0.357),
    }


SLAQ_CARD = DatasetCardSpec(
    headline_metric="accuracy",
    about=(
        "A row is a Wikipedia topic with five facts; a short question asks for each fact, and one long question for all five. "
        "A model that knows a fact should state it in both answers: their accuracy and agreement are measured."
    ),
    steps={
        "draw_category_pages": "Pages of fifteen categories and their subcategories are drawn with a seed.",
        "read_user_topics": "Topics and their categories are read from a table.",
        "merge_duplicate_pages": "A page in several categories is kept in one.",
        "scrape_articles": "The main text is that of the world's epoch.",
        "count_topic_pageviews": "Page views before the epoch are summed.",
        "split_topics_by_views": "The most and least viewed topics of each category are kept.",
        "write_questions": "The author model writes five short question-answer pairs and a long one from the article; programs check them, each with its own reject reason, and the model gets a second attempt.",
        "check_questions": "A second model checks phrasing and grounding; topics that it flags are reviewed.",
        "balance_halves": "Both halves of a category get the same number of topics.",
        "classify_fact_answers": "Answers are classified by the kind of entity that they name.",
    },
    limits=(
        "Answers are in the words of one revision of one article; a judge has to allow for other words.",
        "Popularity is page views of the English Wikipedia up to one day; days without a count add nothing.",
        "The order of facts in the long question is that of the article, and position matters: `factmill evaluate slaq` reports accuracy by position.",
    ),
    compare_with_paper=compare_slaq_with_paper,
    personal_information=PERSONAL_INFORMATION_OF_WIKIPEDIA,
)

SLAQ_RELEASE = BenchmarkReleaseSpec(
    paper=PaperCitation(
        title="The Curious Case of Factual (Mis)Alignment between LLMs' Short- and Long-Form Answers",
        authors=(("Saad", "Obaid ul Islam"), ("Anne", "Lauscher"), ("Goran", "Glavaš")),
        year=2025,
        arxiv="2510.11218",
    ),
    card=SLAQ_CARD,
    canary="49c50814-2874-4749-b612-dce068456ac1",
    get_source=lambda lock, _origin, _row: format_wikipedia_name(lock),
    licence_column="licence",
    list_pages=list_slaq_source_pages,
    has_facts=False,
    own_list="titles of topics, and their categories",
    configs=(
        DatasetConfigSpec(
            name="slaq",
            title="Topics with the same five facts in five short questions and in a long one",
            splits={"test": "slaq"},
        ),
        DatasetConfigSpec(
            name="categories",
            title="Number of pages in each category, and of those drawn",
            splits={"test": "slaq_categories"},
        ),
    ),
)


_TABLE = "slaq"
_HALVES = ("most", "least")
_NO_TYPE = "no type"
_FACT_TYPE_LABELS: Mapping[str, str] = {
    "PERSON": "person",
    "NORP": "nationality, religion or party",
    "FAC": "building or other structure",
    "ORG": "organisation",
    "GPE": "country, region or city",
    "LOC": "other place",
    "PRODUCT": "product",
    "EVENT": "event",
    "WORK_OF_ART": "work of art",
    "LAW": "law",
    "LANGUAGE": "language",
    "DATE": "date",
    "TIME": "time",
    "PERCENT": "percentage",
    "MONEY": "amount of money",
    "QUANTITY": "quantity",
    "ORDINAL": "ordinal number",
    "CARDINAL": "cardinal number",
    "none": _NO_TYPE,
}
"""Type of a fact (`FactType`) → label for readers."""


def draw_slaq_distributions(build: PublishedBuildForDistributions) -> Iterator[ReportFigure]:
    """Yield the distributions of a build: topics by category and page views, answers by fact type."""
    rows = build.load_columns(_TABLE, ["Category", "half", "Pageviews", "fact_types"])
    columns = {name: rows[name].to_pylist() for name in rows.column_names}
    both = Counter(zip(columns["half"], columns["Category"], strict=True))
    categories = count_values_commonest_first(columns["Category"])
    bars = {f"{half} viewed": {category: both[half, category] for category in categories} for half in _HALVES}
    title = "Topics by category and half"
    yield make_grouped_bar_figure("categories", title, "topics", bars, "category", kind="stacked")
    both_views = list(zip(columns["half"], columns["Pageviews"], strict=True))
    views = {half: count_by_power_of_ten(count for of, count in both_views if of == half) for half in _HALVES}
    bins = count_by_power_of_ten(columns["Pageviews"])
    bars = {f"{half} viewed": {each: views[half].get(each, 0) for each in bins} for half in _HALVES}
    note = (
        "Each category is split into halves, so a topic in the most viewed half of one category may have fewer views than a "
        "topic in the least viewed half of another."
    )
    title = "Topics by page views"
    yield make_grouped_bar_figure("page_views", title, "topics", bars, "page views", note, kind="stacked")
    found = count_values_commonest_first(each for row in columns["fact_types"] for each in row)
    types = {label: count for kind, count in found.items() if (label := _FACT_TYPE_LABELS.get(kind, kind)) != _NO_TYPE}
    if "none" in found:
        types[_NO_TYPE] = found["none"]
    yield make_bar_figure("fact_types", "Short answers by type of fact", "short answers", types, "type")
