"""Rows of GRANOLA's evaluation, and the settings in which a model is measured (paper §2.2, §5, §5.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion


class GranolaQuestion(EvaluationQuestion):
    """A question in one setting."""

    relation: str
    """PID of the relation that the question asks for."""
    question_entity_popularity: int | None
    """Page views of the question entity's English article; null when there is none."""
    granola_answers: list[str]
    """Acceptable answers from fine to coarse; the first is the gold answer of standard accuracy."""
    is_compared: bool
    """Whether the sentence encoder compares its answer with the gold answer."""


class GranolaPrediction(GranolaQuestion, EvaluationPrediction):
    """A question with the model's answer."""


class ScoredGranolaPrediction(GranolaPrediction):
    """A model's answer to a question of GRANOLA-EQ, with the finest gold answer that it matches."""

    level_f1: list[float]
    """Token F1 of the answer with each of granola_answers; empty where the answer is not scored."""
    matched_level: int | None
    """The finest level whose F1 exceeds tau, from 1; 0 where none does, null where the answer is not scored."""
    is_idk: bool
    """Whether the answer says that the model does not know, or refuses."""
    semantic_similarity: float | None
    """Cosine similarity of answer and gold answer, to two digits; null where the answer is empty or not compared."""
    encoder: str
    """Sentence encoder of semantic_similarity; empty where no answer is compared."""


PLAIN_PROMPT, AGGREGATE_PROMPT = "granola/answer", "granola/answer_aggregate"

GranolaSettingName = Literal["greedy", "temperature", "idk", "idk_if_uncertain", "agg", "self_consistency", "drag"]


@dataclass(frozen=True, slots=True)
class GranolaSetting:
    """How a model is prompted and sampled in one setting."""

    description: str
    """One-line description."""
    prompt: str = PLAIN_PROMPT
    sampling: Literal["greedy", "one", "several"] = "greedy"
    """Samples: one at temperature 0, one at T, or N at T."""


SETTINGS: Mapping[GranolaSettingName, GranolaSetting] = {
    "greedy": GranolaSetting("the question alone, temperature 0"),
    "temperature": GranolaSetting("the question alone, one sample at T", sampling="one"),
    "idk": GranolaSetting("the model may reply IDK (I don't know)", "granola/answer_idk"),
    "idk_if_uncertain": GranolaSetting(
        "the model is asked to reply IDK unless it is certain", "granola/answer_idk_if_uncertain"
    ),
    "agg": GranolaSetting(
        "the model is asked for its most specific answer that is certain (IDKWithAgg)", "granola/answer_at_level"
    ),
    "self_consistency": GranolaSetting("N samples at T; the majority answer counts", sampling="several"),
    "drag": GranolaSetting(
        "N samples at T; the model combines them into one answer on which all agree", sampling="several"
    ),
}
DEFAULT_SETTINGS: tuple[GranolaSettingName, ...] = tuple(name for name in SETTINGS if name != "temperature")
"""Settings that the paper reports: temperature sampling always did worse than greedy."""
EVALUATION_PROMPTS = (*dict.fromkeys(setting.prompt for setting in SETTINGS.values()), AGGREGATE_PROMPT)
