"""A Wikidata behind a SPARQL endpoint, over SPARQLWrapper; the questions and bodies are those of core/knowledge.py.

Calls of one operation that ask for the same language (and the same properties) go out as one query with a VALUES
block, up to `limits.batch` of them; list_facts goes out alone, since its LIMIT is for one call. A query that times out
is halved: one item with thousands of values must not cost its neighbours their answers. No SERVICE and no label
service, so that any endpoint that holds Wikidata's own vocabulary will do.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from http.client import HTTPException, IncompleteRead
from urllib.error import HTTPError, URLError

from SPARQLWrapper import GET, JSON, POST, SELECT, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import SPARQLWrapperException

from tasks.clients.answers import fail, judge_status, read_json, shorten
from tasks.clients.sending import Retry, Sender, run_in_thread
from tasks.clients.wikidata_queries import OPERATIONS, Row, fill_query, likeness, list_terms, read_rows
from tasks.core.calls import Call, Deliver, Reply
from tasks.settings import Limits

_LONGEST_GET = 1500
_STATUSES = {"QueryBadFormed": 400, "Unauthorized": 401, "EndPointNotFound": 404, "URITooLong": 414}
_TIMED_OUT = "TimeoutException"


class WikidataSparql:
    """Answers find_items, describe_items, neighbours and list_facts from a SPARQL endpoint."""

    is_outside = True

    def __init__(self, url: str, identity: str, limits: Limits, user_agent: str, queries: Mapping[str, str]) -> None:
        """Keep what is needed; nothing is sent yet. `queries`: the query text of each of OPERATIONS."""
        if missing := set(OPERATIONS) - set(queries):
            raise ValueError(f"no query text for {sorted(missing)}")
        self.identity = identity
        self._url = url
        self._limits = limits
        self._user_agent = user_agent
        self._queries = dict(queries)
        self._name = f"Wikidata at {url}"
        self._sender = Sender(limits, self._name)

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls; a call whose values cannot stand in a query fails alone, with `bad_value`."""
        alike: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            try:
                terms = list_terms([call])
            except ValueError as error:
                deliver(call, fail("bad_value", str(error)))
                continue
            if all(terms.values()):
                alike[likeness(call)].append(call)
            else:
                deliver(call, Reply([]))
        size = self._limits.batch
        groups = [some[at : at + size] for some in alike.values() for at in range(0, len(some), size)]
        self._sender.send(groups, self._ask, deliver)

    async def _ask(self, group: Sequence[Call]) -> list[Reply]:
        query = fill_query(self._queries[group[0].operation], group)
        rows = await run_in_thread(self._select, query)
        if isinstance(rows, Reply):
            return [rows] * len(group)
        try:
            return [Reply(body) for body in read_rows(group, rows)]
        except KeyError as error:
            raise Retry(f"malformed_reply: a solution without a value for {error}") from error

    def _select(self, query: str) -> list[Row] | Reply:
        """Return the solutions of a SELECT query, or the failure that is final for it."""
        status, text, retry_after = self._fetch(query)
        try:
            if failure := judge_status(self._name, status, text, retry_after):
                return failure
            result = read_json(text)
            return [{name: cell["value"] for name, cell in row.items()} for row in result["results"]["bindings"]]
        except Retry as trouble:
            if _TIMED_OUT in text:
                raise Retry(f"timeout: {trouble}", trouble.retry_after_s, split=True) from trouble
            raise
        except (KeyError, TypeError, AttributeError) as error:
            raise Retry(f"malformed_reply: expected SPARQL results, got {shorten(text)}") from error

    def _fetch(self, query: str) -> tuple[int, str, str | None]:
        """Return status, body and Retry-After of one request; Retry when the connection fails."""
        try:
            return self._exchange(query)
        except TimeoutError as error:
            raise Retry(f"timeout: {error}", split=True) from error
        except IncompleteRead as error:
            raise Retry(f"truncated: the body ends after {len(error.partial)} bytes") from error
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise Retry(f"timeout: {error.reason}", split=True) from error
            was_cut = isinstance(error.reason, ConnectionResetError | BrokenPipeError)
            raise Retry(f"{'connection_cut' if was_cut else 'unreachable'}: {error.reason}") from error
        except (HTTPException, ConnectionError) as error:
            raise Retry(f"connection_cut: {error!r}") from error

    def _exchange(self, query: str) -> tuple[int, str, str | None]:
        """Send one request; its form is set by hand, since SPARQLWrapper guesses it from words, even in comments."""
        wrapper = SPARQLWrapper(self._url, returnFormat=JSON, agent=self._user_agent)
        wrapper.setOnlyConneg(True)
        wrapper.setMethod(GET if len(query) <= _LONGEST_GET else POST)
        wrapper.timeout = self._limits.timeout_s  # type: ignore[assignment]
        wrapper.queryString, wrapper.queryType = query, SELECT
        try:
            response = wrapper.query().response
            return 200, response.read().decode("utf-8", "replace"), None
        except HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace"), error.headers.get("Retry-After")
        except SPARQLWrapperException as error:
            return _STATUSES.get(type(error).__name__, 500), str(error), None
