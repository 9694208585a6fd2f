"""Calls to translators and perplexity models, and their responses; a replay needs no model.

There is one call per text, so that the call cache can serve each text independently of its batch. The identity of the
service contains the model, since a call does not name it.

If the model has a start token (BOS), the probability of the first token is conditioned on it and counts; a model without one
scores from the second token on. `tokens` counts the scored tokens, without start and end token: the end of a text is not
scored.

CPUs differ in the last bits of a model's floats. For 3,944 texts of the embedded world, scored in ten ways (CTranslate2's
generic, AVX, AVX2 and AVX-512 code; MKL and oneDNN, each by default and as on older CPUs), all perplexities agree to three
digits, and all but one to four in a thousand agree to four digits. So three digits count.

JSON has no infinity, so a text that a model holds impossible has null as its logarithm, and an infinite perplexity. A text
without a scored token (an empty one; one token without a start token), a text longer than the model's context, and one
whose logarithm is not a number have no perplexity: they are failed responses `unweighable: <reason>: <detail>`.

A text that cannot be translated reliably is a failed response `untranslatable: <reason>: <detail>`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from factmill.tasks.core.calls.call import Call, Reply
from factmill.tasks.core.calls.operation import Operation, is_list_of, is_none_or, is_text


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a path in another language."""

    text: str
    origin: str


def call_translate_text(service: str, text: str, language: str) -> Call:
    """Make the call to translate an English text into another language."""
    return TRANSLATE_TEXT.call(service, text=text, language=language)


def call_translate_path(service: str, parts: Sequence[str], labels: Sequence[str | None], language: str) -> Call:
    """Make the call to translate the parts of a path into another language."""
    return TRANSLATE_PATH.call(service, parts=list(parts), labels=list(labels), language=language)


def read_parts(body: Any) -> list[Part]:
    """Parse the body of translate_path."""
    return [Part(part["text"], part["origin"]) for part in body]


TRANSLATE_TEXT = Operation(
    "translate_text", service="translator", parts={"text": is_text, "language": is_text}, read=str
)
"""Body: the translation."""

TRANSLATE_PATH = Operation(
    "translate_path",
    service="translator",
    parts={"parts": is_list_of(is_text), "labels": is_list_of(is_none_or(is_text)), "language": is_text},
    read=read_parts,
)
"""`labels`: Wikidata's own in the language, or null, one per part. Body: `[{"text", "origin"}]`, one per part; origin: see
text.translating.translation.PartOrigin."""


_DIGITS = 3
Reason = Literal["nothing_to_weigh", "too_long", "unknown_characters", "no_number"]


@dataclass(frozen=True, slots=True)
class Weighed:
    """Log probability of a text under a model."""

    log_probability: float
    """Natural logarithm, at most 0; −∞ for a text that the model holds impossible."""
    tokens: int
    """Number of tokens summed over, at least 1."""

    @property
    def perplexity(self) -> float:
        """exp(−logarithm ÷ tokens), to three digits: 1 for a certain text, ∞ for an impossible one or on overflow."""
        try:
            return float(f"{math.exp(-self.log_probability / self.tokens):.{_DIGITS}g}")
        except OverflowError:
            return math.inf


@dataclass(frozen=True, slots=True)
class Unweighable:
    """Why a text has no perplexity."""

    reason: Reason
    detail: str


Outcome = Weighed | Unweighable

NOTHING = Unweighable("nothing_to_weigh", "the text has no token after the first one that the model sees")


def call_perplexity(service: str, text: str) -> Call:
    """Make the call for the log probability of a text."""
    return PERPLEXITY.call(service, text=text)


def read_weighed(body: Any) -> Weighed:
    """Parse the body of perplexity."""
    log_probability = body["log_probability"]
    return Weighed(-math.inf if log_probability is None else float(log_probability), int(body["tokens"]))


def add_up(logs: Sequence[float]) -> Outcome:
    """Sum the log probabilities of a text's tokens, independently of their order to the last bit."""
    if not logs:
        return NOTHING
    if any(math.isnan(log) or log == math.inf for log in logs):
        return Unweighable("no_number", "the logarithm of a token's probability is no number")
    return Weighed(math.fsum(logs), len(logs))


def write_reply(outcome: Outcome) -> Reply:
    """Make the response with a text's log probability, or with the reason why it has none."""
    if isinstance(outcome, Unweighable):
        return Reply(None, "failed", f"unweighable: {outcome.reason}: {outcome.detail}")
    log_probability = None if outcome.log_probability == -math.inf else outcome.log_probability
    return Reply({"log_probability": log_probability, "tokens": outcome.tokens})


def name_scorer(url: str, model_name: str) -> str:
    """Return the service identity of a model behind a server, for calls that do not name their model."""
    return f"{url}#{model_name}"


PERPLEXITY = Operation("perplexity", service="model", parts={"text": is_text}, read=read_weighed)
"""Body: `{"log_probability": natural logarithm of the text's probability, or null for −∞, "tokens": n}`."""
