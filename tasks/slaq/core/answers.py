"""Rows of SLAQ's evaluation: a short question alone, or the long one, what a model answered, and the verdicts."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tasks.core.evaluation.rows import Answer, Asked
from tasks.slaq.core.replies import PAIRS
from tasks.slaq.core.rows import Half, SlaqRow

SHORT, LONG = "short", "long"
COUNTED_WRONG = frozenset({"no_answer", "refused"})
"""What no judge is asked about: nothing that was asked for is said (Table A.4, irrelevance and omission)."""


class SlaqAsked(Asked):
    """What a model is asked about a topic: one of its short questions (short), or the long one (long)."""

    topic: str
    category: str
    half: Half
    position: int
    """Place of the short question in the long one, 1 to 5; 0 for the long one itself."""
    questions: list[str]
    """The short question; of a long one all five, in order."""
    golds: list[str]
    """Their gold answers."""
    fact_types: list[str]
    """OntoNotes classes of these, `none` for what is no entity."""
    gold: str
    """Gold answer to what is asked."""


class SlaqAnswer(SlaqAsked, Answer):
    """What the model answered."""


class JudgedSlaq(SlaqAnswer):
    """A row of the published table `slaq_answers`."""

    verdicts: list[int]
    """1 right, 0 wrong: one of a short answer, five of a long one; empty where there are none."""
    judge: str
    """What judged; `exact` is a program, and no model."""
    judge_call: str
    """Key of the judge's recorded call; empty where it was not asked."""


def ask_topic(row: SlaqRow, setting: str) -> Iterator[SlaqAsked]:
    """Yield what a setting asks about a topic."""
    told = {"item": row.id, "cluster": row.id, "topic": row.Topic, "category": row.Category, "half": row.half}
    pairs = [(getattr(row, f"ShortQ{number}"), getattr(row, f"ShortA{number}")) for number in range(1, PAIRS + 1)]
    parts = (
        [(LONG, 0, row.LongQ, row.LongA, pairs, row.fact_types)]
        if setting == LONG
        else [
            (str(number), number, *pair, [pair], [row.fact_types[number - 1]]) for number, pair in enumerate(pairs, 1)
        ]
    )
    for part, position, question, gold, mine, types in parts:
        yield SlaqAsked(
            id=f"{setting}/{row.id}/{part}",
            question_id=f"{row.id}/{part}",
            setting=setting,
            position=position,
            question=question,
            gold=gold,
            questions=[question for question, _ in mine],
            golds=[answer for _, answer in mine],
            fact_types=types,
            **told,
        )


def find_commonest(rows: Iterable[SlaqRow]) -> dict[str, str]:
    """Return the commonest gold answer of each fact type, the first by letters among equals."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for number, kind in enumerate(row.fact_types, 1):
            counts.setdefault(kind, Counter())[getattr(row, f"ShortA{number}")] += 1
    return {kind: min(found, key=lambda text: (-found[text], text)) for kind, found in counts.items()}
