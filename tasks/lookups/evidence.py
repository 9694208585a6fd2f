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

from factmill.tasks.assets import load_removed_from_evidence
from factmill.tasks.core.calls.call import Call, Reply
from factmill.tasks.core.calls.wikipedia import (
    Revision,
    call_page_revision_at,
    call_page_text,
    read_page_text,
    read_revision,
)
from factmill.tasks.engine.batches import Work
from factmill.tasks.text.article import Article, read_article
from factmill.tasks.text.values.answers import read_known_text
from factmill.tasks.text.wikipedia_addresses import find_article_trouble, find_redirect, find_title_trouble, spell_title

K = TypeVar("K")
MOST_REDIRECTS = 5
"""Largest number of successive redirects followed."""
_GONE = ("nosuchrevid", "missingcontent", "permissiondenied", "cantundelete")
"""MediaWiki's error codes for a revision that is permanently deleted or hidden."""

_ARTICLES_KNOWN = 128
"""Number of cached articles, since several steps search a batch's articles; some MB each on a large wiki."""
know_article = lru_cache(maxsize=_ARTICLES_KNOWN)(read_known_text)
"""Index an article's text for answer search (text/values/answers.py), cached."""


@dataclass(frozen=True, slots=True)
class PinnedArticle:
    """An article's revision as of the epoch."""

    title: str
    """The page's present title."""
    pageid: int
    revid: int
    timestamp: str
    """Time of the revision (ISO 8601, UTC)."""


@dataclass(frozen=True, slots=True)
class Unpinned:
    """Why an article or its text is missing."""

    reason: str
    """evidence_missing, younger_than_epoch, invalid_title, redirect_loop or wikipedia_failed."""
    detail: str
    retryable: bool = False
    """True for a transient failure."""


def pin_articles(work: Work, asked: Iterable[tuple[str, str]], at: str) -> dict[str, PinnedArticle | Unpinned]:
    """Return title → its article at the time `at` (ISO 8601, UTC), or why there is none; `asked`: (row id, title).

    Spellings of one title are looked up once. Each title takes one call for the revision, one for its text, and more if
    there are redirects.
    """
    spellings: dict[str, str] = {}
    rows: dict[str, list[str]] = defaultdict(list)
    for row_id, title in asked:
        spelling = spellings.setdefault(title, spell_title(title))
        rows[spelling].append(row_id)
    search = _Search(work, at, rows)
    for _ in range(MOST_REDIRECTS + 1):
        search.take_step()
    for title, trail in search.trails.items():
        detail = f"{title} led on by more than {MOST_REDIRECTS} redirects at {at}: {' → '.join(trail)}"
        search.found[title] = Unpinned("redirect_loop", detail)
    return {title: search.found[spelling] for title, spelling in spellings.items()}


def load_article_texts(work: Work, asked: Iterable[tuple[str, int]]) -> dict[int, str | Unpinned]:
    """Return revision id → the article's text; `asked`: (row id, revision id).

    Blank lines separate headings, paragraphs, list items, captions and table cells. A revision that is unavailable or
    has no text gives an Unpinned.
    """
    rows: dict[int, list[str]] = defaultdict(list)
    for row_id, revid in asked:
        rows[revid].append(row_id)
    service = work.run.services.wikipedia
    calls = {revid: call_page_text(service.identity, revid) for revid in rows}
    return {revid: _read_text(revid, reply) for revid, reply in _ask(work, rows, calls)}


def _read_text(revid: int, reply: Reply) -> str | Unpinned:
    if reply.status != "ok":
        return _read_failure(f"revision {revid}", reply)
    page = read_page_text(reply.body)
    text = _join_sections(read_article(page.text, load_removed_from_evidence()))
    return text or Unpinned("evidence_missing", f"revision {revid} of {page.title} shows no text")


def _join_sections(article: Article) -> str:
    """Return the article's text with each heading once, before its content."""
    pieces: list[str] = []
    above: tuple[str, ...] = ()
    for section in article.sections:
        same = next((at for at, pair in enumerate(zip(section.path, above, strict=False)) if pair[0] != pair[1]), None)
        known = min(len(section.path), len(above)) if same is None else same
        pieces += [*section.path[known:], *section.paragraphs]
        above = section.path
    return "\n\n".join(pieces)


@dataclass(slots=True)
class _Search:
    """Step-by-step resolution of titles to articles, with the redirects followed so far."""

    work: Work
    at: str
    rows: Mapping[str, list[str]]
    """Title in MediaWiki's spelling → rows that need it."""
    trails: dict[str, list[str]] = field(default_factory=dict)
    """Unresolved title → titles followed so far; the last one is to be looked up."""
    found: dict[str, PinnedArticle | Unpinned] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for title in self.rows:
            if trouble := find_title_trouble(title):
                self.found[title] = Unpinned("invalid_title", f"{title!r}: {trouble}")
            else:
                self.trails[title] = [title]

    def take_step(self) -> None:
        """Look up the last title of every trail; finish the trail, or extend it by the redirect target at the epoch."""
        today = self._date(self.trails, follow=True)
        own = self._date([title for title in today if _is_redirected(today[title])], follow=False)
        then = {title: each for title, each in own.items() if isinstance(each, Revision) and each.revid is not None}
        failed = {title: each for title, each in own.items() if isinstance(each, Unpinned)}
        chosen = {**today, **failed, **then}
        targets = self._find_targets(chosen)
        # after pages were swapped, a title's history is that of a redirect to itself: today's redirect is right
        swapped = {title: today[title] for title in then if targets[title] == self.trails[title][-1]}
        chosen |= swapped
        targets |= self._find_targets(swapped)
        for title, revision in chosen.items():
            self._settle(title, revision, targets.get(title))

    def _settle(self, title: str, revision: Revision | Unpinned, target: str | Unpinned | None) -> None:
        trail = self.trails[title]
        if isinstance(revision, Revision) and spell_title(revision.title) not in trail:
            trail.append(spell_title(revision.title))
        if isinstance(target, str) and target not in trail and not _refuse_end(trail[0], target):
            trail.append(target)
            return
        del self.trails[title]
        self.found[title] = self._judge(trail, revision, target)

    def _judge(
        self, trail: list[str], revision: Revision | Unpinned, target: str | Unpinned | None
    ) -> PinnedArticle | Unpinned:
        way = " → ".join(trail)
        if failed := next((each for each in (revision, target) if isinstance(each, Unpinned)), None):
            return replace(failed, detail=f"{way}: {failed.detail}")
        assert isinstance(revision, Revision)
        if revision.missing:
            return Unpinned("evidence_missing", f"{way}: there is no such page")
        if revision.pageid is None or revision.revid is None or revision.timestamp is None:
            told = f"{way}: the page has no revision of {self.at} or before"
            first = (
                revision.first
                and f"; its first one is of {revision.first}, so --epoch {revision.first} or later has it"
            )
            return Unpinned("younger_than_epoch", f"{told}{first or ''}")
        end = target if isinstance(target, str) else revision.title
        if target is not None and end in trail:
            return Unpinned("redirect_loop", f"{way}: led back to {end} at {self.at}")
        if trouble := _refuse_end(trail[0], end):
            return Unpinned("evidence_missing", f"{way}: led to {end}; {trouble}")
        return PinnedArticle(revision.title, revision.pageid, revision.revid, revision.timestamp)

    def _date(self, titles: Iterable[str], follow: bool) -> dict[str, Revision | Unpinned]:
        service = self.work.run.services.wikipedia
        calls = {
            title: call_page_revision_at(service.identity, self.trails[title][-1], self.at, follow) for title in titles
        }
        return {
            title: read_revision(reply.body)
            if reply.status == "ok"
            else _read_failure(calls[title].parts["title"], reply)
            for title, reply in _ask(self.work, self.rows, calls)
        }

    def _find_targets(self, revisions: Mapping[str, Revision | Unpinned]) -> dict[str, str | Unpinned | None]:
        """Return title → its revision's redirect target; None for an article, Unpinned if the text is unavailable."""
        service = self.work.run.services.wikipedia
        revids = {
            title: each.revid
            for title, each in revisions.items()
            if isinstance(each, Revision) and each.revid is not None
        }
        found: dict[str, str | Unpinned | None] = dict.fromkeys(revisions)
        shown = {title: call_page_text(service.identity, revid) for title, revid in revids.items()}
        for title, reply in _ask(self.work, self.rows, shown):
            if reply.status != "ok":
                found[title] = _read_failure(f"revision {revids[title]}", reply)
            elif redirect := find_redirect(read_page_text(reply.body).text):
                found[title] = spell_title(redirect.partition("#")[0])
        return found


def _refuse_end(asked: str, title: str) -> str | None:
    """Return why `title` is no valid target for `asked`, or None: an article leads to articles, another page to any."""
    return find_title_trouble(title) if find_article_trouble(asked) else find_article_trouble(title)


def _is_redirected(revision: Revision | Unpinned) -> bool:
    if isinstance(revision, Unpinned):
        return revision.reason == "redirect_loop"
    return revision.redirected_from is not None


def _ask(work: Work, rows: Mapping[K, list[str]], calls: Mapping[K, Call]) -> Iterator[tuple[K, Reply]]:
    """Send a call for every key, on behalf of all rows that need it; yield (key, reply)."""
    pairs = ((row_id, call) for key, call in calls.items() for row_id in rows[key])
    records = work.call(work.run.services.wikipedia, pairs) if calls else {}
    return ((key, records[call.key].reply()) for key, call in calls.items())


def _read_failure(what: object, reply: Reply) -> Unpinned:
    error = reply.error or "no reason given"
    code = error.partition(":")[0]
    if code in ("invalid_title", "redirect_loop"):
        return Unpinned(code, error)
    if code.startswith(_GONE):
        return Unpinned("evidence_missing", f"{what}: {error}")
    return Unpinned("wikipedia_failed", f"{what}: {error}", reply.transient)
