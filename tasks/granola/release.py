"""How GRANOLA-EQ is released: one table, all of it for testing, as the paper's is."""

from collections.abc import Mapping
from typing import Any

from tasks.core.release_forms import OWN_WORLD, Belonging, ConfigForms, Paper, ReleaseForms


def find_source(lock: Mapping[str, Any], origin: Mapping[str, Any]) -> tuple[str, str]:
    """Return where the questions are from, and its licence."""
    if lock["params"]["from_wikidata"]:
        return "Wikidata", "CC0-1.0"
    return ("EntityQuestions", "MIT") if origin["flow"]["source"] else (OWN_WORLD, "Apache-2.0")


GRANOLA_RELEASE = ReleaseForms(
    paper=Paper(
        title="Narrowing the Knowledge Evaluation Gap: Open-Domain Question Answering with Multi-Granularity Answers",
        authors=(("Gal", "Yona"), ("Roee", "Aharoni"), ("Mor", "Geva")),
        year=2024,
        arxiv="2401.04695",
        venue="Proceedings of the 62nd Annual Meeting of the Association for Computational Linguistics",
    ),
    canary="6892155f-ffa6-480a-906b-1b3737427a07",
    source_of=lambda lock, origin: find_source(lock, origin)[0],
    licence_of=lambda lock, origin: find_source(lock, origin)[1],
    configs=(
        ConfigForms(
            name="granola_eq",
            title="Questions about entities with answers from fine to coarse",
            splits={"test": "granola_eq"},
        ),
        ConfigForms(
            name="candidates",
            title="Items of Wikidata that bear the names in questions and answers, and which were chosen",
            splits={"test": "granola_candidates"},
            belongs=Belonging(column="row_id"),
        ),
    ),
)
