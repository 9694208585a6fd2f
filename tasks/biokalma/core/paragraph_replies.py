"""How replies with a paragraph or a question are read (BioKaLMA, Tables 9 to 12): `Paragraph: …` or `Question: …`.

The label has to open a line, once.
"""

import re

from tasks.core.replies import Form, Unreadable
from tasks.text.undressing import drop_decoration

PARAGRAPH = Form(kind="lines", head="Paragraph", reach="rest", quotes=True)
"""All that stands behind its label."""
QUESTION = Form(kind="lines", head="Question", reach="block", quotes=True)
"""Up to a blank line."""


def read_paragraph(text: str) -> str | Unreadable:
    """Return the paragraph of a reply, spaces made single."""
    return _read_labelled(text, "Paragraph")


def read_question(text: str) -> str | Unreadable:
    """Return the question of a reply; several questions in one go are taken as one."""
    question = _read_labelled(text, "Question")
    if isinstance(question, str) and not question.endswith("?"):
        return Unreadable('what follows "Question:" does not end with a question mark')
    return question


def _read_labelled(text: str, label: str) -> str | Unreadable:
    """Return what follows a label at the beginning of a line."""
    found = list(re.finditer(rf"^{label}:", text, re.IGNORECASE | re.MULTILINE))
    if len(found) != 1:
        return Unreadable(f'{len(found)} lines of the form "{label}: …", expected one')
    said = drop_decoration(" ".join(text[found[0].end() :].split()))
    if not any(character.isalnum() for character in said):
        return Unreadable(f'nothing stands behind "{label}:"')
    return said
