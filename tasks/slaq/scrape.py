"""The first steps of SLAQ: draw category pages, read articles, sum page views, halve (paper §3.2, Appendix A.1)."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Literal
from urllib.parse import quote

from prefect import Task, task

from factmill.tasks.assets import load_article_text_removal_rules, load_list_entries
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.wikipedia import (
    PageReference,
    PageRevision,
    ResolvedTitle,
    RevisionHtmlContent,
    make_category_members_call,
    make_page_revision_at_call,
    make_resolve_title_call,
    make_revision_html_call,
    parse_category_members,
    parse_page_revision_call_body,
    parse_resolve_title_body,
    parse_revision_html,
)
from factmill.tasks.core.rows import MergedAway, Reject, RowOutcome, make_arrow_table
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.engine.batches import (
    BatchInProgress,
    make_batch_cache_key,
    open_batch,
    send_calls_and_mark_resultless_for_retry,
)
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.errors import ServiceUnreachable, UsageError
from factmill.tasks.lookups.popularity import look_up_page_views_by_title
from factmill.tasks.slaq.core.rows import (
    CategoryPage,
    CategoryPageCount,
    TopicArticle,
    TopicInPopularityHalf,
    ViewedTopic,
)
from factmill.tasks.slaq.core.topic_sampling import (
    WikipediaPageInSubcategory,
    sample_category_pages,
    select_most_and_least_viewed,
)
from factmill.tasks.slaq.params import SlaqInputs
from factmill.tasks.slaq.sources.user_topics import TOPIC_FORM, TopicFromTable, read_topic_from_table_row
from factmill.tasks.storage.source_files import MALFORMED_ROW, SourceFile, dump_row
from factmill.tasks.storage.user_tables import USER_TABLE_UNIT, iterate_user_table
from factmill.tasks.text.article_html import extract_article_text
from factmill.tasks.text.sanitize import format_did_you_mean

MEMBERS_PER_REQUEST = 500
_LIST_TITLE = re.compile(r"(?:lists?|index|outline|timeline|glossary|bibliography) of ", re.IGNORECASE)


def check_categories_exist_on_wiki(run: BuildRun, inputs: SlaqInputs) -> None:
    """Raise UsageError for a requested category without members and page on the wiki, before any page is drawn.

    The listing calls are the first ones of `draw_category_pages`, so they cost nothing extra. Categories of tables
    were checked with the parameters.
    """
    if inputs.own_source:
        return
    wiki = run.services.wikipedia
    asked = inputs.params.categories
    listings = [make_category_members_call(wiki.identity, each, "page", MEMBERS_PER_REQUEST) for each in asked]
    empty = send_calls_and_mark_resultless_for_retry(
        run, wiki, listings, lambda body: bool(parse_category_members(body).members)
    )
    pages = [make_resolve_title_call(wiki.identity, f"Category:{call.parts['category']}") for call in empty]
    unknown = send_calls_and_mark_resultless_for_retry(
        run, wiki, pages, lambda body: not parse_resolve_title_body(body).missing
    )
    if unknown:
        name = str(unknown[0].parts["title"]).removeprefix("Category:")
        raise UsageError(
            f"--categories {name!r}: {wiki.identity} has no such category"
            f"{format_did_you_mean(name, load_list_entries('slaq_categories'))}"
        )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def draw_category_pages(batch: StageBatch) -> BatchReceipt:
    """List the pages of a category and of its subcategories, and draw some at random (Appendix A.1)."""
    work = open_batch(batch)
    inputs, source = work.inputs(SlaqInputs), work.run.services.wikipedia.identity
    params = inputs.params
    counts = {"members": 0, "subcategories": 0}
    pages = _iterate_and_count_category_tree_pages(work, batch.unit, params.depth, counts)
    drawn = sample_category_pages(pages, params.seed, batch.unit, params.candidates)
    rows: list[RowOutcome] = []
    for number, member in enumerate(drawn, 1):
        row_id = f"{batch.unit}-{member.pageid}"
        work.add_input_row(row_id, member.title)
        page = CategoryPage(
            id=row_id,
            category=batch.unit,
            **asdict(member),
            source_name=source,
            source_row=number,
            source_licence=inputs.licence,
        )
        rows.append(page)
    work.extras = make_arrow_table(CategoryPageCount, [CategoryPageCount(id=batch.unit, drawn=len(drawn), **counts)])
    return work.finish(rows, CategoryPage)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def read_user_topics(batch: StageBatch) -> BatchReceipt:
    """Read one category's topics from the user's tables, and find the page that each title leads to (our alternative)."""
    work = open_batch(batch)
    wiki, own = work.run.services.wikipedia, work.inputs(SlaqInputs).own_source or UserSourceSettings()
    topics: dict[str, tuple[TopicFromTable, SourceFile, int]] = {}
    outcomes: list[RowOutcome] = []
    for file in work.source_files(USER_TABLE_UNIT):
        for row in iterate_user_table(file, own, TOPIC_FORM):
            row_id = f"{file.name}:{row.number}"
            topic = read_topic_from_table_row(row)
            if isinstance(topic, str):
                # such a row is of no category: the first one counts it
                if batch.unit == work.inputs(SlaqInputs).categories[0]:
                    work.add_input_row(row_id, dump_row(row.raw))
                    outcomes.append(Reject(row_id, MALFORMED_ROW, topic))
            elif topic.category == batch.unit:
                work.add_input_row(row_id, dump_row(row.raw))
                topics[row_id] = topic, file, row.number
    pages, failed = work.call_and_parse(
        wiki,
        (
            (row_id, row_id, make_resolve_title_call(wiki.identity, topic.title))
            for row_id, (topic, _, _) in topics.items()
        ),
        parse_resolve_title_body,
        "wikipedia_failed",
    )
    kept: dict[str, CategoryPage] = {}
    for row_id, (topic, file, number) in topics.items():
        page = pages.get(row_id)
        if page is None or page.missing:
            outcomes.append(
                failed.get(row_id) or Reject(row_id, "page_missing", f"{topic.title}: {wiki.identity} has no such page")
            )
            continue
        made = _make_page_of_table_topic(topic, page, file, number)
        first = kept.setdefault(made.id, made)
        if first is made:
            outcomes.append(made)
        elif first.title == made.title:
            outcomes.append(MergedAway(row_id, first.id))
        else:
            problem = f"page {made.pageid} is {first.title}, in another row; expected one title for each page"
            outcomes.append(Reject(row_id, MALFORMED_ROW, problem))
    count = CategoryPageCount(id=batch.unit, members=len(topics), subcategories=0, drawn=len(kept))
    work.extras = make_arrow_table(CategoryPageCount, [count])
    return work.finish(outcomes, CategoryPage)


def _make_page_of_table_topic(
    topic: TopicFromTable, page: ResolvedTitle, file: SourceFile, number: int
) -> CategoryPage:
    """Make the page that a topic of a table leads to; the wiki's page id counts, or the table's where the wiki has none."""
    stated = None if page.redirected_from else topic.pageid  # of a redirect, it is not the page's
    pageid = stated if page.pageid is None else page.pageid
    return CategoryPage(
        id=f"{topic.category}-{page.title if pageid is None else pageid}",
        category=topic.category,
        subcategory=topic.category,
        pageid=pageid,
        title=page.title,
        source_name=file.name,
        source_row=number,
        source_licence=file.licence,
        stated_views=topic.views,
    )


def choose_topic_reader(inputs: SlaqInputs) -> Task[[StageBatch], BatchReceipt]:
    """Return the stage that reads topics from the build's source."""
    return read_user_topics if inputs.own_source else draw_category_pages


def _iterate_and_count_category_tree_pages(
    work: BatchInProgress, category: str, depth: int, counts: dict[str, int]
) -> Iterator[WikipediaPageInSubcategory]:
    """Yield the pages of a category and its subcategories; visit each category once, even where they form cycles.

    Adds to the counts `members` and `subcategories`.
    """
    level, known = [category], {category}
    for step in range(depth + 1):
        below: list[str] = []
        for each in level:
            for page in _iterate_category_members(work, category, each, "page"):
                counts["members"] += 1
                yield WikipediaPageInSubcategory(page.pageid, page.title, each)
            if step < depth:
                found = (page.title for page in _iterate_category_members(work, category, each, "subcat"))
                below += [title for title in found if title not in known]
                known.update(below)
        counts["subcategories"] += len(dict.fromkeys(below))
        level = list(dict.fromkeys(below))


def _iterate_category_members(
    work: BatchInProgress, unit: str, category: str, kind: Literal["page", "subcat"]
) -> Iterator[PageReference]:
    """Yield a category's members, one request after another; ServiceUnreachable where a listing fails."""
    service, after = work.run.services.wikipedia, None
    while True:
        call = make_category_members_call(service.identity, category, kind, MEMBERS_PER_REQUEST, after)
        reply = work.get_call_records(service, [(unit, call)])[call.key].reply()
        if reply.status != "ok":
            raise ServiceUnreachable(
                f"{service.identity} failed to list the category {category}: {reply.error}; try again later"
            )
        found = parse_category_members(reply.body)
        yield from found.members
        after = found.after
        if after is None:
            return


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def merge_duplicate_pages(batch: StageBatch) -> BatchReceipt:
    """Merge pages that were drawn from several categories; the first category keeps the page."""
    work = open_batch(batch)
    # tables need not state page ids
    by_title = work.inputs(SlaqInputs).own_source is not None
    kept: dict[int | str | None, str] = {}
    outcomes: list[RowOutcome] = []
    for row in work.rows(CategoryPage):
        first = kept.setdefault(row.title if by_title else row.pageid, row.id)
        outcomes.append(row if first == row.id else MergedAway(row.id, first))
    return work.finish(outcomes, CategoryPage)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def scrape_articles(batch: StageBatch) -> BatchReceipt:
    """Fetch each page's main text as of the epoch; reject lists, redirects, disambiguations and short pages."""
    work = open_batch(batch)
    rows = work.rows(CategoryPage)
    wiki, at = work.run.services.wikipedia, work.inputs(SlaqInputs).epoch
    failed: dict[str, Reject] = {}
    by_title = ((row.id, row.id, make_resolve_title_call(wiki.identity, row.title)) for row in rows)
    pages, failed_now = work.call_and_parse(wiki, by_title, parse_resolve_title_body, "wikipedia_failed")
    for row_id, reject in failed_now.items():
        # an endless redirect has its own drop reason
        code, _, detail = reject.detail.partition(": ")
        is_loop = code == "redirect_loop"
        failed[row_id] = replace(reject, reason="redirect_loop", detail=detail) if is_loop else reject
    refused = {row.id: reason for row in rows if row.id in pages and (reason := _find_page_reject(row, pages[row.id]))}
    open_rows = [row for row in rows if row.id in pages and row.id not in refused]
    at_epoch = ((row.id, row.id, make_page_revision_at_call(wiki.identity, row.title, at)) for row in open_rows)
    revisions, failed_now = work.call_and_parse(wiki, at_epoch, parse_page_revision_call_body, "wikipedia_failed")
    failed |= failed_now
    dated = [
        (row, revision.revid) for row in open_rows if (revision := revisions.get(row.id)) and revision.revid is not None
    ]
    by_revid = ((row.id, row.id, make_revision_html_call(wiki.identity, revid, row.title)) for row, revid in dated)
    texts, failed_now = work.call_and_parse(wiki, by_revid, parse_revision_html, "wikipedia_failed")
    failed |= failed_now
    return work.finish(
        (
            failed.get(row.id)
            or refused.get(row.id)
            or _make_topic_article_or_reject(work, row, revisions[row.id], texts.get(row.id))
            for row in rows
        ),
        TopicArticle,
    )


def _find_page_reject(row: CategoryPage, page: ResolvedTitle) -> Reject | None:
    if page.missing:
        return _make_missing_page_reject(row)
    if page.redirected_from:
        return Reject(row.id, "redirect", f"{row.title} redirects to {page.title}")
    if page.is_disambiguation:
        return Reject(row.id, "disambiguation", f"{row.title} is a disambiguation page")
    return Reject(row.id, "list_page", f"{row.title} is a list") if _LIST_TITLE.match(row.title) else None


def _make_missing_page_reject(row: CategoryPage) -> Reject:
    return Reject(row.id, "page_missing", f"{row.title}: the page no longer exists")


def _make_topic_article_or_reject(
    work: BatchInProgress, row: CategoryPage, revision: PageRevision, page: RevisionHtmlContent | None
) -> RowOutcome:
    inputs = work.inputs(SlaqInputs)
    at, least = inputs.epoch, inputs.params.min_chars
    if revision.missing:
        return _make_missing_page_reject(row)
    if revision.revid is None or page is None:
        return Reject(row.id, "younger_than_epoch", f"{row.title} has no revision at or before {at}")
    text = extract_article_text(page.text, load_article_text_removal_rules()).text
    if len(text) < least:
        return Reject(row.id, "too_short", f"{len(text):,} characters of main text; expected at least {least:,}")
    url = f"{inputs.articles_at}{quote(page.title.replace(' ', '_'), safe='()!*,;:@/~$-_.')}"
    return row.extend_to(TopicArticle, url=url, revid=page.revid, text=text)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def count_topic_pageviews(batch: StageBatch) -> BatchReceipt:
    """Sum each article's page views over the days before the cut-off, or take those of the user's table (Appendix A.1)."""
    work = open_batch(batch)
    rows = work.rows(TopicArticle)
    inputs = work.inputs(SlaqInputs)
    first, last = inputs.views_from, inputs.views_to
    views: dict[str, int | None]
    failed: dict[str, Reject] = {}
    if first is None or last is None:
        views = {row.title: row.stated_views for row in rows}
    else:
        views, failed = look_up_page_views_by_title(work, ((row.id, row.title) for row in rows), first, last)
    return work.finish(
        (
            failed.get(row.id) or row.extend_to(ViewedTopic, views=views[row.title], views_from=first, views_to=last)
            for row in rows
        ),
        ViewedTopic,
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def split_topics_by_views(batch: StageBatch) -> BatchReceipt:
    """Select the most and the least viewed topics of each category, equally many, with spares (Appendix A.1)."""
    work = open_batch(batch)
    params = work.inputs(SlaqInputs).params
    per_half = params.per_half + params.spares
    groups: dict[str, list[ViewedTopic]] = defaultdict(list)
    for row in work.rows(ViewedTopic):
        groups[row.category].append(row)
    outcomes: list[RowOutcome] = []
    for category, topics in groups.items():
        most, least, left_out = select_most_and_least_viewed(topics, per_half)
        outcomes += [row.extend_to(TopicInPopularityHalf, half="most") for row in most]
        outcomes += [row.extend_to(TopicInPopularityHalf, half="least") for row in least]
        detail = f"{per_half} topics per half (with spares) of {len(topics)} in {category}"
        outcomes += [Reject(row.id, reason, f"{row.views} views; {detail}") for row, reason in left_out]
    return work.finish(outcomes, TopicInPopularityHalf)
