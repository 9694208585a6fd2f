"""Paths in words."""

from tasks.multihal.core.path_words import list_labels
from tasks.multihal.core.rows import Path

LABELS = {"Q41421": "Michael Jordan", "P2048": "height", "Q11573": "metre"}


def test_the_unit_of_a_value_is_in_the_plural() -> None:
    path = Path(
        subject="Q41421",
        object="1.98",
        hops=1,
        backward=False,
        ids=["Q41421", "P2048", "1.98"],
        labels=[],
        statement=None,
        precision=None,
        unit="Q11573",
    )
    assert list_labels(path, LABELS) == ["Michael Jordan", "height", "1.98 metres"]
