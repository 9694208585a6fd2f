"""Test evidence against two items whose fact is missing in the graph."""

import pytest

from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.wikidata import ItemNeighbour, Pid, Qid
from factmill.tasks.granola.core.linking import (
    NameBearer,
    are_in_different_places,
    find_birth_and_death_years,
    find_contradicting_lifetimes_or_places,
    find_relation_doubt_flag,
    is_only_place_in_regions_of_subject,
)
from factmill.tasks.granola.description_parsing import load_lexicon

LEXICON = load_lexicon()


def bear(text: str, *claims: str) -> NameBearer:
    """Return the bearer `name: description` or `name: description (born-died)`, with claims such as `P17 Italy`."""
    name, _, description = text.partition(": ")
    edges = [ItemNeighbour(Pid(pid), Qid("Q1"), label) for pid, label in (each.split(" ", 1) for each in claims)]
    return NameBearer(name, description, edges, *find_birth_and_death_years((), description))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Boston: capital of Massachusetts", "Lincolnshire: county in England", True),
        ("Carlisle: city in Cumbria, England", "Ohio: state of the United States", True),
        ("Moscow: capital of Russia", "Jefferson County: county in Alabama, United States", True),
        (
            "Savannah: county seat of Chatham County, Georgia, United States",
            "Denton County: county in Texas, USA",
            True,
        ),
        ("Savannah: city in the US state of Georgia", "Georgia: state of the United States", False),
        ("Atlanta: capital of Georgia, United States", "Tbilisi: capital of Georgia", False),
        ("Carlisle: city in England", "United Kingdom: state in Europe", False),
        ("Rockhampton: city in Queensland", "Australia: country", False),
        ("Channel 4: British broadcaster", "London: capital of England", False),
        ("Party of the Soviet Union: party", "Moscow: capital of Russia", False),
        ("Los Angeles: county seat of Los Angeles County", "College: a university in Los Angeles", False),
        ("Hollywood Records: music label in the USA", "Burbank: city in California", False),
        ("Victoria: capital of British Columbia, Canada", "Australia: country in Oceania", True),
        ("Putnam County: county in New York", "Indiana: state of the United States", True),
        (
            "Port of Spain: capital of Trinidad and Tobago",
            "Trinidad and Tobago: island country in the Caribbean",
            False,
        ),
        ("Beijing: capital of China", "People's Republic of China: state in East Asia", False),
        ("Ulm: a town", "Ohio: a state", False),
    ],
)
def test_places_differ_when_neither_contains_other(one: str, other: str, expected: bool) -> None:
    first, second = bear(one), bear(other)
    assert are_in_different_places(first, second, LEXICON) is expected
    assert are_in_different_places(second, first, LEXICON) is expected


@pytest.mark.parametrize("relation", ["P17", "P36", "P131", "P159", "P276", "P740"])
def test_all_place_relations_compare_countries_stated_in_graph(relation: str) -> None:
    new_orleans, rotterdam = bear("New Orleans: port", "P17 United States of America"), bear("Rotterdam: port")
    assert find_contradicting_lifetimes_or_places(relation, new_orleans, rotterdam, LEXICON) == ""
    stated = bear("Rotterdam: port", "P17 Kingdom of the Netherlands")
    assert find_contradicting_lifetimes_or_places(relation, new_orleans, stated, LEXICON) == "places_disagree"
    assert find_contradicting_lifetimes_or_places("P19", new_orleans, stated, LEXICON) == ""


@pytest.mark.parametrize(
    ("claims", "others", "expected"),
    [
        (["P17 Soviet Union", "P17 Ukraine"], ["P17 Ukraine"], ""),
        (["P17 Soviet Union"], ["P17 Ukraine"], ""),
        (["P17 German Democratic Republic"], ["P17 Germany"], ""),
        (["P17 Georgia"], ["P17 United States of America"], "places_disagree"),
        (["P17 Georgia"], ["P17 Georgia"], ""),
        (["P106 Italian politician"], ["P17 Germany"], ""),
    ],
)
def test_former_states_are_compatible_with_their_successors(
    claims: list[str], others: list[str], expected: str
) -> None:
    assert (
        find_contradicting_lifetimes_or_places("P276", bear("A: wall", *claims), bear("B: city", *others), LEXICON)
        == expected
    )


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("New Orleans: port city in Louisiana", "places_disagree"),
        ("Savannah: county seat of Chatham County, Georgia, United States", "places_disagree"),
        ("Las Meninas: painting by a Spanish painter of the royal household of Spain", ""),
        ("Iraq War: war led by the United States", ""),
    ],
)
def test_location_is_read_from_in_phrase_of_description(subject: str, expected: str) -> None:
    assert (
        find_contradicting_lifetimes_or_places(
            "P276", bear(subject), bear("Rotterdam: city in the Netherlands"), LEXICON
        )
        == expected
    )


@pytest.mark.parametrize(
    ("relation", "one", "other", "expected"),
    [
        ("P26", "Anne Hathaway: actress (born 1982)", "William Shakespeare: playwright (1564–1616)", True),
        ("P26", "William Shakespeare: playwright (1564–1616)", "Anne Hathaway: actress born 1982", True),
        ("P40", "Ada: poet (1815–1852)", "Bo: poet (born 1853)", False),
        ("P40", "Ada: poet (1815–1852)", "Bo: poet (1854–1900)", True),
        ("P26", "Ada: poet (1815–1852)", "Bo: poet", False),
        ("P69", "Ada: poet (1815–1852)", "Bo: poet (1954-1990)", False),
    ],
)
def test_relatives_must_have_overlapping_lifetimes(relation: str, one: str, other: str, expected: bool) -> None:
    assert bool(find_contradicting_lifetimes_or_places(relation, bear(one), bear(other), LEXICON)) is expected


@pytest.mark.parametrize(
    ("relation", "one", "other", "expected"),
    [
        ("P19", "John Davis: American film producer", "Devon: county of England", "another_country"),
        ("P69", "Robert Smith: English singer", "Reed College: college in Oregon", "another_country"),
        ("P19", "John Davis: film producer", "Devon: county of England", ""),
        ("P19", "Ada: British film producer", "Devon: county of England", ""),
        ("P127", "DVD: American disc", "Sony: Japanese corporation", ""),
        (
            "P26",
            "Anne Hathaway: American actress",
            "William Shakespeare: English playwright and poet",
            "nothing_in_common",
        ),
        ("P26", "Gwen Stefani: American singer-songwriter", "Gavin Rossdale: British actor and singer", ""),
        ("P26", "Ada: American actress", "Bo: English actor", ""),
        ("P26", "Ada: American actress", "Bo: American poet", ""),
        ("P26", "Ada: human, United States of America", "Bo: English poet", ""),
    ],
)
def test_implausible_relations_get_doubt_flag(relation: str, one: str, other: str, expected: str) -> None:
    assert find_relation_doubt_flag(relation, bear(one), bear(other), LEXICON) == expected


def test_claims_are_used_when_description_is_silent() -> None:
    devon = bear("Devon: county", "P17 United Kingdom")
    assert (
        find_relation_doubt_flag("P19", bear("Ada: producer", "P27 United States of America"), devon, LEXICON)
        == "another_country"
    )
    actress, poet = bear("Ada: American", "P106 actor"), bear("Bo: English poet", "P106 stage actor")
    assert find_relation_doubt_flag("P26", actress, poet, LEXICON) == ""


@pytest.mark.parametrize(
    ("subject", "value", "rival", "expected"),
    [
        ("Band: British band", "Birmingham: city in England", "Birmingham: city in Alabama, United States", True),
        ("FC Utrecht: Dutch club", "Utrecht: province of the Netherlands", "Utrecht: city in the Netherlands", False),
        ("Ada: company in Oregon", "Portland: city in Oregon", "Portland: city in Maine", True),
        ("Ada: American company", "Portland: city in Oregon", "Portland: city in Maine", False),
        ("Ada: company", "Portland: city in Oregon", "Portland: city in Maine", False),
        ("Ada: city in Queensland", "Queensland: state of Australia", "Queensland: ", True),
    ],
)
def test_shared_country_is_not_enough_when_rival_place_shares_it_too(
    subject: str, value: str, rival: str, expected: bool
) -> None:
    assert is_only_place_in_regions_of_subject(bear(subject), bear(value), [bear(rival)], LEXICON) is expected


def test_graph_lifetimes_take_precedence_over_description() -> None:
    def say(pid: str, value: str, precision: int | None) -> ItemFact:
        return ItemFact(Pid(pid), None, None, value, precision, None, None)

    facts = [say("P569", "-0043-03-15T00:00:00Z", 11), say("P570", "0014-08-19T00:00:00Z", None)]
    assert find_birth_and_death_years(facts, "emperor (1564–1616)") == (-43, 14)
    assert find_birth_and_death_years([say("P569", "1500-01-01T00:00:00Z", 7)], "a poet (1564–1616)") == (1564, 1616)
    assert find_birth_and_death_years([say("P571", "1500-01-01T00:00:00Z", 11)], "a poet") == (None, None)
