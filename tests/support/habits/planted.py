"""Play an evaluated model that is right with a known probability, and a judge that compares its answers with gold."""

from collections.abc import Mapping
from pathlib import Path
from random import Random

import duckdb
from support.habits.contents import Asked, Contents

WRONG = "Xanadu"
"""The model's wrong answer."""


class Planted(Contents):
    """Answers questions of GRANOLA-EQ and SLAQ, and scripts all other replies."""

    def __init__(self, gold: Mapping[str, str], share_right: float = 0.7, seed: int = 1) -> None:
        """`gold`: question → gold answer."""
        self.gold, self._share_right, self._seed = gold, share_right, seed

    def is_right(self, question: str) -> bool:
        """True if the model knows the answer to a question; the draw follows from seed and question."""
        return Random(f"{self._seed} {question}").random() < self._share_right

    def write(self, asked: Asked) -> str:
        """Return an answer, a verdict, or the scripted reply."""
        question = asked.variables.get("question", "")
        if asked.prompt.role == "answerer" and question in self.gold:
            return self.gold[question] if self.is_right(question) else WRONG
        if asked.prompt.id == "slaq/judge_short":
            return f"Verdict: {int(asked.variables['gold'] in asked.variables['answer'])}"
        return super().write(asked)


def read_gold(warehouse: Path) -> dict[str, str]:
    """Return question → gold answer of the GRANOLA-EQ and SLAQ builds in a warehouse."""
    with duckdb.connect(str(warehouse), read_only=True) as db:
        found = dict(db.execute("SELECT question, granola_answers[1] FROM granola_eq").fetchall())
        for number in range(1, 6):
            found |= dict(db.execute(f"SELECT ShortQ{number}, ShortA{number} FROM slaq").fetchall())
    return found
