"""Whether a description can belong to a question."""

import pytest

from tasks.core.relations import make_question
from tasks.rules.levels.consistency import fits_question
from tasks.rules.tables import load_tables


@pytest.mark.parametrize(
    ("pid", "subject", "entity", "description", "expected"),
    [
        ("P50", "Enduring Love", "Enduring Love", "2004 film by Roger Michell", False),
        ("P50", "Enduring Love", "Enduring Love", "novel about obsession", True),
        ("P50", "South Park", "South Park", "American adult animated sitcom", True),
        ("P50", "Emma", "Emma", "female given name", False),
        ("P50", "Hollywood", "Hollywood", "district of a city in California", False),
        ("P50", "Emma", "Jane Austen", "English novelist", True),
        ("P50", "Emma", "Jane Austen", "cruise ship", False),
        ("P175", "Orbit", "Orbit", "former maker of motorcycles", False),
        ("P175", "Orbit", "Orbit", "album by a German singer", True),
        ("P19", "Ada", "Ada", "English mathematician (1815–1852)", True),
        ("P19", "Ada", "Ada", "programming language", False),
        ("P19", "Ada", "London", "capital of England", True),
        ("P19", "Ada", "London", "album by a band", False),
        ("P26", "Ada", "William", "English peer and scientist", True),
        ("P26", "Ada", "William", "male given name", False),
        ("P69", "Ada", "Berkeley", "public university in California", True),
        ("P69", "Ada", "Berkeley", "Irish philosopher", False),
        ("P264", "Blur", "Food", "substance that is eaten", True),
        ("P264", "Blur", "Food", "British record label", True),
        ("P264", "Blur", "Food", "1970 film", False),
        ("P276", "Mona Lisa", "Mona Lisa", "painting in the Louvre", True),
        ("P131", "Zug", "Zug", "city in Switzerland", True),
        ("P112", "Apple", "Apple", "species of fruit tree", False),
        ("P112", "Apple", "Apple", "", True),
        ("P740", "Blur", "Blur", "English singer", False),
    ],
)
def test_the_kind_of_thing_must_fit_its_part_in_the_question(
    pid: str, subject: str, entity: str, description: str, expected: bool
) -> None:
    question = make_question(load_tables().relations[pid], subject)
    assert fits_question(question, entity, description) is expected


def test_a_question_of_no_relation_rules_nothing_out() -> None:
    assert fits_question("Why is the sky blue?", "sky", "2004 film")
