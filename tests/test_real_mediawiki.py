"""The same questions to a real MediaWiki and to the embedded one, and the same answers, but for ids.

Both hold data/world and the pages of tests/mediawiki, which are written in more kinds of markup than articles of the
world need. Skipped, with what to install, where MediaWiki is not there (tests/support/real_mediawiki.py).
"""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import requests

sys.path.insert(0, str(Path(__file__).parent / "support"))

from evidence_work import working
from page_histories import HISTORIES, LATER, THEN, write_histories
from real_mediawiki import (
    CHANGED,
    MOVED_TO,
    PACKAGES,
    NotInstalledError,
    RealMediaWiki,
    default_cache,
    find_programs,
    running_mediawiki,
)

from tasks.assets import load_list
from tasks.clients.wikipedia import Wikipedia
from tasks.core.article_text import read_article, read_removed
from tasks.core.calls import Call, Reply
from tasks.core.wikipedia_addresses import read_article_address
from tasks.core.wikipedia_calls import (
    call_category_members,
    call_page_revision_at,
    call_page_text,
    call_resolve_title,
    call_search,
    read_members,
)
from tasks.evidence import PinnedArticle, Unpinned, load_article_texts, pin_articles
from tasks.settings import Limits
from tasks.world.data import WORLD_FOLDER, WorldData, world_files
from tasks.world.files.reading import load_world_data
from tasks.world.serving import running_world
from tasks.world.wiki.pages import Wiki

pytestmark = pytest.mark.slow
LIMITS = Limits(parallel=2, timeout_s=30, attempts=2, backoff_s=0.02, batch=50)
PROBES = Path(__file__).parent / "mediawiki"
PROBE_CATEGORIES = "  Probes: []\n  Probes within: [Probes]\n  Probes beside: [Probes, Probes within]\n"


@dataclass(frozen=True)
class Both:
    """The two wikis, and what is in them."""

    data: WorldData
    wiki: Wiki
    real: Wikipedia
    ours: Wikipedia
    real_url: str
    ours_url: str
    revids: dict[int, int]
    """Revision id in the embedded wiki → in the real one."""
    pageids: dict[int, str]
    """Page id in either → title; the two kinds of ids do not meet."""


def make_world(folder: Path) -> Path:
    """Write the embedded world with the probes added, and return its folder."""
    for file in world_files():
        (folder / file.relative_to(WORLD_FOLDER)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / file.relative_to(WORLD_FOLDER))
    for file in PROBES.glob("*.wiki"):
        shutil.copy(file, folder / "articles")
    write_histories(folder)
    categories = folder / "categories.yaml"
    categories.write_text(categories.read_text("utf-8").replace("tree:\n", f"tree:\n{PROBE_CATEGORIES}"), "utf-8")
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    try:
        find_programs()
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    folder = make_world(tmp_path_factory.mktemp("world"))
    data = load_world_data(folder)
    with (
        running_mediawiki(default_cache(), data) as real,
        running_world(tmp_path_factory.mktemp("home"), folder) as world,
    ):
        wiki = Wiki(data)
        yield Both(
            data=data,
            wiki=wiki,
            real=open_wiki(real.url),
            ours=open_wiki(world.endpoints["wikipedia"]),
            real_url=real.url,
            ours_url=world.endpoints["wikipedia"],
            revids=match_revids(real, wiki),
            pageids={page.pageid: page.title for page in wiki.by_title.values()} | real.pageids,
        )


def open_wiki(url: str, limits: Limits = LIMITS) -> Wikipedia:
    return Wikipedia(url, "p", limits, "factmill tests")


def match_revids(real: RealMediaWiki, wiki: Wiki) -> dict[int, int]:
    """Return the real wiki's revision ids by ours; they go together by title and date."""
    return {
        revision.revid: real.revids[page.title, revision.at]
        for page in wiki.by_title.values()
        for revision in page.revisions
    }


def ask(service: Wikipedia, calls: Sequence[Call]) -> list[Reply]:
    replies: dict[str, Reply] = {}
    service.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
    return [replies[call.key] for call in calls]


def without_ids(both: Both, reply: Reply) -> Any:
    """Return a reply with titles for page ids and our revision ids for the real wiki's; an error as its code."""
    if reply.status != "ok":
        return reply.status, str(reply.error).partition(":")[0]
    theirs = {real: ours for ours, real in both.revids.items()}

    def change(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: change(part, name) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [change(part) for part in value]
        if key == "pageid" and value is not None:
            return both.pageids[value]
        if key == "revid" and value is not None:
            return theirs.get(value, value)
        return bool(value) if key == "after" else value

    return change(reply.body)


def compare(both: Both, calls: Sequence[Call]) -> list[Any]:
    """Put calls to both wikis, hold their answers to each other, and return these."""
    real_replies, our_replies = ask(both.real, calls), ask(both.ours, calls)
    expected = [without_ids(both, reply) for reply in real_replies]
    found = [without_ids(both, reply) for reply in our_replies]
    different = [
        {"asked": dict(call.parts), "real": theirs, "ours": own}
        for call, theirs, own in zip(calls, expected, found, strict=True)
        if theirs != own
    ]
    assert different == []
    return expected


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
INVALID = ["", " ", "a|b", "<x>", "a[b", "a]b", "{a}", "a\tb", "#x", "_", "Mars#"]


def test_titles_lead_to_the_same_pages(both: Both) -> None:
    answers = compare(both, [call_resolve_title("p", title) for title in TITLES])
    by_title = dict(zip(TITLES, answers, strict=True))
    assert by_title["Red Planet"]["title"] == "Mars"
    assert by_title["red_planet"]["missing"]
    assert by_title["Mars"]["qid"] == "Q111"
    assert by_title["Berlin (disambiguation)"]["is_disambiguation"]
    assert by_title["."] == ("failed", "invalid_title")


def test_titles_lead_to_the_same_pages_one_by_one(both: Both) -> None:
    # fifty at a time, one title's answer could stand in for another's
    alone = Limits(**{**LIMITS.model_dump(), "batch": 1})
    both = replace(both, real=open_wiki(both.real_url, alone), ours=open_wiki(both.ours_url, alone))
    compare(both, [call_resolve_title("p", title) for title in [*TITLES, *INVALID]])


def test_all_pages_are_found_fifty_at_a_time(both: Both) -> None:
    titles = [page.title for page in both.wiki.by_title.values()]
    assert len(titles) > 150
    answers = compare(both, [call_resolve_title("p", title) for title in titles])
    assert sum(answer["qid"] is not None for answer in answers if isinstance(answer, dict)) > 80


def list_moments(both: Both, title: str) -> list[str]:
    """Return moments before, at and after each revision of a page."""
    moments = ["2001-01-15T00:00:00Z", "2040-01-01T00:00:00Z"]
    for revision in both.wiki.by_title[title].revisions:
        day, _, rest = revision.at.partition("T")
        second = int(rest[6:8])
        moments += [f"{day}T{rest[:6]}{s:02}Z" for s in (second - 1, second, second + 1) if 0 <= s < 60]
    return moments


def test_articles_stand_as_they_stood_at_a_moment(both: Both) -> None:
    calls = [
        call_page_revision_at("p", title, moment)
        for title in both.data.articles
        for moment in list_moments(both, title)
    ]
    answers = compare(both, calls)
    in_circles = ("failed", "redirect_loop")
    assert sum(answer != in_circles and answer["revid"] is None for answer in answers) >= len(both.data.articles)


@pytest.mark.parametrize("moment", ["2001-01-15T00:00:00Z", "2021-06-01T00:00:00Z"])
def test_other_titles_are_answered_alike_for_a_moment(both: Both, moment: str) -> None:
    titles = [*TITLES, *INVALID, *both.data.redirects]
    compare(both, [call_page_revision_at("p", title, moment) for title in titles])


@pytest.mark.parametrize("moment", [THEN, LATER])
def test_redirects_that_are_not_followed_have_histories_of_their_own(both: Both, moment: str) -> None:
    titles = [*TITLES, *HISTORIES, *both.data.redirects]
    answers = compare(both, [call_page_revision_at("p", title, moment, follow=False) for title in titles])
    found = dict(zip(titles, answers, strict=True))
    assert found["Merged mill"]["title"] == "Merged mill"
    assert {each["redirected_from"] for each in answers if isinstance(each, dict)} == {None}


def test_redirects_in_a_circle_are_told_alike(both: Both) -> None:
    assert compare(both, [call_page_revision_at("p", "Loop one", THEN)]) == [("failed", "redirect_loop")]


def pin_in_both(both: Both, folder: Path, titles: Sequence[str], at: str) -> dict[str, Any]:
    """Pin titles in both wikis, hold the pins and texts to each other, and return title → pin in ours."""
    pins: list[dict[str, PinnedArticle | Unpinned]] = []
    texts: list[dict[str, str | Unpinned]] = []
    for name, service in (("real", both.real), ("ours", both.ours)):
        with working(folder / name, service) as work:
            found = pin_articles(work, [("row", title) for title in titles], at)
            revids = {title: each.revid for title, each in found.items() if isinstance(each, PinnedArticle)}
            read = load_article_texts(work, [("row", revid) for revid in revids.values()])
            pins.append(found)
            texts.append({title: read[revid] for title, revid in revids.items()})
    ours_of = {real: ours for ours, real in both.revids.items()}
    real = {
        title: (each.title, ours_of.get(each.revid), each.timestamp) if isinstance(each, PinnedArticle) else each.reason
        for title, each in pins[0].items()
    }
    ours = {
        title: (each.title, each.revid, each.timestamp) if isinstance(each, PinnedArticle) else each.reason
        for title, each in pins[1].items()
    }
    assert ours == real
    for title, text in texts[1].items():
        assert without_files(text) == without_files(texts[0][title]), title
    return pins[1]


def without_files(text: str | Unpinned) -> Any:
    """Return the pieces of a text, sorted, since ours has a picture's caption before the paragraph in whose midst it is.

    Names of pictures are left out: a wiki without files shows them in their place.
    """
    if isinstance(text, Unpinned):
        return text.reason
    return sorted(piece for piece in text.split("\n\n") if not piece.startswith("File:"))


@pytest.mark.parametrize("moment", ["2018-06-01T00:00:00Z", "2021-01-01T00:00:00Z", THEN, LATER])
def test_evidence_is_pinned_alike(both: Both, tmp_path: Path, moment: str) -> None:
    # a sample of the world's own pages, since a rendered text takes the real wiki its time
    own = [*list(both.data.articles)[::8], *list(both.data.redirects)[::8]] if moment == THEN else []
    found = pin_in_both(both, tmp_path, [*HISTORIES, *own, "Nothing of this name", "a|b", "Category:Lists"], moment)
    reasons = {each.reason for each in found.values() if isinstance(each, Unpinned)}
    assert reasons <= {"evidence_missing", "younger_than_epoch", "invalid_title", "redirect_loop"}
    assert {"evidence_missing", "invalid_title"} <= reasons
    pinned = sum(isinstance(each, PinnedArticle) for each in found.values())
    assert pinned >= {"2018-06-01T00:00:00Z": 5, "2021-01-01T00:00:00Z": 20, THEN: 35, LATER: 25}[moment]


def test_pages_that_a_mediawiki_has_moved_merged_and_deleted_are_the_evidence_they_were(
    both: Both, tmp_path: Path
) -> None:
    with working(tmp_path, both.real) as work:
        found = pin_articles(work, [("row", title) for title in [*CHANGED, MOVED_TO]], THEN)
        pinned = {title: each for title, each in found.items() if isinstance(each, PinnedArticle)}
        moved, merged, deleted = (found[title] for title in CHANGED)
        texts = load_article_texts(work, [("row", each.revid) for each in pinned.values()])
        [today] = pin_articles(work, [("row", "Pier to be merged")], "2100-01-01T00:00:00Z").values()
    assert isinstance(moved, PinnedArticle)
    assert isinstance(merged, PinnedArticle)
    assert isinstance(deleted, Unpinned)
    assert (moved.title, moved.timestamp, moved) == (MOVED_TO, "2022-01-01T00:00:00Z", found[MOVED_TO])
    assert (merged.title, merged.timestamp) == ("Pier to be merged", "2022-01-01T00:00:00Z")
    assert set(texts.values()) == {"A pier with a crane."}
    assert deleted.reason == "evidence_missing"
    assert isinstance(today, PinnedArticle)
    assert today.title == "Mars"


def list_evidence(found: Any) -> Iterator[str]:
    """Yield the addresses of all evidence below a question in the authored form."""
    if isinstance(found, dict):
        if isinstance(found.get("evidence"), str):
            yield found["evidence"]
        for part in found.values():
            yield from list_evidence(part)
    elif isinstance(found, list):
        for part in found:
            yield from list_evidence(part)


@pytest.mark.parametrize("moment", [THEN, LATER])
def test_the_evidence_of_the_embedded_questions_is_pinned_alike(both: Both, tmp_path: Path, moment: str) -> None:
    files = sorted((WORLD_FOLDER / "sources" / "fanoutqa").glob("*.json"))
    urls = [url for file in files for url in list_evidence(json.loads(file.read_text("utf-8")))]
    # some of the questions are wrong on purpose
    addresses = [address for url in urls if not isinstance(address := read_article_address(url), str)]
    titles = list(dict.fromkeys(each.title for each in addresses))
    found = pin_in_both(both, tmp_path, titles, moment)
    assert sum(isinstance(each, PinnedArticle) for each in found.values()) >= 30


def compare_texts(both: Both, form: Any) -> list[tuple[str, str, str]]:
    """Return title, real text and our text of each revision of the articles."""
    revisions = [(a.title, r.revid) for a in both.data.articles.values() for r in a.revisions]
    real = ask(both.real, [call_page_text("p", both.revids[revid], form) for _, revid in revisions])
    ours = ask(both.ours, [call_page_text("p", revid, form) for _, revid in revisions])
    for reply in [*real, *ours]:
        assert reply.status == "ok", reply.error
    assert [reply.body["title"] for reply in real] == [reply.body["title"] for reply in ours]
    return [
        (title, theirs.body["text"], own.body["text"])
        for (title, _), theirs, own in zip(revisions, real, ours, strict=True)
    ]


def test_wikitext_is_the_same(both: Both) -> None:
    different = [(title, ours, real) for title, real, ours in compare_texts(both, "wikitext") if ours != real]
    assert different == []


def test_the_main_text_is_the_same(both: Both) -> None:
    removed = read_removed(load_list("removed_from_articles"))
    for title, real, ours in compare_texts(both, "html"):
        assert read_article(ours, removed) == read_article(real, removed), title


def test_a_revision_that_is_not_there_is_refused_alike(both: Both) -> None:
    (answer,) = compare(both, [call_page_text("p", 2_000_000_000)])
    assert answer == ("failed", "nosuchrevid")


@pytest.mark.parametrize("kind", ["page", "subcat"])
def test_categories_have_the_same_members_in_the_same_order(both: Both, kind: Any) -> None:
    names = [*both.data.categories, "No category of this name", "probes", "probes_within", " Probes "]
    compare(both, [call_category_members("p", name, kind) for name in names])


@pytest.mark.parametrize("kind", ["page", "subcat"])
def test_categories_go_on_three_by_three(both: Both, kind: Any) -> None:
    after: dict[str, tuple[str | None, str | None]] = dict.fromkeys(both.data.categories, (None, None))
    pieces = 0
    while after:
        asked = [
            [call_category_members("p", name, kind, 3, tokens[i]) for name, tokens in after.items()] for i in (0, 1)
        ]
        real, ours = ask(both.real, asked[0]), ask(both.ours, asked[1])
        assert [without_ids(both, reply) for reply in ours] == [without_ids(both, reply) for reply in real]
        tokens = zip(*([read_members(reply.body).after for reply in replies] for replies in (real, ours)), strict=True)
        after = {name: pair for name, pair in zip(after, tokens, strict=True) if pair != (None, None)}
        pieces += 1
    assert pieces > 2 or kind == "subcat"


def test_members_are_sorted_by_what_pages_say(both: Both) -> None:
    (answer,) = compare(both, [call_category_members("p", "Probes")])
    assert [member["title"] for member in answer["members"]] == [
        "Markup of an article",  # a blank
        "100 metres & more",  # *
        "Alpha of probes",  # the same key as the next one
        "Beta of probes",
        "EBay (probe)",  # the later of its two keys
        "The zenith",  # under Z by default
        "Éclair",
    ]


def test_loops_and_empty_categories_are_told_alike(both: Both) -> None:
    television, audience, empty = compare(
        both,
        [
            call_category_members("p", name, "subcat")
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
    {"titles": "Mars", "prop": "revisions", "rvprop": "ids|content|size|sha1", "rvslots": "main"},
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
    {"action": "parse", "page": "Hamiltonian numbers", "redirects": 1, "prop": "revid|wikitext"},
    {"action": "parse", "page": "Nope", "prop": "text"},
    {"action": "parse", "page": "a[b", "prop": "text"},
    {"action": "parse", "oldid": 2_000_000_000, "prop": "text"},
    {"action": "nothing"},
]  # fmt: skip
# words of an error are for people, and other ids come of other numbers
IGNORED = {"info", "*", "docref", "touched", "pageid", "dbrepllag", "host", "lag"}


@pytest.mark.parametrize("version", [1, 2])
def test_whole_replies_are_the_same(both: Both, version: int) -> None:
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
    """Return a reply without what depends on ids; pages and redirects, which a wiki puts in order by them, by title."""
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


def test_ci_installs_what_the_skip_message_names() -> None:
    assert PACKAGES in (Path(__file__).parents[1] / ".ci" / "run").read_text("utf-8")


def test_a_page_is_found_by_its_title(both: Both) -> None:
    """MediaWiki's own search looks into titles, Wikipedia's into texts too: only what both must find is held."""
    for word in ("Potlatch", "perceptron", "Mercury planet", "zazen"):
        real, ours = (ask(service, [call_search("p", word, 5)])[0] for service in (both.real, both.ours))
        articles = [page["title"] for page in real.body if not both.wiki.by_title[page["title"]].redirect_to]
        assert articles
        assert ours.body[0]["title"] in articles
        assert set(articles) <= {page["title"] for page in ours.body}
