"""Dev and test: twins together, the rest by digest, and nothing moves when questions are added."""

import random
from collections.abc import Sequence

import pytest

from factmill.tasks.fanoutqa.core.flags import assign_splits_by_shared_articles
from factmill.tasks.fanoutqa.core.rows import Split

Asked = tuple[str, tuple[str, ...], Split | None]
APART: list[Asked] = [(f"q{at}", tuple(f"article {at} {each}" for each in range(5)), None) for at in range(20_000)]


def draw(seed: int, count: int) -> list[Asked]:
    """Return questions on five to nine of sixty articles, many of them twins of others."""
    draws = random.Random(seed)
    questions: list[Asked] = []
    for at in range(count):
        if questions and draws.random() < 0.4:
            titles = list(draws.choice(questions)[1])
            titles[draws.randrange(len(titles))] = f"article {draws.randrange(60)}"
        else:
            titles = [f"article {each}" for each in draws.sample(range(60), draws.randint(5, 9))]
        questions.append((f"q{seed}-{at}", tuple(dict.fromkeys(titles)), None))
    return questions


def are_twins(one: Asked, other: Asked) -> bool:
    return 2 * len({*one[1]} & {*other[1]}) >= min(len(one[1]), len(other[1]))


def test_three_in_ten_are_dev() -> None:
    assert list(assign_splits_by_shared_articles(APART, 7).values()).count("dev") / len(APART) == pytest.approx(
        0.3, abs=0.01
    )


def test_a_seed_draws_other_sides() -> None:
    assert assign_splits_by_shared_articles(APART[:100], 7) != assign_splits_by_shared_articles(APART[:100], 8)


def test_shares_of_none_and_all_are_kept() -> None:
    assert {*assign_splits_by_shared_articles(APART[:100], 7, 0.0).values()} == {"test"}
    assert {*assign_splits_by_shared_articles(APART[:100], 7, 1.0).values()} == {"dev"}


@pytest.mark.parametrize("seed", range(30))
def test_what_is_added_moves_nothing(seed: int) -> None:
    before = draw(seed, 60)
    sides = assign_splits_by_shared_articles(before, 7)
    added = assign_splits_by_shared_articles([*before, *draw(1_000 + seed, 60)], 7)
    assert {each: added[each] for each in sides} == sides


@pytest.mark.parametrize("seed", range(30))
def test_what_is_added_between_moves_only_its_twins(seed: int) -> None:
    before, more = draw(seed, 20), APART[:20]
    mixed: list[Asked] = [each for pair in zip(more, before, strict=True) for each in pair]
    sides = assign_splits_by_shared_articles(before, 7)
    added = assign_splits_by_shared_articles(mixed, 7)
    assert {each: added[each] for each in sides} == sides


@pytest.mark.parametrize("seed", range(30))
def test_a_question_lies_beside_its_twins_unless_these_lie_apart(seed: int) -> None:
    questions = draw(seed, 60)
    sides = assign_splits_by_shared_articles(questions, 7)
    for at, each in enumerate(questions):
        of_twins = {sides[other[0]] for other in questions[:at] if are_twins(each, other)}
        assert len(of_twins) != 1 or of_twins == {sides[each[0]]}


def lie(questions: Sequence[Asked], name: str) -> Split:
    return assign_splits_by_shared_articles(questions, 7)[name]


def test_a_question_between_two_groups_joins_the_nearer_one_and_of_equals_the_first() -> None:
    dev: Asked = ("dev", ("a", "b", "c", "d"), "dev")
    test: Asked = ("test", ("c", "d", "e", "f"), "test")
    assert lie([dev, test, ("q", ("b", "c", "d"), None)], "q") == "dev"
    assert lie([dev, test, ("q", ("c", "d", "e"), None)], "q") == "test"
    assert lie([dev, test, ("q", ("b", "c", "d", "e"), None)], "q") == "dev"
    assert lie([test, dev, ("q", ("b", "c", "d", "e"), None)], "q") == "test"


def test_what_is_released_keeps_its_part_and_its_twins_follow() -> None:
    titles = ("a", "b", "c", "d", "e")
    for side in ("dev", "test"):
        assert lie([("old", titles, side), ("new", (*titles[1:], "f"), None)], "new") == side


def test_a_question_about_a_part_of_what_another_asks_about_lies_on_its_side() -> None:
    ten = tuple("abcdefghij")
    for side in ("dev", "test"):
        assert lie([("all", ten, side), ("some", (*ten[:3], "x", "y"), None)], "some") == side
        assert lie([("some", (*ten[:3], "x", "y"), side), ("all", ten, None)], "all") == side
