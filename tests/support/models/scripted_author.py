"""Serve an author model over HTTP whose manners a test sets for each text, and which counts its requests."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from support.models.scripted_chat import Message, Said, ScriptedChat

from factmill.tasks.assets import load_prompt
from factmill.tasks.biokalma.evolve import (
    ANNOTATE_PROMPT,
    EXTEND_PROMPT,
    GENERAL_QUESTION_PROMPT,
    SPECIFIC_QUESTION_PROMPT,
)

_PARAGRAPH = re.compile(r"<paragraph>(.*?)</paragraph>", re.DOTALL)
_KNOWLEDGE = re.compile(r"<knowledge>\n(.*)\n</knowledge>", re.DOTALL)
_PIECE = re.compile(r"<piece>\{(.*, ([^,:]+): .*)\}</piece>")


@dataclass(frozen=True)
class Asked:
    """A request to the author."""

    paragraph: str
    knowledge: str
    """Pieces to cite; empty for other requests."""
    value: str
    """Value of the piece to add, or its values joined by `and`; empty without a piece."""
    correction: str
    """The fault of the previous reply; empty at first."""


Manners = Callable[[Asked], Said]


class ScriptedAuthor(ScriptedChat):
    """The author.

    `manners`: first word of a paragraph, alone or after a prompt's id → how it answers.
    """

    def __init__(self, manners: Mapping[str, Manners]) -> None:
        self.manners = dict(manners)
        self.asked: Counter[tuple[str, str]] = Counter()
        """Prompt, first word of the paragraph → number of requests."""
        self.corrections: list[str] = []
        super().__init__(self._write)

    def _write(self, messages: Sequence[Message]) -> Said:
        prompt_id = next(
            each
            for each in (ANNOTATE_PROMPT, EXTEND_PROMPT, GENERAL_QUESTION_PROMPT, SPECIFIC_QUESTION_PROMPT)
            if load_prompt(each).parts[0][1] == messages[0]["content"]
        )
        is_again = "<paragraph>" not in messages[-1]["content"]
        text = messages[-3 if is_again else -1]["content"]
        (paragraph,) = _PARAGRAPH.findall(text)
        knowledge, piece = _KNOWLEDGE.search(text), _PIECE.search(text)
        value = " and ".join(piece[1].split(f", {piece[2]}: ")[1:]) if piece else ""
        correction = messages[-1]["content"] if is_again else ""
        name = paragraph.split()[0]
        self.asked[prompt_id, name] += 1
        self.corrections += [correction] if correction else []
        manners = self.manners.get(f"{prompt_id} {name}") or self.manners[name]
        return manners(Asked(paragraph, knowledge[1] if knowledge else "", value, correction))


def always(said: Said) -> Manners:
    """Return manners that give one answer to everything."""
    return lambda _asked: said


def once_corrected(first: Manners, then: Manners) -> Manners:
    """Return manners that answer differently to a correction."""
    return lambda asked: then(asked) if asked.correction else first(asked)


def extend(asked: Asked) -> Said:
    """Add one sentence with the value."""
    return f"Paragraph: {asked.paragraph} It is said that {asked.value} came into it."


def cite_first(asked: Asked) -> Said:
    """Cite the first known piece of the first person that the text contains, after its value."""
    head, _, *parts = re.split(r", (?=[a-z][^:,]*: )", asked.knowledge.splitlines()[0].strip("{}"))
    value, piece = next(
        (value, part)
        for part in parts
        if re.search(rf"\b{re.escape(value := part.partition(': ')[2])}\b", asked.paragraph)
    )
    return f"Paragraph: {asked.paragraph.replace(value, f'{value} [{head}, {piece}]', 1)}"


def ask_by(opening: str) -> Manners:
    """Return manners that name the two people and every known property of them."""

    def manners(asked: Asked) -> Said:
        names = re.findall(r"name: ([^,]+),", asked.knowledge)
        labels = dict.fromkeys(re.findall(r", (?!name)([a-z][^:,]*): ", asked.knowledge))
        return f"Question: {opening} {' and '.join(names)}, by their {', '.join(labels)}?"

    return manners
