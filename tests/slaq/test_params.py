"""Test parsing of SLAQ's parameters."""

import pytest

from factmill.tasks.slaq.params import make_article_url_prefix


@pytest.mark.parametrize(
    ("wiki", "address"),
    [
        ("embedded", "https://en.wikipedia.org/wiki/"),
        ("https://en.wikipedia.org", "https://en.wikipedia.org/wiki/"),
        ("https://simple.wikipedia.org/", "https://simple.wikipedia.org/wiki/"),
        ("http://127.0.0.1:8080/mediawiki", "http://127.0.0.1:8080/mediawiki/index.php?title="),
    ],
)
def test_article_url_prefix_is_that_of_configured_wiki(wiki: str, address: str) -> None:
    assert make_article_url_prefix(wiki) == address
