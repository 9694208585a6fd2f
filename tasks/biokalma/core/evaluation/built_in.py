"""What the built-in models say to BioKaLMA's questions: the minimum knowledge set, and the commonest knowledge of other rows.

`tell`: a piece and its person's name as a sentence, which ends with a stop.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tasks.biokalma.core.evaluation.rows import BioAsked
from tasks.biokalma.core.evaluation.settings import identify
from tasks.biokalma.core.rows import BiographyRow
from tasks.core.authoring.citations import format_label
from tasks.core.authoring.pieces import Piece

Tell = Callable[[Piece, str], str]
GUESSES = 4
"""Pieces guessed of each person: together about as many as a minimum set has."""


def say_right(asked: BioAsked, tell: Tell) -> str:
    """Return the minimum set, a sentence a piece: cited where it is given, marked [NA] where it is not."""
    names = dict(zip(asked.people, asked.names, strict=True))
    given = set(map(identify, asked.given))
    return " ".join(
        _mark(tell(piece, names[piece.qid]), cite(piece) if identify(piece) in given else "[NA]")
        for piece in asked.minimum
    )


@dataclass
class Guesser:
    """What minimum sets say most often, counted once for all rows of a build."""

    rows: Sequence[BiographyRow]
    _counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Label of the relation, or nothing for all rows → (PID, value) → rows."""
    _own: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Row → the same of it alone."""
    _pieces: dict[tuple[str, str], Piece] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Count."""
        for row in self.rows:
            told = {(piece.pid, piece.value_qid or piece.value): piece for piece in row.minimum_knowledge}
            self._pieces = told | self._pieces
            self._own[row.id] = Counter(told.keys())
            for group in (row.relation_label, ""):
                self._counts.setdefault(group, Counter()).update(told.keys())

    def say(self, asked: BioAsked, tell: Tell) -> str:
        """Return what other rows of the relation, or of any where it has no other, say most often, told and cited of both people."""
        own = self._own[asked.item]
        found = (self._counts[asked.relation] - own) or (self._counts[""] - own)
        ranked = sorted(found, key=lambda each: (-found[each], each))[:GUESSES]
        people = zip(asked.people, asked.names, strict=True)
        return " ".join(self._claim(each, *person, tell) for person in people for each in ranked)

    def _claim(self, each: tuple[str, str], qid: str, name: str, tell: Tell) -> str:
        piece = self._pieces[each].model_copy(update={"qid": qid})
        return _mark(tell(piece, name), cite(piece))


def cite(piece: Piece) -> str:
    """Return `[Q1, place of birth: London]` (§3.3)."""
    return f"[{piece.qid}, {format_label(piece.property)}: {format_label(piece.value)}]"


def _mark(sentence: str, citation: str) -> str:
    return f"{sentence[:-1]} {citation}{sentence[-1]}"
