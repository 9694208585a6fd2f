"""What reports count."""

from factmill.tasks.core.measures.counts_and_bins import (
    count_values_sorted_by_value,
    divide_rounded,
    pair_with_paper_figures,
)


def test_values_are_counted_in_their_own_order() -> None:
    assert list(count_values_sorted_by_value([10, 2, 10, 9]).items()) == [("2", 1), ("9", 1), ("10", 2)]
    assert list(count_values_sorted_by_value(["b", "a", "b"]).items()) == [("a", 1), ("b", 2)]
    assert count_values_sorted_by_value([]) == {}


def test_nothing_has_no_share() -> None:
    assert divide_rounded(2, 3) == 0.667
    assert divide_rounded(2, 3, digits=2) == 0.67
    assert divide_rounded(0, 4) == 0
    assert divide_rounded(0, 0) is None


def test_each_figure_stands_beside_the_papers() -> None:
    assert pair_with_paper_figures({"rows": (4, 4), "share": (None, 0)}, {"rows": 310, "share": 0.2}) == {
        "rows": {"here": 4, "n": 4, "paper": 310},
        "share": {"here": None, "n": 0, "paper": 0.2},
    }
