"""Client of the Pageviews API for English Wikipedia articles; it answers the operation of core/calls/knowledge.py.

Views are those of people (agent `user`) on all platforms, day by day. The API counts redirects separately, so a title
must be the article's own. An article unknown to the API is an answer (null), not a failure.
"""

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote

from factmill.tasks.clients.sending.answers import judge_status, read_json
from factmill.tasks.clients.sending.bounded import ask_in_thread
from factmill.tasks.clients.sending.limiter import Limiter
from factmill.tasks.clients.sending.sender import Retry, Sender
from factmill.tasks.clients.sending.web_sessions import open_session, raise_retry
from factmill.tasks.core.calls.call import Call, Deliver, Reply
from factmill.tasks.core.service_settings import Limits

_SERIES = "metrics/pageviews/per-article/en.wikipedia/all-access/user"


class Pageviews:
    """Client that answers pageviews calls."""

    is_outside = True

    def __init__(
        self, url: str, identity: str, limits: Limits, user_agent: str, token: str = "", shared: Limiter | None = None
    ) -> None:
        """Set up the client; send nothing. `url`: the base before /metrics."""
        self.identity = identity
        self._url = url.rstrip("/")
        self._name = f"Pageviews at {url}"
        self._timeout_s = limits.timeout_s
        self._session = open_session(self._name, user_agent, limits, token)
        self._sender = Sender(limits, self._name, token=token, shared=shared)

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer calls, one request each."""
        self._sender.send([[call] for call in calls], partial(ask_in_thread, self._answer), deliver)

    def _answer(self, group: Sequence[Call]) -> list[Reply]:
        parts = group[0].parts
        title = quote(str(parts["title"]).replace(" ", "_"), safe="")
        with raise_retry():
            response = self._session.get(
                f"{self._url}/{_SERIES}/{title}/daily/{parts['start']}/{parts['end']}", timeout=self._timeout_s
            )
        if response.status_code == 404 and "json" in response.headers.get("Content-Type", ""):
            return [Reply(None)]
        failure = judge_status(self._name, response.status_code, response.text, response.headers.get("Retry-After"))
        if failure:
            return [failure]
        try:
            views = [int(day["views"]) for day in read_json(response.text)["items"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Retry(f"malformed_reply: expected items with views: {error!r}") from error
        return [Reply({"views": sum(views), "days": len(views)})]
