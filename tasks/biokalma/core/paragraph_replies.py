"""How replies with a paragraph or a question are read (BioKaLMA, Tables 9 to 12): `Paragraph: …` or `Question: …`.

The label has to open a line, once. Code fences, emphasis and quotes around the whole are taken off; nothing else is mended.
"""

import re

from tasks.core.replies import Unreadable

_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t\r]*$", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n\s*\n")
_WRAPPERS = (
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("_", "_"),
    ('"', '"'),
    ("“", "”"),
    ("«", "»"),
    ("'", "'"),
    ("‘", "’"),
)
"""Marks of emphasis and quotes that a model puts around the whole."""


def read_paragraph(text: str) -> str | Unreadable:
    """Return the paragraph of a reply, all that stands behind its label, spaces made single."""
    return _read_labelled(text, "Paragraph")


def read_question(text: str) -> str | Unreadable:
    """Return the question of a reply, up to a blank line; several questions in one go are taken as one."""
    question = _read_labelled(text, "Question", _BLANK_LINE)
    if isinstance(question, str) and not question.endswith("?"):
        return Unreadable('what follows "Question:" does not end with a question mark')
    return question


def _read_labelled(text: str, label: str, end: re.Pattern[str] | None = None) -> str | Unreadable:
    """Return what follows a label at the beginning of a line, as far as the end where one is given."""
    plain = _FENCE.sub("", text)
    # emphasis may hold the label alone (**Label:** text) or all of the line (**Label: text**)
    opening = re.compile(
        rf"^[ \t>#-]*(\*{{1,2}}|_{{1,2}}|){label}[ \t]*(?:\1[ \t]*:|:\1|:)", re.IGNORECASE | re.MULTILINE
    )
    found = list(opening.finditer(plain))
    if len(found) != 1:
        return Unreadable(f'{len(found)} lines of the form "{label}: …", expected one')
    said = plain[found[0].end() :].strip()
    said = " ".join((end.split(said)[0] if end else said).split())
    if (mark := found[0][1]) and said.count(mark) == 1:
        said = said.removesuffix(mark).rstrip()
    for left, right in _WRAPPERS:
        said = _unwrap(said, left, right)
    if not any(character.isalnum() for character in said):
        return Unreadable(f'nothing stands behind "{label}:"')
    return said


def _unwrap(text: str, left: str, right: str) -> str:
    """Return a text without the marks around it, unless such marks stand around a part of it too; apostrophes are none."""
    inner = text[len(left) : -len(right)].strip()
    if not (text.startswith(left) and text.endswith(right) and inner):
        return text
    marks = "|".join(map(re.escape, {left, right}))
    return text if re.search(rf"(?<!\w)(?:{marks})|(?:{marks})(?!\w)", inner) else inner
