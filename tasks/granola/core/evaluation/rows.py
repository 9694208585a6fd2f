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
    """What the answer is held to, from fine to coarse; the first is the gold answer of standard accuracy."""
    is_compared: bool
    """Whether it is among those that are compared with the gold answer by the sentence encoder."""


class GranolaGiven(GranolaAsked, Answer):
    """With the model's answer."""


class GranolaAnswer(GranolaGiven):
    """One row of the published table `granola_answers`: an answer and what it is worth."""

    level_f1: list[float]
    """Token F1 of the answer with each of granola_answers; empty where the answer is not scored."""
    matched_level: int | None
    """The finest level whose F1 exceeds tau, from 1; 0 where none does, null where the answer is not scored."""
    is_idk: bool
    """Whether it says that the model does not know, or refuses."""
    semantic_similarity: float | None
    """Cosine of the answer and the gold answer, to two digits; null where the answer says nothing or is not compared."""
    encoder: str
    """Sentence encoder of that; empty where none is compared."""


PLAIN, AGGREGATE = "granola/answer", "granola/answer_aggregate"

SettingName = Literal["greedy", "temperature", "idk", "idk_if_uncertain", "agg", "self_consistency", "drag"]


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model is asked in one setting."""

    told: str
    """A line that says how."""
    prompt: str = PLAIN
    draws: Literal["greedy", "one", "several"] = "greedy"
    """Answers that are drawn: one at temperature 0, one at T, or N at T."""


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
"""What the paper reports: temperature sampling always did worse than greedy."""
PROMPTS = (*dict.fromkeys(setting.prompt for setting in SETTINGS.values()), AGGREGATE)


def ask_first(prompt: Prompt, setting: Setting, question: str, samples: int, temperature: float) -> Ask:
    """Return what is asked first; `samples`, `temperature`: N and T."""
    heated = replace(prompt, temperature=0.0 if setting.draws == "greedy" else temperature)
    return fill_in(heated, samples if setting.draws == "several" else 1, question=question)


def ask_aggregate(prompt: Prompt, question: str, samples: Sequence[str]) -> Ask:
    """Return what DRAG asks next: the most specific answer that is consistent with all samples (Table 8)."""
    return fill_in(prompt, question=question, responses=list_responses(samples))
