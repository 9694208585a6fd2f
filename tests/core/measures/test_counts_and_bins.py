"""Test counts in reports, and bins of equal size."""

from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.core.measures.counts_and_bins import (
    UNKNOWN_BIN,
    bin_by_quantile,
    count_values_sorted_by_value,
    divide_rounded,
    pair_with_paper_figures,
)


def test_values_are_counted_in_their_natural_order() -> None:
    assert list(count_values_sorted_by_value([10, 2, 10, 9]).items()) == [("2", 1), ("9", 1), ("10", 2)]
    assert list(count_values_sorted_by_value(["b", "a", "b"]).items()) == [("a", 1), ("b", 2)]
    assert count_values_sorted_by_value([]) == {}


def test_division_by_zero_yields_no_share() -> None:
    assert divide_rounded(2, 3) == 0.667
    assert divide_rounded(2, 3, digits=2) == 0.67
    assert divide_rounded(0, 4) == 0
    assert divide_rounded(0, 0) is None


def test_figures_are_paired_with_paper_figures() -> None:
    assert pair_with_paper_figures({"rows": (4, 4), "share": (None, 0)}, {"rows": 310, "share": 0.2}) == {
        "rows": {"here": 4, "n": 4, "paper": 310},
        "share": {"here": None, "n": 0, "paper": 0.2},
    }


def test_equal_numbers_share_a_bin() -> None:
    values = {"e": 5, "d": 5, "c": 5, "b": 5, "a": 1000, "z": None}
    low = "1 of 2 (5 to 5)"
    assert bin_by_quantile(values, 2) == {
        **dict.fromkeys("bcde", low), "a": "2 of 2 (1,000 to 1,000)", "z": "unknown",
    }  # fmt: skip
    assert bin_by_quantile({"a": 0, "b": 0, "c": 0}, 3) == dict.fromkeys("abc", "2 of 3 (0 to 0)")


def test_fewer_items_than_bins_are_accepted() -> None:
    assert set(bin_by_quantile({"a": 3, "b": 9}, 10).values()) == {"05 of 10 (3 to 3)", "10 of 10 (9 to 9)"}
    assert bin_by_quantile({}, 5) == {}


NUMBERS = st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 20), max_size=30)


@given(NUMBERS, st.integers(1, 12), st.randoms(use_true_random=False))
def test_bins_keep_equal_numbers_together_in_any_order(values: dict[str, int | None], bins: int, chance) -> None:
    found = bin_by_quantile(values, bins)
    assert found.keys() == values.keys()
    names = [name for name in found.values() if name != UNKNOWN_BIN]
    sizes = [names.count(name) for name in {*names}]
    known = [value for value in values.values() if value is not None]
    assert len(names) == sum(value is not None for value in values.values())
    if len({*known}) == len(known) and sizes:
        assert max(sizes) - min(sizes) <= 1
    assert len({(value, found[each]) for each, value in values.items()}) == len({*values.values()})
    turned = list(values.items())
    chance.shuffle(turned)
    assert bin_by_quantile(dict(turned), bins) == found
    ranked = sorted((name, value) for each, name in found.items() if (value := values[each]) is not None)
    assert [value for _, value in ranked] == sorted(value for value in values.values() if value is not None)
