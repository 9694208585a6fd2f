"""Which piece a pair is to gain in a round, weighed as far as the choice needs it (BioKaLMA, Appendix A.3, Equation 1)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.biokalma.core.evolution import (
    find_best,
    lacks,
    list_candidates,
    list_missing,
    list_new,
    list_whole,
    weigh_specificity,
)
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
    choices: list[list[Piece]]
    """Each a relation of one person, with the values that are not said yet."""
    specificity: list[float]
    replies: dict[int, Reply] = field(default_factory=dict)
    """Place of a choice → how its sentence was weighed."""
    tried: list[int] = field(default_factory=list)
    """Places of the choices that were made, the last one now."""
    refused: list[str] = field(default_factory=list)
    """Those of them that the author did not bring in, and why."""

    @property
    def pieces(self) -> list[Piece]:
        """The values of one relation to be brought in."""
        return self.choices[self.tried[-1]]

    @property
    def name(self) -> str:
        """Name of the one whom the pieces are about."""
        return self.row.names[self.pieces[0].qid]

    @property
    def is_lost(self) -> bool:
        """True when no choice is left to be tried."""
        return len(self.refused) >= min(PIECES_TRIED, len(self.choices))

    def candidates(self, params: BiokalmaParams) -> list[Candidate]:
        """Return all choices with their scores, as far as they are known."""
        return list_candidates(
            self._heads(), self.specificity, self._weighed(), self.tried, params.alpha, params.coherence
        )

    def choose(self, params: BiokalmaParams) -> int | list[int]:
        """Return the place of the next choice, or the places to be weighed before that is known."""
        if self.replies and all(reply.status != "ok" for reply in self.replies.values()):
            # nothing of what was asked can be weighed, so it is seen whether anything can
            return [at for at in range(len(self.choices)) if at not in self.replies]
        return find_best(self._heads(), self.specificity, self._weighed(), self.tried, params.alpha, params.coherence)

    def _heads(self) -> list[Piece]:
        """Return one piece a choice, with all its values."""
        values = ("; ".join(piece.value for piece in each) for each in self.choices)
        return [each[0].model_copy(update={"value": value}) for each, value in zip(self.choices, values, strict=True)]

    def _weighed(self) -> Mapping[int, float | None]:
        return {at: _read_perplexity(reply) for at, reply in self.replies.items()}


def open_turns(rows: Iterable[EvolvingPair], number: int, is_last: bool, lost: dict[str, Reject]) -> list[Turn]:
    """Return the pairs of a round with their pieces; a pair without any is lost."""
    turns = []
    for row in rows:
        if choices := _choose_among(row, is_last=is_last):
            counts = {count.id: count for count in row.relation_counts}
            found = [counts[pieces[0].pid] for pieces in choices]
            turns.append(Turn(row, choices, [weigh_specificity(each.graphs, each.graphs_in_all) for each in found]))
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
            (turn, place, call_perplexity(scorer.identity, _continue(turn.row, turn.choices[place], forms)))
            for turn, place in wanted
        ]
        records = work.call(scorer, ((turn.row.id, call) for turn, _, call in calls))
        for turn, place, call in calls:
            turn.replies[place] = records[call.key].reply()
            if turn.replies[place].transient:
                lost[turn.row.id] = _reject(turn.row.id, turn.replies[place])
        waiting = list({turn.row.id: turn for turn, _ in wanted if turn.row.id not in lost}.values())
    return chosen


def _continue(row: EvolvingPair, pieces: Sequence[Piece], forms: Mapping[str, RelationForm]) -> str:
    return f"{row.paragraph_now} {verbalise_piece(pieces[0], row.names[pieces[0].qid], forms, pieces[1:])}"


def _reject(row_id: str, reply: Reply) -> Reject:
    return Reject(row_id, "perplexity_failed", reply.error or "no reason given", retryable=reply.transient)


def _read_perplexity(reply: Reply) -> float | None:
    """Return a perplexity; None where there is none, or where the model holds the text impossible."""
    perplexity = read_weighed(reply.body).perplexity if reply.status == "ok" else math.inf
    return perplexity if math.isfinite(perplexity) else None


def _choose_among(row: EvolvingPair, *, is_last: bool) -> list[list[Piece]]:
    """Return what is not said yet, by relation; in the last round, of a person of whom the set would hold nothing.

    Both people have to be in the set in the end, and the scores alone do not see to it. A piece that says a used one
    the other way round counts only where the person who lacks one has no other.
    """
    pool, known = [*row.person_pool, *row.other_pool], row.minimum_knowledge
    lacking = lacks(row.names, list_whole(known, pool, row.names)) if is_last else []
    choices = [each for each in list_missing(known, pool, row.names) if not lacking or each[0].qid in lacking]
    inverses = load_pair_relations().inverses
    new = [each for each in choices if list_new(each, known, inverses) == each]
    return new or (choices if lacking else [])
