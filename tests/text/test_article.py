"""Test extraction of an article's main text from MediaWiki's HTML."""

import json
import re
from html import escape, unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.assets import load_list_entries
from factmill.tasks.errors import SettingsError
from factmill.tasks.text.article_html import ArticleMainText, ArticleSection, extract_article_text, parse_removal_rules
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.world.files import load_world_data

REMOVED = parse_removal_rules(load_list_entries("removed_from_articles"))
NOTE = '<sup id="cite_ref-1" class="reference"><a href="#cite_note-1">[1]</a></sup>'
IPA = '<span class="IPA nopopups noexcerpt" lang="en-fonipa"><a href="/wiki/Help:IPA">/x/</a></span>'
SOUND = '<span class="ext-phonos"><a>ⓘ</a></span>'


def paragraphs_of(html: str) -> list[str]:
    return [paragraph for section in extract_article_text(html, REMOVED).sections for paragraph in section.paragraphs]


PARAGRAPHS = [
    # whitespace
    ("<p>a\n b&#160;&thinsp;c\u3000d<br />e\n</p>", ["a b c d e"]),
    ("<p>wi<i>th</i>in <b>a</b><wbr>b</p>", ["within ab"]),
    ("<p>a , b . c .NET . . . d ; e</p>", ["a, b. c .NET . . . d ; e"]),
    # paragraph boundaries
    ("<p>a</p><p class='mw-empty-elt'>\n</p><div>b<p>c</p>d</div>e", ["a", "b", "c", "d", "e"]),
    ("<ul><li>a\n<ul><li>b</li></ul> c</li>\n<li><p>d</p></li></ul>", ["a", "b", "c", "d"]),
    ("<dl><dt>a</dt><dd>b</dd></dl><blockquote class='templatequote'><p>c</p></blockquote>", ["a", "b", "c"]),
    ("<ol><li>a</li><li>b</li></ol>", ["a", "b"]),
    ("<p>a<p>b<div>c", ["a", "b", "c"]),
    ("<p>a<figure>X<figcaption>Y</figcaption></figure>b</p>", ["a", "b"]),
    ("<p>a</p><table><tr><td>X</td></tr></table>b", ["a", "b"]),
    # residue of removed parts
    (f"<p>a{NOTE}, b {NOTE}. c{NOTE}\n{NOTE} d {NOTE}</p>", ["a, b. c d"]),
    (f"<p><b>A</b> ({IPA})&nbsp;is</p>", ["A is"]),
    (f"<p>A ({IPA} {SOUND}; born 1950) is</p>", ["A (born 1950) is"]),
    (f"<p>A (<small>German:</small> {IPA} ({SOUND}), <small>UK:</small> {IPA}) is</p>", ["A is"]),
    (f"<p>A ({IPA} <i title='English pronunciation respelling'>AY</i>; Greek: <i>Ἄ</i> {IPA}) is</p>", ["A (Greek: Ἄ) is"]),
    (f"<p>A (pronounced {IPA}, or {IPA}) is</p>", ["A is"]),
    (f"<p>A (1950{NOTE}) has (3,000{NOTE}, 5) (see{NOTE})</p>", ["A (1950) has (3,000, 5) (see)"]),
    ("<p>call f() or f( )</p>", ["call f() or f( )"]),
    (f"<p>a{NOTE} ... b{NOTE} .NET{NOTE}</p>", ["a ... b .NET"]),
    ("<p>a <style>.x{}</style>b<link rel='x' /><meta property='y' /><!-- c -->d</p>", ["a bd"]),
    ('<p>a<sup class="noprint Inline-Template Template-Fact">[<i>citation needed</i>]</sup>. b</p>', ["a. b"]),
    ('<p>at <span style="Display: None">X</span>b <span style="color:red">c</span></p>', ["at b c"]),
    ('<p>at <span class="geo-inline"><a><span class="geo-dms">48°N</span></a></span> b</p>', ["at b"]),
    # numbers and formulas
    ("<p>10<sup>5.5</sup> 2<sup><i>n</i></sup> 2<sup>n−1</sup> x<sup>1/2</sup> M<sup>me</sup> 19<sup>th</sup></p>",
     ["10^5.5 2^n 2^(n−1) x^(1/2) Mme 19th"]),
    ("<p><span><i>x</i></span><sup>n</sup> 2<sup>e</sup> 2<sup>1.5</sup> note<sup>n</sup></p>", ["x^n 2e 2^1.5 noten"]),
    (f"<p>in 1905<sup>[<i>a</i>]</sup> m<sup><b>2</b></sup> 5{NOTE}</p>", ["in 1905[a] m² 5"]),
    ("<p>10<sup>5</sup> km<sup>2</sup> s<sup>−1</sup> Ca<sup>2+</sup> 1<sup>st</sup> H<sub>2</sub>O</p>",
     ["10⁵ km² s⁻¹ Ca²⁺ 1st H2O"]),
    ('<p>so <span class="mwe-math-element"><span style="display: none;"><math alttext="{\\displaystyle a_{1}=b}">'
     '<mi>X</mi></math></span><img class="mwe-math-fallback-image-inline" alt="{\\displaystyle a_{1}=b}" /></span>, c</p>',
     ["so a_{1}=b, c"]),
    ('<p><span class="mwe-math-element mwe-math-element-inline"><math><mi>X</mi><annotation>a+b</annotation></math></span>'
     "</p>", ["a+b"]),
    ('<p><span class="mwe-math-element"><img alt="\\pi" /></span> (<math><mi>X</mi></math>)</p>', ["\\pi"]),
    # broken HTML
    ("", []),
    (" \n", []),
    ("<", ["<"]),
    ("<p", []),
    ("&", ["&"]),
    ("<!-- a", []),
    ("</div></p></div>a", ["a"]),
    ("<b>a<i>b</b>c</i>", ["abc"]),
    ("<td>a</td>", ["a"]),
    ("<?xml version='1.0' encoding='latin-1'?><p>é</p>", ["é"]),
    ("<p>a\ud800b &#0; &bogus;", ["a?b � &bogus;"]),
    ("<html><head><title>X</title></head><body><p>a</p></body></html>", ["a"]),
    ("<div class='redirectMsg'><p>Redirect to:</p><ul class='redirectText'><li>X</li></ul></div>", []),
]  # fmt: skip


@pytest.mark.parametrize(("html", "expected"), PARAGRAPHS)
def test_paragraphs_are_extracted_as_reader_sees_them(html: str, expected: list[str]) -> None:
    assert paragraphs_of(html) == expected


def test_sections_have_path_of_their_headings() -> None:
    html = """<p>lead</p><div>and more</div>
    <div class="mw-heading mw-heading2"><h2 id="A">A <i>b</i></h2><span class="mw-editsection">[edit]</span></div>
    <p>one</p><h4>C</h4><p>two</p><h3>D</h3><p>three</p><h2>Empty</h2><h3>E</h3><p>four</p><h2> </h2><p>five</p>"""
    article = extract_article_text(html, REMOVED)
    assert article.sections == (
        ArticleSection((), 0, ("lead", "and more")),
        ArticleSection(("A b",), 2, ("one",)),
        ArticleSection(("A b", "C"), 4, ("two",)),
        ArticleSection(("A b", "D"), 3, ("three",)),
        ArticleSection(("Empty", "E"), 3, ("four", "five")),
    )
    assert article.lead == ("lead", "and more")
    assert article.text == "lead\n\nand more\n\none\n\ntwo\n\nthree\n\nfour\n\nfive"


def test_page_that_starts_with_heading_has_no_lead() -> None:
    assert extract_article_text("<h2>A</h2><p>a</p>", REMOVED).lead == ()
    assert extract_article_text("", REMOVED) == ArticleMainText(())
    assert ArticleMainText(()).lead == () and ArticleMainText(()).text == ""


def test_removed_sections_include_subsections_but_not_siblings() -> None:
    html = """<h2>A</h2><p>a</p><h3><span class="mw-headline">See also</span></h3><p>X</p><h4>B</h4><p>X</p>
    <h3>C</h3><p>c</p><h2>REFERENCES :</h2><p>X</p><h3>Notes</h3><p>X</p><h4>D</h4><p>X</p><h2>E</h2><p>e</p>"""
    assert [(section.path, section.paragraphs) for section in extract_article_text(html, REMOVED).sections] == [
        (("A",), ("a",)),
        (("A", "C"), ("c",)),
        (("E",), ("e",)),
    ]


def test_unclosed_heading_ends_at_next_block() -> None:
    assert [section.path for section in extract_article_text("<h2>A<p>a<h3>B<div>b", REMOVED).sections] == [
        ("A",),
        ("A", "B"),
    ]


@pytest.mark.parametrize("entry", load_list_entries("removed_from_articles"))
def test_every_removal_rule_removes_its_elements(entry: str) -> None:
    kind, value = entry.partition("#")[0].strip().split(maxsplit=1)
    html = {
        "tag": f"<{value} alt='GONE'>" if value in ("img", "input") else f"<{value}><b>GONE</b></{value}>",
        "class": f"<span class='x {value} y'>GO<div>NE</div></span>",
        "id": f"<span id='{value}'>GONE</span>",
        "style": f"<span style='color: red; {value.replace(':', ' : ')}'>GONE</span>",
        "title": f"<i title='{value}'>GONE</i>",
        "heading": f"<h5>{value.upper()}</h5>GO<p>NE</p><h5>last</h5>",
    }[kind]
    assert "".join(paragraphs_of(f"<p>first</p><div>a {html} b</div><p>c</p>")).replace(" ", "") == "firstabc"


@pytest.mark.parametrize("entry", ["figure", "class", "heading # none", "css infobox", ""])
def test_malformed_removal_rule_is_named(entry: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(repr(entry))):
        parse_removal_rules(["tag table", entry])


def test_removal_rules_have_no_duplicates() -> None:
    entries = [entry.partition("#")[0].split() for entry in load_list_entries("removed_from_articles")]
    assert len({tuple(entry) for entry in entries}) == len(entries)


PIECES = st.sampled_from(
    ["<p>", "</p>", "<div>", "<b>", "</b>", "<li>", "<h2>", "</h2>", "<br>", NOTE, IPA, SOUND, "(", ")", " ", ",", ".", ";",
     "German:", "a", "Ω", "1", "\u00a0", "<sup>2</sup>", "<", "&amp;", "or", "...", "[", "]"]
)  # fmt: skip
PLAIN = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "))


@given(st.lists(PIECES, max_size=40).map("".join))
def test_cleaning_text_twice_changes_nothing(html: str) -> None:
    paragraphs = paragraphs_of(html)
    assert paragraphs_of("".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs)) == paragraphs
    for paragraph in paragraphs:
        assert paragraph
        assert " ".join(paragraph.split()) == paragraph
        assert not {"/x/", "ⓘ", "[1]", "\0"} & set(re.findall(r"/x/|ⓘ|\[1\]|\0", paragraph))


@given(PLAIN)
def test_cleaning_plain_text_changes_only_whitespace(text: str) -> None:
    (read,) = paragraphs_of(f"<p>{escape(text)}</p>") or [""]
    assert read.replace(" ", "") == text.replace(" ", "")


@given(st.text(max_size=200))
def test_broken_html_never_raises(text: str) -> None:
    assert "\0" not in extract_article_text(text, REMOVED).text


def test_embedded_articles_yield_only_their_prose() -> None:
    articles = load_world_data().articles.values()
    assert len(articles) > 70
    for article in articles:
        for revision in article.revisions:
            found = extract_article_text(revision.text, REMOVED)
            paragraphs = [paragraph for section in found.sections for paragraph in section.paragraphs]
            assert paragraphs == list_prose(revision.text), article.title
            assert found.lead, article.title
            assert all(" ".join(split_sentences(paragraph)) == paragraph for paragraph in paragraphs), article.title


def list_prose(html: str) -> list[str]:
    """Return paragraphs and list items, by the lines of our files."""
    # one article has a section with the same name as the footnotes' section
    for pattern in (
        r'<div class="mw-heading[^>]*><h2 id="Notes">.*?(?=<div class="mw-heading)',
        r"<sup .*?</sup>",
        r"<(table|ol class).*?</(table|ol)>",
    ):
        html = re.sub(pattern, "", html, flags=re.DOTALL)
    lines = [line for line in html.split("\n") if re.match(r"<(p|ul|ol|li)>", line)]
    return [unescape(re.sub(r"<[^>]+>", "", line)) for line in lines]


def test_html_of_recorded_responses_is_read_as_plain_words(shared_data: Path) -> None:
    snippets = []
    for file in sorted((shared_data / "api" / "mediawiki_api").glob("TestVcrWikiSearch*.json")):
        for interaction in json.loads(file.read_text("utf-8"))["interactions"]:
            found = json.loads(interaction["response"]["body"]["string"])["query"]["search"]
            snippets += [result["snippet"] for result in found if "<span" in result.get("snippet", "")]
    assert len(snippets) >= 10
    for snippet in snippets:
        (paragraph,) = paragraphs_of(snippet)
        assert "<" not in paragraph
        words = re.sub(r"<[^>]+>", "", snippet).replace("&quot;", '"').replace("&amp;", "&").replace("&#039;", "'")
        assert paragraph.split() == words.split()
