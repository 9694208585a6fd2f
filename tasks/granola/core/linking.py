"""Which items two names stand for, by what the graph says of the relation between those that bear them (Appendix B).

A fact about a place holds for what lies around it as well: who was born in Ulm was born in Germany.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.core.calls.knowledge import Candidate, Neighbour, choose_candidate
from tasks.text.ids import id_number

PLACE_RELATIONS = frozenset({"P19", "P20", "P131", "P159", "P276", "P740"})
PLACES_AROUND = ("P17", "P131")
"""Country, and located in the administrative territorial entity."""

Pair = tuple[str, str]
"""QIDs of a question entity and an answer."""
Claims = Mapping[str, Sequence[Neighbour]]


@dataclass(frozen=True, slots=True)
class Held:
    """What the graph says of a relation between the bearers of two names."""

    pairs: frozenset[Pair]
    """Pairs that hold it."""
    knows: Mapping[str, tuple[str, ...]]
    """Bearer of the question entity's name for which the graph has any value → the names of its values."""

    def tells(self, pair: Pair) -> bool | None:
        """Return whether a pair holds the relation; None where the graph does not know what its question entity's value is."""
        return True if pair in self.pairs else False if pair[0] in self.knows else None


def find_held(relation: str, bearers: tuple[Sequence[Candidate], ...], claims: Claims, around: Claims) -> Held:
    """Return which pairs of bearers hold a relation: outright, else, where it leads to places, by what lies around these.

    Args:
        bearers: Bearers of the question entity's name, and of the answer's.
        claims: QID of each bearer of the question entity's name → its claims of the relation.
        around: QID of a place → its claims of PLACES_AROUND.
    """
    questions, answers = ([candidate.qid for candidate in side] for side in bearers)
    values = {qid: {edge.qid for edge in claims.get(qid, ())} for qid in questions}
    pairs = {(qid, answer) for qid in questions for answer in answers if answer in values[qid]}
    if not pairs and relation in PLACE_RELATIONS:
        beyond = {
            each: find_beyond(around, each) for each in {*answers, *(v for found in values.values() for v in found)}
        }
        pairs = {
            (qid, answer)
            for qid in questions
            for answer in answers
            if values[qid] & beyond[answer] or any(answer in beyond[value] for value in values[qid])
        }
    knows: dict[str, tuple[str, ...]] = {
        qid: tuple(edge.label or edge.qid for edge in claims[qid]) for qid in questions if values[qid]
    }
    return Held(frozenset(pairs), knows)


def find_beyond(around: Claims, qid: str) -> set[str]:
    """Return all that an item's claims lead to, hop after hop."""
    beyond: set[str] = set()
    todo = [qid]
    while todo:
        fresh = {edge.qid for edge in around.get(todo.pop(), ())} - beyond
        beyond |= fresh
        todo += fresh
    return beyond


def choose_pair(bearers: tuple[Sequence[Candidate], ...], held: Held, policy: str) -> Pair:
    """Return the pair that is meant: the smallest numbers, with the policy `linked` among the pairs that hold the relation."""
    if policy == "linked" and held.pairs:
        return min(held.pairs, key=lambda pair: (id_number(pair[0]), id_number(pair[1])))
    question, answer = (choose_candidate(side).qid for side in bearers)
    return question, answer
