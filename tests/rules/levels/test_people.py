"""Wider descriptions of people."""

import pytest

from tasks.rules.levels.people import describe_person, widen_person, wider_occupation


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("English novelist", "an English novelist; an English writer; a writer"),
        ("Irish poet and dramatist", "an Irish poet and dramatist; an Irish writer; a writer"),
        ("Canadian actor", "a Canadian actor; an actor"),
        ("American stage and film actress", "an American stage and film actress; an American actress; an actress"),
        ("German-born Swiss physicist", "a Swiss physicist; a Swiss scientist; a scientist"),
        (
            "British-American film director",
            "a British-American film director; a British-American filmmaker; a filmmaker",
        ),
        ("US singer-songwriter", "an American singer-songwriter; an American musician; a musician"),
        ("singer and dancer from Norway", "a Norwegian singer and dancer; a Norwegian musician; a musician"),
        ("Actress, model", "an actress and model; an actress"),
        ("award-winning French chef", "a French chef; a chef"),
        (
            "Hungarian orchestral and operatic conductor",
            "a Hungarian operatic conductor; a Hungarian musician; a musician",
        ),
        ("American football player", "an American football player; an athlete"),
        (
            "third president of the United States",
            "a president of the United States; an American politician; a politician",
        ),
        (
            "American lawyer, 14th President of the United States",
            "a president of the United States; an American politician; a politician",
        ),
        ("King of Great Britain and King of Ireland", "a king of Great Britain; a British monarch; a monarch"),
        ("King of Siam", "a king of Siam; a monarch"),
        ("Russian novelist, author of long books", "a Russian novelist; a Russian writer; a writer"),
        ("R&B singer", "an R&B singer; a musician"),
        ("Mexican and American actor", "a Mexican and American actor; an actor"),
        ("polish painter", "a Polish painter; a Polish artist; an artist"),
        ("Dutch talent show judge", "a Dutch talent show judge; a talent show judge"),
        ("born 1960; Welsh actor", "a Welsh actor; an actor"),
        ("university president", "a university president"),
        ("mother of two", ""),
        ("central figure of a religion", ""),
        ("", ""),
    ],
)
def test_a_description_is_widened_step_by_step(description: str, expected: str) -> None:
    assert "; ".join(widen_person(describe_person(description))) == expected


@pytest.mark.parametrize(
    ("description", "citizenships", "occupations", "expected"),
    [
        ("actor", ["Australia"], [], "an Australian actor; an actor"),
        ("actor", ["United States of America"], ["singer"], "an American actor; an actor"),
        ("actor", ["Australia", "Ireland"], [], "an actor"),
        ("actor", ["Atlantis"], [], "an actor"),
        ("son of a king", ["Sweden"], ["painter"], "a Swedish painter; a Swedish artist; an artist"),
        ("son of a king", ["Sweden"], ["painter", "poet"], ""),
    ],
)
def test_the_graph_fills_in_only_what_stands_alone(
    description: str, citizenships: list[str], occupations: list[str], expected: str
) -> None:
    assert "; ".join(widen_person(describe_person(description, citizenships, occupations))) == expected


@pytest.mark.parametrize(
    ("occupation", "expected"),
    [
        ("novelist", "writer"),
        ("jazz pianist", "musician"),
        ("actor", ""),
        ("voice actor", "actor"),
        ("art director", ""),
        ("zyx", ""),
    ],
)
def test_an_occupation_has_one_wider_one_or_none(occupation: str, expected: str) -> None:
    assert wider_occupation(occupation) == expected
