"""How SLAQ is released: a row a topic, with its five short questions and the long one, as in the paper's Figure 6."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from tasks.core.release_forms import OWN_WORLD, ConfigForms, Page, Paper, ReleaseForms


def list_pages(row: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the article that a topic's facts are from."""
    query = urlencode({"title": row["Topic"].replace(" ", "_"), "oldid": row["revid"]})
    yield Page(row["Topic"], str(row["revid"]), f"https://en.wikipedia.org/w/index.php?{query}")


SLAQ_RELEASE = ReleaseForms(
    paper=Paper(
        title="The Curious Case of Factual (Mis)Alignment between LLMs' Short- and Long-Form Answers",
        authors=(("Saad", "Obaid ul Islam"), ("Anne", "Lauscher"), ("Goran", "Glavaš")),
        year=2025,
        arxiv="2510.11218",
    ),
    canary="49c50814-2874-4749-b612-dce068456ac1",
    source_of=lambda lock, _: (
        OWN_WORLD if lock["services"]["wikipedia"].startswith("embedded-") else "English Wikipedia"
    ),
    licence="licence",
    pages=list_pages,
    has_facts=False,
    configs=(
        ConfigForms(
            name="slaq",
            title="Topics with the same five facts asked for in five short questions and in a long one",
            splits={"test": "slaq"},
        ),
        ConfigForms(
            name="categories",
            title="What each category of topics held, and how many of its pages were drawn",
            splits={"test": "slaq_categories"},
        ),
    ),
)
