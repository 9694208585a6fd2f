"""How a fact is asked and told: as a question, as a part of a longer question, and as a sentence of the long answer.

All three come from the same parts, so that they say the same: what is asked for, the subject, its verb, and what
follows the verb. A question for the subject has no subject of its own ("Who" + "devised the quartet").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tasks.rules.tables import load_verb_forms

_AUXILIARIES = frozenset(
    ["is", "are", "was", "were", "can", "could", "will", "would", "must", "should", "may", "might"]
)
_HAVING = frozenset({"has", "have", "had"})


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of an article with the question that asks for it."""

    asks: str
    """`Who`, `In which year`, `How many moons`."""
    subject: str
    """Empty when it is what is asked for."""
    verb: str
    """In the form of the statement: `was founded`, `takes`."""
    tail: str
    answer: str
    said: str
    """The sentence that tells it, without the stop."""
    place: int = 0
    """Number of the sentence in the article."""
    event: str = ""
    """What happened, where several questions may ask for the same; empty where only one asks."""

    @property
    def question(self) -> str:
        """The question, alone."""
        if not self.subject:
            return _join(self.asks, self.verb, self.tail) + "?"
        first, _, rest = self.verb.partition(" ")
        if first in _AUXILIARIES or (first in _HAVING and rest):
            return _join(self.asks, first, self.subject, rest, self.tail) + "?"
        help_verb, base = _split_verb(first)
        return _join(self.asks, help_verb, self.subject, base, rest, self.tail) + "?"

    @property
    def asked(self) -> str:
        """The question as a part of another: `when the Crab Nebula was discovered`."""
        words = _join(self.asks, self.subject, self.verb, self.tail)
        return words[0].lower() + words[1:]


def ask_all(name: str, facts: Sequence[Fact]) -> str:
    """Return one question that asks for all facts about what bears a name."""
    asked = [f"({number}) {fact.asked}" for number, fact in enumerate(facts, start=1)]
    if len(asked) == 1:
        return f"Tell about {name} by answering {asked[0]}."
    return f"Tell about {name} by answering {', '.join(asked[:-1])}, and {asked[-1]}."


def write_paragraph(facts: Sequence[Fact]) -> str:
    """Return one paragraph that tells all facts and nothing else."""
    return " ".join(f"{capitalise(fact.said)}." for fact in facts)


def capitalise(text: str) -> str:
    """Return text with a capital at the beginning, save where a name begins small."""
    return text[:1].upper() + text[1:]


@cache
def _pasts() -> Mapping[str, str]:
    return {forms.past: base for base, forms in load_verb_forms().items()}


def _split_verb(verb: str) -> tuple[str, str]:
    """Return the form of `do` that asks with a verb, and the verb's base: `lasts` → does, last."""
    if verb in _pasts():
        return "did", _pasts()[verb]
    if verb == "has":
        return "does", "have"
    if verb.endswith("ies") and len(verb) <= 4:
        return "does", verb[:-1]
    for ending, base in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("s", "")):
        if verb.endswith(ending):
            return "does", verb[: -len(ending)] + base
    return "do", verb


def _join(*words: str) -> str:
    return " ".join(filter(None, words))
