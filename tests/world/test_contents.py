"""Test that data/world/ is valid and has all that the default build needs."""

from dataclasses import replace

import pytest
from check_world import WorldReport, check_world

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.world.content_digests import digest_world_contents_by_dependency
from factmill.tasks.world.data import Item, ItemValue, WorldData
from factmill.tasks.world.files import load_world_data

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


def test_world_has_no_violation(report: WorldReport) -> None:
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
def test_world_holds_required_minimum_of_each_kind(report: WorldReport, what: str, at_least: int) -> None:
    assert report.counts[what] >= at_least


def test_at_least_fifteen_names_are_shared(report: WorldReport) -> None:
    assert len(report.shared_names) >= 15


@pytest.mark.parametrize("topic", TOPICS)
def test_each_topic_has_at_least_three_articles(report: WorldReport, topic: str) -> None:
    assert report.articles_by_category[topic] >= 3


def test_each_article_is_long_enough_and_has_two_revisions(report: WorldReport) -> None:
    assert report.short_articles == ()
    assert report.counts["articles with two revisions or more"] == report.counts["articles"]


@pytest.fixture(scope="module")
def data() -> WorldData:
    return load_world_data()


def name_near(data: WorldData, item: Item) -> list[Item]:
    """Return an item and those that its statements name, sorted by their numbers as text."""
    named = sorted({each.value.qid for each in item.statements if isinstance(each.value, ItemValue)})
    return [item, *(data.items[qid] for qid in named if qid in data.items)]


def test_item_has_digest_of_its_own_content_and_of_its_neighbours(data: WorldData) -> None:
    found = digest_world_contents_by_dependency(data)
    for qid, item in [*data.items.items()][::40]:
        near = name_near(data, item)
        assert found[f"item {qid}"] == digest_bytes(repr(item).encode())[:10]
        assert found[f"near {qid}"] == digest_bytes(repr(near).encode())[:10]


def test_changed_item_changes_its_digest_and_those_of_items_that_refer_to_it(data: WorldData) -> None:
    namer = next(item for item in data.items.values() if len(name_near(data, item)) > 1)
    named = name_near(data, namer)[1]
    changed = replace(data, items={**data.items, named.qid: replace(named, description="said otherwise")})
    before, after = digest_world_contents_by_dependency(data), digest_world_contents_by_dependency(changed)
    assert before[f"item {named.qid}"] != after[f"item {named.qid}"]
    assert before[f"near {namer.qid}"] != after[f"near {namer.qid}"]
    assert before[f"item {namer.qid}"] == after[f"item {namer.qid}"]
