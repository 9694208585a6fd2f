"""Test that a real MediaWiki and the embedded one give the same responses to the same requests, except for ids."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from support.webs.both_wikis import LIMITS, Both, ask, ask_both, compare, open_wiki, without_ids
from support.webs.page_histories import HISTORIES, LATER, THEN
from support.webs.real_mediawiki import PACKAGES

from factmill.tasks.assets import load_list_entries
from factmill.tasks.core.calls.wikipedia import (
    make_category_members_call,
    make_page_revision_at_call,
    make_resolve_title_call,
    make_revision_html_call,
    parse_category_members,
)
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.text.article_html import extract_article_text, parse_removal_rules

TITLES = [
    "Mars", "mars", "  mars ", "_mars_", "Mars_(planet)", "Red Planet", "red_planet", "Hamiltonian numbers",
    "Genetic profiling", "Loop A", "Loop B", "Nothing of this name", "nothing_of_this name", "Ötzi", "ötzi", "Otzi",
    "O\u0308tzi", "Berlin#History", "Category:Lists", "category:lists", "Category: lists", ":Category:Lists", ":Mars",
    "Talk:Mars", "talk:mars", "Special:Search", "Special:Nothing", "Media:A.jpg", "File:Nowhere.jpg", "Image:Nowhere.jpg",
    "Template:No such template here", "Wikipedia:About", "Project:About", "User:Nobody/page", "Berlin (disambiguation)",
    "Cambridge (disambiguation)", "Markup (wiki)", "AC/DC (probe)", "What is marked up?", "éclair", "Éclair",
    "100 metres & more", "EBay (probe)", "eBay (probe)", "Bayes' theorem", "Mars%20", "Mars%2", "100% sure", "Red%20Planet",
    "&amp;", "A&amp;B", "&nosuch;", ".", "..", "./Mars", "../Mars", "Mars/.", "a/../b", "Mars/..", "~~~", "~~~~x", "Talk:",
    "Category:", ":", "::Mars", "Talk:Category:Lists", "C++", "a+b", "x" * 255, "x" * 256, "é" * 128, "Mars\u200e",
    "Mars\u00a0(planet)", "Mars\u3000(planet)", "ẞ", "ß", "ǆ", "ﬁne", "ıstanbul", "Mars\ufffd", "\u200bMars", "de:Berlin",
    "Help:Contents", "MediaWiki:Mainpage-nothing", "Mars:", "Foo:Bar", "wp:About", "\"Quoted\"", "*", "-", "`", "\\", "^",
]  # fmt: skip
LONG_BEFORE = "2001-01-15T00:00:00Z"
INVALID = ["", " ", "a|b", "<x>", "a[b", "a]b", "{a}", "a\tb", "#x", "_", "Mars#"]


def test_titles_resolve_to_same_pages(both: Both) -> None:
    answers = compare(both, [make_resolve_title_call("p", title) for title in TITLES])
    by_title = dict(zip(TITLES, answers, strict=True))
    assert by_title["Red Planet"]["title"] == "Mars"
    assert by_title["red_planet"]["missing"]
    assert by_title["Mars"]["qid"] == "Q111"
    assert by_title["Berlin (disambiguation)"]["is_disambiguation"]
    assert by_title["."] == ("failed", "invalid_title")


def test_titles_resolve_to_same_pages_individually(both: Both) -> None:
    # in a request of fifty titles, one title's response could pass for another's
    alone = ServiceLimits(**{**LIMITS.model_dump(), "batch": 1})
    both = replace(both, real=open_wiki(both.real_url, alone), ours=open_wiki(both.ours_url, alone))
    compare(both, [make_resolve_title_call("p", title) for title in [*TITLES, *INVALID]])


def test_all_pages_are_found_in_batches_of_fifty(both: Both) -> None:
    titles = [page.title for page in both.wiki.by_title.values()]
    assert len(titles) > 150
    answers = compare(both, [make_resolve_title_call("p", title) for title in titles])
    assert sum(answer["qid"] is not None for answer in answers if isinstance(answer, dict)) > 80


def list_moments(both: Both, title: str) -> list[str]:
    """Return the first second of each of a page's revisions and the second before it, between which nothing changes."""
    starts = [revision.at for revision in both.wiki.by_title[title].revisions]
    seconds_before = [datetime.fromisoformat(start) - timedelta(seconds=1) for start in starts]
    return [*starts, *(f"{second:%Y-%m-%dT%H:%M:%SZ}" for second in seconds_before)]


def test_article_revisions_match_at_every_moment(both: Both) -> None:
    # the moments select a revision, and both wikis have the same moments (match_revids): test every moment where
    # histories are odd, and one moment each, in turn, of other articles
    asked = []
    for nth, title in enumerate(both.data.articles):
        moments = list_moments(both, title)
        asked += [(title, moment) for moment in (moments if title in HISTORIES else [moments[nth % len(moments)]])]
    # long before the first and after the last revision, the page is in its first or last state: test a sample
    asked += [(title, far) for title in [*both.data.articles][::8] for far in (LONG_BEFORE, "2040-01-01T00:00:00Z")]
    answers = compare(both, [make_page_revision_at_call("p", *each) for each in asked])
    in_circles = ("failed", "redirect_loop")
    assert sum(answer != in_circles and answer["revid"] is None for answer in answers) >= len(both.data.articles) // 4


@pytest.mark.parametrize("moment", [LONG_BEFORE, "2021-06-01T00:00:00Z"])
def test_special_titles_have_same_revision_at_moment(both: Both, moment: str) -> None:
    # a redirect's target does not depend on the moment (test_all_pages_are_found requests all), and no page is that old
    redirects = [*both.data.redirects][:: 8 if moment == LONG_BEFORE else 3]
    titles = [*TITLES, *INVALID, *redirects]
    compare(both, [make_page_revision_at_call("p", title, moment) for title in titles])


@pytest.mark.parametrize("moment", [THEN, LATER])
def test_unfollowed_redirects_have_own_history(both: Both, moment: str) -> None:
    # the world's redirects do not change between the two moments
    assert not any(
        THEN < each.at <= LATER for name in both.data.redirects for each in both.wiki.by_title[name].revisions
    )
    titles = [*TITLES, *HISTORIES, *([*both.data.redirects][1::3] if moment == THEN else ())]
    answers = compare(both, [make_page_revision_at_call("p", title, moment, follow=False) for title in titles])
    found = dict(zip(titles, answers, strict=True))
    assert found["Merged mill"]["title"] == "Merged mill"
    assert {each["redirected_from"] for each in answers if isinstance(each, dict)} == {None}


def test_redirect_loops_are_reported_alike(both: Both) -> None:
    assert compare(both, [make_page_revision_at_call("p", "Loop one", THEN)]) == [("failed", "redirect_loop")]


def test_main_text_is_same(both: Both) -> None:
    # compare the recorded histories (page_histories.py) with the real wiki's rendering of their wikitext
    removed = parse_removal_rules(load_list_entries("removed_from_articles"))
    revids = [each.revid for title in HISTORIES for each in both.data.articles[title].revisions]
    real, ours = ask_both(
        both,
        [make_revision_html_call("p", both.revids[revid], "Title") for revid in revids],
        [make_revision_html_call("p", revid, "Title") for revid in revids],
    )
    for theirs, own in zip(real, ours, strict=True):
        assert (theirs.status, own.status) == ("ok", "ok"), (theirs.error, own.error)
        assert theirs.body["title"] == own.body["title"]
        assert extract_article_text(own.body["text"], removed) == extract_article_text(theirs.body["text"], removed), (
            own.body["title"]
        )


MARKUP = [
    ((), [
        'Bold and italic and both, and lamour is lair. A second sentence with "marks" & an ampersand. It goes on in a second '
        "line. The note is used twice.",
        "A link with a tail: planets, the reddish one, down here, Berlin#Transport, Category:Lists, mars (planet) and a page "
        "outside, bare https://example.org/x?y=1, and [1]. Entities: & — 3 km <tag>, H2O, 10⁵, small, a break.",
        "A paragraph behind a picture. 12 kg of it.",
    ]),
    (("Lists",), [
        *("one", "one deep", "deeper", "two with bold", "mixed", "again", "first", "second", "below", "indented", "twice"),
        *("term", "its explanation", "another", "explained below"),
        *("Text right after lists.", "a list right after text", "Text behind it."),
    ]),
    (("Lists", "Smaller heading"), ["A quotation of its own."]),
    (("Lists", "Smaller heading", "Deep"), ["Text.", "Text under a line."]),
    (("Tables",), ["Text behind a table."]),
    (("Lists",), [
        "The same heading again.", "A paragraph before", "And on.", "''Not italic'' and [[no link]] but text.",
    ]),
    (("Signs",), [
        "Fish & chips cost < 5 and > 3; a [single] bracket, a {brace}, an [[unclosed link, a ~ tilde.",
        "Under a pointer. Template:No such template here",
    ]),
]  # fmt: skip


def test_main_text_is_extracted_from_every_kind_of_markup(both: Both) -> None:
    newest = both.wiki.by_title["Markup of an article"].revisions[-1].revid
    [reply] = ask(both.real, [make_revision_html_call("p", both.revids[newest], "Title")])
    article = extract_article_text(reply.body["text"], parse_removal_rules(load_list_entries("removed_from_articles")))
    assert [(section.path, [*section.paragraphs]) for section in article.sections] == MARKUP


def test_missing_revision_is_rejected_alike(both: Both) -> None:
    (answer,) = compare(both, [make_revision_html_call("p", 2_000_000_000, "Title")])
    assert answer == ("failed", "nosuchrevid")


@pytest.mark.parametrize("kind", ["page", "subcat"])
def test_categories_have_same_members_in_same_order(both: Both, kind: Any) -> None:
    names = [*both.data.categories, "No category of this name", "probes", "probes_within", " Probes "]
    compare(both, [make_category_members_call("p", name, kind) for name in names])


@pytest.mark.parametrize("kind", ["page", "subcat"])
def test_category_continuation_returns_same_members_in_pages_of_three(both: Both, kind: Any) -> None:
    after: dict[str, tuple[str | None, str | None]] = dict.fromkeys(both.data.categories, (None, None))
    pieces = 0
    while after:
        asked = [
            [make_category_members_call("p", name, kind, 3, tokens[i]) for name, tokens in after.items()]
            for i in (0, 1)
        ]
        real, ours = ask_both(both, asked[0], asked[1])
        assert [without_ids(both, reply) for reply in ours] == [without_ids(both, reply) for reply in real]
        tokens = zip(
            *([parse_category_members(reply.body).after for reply in replies] for replies in (real, ours)), strict=True
        )
        after = {name: pair for name, pair in zip(after, tokens, strict=True) if pair != (None, None)}
        pieces += 1
    assert pieces > 2 or kind == "subcat"


def test_members_are_sorted_by_page_sort_keys(both: Both) -> None:
    (answer,) = compare(both, [make_category_members_call("p", "Probes")])
    assert [member["title"] for member in answer["members"]] == [
        "Markup of an article",  # a blank
        "100 metres & more",  # *
        "Alpha of probes",  # the same key as the next one
        "Beta of probes",
        "EBay (probe)",  # the later of its two keys
        "The zenith",  # under Z by default
        "Éclair",
    ]


def test_loops_and_empty_categories_are_reported_alike(both: Both) -> None:
    television, audience, empty = compare(
        both,
        [
            make_category_members_call("p", name, "subcat")
            for name in ("Television studies", "Audience studies", "Unsolved problems in algebra")
        ],
    )
    assert [member["title"] for member in television["members"]] == ["Audience studies"]
    assert [member["title"] for member in audience["members"]] == ["Television studies"]
    assert empty == {"members": [], "after": False}


REQUESTS: list[dict[str, Any]] = [
    {"titles": "mars|Red_Planet|Nope|Loop A|Talk:Mars|a[b", "redirects": 1, "prop": "pageprops", "maxlag": 5,
     "ppprop": "wikibase_item|disambiguation"},
    {"titles": "Special:Search|Special:Nothing of this kind|Media:A.jpg", "prop": "info"},
    {"titles": "Mars", "prop": "revisions", "rvprop": "ids|timestamp", "rvlimit": 1, "rvstart": "2023-01-01T00:00:00Z"},
    {"titles": "Mars", "prop": "revisions", "rvprop": "ids", "rvlimit": 1, "rvstart": "2001-01-01T00:00:00Z"},
    {"titles": "Mars", "prop": "revisions", "rvprop": "ids|timestamp|comment", "rvlimit": 1, "rvdir": "newer"},
    {"titles": "Mars", "prop": "revisions", "rvlimit": 1, "rvstart": "yesterday"},
    {"titles": "Mars|Venus", "prop": "revisions", "rvlimit": 1},
    {"titles": "|".join(f"No page {number}" for number in range(51))},
    {"titles": "Mars", "prop": "nothing", "colour": "red"},
    {"titles": "Mars", "maxlag": "much"},
    {"list": "categorymembers", "cmtitle": "Category:Probes", "cmlimit": 3, "cmprop": "ids|title|sortkey|type"},
    {"list": "categorymembers", "cmtitle": "Category:Probes", "cmlimit": 0, "cmtype": "page|nothing"},
    {"list": "categorymembers", "cmtitle": "Category:Probes", "cmlimit": 501, "cmtype": "subcat|page"},
    {"list": "categorymembers", "cmtitle": "Category:Probes", "cmlimit": "max", "cmdir": "desc", "cmnamespace": 0},
    {"list": "categorymembers", "cmtitle": "Category:Probes", "cmlimit": "x"},
    {"list": "categorymembers", "cmtitle": "Category:Probes", "cmcontinue": "x"},
    {"list": "categorymembers", "cmtitle": "Category:Probes", "cmcontinue": "page|zz|5"},
    {"list": "categorymembers", "cmtitle": "Category:a[b"},
    {"list": "categorymembers", "cmtitle": "Mars"},
    {"list": "categorymembers"},
    {"action": "parse", "page": "Loop A", "redirects": 1, "prop": "revid"},
    {"action": "parse", "page": "Hamiltonian numbers", "redirects": 1, "prop": "revid"},
    {"action": "parse", "page": "Nope", "prop": "text"},
    {"action": "parse", "page": "a[b", "prop": "text"},
    {"action": "parse", "oldid": 2_000_000_000, "prop": "text"},
    {"action": "nothing"},
]  # fmt: skip
# error texts are for people, and ids depend on other numbers
IGNORED = {"info", "*", "docref", "touched", "pageid", "dbrepllag", "host", "lag"}


@pytest.mark.parametrize("version", [1, 2])
def test_complete_api_responses_are_same(both: Both, version: int) -> None:
    different = []
    for request in REQUESTS:
        params = {"action": "query", "format": "json", "formatversion": version, **request}
        replies = [
            requests.get(f"{url}/w/api.php", params=params, timeout=30) for url in (both.real_url, both.ours_url)
        ]
        codes = [reply.headers.get("MediaWiki-API-Error") for reply in replies]
        real, ours = (describe(both, reply.json(), "error" in reply.json()) for reply in replies)
        if (real, codes[0]) != (ours, codes[1]):
            different.append({"asked": request, "real": real, "ours": ours, "codes": codes})
    assert different == []


def describe(both: Both, reply: Any, is_error: bool) -> Any:
    """Return a response without values that depend on ids.

    A wiki sorts pages and redirects by id; here they go by title.
    """
    theirs = {real: ours for ours, real in both.revids.items()}

    def change(value: Any, key: str) -> Any:
        if key == "pages":
            pages = list(value.values() if isinstance(value, dict) else value)
            return sorted((change(page, "") for page in pages), key=lambda page: page["title"])
        if isinstance(value, dict):
            ignored = IGNORED if is_error else IGNORED - {"*"}
            return {name: change(part, name) for name, part in value.items() if name not in ignored}
        if isinstance(value, list):
            parts = [change(part, "") for part in value]
            return sorted(parts, key=lambda step: step["from"]) if key == "redirects" else parts
        if key in {"revid", "parentid", "lastrevid"}:
            return theirs.get(value, value)
        if key in {"cmcontinue", "rvcontinue"}:
            return value.rpartition("|")[0]
        return value

    return change(reply, "")


def test_links_and_images_are_extracted_from_page_html(both: Both) -> None:
    asked = {"action": "parse", "page": "Markup of an article", "prop": "links|externallinks|images", "format": "json"}
    replies = [requests.get(f"{url}/w/api.php", asked, timeout=30).json() for url in (both.real_url, both.ours_url)]
    for name in ("links", "externallinks", "images"):
        real, ours = (sorted(map(str, reply["parse"][name])) for reply in replies)
        assert ours == real
        assert real


def test_ci_installs_packages_named_in_skip_message() -> None:
    assert PACKAGES in (Path(__file__).parents[2] / ".ci" / "run").read_text("utf-8")


def test_search_finds_page_by_title(both: Both) -> None:
    """MediaWiki's own search covers titles, Wikipedia's also texts: compare only what both must find."""
    for word in ("Potlatch", "perceptron", "Mercury planet", "zazen"):
        asked = {
            "action": "query",
            "list": "search",
            "srsearch": word,
            "srnamespace": 0,
            "srlimit": 5,
            "format": "json",
        }
        replies = [requests.get(f"{url}/w/api.php", asked, timeout=30).json() for url in (both.real_url, both.ours_url)]
        real, ours = ([page["title"] for page in reply["query"]["search"]] for reply in replies)
        articles = [title for title in real if not both.wiki.by_title[title].redirect_to]
        assert articles
        assert ours[0] in articles
        assert set(articles) <= set(ours)
