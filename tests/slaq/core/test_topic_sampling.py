"""Test sampling of pages, and halves by views."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.errors import UsageError
from factmill.tasks.slaq.core.rows import ViewedTopic
from factmill.tasks.slaq.core.topic_sampling import (
    WikipediaPageInSubcategory,
    sample_category_pages,
    select_most_and_least_viewed,
)


def make_pages(numbers: list[int]) -> list[WikipediaPageInSubcategory]:
    return [WikipediaPageInSubcategory(number, f"Page {number}", "Algebra") for number in numbers]


NUMBERS = st.lists(st.integers(1, 10**9), unique=True, max_size=40)


@given(NUMBERS, st.integers(0, 99), st.integers(1, 12), st.randoms(use_true_random=False))
def test_sample_does_not_depend_on_order_or_repetition(numbers: list[int], seed: int, wanted: int, chance) -> None:
    drawn = sample_category_pages(make_pages(numbers), seed, "Algebra", wanted)
    listed = numbers + [chance.choice(numbers) for _ in range(len(numbers))]
    chance.shuffle(listed)
    assert sample_category_pages(make_pages(listed), seed, "Algebra", wanted) == drawn
    assert len({page.pageid for page in drawn}) == len(drawn) == min(wanted, len(numbers))


@given(NUMBERS, st.integers(1, 12), st.integers(1, 12))
def test_smaller_sample_is_prefix_of_larger_one(numbers: list[int], few: int, more: int) -> None:
    pages = make_pages(numbers)
    larger = sample_category_pages(pages, 1, "Algebra", few + more)
    assert sample_category_pages(pages, 1, "Algebra", few) == larger[:few]


@given(NUMBERS.filter(len), st.integers(1, 12))
def test_added_page_displaces_at_most_one_page(numbers: list[int], wanted: int) -> None:
    before = {page.pageid for page in sample_category_pages(make_pages(numbers[1:]), 1, "Algebra", wanted)}
    after = {page.pageid for page in sample_category_pages(make_pages(numbers), 1, "Algebra", wanted)}
    assert len(before - after) <= 1
    assert after - before <= {numbers[0]}


def test_seed_and_category_change_sample() -> None:
    pages = make_pages(list(range(1, 101)))
    draws = [
        tuple(page.pageid for page in sample_category_pages(pages, seed, category, 10))
        for seed, category in ((1, "Algebra"), (2, "Algebra"), (1, "Statistics"))
    ]
    assert len(set(draws)) == 3
    assert all(draw != tuple(range(1, 11)) for draw in draws)


def test_large_category_is_streamed_and_sampled_evenly() -> None:
    read = 0

    def list_members() -> Iterator[WikipediaPageInSubcategory]:
        nonlocal read
        for number in range(1, 10_001):
            read += 1
            yield WikipediaPageInSubcategory(number, f"Page {number}", "Technology")

    drawn = sample_category_pages(list_members(), 7, "Technology", 1000)
    assert (len(drawn), read) == (1000, 10_000)
    thirds = [sum(page.pageid % 3 == rest for page in drawn) for rest in range(3)]
    assert min(thirds) > 250
    assert 450 < sum(page.pageid <= 5000 for page in drawn) < 550


def test_empty_category_gives_no_pages_and_sample_size_0_raises_usage_error() -> None:
    assert sample_category_pages([], 1, "Unsolved problems in algebra", 5) == []
    with pytest.raises(UsageError, match="0 pages"):
        sample_category_pages([], 1, "Algebra", 0)


def make_viewed(views: dict[int, int | None]) -> list[ViewedTopic]:
    page = {"category": "Algebra", "subcategory": "Algebra", "title": "A", "url": "u", "revid": 1, "text": "t"}
    source = {"source_name": "wiki", "source_row": 1, "source_licence": "CC-BY-SA-4.0"}
    rest = {**page, **source, "views_from": "20201120", "views_to": "20231119"}
    return [
        ViewedTopic.model_validate({**rest, "id": str(number), "pageid": number, "views": count})
        for number, count in views.items()
    ]


def list_halves(views: dict[int, int | None], per_half: int) -> tuple[list[int], list[int], dict[int, str]]:
    most, least, left_out = select_most_and_least_viewed(make_viewed(views), per_half)
    reasons = {topic.pageid: reason for topic, reason in left_out}
    return [topic.pageid for topic in most], [topic.pageid for topic in least], reasons


@pytest.mark.parametrize(
    ("views", "per_half", "expected"),
    [
        ({}, 2, ([], [], {})),
        ({1: 5}, 2, ([], [], {1: "odd_one_out"})),
        ({1: 5, 2: 9}, 2, ([2], [1], {})),
        ({1: 5, 2: 9, 3: 7}, 2, ([2], [1], {3: "odd_one_out"})),
        ({1: 5, 2: 5, 3: 5, 4: 5}, 1, ([1], [4], {2: "half_is_full", 3: "half_is_full"})),
        ({1: 0, 2: None, 3: 4}, 2, ([3], [1], {2: "no_page_views"})),
        (
            {1: 10, 2: 20, 3: 30, 4: 40, 5: 50},
            1,
            ([5], [1], {2: "half_is_full", 3: "odd_one_out", 4: "half_is_full"}),
        ),
    ],
)
def test_halves_are_taken_from_both_ends(views, per_half: int, expected) -> None:
    assert list_halves(views, per_half) == expected


VIEWS = st.dictionaries(st.integers(1, 200), st.none() | st.integers(0, 20), max_size=30)


@given(VIEWS, st.integers(1, 8), st.randoms(use_true_random=False))
def test_halves_are_equal_and_no_page_is_lost(views: dict[int, int | None], per_half: int, chance) -> None:
    most, least, left_out = list_halves(views, per_half)
    counted = [number for number, count in views.items() if count is not None]
    assert len(most) == len(least) == min(per_half, len(counted) // 2)
    assert sorted([*most, *least, *left_out]) == sorted(views)
    assert all(views[one] >= views[other] for one in most for other in least)  # type: ignore[operator]
    shuffled = list(views.items())
    chance.shuffle(shuffled)
    assert list_halves(dict(shuffled), per_half) == (most, least, left_out)


def test_duplicate_page_and_zero_half_size_raise_errors() -> None:
    with pytest.raises(ValueError, match="twice"):
        select_most_and_least_viewed([*make_viewed({1: 3}), *make_viewed({1: 4})], 1)
    with pytest.raises(UsageError, match="0 topics"):
        select_most_and_least_viewed([], 0)
