"""Test parsing of a description into a noun phrase that names a kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.granola.description_parsing import (
    cut_nationality_and_words_before,
    load_description_word_lists,
    read_description_head,
    read_kinds_of_thing_described,
    simplify_to_first_sentence,
)


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("2004 film by a director", "screen"),
        ("American film and television actor", "person"),
        ("American film and television production company", "company"),
        ("Recipient of a medal and politician", "person"),
        ("mathematician celebrated for results in infinite series", "person"),
        ("neighborhood in a large city", "place"),
        ("historical motorcycle manufacturer", "company"),
        ("group of islands", "place"),
        ("private, nonsectarian, research university", "school"),
        ("song by a band", "music"),
        ("1998 novel", "written"),
        ("Wikimedia disambiguation page", "name"),
        ("female given name", "name"),
        ("fictional detective in a film", "character"),
        ("species of beetle", "taxon"),
        ("daughter of a king", "person"),
        ("one of the largest lakes of Africa", "place"),
        ("art museum", "site"),
    ],
)
def test_kind_is_read_from_head_of_description(description: str, kind: str) -> None:
    assert kind in read_kinds_of_thing_described(description)


@pytest.mark.parametrize("description", ["", "something from somewhere", "?!"])
def test_unrecognised_description_has_no_kind(description: str) -> None:
    assert read_kinds_of_thing_described(description) == frozenset()


@pytest.mark.parametrize(
    ("phrase", "is_found", "rest"),
    [
        ("American actor", True, "actor"),
        ("New Zealand film director", True, "film director"),
        ("British-American actor", True, "actor"),
        ("US/British label", True, "label"),
        ("Polish-born French chemist", True, "chemist"),
        ("German Catholic priest", True, "Catholic priest"),
        ("American football player", False, "American football player"),
        ("French literature critic", False, "French literature critic"),
        ("acclaimed Irish poet", True, "poet"),
        ("poet", False, "poet"),
        ("", False, ""),
    ],
)
def test_leading_nationality_is_removed(phrase: str, is_found: bool, rest: str) -> None:
    assert cut_nationality_and_words_before(phrase) == (is_found, rest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("city  in Spain.", "city in Spain"),
        ("actor (born 1960)", "actor"),
        ("university in Ithaca (New York, US)", "university in Ithaca, New York, US"),
        ("suburb of Washington, D.C.", "suburb of Washington D.C."),
        ("Elm University is a public university in Ohio. It is old.", "public university in Ohio"),
        ("town in the U.S.", "town in the U.S."),
    ],
)
def test_tidying_removes_brackets_and_full_stops_and_shortens_sentences(text: str, expected: str) -> None:
    assert simplify_to_first_sentence(text) == expected


@given(st.text(max_size=80))
def test_reading_any_text_never_raises(text: str) -> None:
    read_kinds_of_thing_described(text)
    assert read_description_head(simplify_to_first_sentence(text)).noun in {"", *load_description_word_lists().kinds}


def test_kinds_expected_by_relations_exist_in_word_lists() -> None:
    words = load_description_word_lists()
    known = frozenset[str]().union(*words.kinds.values())
    expected = frozenset[str]().union(
        *(r.subject_kinds | r.answer_kinds for r in load_entity_questions_relations().values())
    )
    assert expected <= known


def test_every_region_leads_to_country_or_world_region() -> None:
    words = load_description_word_lists()
    for region in words.within:
        passed = [region]
        while passed[-1] in words.within:
            passed.append(words.within[passed[-1]])
            assert len(passed) < 8, f"{region} runs in a circle: {passed}"
        assert passed[-1] in words.countries or passed[-1] == "", (
            f"{region} ends at {passed[-1]!r}, no country of the list"
        )


def test_every_wider_occupation_is_itself_an_occupation() -> None:
    occupations = load_description_word_lists().occupations
    assert {wider for wider in occupations.values() if wider} <= occupations.keys()
