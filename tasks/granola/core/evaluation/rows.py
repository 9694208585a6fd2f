"""Rows of GRANOLA's evaluation, and the settings in which a model is measured (paper §2.2, §5, §5.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from factmill.tasks.core.evaluation.rows import Answer, Asked
from factmill.tasks.core.prompts import Ask, Prompt, fill_in
from factmill.tasks.granola.core.evaluation.scoring import list_responses


class GranolaAsked(Asked):
    """A question in one setting."""

    relation: str
    """PID of the relation that the question asks for."""
    question_entity_popularity: int | None
    """Page views of the question entity's English article; null when there is none."""
    granola_answers: list[str]
    """Acceptable answers from fine to coarse; the first is the gold answer of standard accuracy."""
    is_compared: bool
    """Whether the sentence encoder compares its answer with the gold answer."""


class GranolaGiven(GranolaAsked, Answer):
    """A question with the model's answer."""


class GranolaAnswer(GranolaGiven):
    """One row of the published table `granola_answers`: an answer with its scores."""

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


PLAIN, AGGREGATE = "granola/answer", "granola/answer_aggregate"

SettingName = Literal["greedy", "temperature", "idk", "idk_if_uncertain", "agg", "self_consistency", "drag"]


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model is prompted and sampled in one setting."""

    told: str
    """One-line description."""
    prompt: str = PLAIN
    draws: Literal["greedy", "one", "several"] = "greedy"
    """Samples: one at temperature 0, one at T, or N at T."""


SETTINGS: Mapping[SettingName, Setting] = {
    "greedy": Setting("the question alone, temperature 0"),
    "temperature": Setting("the question alone, one sample at T", draws="one"),
    "idk": Setting("may reply IDK", "granola/answer_idk"),
    "idk_if_uncertain": Setting("is to reply IDK unless certain", "granola/answer_idk_if_uncertain"),
    "agg": Setting("is to answer as specifically as it is certain (IDKWithAgg)", "granola/answer_at_level"),
    "self_consistency": Setting("N samples at T, of which the majority counts", draws="several"),
    "drag": Setting("N samples at T, put together by the model: what all agree on", draws="several"),
}
USUAL: tuple[SettingName, ...] = tuple(name for name in SETTINGS if name != "temperature")
"""Settings that the paper reports: temperature sampling always did worse than greedy."""
PROMPTS = (*dict.fromkeys(setting.prompt for setting in SETTINGS.values()), AGGREGATE)


def ask_first(prompt: Prompt, setting: Setting, question: str, samples: int, temperature: float) -> Ask:
    """Return a setting's first prompt; `samples` and `temperature` are N and T."""
    heated = replace(prompt, temperature=0.0 if setting.draws == "greedy" else temperature)
    return fill_in(heated, samples if setting.draws == "several" else 1, question=question)


def ask_aggregate(prompt: Prompt, question: str, samples: Sequence[str]) -> Ask:
    """Return DRAG's second prompt: it asks for the most specific answer consistent with all samples (Table 8)."""
    return fill_in(prompt, question=question, responses=list_responses(samples))
