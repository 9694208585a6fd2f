"""Answers from fine to coarse by plain rules: which rules fit which question and which kind of answer.

A question for a place is answered with the places around; a question for a person, company or label with what it is,
less and less exactly; a question for a school with the kind of school and where it is. An answer of a kind that no
rule fits keeps its one level.
"""

from tasks.core.authoring.granularity import MAX_LEVELS
from tasks.rules.graph import Facts
from tasks.rules.levels.consistency import find_relations
from tasks.rules.levels.people import describe_person, widen_person
from tasks.rules.levels.things import adjective_for, widen_school, widen_thing
from tasks.rules.places import (
    BEYOND_COUNTRIES,
    OPENERS,
    is_country,
    name_places,
    places_beyond,
    read_places_around,
)
from tasks.rules.reading import kinds_described, known_noun
from tasks.rules.tables import load_tables
from tasks.text.matching import normalise

_PLACE_QUESTIONS = ("where ", "which country ", "which continent ", "what is the capital ")
_THINGS = frozenset(
    {"label", "company", "organization", "group", "team", "school", "site", "periodical", "website", "faith"}
)


def list_levels(question: str, answer: str, description: str, facts: Facts) -> list[str]:
    """Return the answer and its wider forms, fine to coarse, without repeats; at most MAX_LEVELS."""
    kinds = kinds_described(description) or _kinds_of_classes(facts.classes)
    asks_for_place = question.strip().lower().startswith(_PLACE_QUESTIONS)
    if asks_for_place and "school" in kinds and any(relation.pid == "P69" for relation, _ in find_relations(question)):
        wider = widen_school(description, answer, facts.places)
    elif asks_for_place:
        wider = [] if "person" in kinds else name_places(_places(answer, description, kinds, facts))
    elif "person" in kinds:
        wider = widen_person(describe_person(description, facts.citizenships, facts.occupations))
    elif kinds & _THINGS:
        wider = widen_thing(description, answer, adjective_for(facts.country), _seat_places(facts))
    else:
        wider = []
    levels = {normalise(level): level for level in reversed([answer, *wider])}
    return [answer, *(level for level in wider if levels.get(normalise(level)) is level)][:MAX_LEVELS]


def _places(answer: str, description: str, kinds: frozenset[str], facts: Facts) -> tuple[str, ...]:
    """Return the places around a place: the description's, made complete by the graph where the two agree."""
    read = read_places_around(description, answer, OPENERS if "place" in kinds else ("in", "within"))
    climbed = [*facts.places, *(places_beyond(facts.places[-1]) if facts.places else [])]
    known = tuple(place for place in climbed if normalise(place) != normalise(answer))
    if not read:
        return known or (
            (facts.continent,) if facts.continent and normalise(answer) != normalise(facts.continent) else ()
        )
    if set(read) <= set(known):
        return known
    is_open = not any(is_country(place) or place in BEYOND_COUNTRIES or places_beyond(place) for place in read)
    if is_open and facts.country and not is_country(answer) and facts.country != answer:
        return (*read, facts.country)
    return read


def _seat_places(facts: Facts) -> list[str]:
    if not facts.seat:
        return list(facts.places)
    around = [place for place in read_places_around(facts.seat_description, facts.seat) if place != facts.seat]
    return [facts.seat, *(around or facts.seat_places or places_beyond(facts.seat))]


def _kinds_of_classes(classes: tuple[str, ...]) -> frozenset[str]:
    kinds = load_tables().kinds
    nouns = [noun for noun in (known_noun(label) for label in classes) if noun]
    return frozenset().union(*(kinds[noun] for noun in nouns)) if nouns else frozenset()
