"""The settings in which a model is measured (paper §5.1): what it is asked, how often, and how hot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tasks.core.prompts import Ask, Prompt, fill_in
from tasks.granola.core.answers import list_responses

PLAIN_PROMPT, AGGREGATE_PROMPT = "granola/answer", "granola/answer_aggregate"


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model is asked in one setting."""

    prompt: str = PLAIN_PROMPT
    draws: Literal["greedy", "one", "several"] = "greedy"
    """Answers drawn: one at temperature 0, one at T, or N at T."""
    in_paper: bool = True
    """Whether the paper's figures show it: temperature sampling always did worse than greedy."""


SETTINGS: Mapping[str, Setting] = {
    "greedy": Setting(),
    "temperature": Setting(draws="one", in_paper=False),
    "idk": Setting("granola/answer_idk"),
    "idk_if_uncertain": Setting("granola/answer_idk_if_uncertain"),
    "agg": Setting("granola/answer_at_level"),
    "self_consistency": Setting(draws="several"),
    "drag": Setting(draws="several"),
}
"""By name; agg is the paper's IDKWithAgg."""
PROMPTS = (*dict.fromkeys(setting.prompt for setting in SETTINGS.values()), AGGREGATE_PROMPT)


def ask_question(prompt: Prompt, setting: Setting, question: str, samples: int, temperature: float) -> Ask:
    """Return what is asked first; `samples`, `temperature`: N and T."""
    heat = 0.0 if setting.draws == "greedy" else temperature
    return fill_in(
        replace(prompt, temperature=heat), samples=samples if setting.draws == "several" else 1, question=question
    )


def ask_aggregate(prompt: Prompt, question: str, samples: Sequence[str]) -> Ask:
    """Return what DRAG asks next: one answer that is consistent with all the samples (Table 8)."""
    return fill_in(prompt, question=question, responses=list_responses(samples))
