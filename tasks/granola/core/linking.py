"""Find the items that two names mean, by their relation, lifetimes, places and descriptions (Appendix B).

A fact about a place also holds for the places that enclose it: a person born in Ulm was born in Germany.

Many items share a name, so the items found may not be those meant. A pair is impossible where two places lie apart or
two lifetimes do not overlap. Weaker signs are doubts for a reviewer to decide: a person and a place of different
countries, or two people who share neither country nor occupation.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.wikidata import ItemMatchedByName, ItemNeighbour, choose_item_by_label_then_smallest_qid
from factmill.tasks.granola.core.grounding import PlaceAndNounLexicon
from factmill.tasks.text.values.wikidata_literals import YEAR_PRECISION, compute_xsd_datetime_day_key
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

PLACE_RELATIONS = frozenset({"P19", "P20", "P131", "P159", "P276", "P740"})
ENCLOSING_PLACE_PIDS = ("P17", "P131")
"""Country, and located in the administrative territorial entity."""

EntityPair = tuple[str, str]
"""QIDs of a question entity and an answer."""
ClaimsByItem = Mapping[str, Sequence[ItemNeighbour]]


@dataclass(frozen=True, slots=True)
class RelationBetweenBearersOfTwoNames:
    """What the graph says about a relation between the bearers of two names."""

    pairs: frozenset[EntityPair]
    """Pairs for which the relation holds."""
    known_values: Mapping[str, tuple[str, ...]]
    """Bearer of the question entity's name for which the graph has any value → the names of its values."""

    def holds(self, pair: EntityPair) -> bool | None:
        """Return whether the relation holds for a pair; None where the graph has no value for its question entity."""
        return True if pair in self.pairs else False if pair[0] in self.known_values else None


def find_bearer_pairs_in_relation(
    relation: str,
    bearers: tuple[Sequence[ItemMatchedByName], ...],
    claims: ClaimsByItem,
    enclosing_place_claims: ClaimsByItem,
) -> RelationBetweenBearersOfTwoNames:
    """Find the pairs of bearers for which a relation holds: directly or, if it leads to places, via enclosing places.

    Args:
        bearers: Bearers of the question entity's name, and of the answer's.
        claims: QID of each bearer of the question entity's name → its claims of the relation.
        around: QID of a place → its claims of ENCLOSING_PLACE_PIDS.
    """
    questions, answers = ([candidate.qid for candidate in side] for side in bearers)
    values = {qid: {edge.qid for edge in claims.get(qid, ())} for qid in questions}
    pairs = frozenset((qid, answer) for qid in questions for answer in answers if answer in values[qid])
    if not pairs and relation in PLACE_RELATIONS:
        beyond = {
            each: find_reachable_items(enclosing_place_claims, each) for each in {*answers, *chain(*values.values())}
        }
        pairs = frozenset(
            (qid, answer)
            for qid in questions
            for answer in answers
            if values[qid] & beyond[answer] or any(answer in beyond[value] for value in values[qid])
        )
    knows: dict[str, tuple[str, ...]] = {
        qid: tuple(edge.label or edge.qid for edge in claims[qid]) for qid in questions if values[qid]
    }
    return RelationBetweenBearersOfTwoNames(pairs, knows)


def find_reachable_items(claims_by_item: ClaimsByItem, qid: str) -> set[str]:
    """Return all items that an item's claims lead to, over any number of hops."""
    beyond: set[str] = set()
    todo = [qid]
    while todo:
        fresh = {edge.qid for edge in claims_by_item.get(todo.pop(), ())} - beyond
        beyond |= fresh
        todo += fresh
    return beyond


def choose_entity_pair(
    bearers: tuple[Sequence[ItemMatchedByName], ...], matches: RelationBetweenBearersOfTwoNames, policy: str
) -> EntityPair:
    """Return the pair with the smallest QID numbers; policy `linked` prefers pairs for which the relation holds."""
    if policy == "linked" and matches.pairs:
        return min(matches.pairs, key=lambda pair: (get_wikidata_id_number(pair[0]), get_wikidata_id_number(pair[1])))
    question, answer = (choose_item_by_label_then_smallest_qid(side).qid for side in bearers)
    return question, answer


_CLASS_PIDS = ("P106", "P31", "P279")
_COUNTRY_PIDS = ("P27", "P17", "P495")
_IMPLIED_CLASSES = {
    "P50": "written work",
    "P175": "musical work",
    "P170": "creative work",
    "P176": "product",
    "P112": "organization",
    "P159": "organization",
}
"""Class of an item that has an author, a performer, a creator, a manufacturer, a founder, a headquarters location."""
DESCRIPTION_PIDS = (*_CLASS_PIDS, *_COUNTRY_PIDS, *_IMPLIED_CLASSES)
"""Properties that descriptions are made of: occupation, instance of, subclass of; citizenship, country, country of
origin; and those above. A genre does not say what an item is: a song, a band or a festival."""


def make_description(claims: Iterable[ItemNeighbour], person_pids: Collection[str]) -> str:
    """Return a description made of an item's claims, `film actor and singer, India`; empty where they give no class.

    It names a country only where there is exactly one. An item without a stated class gets the one that its properties
    imply: human, since only people have some properties, or one of _IMPLIED_CLASSES.
    """
    labels: dict[str, list[str]] = defaultdict(list)
    for edge in claims:
        if edge.label:
            labels[edge.pid].append(edge.label)
    classes, countries = (
        next((labels[pid] for pid in pids if pid in labels), []) for pids in (_CLASS_PIDS, _COUNTRY_PIDS)
    )
    if not classes:
        implied = (name for pid, name in _IMPLIED_CLASSES.items() if pid in labels)
        classes = ["human"] if labels.keys() & {*person_pids} else list(implied)[:1]
    return ", ".join([" and ".join(classes[:2]), *(countries if len(countries) == 1 else ())]) if classes else ""


LOCATED_RELATIONS = frozenset({"P17", "P36", "P131", "P159", "P276", "P740"})
"""Relations whose subject lies in, at or around its value, or originates there."""
RESIDENCE_RELATIONS = frozenset({"P19", "P20", "P69"})
"""Relations of a person to a place or a school."""
KINSHIP_RELATIONS = frozenset({"P26", "P40"})
"""Relations of a person to a person who lives at the same time."""
LOCATION_PID = "P276"
_COMPARED_COUNTRY_PIDS, _OCCUPATION = ("P17", "P27"), "P106"
COMPARED_PIDS = (*_COMPARED_COUNTRY_PIDS, _OCCUPATION)
"""Properties that are compared: country, citizenship, occupation."""
_BIRTH_DATE_PID, _DEATH_DATE_PID = "P569", "P570"
_LIFETIME = re.compile(r"\b(?:born|b\.) (?:in )?(?P<birth>\d{4})|\((?P<born>\d{3,4}) ?[–-] ?(?P<died>\d{3,4})\)")
_LOCATION_PHRASE = re.compile(r"\b(?:in|at|near|(?:capital|seat|city|town|village|county|state|province) of) (.*)")


@dataclass(frozen=True, slots=True)
class NameBearer:
    """An item that bears a name, with what is known about it."""

    name: str
    description: str
    claims: Sequence[ItemNeighbour] = ()
    """Claims of COMPARED."""
    birth_year: int | None = None
    """Astronomical year of birth."""
    death_year: int | None = None


def find_birth_and_death_years(facts: Iterable[ItemFact], description: str) -> tuple[int | None, int | None]:
    """Return years of birth and death from an item's facts, else from its description; None where neither has one."""
    years: dict[str, int] = {}
    for fact in facts:
        is_date = fact.pid in (_BIRTH_DATE_PID, _DEATH_DATE_PID) and fact.value
        is_exact = fact.precision is None or fact.precision >= YEAR_PRECISION
        if is_date and is_exact and (key := compute_xsd_datetime_day_key(fact.value or "")) is not None:
            years[fact.pid] = key // 10_000
    if not years and (found := _LIFETIME.search(description)):
        born, died = found["birth"] or found["born"], found["died"]
        return int(born), int(died) if died else None
    return years.get(_BIRTH_DATE_PID), years.get(_DEATH_DATE_PID)


def find_contradicting_lifetimes_or_places(
    relation: str, subject: NameBearer, value: NameBearer, lexicon: PlaceAndNounLexicon
) -> str:
    """Return the reject reason why a relation cannot hold between two items; empty where it can.

    Two places lie apart where their countries differ in the graph, or else where neither description leads to the
    other. The description of a located thing may name unrelated places (a painting of a Spanish king), so for LOCATION
    only words after "in", "capital of" and the like count.
    """
    if relation in KINSHIP_RELATIONS:
        is_apart = _died_before_birth(subject, value) or _died_before_birth(value, subject)
        return "lifetimes_disagree" if is_apart else ""
    if relation not in LOCATED_RELATIONS:
        return ""
    stated, other = (_find_claimed_countries(each.claims, lexicon) for each in (subject, value))
    if stated and other and not stated & other:
        return "places_disagree"
    if relation == LOCATION_PID:
        where = _LOCATION_PHRASE.search(subject.description)
        subject = replace(subject, description=where[1] if where else "")
    return "places_disagree" if are_in_different_places(subject, value, lexicon) else ""


def find_relation_doubt_flag(
    relation: str, subject: NameBearer, value: NameBearer, lexicon: PlaceAndNounLexicon
) -> str:
    """Return the review flag for a doubtful relation between two items; empty where there is no doubt."""
    places = (find_countries_and_regions_of_item(replace(each, name=""), lexicon) for each in (subject, value))
    countries = [lexicon.select_countries(each) for each in places]
    if not all(countries) or countries[0] & countries[1]:
        return ""
    if relation in RESIDENCE_RELATIONS:
        return "another_country"
    occupations = [_find_occupations(each, lexicon) for each in (subject, value)]
    is_odd = relation in KINSHIP_RELATIONS and all(occupations) and not occupations[0] & occupations[1]
    return "nothing_in_common" if is_odd else ""


def is_only_place_in_regions_of_subject(
    subject: NameBearer, value: NameBearer, rivals: Iterable[NameBearer], lexicon: PlaceAndNounLexicon
) -> bool:
    """Return whether a place shares countries or regions with the subject that no other place of its name shares."""
    shared = find_countries_and_regions_of_item(subject, lexicon) & find_countries_and_regions_of_item(value, lexicon)
    # all bear the same name, so it does not distinguish a rival
    return bool(shared) and not any(
        shared <= find_countries_and_regions_of_item(replace(rival, name=""), lexicon) for rival in rivals
    )


def are_in_different_places(one: NameBearer, other: NameBearer, lexicon: PlaceAndNounLexicon) -> bool:
    """Return whether both items have countries, and no place of one lies in, around or at a place of the other.

    A place within a longer name does not rule out other places: Hollywood Records.
    """
    known = (each if len(lexicon.read_terms(each.name)) == 1 else replace(each, name="") for each in (one, other))
    first, second = (find_countries_and_regions_of_item(each, lexicon) for each in known)
    if not (lexicon.select_countries(first) and lexicon.select_countries(second)):
        return False
    return not (lexicon.select_innermost_places(first) & second or lexicon.select_innermost_places(second) & first)


def find_countries_and_regions_of_item(bearer: NameBearer, lexicon: PlaceAndNounLexicon) -> frozenset[str]:
    """Return the countries and regions of an item from its claims, its description, and its name where that agrees.

    The name Victoria does not place Victoria in Canada.
    """
    claimed = _find_claimed_countries(bearer.claims, lexicon) | lexicon.expand_places(bearer.description)
    named = lexicon.expand_places(bearer.name, claimed)
    agrees = not claimed or lexicon.select_countries(named) & lexicon.select_countries(claimed)
    return claimed | named if agrees else claimed


def _find_claimed_countries(claims: Iterable[ItemNeighbour], lexicon: PlaceAndNounLexicon) -> frozenset[str]:
    """Return the present countries that claims name, or that succeed a former state: Kingdom of Italy."""
    labels = {edge.label for edge in claims if edge.pid in _COMPARED_COUNTRY_PIDS and edge.label}
    named = lexicon.select_countries(frozenset().union(*map(lexicon.expand_places, labels)))
    # as a value of these claims Georgia is the country
    return named | ({"Georgia"} & labels)


def _find_occupations(bearer: NameBearer, lexicon: PlaceAndNounLexicon) -> frozenset[str]:
    labels = (edge.label for edge in bearer.claims if edge.pid == _OCCUPATION and edge.label)
    terms = lexicon.expand_terms([bearer.description, *labels])
    return frozenset(term for term in terms if term[0] != "=" and term.isalpha()) - {"human"}


def _died_before_birth(one: NameBearer, other: NameBearer) -> bool:
    """Return whether one died before the other's birth; a child may be born in the year after the father's death."""
    return one.death_year is not None and other.birth_year is not None and one.death_year + 1 < other.birth_year
