"""Limits that the world's file sets to replies: bodies are read piece by piece and no further, redirects followed where they may.

How long a reply may take is the Sender's matter: when that time is over, it shuts the connection down (`run_in_thread`), or
cancels the task that reads. This module stops replies that fit into the time and not into the memory.
"""

import zlib
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from factmill.tasks.clients.sending.budget import find_account
from factmill.tasks.clients.sending.sender import Retry, run_in_thread
from factmill.tasks.core.calls.call import Call, Reply
from factmill.tasks.core.service_settings import Limits
from factmill.tasks.errors import ServiceUnreachable

ACCEPTED = "gzip"
"""Value of the header Accept-Encoding."""
PIECE = 65_536
"""Bytes that are read, or inflated, at once."""
_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
_GZIP_BEGINS = b"\x1f"
_operation: ContextVar[str] = ContextVar("operation", default="")


@contextmanager
def asking(operation: str) -> Iterator[None]:
    """Name the operation whose limit holds for the replies that are read within."""
    token = _operation.set(operation)
    try:
        yield
    finally:
        _operation.reset(token)


async def ask_in_thread(answer: Callable[[Sequence[Call]], list[Reply]], group: Sequence[Call]) -> list[Reply]:
    """Return what a blocking function answers to calls of one operation (see `run_in_thread`)."""
    with asking(group[0].operation):
        return await run_in_thread(answer, group)


class Body:
    """The body of one reply."""

    def __init__(self, service: str, limits: Limits, headers: Mapping[str, str]) -> None:
        """`service`: what stands in messages; `headers`: of the reply, in a mapping that ignores case.

        Retry for a compression that cannot be read.
        """
        self._service = service
        self._operation = _operation.get()
        self._most = limits.find_max_bytes(self._operation)
        self._received = 0
        self._content = bytearray()
        coding = headers.get("Content-Encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Retry(f"unknown_encoding: the body is compressed with {coding[:40]!r}; expected {ACCEPTED} or none")
        self._inflating = None if coding in ("", "identity") else zlib.decompressobj(_ZLIB_OR_GZIP)

    def add(self, piece: bytes) -> None:
        """Take the next bytes as they came; Retry when the body is longer than its limit or cannot be inflated."""
        self._received += len(piece)
        if self._inflating is None:
            self._content += piece
        while piece and self._inflating is not None:
            if self._inflating.eof and not piece.startswith(_GZIP_BEGINS):
                break  # what follows compressed data is dropped, as browsers do
            if self._inflating.eof:
                self._inflating = zlib.decompressobj(_ZLIB_OR_GZIP)
            try:
                self._content += self._inflating.decompress(piece, PIECE)
            except zlib.error as error:
                raise Retry(f"broken_encoding: the compressed body cannot be read: {error}") from None
            piece = self._inflating.unconsumed_tail or self._inflating.unused_data
            self._check_length()
        self._check_length()

    def finish(self) -> bytes:
        """Return the whole body, inflated; Retry when compressed data ends early."""
        if self._inflating is not None and self._received:
            self._content += self._inflating.flush()
            if not self._inflating.eof:
                raise Retry(f"truncated: the compressed body ends early, after {self._received} bytes", split=True)
            self._check_length()
        return bytes(self._content)

    def _check_length(self) -> None:
        if max(self._received, len(self._content)) > self._most:
            self._content.clear()  # the error that holds it may live on
            name = self._operation or "all"
            raise Retry(
                f"reply_too_big: {self._service}: a reply{f' to {name}' if self._operation else ''} is longer than"
                f" {self._most:,} bytes; if that is right, raise this service's limit in the world's file:"
                f" limits = {{ max_bytes = {{ {name} = {2 * self._most} }} }}",
                split=True,
                is_about_request=True,
            )


class Streamed(Protocol):
    """A response of httpx or httpx2 whose body has not been read."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_raw(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


async def read_body(response: Streamed, service: str, limits: Limits) -> bytes:
    """Return the inflated body of a response and close it; Retry as of `Body`, and what the library raises."""
    try:
        body = Body(service, limits, response.headers)
        async for piece in response.aiter_raw():
            body.add(piece)
        return body.finish()
    finally:
        await response.aclose()


_PORTS = {"http": 80, "https": 443}


def check_redirect(service: str, asked: str, location: str, allowed: Collection[str]) -> None:
    """Raise ServiceUnreachable when the URL that was asked redirects to a host that is not allowed, to an unencrypted address, or
    to none.

    `location`: the header of that name; `allowed`: hosts other than the one that was asked, with the port where it is not the
    scheme's own.
    """
    try:
        leads_to = urljoin(asked, location)
        old, new = urlsplit(asked), urlsplit(leads_to)
        _ = new.port
    except ValueError as error:
        raise ServiceUnreachable(f"{service} redirects to {location[:200]!r}, which is no address: {error}") from None
    host = new.netloc.rpartition("@")[2].lower()
    if new.scheme not in _PORTS or (old.scheme, new.scheme) == ("https", "http"):
        why = "which is not followed, since it would be sent unencrypted"
    elif is_same_service(asked, leads_to) or host in allowed:
        return
    else:
        why = (
            f"another host, to which nothing is sent; put that address into the world's file, or allow it there: "
            f'limits = {{ redirects = ["{host}"] }}'
        )
    raise ServiceUnreachable(f"{service} redirects to {new.scheme}://{host}{new.path[:200]}, {why}")


def is_same_service(asked: str, leads_to: str) -> bool:
    """True when two addresses have one host and port, or the second is the TLS form of the first's host."""
    old, new = urlsplit(asked), urlsplit(leads_to)
    ports = [each.port or _PORTS.get(each.scheme) for each in (old, new)]
    is_upgrade = (old.scheme, new.scheme) == ("http", "https")
    return old.hostname == new.hostname and (ports[0] == ports[1] or is_upgrade)


def count_redirect() -> None:
    """Count a redirect that is about to be followed as a request of its own; BudgetReached when it is one too many."""
    account = find_account()
    account.budget.take(account.service)
