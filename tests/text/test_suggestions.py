"""What somebody may have meant who wrote a name that is not known."""

import pytest

from tasks.text.suggestions import suggest_name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("Astronmy", "; did you mean Astronomy?"),
        ("ASTRONOMY", "; did you mean Astronomy?"),
        ("Cookery", ""),
        ("", ""),
    ],
)
def test_the_known_name_most_like_the_one_given_is_suggested(given: str, told: str) -> None:
    assert suggest_name(given, ["Algebra", "Astronomy"]) == told
