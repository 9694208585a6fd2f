"""Answer the calls of a Wikipedia from a ZIM file (tasks/zim_archive.py), with the responses of a MediaWiki.

The file is one state of the wiki: revisions of another day, members of categories and revisions that are not the one in
the file are failed responses that say so. Page ids and items of articles are null, since the file has none.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler, make_failed_response
from factmill.tasks.core.calls.operation import CallParts
from factmill.tasks.core.digests import JsonValue
from factmill.tasks.text.wikipedia_urls import canonical_title, find_page_title_problem
from factmill.tasks.zim_archive import ZimArchive, ZimTitleResolution


class WikipediaFileClient:
    """Client that answers calls from a ZIM file."""

    is_outside = True

    def __init__(self, archive: ZimArchive) -> None:
        self.identity = archive.identity
        self._archive = archive
        self._lock = threading.Lock()
        self._name = f"this world's Wikipedia is the ZIM file {archive.path.name} of {archive.date}"
        self._answers: Mapping[str, Callable[[CallParts], CallResponse]] = {
            "page_revision_at": self._find_revision,
            "page_text": self._load_text,
            "resolve_title": self._resolve_title,
            "page_states": self._load_states,
            "search": self._search,
            "category_members": self._refuse_category,
        }

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer calls; WikipediaFileError when the file was replaced since it was opened."""
        for call in calls:
            answer = self._answers.get(call.operation)
            if answer is None:
                raise ValueError(
                    f"a Wikipedia in a file cannot answer {call.operation}: expected {', '.join(self._answers)}"
                )
            with self._lock:
                self._archive.check_unchanged()
                reply = answer(call.parts)
                # what was read from a file that was replaced meanwhile is not delivered
                self._archive.check_unchanged()
            deliver(call, reply)

    def _find_revision(self, parts: CallParts) -> CallResponse:
        if str(parts["at"])[:10] != self._archive.date.isoformat():
            return make_failed_response("other_day", f"{self._name}; revisions as of {parts['at']} are not there")
        found = self._find_article(parts["title"])
        if isinstance(found, CallResponse):
            return found
        article = found.article
        body: dict[str, JsonValue] = {
            "title": article.title if article else canonical_title(parts["title"]),
            "pageid": None,
            "revid": article.revid if article else None,
            "timestamp": article.edited_on if article else None,
            "redirected_from": found.redirected_from,
            "missing": article is None,
        }
        if found.redirected_from and not parts.get("follow", True):
            unfollowed = {"title": found.redirected_from, "revid": None, "timestamp": None, "redirected_from": None}
            return CallResponse({**body, **unfollowed, "missing": False})
        if article and article.revid is None:
            return make_failed_response(
                "revision_not_stated",
                f"{self._name}; its entry {article.path} does not state from which revision it was made",
            )
        return CallResponse(body)

    def _load_text(self, parts: CallParts) -> CallResponse:
        if "title" not in parts:
            return make_failed_response(
                "title_needed", f"{self._name}, which finds texts by title; expected the part title"
            )
        found = self._find_article(parts["title"])
        if isinstance(found, CallResponse):
            return found
        article, revid = found.article, parts["revid"]
        if article is None or article.revid != revid:
            there = f"revision {article.revid} of {article.title}" if article and article.revid else "no revision"
            detail = f"{self._name}, which has {there} under {parts['title']!r}; revision {revid} is not there"
            return make_failed_response("nosuchrevid", detail)
        place: dict[str, JsonValue] = {"file": self._archive.path.name, "entry": article.path}
        return CallResponse({"revid": revid, "pageid": None, "title": article.title, **place, "text": article.text})

    def _resolve_title(self, parts: CallParts) -> CallResponse:
        found = self._find_article(parts["title"])
        return (
            found
            if isinstance(found, CallResponse)
            else CallResponse(_make_resolved_title_response_body(parts["title"], found))
        )

    def _load_states(self, parts: CallParts) -> CallResponse:
        states: dict[str, JsonValue] = {}
        for title in parts["titles"]:
            found = self._find_article(title)
            if isinstance(found, CallResponse):
                states[title] = None
                continue
            version: dict[str, JsonValue] = {"revid": None, "timestamp": None}
            if found.article:
                version = {"revid": found.article.revid, "timestamp": found.article.edited_on}
            states[title] = {**_make_resolved_title_response_body(title, found), **version}
        return CallResponse(states)

    def _search(self, parts: CallParts) -> CallResponse:
        if not any(map(str.isalnum, parts["words"])):
            return CallResponse({"titles": []})
        if not self._archive.has_search:
            return make_failed_response("no_search_index", f"{self._name}, which holds no full-text index")
        titles: list[JsonValue] = [*self._archive.search(parts["words"], parts["limit"])]
        return CallResponse({"titles": titles})

    def _refuse_category(self, parts: CallParts) -> CallResponse:
        detail = f"{self._name}, which does not list the members of {parts['category']!r}"
        return make_failed_response("no_categories", detail)

    def _find_article(self, title: str) -> ZimTitleResolution | CallResponse:
        """Return where a title leads, or why it leads nowhere as a failed response."""
        spelling = canonical_title(title)
        if trouble := find_page_title_problem(spelling):
            return make_failed_response("invalid_title", f"{title!r}: {trouble}")
        found = self._archive.find_article(spelling)
        if found.is_loop:
            return make_failed_response("redirect_loop", f"{title!r} leads in circles in {self._archive.path.name}")
        return found


def _make_resolved_title_response_body(title: str, found: ZimTitleResolution) -> dict[str, JsonValue]:
    return {
        "title": found.article.title if found.article else canonical_title(title),
        "pageid": None,
        "qid": None,
        "is_disambiguation": bool(found.article and found.article.is_disambiguation),
        "redirected_from": found.redirected_from,
        "missing": found.article is None,
    }
