"""What is asked of a translator and of a language model that weighs texts, and the form of their answers; a replay needs no model.

One call a text, so that the recorder serves each text again, whatever it was asked with. The name of a service holds the
model, since a call does not name it.

The text's first token depends on the model's start token (BOS) where it has one, and is then weighed like the others; a
model without one weighs from the second token on. `tokens` counts the tokens that were weighed, never the start token and
no end token: a text is not taken to end where it ends.

What a CPU makes of a model differs from another's in the last bits of its floats. Of 3,944 texts of the embedded world,
weighed in ten ways (CTranslate2's generic, AVX, AVX2 and AVX-512 code; MKL and oneDNN, each as it likes and as on older
CPUs), all perplexities agree to three digits, and all but one to four in a thousand to four. So three digits count.

JSON has no infinity, so a text that a model holds impossible has null for its logarithm, and an infinite perplexity. A
text of which nothing is weighed (an empty one; one token without a start token), one that is longer than a model reads,
and one whose logarithm is no number have no perplexity: they are failed replies `unweighable: <reason>: <detail>`.

A text that cannot be translated rightly is a failed reply `untranslatable: <reason>: <detail>`.
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
    """Ask for an English text in another language."""
    return TRANSLATE_TEXT.call(service, text=text, language=language)


def call_translate_path(service: str, parts: Sequence[str], labels: Sequence[str | None], language: str) -> Call:
    """Ask for the parts of a path in another language."""
    return TRANSLATE_PATH.call(service, parts=list(parts), labels=list(labels), language=language)


def read_parts(body: Any) -> list[Part]:
    """Read the answer to translate_path."""
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
"""`labels`: Wikidata's own in the language, or null, one a part. Body: `[{"text", "origin"}]`, one a part; origin as
text.translating.translation.PartOrigin."""


_DIGITS = 3
Reason = Literal["nothing_to_weigh", "too_long", "unknown_characters", "no_number"]


@dataclass(frozen=True, slots=True)
class Weighed:
    """How probable a model holds a text."""

    log_probability: float
    """Natural logarithm, 0 at most; −∞ for a text that the model holds impossible."""
    tokens: int
    """How many tokens it is the sum of, 1 at least."""

    @property
    def perplexity(self) -> float:
        """exp(−logarithm ÷ tokens), to three digits: 1 for a certain text, ∞ for an impossible one or what is beyond a float."""
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
    """Ask how probable a text is."""
    return PERPLEXITY.call(service, text=text)


def read_weighed(body: Any) -> Weighed:
    """Read the answer to perplexity."""
    log_probability = body["log_probability"]
    return Weighed(-math.inf if log_probability is None else float(log_probability), int(body["tokens"]))


def add_up(logs: Sequence[float]) -> Outcome:
    """Return the sum of the logarithms of a text's tokens; their order does not matter to the last bit."""
    if not logs:
        return NOTHING
    if any(math.isnan(log) or log == math.inf for log in logs):
        return Unweighable("no_number", "the logarithm of a token's probability is no number")
    return Weighed(math.fsum(logs), len(logs))


def write_reply(outcome: Outcome) -> Reply:
    """Return the reply that tells how probable a text is, or why that cannot be told."""
    if isinstance(outcome, Unweighable):
        return Reply(None, "failed", f"unweighable: {outcome.reason}: {outcome.detail}")
    log_probability = None if outcome.log_probability == -math.inf else outcome.log_probability
    return Reply({"log_probability": log_probability, "tokens": outcome.tokens})


def name_scorer(url: str, model_name: str) -> str:
    """Return the identity of a model behind a server, for calls that do not name their model."""
    return f"{url}#{model_name}"


PERPLEXITY = Operation("perplexity", service="model", parts={"text": is_text}, read=read_weighed)
"""Body: `{"log_probability": natural logarithm of the text's probability, or null for −∞, "tokens": n}`."""
