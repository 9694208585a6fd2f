"""Whether a text can hold an answer, without reading it."""

import pytest

from factmill.tasks.fanoutqa.core.flags import could_hold, list_beginnings
from factmill.tasks.text.matching import fold_text


@pytest.mark.parametrize(
    ("answers", "beginnings"),
    [
        (["Tanzania"], {"tanz"}),
        ([["Vltava", "Manzanares"]], {"vlta", "manz"}),
        ([{"Belgium": ["French", "Dutch"]}], {"belg", "fren"}),
        (["São Paulo (city)"], set()),
        (["Łódź Voivodeship"], {"voiv"}),
        (["14 September 1901", "September", "fifteen percent", "161,000 employees", 12, True, "Rome"], set()),
    ],
)
def test_only_long_words_of_names_are_looked_for(answers: list[object], beginnings: set[str]) -> None:
    assert list_beginnings(answers) == beginnings


@pytest.mark.parametrize(
    ("answer", "text", "could"),
    [
        ("Tanzania", "It stands in north-east TANZANIA.", True),
        ("Voivodeships", "one voivodeship of sixteen", True),
        ("Tanzania", "It stands in Kenya.", False),
        ("Mount Kilimanjaro", "the Kilimanjaro massif", True),
        ("Rome", "Nothing is said of it.", True),
    ],
)
def test_a_text_without_the_beginning_of_a_name_cannot_hold_it(answer: str, text: str, could: bool) -> None:
    assert could_hold(list_beginnings([answer]), fold_text(text)) is could
