"""Classify why a chat model's sample ended, from its server's `finish_reason`.

Records keep the server's own word. Spellings differ between servers, so case, hyphens and underscores are ignored, and a
word may follow others (`content_filter: RECITATION`). If there are several words, the first category in this table wins:

| category | meaning |
|---|---|
| failed | the provider failed: the text is discarded and the request repeated |
| filtered | the model or a filter refuses: the sample counts as refused |
| cut | a token limit ended the text before it was complete |
| done | the text is complete, or the model calls a function |
| unknown | no known word: the text counts as complete, and reports name the word |
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

FinishCategory = Literal["failed", "filtered", "cut", "done", "unknown"]

_FINISH_REASON_WORDS: dict[FinishCategory, str] = {
    # DeepSeek, Zhipu, vLLM, Cohere
    "failed": "error insufficient_system_resource network_error abort aborted timeout",
    "filtered": (
        "content_filter content_filtered refusal refused safety "
        # Gemini
        "recitation prohibited_content blocklist spii image_safety image_prohibited_content model_armor "
        # Bedrock, Zhipu, Cohere
        "guardrail_intervened sensitive error_toxic"
    ),
    "cut": (
        "length max_tokens max_length max_output_tokens max_completion_tokens model_length incomplete "
        "model_context_window_exceeded error_limit"
    ),
    "done": (
        "stop stopped end_turn eos eos_token stop_sequence stop_token complete completed finished normal none null "
        "tool_call tool_calls tool_use function_call"
    ),
}
_MALFORMED_PREFIX = "malformed"
"""Prefix of words for model output that the provider could not parse (Gemini, Bedrock)."""


def _fold_finish_word(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


_CATEGORY_BY_WORD: dict[str, FinishCategory] = {
    _fold_finish_word(word): ending for ending, words in _FINISH_REASON_WORDS.items() for word in words.split()
}


@lru_cache(maxsize=256)
def classify_finish_reason(reason: str) -> FinishCategory:
    """Return the category of a finish reason; an empty one is `done`."""
    words = [_fold_finish_word(word) for word in re.findall(r"[\w-]+", reason)]
    if not words:
        return "done"
    found = {
        "failed" if word.startswith(_MALFORMED_PREFIX) else _CATEGORY_BY_WORD.get(word, "unknown") for word in words
    }
    return next((ending for ending in _FINISH_REASON_WORDS if ending in found), "unknown")


def is_token_limit_reached(reason: str) -> bool:
    """True when a token limit ended a text."""
    return classify_finish_reason(reason) == "cut"


def format_unknown_finish_reason_warning(model: str, reasons: Iterable[str]) -> list[str]:
    """Format a sentence about a model's unknown finish reasons, if any; `reasons`: each one or several, with commas."""
    each = {reason for several in set(reasons) for reason in several.split(", ")}
    unknown = sorted(reason for reason in each if classify_finish_reason(reason) == "unknown")
    warning = (
        f"model {model} ended texts with the finish reason {', '.join(map(repr, unknown))}, which is unknown: "
        "factmill treats these texts as complete"
    )
    return [warning] if unknown else []
