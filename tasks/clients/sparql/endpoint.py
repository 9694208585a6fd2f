"""One query to a SPARQL endpoint: its solutions, a failure that is final, or worth another try.

SPARQLWrapper makes the request, a session sends it over connections that are kept, compressed (web_sessions.py).

A query that took too much time or space is worth another try with half of its values: after a time-out (ours, the
proxy's, or the endpoint's own, which is told in the body whatever the status), after 413 and 414, and when the end of
the reply is missing, since an endpoint that runs out of time while it writes can only break off.
"""

import requests
from SPARQLWrapper import GET, JSON, POST, SELECT, SPARQLWrapper

from tasks.clients.sending.answers import judge_status, read_json, read_retry_after, shorten
from tasks.clients.sending.sender import Retry
from tasks.clients.sending.web_sessions import open_session, raise_retry
from tasks.clients.sparql.solutions import Solution, read_results
from tasks.core.calls.call import Reply
from tasks.core.service_settings import Limits

_LONGEST_GET = 1500
_TOO_LONG = ("TimeoutException", "Operation timed out")
_TOO_MUCH = ("Tried to allocate",)
"""What Blazegraph and QLever write, with various statuses, when a query takes too much time or memory."""


class SparqlEndpoint:
    """An endpoint that answers SELECT queries; `name` stands in messages."""

    def __init__(self, url: str, name: str, limits: Limits, user_agent: str, token: str = "") -> None:
        """Keep what is needed; nothing is sent yet."""
        self._url = url
        self._name = name
        self._timeout_s = limits.timeout_s
        self._user_agent = user_agent
        self._session = open_session(name, user_agent, limits, token)

    def select(self, query: str) -> list[Solution] | Reply:
        """Return the solutions of a SELECT query, or the failure that is final for it."""
        response = self._fetch(query)
        status, text, retry_after = response.status_code, response.text, response.headers.get("Retry-After")
        if status >= 300 and (excess := _find_excess(text)):
            raise Retry(f"{excess}: http_{status}: {shorten(text)}", read_retry_after(retry_after), split=True)
        if failure := judge_status(self._name, status, text, retry_after):
            return failure
        try:
            return read_results(read_json(text))
        except Retry as trouble:
            # an endpoint that gives up while it writes breaks off, some with a word on why
            excess = _find_excess(text)
            reason = f"{excess}: {trouble}" if excess else str(trouble)
            raise Retry(reason, split=excess is not None or trouble.code == "broken_json") from trouble
        except (KeyError, TypeError, AttributeError) as error:
            raise Retry(f"malformed_reply: expected SPARQL results, got {shorten(text)}") from error

    def _fetch(self, query: str) -> requests.Response:
        """Send one request; its form is set by hand, since SPARQLWrapper guesses it from words, even in comments."""
        wrapper = SPARQLWrapper(self._url, returnFormat=JSON, agent=self._user_agent)
        wrapper.setOnlyConneg(True)
        wrapper.setMethod(GET if len(query) <= _LONGEST_GET else POST)
        wrapper.queryString, wrapper.queryType = query, SELECT
        made = wrapper._createRequest()  # the library's own sending opens a connection a query, and reads without end
        with raise_retry():
            return self._session.request(
                made.get_method(),
                made.full_url,
                data=made.data,  # type: ignore[arg-type]
                headers=dict(made.header_items()),
                timeout=self._timeout_s,
            )


def _find_excess(text: str) -> str | None:
    """Return the code for a query that the endpoint gave up because of its cost; None when it says no such thing."""
    if any(mark in text for mark in _TOO_LONG):
        return "timeout"
    return "too_big" if any(mark in text for mark in _TOO_MUCH) else None
