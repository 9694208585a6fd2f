"""Client of Falcon 2.0, the entity and relation linker, over httpx; it answers the operation of core/calls/entity_linking.py.

Falcon is slow and often down. A request that it does not answer at once sometimes succeeds in twice the time, so the
first try gets half the time-out of the world's file.
"""

import logging
from collections.abc import Sequence

import httpx

from factmill.tasks.clients.sending.http_responses import (
    find_final_http_failure_or_raise,
    format_library_error,
    parse_json_body,
    shorten_to_line,
)
from factmill.tasks.clients.sending.response_limits import (
    ACCEPTED_ENCODING,
    apply_operation_size_limit,
    check_redirect,
    read_limited_body,
)
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.service_settings import ServiceLimits

LINK_LIST_KEYS = ("entities_wikidata", "relations_wikidata", "entities_dbpedia", "relations_dbpedia")
"""Keys of a response; any may be missing or null."""
# they log response headers and reasons, in which servers repeat tokens
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


class FalconEntityLinkingClient:
    """Client that answers link calls."""

    is_outside = True

    def __init__(self, url: str, identity: str, limits: ServiceLimits, user_agent: str, token: str = "") -> None:
        """Set up the client; send nothing. `url`: the base before /api."""
        self.identity = identity
        self._name = f"Falcon at {url}"
        self._address = f"{url.rstrip('/')}/api"
        self._limits = limits
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": ACCEPTED_ENCODING}
        self._headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self._client: httpx.AsyncClient | None = None
        self._sender = RetryingRequestSender(limits, self._name, (limits.timeout_s / 2, limits.timeout_s), token=token)

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer calls, one request each."""
        self._sender.send([[call] for call in calls], self._ask, deliver)

    async def _ask(self, group: Sequence[Call]) -> list[CallResponse]:
        if self._client is None:
            self._client = httpx.AsyncClient(headers=self._headers, timeout=self._limits.timeout_s)
        parts = group[0].parts
        try:
            with apply_operation_size_limit(group[0].operation):
                async with self._client.stream(
                    "POST",
                    self._address,
                    params={"mode": "long", "k": str(parts["k"]), "db": "1"},
                    json={"text": parts["text"]},
                ) as response:
                    text = (await read_limited_body(response, self._name, self._limits)).decode("utf-8", "replace")
        except httpx.TimeoutException as error:
            raise Retry("timeout: the service did not answer in time") from error
        except httpx.ConnectError as error:
            raise Retry(f"unreachable: {format_library_error(error)}") from error
        except httpx.TransportError as error:
            raise Retry(f"connection_cut: {format_library_error(error)}") from error
        if response.has_redirect_location:
            check_redirect(self._name, self._address, response.headers["Location"], ())
        failure = find_final_http_failure_or_raise(
            self._name, response.status_code, text, response.headers.get("Retry-After")
        )
        if failure:
            return [failure]
        body = parse_json_body(text)
        if not isinstance(body, dict):
            raise Retry(f"malformed_reply: expected a JSON object, got {type(body).__name__}")
        if odd := [key for key in LINK_LIST_KEYS if not isinstance(body.get(key), list | None)]:
            raise Retry(
                f"malformed_reply: expected a list of links or null in {odd[0]}, got {shorten_to_line(str(body[odd[0]]))}"
            )
        return [CallResponse(body)]
