"""Test a release's authors and DOI in publishers' formats."""

import pytest

from factmill.tasks.errors import UsageError
from factmill.tasks.release.core.authorship import Author, parse_author, parse_authors, parse_doi


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("Lovelace, Ada", Author("Ada Lovelace", "Lovelace", "Ada")),
        ("  Obaid  ul Islam,Saad ", Author("Saad Obaid ul Islam", "Obaid ul Islam", "Saad")),
        ("The Engine Group", Author("The Engine Group")),
    ],
)
def test_comma_distinguishes_person_from_group(text: str, author: Author) -> None:
    assert parse_author(text) == author


@pytest.mark.parametrize(
    "text", ["", " ", ",", "Lovelace,", ", Ada", "Lovelace, Ada, Babbage", "a\x00b", "a\u202eb", "x" * 201]
)
def test_text_with_several_or_no_authors_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="expected one author"):
        parse_author(text)


def test_duplicate_author_is_rejected() -> None:
    with pytest.raises(UsageError, match="Ada Lovelace is given twice"):
        parse_authors(["Lovelace, Ada", "Ada Lovelace"])


@pytest.mark.parametrize("text", ["10.5281/zenodo.1", " https://doi.org/10.5281/zenodo.1 ", "doi:10.5281/zenodo.1"])
def test_doi_is_read_with_and_without_url(text: str) -> None:
    assert parse_doi(text) == "10.5281/zenodo.1"


@pytest.mark.parametrize(
    "text", [" ", "zenodo.1", "10.5281/", "https://example.org/10.5281/zenodo.1", "10.5281/a b", "10.1/x"]
)
def test_invalid_doi_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="no DOI"):
        parse_doi(text)
