"""How MultiHal is released: a config for each language, as the paper's is."""

from collections.abc import Mapping
from typing import Any

from tasks.core.publishing.card_forms import Beside, CardForms
from tasks.core.publishing.release_forms import Belonging, ConfigForms, Paper, ReleaseForms


def tell_beside(facts: Mapping[str, Any], rows: int) -> Beside:
    """Return figures beside the paper's (abstract and Table 1)."""
    return {
        "paths published, in all languages": (rows, "25,905 in each of six"),
        "questions with a path": (facts["questions_published"], 7_095),
        "domains": (len(facts["domains"]), 48),
    }


CARD = CardForms(
    headline="semantic_score",
    about=(
        "A row is a question of one of seven benchmarks of hallucination with its answer and one path of Wikidata that leads "
        "from what the question is about to the answer, judged 4 or 5 of 5, in one of six languages. Asked without the path "
        "and with it, a model shows what a knowledge graph adds."
    ),
    steps={
        "read_foundation": "Rows of the foundations' own files are read, each told by its form.",
        "unite_duplicates": "Equal questions are united by the cosine of their sentence embeddings, unless they differ in a number, a code or a name, or rest on different passages; answers that agree with none of the first question's are disputed, and count neither as right nor as wrong.",
        "type_answers": "Refusals go; answers are told apart as dates, numbers, ranks and the rest.",
        "link_entities": "Names in question and answer are linked to items of Wikidata.",
        "mine_paths": "All paths of one hop, else of two, between these items are found, in both directions, also to dates, numbers and ranks.",
        "label_paths": "Items and properties of paths get their labels; a path with a part that has none goes, and one whose ends have the same label unless the build keeps them.",
        "select_paths": "Of more than ten paths a judge chooses ten, in two shuffled passes.",
        "score_paths": "The judge scores each path from 1 to 5 by how far it helps to answer; 4 and 5 stay.",
        "translate_paths": "Question, answers (right, wrong and disputed) and path are translated; numbers, dates and ids stay as they are.",
    },
    limits=(
        "A path that leads to the answer need not say why it is the answer.",
        "Translations are by machine; `part_sources` says which labels are Wikidata's own.",
        "Foundations differ in what an answer is: a word, a sentence, a paragraph. Compare models within one `source_dataset`.",
    ),
    beside=tell_beside,
    task="question-answering",
)

MULTIHAL_RELEASE = ReleaseForms(
    paper=Paper(
        title="MultiHal: Multilingual Dataset for Knowledge-Graph Grounded Evaluation of LLM Hallucinations",
        authors=(("Ernests", "Lavrinovics"), ("Russa", "Biswas"), ("Katja", "Hose"), ("Johannes", "Bjerva")),
        year=2025,
        arxiv="2505.14101",
    ),
    card=CARD,
    canary="85025846-c465-4dd4-b162-86d5744f3402",
    source="source_dataset",
    licence="licence",
    languages=("en", "de", "fr", "it", "es", "pt"),
    configs=(
        ConfigForms(
            name="multihal",
            title="Questions with judged paths of Wikidata that lead to their answers, one row a path",
            splits={"test": "multihal"},
            by="language",
            leads="eng",
        ),
        ConfigForms(
            name="dropped_paths",
            title="Paths that were left out before scoring, and why",
            splits={"test": "multihal_dropped_paths"},
            belongs=Belonging(column="question_id", to="question_id"),
        ),
    ),
)
