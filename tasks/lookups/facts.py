"""Facts of a relation from a world's Wikidata, through the recorder: a look-up that the first steps of several flows make."""

from tasks.core.calls.knowledge import call_list_facts, read_fact_pairs
from tasks.engine.batches import Work
from tasks.errors import ServiceUnreachable

FACTS_PAGE = 5000
"""Subjects a page."""


def list_facts(work: Work, relation: str, limit: int | None) -> list[tuple[str, str]]:
    """Return a relation's facts (subject, value), page by page, up to a number of subjects; None: all."""
    wikidata = work.run.services.wikidata
    facts: list[tuple[str, str]] = []
    after: str | None = None
    while True:
        page_size = FACTS_PAGE if limit is None else min(FACTS_PAGE, limit - len({subject for subject, _ in facts}))
        if page_size <= 0:
            return facts
        call = call_list_facts(wikidata.identity, relation, after, page_size)
        reply = work.call(wikidata, [(relation, call)])[call.key].reply()
        if reply.status != "ok":
            raise ServiceUnreachable(
                f"{wikidata.identity} does not list the facts of {relation}: {reply.error}; try again later"
            )
        page = read_fact_pairs(reply.body)
        if not page:
            return facts
        facts.extend(page)
        after = page[-1][0]
