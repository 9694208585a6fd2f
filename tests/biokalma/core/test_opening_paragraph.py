"""The paragraph that opens with an article's first sentence and goes on with the one that names the other person."""

import pytest

from tasks.biokalma.core.opening_paragraph import find_opening, finish_paragraph
from tasks.text.article import Article, Section


def make_article(*paragraphs: str) -> Article:
    return Article((Section((), 0, paragraphs[:1]), Section(("Life",), 2, paragraphs[1:])))


ADA = make_article(
    "Ada Lovelace was a mathematician. She lived in London.",
    "Her mother had her taught early. In 1833 she met Charles Babbage, who showed her a machine.",
    "Ada kin of Byronic poets",
)


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        (
            "Ada Lovelace",
            "charles babbage",
            "Ada Lovelace was a mathematician. In 1833 she met Charles Babbage, who showed her a machine.",
        ),
        ("Ada Lovelace", "Ada Lovelace", "Ada Lovelace was a mathematician."),
        ("Ada Lovelace", "Lord Byron", None),
        ("Ada Lovelace", "Charles Bab", None),
        ("Augusta King", "Charles Babbage", None),
    ],
)
def test_an_opening_names_both(name: str, other: str, expected: str | None) -> None:
    assert find_opening(ADA, name, other) == expected


def test_a_first_sentence_without_an_end_gets_one() -> None:
    article = make_article("Ada Lovelace, mathematician", "Ada knew Lord Byron only from his poems.")
    assert find_opening(article, "Ada Lovelace", "Lord Byron") == (
        "Ada Lovelace, mathematician. Ada knew Lord Byron only from his poems."
    )
    assert find_opening(Article(()), "Ada Lovelace", "Lord Byron") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained\n and  rained", "It rained and rained."),
        ("Done.", "Done."),
        ('He said "no."', 'He said "no."'),
        ("Why?)", "Why?)"),
    ],
)
def test_a_paragraph_ends_with_a_stop(text: str, expected: str) -> None:
    assert finish_paragraph(text) == expected
