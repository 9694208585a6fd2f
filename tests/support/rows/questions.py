"""Make questions for MultiHal's steps, of which tests write only what matters."""

from collections.abc import Sequence
from typing import Any

from factmill.tasks.multihal.core.rows import (
    AnswerTypedQuestion,
    EntityLink,
    EntityLinkedQuestion,
    QuestionWithPaths,
    WikidataPath,
)

_DEFAULTS: dict[str, Any] = {
    "source_dataset": "halueval", "domain": "general", "licence": "none stated", "optional_output": [],
    "incorrect_answers": [], "context": [], "answer_type": "other", "looked_for": None, "looked_for_unit": None,
    "source_name": "qa_data.json", "source_row": 1,
}  # fmt: skip


def typed_question(row_id: str, question: str, answer: str = "That", **changed: Any) -> AnswerTypedQuestion:
    """Return a question whose answer is an item unless `answer_type` differs."""
    return AnswerTypedQuestion.model_validate(
        {"id": row_id, "input": question, "output": answer, **_DEFAULTS, **changed}
    )


def linked_question(
    row_id: str, subjects: Sequence[str], objects: Sequence[str], **changed: Any
) -> EntityLinkedQuestion:
    """Return a question with the QIDs that it and its answer name."""
    typed = typed_question(row_id, f"What of {row_id}?", **changed)
    return typed.extend_to(
        EntityLinkedQuestion, subject_links=_links(subjects), object_links=_links(objects), missed=[]
    )


def mined_question(row_id: str, paths: Sequence[WikidataPath], **changed: Any) -> QuestionWithPaths:
    """Return a question with its paths."""
    linked = linked_question(row_id, [paths[0].subject], [paths[0].object], **changed)
    return linked.extend_to(QuestionWithPaths, pairs=1, paths_in_all=len(paths), paths=list(paths))


def path_of(*ids: str, labels: Sequence[str] = (), **changed: Any) -> WikidataPath:
    """Return a path through these ids, the last of them an item or a value."""
    plain: dict[str, Any] = {
        "hops": len(ids) // 2,
        "backward": False,
        "statement": None,
        "precision": None,
        "unit": None,
    }
    return WikidataPath(
        **{**plain, "subject": ids[0], "object": ids[-1], "ids": list(ids), "labels": list(labels), **changed}
    )


def _links(qids: Sequence[str]) -> list[EntityLink]:
    return [EntityLink(qid=qid, surface=qid, via="labels", rank=rank) for rank, qid in enumerate(qids, 1)]
