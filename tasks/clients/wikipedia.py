"""A Wikipedia over mwclient; the questions and bodies are those of core/calls/wikipedia.py.

Titles are resolved fifty a request, everything else is asked one by one, as the API has it. Both JSON forms of
MediaWiki (formatversion 1 and 2) are understood, since wikis differ in which one they give.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from tasks.clients.mediawiki import MediaWiki, RefusedError
from tasks.clients.sending.answers import fail
from tasks.clients.sending.bounded import ask_in_thread
from tasks.clients.sending.limiter import Limiter
from tasks.clients.sending.sender import Retry, Sender
from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.fingerprints import Json
from tasks.core.service_settings import Limits

_MOST_TITLES = 50
_LONGEST_TITLES = 5000
_TRAITS = "wikibase_item|disambiguation"
_NOT_IN_TITLES = frozenset("#<>[]|{}\n\t")


class Wikipedia:
    """Answers page_revision_at, page_text, category_members, resolve_title, search and page_states."""

    is_outside = True

    def __init__(
        self, url: str, identity: str, limits: Limits, user_agent: str, token: str = "", shared: Limiter | None = None
    ) -> None:
        """Keep what is needed; nothing is sent yet. `url`: scheme and host, and the script path where it is not /w."""
        self.identity = identity
        name = f"Wikipedia at {url}"
        self._wiki = MediaWiki(url, name, limits, user_agent, token)
        self._batch = min(limits.batch, _MOST_TITLES)
        self._sender = Sender(limits, name, token=token, shared=shared)

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls; a title that no page can have fails alone, with `invalid_title`."""
        titles: list[Call] = []
        groups: list[list[Call]] = []
        for call in calls:
            if trouble := _find_bad_title(call):
                deliver(call, fail("invalid_title", trouble))
            elif call.operation == "resolve_title":
                titles.append(call)
            else:
                groups.append([call])
        groups += _group_titles(titles, self._batch)
        self._sender.send(groups, partial(ask_in_thread, self._answer), deliver)

    def _answer(self, group: Sequence[Call]) -> list[Reply]:
        answer = _ANSWERS[group[0].operation]
        try:
            return answer(self._wiki, group)
        except RefusedError as refused:
            return [refused.reply] * len(group)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise Retry(f"malformed_reply: not what the API documents: {error!r}") from error


def _answer_revision(wiki: MediaWiki, group: Sequence[Call]) -> list[Reply]:
    parts = group[0].parts
    title = _tidy(str(parts["title"]))
    asked: dict[str, str | int] = {"prop": "revisions", "titles": title, "rvprop": "ids|timestamp", "rvlimit": 1}
    asked |= {"redirects": 1} if parts.get("follow", True) else {}
    answer = wiki.get("query", **asked, rvdir="older", rvstart=str(parts["at"]))
    resolved, page = _find_page(answer["query"], _list_pages(answer["query"]), title)
    if page is None and resolved:
        return [_no_end(resolved)]
    if page is None:
        return [_no_page(title)]
    revision = (page.get("revisions") or [{}])[0]
    found: dict[str, Json] = {
        "title": page["title"],
        "pageid": page.get("pageid"),
        "revid": revision.get("revid"),
        "timestamp": revision.get("timestamp"),
        "redirected_from": resolved,
        "missing": _is_missing(page),
    }
    if not found["missing"] and not revision:
        _, page = _find_page(answer["query"], _list_pages(wiki.get("query", **asked, rvdir="newer")["query"]), title)
        found["first"] = ((page or {}).get("revisions") or [{}])[0].get("timestamp")
    return [Reply(found)]


def _answer_text(wiki: MediaWiki, group: Sequence[Call]) -> list[Reply]:
    revid = int(group[0].parts["revid"])  # type: ignore[arg-type]
    plain = {"disableeditsection": 1, "disabletoc": 1, "disablelimitreport": 1}
    parsed = wiki.get("parse", oldid=revid, prop="text", **plain)["parse"]
    text = parsed["text"]
    text = text["*"] if isinstance(text, Mapping) else text
    return [Reply({"revid": revid, "pageid": parsed["pageid"], "title": parsed["title"], "text": text})]


def _answer_members(wiki: MediaWiki, group: Sequence[Call]) -> list[Reply]:
    parts = group[0].parts
    is_page = parts["kind"] == "page"
    options: dict[str, str | int] = {"cmnamespace": 0} if is_page else {}
    if parts["after"] is not None:
        options["cmcontinue"] = str(parts["after"])
    answer = wiki.get(
        "query",
        list="categorymembers",
        cmtitle=f"Category:{_tidy(str(parts['category']))}",
        cmtype=str(parts["kind"]),
        cmprop="ids|title",
        cmlimit=int(parts["limit"]),  # type: ignore[arg-type]
        **options,
    )
    members: list[Json] = [
        {"pageid": page["pageid"], "title": page["title"] if is_page else page["title"].partition(":")[2]}
        for page in answer["query"]["categorymembers"]
    ]
    return [Reply({"members": members, "after": answer.get("continue", {}).get("cmcontinue")})]


def _answer_titles(wiki: MediaWiki, group: Sequence[Call]) -> list[Reply]:
    titles = [_tidy(str(call.parts["title"])) for call in group]
    query, pages = _ask_titles(wiki, titles, prop="pageprops", redirects=1, ppprop=_TRAITS)
    return [_resolve(query, pages, title) for title in titles]


def _answer_states(wiki: MediaWiki, group: Sequence[Call]) -> list[Reply]:
    parts = group[0].parts
    titles = {str(title): _tidy(str(title)) for title in parts["titles"]}  # type: ignore[union-attr]
    asked: dict[str, str | int] = {"prop": "info|revisions|pageprops", "rvprop": "ids|timestamp", "ppprop": _TRAITS}
    asked |= {"redirects": 1} if parts["follow"] else {}
    query, pages = _ask_titles(wiki, list(titles.values()), **asked)
    states: dict[str, Json] = {}
    for title, tidy in titles.items():
        resolved = _resolve(query, pages, tidy)
        newest = _merge_page(pages, resolved.body["title"]) if resolved.status == "ok" else {}  # type: ignore[call-overload,index]
        revision = (newest.get("revisions") or [{}])[0]
        told = {"revid": newest.get("lastrevid", revision.get("revid")), "timestamp": revision.get("timestamp")}
        states[title] = {**resolved.body, **told} if newest else None  # type: ignore[dict-item]
    return [Reply(states)]


def _ask_titles(
    wiki: MediaWiki, titles: Sequence[str], **asked: str | int
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Return what the API says of titles: how they lead to pages, and the pages, one that is told in parts several times."""
    more: dict[str, Any] = {}
    pages: list[Mapping[str, Any]] = []
    while True:
        answer = wiki.get("query", titles="|".join(dict.fromkeys(titles)), **asked, **more)
        pages += _list_pages(answer["query"])
        if "continue" not in answer:
            return answer["query"], pages
        more = answer["continue"]


def _merge_page(pages: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    """Return all that is told of a page."""
    told: dict[str, Any] = {}
    for page in pages:
        if page["title"] == title:
            told |= page
    return told


def _answer_search(wiki: MediaWiki, group: Sequence[Call]) -> list[Reply]:
    words, limit = str(group[0].parts["words"]), int(group[0].parts["limit"])  # type: ignore[arg-type]
    if not any(map(str.isalnum, words)):
        return [Reply({"titles": []})]
    answer = wiki.get("query", list="search", srsearch=words, srlimit=limit, srnamespace=0, srinfo="", srprop="")
    return [Reply({"titles": [page["title"] for page in answer["query"]["search"]]})]


def _resolve(query: Mapping[str, Any], pages: Sequence[Mapping[str, Any]], title: str) -> Reply:
    redirected_from, page = _find_page(query, pages, title)
    if page is None:
        return _no_end(redirected_from) if redirected_from else _no_page(title)
    traits: dict[str, Any] = {}
    for same in pages:
        if same["title"] == page["title"]:
            traits |= same.get("pageprops", {})
    return Reply(
        {
            "title": page["title"],
            "pageid": page.get("pageid"),
            "qid": traits.get("wikibase_item"),
            "is_disambiguation": "disambiguation" in traits,
            "redirected_from": redirected_from,
            "missing": _is_missing(page),
        }
    )


_ANSWERS: dict[str, Callable[[MediaWiki, Sequence[Call]], list[Reply]]] = {
    "page_revision_at": _answer_revision,
    "page_text": _answer_text,
    "category_members": _answer_members,
    "resolve_title": _answer_titles,
    "search": _answer_search,
    "page_states": _answer_states,
}


def _list_pages(query: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    pages = query.get("pages", ())
    return list(pages.values() if isinstance(pages, Mapping) else pages)


def _find_page(
    query: Mapping[str, Any], pages: Iterable[Mapping[str, Any]], title: str
) -> tuple[str | None, Mapping[str, Any] | None]:
    """Return the title that was redirected (None: it was not) and the page that a title leads to (None: none here)."""
    by_title = {page["title"]: page for page in pages}
    name = next((step["to"] for step in query.get("normalized", ()) if step["from"] == title), title)
    steps = {step["from"]: step["to"] for step in query.get("redirects", ())}
    redirected_from = name if name in steps else None
    while name in steps and name not in by_title:
        name = steps.pop(name)
    page = by_title.get(name)
    return redirected_from, None if page is None or "invalid" in page else page


def _is_missing(page: Mapping[str, Any]) -> bool:
    return page.get("missing", False) is not False or "pageid" not in page


def _no_end(title: str) -> Reply:
    return fail("redirect_loop", f"{title!r} leads in circles, or out of this wiki")


def _no_page(title: str) -> Reply:
    return fail("invalid_title", f"{title!r} is no title of a page of this wiki")


def _find_bad_title(call: Call) -> str | None:
    title = call.parts.get("title", call.parts.get("category"))
    if title is None or (_tidy(str(title)) and not _NOT_IN_TITLES & set(str(title))):
        return None
    return f"{title!r} is empty or holds one of {''.join(sorted(_NOT_IN_TITLES)).strip()}"


def _tidy(title: str) -> str:
    """Return a title as MediaWiki would write it but for its first letter, so that its answer can be told by it."""
    return unicodedata.normalize("NFC", " ".join(title.replace("_", " ").split()))


def _group_titles(calls: Sequence[Call], most: int) -> list[list[Call]]:
    """Return calls in groups whose titles fit into one address."""
    groups: list[list[Call]] = []
    length = 0
    for call in calls:
        longer = len(quote(str(call.parts["title"]))) + 3
        if not groups or len(groups[-1]) == most or length + longer > _LONGEST_TITLES:
            groups.append([])
            length = 0
        groups[-1].append(call)
        length += longer
    return groups
