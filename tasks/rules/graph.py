"""What the rules author looks up: which item an answer is, and a few facts of it, for a whole batch at once.

The item is the one whose description was given with the question, the smallest number among several. Of the facts
only those count that stand alone: a second citizenship, or a province of an empire long gone, would be a guess.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tasks.core.calls.knowledge import Description, Knowledge, Neighbour, Qid
from tasks.rules.places import CONTINENTS, is_country, known_place
from tasks.text.ids import id_number

_PIDS = ("P17", "P27", "P30", "P31", "P106", "P131", "P159")
_MAX_HOPS = 4
_PAST_STATE = re.compile(
    r"\b(?:Empire|Soviet|Kingdom of|Electorate|Reich|Duchy|Principality|Confederation|"
    r"Republic of (?:Venice|Genoa|Florence)|Yugoslavia|Czechoslovakia|Prussia|East Germany|West Germany)\b|\b\d{4}\b|"
    r"\b(?:former|historic|historical|ancient)\b"
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the graph surely says of an answer; empty where it says nothing or several things."""

    places: tuple[str, ...] = ()
    """Administrative units around a place, nearest first, and its country."""
    country: str | None = None
    continent: str | None = None
    seat: str | None = None
    """Where its headquarters are."""
    seat_description: str = ""
    seat_places: tuple[str, ...] = ()
    """Administrative units around the seat."""
    classes: tuple[str, ...] = ()
    citizenships: tuple[str, ...] = ()
    occupations: tuple[str, ...] = ()


@dataclass
class _Found:
    edges: dict[Qid, list[Neighbour]] = field(default_factory=dict)
    descriptions: dict[Qid, Description] = field(default_factory=dict)


def look_up_facts(knowledge: Knowledge, answers: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Facts]:
    """Return the facts of each (answer, description), in a handful of batched look-ups."""
    wanted = sorted(set(answers))
    items = _resolve(knowledge, wanted)
    found = _Found(knowledge.neighbours(sorted(set(items.values()), key=id_number), _PIDS))
    reached = _targets(found.edges.values(), {"P131", "P159"})
    for _ in range(_MAX_HOPS):
        fresh = sorted(reached - found.descriptions.keys(), key=id_number)
        if not fresh:
            break
        described = knowledge.describe(fresh)
        found.descriptions |= {qid: described.get(qid, Description(None, None, None, None)) for qid in fresh}
        edges = knowledge.neighbours(fresh, ("P17", "P131"))
        found.edges = edges | found.edges
        reached = _targets(edges.values(), {"P131"})
    return {answer: _facts(items.get(answer), found) for answer in wanted}


def _resolve(knowledge: Knowledge, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], Qid]:
    candidates = knowledge.find(sorted({name for name, _ in wanted}))
    described = knowledge.describe(sorted({c.qid for found in candidates.values() for c in found}, key=id_number))
    items = {}
    for name, description in wanted:
        fitting = [
            candidate.qid
            for candidate in candidates.get(name, ())
            if _description_of(described.get(candidate.qid)) == description
        ]
        if fitting and (description or len(candidates[name]) == 1):
            items[name, description] = min(fitting, key=id_number)
    return items


def _description_of(entry: Description | None) -> str:
    return (entry.description or "") if entry else ""


def _targets(edges: Iterable[list[Neighbour]], pids: set[str]) -> set[Qid]:
    return {edge.qid for found in edges for edge in found if edge.pid in pids}


def _facts(item: Qid | None, found: _Found) -> Facts:
    if item is None:
        return Facts()
    country = _country(item, found)
    seat = _only(item, "P159", found.edges)
    seat_entry = found.descriptions.get(seat.qid) if seat else None
    continent = _only(item, "P30", found.edges)
    return Facts(
        places=tuple(_climb(item, found, country)),
        country=country,
        continent=continent.label if continent and continent.label in CONTINENTS else None,
        seat=seat.label if seat else None,
        seat_description=_description_of(seat_entry),
        seat_places=tuple(_climb(seat.qid, found, _country(seat.qid, found))) if seat else (),
        classes=_labels(item, "P31", found.edges),
        citizenships=_labels(item, "P27", found.edges),
        occupations=_labels(item, "P106", found.edges),
    )


def _climb(item: Qid, found: _Found, country: str | None) -> Iterable[str]:
    """Yield the units around an item as long as each names one that still exists, then the country."""
    here, passed = item, {item}
    for _ in range(_MAX_HOPS):
        unit = _only(here, "P131", found.edges)
        entry = found.descriptions.get(unit.qid) if unit else None
        if unit is None or unit.label is None or unit.qid in passed:
            break
        label = known_place(unit.label) or unit.label
        if _PAST_STATE.search(f"{unit.label} {_description_of(entry)}") or is_country(label):
            break
        yield label
        passed.add(unit.qid)
        here, country = unit.qid, country or _country(unit.qid, found)
    if country:
        yield country


def _country(item: Qid, found: _Found) -> str | None:
    edge = _only(item, "P17", found.edges)
    name = known_place(edge.label) if edge and edge.label else None
    return name if name and is_country(name) else None


def _only(item: Qid, pid: str, edges: Mapping[Qid, list[Neighbour]]) -> Neighbour | None:
    values = [edge for edge in edges.get(item, ()) if edge.pid == pid]
    return values[0] if len({edge.qid for edge in values}) == 1 else None


def _labels(item: Qid, pid: str, edges: Mapping[Qid, list[Neighbour]]) -> tuple[str, ...]:
    return tuple(edge.label for edge in edges.get(item, ()) if edge.pid == pid and edge.label)
