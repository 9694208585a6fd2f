"""Facts from a world's Wikidata, through the recorder: of a relation, and around items; look-ups that several flows make."""

from collections.abc import Iterable

from tasks.core.calls.knowledge import Neighbour, call_list_facts, read_fact_pairs
from tasks.core.rows import Reject
from tasks.engine.batches import Work
from tasks.errors import ServiceUnreachable
from tasks.lookups.classes import look_up_claims

FACTS_PAGE = 5000
"""Subjects a page."""


def look_up_around(
    work: Work, asked: Iterable[tuple[str, str]], pids: Iterable[str], hops: int
) -> tuple[dict[str, list[Neighbour]], dict[str, Reject]]:
    """Return QID → its claims of some properties, for every (row id, QID) and all that these lead to in so many hops.

    Also row id → Reject where they cannot be had.
    """
    wanted = list(pids)
    claims: dict[str, list[Neighbour]] = {}
    failed: dict[str, Reject] = {}
    todo, seen = list(dict.fromkeys(asked)), set[tuple[str, str]]()
    for _ in range(hops):
        found, lost = look_up_claims(work, todo, wanted)
        claims |= found
        failed |= lost
        seen.update(todo)
        reached = ((row_id, edge.qid) for row_id, qid in todo for edge in found.get(qid, ()))
        todo = [each for each in dict.fromkeys(reached) if each not in seen]
    return claims, failed


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
