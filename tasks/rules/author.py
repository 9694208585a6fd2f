"""The author of the embedded world: answers prompts from their variables by plain rules. It is no language model.

SLAQ's prompts it answers with what is written by hand of the embedded world's articles (rules/by_hand.py). It stands where a chat model stands and takes the same calls, so that every flow runs anywhere, without a key and
without a network. Its answers are recorded like any model's, and every row made with it says so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.calls.knowledge import Knowledge
from tasks.rules.biographies.answers import (
    annotate_paragraphs,
    ask_general_questions,
    ask_specific_questions,
    extend_paragraphs,
)
from tasks.rules.by_hand import check_pairs, name_fact_types, write_questions
from tasks.rules.fanoutqa.checks import judge_objectivity, mend_wording
from tasks.rules.fanoutqa.wording import word_questions
from tasks.rules.graph import look_up_facts
from tasks.rules.levels.answers import list_levels
from tasks.rules.levels.consistency import fits_question
from tasks.rules.paths import choose_paths, score_path

NAME = "rules-1"
"""Stands in reports and rows as the model's name; changes whenever the rules can answer differently."""

Variables = Mapping[str, str]


class RulesAuthor:
    """Answers chat calls by rules over a Wikidata that can be read directly."""

    is_outside = True

    def __init__(self, identity: str, knowledge: Knowledge) -> None:
        """Take the identity that calls are addressed to, `rules-1@<digest of the graph>`, and the graph."""
        self.identity = identity
        self._knowledge = knowledge

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer every call; a prompt that no rule knows gets a failed reply that names it."""
        by_prompt: dict[str, list[Call]] = {}
        for call in calls:
            by_prompt.setdefault(str(call.parts.get("prompt")) if call.operation == "chat" else "", []).append(call)
        for prompt_id, batch in by_prompt.items():
            rule = _RULES.get(prompt_id)
            if rule is None:
                self._refuse(batch, deliver)
                continue
            for call, text in zip(batch, rule([_variables(call) for call in batch], self._knowledge), strict=True):
                if text is None:
                    deliver(
                        call, Reply(None, status="failed", error=f"no_reply: none is written by hand for {prompt_id}")
                    )
                    continue
                samples = int(_plain(call.parts.get("samples", 1)))
                deliver(call, Reply({"texts": [text] * samples, "finish": ["stop"] * samples, "fingerprint": NAME}))

    def _refuse(self, calls: Sequence[Call], deliver: Deliver) -> None:
        for call in calls:
            asked = f"prompt {call.parts.get('prompt')}" if call.operation == "chat" else f"operation {call.operation}"
            deliver(call, Reply(None, status="failed", error=f"unknown_prompt: {NAME} has no rules for {asked}"))


def _write_levels(batch: Sequence[Variables], knowledge: Knowledge) -> list[str]:
    answers = [(asked["answer"], asked["answer_description"]) for asked in batch]
    facts = look_up_facts(knowledge, answers)
    written = []
    for asked, answer in zip(batch, answers, strict=True):
        levels = list_levels(asked["question"], *answer, facts[answer])
        written.append(
            "\n".join(f"{number}:: {' '.join(level.split())}" for number, level in enumerate(levels, start=1))
        )
    return written


def _judge_consistency(batch: Sequence[Variables], _knowledge: Knowledge) -> list[str]:
    return [
        "Yes" if fits_question(asked["question"], asked["entity"], asked["description"]) else "No" for asked in batch
    ]


def _select_paths(batch: Sequence[Variables], _knowledge: Knowledge) -> list[str]:
    chosen = [
        choose_paths(asked["question"], asked["answer"].split("; "), asked["paths"].splitlines(), int(asked["number"]))
        for asked in batch
    ]
    # a judge that finds none of use still has to answer in the agreed form, which a lone mark is
    return ["\n".join(f"Path: {path}" for path in paths) or "Path: none" for paths in chosen]


def _score_paths(batch: Sequence[Variables], _knowledge: Knowledge) -> list[str]:
    return [f"Score: {score_path(asked['question'], asked['answer'].split('; '), asked['path'])}" for asked in batch]


_RULES: Mapping[str, Callable[[Sequence[Variables], Knowledge], Sequence[str | None]]] = {
    "granola/granular_answers": _write_levels,
    "granola/description_consistency": _judge_consistency,
    "multihal/select_paths": _select_paths,
    "multihal/score_path": _score_paths,
    "biokalma/annotate": annotate_paragraphs,
    "biokalma/extend": extend_paragraphs,
    "biokalma/general_question": ask_general_questions,
    "biokalma/specific_question": ask_specific_questions,
    "slaq/generate": write_questions,
    "slaq/check": check_pairs,
    "slaq/fact_type": name_fact_types,
    "fanoutqa/word_question": word_questions,
    "fanoutqa/objective": judge_objectivity,
    "fanoutqa/wording": mend_wording,
}


def _variables(call: Call) -> Variables:
    given: Any = call.parts["variables"]
    return {str(name): str(value) for name, value in given.items()}


def _plain(value: Any) -> Any:
    return value
