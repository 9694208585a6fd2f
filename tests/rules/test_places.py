"""Places around a place, read from its description."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.rules.places import name_places, place_with_article, read_places_around


@pytest.mark.parametrize(
    ("name", "description", "expected"),
    [
        ("Millersburg", "village in Holmes County, Ohio, United States", "Holmes County, Ohio; Ohio; United States"),
        ("Fürth", "city in Bavaria, Germany", "Bavaria; Germany"),
        ("Tula", "capital city of Tula Oblast in central Russia", "Tula Oblast; Central Russia; Russia"),
        ("Perth", "city in Scotland, UK, and council area", "Scotland; United Kingdom"),
        ("Leith", "port in Edinburgh, Scotland", "Edinburgh; Scotland; United Kingdom"),
        ("Bergen", "second-largest city in Norway", "Norway"),
        ("Trento", "Italian city, located in Trentino", "Trentino; Italy"),
        ("Madurai", "south Indian city in the state of Tamil Nadu", "Tamil Nadu; India"),
        (
            "Toledo",
            "county seat of Lucas County, Ohio; fourth-largest city in Ohio",
            "Lucas County, Ohio; Ohio; United States",
        ),
        (
            "Akron",
            "city in Ohio, United States; county seat of Summit County",
            "Summit County, Ohio; Ohio; United States",
        ),
        ("Reno", "city in and county seat of Washoe County, Nevada", "Washoe County, Nevada; Nevada; United States"),
        ("Aurora", "city in Kane, DuPage and Will counties, Illinois, USA", "Illinois; United States"),
        (
            "Soho",
            "area of central London, within the City of Westminster",
            "Central London; London; England; United Kingdom",
        ),
        ("Whitby", "town on the coast of North Yorkshire, England", "North Yorkshire; England; United Kingdom"),
        ("Gera", "city in the German federated state of Thuringia", "Thuringia; Germany"),
        ("Sion", "capital of the Swiss Canton of Valais", "Valais; Switzerland"),
        ("Ely", "cathedral city in Cambridgeshire, UK", "Cambridgeshire; England; United Kingdom"),
        ("Chad", "country in north Africa", "North Africa; Africa"),
        ("Peru", "republic in western South America", "Western South America; South America"),
        ("Wales", "country in western Europe, part of the United Kingdom", "United Kingdom; Europe"),
        ("Salzburg", "city in Salzburg federated state, Austria", "Austria"),
        ("Reus", "city in the province of Tarragona, Catalonia", "Tarragona; Catalonia; Spain"),
        (
            "Jasło",
            "town in Subcarpathian Voivodeship, in southeastern Poland",
            "Subcarpathian Voivodeship; Southeastern Poland; Poland",
        ),
        ("Nelson", "city on South Island, New Zealand", "South Island; New Zealand"),
        ("Cork", "city in Ireland in the province of Munster", "Munster; Ireland"),
        ("Ithaca", "city (New York, US)", "New York; United States"),
        ("Capitol Hill", "district of Washington, D.C.", "Washington, D.C.; United States"),
        ("Rome", "city in Georgia", "Georgia"),
        ("Rome", "city in Georgia, USA", "Georgia; United States"),
    ],
)
def test_a_description_is_read_as_a_chain_that_runs_outwards(name: str, description: str, expected: str) -> None:
    assert "; ".join(name_places(read_places_around(description, name))) == expected


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("Königsberg", "former German city"),
        ("Ephesus", "ancient Greek city"),
        ("Baku", "republic in Western Asia and Eastern Europe"),
        ("Byzantium", "capital of the Eastern or the Western Empire"),
        ("Ostia", "settlement at the mouth of the Tiber"),
        ("Yonkers", "suburb of New York City"),
        ("Sarnia", "city near Port Huron, United States"),
        ("Martinique", "French overseas department"),
        ("Atlantis", "place of worship and state of mind"),
        ("Qom", "holy city in Islam"),
        ("Holland", "land made up of Bohemia, Moravia and more"),
        ("Alton", "city on the Mississippi"),
        ("Asia", "continent on Earth"),
        ("X", ""),
        ("Rome", "Rome"),
    ],
)
def test_what_is_not_plainly_said_is_not_guessed(name: str, description: str) -> None:
    assert read_places_around(description, name) == ()


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("United States", "the United States"),
        ("Ohio", "Ohio"),
        ("University of Oxford", "the University of Oxford"),
        ("Netherlands", "the Netherlands"),
        ("Canton, Ohio", "Canton, Ohio"),
        ("The Hague", "The Hague"),
        ("Ottoman Empire", "the Ottoman Empire"),
    ],
)
def test_names_take_the_article_where_english_wants_it(place: str, expected: str) -> None:
    assert place_with_article(place) == expected


@given(st.text(alphabet="abcAB ,;.'-()of in the and", max_size=60), st.text(max_size=8))
def test_reading_never_raises_and_never_repeats_a_place(description: str, name: str) -> None:
    chain = read_places_around(description, name)
    assert len(set(chain)) == len(chain)
