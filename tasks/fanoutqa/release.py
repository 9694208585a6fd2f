"""Release forms of FanOutQA (dev in full, test without answers, as in the paper), and the figures of a build's page.

Test answers, and tables that give them away, are configs that a release contains only on request.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.publishing.distributions import (
    PublishedBuildForDistributions,
    count_numbers_filling_gaps,
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
    ParentRowLink,
    SourceArticleRevision,
)

_BELONGS = ParentRowLink(column="id")


def list_fanoutqa_source_pages(article_row: Mapping[str, Any], _wiki: str) -> Iterator[SourceArticleRevision]:
    """Yield the page of one row of `fanoutqa_articles`."""
    yield SourceArticleRevision(article_row["title"], str(article_row["revid"]), article_row["url"])


FANOUTQA_CARD = DatasetCardSpec(
    headline_metric="loose",
    about=(
        "A row is a question whose answer needs at least five articles, with its decomposition into sub-questions, their "
        "answers, and the article revision for each. It is asked closed book, with search over the Wikipedia "
        "of the epoch, or with the evidence provided. The dev part has answers; those of the test part are withheld."
    ),
    steps={
        "gather_questions": "Questions are read from authored or released files, or made from the facts of a Wikidata about sets of items.",
        "phrase_generated_questions": "The author model words the questions that are made from facts, without adding to the facts.",
        "pin_evidence": "Every article is pinned to its newest revision at or before the epoch.",
        "flag_answers": "Answers that are not composed of sub-answers, articles used twice and sub-answers that the article does not contain are flagged.",
        "find_near_articles": "Articles with titles near to a question are found.",
        "flag_answers_in_one_near_article": "Questions that one of these articles answers completely are flagged.",
        "judge_questions": "A judge flags subjective questions and faulty wording.",
        "flag_duplicates": "Duplicate questions are flagged.",
        "review_questions": "Flagged questions are kept, edited or dropped by a person's decision or by the rule of the flag.",
    },
    limits=(
        "Answers are as of the epoch: a model that knows newer facts is marked wrong. `factmill fanoutqa validate --drift` shows which answers have changed since.",
        "Strings are matched after normalisation: an answer in other words counts as wrong in loose and strict accuracy, so a judge grades the answers too.",
        "Dev and test are split by question; questions that share half of their articles are in the same part.",
    ),
    hub_sources={"released": "extended|other-fanoutqa", "authored": "original", "generated": "original"},
    personal_information=PERSONAL_INFORMATION_OF_WIKIPEDIA,
)

FANOUTQA_RELEASE = BenchmarkReleaseSpec(
    paper=PaperCitation(
        title="FanOutQA: A Multi-Hop, Multi-Document Question Answering Benchmark for Large Language Models",
        authors=(("Andrew", "Zhu"), ("Alyssa", "Hwang"), ("Liam", "Dugan"), ("Chris", "Callison-Burch")),
        year=2024,
        arxiv="2402.14116",
        venue="ACL 2024, 62nd Annual Meeting, Proceedings",
    ),
    card=FANOUTQA_CARD,
    canary="216c0a94-240b-472a-91cc-056da28c00b3",
    source_column="source",
    licence_column="licence",
    never_held_out_split="dev",
    list_pages=list_fanoutqa_source_pages,
    pages_table="fanoutqa_articles",
    configs=(
        DatasetConfigSpec(
            name="fanoutqa",
            title="Questions that need many articles: dev with decompositions and answers, test without",
            splits={"dev": "fanoutqa_dev", "test": "fanoutqa_test"},
            parent_link=_BELONGS,
        ),
        DatasetConfigSpec(
            name="provenance",
            title="Source of each question, and the results of its checks and reviews",
            splits={"full": "fanoutqa"},
        ),
        DatasetConfigSpec(
            name="articles",
            title="The articles that questions use, each at one revision",
            splits={"full": "fanoutqa_articles"},
            parent_link=ParentRowLink(column="title", parent_column="articles"),
        ),
        DatasetConfigSpec(
            name="test_answers",
            title="Answers and decompositions of the test part",
            splits={"test": "fanoutqa_test_answers"},
            parent_link=_BELONGS,
        ),
        DatasetConfigSpec(
            name="references",
            title="The article for each sub-question, and whether it contains the answer",
            splits={"full": "fanoutqa_references"},
            parent_link=ParentRowLink(column="question_id"),
        ),
    ),
)


def draw_fanoutqa_distributions(build: PublishedBuildForDistributions) -> Iterator[ReportFigure]:
    """Yield figures: questions by source and category, their articles, sub-questions and flags."""
    rows = build.load_columns("fanoutqa", ["split", "source", "sub_questions", "articles"]).to_pylist()
    sources = [(row["split"], row["source"]) for row in rows]
    yield _draw_counts_by_split("sources", "Questions by source", sources, "source")
    categories = [
        (part, category)
        for part in ("dev", "test")
        for each in build.load_column(f"fanoutqa_{part}", "categories")
        for category in each
    ]
    yield _draw_counts_by_split("categories", "Questions by category", categories, "category")
    articles = count_numbers_filling_gaps(len(row["articles"]) for row in rows)
    yield make_bar_figure("articles", "Articles per question", "questions", articles, "articles")
    subs = count_numbers_filling_gaps(row["sub_questions"] for row in rows)
    yield make_bar_figure("sub_questions", "Sub-questions per question", "questions", subs, "sub-questions")
    counts = sorted(build.facts.get("flags", {}).items(), key=lambda each: (-each[1], each[0]))
    flags = {flag.replace("_", " "): count for flag, count in counts}
    note = "Over all checked questions, including those that were dropped later."
    yield make_bar_figure("flags", "Flags of the checks", "questions", flags, "flag", note)


def _draw_counts_by_split(name: str, title: str, pairs: list[tuple[str, str]], by: str) -> ReportFigure:
    """Return stacked bars of values by split; pairs are (split, value)."""
    values = count_values_commonest_first(value for _, value in pairs)
    groups = {
        part: {each: counts.get(each, 0) for each in values}
        for part in ("dev", "test")
        for counts in [count_values_commonest_first(value for own, value in pairs if own == part)]
    }
    return make_grouped_bar_figure(name, title, "questions", groups, by, kind="stacked")
