"""Client of the Pageviews API for English Wikipedia articles; it answers the operation of core/calls/wikidata.py.

Views are those of people (agent `user`) on all platforms, day by day. The API counts redirects separately, so a title
must be the article's own. An article unknown to the API is an answer (null), not a failure.
"""

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote

from factmill.tasks.clients.sending.http_responses import find_final_http_failure_or_raise, parse_json_body
from factmill.tasks.clients.sending.limiter import RequestLimiter
from factmill.tasks.clients.sending.response_limits import answer_in_thread
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender
from factmill.tasks.clients.sending.web_sessions import connection_errors_as_retry, make_http_session
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.service_settings import ServiceLimits

_SERIES = "metrics/pageviews/per-article/en.wikipedia/all-access/user"


class PageviewsClient:
    """Client that answers pageviews calls."""

    is_outside = True

    def __init__(
        self,
        url: str,
        identity: str,
        limits: ServiceLimits,
        user_agent: str,
        token: str = "",
        shared: RequestLimiter | None = None,
    ) -> None:
        """Set up the client; send nothing. `url`: the base before /metrics."""
        self.identity = identity
        self._url = url.rstrip("/")
        self._name = f"Pageviews at {url}"
        self._timeout_s = limits.timeout_s
        self._session = make_http_session(self._name, user_agent, limits, token)
        self._sender = RetryingRequestSender(limits, self._name, token=token, shared=shared)

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer calls, one request each."""
        self._sender.send([[call] for call in calls], partial(answer_in_thread, self._answer), deliver)

    def _answer(self, group: Sequence[Call]) -> list[CallResponse]:
        parts = group[0].parts
        title = quote(str(parts["title"]).replace(" ", "_"), safe="")
        with connection_errors_as_retry():
            response = self._session.get(
                f"{self._url}/{_SERIES}/{title}/daily/{parts['start']}/{parts['end']}", timeout=self._timeout_s
            )
        if response.status_code == 404 and "json" in response.headers.get("Content-Type", ""):
            return [CallResponse(None)]
        failure = find_final_http_failure_or_raise(
            self._name, response.status_code, response.text, response.headers.get("Retry-After")
        )
        if failure:
            return [failure]
        try:
            views = [int(day["views"]) for day in parse_json_body(response.text)["items"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Retry(f"malformed_reply: expected items with views: {error!r}") from error
        return [CallResponse({"views": sum(views), "days": len(views)})]
