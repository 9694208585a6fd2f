"""Test articles pinned to a moment, and their texts, in the embedded Wikipedia with pages that have moved since."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.steps.evidence_work import working
from support.webs.page_histories import HISTORIES, LATER, THEN, copy_world, revid_of

from factmill.tasks.assets import load_evidence_text_removal_rules, load_list_entries
from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.lookups.pinned_articles import (
    MAX_TITLE_REDIRECTS,
    MissingArticleReason,
    PinnedArticleRevision,
    load_article_texts,
    pin_article_revisions_by_title_at_epoch,
)
from factmill.tasks.text.article_html import extract_article_text
from factmill.tasks.world.serving import running_world

pytestmark = pytest.mark.slow
LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=2, backoff_s=0.02, batch=50)
SAMPLE = Path(__file__).parents[1] / "world" / "sample"


@pytest.fixture(scope="module")
def wikipedia(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WikipediaClient]:
    folder = copy_world(tmp_path_factory.mktemp("world"), SAMPLE)
    with running_world(tmp_path_factory.mktemp("home"), folder) as world:
        yield WikipediaClient(world.endpoints["wikipedia"], "w", LIMITS, "factmill tests")


@pytest.fixture
def work(tmp_path: Path, wikipedia: WikipediaClient) -> Iterator[BatchInProgress]:
    with working(tmp_path, wikipedia) as opened:
        yield opened


def pin(work: BatchInProgress, *titles: str, at: str = THEN) -> list[PinnedArticleRevision | MissingArticleReason]:
    found = pin_article_revisions_by_title_at_epoch(work, [("row", title) for title in titles], at)
    return [found[title] for title in titles]


PINNED = [
    ("Lighthouse of tests", "Lighthouse of tests", 1, "the newest revision of before"),
    ("lighthouse_of tests", "Lighthouse of tests", 1, "spelled otherwise"),
    ("Harbour after its move", "Harbour after its move", 1, "under the title of today"),
    ("Harbour before its move", "Harbour after its move", 1, "the title that it had then"),
    ("Merged mill", "Merged mill", 0, "an article of then that is a redirect today"),
    ("Great mill", "Great mill", 0, "the page it was merged into"),
    ("Shifting ford", "Ford of then", 0, "a redirect then, which leads elsewhere today"),
    ("Split tower", "Tower family", 0, "a redirect then, which is an article today"),
    ("Broken today", "Broken today", 0, "an article then, redirects in a circle today"),
    ("Gate before swap", "Gate after swap", 0, "two pages that changed places"),
    ("Way 3", "Way 8", 0, "five redirects"),
    ("Talk about redirects", "Talk about redirects", 0, "a text with the mark of a redirect in it"),
    ("Who paid 100% in C++?", "Who paid 100% in C++?", 0, "signs"),
    ("Été/hiver_(M*A*S*H)", "Été/hiver (M*A*S*H)", 0, "more signs"),
    ("été/hiver (M*A*S*H)", "Été/hiver (M*A*S*H)", 0, "a first letter beyond ASCII"),
    ("Blank page", "Blank page", 0, "a page without text"),
]


@pytest.mark.parametrize(("title", "expected", "revision", "case"), PINNED, ids=[case for *_, case in PINNED])
def test_title_resolves_to_article_revision_at_epoch(
    work: BatchInProgress, title: str, expected: str, revision: int, case: str
) -> None:
    [found] = pin(work, title)
    assert isinstance(found, PinnedArticleRevision), found
    assert (found.title, found.revid) == (expected, revid_of(expected, revision))
    assert found.timestamp == HISTORIES[expected][revision][0] <= THEN


REFUSED = [
    ("No page of this title", "evidence_missing", "there is no such page"),
    (
        "Young bridge",
        "younger_than_epoch",
        f"no revision of {THEN} or before; its first one is of {HISTORIES['Young bridge'][0][0]}, so --epoch",
    ),
    ("Loop one", "redirect_loop", "Loop one → Loop two: led back to Loop one"),
    ("Former loop", "redirect_loop", "led back to Former loop"),
    ("Young loop", "redirect_loop", "leads in circles"),
    ("Way 2", "redirect_loop", f"more than {MAX_TITLE_REDIRECTS} redirects"),
    ("To a category", "evidence_missing", "led to Category:Places"),
    ("Special:Places", "invalid_title", "Special: has no history"),
    ("Template:Places", "evidence_missing", "no such page"),
    ("a|b", "invalid_title", "'|'"),
    ("", "invalid_title", "empty"),
]


@pytest.mark.parametrize(("title", "reason", "text"), REFUSED)
def test_title_without_article_at_epoch_is_rejected_with_reason(
    work: BatchInProgress, title: str, reason: str, text: str
) -> None:
    [found] = pin(work, title)
    assert isinstance(found, MissingArticleReason), found
    assert (found.reason, found.retryable) == (reason, False)
    assert text in found.detail


def test_earlier_redirect_targets_are_found_at_each_moment(work: BatchInProgress) -> None:
    moments = ["2018-06-01T00:00:00Z", "2021-01-01T00:00:00Z", LATER]
    found = [pin(work, "Split tower", "Merged mill", "Shifting ford", at=at) for at in moments]
    lines = [[each.title if isinstance(each, PinnedArticleRevision) else each.reason for each in row] for row in found]
    assert lines == [
        # a title that is a redirect today and had no page then resolves to today's target
        ["younger_than_epoch", "Great mill", "Ford of now"],
        ["Tower family", "Merged mill", "Ford of then"],
        ["Split tower", "Great mill", "Ford of now"],
    ]


def test_revision_applies_from_its_exact_second(work: BatchInProgress) -> None:
    found = [
        pin(work, "Lighthouse of tests", at=at)[0]
        for at in ("2019-12-31T23:59:59Z", "2020-01-01T00:00:00Z", "2022-05-05T05:05:04Z", "2022-05-05T05:05:05Z")
    ]
    assert [each.revid if isinstance(each, PinnedArticleRevision) else each.reason for each in found] == [
        "younger_than_epoch",
        revid_of("Lighthouse of tests", 0),
        revid_of("Lighthouse of tests", 0),
        revid_of("Lighthouse of tests", 1),
    ]


def test_fifty_references_resolve_alike_in_any_order_with_one_request_per_title(
    tmp_path: Path, wikipedia: WikipediaClient
) -> None:
    titles = [title for title in HISTORIES if title != "Blank page"]
    asked = [
        (f"row {number}", title) for number, title in enumerate([*titles, *titles[:20], *map(str.lower, titles[:5])])
    ]
    assert len(asked) >= 50
    results = []
    for seed in (1, 2):
        random.Random(seed).shuffle(asked)
        watched = Watched(wikipedia)
        with working(tmp_path / str(seed), watched) as work:
            results.append(pin_article_revisions_by_title_at_epoch(work, asked, THEN))
            dated = [call for call in watched.calls if call.operation == "page_revision_at"]
            keys = [call.key for call in watched.calls]
            assert len(keys) == len(set(keys))
            assert len(dated) <= 2 * len(titles)
            assert {row_id for row_id, _, _ in work.call_uses} == {row_id for row_id, _ in asked}
    assert results[0] == results[1]
    assert sum(isinstance(each, PinnedArticleRevision) for each in results[0].values()) > 25


def test_ordinary_article_needs_one_revision_call_and_one_text_call(tmp_path: Path, wikipedia: WikipediaClient) -> None:
    watched = Watched(wikipedia)
    with working(tmp_path, watched) as work:
        [found] = pin(work, "Lighthouse of tests")
        assert isinstance(found, PinnedArticleRevision)
        load_article_texts(work, [("row", found.title, found.revid)])
        assert [call.operation for call in watched.calls] == ["page_revision_at", "page_text"]
        # the key equals that of calls made before redirects could be ignored
        assert dict(watched.calls[0].parts) == {"title": "Lighthouse of tests", "at": THEN}


def test_second_run_sends_no_request(tmp_path: Path, wikipedia: WikipediaClient) -> None:
    with working(tmp_path, wikipedia) as work:
        first = pin_article_revisions_by_title_at_epoch(work, [("row", title) for title in HISTORIES], THEN)
    with working(tmp_path, Silent("w"), "replay") as work:
        assert pin_article_revisions_by_title_at_epoch(work, [("row", title) for title in HISTORIES], THEN) == first


@pytest.mark.parametrize("operation", ["page_revision_at", "page_text"])
def test_outage_is_reported_as_retryable_and_retried_by_next_run(
    tmp_path: Path, wikipedia: WikipediaClient, operation: str
) -> None:
    with working(tmp_path, Failing(wikipedia, operation)) as work:
        found = pin(work, "Lighthouse of tests", "Merged mill", "Split tower")
        assert [(each.reason, each.retryable) for each in found if isinstance(each, MissingArticleReason)] == [
            ("wikipedia_failed", True)
        ] * 3
    with working(tmp_path, wikipedia) as work:
        assert all(isinstance(each, PinnedArticleRevision) for each in pin(work, "Lighthouse of tests", "Merged mill"))


def read(work: BatchInProgress, *revids: int) -> list[str | MissingArticleReason]:
    found = load_article_texts(work, [("row", "Title", revid) for revid in revids])
    return [found[revid] for revid in revids]


def test_text_belongs_to_its_revision(work: BatchInProgress) -> None:
    assert read(work, *(revid_of("Lighthouse of tests", at) for at in range(3))) == [
        f"The light was lit in {year}." for year in (1901, 1902, 1903)
    ]


def test_text_includes_tables_lists_captions_and_headings_in_order(work: BatchInProgress) -> None:
    [text] = read(work, revid_of("Tables of tests", 0))
    assert isinstance(text, str)
    assert text.split("\n\n") == [
        "A line before.",
        "Heights",
        *("Towers by height", "Tower", "Metres", "Red", "12", "Blue", "34"),
        "Notes of theirs",
        *("Red is old", "Blue is new"),
    ]


def test_revision_without_text_and_missing_revision_are_reported(work: BatchInProgress) -> None:
    blank, absent, redirect = read(work, revid_of("Blank page", 0), 2_000_000_000, revid_of("Loop one", 0))
    for found, result in ((blank, "Blank page shows no text"), (absent, "nosuchrevid"), (redirect, "shows no text")):
        assert isinstance(found, MissingArticleReason)
        assert (found.reason, found.retryable) == ("evidence_missing", False)
        assert result in found.detail


def test_temporarily_unavailable_text_is_retryable_and_not_missing(tmp_path: Path, wikipedia: WikipediaClient) -> None:
    with working(tmp_path, Failing(wikipedia, "page_text")) as work:
        [found] = read(work, revid_of("Lighthouse of tests", 0))
        assert isinstance(found, MissingArticleReason)
        assert (found.reason, found.retryable) == ("wikipedia_failed", True)


@pytest.mark.parametrize("entry", load_list_entries("removed_from_evidence"))
def test_each_removal_list_entry_removes_its_elements(entry: str) -> None:
    kind, value = entry.partition("#")[0].strip().split(maxsplit=1)
    html = {
        "tag": f"<{value}>" if value == "input" else f"<{value}><b>GONE</b></{value}>",
        "class": f"<span class='x {value} y'>GO<div>NE</div></span>",
        "style": f"<span style='color: red; {value}'>GONE</span>",
    }[kind]
    article = extract_article_text(f"<p>first</p><div>a {html} b</div><p>c</p>", load_evidence_text_removal_rules())
    assert "".join(article.text.split()) == "firstabc"


SHOWN = """<table class="infobox vcard"><caption class="infobox-title">The mill</caption>
<tr><th>Built</th><td>1 May 1901<sup class="reference"><a href="#a">[1]</a></sup></td></tr>
<tr><th>Height</th><td>12&nbsp;m<br>(39 ft)</td></tr></table>
<figure><img src="x"><figcaption>The mill in 1950</figcaption></figure>
<div class="thumb"><div class="thumbcaption">Its wheel</div></div>
<ul class="gallery"><li class="gallerybox"><div class="gallerytext">The yard</div></li></ul>
<dl><dt>Owner</dt><dd>Ada</dd></dl>
<table class="wikitable succession-box noprint"><tr><td>Preceded by<br>Old mill</td></tr></table>
<h2>Bibliography</h2><div class="refbegin"><ul><li>Mills (1999)</li></ul></div>
<h2>Gallery</h2><h3>Within</h3><p>An empty room</p>"""


def test_boxes_captions_and_lists_are_kept_with_separate_cells() -> None:
    article = extract_article_text(SHOWN, load_evidence_text_removal_rules())
    assert list(article.lead) == [
        *("The mill", "Built", "1 May 1901", "Height", "12 m (39 ft)", "The mill in 1950", "Its wheel", "The yard"),
        *("Owner", "Ada", "Preceded by Old mill"),
    ]
    assert [section.path[-1] for section in article.sections[1:]] == ["Bibliography", "Within"]


class Watched:
    """A service that records requests and forwards them."""

    is_outside = True

    def __init__(self, inner: Any) -> None:
        self.identity: str = inner.identity
        self.inner = inner
        self.calls: list[Call] = []

    def send(self, calls: Any, deliver: ResponseHandler) -> None:
        """Record calls and forward them."""
        self.calls += calls
        self.inner.send(calls, deliver)


class Failing(Watched):
    """A service that is down for one operation."""

    def __init__(self, inner: Any, operation: str) -> None:
        super().__init__(inner)
        self.operation = operation

    def send(self, calls: Any, deliver: ResponseHandler) -> None:
        """Fail calls of the operation as transient and forward the others."""
        for call in calls:
            if call.operation == self.operation:
                deliver(call, CallResponse(None, "failed", "http_503: come back later", transient=True))
        super().send([call for call in calls if call.operation != self.operation], deliver)


class Silent:
    """A service that must receive no requests."""

    is_outside = True

    def __init__(self, identity: str) -> None:
        self.identity = identity

    def send(self, calls: Any, deliver: ResponseHandler) -> None:
        """Refuse every call."""
        raise AssertionError(f"asked for {[dict(call.parts) for call in calls]}")
