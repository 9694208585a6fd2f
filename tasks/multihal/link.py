"""Link names to Wikidata items (MultiHal, paper §2.2, "Entity Matching from Text to Knowledge Graphs").

Both linkers return mentions: `falcon` calls Falcon 2.0 and maps its DBpedia results to Wikidata; `labels` takes every
run of words that is a label or alias in the local graph. With either linker, addresses of English Wikipedia articles in
a question's context are linked too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prefect import task

from factmill.tasks.assets import load_list_entries
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.entity_linking import (
    EntityLinkingResult,
    make_entity_and_relation_linking_call,
    make_same_wikidata_items_call,
    parse_entity_linking_result,
    parse_same_as_item,
)
from factmill.tasks.core.calls.wikidata import make_resolve_item_redirect_call
from factmill.tasks.core.calls.wikipedia import make_resolve_title_call, parse_resolve_title_body
from factmill.tasks.core.rows import Reject, RowOutcome
from factmill.tasks.engine.batches import BatchInProgress, make_batch_cache_key, open_batch
from factmill.tasks.multihal.core.linking import (
    MAX_LINK_CANDIDATES,
    EntityMention,
    find_wikipedia_addresses_and_titles,
    list_linkable_spans,
    list_spelling_variants,
    select_mentions_with_ranked_candidates,
)
from factmill.tasks.multihal.core.rows import AnswerTypedQuestion, EntityLink, EntityLinkedQuestion
from factmill.tasks.multihal.params import MultiHalInputs

MAX_LINKED_OPTIONAL_ANSWERS = 2
"""Number of optional answers linked too (spec of the build; the paper links the expected answer only)."""

MentionsByText = dict[str, list[tuple[str, EntityMention]]]
"""Text → (linker, mention)."""


@dataclass(slots=True)
class UnlinkedNames:
    """Names and addresses for which no item was found."""

    causes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Row id → names and addresses, each with its cause."""
    transient_rows: set[str] = field(default_factory=set)
    """Rows with a transient cause: a service was down."""

    def add_cause(self, row_id: str, cause: str, is_transient: bool = False) -> None:
        """Add a cause to a row."""
        self.causes[row_id].append(cause)
        if is_transient:
            self.transient_rows.add(row_id)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def link_entities(batch: StageBatch) -> BatchReceipt:
    """Link names in question, answers and context to items, up to three candidates per name (§2.2)."""
    work = open_batch(batch)
    rows = work.rows(AnswerTypedQuestion)
    texts = [(row.id, text) for row in rows for text in (row.input, *_list_linkable_answers(row))]
    missed = UnlinkedNames()
    failed: dict[str, Reject] = {}
    linker = work.inputs(MultiHalInputs).params.linker
    found = _link_by_graph_labels(work, texts) if linker == "labels" else _link_by_falcon(work, texts, missed, failed)
    articles = _link_context_articles(work, rows, missed)
    outcomes = [failed.get(row.id) or _link_question(row, found, articles[row.id], missed) for row in rows]
    return work.finish(_resolve_link_redirects(work, outcomes), EntityLinkedQuestion)


def _list_linkable_answers(row: AnswerTypedQuestion) -> list[str]:
    """Return the answers to link to items; none where the answer is a value."""
    if row.answer_type != "other":
        return []
    return [row.output, *row.optional_output[:MAX_LINKED_OPTIONAL_ANSWERS]]


def _link_question(
    row: AnswerTypedQuestion, found: MentionsByText, articles: Sequence[EntityLink], missed: UnlinkedNames
) -> RowOutcome:
    subjects = [*_make_links(found[row.input]), *articles]
    objects = [link for text in _list_linkable_answers(row) for link in _make_links(found[text])]
    causes, in_passing = missed.causes[row.id], row.id in missed.transient_rows
    if not subjects:
        return Reject(row.id, "no_item_in_question", "; ".join([row.input, *causes]), in_passing)
    if row.answer_type == "other" and not objects:
        return Reject(row.id, "no_item_in_answer", "; ".join([*_list_linkable_answers(row), *causes]), in_passing)
    links = {"subject_links": _deduplicate_links(subjects), "object_links": _deduplicate_links(objects)}
    return row.extend_to(EntityLinkedQuestion, **links, missed=causes)


def _resolve_link_redirects(work: BatchInProgress, outcomes: Sequence[RowOutcome]) -> list[RowOutcome]:
    """Return the outcomes with redirecting QIDs replaced by their targets; links via local labels never redirect."""
    service = work.run.services.wikidata
    asked = [
        (row.id, link.qid, make_resolve_item_redirect_call(service.identity, link.qid))
        for row in outcomes
        if isinstance(row, EntityLinkedQuestion)
        for link in (*row.subject_links, *row.object_links)
        if link.via != "labels"
    ]
    targets, failed = work.call_and_parse(service, asked, str)

    def follow(links: Iterable[EntityLink]) -> list[EntityLink]:
        return _deduplicate_links(
            link
            if targets.get(link.qid, link.qid) == link.qid
            else link.model_copy(update={"qid": targets[link.qid], "redirected_from": link.qid})
            for link in links
        )

    settled: list[RowOutcome] = []
    for row in outcomes:
        if isinstance(row, EntityLinkedQuestion):
            links = {"subject_links": follow(row.subject_links), "object_links": follow(row.object_links)}
            settled.append(failed.get(row.id) or row.replace(**links))
        else:
            settled.append(row)
    return settled


def _make_links(vias_and_mentions: Iterable[tuple[str, EntityMention]]) -> Iterator[EntityLink]:
    for via, mention in vias_and_mentions:
        for rank, qid in enumerate(mention.qids, 1):
            yield EntityLink(qid=qid, surface=mention.surface, via=via, rank=rank)


def _deduplicate_links(links: Iterable[EntityLink]) -> list[EntityLink]:
    """Return the first link to each item, in order."""
    first: dict[str, EntityLink] = {}
    for link in links:
        first.setdefault(link.qid, link)
    return list(first.values())


def _link_by_graph_labels(work: BatchInProgress, texts: Sequence[tuple[str, str]]) -> MentionsByText:
    graph = work.run.services.graph()
    function_words = frozenset(load_list_entries("function_words"))
    spans = {text: list_linkable_spans(text, function_words) for _, text in texts}
    names = {form for found in spans.values() for span in found for form in list_spelling_variants(span.text)}
    named = graph.find_items_by_name(sorted(names))
    bearers = {name: [item.qid for item in items] for name, items in named.items() if items}
    degrees = graph.count_edges(sorted({qid for qids in bearers.values() for qid in qids}))
    weights = {str(qid): degree.out + degree.into for qid, degree in degrees.items()}
    mentions = {text: select_mentions_with_ranked_candidates(found, bearers, weights) for text, found in spans.items()}
    return {text: [("labels", mention) for mention in found] for text, found in mentions.items()}


def _link_by_falcon(
    work: BatchInProgress, texts: Sequence[tuple[str, str]], missed: UnlinkedNames, failed: dict[str, Reject]
) -> MentionsByText:
    service = work.run.services.falcon
    calls = {
        text: make_entity_and_relation_linking_call(service.identity, text, MAX_LINK_CANDIDATES) for _, text in texts
    }
    records = work.get_call_records(service, ((row_id, calls[text]) for row_id, text in texts))
    linked = {}
    resources: list[tuple[str, str]] = []
    for row_id, text in texts:
        reply = records[calls[text].key].reply()
        if reply.status != "ok":
            failed[row_id] = Reject(row_id, "linker_failed", f"Falcon: {text!r}: {reply.error}", reply.transient)
            continue
        linked[text] = parse_entity_linking_result(reply.body)
        resources += [(row_id, link.id) for link in linked[text].dbpedia_entities]
    same = _map_dbpedia_to_wikidata(work, resources, missed)
    return defaultdict(list, {text: _make_falcon_and_dbpedia_mentions(links, same) for text, links in linked.items()})


def _make_falcon_and_dbpedia_mentions(
    links: EntityLinkingResult, qids_by_dbpedia_id: Mapping[str, str]
) -> list[tuple[str, EntityMention]]:
    by_surface: dict[tuple[str, str], list[str]] = defaultdict(list)
    for link in links.items:
        by_surface["falcon", link.mention].append(link.id)
    for link in links.dbpedia_entities:
        if qid := qids_by_dbpedia_id.get(link.id):
            by_surface["dbpedia", link.mention].append(qid)
    return [
        (via, EntityMention(surface, tuple(dict.fromkeys(qids))[:MAX_LINK_CANDIDATES]))
        for (via, surface), qids in by_surface.items()
    ]


def _map_dbpedia_to_wikidata(
    work: BatchInProgress, resources: Sequence[tuple[str, str]], missed: UnlinkedNames
) -> dict[str, str]:
    """Return DBpedia resource → QID; add resources without one to `missed`, with the cause."""
    service = work.run.services.dbpedia
    calls = {uri: make_same_wikidata_items_call(service.identity, uri) for _, uri in resources}
    records = work.get_call_records(service, ((row_id, calls[uri]) for row_id, uri in resources))
    same: dict[str, str] = {}
    for row_id, uri in dict.fromkeys(resources):
        reply = records[calls[uri].key].reply()
        qid = parse_same_as_item(reply.body) if reply.status == "ok" else None
        if qid:
            same[uri] = qid
        else:
            missed.add_cause(row_id, f"{uri}: {reply.error or 'Wikidata has no equivalent item'}", reply.transient)
    return same


def _link_context_articles(
    work: BatchInProgress, rows: Sequence[AnswerTypedQuestion], missed: UnlinkedNames
) -> dict[str, list[EntityLink]]:
    """Return row id → links to the items of English Wikipedia articles whose addresses occur in its context."""
    service = work.run.services.wikipedia
    titles = [(row.id, *pair) for row in rows for pair in find_wikipedia_addresses_and_titles(row.context)]
    calls = {title: make_resolve_title_call(service.identity, title) for _, _, title in titles if title}
    records = work.get_call_records(service, ((row_id, calls[title]) for row_id, _, title in titles if title))
    links: dict[str, list[EntityLink]] = defaultdict(list)
    for row_id, address, title in titles:
        if title is None:
            missed.add_cause(row_id, f"{address}: not an article of the English Wikipedia")
            continue
        reply = records[calls[title].key].reply()
        page = parse_resolve_title_body(reply.body) if reply.status == "ok" else None
        if page is None:
            missed.add_cause(row_id, f"{address}: {reply.error}", reply.transient)
        elif page.missing:
            missed.add_cause(row_id, f"{address}: page not found")
        elif page.is_disambiguation:
            missed.add_cause(row_id, f"{address}: a disambiguation page")
        elif not page.qid:
            missed.add_cause(row_id, f"{address}: the article has no Wikidata item")
        else:
            links[row_id].append(EntityLink(qid=page.qid, surface=address, via="wikipedia", rank=1))
    return links
