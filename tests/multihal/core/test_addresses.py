"""Wikipedia addresses in contexts."""

import pytest

from tasks.multihal.core.addresses import find_article_titles


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
def test_the_title_behind_an_address_is_read(text: str, title: str | None) -> None:
    [(_, found)] = find_article_titles([text])
    assert found == title


def test_other_addresses_are_no_matter_and_repeats_count_once() -> None:
    texts = [
        "https://example.org/wiki/Berlin",
        "['https://en.wikipedia.org/wiki/Rome', 'https://en.wikipedia.org/wiki/Rome']",
    ]
    assert find_article_titles(texts) == [("https://en.wikipedia.org/wiki/Rome", "Rome")]
