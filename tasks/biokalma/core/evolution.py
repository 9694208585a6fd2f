"""Which piece of knowledge a paragraph gains next: specificity and coherence, and their weighted sum (BioKaLMA, Equation 1).

    score = α · log(2N / Count) + (1 − α) · softmax(1 / perplexity)

N pairs have 2N persons' graphs; Count is in how many of them the piece's relation occurs, so a relation that all have is
worth 0, however many values it has in each. The softmax runs over the candidates of one round, with the perplexity of the
paragraph so far and the piece's sentence. A text that the model holds impossible (an infinite perplexity) counts as
1/∞ = 0, and so does one that it could not weigh (None): it is taken for the least coherent and stays in the running. The
paper does not give α; 0 leaves coherence alone, 1 specificity. Equal scores go by id, so that every build ranks alike.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tasks.biokalma.core.rows import Candidate
from tasks.core.authoring.pieces import Piece
from tasks.errors import UsageError
from tasks.text.ids import id_number

_DIGITS = 9
"""Digits of a score: logarithms and exponentials may end otherwise in the sixteenth where a CPU lacks FMA."""


def count_relations(pools: Iterable[Iterable[Piece]]) -> Counter[str]:
    """Return PID → number of pools, one a person of a pair, that hold the relation; so many values count once."""
    return Counter(pid for pool in pools for pid in {piece.pid for piece in pool})


def weigh_specificity(count: int, graphs: int) -> float:
    """Return log(2N / Count) of a relation that `count` of the 2N `graphs` hold; ValueError when it is in none or too many."""
    if not 1 <= count <= graphs:
        raise ValueError(f"a relation was counted in {count} of {graphs} graphs; expected 1 to {graphs}")
    return math.log(graphs / count)


def weigh_coherence(perplexities: Sequence[float | None]) -> list[float]:
    """Return softmax(1/perplexity), which adds up to 1; ValueError for a perplexity that is not above 0.

    None, for a text that could not be weighed, counts as ∞.
    """
    if wrong := [perplexity for perplexity in perplexities if perplexity is not None and not perplexity > 0]:
        raise ValueError(f"perplexity {wrong[0]}: expected a number above 0, or None where there is none")
    # 1 over the smallest floats is beyond the largest
    inverse = [0.0 if each is None else min(1 / each, sys.float_info.max) for each in perplexities]
    highest = max(inverse, default=0.0)
    shares = [math.exp(each - highest) for each in inverse]
    total = math.fsum(shares)
    return [share / total for share in shares]


def rank_candidates(
    pieces: Sequence[Piece],
    perplexities: Sequence[float | None],
    counts: Mapping[str, int],
    graphs: int,
    alpha: float,
) -> list[tuple[Piece, Candidate]]:
    """Return the pieces of one round with their scores, best first (Equation 1).

    `perplexities` are those of the paragraph with each piece's sentence; `counts` (PID → graphs, count_relations) and
    `graphs`, 2N, are of the whole build. UsageError for an alpha beyond 0 to 1; ValueError for a count beyond 1 to 2N.
    """
    if not 0 <= alpha <= 1:
        raise UsageError(f"alpha is {alpha}; expected a weight from 0 (coherence alone) to 1 (specificity alone)")
    ranked = []
    for piece, perplexity, coherence in zip(pieces, perplexities, weigh_coherence(perplexities), strict=True):
        specificity = weigh_specificity(counts.get(piece.pid, 0), graphs)
        candidate = Candidate(
            qid=piece.qid,
            pid=piece.pid,
            value=piece.value,
            specificity=round(specificity, _DIGITS),
            perplexity=perplexity,
            coherence=round(coherence, _DIGITS),
            score=round(alpha * specificity + (1 - alpha) * coherence, _DIGITS),
        )
        ranked.append((piece, candidate))
    return sorted(ranked, key=lambda pair: (-pair[1].score, _identify(pair[0])))


def list_new(pieces: Iterable[Piece], known: Sequence[Piece], inverses: Mapping[str, frozenset[str]]) -> list[Piece]:
    """Return the pieces that neither `known` nor a piece before them says, be it the other way round.

    Who is whose child tells who is whose father (`inverses`, PairRelations), so a smallest set holds one of the two.
    """
    said = {(piece.qid, piece.pid, piece.value_qid, piece.value) for piece in known}
    turned = {(piece.qid, piece.pid, piece.value_qid) for piece in known}
    new = []
    for piece in pieces:
        key = (piece.qid, piece.pid, piece.value_qid, piece.value)
        if key in said or any((piece.value_qid, pid, piece.qid) in turned for pid in inverses.get(piece.pid, ())):
            continue
        new.append(piece)
        said.add(key)
        turned.add(key[:3])
    return new


def lacks(people: Iterable[str], pieces: Iterable[Piece]) -> list[str]:
    """Return which of the people (QIDs) no piece is about, in order, each once."""
    told = {piece.qid for piece in pieces}
    return [qid for qid in dict.fromkeys(people) if qid not in told]


def _identify(piece: Piece) -> tuple[int, int, int, str]:
    """Return what a piece says, ordered by numbers; 0 stands for the item that a date is not."""
    value = id_number(piece.value_qid) if piece.value_qid else 0
    return id_number(piece.qid), id_number(piece.pid), value, piece.value
