"""Test that a real MediaWiki and the embedded one give the same pinned evidence and the same texts."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.steps.evidence_work import working
from support.webs.both_wikis import Both
from support.webs.page_histories import HISTORIES, LATER, THEN
from support.webs.real_mediawiki import CHANGED, MOVED_TO

from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.lookups.pinned_articles import (
    MissingArticleReason,
    PinnedArticleRevision,
    load_article_texts,
    pin_article_revisions_by_title_at_epoch,
)
from factmill.tasks.text.wikipedia_urls import parse_english_article_url_or_problem
from factmill.tasks.world.data import WORLD_FOLDER


def pin_in_both(both: Both, folder: Path, titles: Sequence[str], at: str) -> dict[str, Any]:
    """Pin titles in both wikis, compare the pins and texts, and return title → pin in ours."""

    def pin(
        name: str, service: WikipediaClient
    ) -> tuple[dict[str, PinnedArticleRevision | MissingArticleReason], dict[str, str]]:
        with working(folder / name, service) as work:
            found = pin_article_revisions_by_title_at_epoch(work, [("row", title) for title in titles], at)
            pinned = {title: each for title, each in found.items() if isinstance(each, PinnedArticleRevision)}
            # only the embedded wiki has texts of the world's articles
            revids = {title: each.revid for title, each in pinned.items() if each.title in both.written}
            read = load_article_texts(work, [("row", title, revid) for title, revid in revids.items()])
            texts = {title: read[revid] for title, revid in revids.items()}
            return found, {title: text if isinstance(text, str) else text.reason for title, text in texts.items()}

    with ThreadPoolExecutor(2) as pool:
        pins, texts = zip(*pool.map(pin, ("real", "ours"), (both.real, both.ours)), strict=True)
    ours_of = {real: ours for ours, real in both.revids.items()}
    real = {
        title: (each.title, ours_of.get(each.revid), each.timestamp)
        if isinstance(each, PinnedArticleRevision)
        else each.reason
        for title, each in pins[0].items()
    }
    ours = {
        title: (each.title, each.revid, each.timestamp) if isinstance(each, PinnedArticleRevision) else each.reason
        for title, each in pins[1].items()
    }
    assert ours == real
    assert texts[1] == texts[0]
    return pins[1]


@pytest.mark.parametrize("moment", ["2018-06-01T00:00:00Z", "2021-01-01T00:00:00Z", THEN, LATER])
def test_evidence_is_pinned_alike(both: Both, tmp_path: Path, moment: str) -> None:
    # a sample of the world's own pages, since the real wiki needs time to render a text
    own = [*list(both.data.articles)[::8], *list(both.data.redirects)[::8]] if moment == THEN else []
    found = pin_in_both(both, tmp_path, [*HISTORIES, *own, "Nothing of this name", "a|b", "Category:Lists"], moment)
    reasons = {each.reason for each in found.values() if isinstance(each, MissingArticleReason)}
    assert reasons <= {"evidence_missing", "younger_than_epoch", "invalid_title", "redirect_loop"}
    assert {"evidence_missing", "invalid_title"} <= reasons
    pinned = sum(isinstance(each, PinnedArticleRevision) for each in found.values())
    assert pinned >= {"2018-06-01T00:00:00Z": 5, "2021-01-01T00:00:00Z": 20, THEN: 35, LATER: 25}[moment]


def test_moved_merged_and_deleted_pages_keep_their_evidence(both: Both, tmp_path: Path) -> None:
    with working(tmp_path, both.real) as work:
        found = pin_article_revisions_by_title_at_epoch(work, [("row", title) for title in [*CHANGED, MOVED_TO]], THEN)
        pinned = {title: each for title, each in found.items() if isinstance(each, PinnedArticleRevision)}
        moved, merged, deleted = (found[title] for title in CHANGED)
        texts = load_article_texts(work, [("row", each.title, each.revid) for each in pinned.values()])
        [today] = pin_article_revisions_by_title_at_epoch(
            work, [("row", "Pier to be merged")], "2100-01-01T00:00:00Z"
        ).values()
    assert isinstance(moved, PinnedArticleRevision)
    assert isinstance(merged, PinnedArticleRevision)
    assert isinstance(deleted, MissingArticleReason)
    assert (moved.title, moved.timestamp, moved) == (MOVED_TO, "2022-01-01T00:00:00Z", found[MOVED_TO])
    assert (merged.title, merged.timestamp) == ("Pier to be merged", "2022-01-01T00:00:00Z")
    assert set(texts.values()) == {"A pier with a crane."}
    assert deleted.reason == "evidence_missing"
    assert isinstance(today, PinnedArticleRevision)
    assert today.title == "Mars"


def list_evidence(found: Any) -> Iterator[str]:
    """Yield the addresses of all evidence below a question in the authoring form."""
    if isinstance(found, dict):
        if isinstance(found.get("evidence"), str):
            yield found["evidence"]
        for part in found.values():
            yield from list_evidence(part)
    elif isinstance(found, list):
        for part in found:
            yield from list_evidence(part)


@pytest.mark.parametrize("moment", [THEN, LATER])
def test_evidence_of_embedded_questions_is_pinned_alike(both: Both, tmp_path: Path, moment: str) -> None:
    files = sorted((WORLD_FOLDER / "sources" / "fanoutqa").glob("*.json"))
    urls = [url for file in files for url in list_evidence(json.loads(file.read_text("utf-8")))]
    # some of the questions contain deliberate errors
    addresses = [address for url in urls if not isinstance(address := parse_english_article_url_or_problem(url), str)]
    titles = list(dict.fromkeys(each.title for each in addresses))
    found = pin_in_both(both, tmp_path, titles, moment)
    assert sum(isinstance(each, PinnedArticleRevision) for each in found.values()) >= 30
