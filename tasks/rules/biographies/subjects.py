"""What the graph says of those whom a biography is about: whether they are people, women or men, dead."""

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.core.calls.knowledge import Knowledge, Qid

_INSTANCE_OF, _GENDER, _OCCUPATION = "P31", "P21", "P106"
_DEATH = ("P20", "P119", "P157", "P509", "P1196")
"""Place of death and burial, killed by, cause and manner of death: a graph's claims of dates are not at hand."""
_HUMAN = "Q5"
_GENDERS = {"Q6581097": "male", "Q2449503": "male", "Q6581072": "female", "Q1052281": "female"}


@dataclass(frozen=True, slots=True)
class Kind:
    """What the graph says of an item."""

    is_person: bool
    gender: str
    """male, female or empty."""
    is_dead: bool = False
    """False too where the graph does not say."""


def look_up_kinds(knowledge: Knowledge, qids: Iterable[str]) -> dict[str, Kind]:
    """Return what the graph says of items; some data do not say what an item is, but only people have such claims."""
    asked = list(dict.fromkeys(qids))
    claims = knowledge.neighbours(asked, [_INSTANCE_OF, _GENDER, _OCCUPATION, *_DEATH])
    kinds = {}
    for qid in asked:
        edges = claims.get(Qid(qid), [])
        classes = {edge.qid for edge in edges if edge.pid == _INSTANCE_OF}
        is_person = _HUMAN in classes if classes else bool(edges)
        genders = {_GENDERS.get(edge.qid, "") for edge in edges if edge.pid == _GENDER}
        is_dead = any(edge.pid in _DEATH for edge in edges)
        kinds[qid] = Kind(is_person, genders.pop() if len(genders) == 1 else "", is_dead)
    return kinds
