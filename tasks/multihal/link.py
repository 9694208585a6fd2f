"""Link names to Wikidata items (MultiHal, paper §2.2, "Entity Matching from Text to Knowledge Graphs").

Both linkers return mentions: `falcon` calls Falcon 2.0 and maps its DBpedia results to Wikidata; `labels` takes every
run of words that is a label or alias in the local graph. With either linker, addresses of English Wikipedia articles in
a question's context are linked too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prefect import task

from factmill.tasks.assets import load_list
from factmill.tasks.core.calls.knowledge import call_resolve_item
from factmill.tasks.core.calls.linkers import Links, call_link, call_same_as, read_links, read_same_as
from factmill.tasks.core.calls.wikipedia import call_resolve_title, read_resolved_title
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.rows import Outcome, Reject
from factmill.tasks.engine.batches import Work, batch_key, work_on
from factmill.tasks.multihal.core.linking import (
    CANDIDATES,
    Mention,
    choose_mentions,
    find_article_titles,
    list_spans,
    spell_variants,
)
from factmill.tasks.multihal.core.rows import Link, LinkedQuestion, TypedQuestion
from factmill.tasks.multihal.params import MultiHalInputs

OPTIONAL_ANSWERS = 2
"""Number of optional answers linked too (spec of the build; the paper links the expected answer only)."""

Found = dict[str, list[tuple[str, Mention]]]
"""Text → (linker, mention)."""


@dataclass(slots=True)
class Missed:
    """Names and addresses for which no item was found."""

    causes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Row id → names and addresses, each with its cause."""
    in_passing: set[str] = field(default_factory=set)
    """Rows with a transient cause: a service was down."""

    def note(self, row_id: str, cause: str, in_passing: bool = False) -> None:
        """Add a cause to a row."""
        self.causes[row_id].append(cause)
        if in_passing:
            self.in_passing.add(row_id)


@task(cache_key_fn=batch_key, persist_result=True)
def link_entities(batch: Batch) -> Receipt:
    """Link names in question, answers and context to items, up to three candidates per name (§2.2)."""
    work = work_on(batch)
    rows = work.rows(TypedQuestion)
    texts = [(row.id, text) for row in rows for text in (row.input, *_answers(row))]
    missed = Missed()
    failed: dict[str, Reject] = {}
    linker = work.inputs(MultiHalInputs).params.linker
    found = _link_by_labels(work, texts) if linker == "labels" else _link_by_falcon(work, texts, missed, failed)
    articles = _link_contexts(work, rows, missed)
    outcomes = [failed.get(row.id) or _link(row, found, articles[row.id], missed) for row in rows]
    return work.finish(_follow_redirects(work, outcomes), LinkedQuestion)


def _answers(row: TypedQuestion) -> list[str]:
    """Return the answers to link to items; none where the answer is a value."""
    if row.answer_type != "other":
        return []
    return [row.output, *row.optional_output[:OPTIONAL_ANSWERS]]


def _link(row: TypedQuestion, found: Found, articles: Sequence[Link], missed: Missed) -> Outcome:
    subjects = [*_links(found[row.input]), *articles]
    objects = [link for text in _answers(row) for link in _links(found[text])]
    causes, in_passing = missed.causes[row.id], row.id in missed.in_passing
    if not subjects:
        return Reject(row.id, "no_item_in_question", "; ".join([row.input, *causes]), in_passing)
    if row.answer_type == "other" and not objects:
        return Reject(row.id, "no_item_in_answer", "; ".join([*_answers(row), *causes]), in_passing)
    return row.extend(LinkedQuestion, subject_links=_unique(subjects), object_links=_unique(objects), missed=causes)


def _follow_redirects(work: Work, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes with redirecting QIDs replaced by their targets; links via local labels never redirect."""
    service = work.run.services.wikidata
    asked = [
        (row.id, link.qid, call_resolve_item(service.identity, link.qid))
        for row in outcomes
        if isinstance(row, LinkedQuestion)
        for link in (*row.subject_links, *row.object_links)
        if link.via != "labels"
    ]
    targets, failed = work.look_up(service, asked, str)

    def follow(links: Iterable[Link]) -> list[Link]:
        return _unique(
            link
            if targets.get(link.qid, link.qid) == link.qid
            else link.model_copy(update={"qid": targets[link.qid], "redirected_from": link.qid})
            for link in links
        )

    def settle(row: Outcome) -> Outcome:
        if not isinstance(row, LinkedQuestion):
            return row
        if row.id in failed:
            return failed[row.id]
        return row.replace(subject_links=follow(row.subject_links), object_links=follow(row.object_links))

    return [settle(row) for row in outcomes]


def _links(mentions: Iterable[tuple[str, Mention]]) -> Iterator[Link]:
    for via, mention in mentions:
        for rank, qid in enumerate(mention.qids, 1):
            yield Link(qid=qid, surface=mention.surface, via=via, rank=rank)


def _unique(links: Iterable[Link]) -> list[Link]:
    """Return the first link to each item, in order."""
    first: dict[str, Link] = {}
    for link in links:
        first.setdefault(link.qid, link)
    return list(first.values())


def _link_by_labels(work: Work, texts: Sequence[tuple[str, str]]) -> Found:
    graph = work.run.services.graph()
    function_words = frozenset(load_list("function_words"))
    spans = {text: list_spans(text, function_words) for _, text in texts}
    names = {form for found in spans.values() for span in found for form in spell_variants(span.text)}
    bearers = {name: [item.qid for item in items] for name, items in graph.find(sorted(names)).items() if items}
    degrees = graph.degrees(sorted({qid for qids in bearers.values() for qid in qids}))
    weights = {str(qid): degree.out + degree.into for qid, degree in degrees.items()}
    return {
        text: [("labels", mention) for mention in choose_mentions(found, bearers, weights)]
        for text, found in spans.items()
    }


def _link_by_falcon(work: Work, texts: Sequence[tuple[str, str]], missed: Missed, failed: dict[str, Reject]) -> Found:
    service = work.run.services.falcon
    calls = {text: call_link(service.identity, text, CANDIDATES) for _, text in texts}
    records = work.call(service, ((row_id, calls[text]) for row_id, text in texts))
    linked = {}
    resources: list[tuple[str, str]] = []
    for row_id, text in texts:
        reply = records[calls[text].key].reply()
        if reply.status != "ok":
            failed[row_id] = Reject(row_id, "linker_failed", f"Falcon: {text!r}: {reply.error}", reply.transient)
            continue
        linked[text] = read_links(reply.body)
        resources += [(row_id, link.id) for link in linked[text].dbpedia_entities]
    same = _map_dbpedia(work, resources, missed)
    return defaultdict(list, {text: _mentions(links, same) for text, links in linked.items()})


def _mentions(links: Links, same: Mapping[str, str]) -> list[tuple[str, Mention]]:
    by_surface: dict[tuple[str, str], list[str]] = defaultdict(list)
    for link in links.items:
        by_surface["falcon", link.surface].append(link.id)
    for link in links.dbpedia_entities:
        if qid := same.get(link.id):
            by_surface["dbpedia", link.surface].append(qid)
    return [
        (via, Mention(surface, tuple(dict.fromkeys(qids))[:CANDIDATES])) for (via, surface), qids in by_surface.items()
    ]


def _map_dbpedia(work: Work, resources: Sequence[tuple[str, str]], missed: Missed) -> dict[str, str]:
    """Return DBpedia resource → QID; add resources without one to `missed`, with the cause."""
    service = work.run.services.dbpedia
    calls = {uri: call_same_as(service.identity, uri) for _, uri in resources}
    records = work.call(service, ((row_id, calls[uri]) for row_id, uri in resources))
    same: dict[str, str] = {}
    for row_id, uri in dict.fromkeys(resources):
        reply = records[calls[uri].key].reply()
        qid = read_same_as(reply.body) if reply.status == "ok" else None
        if qid:
            same[uri] = qid
        else:
            missed.note(row_id, f"{uri}: {reply.error or 'no item of Wikidata is the same'}", reply.transient)
    return same


def _link_contexts(work: Work, rows: Sequence[TypedQuestion], missed: Missed) -> dict[str, list[Link]]:
    """Return row id → links to the items of English Wikipedia articles whose addresses occur in its context."""
    service = work.run.services.wikipedia
    titles = [(row.id, *pair) for row in rows for pair in find_article_titles(row.context)]
    calls = {title: call_resolve_title(service.identity, title) for _, _, title in titles if title}
    records = work.call(service, ((row_id, calls[title]) for row_id, _, title in titles if title))
    links: dict[str, list[Link]] = defaultdict(list)
    for row_id, address, title in titles:
        if title is None:
            missed.note(row_id, f"{address}: no article of the English Wikipedia")
            continue
        reply = records[calls[title].key].reply()
        page = read_resolved_title(reply.body) if reply.status == "ok" else None
        if page is None:
            missed.note(row_id, f"{address}: {reply.error}", reply.transient)
        elif page.missing:
            missed.note(row_id, f"{address}: there is no such page")
        elif page.is_disambiguation:
            missed.note(row_id, f"{address}: a disambiguation page")
        elif not page.qid:
            missed.note(row_id, f"{address}: an article without an item of Wikidata")
        else:
            links[row_id].append(Link(qid=page.qid, surface=address, via="wikipedia", rank=1))
    return links
