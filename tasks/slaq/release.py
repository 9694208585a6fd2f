"""SLAQ's release forms (one row a topic, as in the paper's Figure 6), and the figures of a build's page."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.publishing.distributions import (
    PublishedTables,
    count_by_frequency,
    count_by_power_of_ten,
    make_bar_figure,
    make_grouped_bar_figure,
)
from factmill.tasks.core.publishing.release_spec import (
    CardSpec,
    ConfigSpec,
    PaperCitation,
    PaperComparisons,
    ReleaseSpec,
    SourcePage,
    format_wikipedia_name,
)


def list_slaq_source_pages(row: Mapping[str, Any], wiki: str) -> Iterator[SourcePage]:
    """Yield the Wikipedia article that a topic's facts are from."""
    yield SourcePage.from_wiki(wiki, row["Topic"], str(row["revid"]))


def compare_slaq_with_paper(facts: Mapping[str, Any], rows: int) -> PaperComparisons:
    """Return label → (this build's figure, the paper's) (§3)."""
    share = facts["entity_answers"]["share"]
    return {
        "topics": (rows, 600),
        "short questions": (5 * rows, 3_000),
        "categories": (len(facts["categories"]), 15),
        "share of answers that name an entity": ("–" if share is None else share, 0.357),
    }


SLAQ_CARD = CardSpec(
    headline_metric="accuracy",
    about=(
        "A row is a topic of Wikipedia with five facts, each asked for in a short question of its own and all of them in one "
        "long question. A model that knows a fact should say it both ways: accuracy of both and their agreement are measured."
    ),
    steps={
        "draw_category_pages": "Pages of fifteen categories and the level below them are drawn by seed.",
        "merge_duplicate_pages": "A page of several categories stays in one.",
        "scrape_articles": "The main text is taken as of the world's epoch.",
        "count_topic_pageviews": "Page views before the epoch are added up.",
        "split_topics_by_views": "The most and least viewed topics of each category stay.",
        "write_questions": "The author model writes five short question-answer pairs and a long one from the article; every check by program has a reason of its own, and the model is asked once more.",
        "check_questions": "A second model looks at phrasing and grounding; what it flags goes to review.",
        "balance_halves": "Both halves of a category end with equally many topics.",
        "classify_fact_answers": "Answers are told apart by the kind of entity they name.",
    },
    limits=(
        "Answers are in the words of one revision of one article; a judge has to allow for other words.",
        "Popularity is page views of the English Wikipedia up to one day; days without a count add none.",
        "The order of facts in the long question is that of the article, and position matters: `factmill evaluate slaq` draws accuracy by position.",
    ),
    compare_with_paper=compare_slaq_with_paper,
)

SLAQ_RELEASE = ReleaseSpec(
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
    configs=(
        ConfigSpec(
            name="slaq",
            title="Topics with the same five facts asked for in five short questions and in a long one",
            splits={"test": "slaq"},
        ),
        ConfigSpec(
            name="categories",
            title="What each category of topics held, and how many of its pages were drawn",
            splits={"test": "slaq_categories"},
        ),
    ),
)


_TABLE = "slaq"
_HALVES = ("most", "least")


def draw_slaq_distributions(build: PublishedTables) -> Iterator[ReportFigure]:
    """Yield the distributions of a build: topics by category and page views, answers by fact type."""
    rows = build.load_columns(_TABLE, ["Category", "half", "Pageviews", "fact_types"])
    columns = {name: rows[name].to_pylist() for name in rows.column_names}
    both = Counter(zip(columns["half"], columns["Category"], strict=True))
    categories = count_by_frequency(columns["Category"])
    yield make_grouped_bar_figure(
        "categories",
        "Topics by category and half",
        "topics",
        {f"{half} viewed": {category: both[half, category] for category in categories} for half in _HALVES},
        "category",
        kind="stacked",
    )
    views = {
        half: count_by_power_of_ten(v for h, v in zip(columns["half"], columns["Pageviews"], strict=True) if h == half)
        for half in _HALVES
    }
    bins = count_by_power_of_ten(columns["Pageviews"])
    yield make_grouped_bar_figure(
        "page_views",
        "Topics by page views",
        "topics",
        {f"{half} viewed": {each: views[half].get(each, 0) for each in bins} for half in _HALVES},
        "page views",
        "Halves are of each category, so that a topic in the most viewed half of one may be less viewed than one in the "
        "least viewed half of another.",
        kind="stacked",
    )
    types = count_by_frequency(each for row in columns["fact_types"] for each in row)
    yield make_bar_figure("fact_types", "Short answers by type of fact", "short answers", types, "type")
