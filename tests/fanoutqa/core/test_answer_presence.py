"""Test whether a text can contain an answer, without parsing it."""

import pytest

from factmill.tasks.fanoutqa.core.flags import contains_all_substrings, list_required_word_prefixes
from factmill.tasks.text.text_normalization import fold_case_accents_and_punctuation


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
def test_required_prefixes_come_only_from_long_words(answers: list[object], beginnings: set[str]) -> None:
    assert list_required_word_prefixes(answers) == beginnings


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
def test_text_without_required_prefixes_is_ruled_out(answer: str, text: str, could: bool) -> None:
    assert (
        contains_all_substrings(list_required_word_prefixes([answer]), fold_case_accents_and_punctuation(text)) is could
    )
