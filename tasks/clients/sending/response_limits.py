"""Limits of the world's file on responses: bodies are read in chunks up to a size, redirects followed to allowed hosts
only.

The Sender limits the time: when it is over, the Sender shuts the connection down (`run_blocking_in_thread`), or cancels the task
that reads. This module stops responses that are in time but too large for the memory.
"""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from factmill.tasks.clients.sending.budget import get_current_budget_account
from factmill.tasks.clients.sending.sender import Retry, run_blocking_in_thread
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import ServiceUnreachable

if TYPE_CHECKING:
    import httpx
    import httpx2

ACCEPTED_ENCODING = "gzip"
"""Value of the header Accept-Encoding."""
CHUNK_BYTES = 65_536
"""Bytes that are read, or inflated, at once."""
_ZLIB_OR_GZIP_WBITS = zlib.MAX_WBITS | 32
_GZIP_FIRST_BYTE = b"\x1f"
_current_operation: ContextVar[str] = ContextVar("operation", default="")


@contextmanager
def apply_operation_size_limit(operation: str) -> Iterator[None]:
    """Set the operation whose size limit applies to responses read within the context."""
    token = _current_operation.set(operation)
    try:
        yield
    finally:
        _current_operation.reset(token)


async def answer_in_thread(
    answer: Callable[[Sequence[Call]], list[CallResponse]], group: Sequence[Call]
) -> list[CallResponse]:
    """Run a blocking function that answers calls of one operation in a thread (see `run_blocking_in_thread`)."""
    with apply_operation_size_limit(group[0].operation):
        return await run_blocking_in_thread(answer, group)


class SizeLimitedDecompressedBody:
    """Body of one response, inflated and limited in size."""

    def __init__(self, service: str, limits: ServiceLimits, headers: Mapping[str, str]) -> None:
        """`service`: name in messages; `headers`: of the response, in a case-insensitive mapping.

        Retry for an unsupported compression.
        """
        self._service = service
        self._operation = _current_operation.get()
        self._most = limits.get_max_response_bytes(self._operation)
        self._received = 0
        self._content = bytearray()
        coding = headers.get("Content-Encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Retry(
                f"unknown_encoding: the body is compressed with {coding[:40]!r}; expected {ACCEPTED_ENCODING} or none"
            )
        self._inflating = None if coding in ("", "identity") else zlib.decompressobj(_ZLIB_OR_GZIP_WBITS)

    def add(self, piece: bytes) -> None:
        """Add the next bytes as received; Retry when the body exceeds its limit or cannot be inflated."""
        self._received += len(piece)
        if self._inflating is None:
            self._content += piece
        while piece and self._inflating is not None:
            if self._inflating.eof and not piece.startswith(_GZIP_FIRST_BYTE):
                break  # data after the compressed part is dropped, as in browsers
            if self._inflating.eof:
                self._inflating = zlib.decompressobj(_ZLIB_OR_GZIP_WBITS)
            try:
                self._content += self._inflating.decompress(piece, CHUNK_BYTES)
            except zlib.error as error:
                raise Retry(f"broken_encoding: the compressed body cannot be read: {error}") from None
            piece = self._inflating.unconsumed_tail or self._inflating.unused_data
            self._check_length()
        self._check_length()

    def finish(self) -> bytes:
        """Return the whole body, inflated; Retry when compressed data is truncated."""
        if self._inflating is not None and self._received:
            self._content += self._inflating.flush()
            if not self._inflating.eof:
                raise Retry(f"truncated: the compressed body ends early, after {self._received} bytes", split=True)
            self._check_length()
        return bytes(self._content)

    def _check_length(self) -> None:
        if max(self._received, len(self._content)) > self._most:
            self._content.clear()  # the error's traceback may keep it alive
            name = self._operation or "all"
            raise Retry(
                f"reply_too_big: {self._service}: a reply{f' to {name}' if self._operation else ''} is longer than"
                f" {self._most:,} bytes; if that is right, raise this service's limit in the world's file:"
                f" limits = {{ max_bytes = {{ {name} = {2 * self._most} }} }}",
                split=True,
                is_about_request=True,
            )


async def read_limited_body(response: "httpx.Response | httpx2.Response", service: str, limits: ServiceLimits) -> bytes:
    """Read the body of a response, inflated, and close it; Retry as of `SizeLimitedDecompressedBody`, and the library's own errors."""
    try:
        body = SizeLimitedDecompressedBody(service, limits, response.headers)
        async for piece in response.aiter_raw():
            body.add(piece)
        return body.finish()
    finally:
        await response.aclose()


_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_redirect(service: str, requested_url: str, location: str, allowed_hosts: Collection[str]) -> None:
    """Raise ServiceUnreachable when `asked` redirects to a host that is not allowed, an unencrypted address, or an
    invalid one.

    `location`: the header of that name; `allowed`: hosts other than that of `asked`, with the port unless it is the
    scheme's default.
    """
    try:
        leads_to = urljoin(requested_url, location)
        old, new = urlsplit(requested_url), urlsplit(leads_to)
        _ = new.port
    except ValueError as error:
        raise ServiceUnreachable(
            f"{service} redirects to {location[:200]!r}, which is not a valid address: {error}"
        ) from None
    host = new.netloc.rpartition("@")[2].lower()
    if new.scheme not in _DEFAULT_PORTS or (old.scheme, new.scheme) == ("https", "http"):
        why = "which factmill does not follow, since the request would be unencrypted"
    elif is_same_host_or_tls_upgrade(requested_url, leads_to) or host in allowed_hosts:
        return
    else:
        why = (
            f"another host; factmill sends nothing there. Put that address into the world's file, or allow it there: "
            f'limits = {{ redirects = ["{host}"] }}'
        )
    raise ServiceUnreachable(f"{service} redirects to {new.scheme}://{host}{new.path[:200]}, {why}")


def is_same_host_or_tls_upgrade(requested_url: str, target_url: str) -> bool:
    """True when two URLs have the same host and port, or the second is the TLS form of the first's host."""
    old, new = urlsplit(requested_url), urlsplit(target_url)
    ports = [each.port or _DEFAULT_PORTS.get(each.scheme) for each in (old, new)]
    is_upgrade = (old.scheme, new.scheme) == ("http", "https")
    return old.hostname == new.hostname and (ports[0] == ports[1] or is_upgrade)


def count_redirect_as_request() -> None:
    """Count a redirect that is about to be followed as one more request; BudgetExhausted when it exceeds the budget."""
    account = get_current_budget_account()
    account.budget.count_request(account.service)
