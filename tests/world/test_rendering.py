"""Wikitext as MediaWiki's HTML, one construct at a time."""

import pytest

from tasks.world.data import Revision, WorldData
from tasks.world.wiki.pages import BadTitleError, Page, Wiki, parse_title
from tasks.world.wiki.rendering import Rendered, render_revision


@pytest.fixture(scope="module")
def wiki(sample: WorldData) -> Wiki:
    return Wiki(sample)


def render(wiki: Wiki, text: str) -> Rendered:
    revision = Revision(1, 0, "2020-01-01T00:00:00Z", "", text)
    return render_revision(wiki, Page(1, 0, "Test", (revision,)), revision, with_edit_links=False)


CASES = [
    ("a\nb\n\nc", "<p>a\nb\n</p>\n<p>c\n</p>"),
    ("'''b''' ''i'' '''''bi''''' it's", "<p><b>b</b> <i>i</i> <i><b>bi</b></i> it's\n</p>"),
    ("''open\nnext", "<p><i>open</i>\nnext\n</p>"),
    ("a < b & c &nbsp; x<sub>2</sub> <script>", "<p>a &lt; b &amp; c &nbsp; x<sub>2</sub> &lt;script&gt;\n</p>"),
    ("a<!-- no\n-->b", "<p>ab\n</p>"),
    ("[[Berlin]]", '<p><a href="/wiki/Berlin" title="Berlin">Berlin</a>\n</p>'),
    ("[[berlin|the ''city'']]ies", '<p><a href="/wiki/Berlin" title="Berlin">the <i>city</i>ies</a>\n</p>'),
    ("[[BER]]", '<p><a href="/wiki/BER" class="mw-redirect" title="BER">BER</a>\n</p>'),
    ("[[Berlin#Transport|T]]", '<p><a href="/wiki/Berlin#Transport" title="Berlin">T</a>\n</p>'),
    (
        "[[No page]]",
        '<p><a href="/w/index.php?title=No_page&amp;action=edit&amp;redlink=1" class="new" '
        'title="No page (page does not exist)">No page</a>\n</p>',
    ),
    ("[[:Category:Cities]]", '<p><a href="/wiki/Category:Cities" title="Category:Cities">Category:Cities</a>\n</p>'),
    ("a [[Category:Cities]]", "<p>a\n</p>"),
    ("[https://x.org/a b]", '<p><a rel="nofollow" class="external text" href="https://x.org/a">b</a>\n</p>'),
    ("at http://x.y/a.", '<p>at <a rel="nofollow" class="external free" href="http://x.y/a">http://x.y/a</a>.\n</p>'),
    ("== A b ==\ntext", '<div class="mw-heading mw-heading2"><h2 id="A_b">A b</h2></div>\n<p>text\n</p>'),
    ("* a\n** b\n* c\n# d", "<ul><li>a\n<ul><li>b</li></ul></li>\n<li>c</li></ul>\n<ol><li>d</li></ol>"),
    ("; t : d\n: e", "<dl><dt>t</dt>\n<dd>d</dd>\n<dd>e</dd></dl>"),
    (
        "{|\n! a\n|-\n| b || c\n|}",
        "<table>\n<tbody><tr>\n<th>a\n</th></tr>\n<tr>\n<td>b\n</td>\n<td>c\n</td></tr></tbody></table>",
    ),
    ("{{Use dmy dates|date=May}}a", "<p>a\n</p>"),
    ("{{nowrap|a b}}", '<p><span class="nowrap">a b</span>\n</p>'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "html"), CASES)
def test_each_construct_has_mediawikis_html(wiki: Wiki, text: str, html: str) -> None:
    rendered = render(wiki, text).html
    inner = rendered.removeprefix('<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">').removesuffix(
        "\n</div>"
    )
    assert inner.strip() == html


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("{{Short description|A b}}", 'noprint searchaux" style="display:none">A b</div>'),
        ("{{Main|Berlin}}", 'Main article: <a href="/wiki/Berlin"'),
        ("{{About|x|y|Germany}}", 'This article is about x. For y, see <a href="/wiki/Germany"'),
        ("{{For|y|Germany}}", '<div role="note" class="hatnote navigation-not-searchable">For y, see <a'),
        ("{{Infobox city\n| name = X\n| mayor = [[Berlin|B]]\n}}", 'class="infobox-label">Mayor</th><td'),
        ("{{Navbox|title=T|list1=a}}", '<div role="navigation" class="navbox">'),
        ("{{Disambiguation}}", "dmbox-disambig"),
        ("{{Unheard of}}", 'title="Template:Unheard of (page does not exist)">Template:Unheard of</a>'),
        ("[[File:A b.jpg|thumb|left|See [[Berlin]]]]", "<figcaption>See <a href"),
        ("[[Image:A.jpg]]", '<span class="mw-default-size" typeof="mw:File">'),
    ],
)  # fmt: skip
def test_blocks_that_a_reader_must_be_able_to_leave_out(wiki: Wiki, text: str, piece: str) -> None:
    assert piece in render(wiki, text).html


def test_notes_are_numbered_and_listed_once_wherever_the_list_stands(wiki: Wiki) -> None:
    for ending in ("", "\n{{Reflist}}", "\n<references />"):
        html = render(wiki, f'a<ref>one</ref> b<ref name="n">two</ref> c<ref name="n" />{ending}').html
        assert html.count('<sup id="cite_ref-') == 3
        assert html.count('<ol class="references">') == 1
        assert html.count("two") == 1
        assert 'id="cite_ref-n_2-1"' in html


def test_a_table_of_contents_is_marked_from_four_headings_on(wiki: Wiki) -> None:
    three = "== A ==\n== B ==\n=== C ===\n"
    assert "mw:PageProp/toc" not in render(wiki, three).html
    assert render(wiki, three + "== A ==").html.count("mw:PageProp/toc") == 1
    assert [section.anchor for section in render(wiki, three + "== A ==").sections] == ["A", "B", "C", "A_2"]


def test_no_markup_is_left_over_in_any_article(sample: WorldData) -> None:
    from tasks.world.files.reading import load_world_data

    wiki = Wiki(load_world_data())
    for page in wiki.by_title.values():
        for revision in page.revisions:
            html = render_revision(wiki, page, revision).html
            left = [
                mark
                for mark in ("[[", "]]", "{{", "}}", "'''", "{|", "\x01", "\x02", "\x03", "\x04", "\x05")
                if mark in html
            ]
            assert not left, f"{page.title} {revision.revid}: {left}"


@pytest.mark.parametrize(
    ("text", "full", "fragment"),
    [
        ("berlin", "Berlin", ""),
        (" berlin__wall ", "Berlin wall", ""),
        ("category: cities", "Category:Cities", ""),
        ("Image:x.jpg", "File:X.jpg", ""),
        (":Category:Cities", "Category:Cities", ""),
        ("A#b c", "A", "b c"),
        ("Q: a", "Q: a", ""),
        ("ötzi", "Ötzi", ""),
    ],
)
def test_titles_are_normalised(text: str, full: str, fragment: str) -> None:
    title = parse_title(text)
    assert (title.full, title.fragment) == (full, fragment)


@pytest.mark.parametrize("text", ["", "#x", "a<b", "a|b", "Category:", "x" * 256, "a\nb%41"])
def test_titles_that_no_page_can_have(text: str) -> None:
    with pytest.raises(BadTitleError):
        parse_title(text)
