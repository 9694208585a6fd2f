"""Whether a description can belong to a question: the judge of the rules author.

Every relation names the kinds of things that it can be asked about and that can answer it (granola_relations.csv). A
description whose kind is known and not among them is of a namesake: a film has no author in the sense of the question.
A description that is not understood rules nothing out.
"""

from functools import lru_cache

from tasks.core.relations import Relation, cut_entity
from tasks.rules.reading import kinds_described
from tasks.rules.tables import load_tables
from tasks.text.matching import normalise


def fits_question(question: str, entity: str, description: str) -> bool:
    """Return False when the thing described cannot play the entity's part in the question."""
    kinds = kinds_described(description)
    expected = expected_kinds(question, entity)
    return not kinds or not expected or bool(kinds & expected)


def expected_kinds(question: str, entity: str) -> frozenset[str]:
    """Return the kinds that an entity of the question may be of; empty when the question fits no relation.

    An entity that stands in the question's [X] is its subject, any other is the answer. Relations that share a
    template are taken together.
    """
    expected: frozenset[str] = frozenset()
    for relation, subject in find_relations(question):
        is_subject = normalise(subject) == normalise(entity)
        expected |= relation.subject_kinds if is_subject else relation.answer_kinds
    return expected


@lru_cache(maxsize=1024)
def find_relations(question: str) -> list[tuple[Relation, str]]:
    """Return the relations whose template the question fits, each with the subject it cuts out."""
    cut = ((relation, cut_entity(question, relation)) for relation in load_tables().relations.values())
    return [(relation, subject) for relation, subject in cut if subject is not None]
