"""Play an evaluated model and its judge: the question determines their random answers and the answers' lengths."""

from random import Random

from support.habits.contents import LOOKED_UP, Asked, Contents

_WORDS = [
    "the", "a", "river", "town", "first", "song", "written", "by", "born", "in", "year", "north", "its", "oldest",
    "name", "of", "two",
]  # fmt: skip
_MOST_WORDS = {"slaq/answer_long": 120, "biokalma/answer": 90}
_FEW_WORDS = 12
_LOOKS_UP = 0.8
"""Share of the questions with lookups."""


class Measured(Contents):
    """Answers questions at random lengths, judges answers at random, and scripts all other replies."""

    def write(self, asked: Asked) -> str:
        """Return an answer, a verdict, or the scripted reply."""
        draw = Random(f"{asked.prompt.id} {sorted(asked.variables.items())} {asked.is_correction}")
        name = asked.prompt.id.partition("/")[2]
        if asked.prompt.role == "answerer":
            most = _MOST_WORDS.get(asked.prompt.id, _FEW_WORDS)
            words = " ".join(draw.choice(_WORDS) for _ in range(draw.randint(1, most)))
            if name == "answer_with_searches":
                looks_up = not asked.is_correction and draw.random() < _LOOKS_UP
                return f"SEARCH: {LOOKED_UP}" if looks_up else f"ANSWER: {words}"
            return words
        if "boundary" not in asked.variables:
            return super().write(asked)
        thought = " ".join(draw.choice(_WORDS) for _ in range(draw.randint(0, 40)))
        return f"{thought}\n{_judge(asked.prompt.id, draw)}"


def _judge(prompt: str, draw: Random) -> str:
    """Return the last line of a judge's reply."""
    if prompt == "slaq/judge_long":
        return f"Verdicts: {', '.join(str(draw.randint(0, 1)) for _ in range(5))}"
    if prompt.startswith("biokalma/"):
        return f"Rating: {draw.randint(1, 5)}"
    if prompt == "fanoutqa/judge_answer":
        return draw.choice("ABCDEF")
    return f"Verdict: {draw.randint(0, 1)}"
