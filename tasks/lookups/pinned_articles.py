"""Find Wikipedia articles as of an epoch, with their full text: evidence for sub-answers (FanOutQA, §3.1, Appendix B).

A title is resolved as of the epoch, not as of today. Wikipedia follows redirects as they are today; so if one was
followed, the title's own history is checked first: an article merged since then is still the evidence, and a redirect
of that time leads to its target of that time. Only a title that had no page then (left by a later move) takes the
target of today's redirect. A page that is an article today may have been a redirect at the epoch; its rendered text
shows that, and is needed anyway to look for answers.

If a page was moved and another page has taken its title since, the title is reported as younger than the epoch: the
history is under another title, which only the wiki's move log records.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

from factmill.tasks.assets import load_evidence_text_removal_rules
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.wikipedia import (
    PageRevision,
    make_page_revision_at_call,
    make_revision_html_call,
    parse_page_revision_call_body,
    parse_revision_html,
)
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.text.article_html import extract_article_text
from factmill.tasks.text.values.answer_search import index_text
from factmill.tasks.text.wikipedia_urls import (
    canonical_title,
    find_article_title_problem,
    find_page_title_problem,
    find_redirect,
)

K = TypeVar("K")
MAX_TITLE_REDIRECTS = 5
"""Largest number of successive redirects followed."""
_DELETED_REVISION_CODES = ("nosuchrevid", "missingcontent", "permissiondenied", "cantundelete")
"""MediaWiki's error codes for a revision that is permanently deleted or hidden."""

_CACHED_ARTICLES = 128
"""Number of cached articles, since several steps search a batch's articles; some MB each on a large wiki."""
index_article_text = lru_cache(maxsize=_CACHED_ARTICLES)(index_text)
"""Index an article's text for answer search (text/values/answer_search.py), cached."""


@dataclass(frozen=True, slots=True)
class PinnedArticleRevision:
    """An article's revision as of the epoch."""

    title: str
    """The page's present title."""
    pageid: int | None
    """None: the article is in a file, which holds no page ids."""
    revid: int
    timestamp: str | None
    """Time of the revision (ISO 8601, UTC); of an article in a file its day, or None where it is not stated."""


@dataclass(frozen=True, slots=True)
class MissingArticleReason:
    """Why an article or its text is missing."""

    reason: str
    """evidence_missing, younger_than_epoch, invalid_title, redirect_loop or wikipedia_failed."""
    detail: str
    retryable: bool = False
    """True for a transient failure."""


def pin_article_revisions_by_title_at_epoch(
    work: BatchInProgress, row_title_pairs: Iterable[tuple[str, str]], epoch: str
) -> dict[str, PinnedArticleRevision | MissingArticleReason]:
    """Return title → its article at the time `epoch` (ISO 8601, UTC), or why there is none; `row_title_pairs`: (row id, title).

    Spellings of one title are looked up once. Each title takes one call for the revision, one for its text, and more if
    there are redirects.
    """
    spellings: dict[str, str] = {}
    rows: dict[str, list[str]] = defaultdict(list)
    for row_id, title in row_title_pairs:
        spelling = spellings.setdefault(title, canonical_title(title))
        rows[spelling].append(row_id)
    search = _TitlesToArticlesResolver(work, epoch, rows)
    for _ in range(MAX_TITLE_REDIRECTS + 1):
        search.advance_trails()
    for title, trail in search.trails.items():
        detail = f"{title} led on by more than {MAX_TITLE_REDIRECTS} redirects at {epoch}: {' → '.join(trail)}"
        search.found[title] = MissingArticleReason("redirect_loop", detail)
    return {title: search.found[spelling] for title, spelling in spellings.items()}


def load_article_texts(
    work: BatchInProgress, revisions: Iterable[tuple[str, str, int]]
) -> dict[int, str | MissingArticleReason]:
    """Return revision id → the article's text; `revisions`: (row id, title that leads to the article, revision id).

    Blank lines separate headings, paragraphs, list items, captions and table cells. A revision that is unavailable or
    has no text gives an Unpinned.
    """
    rows: dict[int, list[str]] = defaultdict(list)
    titles: dict[int, str] = {}
    for row_id, title, revid in revisions:
        rows[revid].append(row_id)
        titles.setdefault(revid, title)
    service = work.run.services.wikipedia
    calls = {revid: make_revision_html_call(service.identity, revid, title) for revid, title in titles.items()}
    return {revid: _read_article_text(revid, reply) for revid, reply in _send_wikipedia_calls(work, rows, calls)}


def _read_article_text(revid: int, reply: CallResponse) -> str | MissingArticleReason:
    if reply.status != "ok":
        return _make_missing_article_reason(f"revision {revid}", reply)
    page = parse_revision_html(reply.body)
    pieces: list[str] = []
    above: tuple[str, ...] = ()
    for section in extract_article_text(page.text, load_evidence_text_removal_rules()).sections:
        same = next((at for at, pair in enumerate(zip(section.path, above, strict=False)) if pair[0] != pair[1]), None)
        known = min(len(section.path), len(above)) if same is None else same
        pieces += [*section.path[known:], *section.paragraphs]
        above = section.path
    text = "\n\n".join(pieces)
    return text or MissingArticleReason("evidence_missing", f"revision {revid} of {page.title} shows no text")


@dataclass(slots=True)
class _TitlesToArticlesResolver:
    """Step-by-step resolution of titles to articles, with the redirects followed so far."""

    work: BatchInProgress
    at: str
    rows: Mapping[str, list[str]]
    """Title in MediaWiki's spelling → rows that need it."""
    trails: dict[str, list[str]] = field(default_factory=dict)
    """Unresolved title → titles followed so far; the last one is to be looked up."""
    found: dict[str, PinnedArticleRevision | MissingArticleReason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for title in self.rows:
            if trouble := find_page_title_problem(title):
                self.found[title] = MissingArticleReason("invalid_title", f"{title!r}: {trouble}")
            else:
                self.trails[title] = [title]

    def advance_trails(self) -> None:
        """Look up the last title of every trail; finish the trail, or extend it by the redirect target at the epoch."""
        today = self._look_up_revisions(self.trails, follow=True)
        own = self._look_up_revisions(
            [title for title in today if _was_reached_by_redirect(today[title])], follow=False
        )
        then = {title: each for title, each in own.items() if isinstance(each, PageRevision) and each.revid is not None}
        failed = {title: each for title, each in own.items() if isinstance(each, MissingArticleReason)}
        chosen = {**today, **failed, **then}
        targets = self._look_up_redirect_targets(chosen)
        # after pages were swapped, a title's history is that of a redirect to itself: today's redirect is right
        swapped = {title: today[title] for title in then if targets[title] == self.trails[title][-1]}
        chosen |= swapped
        targets |= self._look_up_redirect_targets(swapped)
        for title, revision in chosen.items():
            trail, target = self.trails[title], targets.get(title)
            if isinstance(revision, PageRevision) and canonical_title(revision.title) not in trail:
                trail.append(canonical_title(revision.title))
            if isinstance(target, str) and target not in trail and not _find_target_problem(trail[0], target):
                trail.append(target)
            else:
                del self.trails[title]
                self.found[title] = self._make_result(trail, revision, target)

    def _make_result(
        self, trail: list[str], revision: PageRevision | MissingArticleReason, target: str | MissingArticleReason | None
    ) -> PinnedArticleRevision | MissingArticleReason:
        way = " → ".join(trail)
        if failed := next((each for each in (revision, target) if isinstance(each, MissingArticleReason)), None):
            return replace(failed, detail=f"{way}: {failed.detail}")
        assert isinstance(revision, PageRevision)
        if revision.missing:
            return MissingArticleReason("evidence_missing", f"{way}: there is no such page")
        if revision.revid is None:
            detail = f"{way}: the page has no revision of {self.at} or before"
            later = f"; its first one is of {revision.first}, so --epoch {revision.first} or later has it"
            return MissingArticleReason("younger_than_epoch", f"{detail}{later if revision.first else ''}")
        end = target if isinstance(target, str) else revision.title
        if target is not None and end in trail:
            return MissingArticleReason("redirect_loop", f"{way}: led back to {end} at {self.at}")
        if trouble := _find_target_problem(trail[0], end):
            return MissingArticleReason("evidence_missing", f"{way}: led to {end}; {trouble}")
        return PinnedArticleRevision(revision.title, revision.pageid, revision.revid, revision.timestamp)

    def _look_up_revisions(self, titles: Iterable[str], follow: bool) -> dict[str, PageRevision | MissingArticleReason]:
        service = self.work.run.services.wikipedia
        asked = {title: self.trails[title][-1] for title in titles}
        calls = {
            title: make_page_revision_at_call(service.identity, last, self.at, follow) for title, last in asked.items()
        }
        return {
            title: parse_page_revision_call_body(reply.body)
            if reply.status == "ok"
            else _make_missing_article_reason(calls[title].parts["title"], reply)
            for title, reply in _send_wikipedia_calls(self.work, self.rows, calls)
        }

    def _look_up_redirect_targets(
        self, revisions: Mapping[str, PageRevision | MissingArticleReason]
    ) -> dict[str, str | MissingArticleReason | None]:
        """Return title → its revision's redirect target; None for an article, Unpinned if the text is unavailable."""
        service = self.work.run.services.wikipedia
        found: dict[str, str | MissingArticleReason | None] = dict.fromkeys(revisions)
        shown = {
            title: make_revision_html_call(service.identity, each.revid, each.title)
            for title, each in revisions.items()
            if isinstance(each, PageRevision) and each.revid is not None
        }
        for title, reply in _send_wikipedia_calls(self.work, self.rows, shown):
            if reply.status != "ok":
                found[title] = _make_missing_article_reason(f"revision {shown[title].parts['revid']}", reply)
            elif redirect := find_redirect(parse_revision_html(reply.body).text):
                found[title] = canonical_title(redirect.partition("#")[0])
        return found


def _find_target_problem(requested_title: str, target_title: str) -> str | None:
    """Return why a title cannot be a redirect target, or None: articles redirect to articles, other pages to any page."""
    return (
        find_page_title_problem(target_title)
        if find_article_title_problem(requested_title)
        else find_article_title_problem(target_title)
    )


def _was_reached_by_redirect(revision: PageRevision | MissingArticleReason) -> bool:
    if isinstance(revision, MissingArticleReason):
        return revision.reason == "redirect_loop"
    return revision.redirected_from is not None


def _send_wikipedia_calls(
    work: BatchInProgress, rows: Mapping[K, list[str]], calls: Mapping[K, Call]
) -> Iterator[tuple[K, CallResponse]]:
    """Send a call for every key, on behalf of all rows that need it; yield (key, reply)."""
    pairs = ((row_id, call) for key, call in calls.items() for row_id in rows[key])
    records = work.get_call_records(work.run.services.wikipedia, pairs) if calls else {}
    return ((key, records[call.key].reply()) for key, call in calls.items())


def _make_missing_article_reason(what: object, reply: CallResponse) -> MissingArticleReason:
    error = reply.error or "no reason given"
    code = error.partition(":")[0]
    if code in ("invalid_title", "redirect_loop"):
        return MissingArticleReason(code, error)
    if code.startswith(_DELETED_REVISION_CODES):
        return MissingArticleReason("evidence_missing", f"{what}: {error}")
    return MissingArticleReason("wikipedia_failed", f"{what}: {error}", reply.transient)
