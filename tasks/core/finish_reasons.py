"""Why a sample of a chat model ends, as its server calls it (`finish_reason`), and what that means.

Records keep the server's own word. Servers agree on no spelling, so case, hyphens and underscores do not count, and a word
may stand behind others (`content_filter: RECITATION`). Of several words the one that comes first here counts:

| ending | what it means |
|---|---|
| failed | the provider failed: what came with it is no answer, the request is made again |
| filtered | the model or a filter will not: the sample counts as refused |
| cut | a limit of tokens ended the text before it was whole |
| done | the text is whole, or the model calls a function |
| unknown | no word that is known: the text is read as whole, and reports name the word |
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

Ending = Literal["failed", "filtered", "cut", "done", "unknown"]

_WORDS: dict[Ending, str] = {
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
_MALFORMED = "malformed"
"""How words begin for what a provider could not read of its own model (Gemini, Bedrock)."""


def _fold(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


_ENDINGS: dict[str, Ending] = {_fold(word): ending for ending, words in _WORDS.items() for word in words.split()}


@lru_cache(maxsize=256)
def classify_finish(reason: str) -> Ending:
    """Return what a finish reason means; an empty one means done."""
    words = [_fold(word) for word in re.findall(r"[\w-]+", reason)]
    if not words:
        return "done"
    found = {"failed" if word.startswith(_MALFORMED) else _ENDINGS.get(word, "unknown") for word in words}
    return next((ending for ending in _WORDS if ending in found), "unknown")


def is_cut(reason: str) -> bool:
    """True when a limit of tokens ended a text."""
    return classify_finish(reason) == "cut"


def describe_unknown(model: str, reasons: Iterable[str]) -> list[str]:
    """Return a sentence on the finish reasons of a model that are unknown; nothing where there is none.

    `reasons`: one or several each, with commas between them.
    """
    each = {reason for several in set(reasons) for reason in several.split(", ")}
    unknown = sorted(reason for reason in each if classify_finish(reason) == "unknown")
    if not unknown:
        return []
    return [
        f"model {model} ended texts with the finish reason {', '.join(map(repr, unknown))}, which factmill does not know: "
        "they are read as whole"
    ]
