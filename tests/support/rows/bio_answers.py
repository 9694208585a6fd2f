"""Make answers to BioKaLMA's questions: a small graph, and scored rows of which tests write only what matters."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from factmill.tasks.biokalma.core.evaluation.rows import CitationCounts, ScoredBiokalmaPrediction
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece


def make_piece(
    qid: str, property_label: str, value: str, pid: str = "P1", value_qid: str | None = None
) -> PersonKnowledgePiece:
    """Return a piece; a literal if no item is given."""
    return PersonKnowledgePiece(
        qid=qid, pid=pid, property=property_label, value_qid=value_qid, value=value, precision=None, statement=None
    )


ADA = [
    make_piece("Q1", "place of birth", "London", "P19", "Q84"),
    make_piece("Q1", "occupation", "mathematician", "P106", "Q170790"),
    make_piece("Q1", "occupation", "poet", "P106", "Q49757"),
    make_piece("Q1", "languages spoken, written or signed", "English", "P1412", "Q1860"),
    make_piece("Q1", "notable work", "Notes, part: G [draft]", "P800", "Q7"),
    make_piece("Q1", "residence", "Paris", "P551", "Q90"),
    make_piece("Q1", "date of birth", "1815-12-10", "P569"),
    make_piece("Q2", "child", "Ada Lovelace", "P40", "Q1"),
]
"""Pieces of two people."""

COUNTS = dict.fromkeys(
    [name for name in CitationCounts.model_fields if name not in ("scorer", "is_left_out")], 0
)  # fmt: skip


def scored_row(
    item: str, setting: str = "given_graph", form: str = "specific", **changed: Any
) -> ScoredBiokalmaPrediction:
    """Return a row of `biokalma_answers`; counts default to 0."""
    counts = {key: changed.pop(key) for key in [*COUNTS, "scorer", "is_left_out"] if key in changed}
    pieces: Sequence[PersonKnowledgePiece] = changed.pop("minimum_set", ADA[: counts.get("minimum", 0)])
    plain: dict[str, Any] = {
        "id": f"{setting}/{item}/{form}", "question_id": f"{item}/{form}", "item": item, "cluster": item,
        "setting": setting, "question": "Who was Ada?", "form": form, "people": ["Q1", "Q2"], "names": ["Ada", "Byron"],
        "relation": "father", "retrieved": ["Q1", "Q2"], "retrieved_names": ["Ada", "Byron"], "given": ADA,
        "minimum": pieces, "removed": ADA[: counts.get("removed", 0)], "lookup_failure": "", "answer": "She.",
        "answer_read": "She.", "samples": [], "finish": "stop", "unscored": "", "detail": "", "tokens_in": 1,
        "tokens_out": 1, "model": "m", "call": "", "coherence": None, "consistency": None, "fluency": None,
        "relevance": None, "unrated": [], "judge": "", "judge_calls": [], "sentences": ["She."], "citations": [],
        "counts": {**COUNTS, "scorer": "fixed", "is_left_out": False, **counts}, "aligner": "lexical",
    }  # fmt: skip
    return ScoredBiokalmaPrediction.model_validate(plain | changed)


def find_shared(path: str) -> Path | None:
    """Return a file of the data next to the project, or None."""
    root = Path(__file__).parents[3]
    return next((each for each in (root / "shared" / path, root.parent / "shared" / path) if each.exists()), None)
