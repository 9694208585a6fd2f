"""What a model's wording of a generated question says beyond the pieces that it was given (ours; the prompt word_question).

A question that keeps all its pieces can still be another one: by a number, name or unit that it adds, by a second question,
by something of its own that it says or orders. A model may use words of its own, but no more than a few.
"""

from collections.abc import Iterator

from tasks.core.authoring.fanout_wording import Wording
from tasks.text.sentences import split_sentences
from tasks.text.values.words import Count, Told, drop_light, is_kin, read_values

MOST_OWN_WORDS = 4
_COMMON = frozenset(
    [
        "how",
        "what",
        "which",
        "who",
        "whom",
        "whose",
        "when",
        "where",
        "why",
        "many",
        "much",
        "far",
        "long",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "do",
        "does",
        "did",
        "has",
        "have",
        "had",
        "each",
        "every",
        "all",
        "any",
        "both",
        "this",
        "that",
        "these",
        "those",
        "them",
        "they",
        "their",
        "it",
        "its",
        "he",
        "she",
        "his",
        "her",
        "one",
        "among",
        "out",
        "follow",
        "following",
        "consider",
        "respectively",
        "and",
        "as",
        "than",
        "also",
    ]
)


def find_additions(question: str, wording: Wording) -> str | None:
    """Return what a question says beyond its pieces; None for nothing but a few words."""
    pieces = " ".join(
        [wording.group, wording.owner, *wording.names, wording.format_choice(), wording.asked, wording.month]
    )
    if question.count("?") > 1 + pieces.count("?"):
        return "asks more than once, expected one question"
    counts = {Count(str(wording.count)), Count(str(len(wording.names)))}
    known = {each.value for each in read_values(f"{pieces} {wording.unit}")} | counts
    own = [
        (before, each)
        for before, each in _list_words(question)
        if each.value not in _COMMON
        and drop_light([each.value, ""]) != [""]
        and not any(is_kin(each.value, value) for value in known)
    ]
    for before, each in own:
        if not isinstance(each.value, str) or each.value[0].isdigit():
            return f"says {each.said}, which no piece says; expected no other numbers and dates"
        if before and each.said[0].isupper():
            return f"names {each.said}, which no piece names; expected no other names"
        if before and (before.value == "in" or not (isinstance(before.value, str) or before.value in counts)):
            return f"has {before.said} {each.said}, which no piece has; expected no other units"
    if len(own) > MOST_OWN_WORDS:
        told = ", ".join(each.said for _, each in own)
        return f"adds {told}; expected the pieces and at most {MOST_OWN_WORDS} words of your own"
    return None


def _list_words(question: str) -> Iterator[tuple[Told | None, Told]]:
    """Yield the words with those before them in their sentence."""
    for sentence in split_sentences(question):
        before = None
        for each in read_values(sentence):
            yield before, each
            before = each
