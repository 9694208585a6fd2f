"""Test reading a ZIM file: its date, its identity, and its articles with the revisions that they state."""

import sys
from pathlib import Path

import pytest
from support.worlds.zim_files import FOOTER, ZimFile, ZimPage

from factmill.tasks.errors import SettingsError, WikipediaFileError
from factmill.tasks.zim_archive import ZimArchive, open_zim_archive

ALGEBRA = ZimPage("Algebra", "<p>Algebra studies <b>structure</b> &amp; rules.</p>", 77, "2025-11-02")


def open_pages(folder: Path, *pages: ZimPage, **others: object) -> ZimArchive:
    return ZimArchive(ZimFile(pages, **others).write(folder / "wiki.zim"))  # type: ignore[arg-type]


def test_article_has_title_path_and_stated_revision(tmp_path: Path) -> None:
    found = open_pages(tmp_path, ZimPage("Al-Jabr (book)", "<p>A book.</p>", 78, "2024-02-29")).find_article(
        "Al-Jabr (book)"
    )
    assert found.article
    assert (found.article.title, found.article.path) == ("Al-Jabr (book)", "Al-Jabr_(book)")
    assert (found.article.revid, found.article.edited_on) == (78, "2024-02-29")
    assert found.redirected_from is None


@pytest.mark.parametrize(
    "page",
    [
        ALGEBRA,
        ZimPage("Algebra", f"<div>{ALGEBRA.body}{FOOTER.format(day='2025-01-01', title='Algebra', revid=77)}</div>"),
    ],
    ids=["after the text", "inside the text block"],
)
def test_revision_link_is_removed_from_text_without_losing_content(tmp_path: Path, page: ZimPage) -> None:
    found = open_pages(tmp_path, page).find_article("Algebra").article
    assert found
    assert (found.revid, ALGEBRA.body in found.text, "issued" in found.text) == (77, True, False)


@pytest.mark.parametrize(
    ("link", "revid"),
    [
        ('<a href="https://en.wikipedia.org/wiki/Algebra?oldid=12">Wikipedia</a>', 12),
        ('<a href="https://en.wikipedia.org/w/index.php?title=Algebra&amp;oldid=13">Wikipedia</a>', 13),
        ('<a href="https://en.wikipedia.org/wiki/?title=Geometry&amp;oldid=14">another page</a>', None),
        ('<a href="https://en.wikipedia.org/wiki/?title=Algebra&amp;oldid=0">none</a>', None),
        ('<a href="https://en.wikipedia.org/wiki/?title=Algebra&amp;oldid=x1">none</a>', None),
        ("", None),
    ],
)
def test_revision_is_read_only_from_link_to_same_page(tmp_path: Path, link: str, revid: int | None) -> None:
    found = open_pages(tmp_path, ZimPage("Algebra", f"<p>Text.</p><div>{link}</div>")).find_article("Algebra").article
    assert found
    assert found.revid == revid


def test_redirect_chains_and_refresh_pages_lead_to_article(tmp_path: Path) -> None:
    moved = ZimPage("Al/Gebra", '<meta http-equiv="refresh" content="0;URL=\'../Algebra#History\'" />')
    archive = open_pages(tmp_path, ALGEBRA, moved, redirects={"Algebras": "Algebra", "The algebras": "Algebras"})
    for title in ("The algebras", "Al/Gebra"):
        found = archive.find_article(title)
        assert found.article
        assert (found.article.title, found.redirected_from) == ("Algebra", title)


def test_articles_are_found_below_folder_of_main_page(tmp_path: Path) -> None:
    pages = [
        ZimPage("Main Page", "<p>Welcome.</p>", 1, path="A/Main_Page"),
        ZimPage("Algebra", "<p>Rules.</p>", 2, path="A/Algebra"),
        ZimPage("A/B testing", "<p>Two.</p>", 3, path="A/A/B_testing"),
    ]
    archive = open_pages(tmp_path, *pages, main_path="A/Main_Page")
    found = {title: archive.find_article(title).article for title in ("Algebra", "A/B testing", "B testing")}
    assert [each and (each.title, each.revid) for each in found.values()] == [("Algebra", 2), ("A/B testing", 3), None]
    assert archive.search("rules", 3) == ["Algebra"]


def test_title_with_slash_is_not_folder(tmp_path: Path) -> None:
    archive = open_pages(
        tmp_path,
        ZimPage("Main Page", "<p>Welcome.</p>", 1),
        ZimPage("A/B testing", "<p>Two.</p>", 3),
        main_path="Main_Page",
    )
    assert archive.find_article("A/B testing").article
    assert archive.find_article("B testing").article is None


def test_pages_refreshing_to_each_other_form_redirect_loop(tmp_path: Path) -> None:
    one, other = (ZimPage(a, f'<meta http-equiv="refresh" content="0;url={b}">') for a, b in ("AB", "BA"))
    found = open_pages(tmp_path, one, other).find_article("A")
    assert (found.article, found.is_loop) == (None, True)


def test_picture_or_missing_path_is_not_article(tmp_path: Path) -> None:
    archive = open_pages(tmp_path, ALGEBRA, ZimPage("Logo.png", "x", mimetype="image/png"))
    for title in ("Logo.png", "Geometry"):
        found = archive.find_article(title)
        assert (found.article, found.is_loop) == (None, False)


def test_disambiguation_page_is_recognised_by_its_box(tmp_path: Path) -> None:
    box = '<table class="metadata dmbox dmbox-disambig"><tr><td>several</td></tr></table>'
    archive = open_pages(tmp_path, ALGEBRA, ZimPage("Ring", f"<p>Ring may be</p>{box}", 9))
    assert [archive.find_article(title).article.is_disambiguation for title in ("Ring", "Algebra")] == [True, False]  # type: ignore[union-attr]


def test_search_finds_titles_by_text_and_requires_index(tmp_path: Path) -> None:
    pages = [ZimPage(f"Page {n}", "<p>The zebra grazes.</p>" if n % 2 else "<p>Rain.</p>", n) for n in range(1, 6)]
    archive = open_pages(tmp_path, *pages)
    assert archive.has_search
    assert sorted(archive.search("zebra", 10)) == ["Page 1", "Page 3", "Page 5"]
    assert archive.search("zebra", 10) == archive.search("zebra", 10)
    assert not ZimArchive(ZimFile(pages, indexed=False).write(tmp_path / "plain.zim")).has_search


def test_copied_zim_file_has_same_identity_and_recreated_file_another(tmp_path: Path) -> None:
    first = open_pages(tmp_path, ALGEBRA)
    copy = tmp_path / "copy.zim"
    copy.write_bytes(first.path.read_bytes())
    again = ZimArchive(ZimFile([ALGEBRA]).write(tmp_path / "again.zim"))
    assert open_zim_archive(copy).identity == first.identity
    assert again.identity != first.identity
    assert first.identity.startswith("zim-2026-01-01-")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"Date": ""}, "Date is 'missing'"),
        ({"Date": "January 2026"}, "Date is 'January 2026'"),
        ({"Date": "2026-02-30"}, "Date is '2026-02-30'"),
        ({"Language": "deu"}, "its language is deu"),
    ],
)
def test_file_without_date_or_in_other_language_is_rejected(
    tmp_path: Path, metadata: dict[str, str], message: str
) -> None:
    with pytest.raises(WikipediaFileError, match=message):
        open_pages(tmp_path, ALGEBRA, metadata=metadata)


def test_non_zim_and_truncated_files_are_rejected(tmp_path: Path) -> None:
    path = ZimFile([ALGEBRA]).write(tmp_path / "wiki.zim")
    for content in (path.read_bytes()[:-100], b"", b"no zim", b"ZIM\x04" + bytes(200)):
        path.write_bytes(content)
        with pytest.raises(WikipediaFileError, match="not a readable ZIM file"):
            ZimArchive(path)


def test_missing_file_and_folder_path_are_reported(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.zim", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(WikipediaFileError, match=f"cannot be read .{why}"):
            open_zim_archive(path)


def test_replaced_file_is_detected_and_reopened(tmp_path: Path) -> None:
    first = open_zim_archive(ZimFile([ALGEBRA]).write(tmp_path / "wiki.zim"))
    first.check_unchanged()
    ZimFile([ALGEBRA]).write(tmp_path / "new.zim").replace(first.path)
    with pytest.raises(WikipediaFileError, match=f"changed or replaced while it was in use; put {first.identity} back"):
        first.check_unchanged()
    assert open_zim_archive(first.path).identity != first.identity


def test_full_read_detects_damage(tmp_path: Path) -> None:
    archive = open_pages(tmp_path, ALGEBRA)
    assert not archive.find_damage()
    content = bytearray(archive.path.read_bytes())
    content[len(content) // 2] ^= 1
    archive.path.write_bytes(content)
    assert "does not have the checksum that it states" in ZimArchive(archive.path).find_damage()


def test_missing_libzim_names_required_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ZimFile([ALGEBRA]).write(tmp_path / "wiki.zim")
    monkeypatch.setitem(sys.modules, "libzim.reader", None)
    with pytest.raises(SettingsError, match=r'pip install "factmill\[zim\]"'):
        ZimArchive(path)
