"""Whether a text names a person of a pair: by the full name, or a part of it that the other does not share."""

from tasks.text.folded import fold_text, has_words

_EDGES = ",.;:()\"'“”"


def names_person(text: str, name: str, other: str) -> bool:
    """True when a text names one of two; "Oscar and Richard Hertwig" names both."""
    folded, full, longer = fold_text(text), fold_text(name), fold_text(other)
    # "Johann Strauss II" names the son alone
    if has_words(folded.replace(longer, " ") if full != longer and full in longer else folded, full):
        return True
    shared = {word.strip(_EDGES) for word in fold_text(other).split()}
    own = {fold_text(word.strip(_EDGES)) for word in name.split() if word[:1].isupper()} - shared
    return any(len(word) > 1 and has_words(folded, word) for word in own)
