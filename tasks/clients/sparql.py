"""Client of a SPARQL endpoint with Wikidata or DBpedia, and the operations that it answers.

Calls that differ only in their own parts go out as one query with a VALUES block, up to `limits.batch` of them. A query
that takes too long or returns too much is halved, so that one item with thousands of values does not cost the others
their answers. The number of calls in a query adapts to that (clients/sending/limiter.py). No SERVICE and no label
service is used, so any endpoint with Wikidata's own vocabulary works.

SPARQLWrapper builds the request; a session sends it over persistent connections with compression (web_sessions.py).

A query that took too much time or space is retried with half of its values: after a time-out (ours, the proxy's, or the
endpoint's own, which the body reports with any status), after 413 and 414, and when the response is truncated, since an
endpoint that runs out of time while it writes can only break off.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import requests
from SPARQLWrapper import GET, JSON, POST, SELECT, SPARQLWrapper

from factmill.tasks.assets import load_sparql_query
from factmill.tasks.clients.sending.http_responses import (
    find_final_http_failure_or_raise,
    parse_json_body,
    parse_retry_after,
    shorten_to_line,
)
from factmill.tasks.clients.sending.limiter import AdaptiveCallsPerRequest, RequestLimiter
from factmill.tasks.clients.sending.response_limits import answer_in_thread
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender
from factmill.tasks.clients.sending.web_sessions import connection_errors_as_retry, make_http_session
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler, make_failed_response
from factmill.tasks.core.calls.operation import OperationSparqlMapping, find_operation
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.core.sparql import SparqlSolution, parse_sparql_results

_MAX_GET_LENGTH = 1500
_TIMEOUT_MARKS = ("TimeoutException", "Operation timed out")
_MEMORY_MARKS = ("Tried to allocate",)
"""Wording of Blazegraph and QLever, with various statuses, for a query that takes too much time or memory."""


class SparqlSelectClient:
    """An endpoint that answers SELECT queries; messages call it `name`."""

    def __init__(self, url: str, name: str, limits: ServiceLimits, user_agent: str, token: str = "") -> None:
        """Set up the session; send nothing."""
        self._url = url
        self._name = name
        self._timeout_s = limits.timeout_s
        self._user_agent = user_agent
        self._session = make_http_session(name, user_agent, limits, token)

    def select(self, query: str) -> list[SparqlSolution] | CallResponse:
        """Return the solutions of a SELECT query, or its permanent failure."""
        response = self._fetch(query)
        status, text, retry_after = response.status_code, response.text, response.headers.get("Retry-After")
        if status >= 300 and (excess := _find_query_too_costly_code(text)):
            raise Retry(f"{excess}: http_{status}: {shorten_to_line(text)}", parse_retry_after(retry_after), split=True)
        if failure := find_final_http_failure_or_raise(self._name, status, text, retry_after):
            return failure
        try:
            return parse_sparql_results(parse_json_body(text))
        except Retry as trouble:
            # an endpoint that gives up while it writes breaks off, sometimes with a reason
            excess = _find_query_too_costly_code(text)
            reason = f"{excess}: {trouble}" if excess else str(trouble)
            raise Retry(reason, split=excess is not None or trouble.code == "broken_json") from trouble
        except (KeyError, TypeError, AttributeError) as error:
            raise Retry(f"malformed_reply: expected SPARQL results, got {shorten_to_line(text)}") from error

    def _fetch(self, query: str) -> requests.Response:
        """Send one request; the query type is set explicitly, since SPARQLWrapper guesses it from words, even in
        comments."""
        wrapper = SPARQLWrapper(self._url, returnFormat=JSON, agent=self._user_agent)
        wrapper.setOnlyConneg(True)
        wrapper.setMethod(GET if len(query) <= _MAX_GET_LENGTH else POST)
        wrapper.queryString, wrapper.queryType = query, SELECT
        made = wrapper._createRequest()  # its own sending opens a connection per query, and reads without limit
        with connection_errors_as_retry():
            return self._session.request(
                made.get_method(),
                made.full_url,
                data=made.data,  # type: ignore[arg-type]
                headers=dict(made.header_items()),
                timeout=self._timeout_s,
            )


def _find_query_too_costly_code(text: str) -> str | None:
    """Return the code for a query that the endpoint gave up because of its cost; None for any other text."""
    if any(mark in text for mark in _TIMEOUT_MARKS):
        return "timeout"
    return "too_big" if any(mark in text for mark in _MEMORY_MARKS) else None


class SparqlClient:
    """Client that answers calls from a SPARQL endpoint."""

    is_outside = True

    def __init__(
        self,
        what: str,
        url: str,
        identity: str,
        limits: ServiceLimits,
        user_agent: str,
        token: str = "",
        shared: RequestLimiter | None = None,
    ) -> None:
        """Set up the client; send nothing. `what`: the service's name in messages, such as Wikidata."""
        self.identity = identity
        self._sizes: dict[str, AdaptiveCallsPerRequest] = defaultdict(lambda: AdaptiveCallsPerRequest(limits.batch))
        name = f"{what} at {url}"
        self._endpoint = SparqlSelectClient(url, name, limits, user_agent, token)
        self._sender = RetryingRequestSender(limits, name, token=token, shared=shared)

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer calls; a call whose values cannot appear in a query fails alone, with `bad_value`."""
        alike: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            sparql = _get_sparql_mapping(call)
            try:
                terms = sparql.make_terms([call])
            except ValueError as error:
                deliver(call, make_failed_response("bad_value", str(error)))
                continue
            if all(terms.values()):
                alike[sparql.get_sharing_key(call)].append(call)
            else:
                deliver(call, CallResponse([]))
        groups = list(alike.values())
        sizes = [self._sizes[_load_call_sparql_template(group[0])] for group in groups]
        self._sender.send(groups, partial(answer_in_thread, self._answer), deliver, sizes)

    def _answer(self, group: Sequence[Call]) -> list[CallResponse]:
        sparql = _get_sparql_mapping(group[0])
        solutions = self._endpoint.select(sparql.fill_query(_load_call_sparql_template(group[0]), group))
        if isinstance(solutions, CallResponse):
            return [solutions] * len(group)
        try:
            return [CallResponse(body) for body in sparql.make_bodies(group, solutions)]
        except KeyError as error:
            raise Retry(f"malformed_reply: a solution without a value for {error}") from error


def _get_sparql_mapping(call: Call) -> OperationSparqlMapping:
    operation = find_operation(call.operation)
    if operation is None or operation.sparql is None:
        raise ValueError(f"a SPARQL endpoint cannot answer {call.operation}: the operation defines no SPARQL mapping")
    return operation.sparql


def _load_call_sparql_template(call: Call) -> str:
    sparql = _get_sparql_mapping(call)
    return sparql.query_text or load_sparql_query(sparql.get_query_file(call.parts))
