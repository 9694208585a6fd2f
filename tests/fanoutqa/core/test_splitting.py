"""Test the dev and test split: twins together, the rest by digest, and stable when questions are added."""

import random
from collections.abc import Sequence

import pytest

from factmill.tasks.fanoutqa.core.flags import assign_splits_by_shared_articles
from factmill.tasks.fanoutqa.core.rows import Split

Asked = tuple[str, tuple[str, ...], Split | None]
APART: list[Asked] = [(f"q{at}", tuple(f"article {at} {each}" for each in range(5)), None) for at in range(20_000)]


def draw(seed: int, count: int) -> list[Asked]:
    """Return questions on five to nine of sixty articles, many of them twins."""
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


def test_thirty_percent_of_questions_are_dev() -> None:
    assert list(assign_splits_by_shared_articles(APART, 7).values()).count("dev") / len(APART) == pytest.approx(
        0.3, abs=0.01
    )


def test_different_seeds_give_different_splits() -> None:
    assert assign_splits_by_shared_articles(APART[:100], 7) != assign_splits_by_shared_articles(APART[:100], 8)


def test_dev_shares_of_0_and_1_are_respected() -> None:
    assert {*assign_splits_by_shared_articles(APART[:100], 7, 0.0).values()} == {"test"}
    assert {*assign_splits_by_shared_articles(APART[:100], 7, 1.0).values()} == {"dev"}


@pytest.mark.parametrize("seed", range(30))
def test_appended_questions_move_no_existing_question(seed: int) -> None:
    before = draw(seed, 60)
    sides = assign_splits_by_shared_articles(before, 7)
    added = assign_splits_by_shared_articles([*before, *draw(1_000 + seed, 60)], 7)
    assert {each: added[each] for each in sides} == sides


@pytest.mark.parametrize("seed", range(30))
def test_inserted_questions_move_no_existing_question(seed: int) -> None:
    before, more = draw(seed, 20), APART[:20]
    mixed: list[Asked] = [each for pair in zip(more, before, strict=True) for each in pair]
    sides = assign_splits_by_shared_articles(before, 7)
    added = assign_splits_by_shared_articles(mixed, 7)
    assert {each: added[each] for each in sides} == sides


@pytest.mark.parametrize("seed", range(30))
def test_question_shares_split_with_its_twins_unless_they_differ(seed: int) -> None:
    questions = draw(seed, 60)
    sides = assign_splits_by_shared_articles(questions, 7)
    for at, each in enumerate(questions):
        of_twins = {sides[other[0]] for other in questions[:at] if are_twins(each, other)}
        assert len(of_twins) != 1 or of_twins == {sides[each[0]]}


def lie(questions: Sequence[Asked], name: str) -> Split:
    return assign_splits_by_shared_articles(questions, 7)[name]


def test_question_between_two_groups_joins_nearer_one_or_first_on_tie() -> None:
    dev: Asked = ("dev", ("a", "b", "c", "d"), "dev")
    test: Asked = ("test", ("c", "d", "e", "f"), "test")
    assert lie([dev, test, ("q", ("b", "c", "d"), None)], "q") == "dev"
    assert lie([dev, test, ("q", ("c", "d", "e"), None)], "q") == "test"
    assert lie([dev, test, ("q", ("b", "c", "d", "e"), None)], "q") == "dev"
    assert lie([test, dev, ("q", ("b", "c", "d", "e"), None)], "q") == "test"


def test_released_question_keeps_split_and_its_twins_follow() -> None:
    titles = ("a", "b", "c", "d", "e")
    for side in ("dev", "test"):
        assert lie([("old", titles, side), ("new", (*titles[1:], "f"), None)], "new") == side


def test_question_about_subset_of_articles_shares_split_with_superset() -> None:
    ten = tuple("abcdefghij")
    for side in ("dev", "test"):
        assert lie([("all", ten, side), ("some", (*ten[:3], "x", "y"), None)], "some") == side
        assert lie([("some", (*ten[:3], "x", "y"), side), ("all", ten, None)], "all") == side
