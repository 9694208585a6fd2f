"""The string accuracy of the public FanOutQA scorer, whose numbers this gives, quirks and all.

Texts are put in small letters, mended (ftfy), freed of commas between digits, lemmatised, freed of `, . ? ! : ;` and of
all but single spaces. A reference is found where it begins and ends at what regular expressions take for a word's edge.
So
- what begins or ends with a sign ($87 billion, 35 %) is found only where a letter or digit touches it, as good as never,
  and neither is what ended in a stop, for of "he won ." a space is left at the end,
- 5.2 is 52, and 1990,1991 is 19901991,
- text is put in small letters before it is mended, which hides most double encodings,
- null asks for the word "none", and an empty text for any word at all,
- the share of a list is taken of its own entries, but counts all that is missing in them: of a list of lists it may be
  negative; one that is empty is divided by, and the public scorer ends there: NaN here.
By the lemmas of spaCy's en_core_web_sm the numbers are the public ones; by others they are up to lemmas, and to where
words are split.
"""

import re
from collections.abc import Mapping, Sequence

import ftfy

from factmill.tasks.fanoutqa.core.evaluation.strings.golds import Gold, write_primitive
from factmill.tasks.fanoutqa.core.evaluation.strings.lemmas import Lemmatizer

_COMMAS = re.compile(r"(?<!\d)\d++(?:,\d++)++(?:\.\d++)?")
_DROPPED = str.maketrans("", "", ",.?!:;")
_SPACES = re.compile(r"\s+")
_MAY_BE_BROKEN = re.compile(r"[^\t\n -%'-~]")
"""What ftfy changes nothing without: what is not plain ASCII, control characters, and & of HTML."""


def mend(text: str) -> str:
    """Return a text with double encodings, HTML's entities, ligatures and curly quotes mended (ftfy)."""
    return ftfy.fix_text(text) if _MAY_BE_BROKEN.search(text) else text


def normalise(texts: Sequence[str], lemmatize: Lemmatizer) -> list[str]:
    """Return texts as the public scorer compares them."""
    mended = (mend(text.lower()) for text in texts)
    plain = [_COMMAS.sub(_drop_commas, text) if "," in text else text for text in mended]
    return [_SPACES.sub(" ", text.translate(_DROPPED)) for text in lemmatize(plain)]


def _drop_commas(found: re.Match[str]) -> str:
    return found[0].replace(",", "")


def list_texts(gold: Gold) -> list[str]:
    """Return the texts that a gold answer asks for."""
    if isinstance(gold, dict):
        return [text for each in (*gold, *gold.values()) for text in list_texts(each)]
    if isinstance(gold, list):
        return [text for each in gold for text in list_texts(each)]
    return [write_primitive(gold)]


def score(gold: Gold, answer: str, normal: Mapping[str, str]) -> tuple[float, float]:
    """Return loose share and strict 0 or 1 of a normalised answer; NaN where the public scorer divides by zero.

    `normal`: text of a gold answer → normalised.
    """
    if _has_empty(gold):
        return float("nan"), float("nan")
    size = 2 * len(gold) if isinstance(gold, dict) else len(gold) if isinstance(gold, list) else 1
    missing = sum(not is_found(normal[text], answer) for text in list_texts(gold))
    return (size - missing) / size, float(not missing)


def _has_empty(gold: Gold) -> bool:
    if not isinstance(gold, dict | list):
        return False
    return not gold or any(map(_has_empty, gold.values() if isinstance(gold, dict) else gold))


def is_found(reference: str, answer: str) -> bool:
    """True where the reference stands in the answer with what regular expressions take for a word's edge at either end."""
    if not reference:
        return any(map(_is_word, answer))
    at = answer.find(reference)
    while at >= 0:
        end = at + len(reference)
        if (at > 0 and _is_word(answer[at - 1])) != _is_word(reference[0]) and _is_word(reference[-1]) != (
            end < len(answer) and _is_word(answer[end])
        ):
            return True
        at = answer.find(reference, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
