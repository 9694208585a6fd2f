"""One query to a SPARQL endpoint, over SPARQLWrapper: its solutions, a failure that is final, or worth another try.

A query that took too much time or space is worth another try with half of its values: after a time-out (ours, the
proxy's, or the endpoint's own, which is told in the body whatever the status), after 413 and 414, and when the end of
the reply is missing, since an endpoint that runs out of time while it writes can only break off.
"""

from http.client import HTTPException, IncompleteRead
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import OpenerDirector, build_opener

from SPARQLWrapper import GET, JSON, POST, SELECT, SPARQLWrapper

from tasks.clients.sending.answers import judge_status, read_json, read_retry_after, shorten, tell_error
from tasks.clients.sending.redirects import CheckedRedirects
from tasks.clients.sending.sender import Retry
from tasks.clients.sparql.solutions import Solution, read_results
from tasks.core.calls.call import Reply
from tasks.settings import Limits

_LONGEST_GET = 1500
_TOO_LONG = ("TimeoutException", "Operation timed out")
_TOO_MUCH = ("Tried to allocate",)
"""What Blazegraph and QLever write, with various statuses, when a query takes too much time or memory."""


class _Wrapper(SPARQLWrapper):
    """Sends through an opener of ours: SPARQLWrapper's own follows every redirect."""

    def __init__(self, opener: OpenerDirector, endpoint: str, **more: Any) -> None:
        super().__init__(endpoint, **more)
        self._opener = opener

    def _query(self) -> tuple[Any, str]:
        return self._opener.open(self._createRequest(), timeout=self.timeout), self.returnFormat


class SparqlEndpoint:
    """An endpoint that answers SELECT queries; `name` stands in messages."""

    def __init__(self, url: str, name: str, limits: Limits, user_agent: str, token: str = "") -> None:
        """Keep what is needed; nothing is sent yet."""
        self._token = token
        self._url = url
        self._name = name
        self._timeout_s = limits.timeout_s
        self._user_agent = user_agent
        self._opener = build_opener(CheckedRedirects(name, limits.redirects))

    def select(self, query: str) -> list[Solution] | Reply:
        """Return the solutions of a SELECT query, or the failure that is final for it."""
        status, text, retry_after = self._fetch(query)
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

    def _fetch(self, query: str) -> tuple[int, str, str | None]:
        """Return status, body and Retry-After of one request; Retry when the connection fails."""
        try:
            return self._exchange(query)
        except TimeoutError as error:
            raise Retry(f"timeout: {error}", split=True) from error
        except IncompleteRead as error:
            raise Retry(f"truncated: the body ends after {len(error.partial)} bytes", split=True) from error
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise Retry(f"timeout: {error.reason}", split=True) from error
            reason = tell_error(error.reason) if isinstance(error.reason, OSError) else error.reason
            was_cut = isinstance(error.reason, ConnectionResetError | BrokenPipeError)
            raise Retry(f"{'connection_cut' if was_cut else 'unreachable'}: {reason}") from error
        except (HTTPException, ConnectionError) as error:
            raise Retry(f"connection_cut: {tell_error(error)}") from error

    def _exchange(self, query: str) -> tuple[int, str, str | None]:
        """Send one request; its form is set by hand, since SPARQLWrapper guesses it from words, even in comments."""
        wrapper = _Wrapper(self._opener, self._url, returnFormat=JSON, agent=self._user_agent)
        wrapper.setOnlyConneg(True)
        wrapper.setMethod(GET if len(query) <= _LONGEST_GET else POST)
        if self._token:
            wrapper.addCustomHttpHeader("Authorization", f"Bearer {self._token}")
        wrapper.timeout = self._timeout_s  # type: ignore[assignment]
        wrapper.queryString, wrapper.queryType = query, SELECT
        try:
            response = wrapper.query().response
            return 200, response.read().decode("utf-8", "replace"), None
        except HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace"), error.headers.get("Retry-After")


def _find_excess(text: str) -> str | None:
    """Return the code for a query that the endpoint gave up because of its cost; None when it says no such thing."""
    if any(mark in text for mark in _TOO_LONG):
        return "timeout"
    return "too_big" if any(mark in text for mark in _TOO_MUCH) else None
