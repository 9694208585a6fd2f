"""Release forms of FanOutQA (dev in full, test without answers, as in the paper), and the figures of a build's page.

Test answers, and tables that give them away, are configs that a release contains only on request.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from factmill.tasks.core.measures.figures import Figure
from factmill.tasks.core.publishing.distributions import Published, count_numbers, draw_counts, draw_groups, sort_counts
from factmill.tasks.core.publishing.release_forms import Belonging, CardForms, ConfigForms, Page, Paper, ReleaseForms

_BELONGS = Belonging(column="id")


def list_pages(row: Mapping[str, Any], _wiki: str) -> Iterator[Page]:
    """Yield the page of one row of `fanoutqa_articles`."""
    yield Page(row["title"], str(row["revid"]), row["url"])


CARD = CardForms(
    headline="loose",
    about=(
        "A row is a question that is answered by way of at least five articles, with its decomposition into sub-questions, "
        "their answers, and the revision of the article behind each. It is asked closed book, with search over the Wikipedia "
        "of the epoch, or with the evidence provided. The dev part has answers; those of the test part are withheld."
    ),
    steps={
        "gather_questions": "Questions are read from files, authored or released, or made of a Wikidata's facts about sets of items.",
        "word_questions": "The author model words the questions made of facts, within what the facts say.",
        "pin_evidence": "Every article is pinned to its newest revision at or before the epoch.",
        "flag_answers": "Answers that are not composed of sub-answers, articles used twice and sub-answers that the article does not say are flagged.",
        "find_near_articles": "Articles near a question by their titles are found.",
        "check_near_articles": "Questions that one of them answers wholly are flagged.",
        "judge_questions": "A judge flags subjective questions and faulty wording.",
        "flag_duplicates": "Equal questions are flagged.",
        "review_questions": "What is flagged is kept, edited or dropped: by a person's decision, or by each flag's rule.",
    },
    limits=(
        "Answers are as of the epoch: a model that knows newer facts is marked wrong. `factmill drift fanoutqa` says which answers have changed since.",
        "Strings are matched after normalisation: an answer in other words counts as wrong with loose and strict accuracy, which is why a judge stands beside them.",
        "Dev and test are split by question; questions that share half of their articles lie on one side.",
    ),
)

FANOUTQA_RELEASE = ReleaseForms(
    paper=Paper(
        title="FanOutQA: A Multi-Hop, Multi-Document Question Answering Benchmark for Large Language Models",
        authors=(("Andrew", "Zhu"), ("Alyssa", "Hwang"), ("Liam", "Dugan"), ("Chris", "Callison-Burch")),
        year=2024,
        arxiv="2402.14116",
        venue="ACL 2024, 62nd Annual Meeting, Proceedings",
    ),
    card=CARD,
    canary="216c0a94-240b-472a-91cc-056da28c00b3",
    source="source",
    licence="licence",
    answered="dev",
    pages=list_pages,
    pages_table="fanoutqa_articles",
    configs=(
        ConfigForms(
            name="fanoutqa",
            title="Questions that need many articles: dev with decompositions and answers, test without",
            splits={"dev": "fanoutqa_dev", "test": "fanoutqa_test"},
            belongs=_BELONGS,
        ),
        ConfigForms(
            name="provenance",
            title="Where each question is from, and what checks and reviewers said of it",
            splits={"full": "fanoutqa"},
        ),
        ConfigForms(
            name="articles",
            title="The articles that questions rest on, each at one revision",
            splits={"full": "fanoutqa_articles"},
            belongs=Belonging(column="title", to="articles"),
        ),
        ConfigForms(
            name="test_answers",
            title="Answers and decompositions of the test part",
            splits={"test": "fanoutqa_test_answers"},
            belongs=_BELONGS,
        ),
        ConfigForms(
            name="references",
            title="The article behind each sub-question, and whether it says the answer",
            splits={"full": "fanoutqa_references"},
            belongs=Belonging(column="question_id"),
        ),
    ),
)


def list_distributions(build: Published) -> Iterator[Figure]:
    """Yield figures: questions by source and category, their articles, sub-questions and flags."""
    rows = build.read("fanoutqa", ["split", "source", "sub_questions", "articles"]).to_pylist()
    yield _count_by_part("sources", "Questions by source", [(row["split"], row["source"]) for row in rows], "source")
    categories = [
        (part, category)
        for part in ("dev", "test")
        for each in build.column(f"fanoutqa_{part}", "categories")
        for category in each
    ]
    yield _count_by_part("categories", "Questions by category", categories, "category")
    articles = count_numbers(len(row["articles"]) for row in rows)
    yield draw_counts("articles", "Articles a question", "questions", articles, "articles")
    yield draw_counts(
        "sub_questions",
        "Sub-questions a question",
        "questions",
        count_numbers(row["sub_questions"] for row in rows),
        "sub-questions",
    )
    flags = build.facts.get("flags", {})
    yield draw_counts(
        "flags",
        "What checks flagged",
        "questions",
        dict(sorted(flags.items(), key=lambda each: (-each[1], each[0]))),
        "flag",
        "Of all questions that were checked, those that were then dropped too.",
    )


def _count_by_part(name: str, title: str, pairs: list[tuple[str, str]], by: str) -> Figure:
    """Return stacked bars of values by split; pairs are (split, value)."""
    values = sort_counts(value for _, value in pairs)
    groups = {
        part: {each: counts.get(each, 0) for each in values}
        for part in ("dev", "test")
        for counts in [sort_counts(value for own, value in pairs if own == part)]
    }
    return draw_groups(name, title, "questions", groups, by, kind="stacked")
