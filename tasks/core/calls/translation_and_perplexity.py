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

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.operation import Operation, is_string_value, make_list_check, make_optional_check


@dataclass(frozen=True, slots=True)
class TranslatedPathPart:
    """One part of a path in another language."""

    text: str
    origin: str


def make_translate_text_call(service: str, text: str, language: str) -> Call:
    """Make the call to translate an English text into another language."""
    return TRANSLATE_TEXT_OPERATION.make_call(service, text=text, language=language)


def make_translate_path_call(service: str, parts: Sequence[str], labels: Sequence[str | None], language: str) -> Call:
    """Make the call to translate the parts of a path into another language."""
    return TRANSLATE_PATH_OPERATION.make_call(service, parts=list(parts), labels=list(labels), language=language)


def parse_translated_path(body: Any) -> list[TranslatedPathPart]:
    """Parse the body of translate_path."""
    return [TranslatedPathPart(part["text"], part["origin"]) for part in body]


TRANSLATE_TEXT_OPERATION = Operation(
    "translate_text",
    service="translator",
    part_checks={"text": is_string_value, "language": is_string_value},
    parse_body=str,
)
"""Body: the translation."""

TRANSLATE_PATH_OPERATION = Operation(
    "translate_path",
    service="translator",
    part_checks={
        "parts": make_list_check(is_string_value),
        "labels": make_list_check(make_optional_check(is_string_value)),
        "language": is_string_value,
    },
    parse_body=parse_translated_path,
)
"""`labels`: Wikidata's own in the language, or null, one per part. Body: `[{"text", "origin"}]`, one per part; origin: see
text.translating.translation.PartOrigin."""


_PERPLEXITY_DIGITS = 3
NoPerplexityReason = Literal["nothing_to_weigh", "too_long", "unknown_characters", "no_number"]


@dataclass(frozen=True, slots=True)
class TextLogProbability:
    """Log probability of a text under a model."""

    log_probability: float
    """Natural logarithm, at most 0; −∞ for a text that the model holds impossible."""
    tokens: int
    """Number of tokens summed over, at least 1."""

    @property
    def perplexity(self) -> float:
        """exp(−logarithm ÷ tokens), to three digits: 1 for a certain text, ∞ for an impossible one or on overflow."""
        try:
            return float(f"{math.exp(-self.log_probability / self.tokens):.{_PERPLEXITY_DIGITS}g}")
        except OverflowError:
            return math.inf


@dataclass(frozen=True, slots=True)
class NoPerplexity:
    """Why a text has no perplexity."""

    reason: NoPerplexityReason
    detail: str


PerplexityOutcome = TextLogProbability | NoPerplexity

NO_TOKENS_TO_SCORE = NoPerplexity("nothing_to_weigh", "the text has no token after the first one that the model sees")


def make_log_probability_call(service: str, text: str) -> Call:
    """Make the call for the log probability of a text."""
    return PERPLEXITY_OPERATION.make_call(service, text=text)


def parse_log_probability(body: Any) -> TextLogProbability:
    """Parse the body of perplexity."""
    log_probability = body["log_probability"]
    return TextLogProbability(-math.inf if log_probability is None else float(log_probability), int(body["tokens"]))


def sum_log_probabilities(logs: Sequence[float]) -> PerplexityOutcome:
    """Sum the log probabilities of a text's tokens, independently of their order to the last bit."""
    if not logs:
        return NO_TOKENS_TO_SCORE
    if any(math.isnan(log) or log == math.inf for log in logs):
        return NoPerplexity("no_number", "the logarithm of a token's probability is no number")
    return TextLogProbability(math.fsum(logs), len(logs))


def make_log_probability_response(outcome: PerplexityOutcome) -> CallResponse:
    """Make the response with a text's log probability, or with the reason why it has none."""
    if isinstance(outcome, NoPerplexity):
        return CallResponse(None, "failed", f"unweighable: {outcome.reason}: {outcome.detail}")
    log_probability = None if outcome.log_probability == -math.inf else outcome.log_probability
    return CallResponse({"log_probability": log_probability, "tokens": outcome.tokens})


def make_model_service_identity(url: str, model_name: str) -> str:
    """Return the service identity of a model behind a server, for calls that do not name their model."""
    return f"{url}#{model_name}"


PERPLEXITY_OPERATION = Operation(
    "perplexity", service="model", part_checks={"text": is_string_value}, parse_body=parse_log_probability
)
"""Body: `{"log_probability": natural logarithm of the text's probability, or null for −∞, "tokens": n}`."""
