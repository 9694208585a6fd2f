"""How BioKaLMA is released: the questions with their minimum knowledge, and beside them how they were evolved."""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.biokalma.sources.lists import load_pair_relations
from tasks.core.publishing.card_forms import Beside, CardForms
from tasks.core.publishing.release_forms import Belonging, ConfigForms, Page, Paper, ReleaseForms

_BELONGS = Belonging(column="row_id")


def list_pages(row: Mapping[str, Any], wiki: str) -> Iterator[Page]:
    """Yield the article that the first round's text is from, where it is from one."""
    for each in row["text_pages"]:
        title, _, revision = each.rpartition(", revision ")
        yield Page.of_wiki(wiki, title, revision)


def tell_beside(facts: Mapping[str, Any], rows: int) -> Beside:
    """Return figures beside the paper's (§2.3)."""
    return {"questions": (rows, 1_085), "pieces of knowledge a question": (facts["pieces_per_question"]["mean"], 6.8)}


CARD = CardForms(
    headline="micro_f1",
    part_labels=lambda: load_pair_relations().labels,
    about=(
        "A row is a general and a specific question about two people whom a relation joins, with the smallest set of "
        "knowledge (item, property, value) that answers them and the whole pool it was chosen from. A model answers from the "
        "pool, cites what it says, and marks with [NA] what it lacks; citations are scored against the set."
    ),
    steps={
        "read_person_pairs": "Paragraphs about two people are read, or drawn from the facts of a Wikidata.",
        "resolve_people": "Both names are resolved to the one pair of items that bears them and is joined.",
        "unite_pairs": "Pairs of the same people are united, and of a person's pairs the first few stay.",
        "pool_knowledge": "The one-hop graphs of both make the pool.",
        "describe_pairs": "The text of the first round is taken from the file or from the articles' openings.",
        "count_relations_of_all": "In how many graphs each relation occurs is counted (Equation 1).",
        "annotate_paragraph": "First round: the author model marks which pieces of the pool the text states.",
        "evolve_paragraph": "Each further round adds the property that is most specific and fits best, with all its values, as one sentence that is checked by program.",
        "ask_questions": "The author model asks a general and a specific question that the set answers.",
    },
    limits=(
        "The minimum set is what the paragraph was made of: another set may answer a question as well.",
        "Of each property asked for the set has all values that the graph has, which may lack some; the paragraph may tell more than is asked.",
        "Coherence is weighed by the perplexities of one language model; with a small one it decides between equals only.",
        "People are real; facts are Wikidata's at one time and may be wrong or outdated.",
    ),
    beside=tell_beside,
)

BIOKALMA_RELEASE = ReleaseForms(
    paper=Paper(
        title="Towards Verifiable Generation: A Benchmark for Knowledge-aware Language Model Attribution",
        authors=(("Xinze", "Li"), ("Yixin", "Cao"), ("Liangming", "Pan"), ("Yubo", "Ma"), ("Aixin", "Sun")),
        year=2024,
        arxiv="2310.05634",
        venue="Findings of the Association for Computational Linguistics: ACL 2024",
    ),
    card=CARD,
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
