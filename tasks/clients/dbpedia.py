"""DBpedia behind a SPARQL endpoint; the question and its body are those of core/calls/dbpedia.py.

Linkers give some resources with characters of the title that DBpedia escapes (a percent sign, quotes); they are sent
escaped, since an endpoint refuses the whole query for one IRI that is none.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from tasks.clients.sending.answers import fail
from tasks.clients.sending.bounded import ask_in_thread
from tasks.clients.sending.sender import Retry, Sender
from tasks.clients.sparql.endpoint import SparqlEndpoint
from tasks.clients.sparql.solutions import ENTITY
from tasks.clients.sparql.terms import fill_values, iri_term
from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.service_settings import Limits
from tasks.text.ids import id_number, is_qid

_TO_ESCAPE = re.compile(r'%(?![0-9A-Fa-f]{2})|["^`\\]')


class Dbpedia:
    """Answers same_as."""

    is_outside = True

    def __init__(self, url: str, identity: str, limits: Limits, user_agent: str, query: str, token: str = "") -> None:
        """Keep what is needed; nothing is sent yet. `query`: the text of sparql/dbpedia/same_as.rq."""
        self.identity = identity
        self._query = query
        self._batch = limits.batch
        name = f"DBpedia at {url}"
        self._endpoint = SparqlEndpoint(url, name, limits, user_agent, token)
        self._sender = Sender(limits, name, token=token)

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls; a resource that no IRI can be fails alone, with `bad_value`."""
        fit: list[Call] = []
        for call in calls:
            try:
                iri_term(_resource_of(call))
            except ValueError as error:
                deliver(call, fail("bad_value", str(error)))
            else:
                fit.append(call)
        groups = [fit[at : at + self._batch] for at in range(0, len(fit), self._batch)]
        self._sender.send(groups, partial(ask_in_thread, self._answer), deliver)

    def _answer(self, group: Sequence[Call]) -> list[Reply]:
        resources = dict.fromkeys(map(_resource_of, group))
        solutions = self._endpoint.select(fill_values(self._query, "resource", map(iri_term, resources)))
        if isinstance(solutions, Reply):
            return [solutions] * len(group)
        found: dict[str, set[str]] = defaultdict(set)
        try:
            for solution in solutions:
                qid = solution["item"]["value"].removeprefix(ENTITY)
                if is_qid(qid):
                    found[solution["resource"]["value"]].add(qid)
        except KeyError as error:
            raise Retry(f"malformed_reply: a solution without a value for {error}") from error
        return [Reply(sorted(found[_resource_of(call)], key=id_number)) for call in group]


def _resource_of(call: Call) -> str:
    """Return the resource as DBpedia names it."""
    return _TO_ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", str(call.parts["resource"]))
