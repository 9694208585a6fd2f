"""Whether a text can hold an answer at all, told without reading the text (FanOutQA, Appendix B, the retrieval check).

Of the thirty articles near a question hardly one holds its answers, and reading an article's words, dates and numbers
takes much longer than looking for some letters in it. So names are looked for first: an answer of words alone whose
longest word begins with letters that stand nowhere in a text is not said by it, whatever else there is.
"""

import re
from collections.abc import Iterable

from tasks.text.values.amounts import read_amounts
from tasks.text.values.answers import Answer, list_primitives

_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]")
_LEAST_LETTERS, _BEGINNING = 6, 4
"""Letters of a word that counts, and those of its beginning that no plural or possessive changes."""
_OTHERWISE_WRITTEN = frozenset({"percent", "january", "february", "september", "october", "november", "december"})


def list_beginnings(answers: Iterable[Answer]) -> frozenset[str]:
    """Return letters that a folded text must hold, all of them, to say the answers; none where nothing can be told so."""
    found = set()
    for answer in answers:
        for part in list_primitives(answer):
            # what stands in brackets may be left out, and numbers and dates are written in many ways
            values = [] if isinstance(part, bool) else [said.value for said in read_amounts(_BRACKETS.sub(" ", part))]
            words = [value for value in values if isinstance(value, str)]
            longest = max(words, key=len, default="")
            is_sure = len(words) == len(values) and longest.isascii() and longest.isalpha()
            if is_sure and len(longest) >= _LEAST_LETTERS and longest not in _OTHERWISE_WRITTEN:
                found.add(longest[:_BEGINNING])
    return frozenset(found)


def could_hold(beginnings: Iterable[str], folded_text: str) -> bool:
    """True unless some of the letters stand nowhere in a text (`fold_text`)."""
    return all(each in folded_text for each in beginnings)
