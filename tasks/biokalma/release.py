"""How BioKaLMA is released: the questions with their minimum knowledge, and beside them how they were evolved."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from tasks.core.release_forms import Belonging, ConfigForms, Page, Paper, ReleaseForms

_BELONGS = Belonging(column="row_id")


def list_pages(row: Mapping[str, Any]) -> Iterator[Page]:
    """Yield the article that the first round's text is from, where it is from one."""
    for each in row["text_pages"]:
        title, _, revision = each.rpartition(", revision ")
        query = urlencode({"title": title.replace(" ", "_"), "oldid": revision})
        yield Page(title, revision, f"https://en.wikipedia.org/w/index.php?{query}")


BIOKALMA_RELEASE = ReleaseForms(
    paper=Paper(
        title="Towards Verifiable Generation: A Benchmark for Knowledge-aware Language Model Attribution",
        authors=(("Xinze", "Li"), ("Yixin", "Cao"), ("Liangming", "Pan"), ("Yubo", "Ma"), ("Aixin", "Sun")),
        year=2024,
        arxiv="2310.05634",
        venue="Findings of the Association for Computational Linguistics: ACL 2024",
    ),
    canary="ee727d69-75a7-47cb-a2ca-e3ac95865a2f",
    source="source_name",
    licence="licence",
    pages=list_pages,
    configs=(
        ConfigForms(
            name="biokalma",
            title="Questions about two people, with the smallest set of knowledge that answers them",
            splits={"test": "biokalma"},
        ),
        ConfigForms(
            name="rounds",
            title="Every round in which a paragraph was evolved: the scores of all pieces, the choice, the sentence",
            splits={"test": "biokalma_rounds"},
            belongs=_BELONGS,
        ),
        ConfigForms(
            name="candidates",
            title="Items of Wikidata that bear the people's names, and which of them the relation joins",
            splits={"test": "biokalma_candidates"},
            belongs=_BELONGS,
        ),
        ConfigForms(
            name="relations",
            title="In how many people's graphs each relation occurs (Equation 1 of the paper)",
            splits={"test": "biokalma_relations"},
        ),
    ),
)
