"""Make fan-out questions for the steps, of which tests write only what matters."""

from typing import Any

from factmill.tasks.fanoutqa.core.rows import FlaggedQuestion, GatheredFanOutQuestion

_DEFAULTS: dict[str, Any] = {
    "id": "q", "source": "authored", "source_name": "own.json", "source_row": 1, "licence": "x", "question": "How long?",
    "answer": None, "decomposition": "[]", "necessary_evidence": None, "categories": [], "published_split": None,
    "wording": None, "statements": [], "author": None,
}  # fmt: skip
_UNFLAGGED: dict[str, Any] = {"flags": [], "near_articles": [], "judge": None, "reviewed_by": []}


def fan_out_row(**given: Any) -> GatheredFanOutQuestion:
    """Return a question as gathered; answers and trees are given as JSON."""
    return GatheredFanOutQuestion.model_validate(_DEFAULTS | given)


def flagged_row(**given: Any) -> FlaggedQuestion:
    """Return a question with articles of an epoch, and no flags by default."""
    return FlaggedQuestion.model_validate({**_DEFAULTS, **_UNFLAGGED, "epoch": "2023-11-20T00:00:00Z", **given})
