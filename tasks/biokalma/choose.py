"""Which piece a pair is to gain in a round, weighed as far as the choice needs it (BioKaLMA, Appendix A.3, Equation 1)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.biokalma.core.evolution import find_best, lacks, list_candidates, list_new, weigh_specificity
from tasks.biokalma.core.knowledge_sentences import RelationForm, verbalise_piece
from tasks.biokalma.core.rows import Candidate, EvolvingPair
from tasks.biokalma.params import BiokalmaInputs, BiokalmaParams
from tasks.biokalma.sources.lists import load_pair_relations, load_relation_forms
from tasks.core.authoring.pieces import Piece
from tasks.core.calls.call import Reply
from tasks.core.calls.perplexity import call_perplexity, read_weighed
from tasks.core.rows import Reject
from tasks.engine.batches import Work

PIECES_TRIED = 3
"""So many pieces, the best ones, are tried in a round before a pair is given up; each is asked for twice at the most."""


@dataclass(slots=True)
class Turn:
    """One pair in one round."""

    row: EvolvingPair
    pieces: list[Piece]
    """That are not said yet."""
    specificity: list[float]
    replies: dict[int, Reply] = field(default_factory=dict)
    """Place of a piece → how its sentence was weighed."""
    tried: list[int] = field(default_factory=list)
    """Places of the pieces that were chosen, the last one now."""
    refused: list[str] = field(default_factory=list)
    """Those of them that the author did not bring in, and why."""

    @property
    def piece(self) -> Piece:
        """The piece to be brought in."""
        return self.pieces[self.tried[-1]]

    @property
    def name(self) -> str:
        """Name of the one whom the piece is about."""
        return self.row.names[self.piece.qid]

    @property
    def is_lost(self) -> bool:
        """True when no piece is left to be tried."""
        return len(self.refused) >= min(PIECES_TRIED, len(self.pieces))

    def candidates(self, params: BiokalmaParams) -> list[Candidate]:
        """Return all pieces with their scores, as far as they are known."""
        return list_candidates(
            self.pieces, self.specificity, self._weighed(), self.tried, params.alpha, params.coherence
        )

    def choose(self, params: BiokalmaParams) -> int | list[int]:
        """Return the place of the next piece, or the places to be weighed before that is known."""
        if self.replies and all(reply.status != "ok" for reply in self.replies.values()):
            # nothing of what was asked can be weighed, so it is seen whether anything can
            return [at for at in range(len(self.pieces)) if at not in self.replies]
        return find_best(self.pieces, self.specificity, self._weighed(), self.tried, params.alpha, params.coherence)

    def _weighed(self) -> Mapping[int, float | None]:
        return {at: _read_perplexity(reply) for at, reply in self.replies.items()}


def open_turns(rows: Iterable[EvolvingPair], number: int, is_last: bool, lost: dict[str, Reject]) -> list[Turn]:
    """Return the pairs of a round with their pieces; a pair without any is lost."""
    turns = []
    for row in rows:
        if pieces := _choose_among(row, is_last=is_last):
            counts = {count.id: count for count in row.relation_counts}
            found = [counts[piece.pid] for piece in pieces]
            turns.append(Turn(row, pieces, [weigh_specificity(each.graphs, each.graphs_in_all) for each in found]))
        else:
            lost[row.id] = Reject(row.id, "pool_exhausted", f"round {number}: no piece is left to add")
    return turns


def choose_pieces(work: Work, turns: Sequence[Turn], lost: dict[str, Reject]) -> list[Turn]:
    """Choose a piece for each pair; only perplexities that can change a choice are asked for. Those that fail are lost."""
    params = work.inputs(BiokalmaInputs).params
    scorer, forms = work.run.services.perplexity(), load_relation_forms()
    chosen, waiting = [], list(turns)
    while waiting:
        wanted: list[tuple[Turn, int]] = []
        for turn in waiting:
            match turn.choose(params):
                case int(place):
                    turn.tried.append(place)
                    chosen.append(turn)
                case []:
                    lost[turn.row.id] = _reject(turn.row.id, turn.replies[min(turn.replies)])
                case places:
                    wanted += [(turn, place) for place in places]
        calls = [
            (turn, place, call_perplexity(scorer.identity, _continue(turn.row, turn.pieces[place], forms)))
            for turn, place in wanted
        ]
        records = work.call(scorer, ((turn.row.id, call) for turn, _, call in calls))
        for turn, place, call in calls:
            turn.replies[place] = records[call.key].reply()
            if turn.replies[place].transient:
                lost[turn.row.id] = _reject(turn.row.id, turn.replies[place])
        waiting = list({turn.row.id: turn for turn, _ in wanted if turn.row.id not in lost}.values())
    return chosen


def _continue(row: EvolvingPair, piece: Piece, forms: Mapping[str, RelationForm]) -> str:
    return f"{row.paragraph_now} {verbalise_piece(piece, row.names[piece.qid], forms)}"


def _reject(row_id: str, reply: Reply) -> Reject:
    return Reject(row_id, "perplexity_failed", reply.error or "no reason given", retryable=reply.transient)


def _read_perplexity(reply: Reply) -> float | None:
    """Return a perplexity; None where there is none, or where the model holds the text impossible."""
    perplexity = read_weighed(reply.body).perplexity if reply.status == "ok" else math.inf
    return perplexity if math.isfinite(perplexity) else None


def _choose_among(row: EvolvingPair, *, is_last: bool) -> list[Piece]:
    """Return the pieces that are not said yet; in the last round, those of a person who has none so far.

    Both people have to be in the set in the end, and the scores alone do not see to it. A piece that says a used one
    the other way round counts only where the person who lacks one has no other.
    """
    lacking = lacks([row.person_qid, row.other_qid], row.minimum_knowledge) if is_last else []
    pool = [piece for piece in (*row.person_pool, *row.other_pool) if not lacking or piece.qid in lacking]
    inverses = load_pair_relations().inverses
    new = [piece for piece in pool if list_new([piece], row.minimum_knowledge, inverses)]
    return new or (pool if lacking else [])
