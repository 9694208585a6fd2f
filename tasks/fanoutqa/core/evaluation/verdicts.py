"""How a judge's grade of an answer is read (FanOutQA, Appendix F.3): one letter, of which three award the answer.

A judge thinks aloud before it grades; its last grade counts, and what grades with something else, or not at all, is
Unreadable: nothing is scored by guessing.
"""

import re
import unicodedata

from tasks.core.replies import Form, Unreadable

GRADES = {
    "A": "a part of the gold answer, consistent with it",
    "B": "more than the gold answer, consistent with it",
    "C": "all that the gold answer says, and no more",
    "D": "at odds with the gold answer",
    "E": "different, but not in what matters to the facts",
    "F": "no answer to the question, or otherwise invalid",
}
RIGHT = frozenset({"B", "C", "E"})
"""Grades that count 1.0; all others count 0.0."""
VERDICT = Form(
    kind="lines", head="(?:(?:final|overall|my|the) )*(?:verdict|grade)", point="[:=]", quotes=True, last_counts=True
)
"""`Verdict: C`, or the letter alone on its line, as the paper asks for it."""
_EXPECTED = 'a letter from A to F in a line of the form "Verdict: C"'
_LABELLED = re.compile(
    r"(?:(?:so|thus|therefore|hence),? )?(?:(?:the|my) )?(?:(?:final|correct|overall) )?"
    r"(?:verdict|grade|answer|choice|option|conclusion|letter)(?:(?: is)?\s*[:=]|\s+is\b)(?P<said>.*)",
    re.IGNORECASE,
)
_GRADE = re.compile(r"[\s(\[\"'“*_`]*(?P<grade>[A-F])[\s)\]\"'”*_`.]*", re.IGNORECASE)
_DRESS = re.compile(r"^[\s*_`#>\-•]+|(?<![\s*_`])[\s*_`]+$")


def read_grade(text: str) -> str | Unreadable:
    """Return the last grade in a judge's reply, a capital letter."""
    for line in reversed(unicodedata.normalize("NFKC", text).splitlines()):
        said = _DRESS.sub("", line)
        if bare := _GRADE.fullmatch(said):
            return bare["grade"].upper()
        if labelled := _LABELLED.fullmatch(said):
            if found := _GRADE.fullmatch(labelled["said"]):
                return found["grade"].upper()
            return Unreadable(f"the last verdict is {labelled['said'].strip()[:40]!r}, expected {_EXPECTED}")
    return Unreadable(f"there is no verdict, expected {_EXPECTED}")
