"""Test the open book's searches in a Wikipedia from a ZIM file."""

from pathlib import Path

import pytest
from support.steps.evidence_work import working
from support.worlds.zim_files import ZimFile, ZimPage

from factmill.tasks.clients.wikipedia_file import WikipediaFileClient
from factmill.tasks.fanoutqa.core.evaluation.dialogue import ArticleLookupResult, ArticleTitleRequest
from factmill.tasks.fanoutqa.evaluation.search import look_up_articles
from factmill.tasks.zim_archive import ZimArchive

PAGES = [
    ZimPage("Lighthouse of tests", "<p>The lighthouse of tests is 82 metres tall.</p>", 11, "2025-01-01"),
    ZimPage("Lighthouse keeper", "<p>A keeper of a lighthouse trims its lamp.</p>", 12, "2025-01-01"),
    ZimPage("Windmill", "<p>A mill.</p>", 13, "2025-01-01"),
]


def search(folder: Path, title: str, indexed: bool = True) -> ArticleLookupResult:
    archive = ZimArchive(
        ZimFile(PAGES, {"Old light": "Lighthouse of tests"}, indexed=indexed).write(folder / "wiki.zim")
    )
    with working(folder / "work", WikipediaFileClient(archive)) as work:
        look = ArticleTitleRequest(
            title=title, query="How tall is it?", epoch="2026-01-01T00:00:00Z", max_characters=2000
        )
        (found,) = look_up_articles(work, [("row", look)])
    return found


@pytest.mark.parametrize("title", ["Lighthouse of tests", "Old light"])
def test_search_returns_passages_of_article_in_file(tmp_path: Path, title: str) -> None:
    found = search(tmp_path, title)
    assert [(chunk.revid, "82 metres" in chunk.text) for chunk in found.chunks] == [(11, True)]


def test_unknown_title_returns_similar_titles(tmp_path: Path) -> None:
    found = search(tmp_path, "Lighthouse")
    assert found.reason == "evidence_missing"
    assert sorted(found.similar) == ["Lighthouse keeper", "Lighthouse of tests"]


def test_no_similar_titles_are_offered_without_full_text_index(tmp_path: Path) -> None:
    found = search(tmp_path, "Lighthouse", indexed=False)
    assert (found.reason, found.similar, found.is_transient_failure) == ("evidence_missing", (), False)
