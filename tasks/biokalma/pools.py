"""What is known of two people, and the paragraph to begin with (BioKaLMA, paper Appendix A.2, A.3)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prefect import task

from tasks.assets import load_properties, load_removed
from tasks.biokalma.core.evolution import count_relations
from tasks.biokalma.core.knowledge_sentences import verbalise_piece
from tasks.biokalma.core.opening_paragraph import find_opening, finish_paragraph
from tasks.biokalma.core.pair_relations import fold_name
from tasks.biokalma.core.rows import CountedPair, DescribedPair, PooledPair, RelationCount, ResolvedPair
from tasks.biokalma.params import BiokalmaInputs
from tasks.biokalma.sources.lists import load_relation_forms
from tasks.core.authoring.pieces import Piece
from tasks.core.calls.knowledge import HUMAN, Fact, call_describe_item, call_item_facts, read_description, read_facts
from tasks.core.calls.wikipedia import (
    PageText,
    call_page_revision_at,
    call_page_text,
    read_page_text,
    read_revision,
)
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Outcome, Reject, arrow_table
from tasks.engine.batches import Work, batch_key, work_on
from tasks.text.article import read_article
from tasks.text.ids import id_number
from tasks.text.values.literals import format_date

DATES = frozenset({"P569", "P570", "P571", "P576"})
"""Birth and death; beginning and end of what is no person. Other dates and numbers are no knowledge of a pool."""
BORN = "P569"
COUNTRIES, CITIES, OCCUPATIONS = ("P27",), ("P19", "P20"), ("P106",)
"""Properties that the report counts (§2.3)."""
WIKIPEDIA_LICENCE, WIKIDATA_LICENCE = "CC-BY-SA-4.0", "CC0-1.0"


@task(cache_key_fn=batch_key, persist_result=True)
def pool_knowledge(batch: Batch) -> Receipt:
    """Read the graph of one hop around both people, without what says nothing of a life (Appendix A.2)."""
    work = work_on(batch)
    rows = work.rows(ResolvedPair)
    service = work.run.services.wikidata
    calls = ((row.id, qid, call_item_facts(service.identity, qid)) for row in rows for qid in _people(row))
    facts, failed = work.look_up(service, calls, read_facts)
    left_out = load_left_out(work.inputs(BiokalmaInputs).params.class_qid)
    return work.finish((failed.get(row.id) or _pool(row, facts, left_out) for row in rows), PooledPair)


def load_left_out(class_qid: str) -> set[str]:
    """Return the PIDs of properties that no pool of a class holds."""
    lists = ("pool_left_out", "organisation_properties") if class_qid == HUMAN else ("pool_left_out",)
    return {f"P{number}" for name in lists for number in load_properties(name)}


def _people(row: ResolvedPair) -> tuple[str, str]:
    return row.person_qid, row.other_qid


def _pool(row: ResolvedPair, facts: Mapping[str, Sequence[Fact]], left_out: set[str]) -> Outcome:
    of_person, of_other = facts[row.person_qid], facts[row.other_qid]
    person_pool = make_pool(row.person_qid, of_person, left_out)
    other_pool = make_pool(row.other_qid, of_other, left_out)
    for qid, pool in ((row.person_qid, person_pool), (row.other_qid, other_pool)):
        if not pool:
            return Reject(row.id, "empty_pool", f"nothing is known of {qid} but what no pool holds")
    names = _tell_apart(row, of_person, of_other)
    if isinstance(names, Reject):
        return names
    known = [*of_person, *of_other]
    return row.replace(person=names[0], other=names[1]).extend(
        PooledPair,
        person_pool=person_pool,
        other_pool=other_pool,
        birth_years=[_year(fact.value) for fact in known if fact.pid == BORN and fact.qid is None and fact.value],
        countries=_values(known, COUNTRIES),
        cities=_values(known, CITIES),
        occupations=_values(known, OCCUPATIONS),
    )


def _tell_apart(row: ResolvedPair, of_person: Sequence[Fact], of_other: Sequence[Fact]) -> tuple[str, str] | Reject:
    """Return the two names; two who have one name are called the elder and the younger, by their dates of birth."""
    if fold_name(row.person) != fold_name(row.other):
        return row.person, row.other
    born = [
        min(
            ((_year(fact.value), fact.value) for fact in facts if fact.pid == BORN and not fact.qid and fact.value),
            default=None,
        )
        for facts in (of_person, of_other)
    ]
    if born[0] is None or born[1] is None or born[0] == born[1]:
        told = (
            f"{row.person_qid} and {row.other_qid} are both called {row.person}, and no dates of birth tell the elder"
        )
        return Reject(row.id, "same_name", told)
    ages = ("the elder", "the younger") if born[0] < born[1] else ("the younger", "the elder")
    return f"{row.person} ({ages[0]})", f"{row.other} ({ages[1]})"


def make_pool(qid: str, facts: Iterable[Fact], left_out: set[str]) -> list[Piece]:
    """Return the pieces of knowledge about an item: claims with labels, and dates; each once."""
    pieces: dict[tuple[str, str | None, str], Piece] = {}
    for fact in facts:
        if fact.pid in left_out or not fact.property or not fact.value or (fact.qid is None and fact.pid not in DATES):
            continue
        value = fact.value if fact.qid else format_date(fact.value, fact.precision)
        pieces.setdefault(
            (fact.pid, fact.qid, value),
            Piece(
                qid=qid,
                pid=fact.pid,
                property=fact.property,
                value_qid=fact.qid,
                value=value,
                precision=fact.precision,
                statement=fact.statement,
            ),
        )
    return list(pieces.values())


def _values(facts: Iterable[Fact], pids: Sequence[str]) -> list[str]:
    return sorted({fact.qid for fact in facts if fact.pid in pids and fact.qid}, key=id_number)


def _year(date: str) -> int:
    """Return the year of a date as RDF has it; astronomical years count from 0, which is 1 BC."""
    sign = -1 if date.startswith("-") else 1
    year = sign * int(date.lstrip("+-").split("-")[0])
    return year if year > 0 else year - 1


@task(cache_key_fn=batch_key, persist_result=True)
def describe_pairs(batch: Batch) -> Receipt:
    """Find the paragraph that evolution begins with: the source's, else from an article, else the relation in words."""
    work = work_on(batch)
    rows = work.rows(PooledPair)
    articles, failed = _read_articles(work, [row for row in rows if row.paragraph is None])
    return work.finish((failed.get(row.id) or _describe(work, row, articles) for row in rows), DescribedPair)


def _describe(work: Work, row: PooledPair, articles: Mapping[str, PageText]) -> Outcome:
    if row.paragraph is not None:
        licence = work.inputs(BiokalmaInputs).licence
        given = finish_paragraph(row.paragraph)
        return row.extend(DescribedPair, text=given, text_source="file", text_pages=[], licence=licence)
    for qid, about in ((row.person_qid, row.other), (row.other_qid, row.person)):
        page = articles.get(qid)
        text = find_opening(read_article(page.text, load_removed()), row.names[qid], about) if page else None
        if page and text:
            pages = [f"{page.title}, revision {page.revid}"]
            opening = finish_paragraph(text)
            return row.extend(
                DescribedPair, text=opening, text_source="article", text_pages=pages, licence=WIKIPEDIA_LICENCE
            )
    relation = next(
        (piece for piece in row.person_pool if (piece.pid, piece.value_qid) == (row.relation, row.other_qid)), None
    )
    if relation is None:
        return Reject(row.id, "no_paragraph", f"no article names both, and {row.relation} is no knowledge of a pool")
    sentence = verbalise_piece(relation, row.person, load_relation_forms())
    return row.extend(DescribedPair, text=sentence, text_source="fact", text_pages=[], licence=WIKIDATA_LICENCE)


def _read_articles(work: Work, rows: Sequence[PooledPair]) -> tuple[dict[str, PageText], dict[str, Reject]]:
    """Return QID → text of its English article as of the epoch; items without an article are left out."""
    wikidata, wikipedia = work.run.services.wikidata, work.run.services.wikipedia
    asked = [(row.id, qid) for row in rows for qid in _people(row)]
    items, failed = work.look_up(
        wikidata, ((row_id, qid, call_describe_item(wikidata.identity, qid)) for row_id, qid in asked), read_description
    )
    titles = {qid: item.title for qid, item in items.items() if item.title}
    at = work.inputs(BiokalmaInputs).epoch
    dated = (
        (row_id, qid, call_page_revision_at(wikipedia.identity, titles[qid], at))
        for row_id, qid in asked
        if qid in titles
    )
    revisions, failed_now = work.look_up(wikipedia, dated, read_revision, "wikipedia_failed")
    revids = {qid: revision.revid for qid, revision in revisions.items() if revision.revid is not None}
    texts = ((row_id, qid, call_page_text(wikipedia.identity, revids[qid])) for row_id, qid in asked if qid in revids)
    articles, failed_last = work.look_up(wikipedia, texts, read_page_text, "wikipedia_failed")
    return articles, failed | failed_now | failed_last


@task(cache_key_fn=batch_key, persist_result=True)
def count_relations_of_all(batch: Batch) -> Receipt:
    """Count in how many people's graphs each relation occurs, over all pairs of the build (Equation 1)."""
    work = work_on(batch)
    rows = work.rows(DescribedPair)
    counts = count_relations([pool for row in rows for pool in (row.person_pool, row.other_pool)])
    labels = {piece.pid: piece.property for row in rows for piece in (*row.person_pool, *row.other_pool)}
    told = {
        pid: RelationCount(id=pid, property=labels[pid], graphs=graphs, graphs_in_all=2 * len(rows))
        for pid, graphs in sorted(Counter(counts).items(), key=lambda pair: id_number(pair[0]))
    }
    work.extras = arrow_table(RelationCount, told.values())
    return work.finish((_count(row, told) for row in rows), CountedPair)


def _count(row: DescribedPair, counts: Mapping[str, RelationCount]) -> CountedPair:
    pids = dict.fromkeys(piece.pid for piece in (*row.person_pool, *row.other_pool))
    return row.extend(CountedPair, relation_counts=[counts[pid] for pid in pids])
