"""Who of two is named in a text."""

import pytest

from tasks.biokalma.core.naming import names_person


@pytest.mark.parametrize(
    ("text", "name", "other", "expected"),
    [
        ("Who were Johann Strauss and Johann Strauss II?", "Johann Strauss", "Johann Strauss II", True),
        ("Who was Johann Strauss II?", "Johann Strauss", "Johann Strauss II", False),
        ("Who was Johann Strauss II?", "Johann Strauss II", "Johann Strauss", True),
        ("Who was Johann Strauss?", "Johann Strauss II", "Johann Strauss", False),
        ("Who was Cato Porcius (the elder)?", "Cato Porcius (the younger)", "Cato Porcius (the elder)", False),
        ("Who was Cato Porcius (the elder)?", "Cato Porcius (the elder)", "Cato Porcius (the younger)", True),
        ("Who were Oscar and Richard Hertwig?", "Oscar Hertwig", "Richard Hertwig", True),
    ],
)
def test_a_name_inside_the_longer_name_of_the_other_names_nobody(
    text: str, name: str, other: str, expected: bool
) -> None:
    assert names_person(text, name, other) is expected
