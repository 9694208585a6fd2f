"""Numbers, dates and ids in a text: what translation must leave as it is written (MultiHal, paper §2.4).

A translation model never sees them: each is replaced by a stand-in, a year of our own choice, which a translation model
copies where it would rewrite "3,755,251" as "3.755.251". A translation counts only when every stand-in comes back exactly
once. Dates are kept whole, months and all, so that they stay what a gold answer is compared with. Ordinals (19th) are
words, and are translated. A text that is all number, date or id is not sent at all.
"""

import re
from dataclasses import dataclass

STAND_INS = ("2001", "2002", "2003", "2004", "2005", "2006", "2007", "2008", "2009")
"""What a model is shown in place of numbers, dates and ids, in this order; those the text holds itself are left out."""

_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan\\.|Feb\\.|Mar\\.|Apr\\.|Jun\\.|Jul\\.|Aug\\.|Sept?\\.|Oct\\.|Nov\\.|Dec\\."
)
_SYMBOL = r"(?:[mck]?m[²³23]?|[mk]?g|km/h|°[CF]?|ha|[kMGT]?Hz|[kMG]W)"
_ERA = r"(?:\ (?:BCE?|AD|CE)\b)?"
_PROTECTED = re.compile(
    rf"""
    (?:https?://|www\.)[^\s<>"]*[^\s<>".,;:!?)\]]                                  # addresses
    | \b10\.[0-9]{{4,9}}/[^\s"]*[^\s".,;:!?)\]]                                    # DOIs
    | (?<![\w.])[-+−]?[0-9]{{4,}}-[0-9]{{2}}(?:-[0-9]{{2}}(?:T[0-9:.]+Z?)?)?{_ERA}(?!\w)  # 1879-03-14, 1879-03
    | \b[0-9]{{1,2}}(?:st|nd|rd|th)?(?:\ of)?\ (?:{_MONTHS})(?:,?\ [0-9]{{1,4}}\b{_ERA})? # 14 March 1879
    | \b(?:{_MONTHS})\ (?:[0-9]{{1,2}}(?:st|nd|rd|th)?,?\ )?[0-9]{{1,4}}\b{_ERA}          # March 14, 1879; March 1879
    | \b[0-9]+(?:st|nd|rd|th)\ (?:century|millennium)\b{_ERA}
    | \b[0-9]+s\b{_ERA}                                                             # 1950s
    | \b[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}})?\b                                     # 14:30
    | \b(?![0-9]+(?:st|nd|rd|th)\b)(?:[A-Z]{{1,6}}-)?(?:[A-Za-z]+[0-9]\w*|[0-9]+[A-Za-z]\w*)\b(?:[-/][0-9]\w*)*  # Q42, K2
    | \b[A-Z]{{1,6}}-[0-9]\w*\b                                                     # F-16, COVID-19
    | (?<![\w.,])[-+−]?[$€£]?[0-9]+(?:[.,:/–-][0-9]+)*(?:\ ?%)?(?![\w])               # 3,755,251  4805.59  1914–1918  12%
      (?:\ (?:BCE?|AD|CE)\b|\ {_SYMBOL}(?!\w))?
    """,
    re.VERBOSE,
)
_ABOUT = re.compile(r"about [0-9]+(?: BC)?")
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Protected:
    """A text as the model is shown it, and what its stand-ins stand for."""

    text: str
    stand_ins: tuple[tuple[str, str], ...]
    """(stand-in, what stands in the source), in the order of the source."""


def is_all_protected(text: str) -> bool:
    """True when nothing in a text needs translation: no letter outside numbers, dates and ids."""
    return bool(_ABOUT.fullmatch(text)) or not _LETTERS.search(_PROTECTED.sub("", text))


def protect(text: str) -> Protected | None:
    """Return a text with stand-ins for its numbers, dates and ids; None when it has more than there are stand-ins."""
    found = list(_PROTECTED.finditer(text))
    free = [stand_in for stand_in in STAND_INS if stand_in not in _PROTECTED.sub("", text)]
    if len(found) > len(free):
        return None
    pieces, end = [], 0
    for match, stand_in in zip(found, free, strict=False):
        pieces += [text[end : match.start()], stand_in]
        end = match.end()
    pieces.append(text[end:])
    return Protected("".join(pieces), tuple(zip(free, (match[0] for match in found), strict=False)))


def restore(protected: Protected, translation: str) -> str | None:
    """Return a translation with what the stand-ins stand for; None unless each occurs exactly once, on its own."""
    originals = dict(protected.stand_ins)
    if not originals:
        return translation
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(originals)})(?!\w)")
    if sorted(pattern.findall(translation)) != sorted(originals):
        return None
    return pattern.sub(lambda match: originals[match[0]], translation)


def split_at_protected(text: str) -> list[tuple[str, bool]]:
    """Return a text cut into stretches: (stretch, True when it is to be translated), to be joined as they are.

    Blanks and marks at the edges of a stretch stay with the numbers, so that only words are translated.
    """
    stretches: list[tuple[str, bool]] = []
    end = 0
    for match in _PROTECTED.finditer(text):
        stretches += [*_trim(text[end : match.start()]), (match[0], False)]
        end = match.end()
    return [stretch for stretch in [*stretches, *_trim(text[end:])] if stretch[0]]


def list_protected(text: str) -> list[str]:
    """Return the numbers, dates and ids of a text, in order."""
    return [match[0] for match in _PROTECTED.finditer(text)]


def find_words(text: str) -> list[str]:
    """Return the words of a text: its unbroken runs of letters."""
    return _WORD.findall(text)


def _trim(stretch: str) -> list[tuple[str, bool]]:
    words = _LETTERS.search(stretch)
    if not words:
        return [(stretch, False)]
    start = words.start()
    end = max(match.end() for match in _LETTERS.finditer(stretch))
    return [(stretch[:start], False), (stretch[start:end], True), (stretch[end:], False)]
