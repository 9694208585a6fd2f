"""HTTP sessions of the SPARQL, Wikipedia and Pageviews clients, over requests, with limited bodies and checked
redirects.

A session's adapter reads every body whole and within its limit (response_limits.py), redirects' too, before the session,
mwclient or a hook sees the response. Connections can be shut down while a thread waits for them (`register_socket_to_shut_when_abandoned`).

Requests and their key are meant only for the address in the world's file.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from factmill.tasks.clients.sending.http_responses import format_library_error
from factmill.tasks.clients.sending.response_limits import (
    ACCEPTED_ENCODING,
    CHUNK_BYTES,
    SizeLimitedDecompressedBody,
    check_redirect,
    count_redirect_as_request,
)
from factmill.tasks.clients.sending.sender import (
    Retry,
    register_socket_to_shut_when_abandoned,
    unregister_thread_sockets,
)
from factmill.tasks.core.service_settings import ServiceLimits

# it logs redirect paths and unparsable headers, in which servers repeat tokens
logging.getLogger("urllib3").setLevel(logging.ERROR)


class _RedirectCheckingSession(requests.Session):
    """A session that follows redirects to other hosts only where they are allowed."""

    def __init__(self, service: str, limits: ServiceLimits) -> None:
        super().__init__()
        self._service = service
        self._allowed = limits.redirects

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is not None:
            check_redirect(self._service, resp.url, target, self._allowed)
            count_redirect_as_request()
        return target


class _LimitedBodyAdapter(HTTPAdapter):
    """Reads bodies within their limits, over connections that can be shut down."""

    def __init__(self, service: str, limits: ServiceLimits) -> None:
        super().__init__(pool_connections=1, pool_maxsize=limits.parallel, max_retries=0)
        self._service = service
        self._limits = limits

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        pool.ConnectionCls = _make_socket_tracking_class(pool.ConnectionCls)
        return pool

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        response = super().send(request, *args, **{**kwargs, "stream": True})
        try:
            body = SizeLimitedDecompressedBody(self._service, self._limits, response.headers)
            while piece := response.raw.read(CHUNK_BYTES, decode_content=False):
                body.add(piece)
            response._content = body.finish()
            response._content_consumed = True  # type: ignore[attr-defined]
        finally:
            unregister_thread_sockets()
            response.close()
        # as JSON is; the charset that a server names may be wrong, or have a codec that fails
        response.encoding = "utf-8"
        return response


class _SocketTrackingConnectionMixin:
    """Mixin for connection classes, such as plain, TLS or SOCKS ones: registers their sockets (`register_socket_to_shut_when_abandoned`)."""

    sock: Any

    def _new_conn(self) -> Any:
        opened = super()._new_conn()  # type: ignore[misc]
        register_socket_to_shut_when_abandoned(opened)  # for the handshake of TLS, and the answer of a proxy
        return opened

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:  # of an earlier request, or opened for this one
            register_socket_to_shut_when_abandoned(self.sock)
        super().request(*args, **kwargs)  # type: ignore[misc]


@cache
def _make_socket_tracking_class(kind: type) -> type[Any]:
    if issubclass(kind, _SocketTrackingConnectionMixin):
        return kind
    return type(kind.__name__, (_SocketTrackingConnectionMixin, kind), {})


def _add_bearer_token(request: requests.PreparedRequest, *, token: str) -> requests.PreparedRequest:
    request.headers["Authorization"] = f"Bearer {token}"
    return request


def make_http_session(service: str, user_agent: str, limits: ServiceLimits, token: str = "") -> requests.Session:
    """Return a session that keeps as many connections open as requests run in parallel, and retries nothing itself.

    `service`: name in messages; `token`: sent to the host of a request, not to one that it redirects to.
    """
    session = _RedirectCheckingSession(service, limits)
    # the session drops a header that this adds where a redirect leaves the host, and reads no .netrc for the host itself
    session.auth = partial(_add_bearer_token, token=token) if token else None
    session.headers.update({"User-Agent": user_agent, "Accept-Encoding": ACCEPTED_ENCODING})
    for scheme in ("http://", "https://"):
        session.mount(scheme, _LimitedBodyAdapter(service, limits))
    return session


@contextmanager
def connection_errors_as_retry() -> Iterator[None]:
    """Convert connection errors into Retry, with a code each."""
    try:
        yield
    except (requests.Timeout, ReadTimeoutError) as error:
        raise Retry(f"timeout: {error}", split=True) from error
    except ProtocolError as error:  # while the body is read
        raise Retry(f"truncated: {error}", split=True) from error
    except requests.TooManyRedirects as error:
        raise Retry(f"redirect_loop: {error}") from error
    except requests.ConnectionError as error:
        cause = error.args[0] if error.args else None
        reason = getattr(cause, "reason", None)  # of urllib3's MaxRetryError: no connection was made at all
        if reason:
            raise Retry(f"unreachable: {format_library_error(reason.__cause__ or reason)}") from error
        raise Retry(f"connection_cut: {error}") from error
    except (requests.RequestException, HTTPError) as error:
        raise Retry(f"connection_cut: {error}") from error
