"""Test which addresses count as English Wikipedia articles, and the message for each refusal."""

import json
from pathlib import Path
from typing import Any

import pytest

from factmill.tasks.text.wikipedia_urls import (
    ArticleUrl,
    canonical_title,
    find_redirect,
    format_article_url,
    parse_english_article_url_or_problem,
)

WIKI = "https://en.wikipedia.org"

READ = [
    ("/wiki/Alan_Turing", "Alan Turing", None),
    ("/wiki/alan_Turing", "alan Turing", None),
    ("/wiki/Alan Turing", "Alan Turing", None),
    ("/wiki/_Alan__Turing_", "Alan Turing", None),
    ("/wiki/S%C3%A3o_Paulo", "São Paulo", None),
    ("/wiki/São_Paulo", "São Paulo", None),
    ("/wiki/Sa%CC%83o_Paulo", "São Paulo", None),
    ("/wiki/%E6%9D%B1%E4%BA%AC", "東京", None),
    ("/wiki/AC/DC", "AC/DC", None),
    ("/wiki/AC%2FDC", "AC/DC", None),
    ("/wiki/C++", "C++", None),
    ("/wiki/M*A*S*H", "M*A*S*H", None),
    ("/wiki/Who's_on_First%3F", "Who's on First?", None),
    ("/wiki/100%25", "100%", None),
    ("/wiki/S&P_500", "S&P 500", None),
    ("/wiki/%22Heroes%22_(album)", '"Heroes" (album)', None),
    ("/wiki/2001:_A_Space_Odyssey", "2001: A Space Odyssey", None),
    ("/wiki/Talk", "Talk", None),
    ("/wiki/File_system", "File system", None),
    ("/wiki/Main_Page_(film)", "Main Page (film)", None),
    ("/wiki/...And_Justice_for_All", "...And Justice for All", None),
    ("/wiki/Foo/", "Foo/", None),
    ("/wiki/Paris#History", "Paris", "History"),
    ("/wiki/Paris#Early_history", "Paris", "Early history"),
    ("/wiki/Paris#%C3%8Ele", "Paris", "Île"),
    ("/wiki/Paris#100%", "Paris", "100%"),
    ("/wiki/Paris#What?", "Paris", "What?"),
    ("/wiki/Paris#", "Paris", None),
    ("/wiki/Paris#History:~:text=Celts", "Paris", "History"),
    ("/wiki/Paris#:~:text=Celts", "Paris", None),
    ("/w/index.php?title=Alan_Turing", "Alan Turing", None),
    ("/w/index.php?title=Alan+Turing#Early_life", "Alan Turing", "Early life"),
    ("/w/index.php?title=C%2B%2B", "C++", None),
    ("/w/index.php?title=Who%27s_on_First%3F", "Who's on First?", None),
]


@pytest.mark.parametrize(("path", "title", "section"), READ)
def test_article_url_is_parsed(path: str, title: str, section: str | None) -> None:
    assert parse_english_article_url_or_problem(WIKI + path) == ArticleUrl(title, section)


@pytest.mark.parametrize(
    "host",
    [
        *("http://en.wikipedia.org", "https://en.m.wikipedia.org", "HTTPS://EN.Wikipedia.org"),
        *("https://en.wikipedia.org:443",),
    ],
)
def test_mobile_and_http_urls_are_accepted(host: str) -> None:
    assert parse_english_article_url_or_problem(f" {host}/wiki/Paris\n") == ArticleUrl("Paris", None)


REFUSED = [
    ("https://fr.wikipedia.org/wiki/Paris", "another Wikipedia (fr.wikipedia.org)"),
    ("https://de.m.wikipedia.org/wiki/Paris", "another Wikipedia (de.m.wikipedia.org)"),
    ("https://simple.wikipedia.org/wiki/Paris", "another Wikipedia (simple.wikipedia.org)"),
    ("https://www.wikipedia.org/wiki/Paris", "on www.wikipedia.org"),
    ("https://en.wikipedia.org.example.org/wiki/Paris", "on en.wikipedia.org.example.org"),
    ("https://en.wikivoyage.org/wiki/Paris", "on en.wikivoyage.org"),
    ("https://example.org/https://en.wikipedia.org/wiki/Paris", "on example.org"),
    ("https://someone@en.wikipedia.org/wiki/Paris", "a user or a port"),
    ("https://en.wikipedia.org:8080/wiki/Paris", "a user or a port"),
    ("https://en.wikipedia.org:x/wiki/Paris", "cannot be read as an address"),
    ("https://[en.wikipedia.org/wiki/Paris", "cannot be read as an address"),
    ("ftp://en.wikipedia.org/wiki/Paris", "no address with http or https"),
    ("en.wikipedia.org/wiki/Paris", "no address with http or https"),
    ("Paris", "no address with http or https"),
    ("", "no address with http or https"),
    (f"{WIKI}/wiki/Par\nis", "a character that no address holds"),
    (f"{WIKI}/wiki/Par\ud800is", "a character that no address holds"),
    (f"{WIKI}", "does not begin with /wiki/"),
    (f"{WIKI}/Paris", "does not begin with /wiki/"),
    (f"{WIKI}/WIKI/Paris", "does not begin with /wiki/"),
    (f"{WIKI}/?title=Paris", "does not begin with /wiki/"),
    (f"{WIKI}/wiki/", "the title is empty"),
    (f"{WIKI}/wiki/_%20", "the title is empty"),
    (f"{WIKI}/wiki/#History", "the title is empty"),
    (f"{WIKI}/w/index.php?title=", "the title is empty"),
    (f"{WIKI}/wiki/Who's_on_First?", "is written %3F"),
    (f"{WIKI}/wiki/Paris?action=history", "is written %3F"),
    (f"{WIKI}/wiki/Paris?", "is written %3F"),
    (f"{WIKI}/w/index.php", "asks for more"),
    (f"{WIKI}/w/index.php?oldid=5", "asks for more"),
    (f"{WIKI}/w/index.php?title=Paris&oldid=5", "asks for more"),
    (f"{WIKI}/wiki/S%E3o_Paulo", "not encoded as UTF-8"),
    (f"{WIKI}/wiki/100%", "a percent sign of the title is written %25"),
    (f"{WIKI}/wiki/100%zz", "a percent sign of the title is written %25"),
    (f"{WIKI}/wiki/%ED%A0%80", "not encoded as UTF-8"),
    (f"{WIKI}/wiki/A%7CB", "no title holds '|'"),
    (f"{WIKI}/wiki/C%23", "no title holds '#'"),
    (f"{WIKI}/wiki/<b>", "no title holds '<'"),
    (f"{WIKI}/wiki/{{A}}", "no title holds '{'"),
    (f"{WIKI}/wiki/A%00B", "no title holds"),
    (f"{WIKI}/wiki/%2541", "no title holds '%41'"),
    (f"{WIKI}/wiki/Fish_%26amp;_chips", "no title holds '&amp;'"),
    (f"{WIKI}/wiki/~~~", "no title holds '~~~'"),
    (f"{WIKI}/wiki/:Paris", "no title holds ':'"),
    (f"{WIKI}/wiki/A/../B", "no title holds"),
    (f"{WIKI}/wiki/{'é' * 128}", "255 bytes at most"),
    (f"{WIKI}/wiki/Main_Page", "the main page"),
    (f"{WIKI}/wiki/main_Page", "the main page"),
    *(
        (f"{WIKI}/wiki/{name}:Paris", f"what begins with {name.replace('_', ' ')}: is no article")
        for name in (
            *("Special", "File", "Image", "Talk", "Category", "Template", "Wikipedia", "WP", "User", "Portal", "Help"),
            *("Draft", "Module", "MediaWiki", "User_talk", "category", "TEMPLATE_TALK", "Media", "TimedText"),
        )
    ),
    (f"{WIKI}/wiki/Category_:_Paris", "what begins with Category: is no article"),
    (f"{WIKI}/wiki/Category%3AParis", "what begins with Category: is no article"),
]


@pytest.mark.parametrize(("url", "text"), REFUSED)
def test_non_article_url_is_rejected_with_reason_and_expected_form(url: str, text: str) -> None:
    found = parse_english_article_url_or_problem(url)
    assert isinstance(found, str), found
    assert text in found
    assert repr(url.strip()) in found
    assert "expected an article of the English Wikipedia" in found or "%" in found


@pytest.mark.parametrize(
    "spelling",
    [
        *("Éclair au chocolat", "éclair_au_chocolat", " _éclair  au_chocolat ", "e\u0301clair au\u00a0chocolat"),
        *("\u200eéclair au chocolat",),
    ],
)
def test_all_spellings_of_title_are_canonicalised_to_one(spelling: str) -> None:
    assert canonical_title(spelling) == "Éclair au chocolat"


@pytest.mark.parametrize("title", ["", "ßuper", "iPhone", "C++", "2 Tone"])
def test_canonical_title_changes_only_first_letter(title: str) -> None:
    assert canonical_title(title)[1:] == title[1:]
    assert canonical_title("ßuper") == "ßuper"


@pytest.mark.parametrize(
    ("wiki", "article", "revision"),
    [
        ("embedded", f"{WIKI}/wiki/Zoë's_A/B%3F", f"{WIKI}/w/index.php?title=Zo%C3%AB%27s_A/B%3F&oldid=5"),
        ("https://en.wikipedia.org", f"{WIKI}/wiki/Zoë's_A/B%3F", f"{WIKI}/w/index.php?title=Zo%C3%AB%27s_A/B%3F&oldid=5"),
        ("https://wiki.example:8080", "https://wiki.example:8080/w/index.php?title=Zo%C3%AB%27s_A/B%3F", "https://wiki.example:8080/w/index.php?title=Zo%C3%AB%27s_A/B%3F&oldid=5"),
        ("https://x.example/wiki/api.php", "https://x.example/wiki/index.php?title=Zo%C3%AB%27s_A/B%3F", "https://x.example/wiki/index.php?title=Zo%C3%AB%27s_A/B%3F&oldid=5"),
    ],
)  # fmt: skip
def test_article_url_points_to_wiki_of_its_world(wiki: str, article: str, revision: str) -> None:
    assert format_article_url(wiki, "Zoë's A/B?") == article.replace("ë", "%C3%AB")
    assert format_article_url(wiki, "Zoë's A/B?", 5) == revision


SHOWN = '<div class="mw-parser-output"><div class="redirectMsg"><p>Redirect to:</p><ul class="redirectText"><li>{}</li></ul></div>'
REDIRECTS = [
    (SHOWN.format('<a href="/wiki/Paris" title="Paris">Paris</a>'), "Paris"),
    (SHOWN.format('<a href="/wiki/A_%26_B#C_d" title="A &amp; B">A &amp; B#C d</a>') + "<p>behind</p>", "A & B#C d"),
    (SHOWN.format('<a href="/w/index.php?title=X&amp;redlink=1" class="new" title="X (page does not exist)">X</a>'), "X"),
    ("<p>&lt;div class=\"redirectMsg\"&gt;</p>", None),
    ('<div class="redirectMsg"><p>Nowhere</p></div>', None),
    ("<p>Paris is a city.</p>", None),
    ("", None),
]  # fmt: skip


@pytest.mark.parametrize(("html", "expected"), REDIRECTS)
def test_redirect_target_is_found_in_redirect_page(html: str, expected: str | None) -> None:
    assert find_redirect(html) == expected


@pytest.mark.parametrize("name", ["fanout-final-dev-nov23.json", "fanout-final-dev.json"])
def test_every_url_of_released_files_is_parsed(shared_data: Path, name: str) -> None:
    questions = json.loads((shared_data / "fanoutqa" / name).read_text("utf-8"))
    found = [(each, parse_english_article_url_or_problem(each["url"])) for each in list_evidence(questions)]
    assert len(found) > 2_000
    assert [(each["url"], address) for each, address in found if isinstance(address, str)] == []
    same = sum(isinstance(address, ArticleUrl) and address.title == each["title"] for each, address in found)
    # the others are redirects, with the target's title next to the address
    assert same / len(found) > 0.98


def list_evidence(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the evidence of all sub-questions, at all levels."""
    found = []
    for each in questions:
        found += [each["evidence"]] if each.get("evidence") else []
        found += list_evidence(each["decomposition"])
    return found
