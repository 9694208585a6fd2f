"""How FanOutQA is released: the dev part with everything, the test part without answers, as the paper's is.

Answers of the test part, and what tells them, are configs that a release has only where it is asked for them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.core.release_forms import Belonging, ConfigForms, Page, Paper, ReleaseForms

_BELONGS = Belonging(column="id")


def list_pages(row: Mapping[str, Any]) -> Iterator[Page]:
    """Yield an article that questions rest on."""
    yield Page(row["title"], str(row["revid"]), row["url"])


FANOUTQA_RELEASE = ReleaseForms(
    paper=Paper(
        title="FanOutQA: A Multi-Hop, Multi-Document Question Answering Benchmark for Large Language Models",
        authors=(("Andrew", "Zhu"), ("Alyssa", "Hwang"), ("Liam", "Dugan"), ("Chris", "Callison-Burch")),
        year=2024,
        arxiv="2402.14116",
        venue="Proceedings of the 62nd Annual Meeting of the Association for Computational Linguistics",
    ),
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
