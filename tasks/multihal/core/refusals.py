"""Answers that refuse to answer: the whole answer is one of a list of phrases (MultiHal §2.1, Appendix B).

Case does not matter, and typographic quotation marks are as good as plain ones; nothing else is made equal, so that an
answer which only begins like a refusal stays.
"""

from collections.abc import Iterable

_PLAIN_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")


def read_refusals(phrases: Iterable[str]) -> frozenset[str]:
    """Return the phrases in the form in which answers are compared with them."""
    return frozenset(map(_flatten, phrases))


def is_refusal(answer: str, refusals: frozenset[str]) -> bool:
    """True when the answer as a whole is one of the phrases."""
    return _flatten(answer) in refusals


def _flatten(text: str) -> str:
    return " ".join(text.translate(_PLAIN_QUOTES).casefold().split())
