"""How answers to GRANOLA's questions are read, and several made one (paper §4, §5.1).

A model is asked for its answer alone. What it says beside that is passed over where it is surely none of it: the answer is
what stands on the last line that is labelled so, else the first line. Nothing is mended.
"""

import re
from collections.abc import Sequence

from tasks.text.matching import normalise

_LABELLED = re.compile(
    r"[\s*_`#>-]*(?:(?:the|my|final|correct|aggregated|short) )*(?:answer|response)[\s*_`]*[:：][\s*_`]*(?P<answer>\S.*)",
    re.IGNORECASE,
)
_NOT_AVAILABLE = re.compile(r"\W*n\s*[./]\s*a\W*", re.IGNORECASE)

_OPENING = r"(?:(?:im|i am|we are|were) (?:\w+ )?(?:sorry|afraid)|sorry|apologies|my apologies|i apologi[sz]e|unfortunately|honestly|well|but|that)"
_NOT = r"(?:do not|dont|did not|didnt|does not|doesnt)"
_CANNOT = r"(?:can ?not|cant|could not|couldnt|(?:am |are |im |were )?(?:unable|not able) to)"
_KNOW = r"(?:know|recall|remember|have (?:\w+ )*?(?:information|info|knowledge|idea|clue|data|answer|details))"
_SAY = r"(?:answer|say|tell|determine|recall|remember|provide|find|confirm|verify|identify|help|assist|comply|be (?:sure|certain))"
_UNSURE = r"(?:sure|certain|aware|confident|familiar)"
_WHOLE = (
    r"idk|dunno|no idea|no clue|unknown|not known|unclear|unsure|uncertain|no answer|not enough information"
    rf"|(?:it|that|this|answer) is (?:not known|unknown|unclear)|its unknown|not {_UNSURE}|dont know|do not know"
)
_SENTENCE = (
    rf"idk|(?:i|we) (?:\w+ )?{_NOT} (?:\w+ )?{_KNOW}|(?:i |we )?(?:\w+ )?{_CANNOT} {_SAY}"
    rf"|(?:im|i am|we are|were) (?:\w+ )?(?:not {_UNSURE}|unsure|uncertain)|i have no (?:idea|clue|information|knowledge)"
    r"|there is (?:no|not enough|insufficient) information|i lack"
)
_IDK = re.compile(rf"(?:{_OPENING} )*(?:(?:{_WHOLE})|(?:{_SENTENCE})(?P<tail> .*)?)")
_COMMITS = re.compile(
    r"\b(?:but|however|though|although|maybe|perhaps|possibly|probably|likely|guess|might|may|could be|believe|think|suppose)\b"
)


def read_answer(text: str) -> str:
    """Return the answer that a reply, undressed (core/replies.py), holds, on one line; empty where it says nothing."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    labelled = [found["answer"].strip() for found in map(_LABELLED.fullmatch, lines) if found]
    return (labelled[-1:] or lines[:1] or [""])[0]


def says_idk(answer: str) -> bool:
    """True when an answer says that its giver does not know, or will not say: IDK and whole sentences of the same meaning.

    Where a guess follows, it does not: "I don't know, but probably London".
    """
    if _NOT_AVAILABLE.fullmatch(answer):
        return True
    found = _IDK.fullmatch(normalise(answer))
    return bool(found) and not _COMMITS.search((found and found["tail"]) or "")


def choose_majority(samples: Sequence[str]) -> str:
    """Return the answer that most samples give after normalisation, spelled as it was first; of ties the one drawn first.

    All ways to say that one does not know are one answer; empty samples have no vote. Empty where none has.
    """
    votes: dict[str, int] = {}
    spelled: dict[str, str] = {}
    for sample in samples:
        if sample.strip():
            form = "idk" if says_idk(sample) else normalise(sample) or sample.casefold()
            votes[form] = votes.get(form, 0) + 1
            spelled.setdefault(form, sample)
    return spelled[max(votes, key=votes.__getitem__)] if votes else ""


def list_responses(samples: Sequence[str]) -> str:
    """Return the samples as the aggregation is shown them: a list, one a line, in the order drawn; empty ones are left out."""
    flat = (" ".join(sample.split()) for sample in samples)
    return "\n".join(f"- {each}" for each in flat if each)
