"""Which items two names stand for: by the relation between them, by their lifetimes and places, and by descriptions (Appendix B).

A fact about a place holds for what lies around it as well: who was born in Ulm was born in Germany.

Many items bear one name, so the items that were found may not be those that are meant. A pair is impossible where two
places lie apart or two lifetimes do not meet. Weaker signs are doubts, which a reviewer decides: a person and a place of
different countries, or two people with neither country nor occupation in common.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from factmill.tasks.core.calls.item_facts import Fact
from factmill.tasks.core.calls.knowledge import Candidate, Neighbour, choose_candidate
from factmill.tasks.granola.core.grounding import Lexicon
from factmill.tasks.text.ids import id_number
from factmill.tasks.text.values.literals import YEAR, date_key

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


_CLASSES = ("P106", "P31", "P279")
_COUNTRIES = ("P27", "P17", "P495")
_IMPLIED = {
    "P50": "written work",
    "P175": "musical work",
    "P170": "creative work",
    "P176": "product",
    "P112": "organization",
    "P159": "organization",
}
"""What an item is that has an author, a performer, a creator, a manufacturer, a founder, a headquarters location."""
DESCRIBING = (*_CLASSES, *_COUNTRIES, *_IMPLIED)
"""Claims that a description is made of, beside those: occupation, instance of, subclass of; citizenship, country, country
of origin. A genre says nothing of what an item is: a song, a band, a festival."""


def make_description(claims: Iterable[Neighbour], person_pids: Collection[str]) -> str:
    """Return a description of an item's claims, `film actor and singer, India`; empty where they name no class.

    A country is named where there is one alone. An item whose class is not said is what its properties imply: a human, as
    only people have some, or one of _IMPLIED.
    """
    edges = [edge for edge in claims if edge.label]
    pids = {edge.pid for edge in edges}
    implied = ["human"] if pids & set(person_pids) else [name for pid, name in _IMPLIED.items() if pid in pids][:1]
    classes = _find_first(edges, _CLASSES) or implied
    countries = _find_first(edges, _COUNTRIES)
    return ", ".join([" and ".join(classes[:2]), *(countries if len(countries) == 1 else ())]) if classes else ""


def _find_first(edges: Iterable[Neighbour], pids: Iterable[str]) -> list[str]:
    """Return the labels of the first of these properties that has any."""
    labels = ([str(edge.label) for edge in edges if edge.pid == pid] for pid in pids)
    return next(filter(None, labels), [])


PLACES_WITHIN = frozenset({"P17", "P36", "P131", "P159", "P276", "P740"})
"""Relations whose subject lies in, at or around its value, or comes from it."""
LIVES_IN = frozenset({"P19", "P20", "P69"})
"""Relations of a person to a place or a school."""
RELATIVES = frozenset({"P26", "P40"})
"""Relations of a person to a person who lives at the same time."""
LOCATION = "P276"
_NAMESAKES_COUNTRIES, _OCCUPATION = ("P17", "P27"), "P106"
COMPARED = (*_NAMESAKES_COUNTRIES, _OCCUPATION)
"""Claims that are compared: country, citizenship, occupation."""
_BORN, _DIED = "P569", "P570"
_LIFETIME = re.compile(r"\b(?:born|b\.) (?:in )?(?P<birth>\d{4})|\((?P<born>\d{3,4}) ?[–-] ?(?P<died>\d{3,4})\)")
_WHERE = re.compile(r"\b(?:in|at|near|(?:capital|seat|city|town|village|county|state|province) of) (.*)")


@dataclass(frozen=True, slots=True)
class Bearer:
    """An item that bears a name, with what is known of it."""

    name: str
    description: str
    claims: Sequence[Neighbour] = ()
    """Those of COMPARED."""
    born: int | None = None
    """Year of birth, astronomical."""
    died: int | None = None


def read_lifetime(facts: Iterable[Fact], description: str) -> tuple[int | None, int | None]:
    """Return the years of birth and death that an item's facts give, else its description; None where neither does."""
    years: dict[str, int] = {}
    for fact in facts:
        if fact.pid in (_BORN, _DIED) and fact.value and (fact.precision is None or fact.precision >= YEAR):
            key = date_key(fact.value)
            years |= {} if key is None else {fact.pid: key // 10_000}
    if not years and (found := _LIFETIME.search(description)):
        born, died = found["birth"] or found["born"], found["died"]
        return int(born), int(died) if died else None
    return years.get(_BORN), years.get(_DIED)


def find_contradiction(relation: str, subject: Bearer, value: Bearer, lexicon: Lexicon) -> str:
    """Return why a relation cannot hold between two items, as a reason of a reject; empty where it can.

    Two places lie apart where their countries differ by the graph's statements, else where neither description leads into
    the other. What is located somewhere is described by more than that (a painting of a Spanish king), so that only
    words behind "in", "capital of" and the like count.
    """
    if relation in RELATIVES:
        is_apart = _precedes(subject.died, value.born) or _precedes(value.died, subject.born)
        return "lifetimes_disagree" if is_apart else ""
    if relation not in PLACES_WITHIN:
        return ""
    stated, other = (_find_countries(each.claims, lexicon) for each in (subject, value))
    if stated and other and not stated & other:
        return "places_disagree"
    if relation == LOCATION:
        where = _WHERE.search(subject.description)
        subject = replace(subject, description=where[1] if where else "")
    return "places_disagree" if lie_apart(subject, value, lexicon) else ""


def find_doubt(relation: str, subject: Bearer, value: Bearer, lexicon: Lexicon) -> str:
    """Return what speaks against a relation between two items, as a flag of the review queue; empty for nothing."""
    countries = [_outermost_of(each, lexicon) for each in (subject, value)]
    if not all(countries) or countries[0] & countries[1]:
        return ""
    if relation in LIVES_IN:
        return "another_country"
    occupations = [_find_occupations(each, lexicon) for each in (subject, value)]
    is_odd = relation in RELATIVES and all(occupations) and not occupations[0] & occupations[1]
    return "nothing_in_common" if is_odd else ""


def is_only_one(subject: Bearer, value: Bearer, rivals: Iterable[Bearer], lexicon: Lexicon) -> bool:
    """Return whether a place has something in common with the subject that no other place of its name has."""
    shared = find_places(subject, lexicon) & find_places(value, lexicon)
    # all of them bear the name: it says nothing of a rival
    return bool(shared) and not any(shared <= find_places(replace(rival, name=""), lexicon) for rival in rivals)


def lie_apart(one: Bearer, other: Bearer, lexicon: Lexicon) -> bool:
    """Return whether both things name countries, and none of the one lies in, around or at one of the other.

    A place within a longer name says nothing of where the thing is not: Hollywood Records.
    """
    known = (each if len(lexicon.read_terms(each.name)) == 1 else replace(each, name="") for each in (one, other))
    first, second = (find_places(each, lexicon) for each in known)
    if not (lexicon.outermost(first) and lexicon.outermost(second)):
        return False
    return not (lexicon.innermost(first) & second or lexicon.innermost(second) & first)


def find_places(one: Bearer, lexicon: Lexicon) -> frozenset[str]:
    """Return the countries and regions of a thing by its claims and its description, and by its name where that agrees.

    The name Victoria says nothing of Victoria in Canada.
    """
    told = _find_countries(one.claims, lexicon) | lexicon.follow_places(one.description)
    own = lexicon.follow_places(one.name, told)
    return told | own if not told or lexicon.outermost(own) & lexicon.outermost(told) else told


def _find_countries(claims: Iterable[Neighbour], lexicon: Lexicon) -> frozenset[str]:
    """Return the countries of today that claims name, or that lie where a state of the past did: Kingdom of Italy."""
    labels = {edge.label for edge in claims if edge.pid in _NAMESAKES_COUNTRIES and edge.label}
    named = lexicon.outermost(frozenset().union(*map(lexicon.follow_places, labels)))
    # as a value of these claims Georgia is the country
    return named | ({"Georgia"} & labels)


def _outermost_of(one: Bearer, lexicon: Lexicon) -> frozenset[str]:
    return lexicon.outermost(find_places(replace(one, name=""), lexicon))


def _find_occupations(one: Bearer, lexicon: Lexicon) -> frozenset[str]:
    labels = (edge.label for edge in one.claims if edge.pid == _OCCUPATION and edge.label)
    terms = lexicon.follow([one.description, *labels])
    return frozenset(term for term in terms if term[0] != "=" and term.isalpha()) - {"human"}


def _precedes(died: int | None, born: int | None) -> bool:
    """Return whether somebody died before somebody was born; a child may be born in the year after a father's death."""
    return died is not None and born is not None and died + 1 < born
