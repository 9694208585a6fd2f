"""The string accuracy of the public FanOutQA scorer: this reproduces its numbers, quirks included.

Texts are put in lower case, fixed (ftfy), stripped of commas between digits, lemmatised, stripped of `, . ? ! : ;`, and
their spaces collapsed. A reference is found if it begins and ends at a word boundary of regular expressions. So
- a string that begins or ends with a sign ($87 billion, 35 %) is found only if a letter or digit touches the sign,
  which hardly ever happens; nor is one that ended in a full stop, since "he won ." keeps a final space,
- 5.2 equals 52, and 1990,1991 equals 19901991,
- lower-casing before ftfy hides most double encodings,
- null requires the word "none", and an empty text any word at all,
- the share of a list is relative to its own entries, but counts everything missing in them: for a list of lists it may
  be negative; for an empty list the public scorer crashes with a division by zero: NaN here.
With the lemmas of spaCy's en_core_web_sm the numbers equal the public ones; with other lemmas they may differ by lemmas
and word splits.
"""

import re
from collections.abc import Mapping, Sequence

import ftfy

from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import GoldAnswer, format_gold_primitive
from factmill.tasks.fanoutqa.core.evaluation.strings.rule_lemmatizer import TextBatchLemmatizer

_NUMBER_WITH_COMMAS = re.compile(r"(?<!\d)\d++(?:,\d++)++(?:\.\d++)?")
_DROPPED_PUNCTUATION = str.maketrans("", "", ",.?!:;")
_SPACES = re.compile(r"\s+")
_MAY_NEED_FIXING = re.compile(r"[^\t\n -%'-~]")
"""Characters without which ftfy changes nothing: non-ASCII, control characters, and the & of HTML entities."""


def fix_encoding(text: str) -> str:
    """Return a text with double encodings, HTML entities, ligatures and curly quotes fixed (ftfy)."""
    return ftfy.fix_text(text) if _MAY_NEED_FIXING.search(text) else text


def normalise_like_upstream(texts: Sequence[str], lemmatize: TextBatchLemmatizer) -> list[str]:
    """Normalise texts as the public scorer does."""
    mended = (fix_encoding(text.lower()) for text in texts)
    plain = [
        _NUMBER_WITH_COMMAS.sub(lambda found: found[0].replace(",", ""), text) if "," in text else text
        for text in mended
    ]
    return [_SPACES.sub(" ", text.translate(_DROPPED_PUNCTUATION)) for text in lemmatize(plain)]


def list_upstream_gold_strings(gold: GoldAnswer) -> list[str]:
    """Return the strings of a gold answer that the public scorer looks for."""
    if isinstance(gold, dict):
        return [text for each in (*gold, *gold.values()) for text in list_upstream_gold_strings(each)]
    if isinstance(gold, list):
        return [text for each in gold for text in list_upstream_gold_strings(each)]
    return [format_gold_primitive(gold)]


def score_like_upstream(gold: GoldAnswer, answer: str, normal: Mapping[str, str]) -> tuple[float, float]:
    """Return the loose share and the strict 0 or 1 of a normalised answer; NaN if the public scorer divides by zero.

    `normal`: string of a gold answer → its normalised form.
    """
    if _has_empty_container(gold):
        return float("nan"), float("nan")
    size = 2 * len(gold) if isinstance(gold, dict) else len(gold) if isinstance(gold, list) else 1
    missing = sum(not stands_at_word_edges(normal[text], answer) for text in list_upstream_gold_strings(gold))
    return (size - missing) / size, float(not missing)


def _has_empty_container(gold: GoldAnswer) -> bool:
    if not isinstance(gold, dict | list):
        return False
    return not gold or any(map(_has_empty_container, gold.values() if isinstance(gold, dict) else gold))


def stands_at_word_edges(reference: str, answer: str) -> bool:
    r"""True if the answer contains the reference between two word boundaries, as `\b` of regular expressions."""
    if not reference:
        return any(map(_is_word_character, answer))
    at = answer.find(reference)
    while at >= 0:
        before, after = answer[at - 1 : at] if at else "", answer[at + len(reference) : at + len(reference) + 1]
        if _is_word_character(before) != _is_word_character(reference[0]) and (
            _is_word_character(reference[-1]) != _is_word_character(after)
        ):
            return True
        at = answer.find(reference, at + 1)
    return False


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"
