"""Run steps with an author model: two people with pools, a scripted language model, and their services."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted_author import ScriptedAuthor
from support.models.scripted_chat import make_chat_services
from support.rows.biographies import evolving_pair, make_piece
from support.steps.inputs import biokalma_inputs
from support.steps.steps import Left, run_step

from factmill.tasks.biokalma.core.rows import PairWithEvolutionRounds
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.calls.translation_and_perplexity import TextLogProbability, make_log_probability_response
from factmill.tasks.core.rows import Row
from factmill.tasks.core.service_settings import ServiceLimits

LIMITS = ServiceLimits(parallel=4, timeout_s=5, attempts=2, backoff_s=0.01)
WRITER = make_piece("Q1", "P106", "writer", "Q36180")
LONDON = make_piece("Q1", "P19", "London", "Q84")
BORN = make_piece("Q1", "P569", "1815-12-10", precision=11)
MEDAL = make_piece("Q1", "P166", "Copley Medal", "Q7")
POET = make_piece("Q2", "P106", "poet", "Q49757")
DOVER = make_piece("Q2", "P20", "Dover", "Q179224")
DIED = make_piece("Q2", "P570", "44 BC", precision=9)
ADA, BOB = [WRITER, LONDON, BORN, MEDAL], [POET, DOVER, DIED]
BOTH = [WRITER, POET]
PERPLEXITIES = {"writer": 9.0, "London": 3.0, "1815": 4.0, "Medal": 5.0, "poet": 6.0, "Dover": 7.0, "44 BC": 8.0}
"""Value → perplexity of a text that ends with it."""


class Weigher:
    """A language model that scores a text by its end: value → perplexity, or its reply."""

    identity = "weigher"
    is_outside = True

    def __init__(self, weights: Mapping[str, float | CallResponse]) -> None:
        self.weights = {**PERPLEXITIES, **weights}
        self.texts: list[str] = []

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        for call in calls:
            text = str(call.parts["text"])
            self.texts.append(text)
            (found,) = [weight for value, weight in self.weights.items() if value in text[-25:]]
            deliver(
                call,
                found
                if isinstance(found, CallResponse)
                else make_log_probability_response(TextLogProbability(-7 * math.log(found), 7)),
            )


Run = Callable[..., Left]


def step_runner(author: ScriptedAuthor, folder: Path, patch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a step on rows with the author and a language model; defaults: two rounds and α 0.5."""

    def run(step: Any, rows: Sequence[Row], scorer: Any = None, **params: Any) -> Left:
        services, weigher = make_chat_services(author.url), scorer or Weigher({})
        services.perplexity = lambda: weigher
        return run_step(step, rows, services, folder, patch, biokalma_inputs(**{"rounds": 2, **params}))

    return run


def evolving(name: str, known: Sequence[PersonKnowledgePiece] = BOTH, **changed: Any) -> PairWithEvolutionRounds:
    """Return a pair whose text begins with a word that sets the author's manners."""
    return evolving_pair(name, f"{name} met Bob.", known, ADA, BOB, **changed)


def values(pieces: Sequence[Any]) -> list[str]:
    """Return the published values of pieces or candidates."""
    return [each["value"] for each in pieces]
