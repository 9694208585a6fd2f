"""How GRANOLA-EQ is released: one table, all of it for testing, as the paper's is."""

from collections.abc import Mapping
from typing import Any

from tasks.core.publishing.card_forms import CardForms
from tasks.core.publishing.release_forms import OWN_WORLD, Belonging, ConfigForms, Paper, ReleaseForms


def find_source(lock: Mapping[str, Any], origin: Mapping[str, Any]) -> tuple[str, str]:
    """Return where the questions are from, and its licence."""
    if lock["params"]["from_wikidata"]:
        return "Wikidata", "CC0-1.0"
    return ("EntityQuestions", "MIT") if origin["flow"]["source"] else (OWN_WORLD, "Apache-2.0")


CARD = CardForms(
    about=(
        "A row is a question about an entity with its gold answer and coarser answers that are also true, from fine to "
        "coarse: born in Brooklyn, in New York City, in the United States. With them an answer is not just right or wrong: "
        "GRANOLA accuracy counts a match at any level, informativeness how fine that level is."
    ),
    steps={
        "read_entity_questions": "Rows of EntityQuestions with one gold answer are read, or questions made of a Wikidata's facts.",
        "cut_question_entities": "The entity that a question is about is cut out of it by its relation's template.",
        "find_qids": "Names in question and answer are looked up as labels, then as aliases; of several bearers the ones of which the Wikidata holds the fact are meant, else those with the smallest numbers.",
        "describe_entities": "Both items get Wikidata's English description, or one made of class and country, and marked.",
        "measure_popularity": "Page views of both items' articles over the last twelve full months are added up.",
        "generate_granular_answers": "The author model writes answers from fine to coarse, in one call.",
        "score_description_consistency": "Samples of a judge say whether each description fits the question; rows with too high a share of objections go.",
        "remove_trivial_answers": "Answers that say nothing (a person, a university), that repeat a level, or that neither the item's claims nor its description nor our lists bear out go.",
    },
    limits=(
        "A coarser answer is true of the item, but not every true coarser answer is listed: a model can be right and unmatched.",
        "Popularity is page views of the English Wikipedia at one time.",
        "Items stand for names by rule; `question_entity_candidates` and `answer_entity_candidates` say how many there were.",
    ),
)

GRANOLA_RELEASE = ReleaseForms(
    paper=Paper(
        title="Narrowing the Knowledge Evaluation Gap: Open-Domain Question Answering with Multi-Granularity Answers",
        authors=(("Gal", "Yona"), ("Roee", "Aharoni"), ("Mor", "Geva")),
        year=2024,
        arxiv="2401.04695",
        venue="Proceedings of the 62nd Annual Meeting of the Association for Computational Linguistics",
    ),
    card=CARD,
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
