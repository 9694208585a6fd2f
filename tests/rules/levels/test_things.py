"""Wider descriptions of schools, companies, labels and bands."""

import pytest

from tasks.rules.levels.things import adjective_for, widen_school, widen_thing


@pytest.mark.parametrize(
    ("name", "description", "expected"),
    [
        (
            "Elm University",
            "private research university in Durham, North Carolina, United States",
            "a private research university in Durham, North Carolina; a university in North Carolina; a university in the United States",
        ),
        (
            "Elm College",
            "private, coeducational college in Reno, Nevada",
            "a private coeducational college in Reno, Nevada; a college in Nevada; a college in the United States",
        ),
        ("Elm", "university in Turin, Italy", "a university in Turin; a university in Italy"),
        ("Elm", "Belgian university", "a university in Belgium"),
        ("Elm", "oldest university of Denmark", "a university in Denmark"),
        ("Elm", "drama school", "a drama school"),
        ("Elm", "Japanese high school in Kyoto", "a high school in Kyoto; a high school in Japan"),
        (
            "Oak Hall",
            "college of the University of Cambridge",
            "a college of the University of Cambridge",
        ),
        (
            "Oak Hall",
            "constituent college of the University of Oxford in England",
            "a constituent college of the University of Oxford; a university in England; a university in the United Kingdom",
        ),
        ("Elm", "university in the cities of Halle and Wittenberg, Germany", "a university in Germany"),
        (
            "Elm",
            "Australian multi-campus public university",
            "a multi-campus public university in Australia; a university in Australia",
        ),
        ("Elm", "place to learn", ""),
    ],
)
def test_a_school_is_widened_to_the_kind_of_school_and_where_it_is(name: str, description: str, expected: str) -> None:
    assert "; ".join(widen_school(description, name)) == expected


def test_places_of_the_graph_stand_in_for_a_school_without_any() -> None:
    assert widen_school("drama school", "Elm", ["London", "England"]) == [
        "a drama school in London",
        "a drama school in England",
    ]


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("American record label", "an American record label"),
        ("American independent record label", "an American independent record label; an American record label"),
        ("UK record company", "a British record company"),
        ("defunct record label", "a record label"),
        ("Music label in the USA", "a music label in the United States"),
        ("record label, a division of Big Music Group", "a record label of Big Music Group; a record label"),
        ("record label owned by Big Music", "a record label owned by Big Music; a record label"),
        ("Dutch record label founded in Delft in 1990", "a Dutch record label founded in Delft; a Dutch record label"),
        ("Japanese video game company", "a Japanese video game company; a Japanese company"),
        ("American maker of sports cars", "an American maker of sports cars; an American company"),
        ("English rock band", "an English rock band; an English band"),
        ("Punk rock Band", "a punk rock band; a band"),
        ("rock band from Australia", "an Australian rock band; an Australian band"),
        ("English rock band from Hull", "an English rock band from Hull; an English rock band; an English band"),
        ("football club in Bergen, Norway", "a football club in Bergen, Norway; a football club in Norway"),
        ("American football team", "an American football team; a football team"),
        (
            "basketball team based in Reno, Nevada",
            "a basketball team based in Reno, Nevada; a basketball team based in Nevada; a basketball team based in the United States",
        ),
        (
            "political party of the Republic of Ireland",
            "a political party of the Republic of Ireland; a political party",
        ),
        ("something else", ""),
    ],
)
def test_a_thing_is_widened_to_a_less_special_kind(description: str, expected: str) -> None:
    assert "; ".join(widen_thing(description, "Elm")) == expected


def test_the_graph_gives_nationality_or_seat_where_the_description_names_neither() -> None:
    assert widen_thing("record label", "Elm", "Swedish") == ["a Swedish record label"]
    assert widen_thing("record label", "Elm", "", ["Reno", "Nevada"]) == [
        "a record label in Reno, Nevada",
        "a record label in Nevada",
    ]
    assert widen_thing("German record label", "Elm", "Swedish") == ["a German record label"]


@pytest.mark.parametrize(
    ("country", "expected"), [("United States of America", "American"), ("Atlantis", ""), (None, "")]
)
def test_a_country_has_an_adjective_when_the_lists_know_it(country: str | None, expected: str) -> None:
    assert adjective_for(country) == expected
