"""Test names and addresses in texts, and the pairs between which paths are searched."""

import pytest

from factmill.tasks.assets import load_list_entries
from factmill.tasks.multihal.core.linking import (
    EntityMention,
    find_wikipedia_addresses_and_titles,
    list_linkable_spans,
    list_spelling_variants,
    select_mentions_with_ranked_candidates,
)

WORDS = frozenset(load_list_entries("function_words"))
BEARERS = {
    "Albert Einstein": ["Q937"],
    "Einstein": ["Q937", "Q11942"],
    "The Lord of the Rings": ["Q15228", "Q190214"],
    "Lord": ["Q1"],
    "Rings": ["Q2"],
    "IBM": ["Q37156"],
    "physicist": ["Q169470"],
    "Watermelon": ["Q38645"],
    "1984": ["Q208460", "Q2434", "Q7", "Q8"],
    "It": ["Q1131225"],
    "Seven": ["Q190908"],
    "Yes": ["Q184386"],
    "10": ["Q767920"],
    "I": ["Q484940"],
    "H": ["Q485277"],
    "No": ["Q20"],
    "O'Brien": ["Q3"],
}
DEGREES = {"Q15228": 5, "Q190214": 9, "Q208460": 1, "Q2434": 1}


def link(text: str) -> list[EntityMention]:
    return select_mentions_with_ranked_candidates(list_linkable_spans(text, WORDS), BEARERS, DEGREES)


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("Where was Albert Einstein born?", [("Albert Einstein", ("Q937",))]),
        ("Who wrote The Lord of the Rings?", [("The Lord of the Rings", ("Q190214", "Q15228"))]),
        ("Where are IBM's headquarters?", [("IBM's", ("Q37156",))]),
        ("Physicist", [("Physicist", ("Q169470",))]),
        ("Do watermelon seeds grow?", [("watermelon", ("Q38645",))]),
        ("Einstein met Albert Einstein.", [("Einstein", ("Q937", "Q11942")), ("Albert Einstein.", ("Q937",))]),
        ("What is it?", []),
        ("", []),
    ],
)
def test_longest_names_are_found_and_their_items_ranked(text: str, mentions: list[tuple[str, object]]) -> None:
    assert [(mention.surface, mention.qids) for mention in link(text)] == mentions


def test_three_candidates_are_kept_by_degree_then_by_number() -> None:
    assert link('Is it "1984"?') == [EntityMention("1984", ("Q2434", "Q208460", "Q7"))]


def test_text_that_is_title_of_function_words_is_looked_up_as_one_name() -> None:
    assert list_linkable_spans("Who Was It", WORDS)[0].text == "Who Was It"


@pytest.mark.parametrize(
    "text",
    [
        "Who said that it's over?",
        "It's not what it seems: it isn't.",
        "Seven brothers live here",
        "the seven’s sum",
        "Yes, I met H. Smith on 10 May 1984.",
        "no",
        "yes",
    ],
)
def test_function_words_numbers_and_initials_are_not_linked(text: str) -> None:
    assert link(text) == []


@pytest.mark.parametrize(
    ("text", "surface"),
    [
        ('Who directed "Seven"?', "Seven"),
        ("Who wrote “It”?", "It"),
        ("Seven", "Seven"),
        ("Yes", "Yes"),
        ("Who is O'Brien?", "O'Brien"),
    ],
)
def test_function_word_title_is_linked_in_quotes_or_as_full_answer(text: str, surface: str) -> None:
    assert [mention.surface for mention in link(text)] == [surface]


def test_name_is_first_tried_as_written() -> None:
    assert list_spelling_variants("the Beatles'")[0] == "the Beatles'"
    assert "Beatles" in list_spelling_variants("the Beatles")
    assert "Beatles'" not in list_spelling_variants("Beatles")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("https://en.wikipedia.org/wiki/Ada_Lovelace", "Ada Lovelace"),
        ("see http://en.wikipedia.org/wiki/Ada_Lovelace.", "Ada Lovelace"),
        ("https://en.m.wikipedia.org/wiki/Berlin#History", "Berlin"),
        ("HTTPS://EN.Wikipedia.org/wiki/iPhone", "iPhone"),
        ("https://en.wikipedia.org/wiki/Zo%C3%AB_(given_name)", "Zoë (given name)"),
        ("(https://en.wikipedia.org/wiki/Mercury_(planet))", "Mercury (planet)"),
        ("https://en.wikipedia.org/wiki/AC/DC?action=raw", "AC/DC"),
        ("https://de.wikipedia.org/wiki/Berlin", None),
        ("https://en.wikipedia.org/wiki/File:Berlin.jpg", None),
        ("https://en.wikipedia.org/w/index.php?title=Berlin", None),
    ],
)
def test_title_is_read_from_wikipedia_url(text: str, title: str | None) -> None:
    [(_, found)] = find_wikipedia_addresses_and_titles([text])
    assert found == title


def test_other_urls_are_ignored_and_repeated_ones_count_once() -> None:
    texts = [
        "https://example.org/wiki/Berlin",
        "['https://en.wikipedia.org/wiki/Rome', 'https://en.wikipedia.org/wiki/Rome']",
    ]
    assert find_wikipedia_addresses_and_titles(texts) == [("https://en.wikipedia.org/wiki/Rome", "Rome")]
