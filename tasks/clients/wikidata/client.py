"""A Wikidata behind a SPARQL endpoint; the questions and bodies are those of core/calls/knowledge.py and core/calls/paths.py.

Calls of one operation that ask for the same language (and the same properties) go out as one query with a VALUES
block, up to `limits.batch` of them; list_facts goes out alone, since its LIMIT is for one call. A query that takes too
long or gives too much is halved: one item with thousands of values must not cost its neighbours their answers. How many
calls a query of each name takes is learnt from that (clients/sending/group_size.py). No SERVICE and no label service,
so that any endpoint that holds Wikidata's own vocabulary will do.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from tasks.clients.sending.answers import fail
from tasks.clients.sending.bounded import ask_in_thread
from tasks.clients.sending.group_size import GroupSize
from tasks.clients.sending.limiter import Limiter
from tasks.clients.sending.sender import Retry, Sender
from tasks.clients.sparql.endpoint import SparqlEndpoint
from tasks.clients.wikidata.queries import (
    QUERY_IDS,
    can_be_answered,
    fill_query,
    likeness,
    name_query,
    read_solutions,
)
from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.service_settings import Limits


class WikidataSparql:
    """Answers the calls of core/calls/knowledge.py and core/calls/paths.py from a SPARQL endpoint."""

    is_outside = True

    def __init__(
        self,
        url: str,
        identity: str,
        limits: Limits,
        user_agent: str,
        queries: Mapping[str, str],
        token: str = "",
        shared: Limiter | None = None,
    ) -> None:
        """Keep what is needed; nothing is sent yet. `queries`: the text of each query of QUERY_IDS that will be asked."""
        if unknown := set(queries) - set(QUERY_IDS):
            raise ValueError(f"no operation asks the queries {sorted(unknown)}")
        self.identity = identity
        self._queries = dict(queries)
        self._sizes = {name: GroupSize(limits.batch) for name in queries}
        name = f"Wikidata at {url}"
        self._endpoint = SparqlEndpoint(url, name, limits, user_agent, token)
        self._sender = Sender(limits, name, token=token, shared=shared)

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls; a call whose values cannot stand in a query fails alone, with `bad_value`."""
        alike: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            try:
                is_asked = can_be_answered(call)
            except ValueError as error:
                deliver(call, fail("bad_value", str(error)))
                continue
            if not is_asked:
                deliver(call, Reply([]))
            elif name_query(call) in self._queries:
                alike[likeness(call)].append(call)
            else:
                raise ValueError(f"the client was given no text of the query {name_query(call)}")
        groups = list(alike.values())
        sizes = [self._sizes[name_query(group[0])] for group in groups]
        self._sender.send(groups, partial(ask_in_thread, self._answer), deliver, sizes)

    def _answer(self, group: Sequence[Call]) -> list[Reply]:
        solutions = self._endpoint.select(fill_query(self._queries[name_query(group[0])], group))
        if isinstance(solutions, Reply):
            return [solutions] * len(group)
        try:
            return [Reply(body) for body in read_solutions(group, solutions)]
        except KeyError as error:
            raise Retry(f"malformed_reply: a solution without a value for {error}") from error
