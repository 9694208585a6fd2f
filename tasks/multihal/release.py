"""How MultiHal is released: a config for each language, as the paper's is."""

from tasks.core.release_forms import Belonging, ConfigForms, Paper, ReleaseForms

MULTIHAL_RELEASE = ReleaseForms(
    paper=Paper(
        title="MultiHal: Multilingual Dataset for Knowledge-Graph Grounded Evaluation of LLM Hallucinations",
        authors=(("Ernests", "Lavrinovics"), ("Russa", "Biswas"), ("Katja", "Hose"), ("Johannes", "Bjerva")),
        year=2025,
        arxiv="2505.14101",
    ),
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
