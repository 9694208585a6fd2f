"""Test property values: from the graph, in an article's words, in order, next to names, and against thresholds."""

from decimal import Decimal

import pytest

from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.wikidata import Pid, Qid
from factmill.tasks.fanoutqa.core.sets.property_values import (
    PropertyValue,
    choose_round_threshold,
    choose_value_stated_in_text,
    format_plural_unit,
    format_threshold,
    index_passages_following_name,
    is_tied,
    read_property_values,
)
from factmill.tasks.text.values.answer_search import find_answer_and_missing_parts, index_text


def number(value: str, unit: str | None = None) -> ItemFact:
    return ItemFact(Pid("P1"), "size", None, value, None, Qid(unit) if unit else None, None)


def date(value: str, precision: int | None = 11) -> ItemFact:
    return ItemFact(Pid("P2"), "day", None, f"{value}T00:00:00Z", precision, None, None)


def item(qid: str, label: str | None) -> ItemFact:
    return ItemFact(Pid("P3"), "thing", Qid(qid), label, None, None, None)


def dates(*messages: tuple[str, int]) -> tuple[PropertyValue, ...]:
    return read_property_values([date(*each) for each in messages], "time", {})


def numbers(*text: str) -> list[PropertyValue]:
    return list(read_property_values([number(each) for each in text], "quantity", {}))


def test_items_form_one_value_unless_one_lacks_label() -> None:
    assert read_property_values([item("Q1", "Rome")], "item", {}) == (PropertyValue("Rome", None),)
    assert read_property_values([item("Q1", "French"), item("Q2", "Dutch")], "item", {}) == (
        PropertyValue(["French", "Dutch"], None),
    )
    assert read_property_values([item("Q1", "French"), item("Q2", None)], "item", {}) == ()
    assert read_property_values([], "item", {}) == ()


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("City of Brussels", "Brussels"),
        ("Metropolitan City of Milan", "Milan"),
        ("Municipality of Łódź", "Łódź"),
        ("Rana Municipality", "Rana"),
        ("Luxembourg City", "Luxembourg City"),
        ("City of the Dead", "City of the Dead"),
        ("City of", "City of"),
        ("Salt Lake City of Lights", "Salt Lake City of Lights"),
        ("Municipality", "Municipality"),
    ],
)
def test_place_gets_usual_name_and_matches_either_form_in_text(label: str, name: str) -> None:
    (value,) = read_property_values([item("Q1", label)], "item", {})
    assert value.answer == name
    for text in (f"Its capital is {name}.", f"Its capital is {label}."):
        assert choose_value_stated_in_text([value], index_text(text)) == value


def test_two_levels_of_same_place_form_one_value() -> None:
    assert read_property_values([item("Q1", "City of Brussels"), item("Q2", "Brussels")], "item", {}) == (
        PropertyValue("Brussels", None),
    )


def test_numbers_have_unit_and_are_dropped_when_unit_lacks_label() -> None:
    units = {"Q9": "square kilometre"}
    assert read_property_values([number("83879", "Q9"), number("83879.0", "Q9")], "quantity", units) == (
        PropertyValue(83879, Decimal(83879), "square kilometres"),
    )
    assert read_property_values([number("2439.7")], "quantity", {}) == (PropertyValue(2439.7, Decimal("2439.7")),)
    assert read_property_values([number("83879", "Q8")], "quantity", units) == ()


@pytest.mark.parametrize(
    ("text", "precision", "answer", "rank"),
    [
        ("1879-03-14", 11, "14 March 1879", (1879, 3, 14)),
        ("1879-03-14", None, "14 March 1879", (1879, 3, 14)),
        ("1879-03-01", 10, "March 1879", (1879, 3, 0)),
        ("1879-01-01", 9, "1879", (1879, 0, 0)),
        ("-0043-03-15", 11, "15 March 44 BC", (-43, 3, 15)),
    ],
)
def test_dates_are_formatted_at_their_precision(
    text: str, precision: int | None, answer: str, rank: tuple[int, int, int]
) -> None:
    assert read_property_values([date(text, precision)], "time", {}) == (PropertyValue(answer, rank),)


def test_decade_precision_date_is_ignored() -> None:
    assert dates(("1870-01-01", 8)) == ()


@pytest.mark.parametrize(
    ("messages", "text", "found"),
    [
        (["3357", "3403"], "Its top was 3,357 metres above the sea in 2021.", 3357),
        (["3357", "3403"], "It is high.", "does not say 3357 or 3403"),
        (["3357", "3403"], "It grew from 3357 to 3403 metres.", "says both 3357 and 3403"),
        (["12"], "It has 12 of them.", "does not say 12"),
    ],
)
def test_number_stated_in_article_is_chosen(messages: list[str], text: str, found: int | str) -> None:
    value = choose_value_stated_in_text(numbers(*messages), index_text(text))
    assert (value.answer if isinstance(value, PropertyValue) else value) == found


def test_short_number_requires_its_unit_in_article() -> None:
    values = read_property_values([number("94", "Q7")], "quantity", {"Q7": "minute"})
    assert choose_value_stated_in_text(values, index_text("The film runs for 94 minutes.")) == values[0]
    assert choose_value_stated_in_text(values, index_text("In 94 cinemas it was shown.")) == "does not say 94 minutes"


def test_most_precise_of_agreeing_dates_is_chosen() -> None:
    values = dates(("1593-01-01", 9), ("1593-07-08", 11))
    assert choose_value_stated_in_text(values, index_text("She was born on 8 July 1593.")) == values[1]
    assert choose_value_stated_in_text(values, index_text("She was born in 1593.")) == values[0]
    others = dates(("1593-07-08", 11), ("1594-07-08", 11))
    text = index_text("She was born on 8 July 1593, or on 8 July 1594.")
    assert choose_value_stated_in_text(others, text) == "says both 8 July 1593 and 8 July 1594"


def test_all_items_must_appear_in_article() -> None:
    values = read_property_values([item("Q1", "French"), item("Q2", "Dutch")], "item", {})
    assert choose_value_stated_in_text(values, index_text("Dutch and French are official.")) == values[0]
    assert choose_value_stated_in_text(values, index_text("Dutch is official.")) == "does not say French, Dutch"


def test_dates_tie_at_precision_known_for_both() -> None:
    year, month, day, other = dates(("1879-01-01", 9), ("1879-03-01", 10), ("1879-03-14", 11), ("1879-04-01", 10))
    assert is_tied(year, day)
    assert is_tied(month, day)
    assert not is_tied(other, day)
    assert is_tied(*numbers("5", "5.0") * 2)
    assert not is_tied(*numbers("5", "6"))


def test_name_matches_values_between_it_and_next_name() -> None:
    table = "Town\n\nPeople\n\nNewark\n\n1,200\n\nNew Arden\n\n3,400\n\nArden\n\n5,600"
    names = ["Newark", "New Arden", "Arden"]
    found = {
        name: [
            n
            for n in (1200, 3400, 5600)
            if find_answer_and_missing_parts(n, index_passages_following_name(name, names, table)).found
        ]
        for name in names
    }
    assert found == {"Newark": [1200], "New Arden": [3400], "Arden": [5600]}
    assert not find_answer_and_missing_parts(
        7800, index_passages_following_name("Arden", names, f"Arden {'is old ' * 200} 7,800")
    ).found


@pytest.mark.parametrize(
    ("messages", "is_above", "limit"),
    [
        (["10", "20", "30", "40", "55", "66", "77"], True, "25"),
        (["12", "23", "34", "45", "56", "67", "78"], True, "30"),
        (["12", "23", "34", "45", "56", "67", "78"], False, "60"),
        (["2586", "30689", "41285", "41543", "42943", "78867", "91000"], False, "60000"),
        (["12", "23", "34", "45", "56", "67"], True, None),
        (["1", "2", "3", "4", "5"], True, None),
        (["5", "5", "5", "5", "5", "5"], True, None),
    ],
)
def test_threshold_is_round_and_leaves_enough_members_beyond_it(
    messages: list[str], is_above: bool, limit: str | None
) -> None:
    found = choose_round_threshold([PropertyValue(int(each), Decimal(each)) for each in messages], is_above, 5)
    assert found == (None if limit is None else Decimal(limit))


def test_year_threshold_is_never_bc() -> None:
    years = dates(*((f"{year}-05-01", 11) for year in (1942, 1972, 1975, 1977, 1993, 2010, 2012)))
    assert choose_round_threshold(years, False, 5) == Decimal(2000)
    assert (
        choose_round_threshold(
            dates(*((f"{year}-05-01", 11) for year in (1942, 1943, 1944, 1945, 1946, 1947, 1948))), True, 5
        )
        is None
    )
    assert (
        choose_round_threshold(dates(*((f"-00{year}-05-01", 11) for year in (10, 20, 30, 40, 50, 60, 70))), True, 5)
        is None
    )


@pytest.mark.parametrize(
    ("number", "unit", "is_date", "text"),
    [
        ("6E+4", "square kilometres", False, "60,000 square kilometres"),
        ("1E+7", "", False, "10 million"),
        ("2500000", "", False, "2.5 million"),
        ("1250000", "", False, "1,250,000"),
        ("0.5", "metres", False, "0.5 metres"),
        ("2E+3", "", True, "2000"),
    ],
)
def test_threshold_is_formatted_for_readers(number: str, unit: str, is_date: bool, text: str) -> None:
    assert format_threshold(Decimal(number), unit, is_date) == text


@pytest.mark.parametrize(
    ("unit", "plural"),
    [
        ("metre", "metres"),
        ("square kilometre", "square kilometres"),
        ("kilometre per hour", "kilometres per hour"),
        ("degree Celsius", "degrees Celsius"),
        ("foot", "feet"),
        ("square foot", "square feet"),
        ("United States dollar", "United States dollars"),
        ("pound sterling", "pounds sterling"),
        ("pound", "pounds"),
        ("century", "centuries"),
        ("day", "days"),
        ("hertz", "hertz"),
        ("kilohertz", "kilohertz"),
        ("siemens", "siemens"),
        ("lux", "lux"),
        ("Earth mass", "Earth masses"),
        ("square inch", "square inches"),
        ("metre per second", "metres per second"),
        ("metre per second squared", "metres per second squared"),
        ("ton of TNT", "tons of TNT"),
        ("Japanese yen", "Japanese yen"),
    ],
)
def test_units_are_pluralised(unit: str, plural: str) -> None:
    assert format_plural_unit(unit) == plural
