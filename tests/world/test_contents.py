"""data/world/ itself: nothing in it is wrong, and it holds what the default build needs."""

import pytest
from check_world import WorldReport, check_world

TOPICS = (
    "Algebra",
    "Artificial intelligence",
    "Software engineering",
    "Aesthetics",
    "Statistics",
    "Applied sciences",
    "Cultural studies",
    "Telecommunications",
    "Theology",
    "Sociology",
    "Technology",
    "Anthropology",
    "Astronomy",
    "Virtual reality",
    "Spirituality",
)


@pytest.fixture(scope="module")
def report() -> WorldReport:
    return check_world()


def test_the_world_has_no_violation(report: WorldReport) -> None:
    assert [str(violation) for violation in report.violations] == []


@pytest.mark.parametrize(
    ("what", "at_least"),
    [
        ("items", 200),
        ("statements", 2000),
        ("properties used", 60),
        ("statements of rank preferred", 1),
        ("statements of rank deprecated", 1),
        ("times of precision day", 1),
        ("times of precision month", 1),
        ("times of precision year", 1),
        ("times of precision decade", 1),
        ("times of precision century", 1),
        ("times before the common era", 1),
        ("statements with qualifiers", 1),
        ("items with aliases", 1),
        ("articles", 45),
        ("redirects", 1),
    ],
)
def test_the_world_holds_enough(report: WorldReport, what: str, at_least: int) -> None:
    assert report.counts[what] >= at_least


def test_fifteen_names_are_shared(report: WorldReport) -> None:
    assert len(report.shared_names) >= 15


@pytest.mark.parametrize("topic", TOPICS)
def test_each_topic_has_three_articles(report: WorldReport, topic: str) -> None:
    assert report.articles_by_category[topic] >= 3


def test_each_article_is_long_enough_and_was_revised(report: WorldReport) -> None:
    assert report.short_articles == ()
    assert report.counts["articles with two revisions or more"] == report.counts["articles"]
