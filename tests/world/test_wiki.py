"""Test the embedded MediaWiki API through mwclient, and as the Action API documents."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import mwclient
import pytest
from mwclient.errors import APIError, InvalidPageTitle

from factmill.tasks.world.wiki.pages import InvalidWikiTitleError, parse_wiki_title

MEMBERS = ["Berlin", "Category:Capitals in Europe"]


def test_mwclient_starts_up_and_reads_a_page(site: mwclient.Site) -> None:
    assert site.version >= (1, 45)
    page = site.pages["Berlin"]
    assert (page.exists, page.pageid, page.redirect, page.revision) == (True, 7000001, False, 8000103)
    assert not site.pages["No such page"].exists
    assert site.pages["BER"].resolve_redirect().name == "Berlin"


def test_mwclient_walks_categories_with_continuation(site: mwclient.Site) -> None:
    assert [page.name for page in site.categories["Cities"]] == MEMBERS
    by_one = mwclient.listing.List(site, "categorymembers", "cm", cmtitle="Category:Cities", api_chunk_size=1)
    assert [member["title"] for member in by_one] == MEMBERS
    assert [page.name for page in site.pages["Berlin"].categories()] == [
        "Category:Capitals in Europe",
        "Category:Cities",
    ]


def test_mwclient_reads_revision_history_in_chunks(site: mwclient.Site) -> None:
    revisions = site.pages["Berlin"].revisions(prop="ids|timestamp", api_chunk_size=1)
    assert [revision["revid"] for revision in revisions] == [8000103, 8000102, 8000101]


def test_mwclient_searches_and_lists_all_pages(site: mwclient.Site) -> None:
    assert [hit["title"] for hit in site.search("capital europe")] == ["Germany"]
    assert [page.name for page in site.allpages(prefix="Berlin", filterredir="nonredirects")] == [
        "Berlin",
        "Berlin (disambiguation)",
    ]


def test_mwclient_receives_errors_in_expected_format(site: mwclient.Site) -> None:
    with pytest.raises(APIError) as caught:
        site.get("parse", oldid=1)
    assert caught.value.code == "nosuchrevid"
    with pytest.raises(InvalidPageTitle):
        site.pages["A[b"]


@pytest.mark.parametrize(
    ("at", "revid"),
    [
        ("2021-04-03T10:14:59Z", None),
        ("2021-04-03T10:15:00Z", 8000101),
        ("20231231235959", 8000102),
        ("2030-01-01T00:00:00Z", 8000103),
    ],
)
def test_newest_revision_before_date_is_found(ask: Any, at: str, revid: int | None) -> None:
    reply = ask.api(
        action="query", prop="revisions", titles="Berlin", rvstart=at, rvdir="older", rvlimit=1, rvprop="ids|timestamp"
    )
    [page] = reply["query"]["pages"].values()
    assert [revision["revid"] for revision in page.get("revisions", [])] == ([revid] if revid else [])


def test_revisions_by_id_include_pages_and_list_unknown_ids_separately(ask: Any) -> None:
    reply = ask.api(action="query", prop="revisions", revids="8000101|8000202|5", rvprop="ids|content", rvslots="main")[
        "query"
    ]
    assert list(reply["pages"]) == ["7000001", "7000002"]
    [revision] = reply["pages"]["7000001"]["revisions"]
    assert revision["revid"] == 8000101
    assert revision["slots"]["main"] == {"contentmodel": "wikitext", "textmissing": ""}
    assert reply["badrevids"] == {"5": {"revid": 5, "missing": ""}}


def test_titles_are_normalised_and_redirects_followed(ask: Any) -> None:
    reply = ask.api(action="query", prop="pageprops", titles="bER|spree_Athens|Capital airport|Nope|x|a[b", redirects=1)
    query = reply["query"]
    assert {"from": "spree_Athens", "to": "Spree Athens"} in query["normalized"]
    assert query["redirects"] == [
        {"from": "BER", "to": "Berlin"},
        {"from": "Spree Athens", "to": "Berlin (old name)"},
        {"from": "Berlin (old name)", "to": "Berlin"},
        {"from": "Capital airport", "to": "Berlin", "tofragment": "Transport"},
    ]
    assert query["pages"]["7000001"]["pageprops"]["wikibase_item"] == "Q64"
    missing = [page for page in query["pages"].values() if "missing" in page]
    assert [page["title"] for page in missing] == ["Nope", "X"]
    [invalid] = [page for page in query["pages"].values() if "invalid" in page]
    assert 'invalid characters: "["' in invalid["invalidreason"]


def test_disambiguation_page_is_marked(ask: Any) -> None:
    reply = ask.api(2, action="query", prop="pageprops", titles="Berlin (disambiguation)|Berlin")
    props = {page["title"]: page["pageprops"] for page in reply["query"]["pages"]}
    assert "disambiguation" in props["Berlin (disambiguation)"]
    assert "disambiguation" not in props["Berlin"]


def test_format_version_2_has_lists_and_booleans(ask: Any) -> None:
    reply = ask.api(2, action="query", prop="revisions|info", titles="BER|Nope", rvprop="comment", inprop="url")
    assert reply["batchcomplete"] is True
    redirect, missing = reply["query"]["pages"]
    assert redirect["redirect"] is True
    assert redirect["revisions"] == [{"comment": "made up"}]
    assert redirect["fullurl"] == "https://en.wikipedia.org/wiki/BER"
    assert missing["missing"] is True


def test_categories_list_their_members_types_and_counts(ask: Any) -> None:
    listed = ask.api(
        action="query", list="categorymembers", cmtitle="Category:Cities", cmtype="subcat", cmprop="title|type"
    )
    assert listed["query"]["categorymembers"] == [{"ns": 14, "title": "Category:Capitals in Europe", "type": "subcat"}]
    counted = ask.api(2, action="query", prop="categoryinfo", titles="Category:Cities")
    assert counted["query"]["pages"][0]["categoryinfo"] == {"size": 2, "pages": 1, "files": 0, "subcats": 1}
    pieces = [ask.api(action="query", prop="categories", titles="Berlin|Germany", cllimit=2)]
    assert "batchcomplete" not in pieces[0]
    pieces.append(
        ask.api(action="query", prop="categories", titles="Berlin|Germany", cllimit=2, **pieces[0]["continue"])
    )
    titles = [c["title"] for piece in pieces for p in piece["query"]["pages"].values() for c in p.get("categories", [])]
    assert titles == ["Category:Capitals in Europe", "Category:Cities", "Category:Places"]


def test_links_work_as_page_generator(ask: Any) -> None:
    reply = ask.api(2, action="query", generator="links", titles="Germany", prop="pageprops", redirects=1)
    assert [page["pageprops"]["wikibase_item"] for page in reply["query"]["pages"]] == ["Q64"]


def test_search_continues_and_highlights_matches(ask: Any) -> None:
    first = ask.api(action="query", list="search", srsearch="Berlin", srlimit=1)
    assert first["query"]["searchinfo"] == {"totalhits": 3}
    assert first["query"]["search"][0]["title"] == "Berlin"
    assert '<span class="searchmatch">Berlin</span>' in first["query"]["search"][0]["snippet"]
    second = ask.api(action="query", list="search", srsearch="Berlin", srlimit=1, **first["continue"])
    assert second["query"]["search"][0]["title"] == "Berlin (disambiguation)"
    assert ask.api(action="query", list="search", srsearch="city of berlin")["query"]["search"][0]["title"] == "Berlin"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"action": "dance"}, "badvalue"),
        ({"action": "query", "list": "categorymembers"}, "missingparam"),
        ({"action": "query", "list": "categorymembers", "cmtitle": "Berlin"}, "invalidcategory"),
        ({"action": "query", "list": "categorymembers", "cmpageid": 1}, "nosuchpageid"),
        (
            {"action": "query", "list": "categorymembers", "cmtitle": "Category:Cities", "cmcontinue": "x"},
            "badcontinue",
        ),
        ({"action": "query", "list": "categorymembers", "cmtitle": "Category:Cities", "cmlimit": "x"}, "badinteger"),
        ({"action": "query", "titles": "|".join(f"T{n}" for n in range(51))}, "toomanyvalues"),
        ({"action": "query", "titles": "Berlin", "pageids": "7000001"}, "invalidparammix"),
        ({"action": "query", "prop": "revisions", "titles": "Berlin|Germany", "rvlimit": 1}, "invalidparammix"),
        ({"action": "query", "prop": "revisions", "titles": "Berlin", "rvlimit": 1, "rvstart": "x"}, "badtimestamp"),
        ({"action": "query", "list": "search"}, "missingparam"),
        ({"action": "parse"}, "missingparam"),
        ({"action": "parse", "page": "Nope"}, "missingtitle"),
        ({"action": "parse", "page": "a[b"}, "invalidtitle"),
        ({"action": "parse", "pageid": 1}, "nosuchpageid"),
        ({"action": "parse", "oldid": 1}, "nosuchrevid"),
        ({"action": "parse", "oldid": 8000101, "page": "Berlin"}, "invalidparammix"),
        ({"action": "parse", "oldid": 8000101, "prop": "revid|wikitext"}, "missingcontent-revid"),
    ],
)
def test_errors_carry_mediawiki_codes_in_body_and_header(ask: Any, params: dict[str, Any], code: str) -> None:
    url = f"{ask.world.app_url}/w/api.php"
    reply = ask.session.get(url, params={"format": "json", **params}, timeout=10)
    assert reply.status_code == 200
    assert reply.headers["MediaWiki-API-Error"] == code
    assert reply.json()["error"]["code"] == code
    assert reply.json()["error"]["info"]


def test_parameters_can_be_posted(ask: Any) -> None:
    data = {"format": "json", "action": "parse", "page": "Germany", "prop": "text"}
    reply = ask.session.post(f"{ask.world.app_url}/w/api.php", data=data, timeout=10).json()
    assert "<p><b>Germany</b> is a country" in reply["parse"]["text"]["*"]


def test_unknown_parameters_and_values_cause_warnings(ask: Any) -> None:
    warnings = ask.api(2, action="query", titles="Berlin", prop="info|smell", colour="red")["warnings"]
    assert warnings["main"]["warnings"] == "Unrecognized parameter: colour."
    assert warnings["query"]["warnings"] == 'Unrecognized value for parameter "prop": smell'


def test_maxlag_is_respected(ask: Any) -> None:
    assert "parse" in ask.api(action="parse", page="Berlin", maxlag=5)
    assert ask.api(action="parse", page="Berlin", maxlag=-1)["error"]["code"] == "maxlag"
    ask.order_fault(kind="maxlag", path="/w/api.php", seconds=7)
    reply = ask.get("/w/api.php?action=parse&page=Berlin&format=json&maxlag=5")
    assert reply.json()["error"]["info"] == "Waiting for 10.64.16.27: 7 seconds lagged."
    assert (reply.headers["Retry-After"], reply.headers["X-Database-Lag"]) == ("5", "7")
    assert "parse" in ask.api(action="parse", page="Berlin", maxlag=5)


def test_parse_returns_revision_with_its_links_images_and_properties(ask: Any) -> None:
    parsed = ask.api(2, action="parse", oldid=8000101)["parse"]
    assert (parsed["title"], parsed["pageid"], parsed["revid"]) == ("Berlin", 7000001, 8000101)
    assert "Michael Müller" in parsed["text"]
    assert 'style="display:none">Capital of Germany</div>' in parsed["text"]
    assert [category["category"] for category in parsed["categories"]] == ["Capitals_in_Europe", "Cities"]
    assert {"ns": 0, "title": "Germany", "exists": True} in parsed["links"]
    assert parsed["images"] == ["Tram.jpg"]
    assert parsed["externallinks"] == ["https://example.org/x"]
    assert parsed["properties"]["wikibase_item"] == "Q64"


def test_parse_follows_redirects_only_on_request(ask: Any) -> None:
    assert "redirectMsg" in ask.api(2, action="parse", page="BER")["parse"]["text"]
    followed = ask.api(2, action="parse", page="BER", redirects=1)["parse"]
    assert followed["title"] == "Berlin"
    assert followed["redirects"] == [{"from": "BER", "to": "Berlin"}]


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
    title = parse_wiki_title(text)
    assert (title.full_title, title.fragment) == (full, fragment)


@pytest.mark.parametrize("text", ["", "#x", "a<b", "a|b", "Category:", "x" * 256, "a\nb%41"])
def test_titles_that_no_page_can_have_are_rejected(text: str) -> None:
    with pytest.raises(InvalidWikiTitleError):
        parse_wiki_title(text)


# recorded file, parameters that replace the recorded ones, whether we return every recorded key
REQUESTS = [
    ("TestVcrPageExistence.test_exists_true", {"titles": "spree_Athens"}, False),
    ("TestVcrWikiCategories.test_categories", {"titles": "spree_Athens"}, True),
    ("TestVcrPageRelationProps.test_links", {"titles": "spree_Athens", "pllimit": "1"}, True),
    ("TestVcrWikiSearch.test_sort[none]", {"srsearch": "Berlin", "srlimit": "1"}, True),
    ("TestVcrWikiSearch.test_prop[size]", {"srsearch": "Berlin", "srlimit": "1"}, True),
    ("TestVcrWikiImageinfoRaw.test_missing_file", {}, False),
]


@pytest.mark.parametrize(("name", "instead", "is_whole"), REQUESTS)
def test_responses_have_shape_of_recorded_ones(
    ask: Any, shared_data: Path, name: str, instead: dict[str, str], is_whole: bool
) -> None:
    file = shared_data / "api" / "mediawiki_api" / f"{name}.json"
    recorded = json.loads(file.read_text("utf-8"))["interactions"][0]
    params = dict(parse_qsl(urlsplit(recorded["request"]["uri"]).query)) | instead
    theirs = describe_shape(json.loads(recorded["response"]["body"]["string"]))
    ours = describe_shape(ask.session.get(f"{ask.world.app_url}/w/api.php", params=params, timeout=10).json())
    ours = {path for path in ours if not path.startswith(("query.redirects", "warnings"))}
    assert ours - theirs == set()
    if is_whole:
        # the limit decides whether a reply is the last one
        varying = ("warnings", "batchcomplete", "continue")
        assert {path for path in theirs - ours if not path.startswith(varying)} == set()


def test_page_views_have_shape_of_recorded_ones(ask: Any, shared_data: Path) -> None:
    path = "/api/rest_v1/metrics/pageviews/per-article/en.wikipedia/all-access/user/Berlin/daily/20230101/20230103"
    for file in (shared_data / "api" / "pageviews_recorded").glob("*.json"):
        assert describe_shape(ask.get(path).json()) == describe_shape(json.loads(file.read_text("utf-8")))


def describe_shape(reply: Any, path: str = "") -> set[str]:
    """Return the paths of a reply with the types at their ends; page ids and list positions share one path."""
    if isinstance(reply, dict):
        found: set[str] = set()
        for key, value in reply.items():
            part = "ID" if key.lstrip("-").isdigit() else key
            found |= describe_shape(value, f"{path}.{part}" if path else part)
        return found
    if isinstance(reply, list):
        return {one for value in reply for one in describe_shape(value, f"{path}[]")} or {f"{path}[]"}
    return {f"{path}: {type(reply).__name__}"}
