"""Test the first steps of SLAQ with a scripted wiki: sampling, merging and reading pages, page views, halves."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.steps.inputs import slaq_inputs
from support.steps.steps import Left, read_unit, run_step
from support.webs.loopback import Seen
from support.webs.small_wiki import SmallPage, SmallWiki

from factmill.tasks.core.calls.wikipedia import PageReference
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.slaq.core.rows import CategoryPage, TopicArticle, ViewedTopic
from factmill.tasks.slaq.core.topic_sampling import WikipediaPageInSubcategory
from factmill.tasks.slaq.scrape import (
    MEMBERS_PER_REQUEST,
    count_topic_pageviews,
    draw_category_pages,
    merge_duplicate_pages,
    scrape_articles,
    split_topics_by_views,
)

EPOCH = "2023-11-20T00:00:00Z"
BUSY = {"status": 429, "text": "slow down", "headers": {"Retry-After": "0.01"}}
DOWN = {"status": 500, "text": "oops"}


@pytest.fixture
def wiki() -> Iterator[SmallWiki]:
    wiki = SmallWiki()
    yield wiki
    wiki.close()


@pytest.fixture
def draw(wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Draw pages of a category, each time with an empty cache."""
    runs = iter(range(100))

    def run(category: str = "Algebra", **params: Any) -> Left:
        folder = tmp_path / str(next(runs))
        inputs = slaq_inputs(**{"candidates": 5, **params})
        return read_unit(draw_category_pages, category, wiki.services(), folder, monkeypatch, inputs)

    return run


@pytest.fixture
def step(wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Run another step on rows."""

    def run(task: Any, rows: Sequence[Any], **params: Any) -> Left:
        return run_step(task, rows, wiki.services(), tmp_path / task.name, monkeypatch, slaq_inputs(**params))

    return run


def number_pages(*numbers: int) -> list[tuple[int, str]]:
    return [(number, f"Page {number}") for number in numbers]


def drawn_ids(left: Left) -> list[int]:
    return [row["pageid"] for row in left.rows.values()]


def page_row(pageid: int, title: str, category: str = "Algebra") -> CategoryPage:
    return CategoryPage(
        id=f"{category}-{pageid}", category=category, subcategory=category, pageid=pageid, title=title,
        source_name="wiki", source_row=pageid, source_licence="CC-BY-SA-4.0",
    )  # fmt: skip


def test_empty_category_gives_no_pages(draw: Callable[..., Left]) -> None:
    left = draw("Nothing")
    assert left.rows == {}
    assert left.extras == [{"id": "Nothing", "members": 0, "subcategories": 0, "drawn": 0}]


@pytest.mark.parametrize(("depth", "found", "below"), [(0, {1}, 0), (1, {1, 2, 3}, 2), (2, {1, 2, 3, 4}, 3)])
def test_subcategory_pages_are_included_down_to_depth(
    draw: Callable[..., Left], wiki: SmallWiki, depth: int, found: set[int], below: int
) -> None:
    wiki.categories = {
        name: number_pages(number) for number, name in enumerate(("Algebra", "Groups", "Rings", "Finite"), 1)
    }
    wiki.subcategories = {"Algebra": ["Groups", "Rings"], "Groups": ["Finite"], "Rings": ["Finite"]}
    left = draw(depth=depth)
    assert set(drawn_ids(left)) == found
    assert left.extras == [{"id": "Algebra", "members": len(found), "subcategories": below, "drawn": len(found)}]
    where = {row["pageid"]: (row["category"], row["subcategory"]) for row in left.rows.values()}
    assert where[1] == ("Algebra", "Algebra")
    assert where.get(4, ("Algebra", "Finite")) == ("Algebra", "Finite")
    assert set(left.rows) == {f"Algebra-{number}" for number in found}


def test_categories_that_contain_each_other_are_read_once(draw: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.categories = {"Algebra": number_pages(1), "Groups": number_pages(2)}
    wiki.subcategories = {"Algebra": ["Groups", "Algebra"], "Groups": ["Algebra"]}
    left = draw(depth=9)
    assert set(drawn_ids(left)) == {1, 2}
    assert left.extras[0]["subcategories"] == 1
    assert len(wiki.asked("cmtitle", "Category:Algebra")) == 2, "once for pages, once for subcategories"


def test_page_listed_twice_is_drawn_once(draw: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.categories = {"Algebra": number_pages(1, 2, 1), "Groups": number_pages(2)}
    wiki.subcategories = {"Algebra": ["Groups"]}
    left = draw()
    assert sorted(drawn_ids(left)) == [1, 2]
    assert left.extras[0] == {"id": "Algebra", "members": 4, "subcategories": 1, "drawn": 2}


def test_category_of_10000_pages_is_streamed_request_by_request(draw: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.categories = {"Algebra": number_pages(*range(1, 10_001))}
    held: list[int] = []

    def count_alive() -> int:
        return sum(type(each) in (PageReference, WikipediaPageInSubcategory) for each in gc.get_objects())

    def count_pages(seen: Seen) -> None:
        if seen.query.get("cmcontinue") in ("5000", "9500"):
            held.append(count_alive() - before)

    # remove garbage of other tests
    gc.collect()
    before = count_alive()
    wiki.trouble = count_pages
    left = draw(candidates=12, depth=0)
    assert left.extras == [{"id": "Algebra", "members": 10_000, "subcategories": 0, "drawn": 12}]
    assert [seen.query.get("cmcontinue") for seen in wiki.web.seen] == [None, *(str(500 * at) for at in range(1, 20))]
    assert max(drawn_ids(left)) > 5000, "from all of them"
    # the drawn pages, the current one, and the last response
    assert len(held) == 2
    assert max(held) <= 12 + 1 + MEMBERS_PER_REQUEST


@pytest.mark.parametrize("answer", [BUSY, DOWN], ids=["429", "500"])
def test_failed_category_listing_stops_run(draw: Callable[..., Left], wiki: SmallWiki, answer: dict[str, Any]) -> None:
    wiki.trouble = lambda _seen: answer
    with pytest.raises(ServiceUnreachable, match=r"w .*category Algebra: http_\d+.*try again later"):
        draw()


def test_category_listing_continues_after_transient_failure(draw: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.categories = {"Algebra": number_pages(1)}
    answers = iter([BUSY])
    wiki.trouble = lambda _seen: next(answers, None)
    assert drawn_ids(draw(depth=0)) == [1]


def test_page_in_two_categories_stays_in_first(step: Callable[..., Left]) -> None:
    rows = [page_row(1, "Ring"), page_row(2, "Group"), page_row(2, "Group", "Art"), page_row(3, "Oil", "Art")]
    left = step(merge_duplicate_pages, rows)
    assert list(left.rows) == ["Algebra-1", "Algebra-2", "Art-3"]
    assert left.merged == {"Art-2": "Algebra-2"}


LONG = "A group is a set with one operation. " * 20
ARTICLE = f'<p>A <b>group</b> is a set.</p><p>{LONG}</p><table class="infobox"><tr><td>Box</td></tr></table>'


def read_page(step: Callable[..., Left], wiki: SmallWiki, *pages: SmallPage, title: str = "Group") -> Left:
    wiki.add(*pages)
    return step(scrape_articles, [page_row(1, title)], epoch=EPOCH, min_chars=100)


def test_article_is_read_as_of_epoch_with_its_url(step: Callable[..., Left], wiki: SmallWiki) -> None:
    left = read_page(step, wiki, SmallPage(1, "Group (algebra) é/ü?", ARTICLE), title="Group (algebra) é/ü?")
    (row,) = left.rows.values()
    assert (row["revid"], row["pageid"], row["title"]) == (10, 1, "Group (algebra) é/ü?")
    assert row["url"] == "https://wiki.example/wiki/Group_(algebra)_%C3%A9/%C3%BC%3F"
    assert row["text"].split("\n\n") == ["A group is a set.", LONG.strip()]
    (asked,) = wiki.asked("prop", "revisions")
    assert (asked.query["rvstart"], asked.query["rvdir"]) == (EPOCH, "older")


REDIRECT = SmallPage(1, "Group", redirect_to="Set")
YOUNG = SmallPage(1, "Group", ARTICLE, written="2023-11-20T00:00:01Z")


@pytest.mark.parametrize(
    ("pages", "reason", "value"),
    [
        ([], "page_missing", "Group: "),
        ([REDIRECT, SmallPage(2, "Set", ARTICLE)], "redirect", "Group redirects to Set"),
        (
            [REDIRECT, SmallPage(2, "Set", redirect_to="Group")],
            "redirect_loop",
            "'Group' leads in circles, or out of this wiki",
        ),
        ([SmallPage(1, "Group", ARTICLE, is_disambiguation=True)], "disambiguation", "Group is a disambiguation page"),
        ([SmallPage(1, "Group", "<p>A group.</p>")], "too_short", "8 characters of main text; expected at least 100"),
        ([SmallPage(1, "Group", "")], "too_short", "0 characters of main text"),
        ([SmallPage(1, "Group", f"<table><tr><td>{LONG}</td></tr></table>")], "too_short", "0 characters"),
        ([YOUNG], "younger_than_epoch", "Group has no revision at or before 2023-11-20T00:00:00Z"),
    ],
    ids=["deleted", "redirect", "redirect loop", "disambiguation", "one sentence", "empty", "only a table", "young"],
)
def test_non_article_pages_are_rejected_permanently(
    step: Callable[..., Left], wiki: SmallWiki, pages: list[SmallPage], reason: str, value: str
) -> None:
    left = read_page(step, wiki, *pages)
    assert left.rows == {}
    ((found, detail),) = left.rejects.values()
    assert (found, detail.startswith(value)) == (reason, True), detail
    assert left.receipt.unsettled == 0


def test_list_pages_are_rejected_by_title(step: Callable[..., Left], wiki: SmallWiki) -> None:
    titles = ["List of groups", "Lists of lists", "Outline of algebra", "Timeline of algebra", "Listing of x"]
    wiki.add(*(SmallPage(at, title, ARTICLE) for at, title in enumerate(titles)))
    rows = [page_row(at, title) for at, title in enumerate(titles)]
    left = step(scrape_articles, rows, epoch=EPOCH, min_chars=100)
    assert [reason for reason, _ in left.rejects.values()] == ["list_page"] * 4
    assert list(left.rows) == ["Algebra-4"]


def test_page_deleted_during_read_is_rejected_as_missing(step: Callable[..., Left], wiki: SmallWiki) -> None:
    def delete(seen: Seen) -> None:
        if seen.query.get("prop") == "revisions":
            wiki.pages.clear()

    wiki.trouble = delete
    left = read_page(step, wiki, SmallPage(1, "Group", ARTICLE))
    assert left.rejects["Algebra-1"][0] == "page_missing"


@pytest.mark.parametrize("answer", [BUSY, DOWN], ids=["429", "500"])
@pytest.mark.parametrize("where", [("prop", "pageprops"), ("prop", "revisions"), ("action", "parse")])
def test_wiki_failure_rejects_page_as_retryable(
    step: Callable[..., Left], wiki: SmallWiki, where: tuple[str, str], answer: dict[str, Any]
) -> None:
    name, value = where
    wiki.trouble = lambda seen: answer if seen.query.get(name) == value else None
    left = read_page(step, wiki, SmallPage(1, "Group", ARTICLE))
    assert left.rejects["Algebra-1"][0] == "wikipedia_failed"
    assert left.receipt.unsettled == 1
    assert len(wiki.asked(name, value)) == 2, "tried again"


def test_failed_page_does_not_affect_other_pages(step: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.add(SmallPage(1, "Group", ARTICLE), SmallPage(2, "Ring", ARTICLE), SmallPage(3, "Field", ARTICLE))
    wiki.trouble = lambda seen: DOWN if seen.query.get("titles") == "Ring" else None
    rows = [page_row(page.pageid, page.title) for page in wiki.pages.values()] + [page_row(4, "Gone")]
    left = step(scrape_articles, rows, epoch=EPOCH, min_chars=100)
    assert list(left.rows) == ["Algebra-1", "Algebra-3"]
    assert left.reasons == {
        "Algebra-2": "wikipedia_failed",
        "Algebra-4": "page_missing",
    }


def topic(pageid: int, category: str = "Algebra") -> TopicArticle:
    return page_row(pageid, f"Page {pageid}", category).extend_to(TopicArticle, url="https://x", revid=1, text="Text.")


def test_pageviews_are_summed_over_reported_days(step: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.add(
        SmallPage(1, "Page 1", views=(7, 0, 35)),
        SmallPage(2, "Page 2", views=None),
        SmallPage(3, "Page 3", views=()),
        SmallPage(4, "Page 4"),
    )
    wiki.trouble = lambda seen: BUSY if "Page_4" in seen.path else None
    topics = [topic(number) for number in range(1, 5)]
    left = step(count_topic_pageviews, topics, views_from="20201120", views_to="20231119")
    lines = [(row["views"], row["views_from"], row["views_to"]) for row in left.rows.values()]
    assert lines == [(views, "20201120", "20231119") for views in (42, None, 0)]
    assert left.rejects["Algebra-4"][0] == "pageviews_failed"
    assert left.receipt.unsettled == 1
    assert wiki.web.seen[0].path.endswith("/daily/20201120/20231119")


def viewed(views: Mapping[int, int | None], category: str = "Algebra") -> list[ViewedTopic]:
    return [
        topic(pageid, category).extend_to(ViewedTopic, views=number, views_from="20201120", views_to="20231119")
        for pageid, number in views.items()
    ]


def list_halves(left: Left) -> list[tuple[str, int]]:
    return [(row["half"], row["pageid"]) for row in left.rows.values()]


def test_halves_are_extremes_of_each_category_plus_spares(step: Callable[..., Left]) -> None:
    rows = viewed({1: 10, 2: 60, 3: 20, 4: 50, 5: 30, 6: 40, 7: None}) + viewed({8: 1, 9: 2}, "Art")
    left = step(split_topics_by_views, rows, per_half=1, spares=1)
    halves = [("most", 2), ("most", 4), ("least", 1), ("least", 3), ("most", 9), ("least", 8)]
    assert list_halves(left) == halves
    full = dict.fromkeys(("Algebra-5", "Algebra-6"), "half_is_full")
    assert left.reasons == {**full, "Algebra-7": "no_page_views"}
    detail = left.rejects["Algebra-5"][1]
    assert detail.startswith("30 views; 2 ")
    assert detail.endswith(" of 7 in Algebra")
