"""Sessions of the requests library, as the Wikipedia and Pageviews clients use them."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.exceptions import ReadTimeoutError

from tasks.clients.sending.redirects import check_redirect, count_redirect
from tasks.clients.sending.sender import Retry
from tasks.settings import Limits


class _Bearer(AuthBase):
    """Signs requests; the session drops the header where a redirect leaves the host, and asks no .netrc instead."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        r.headers["Authorization"] = f"Bearer {self._token}"
        return r


class _Session(requests.Session):
    """A session that leaves its host only where it may."""

    def __init__(self, service: str, limits: Limits) -> None:
        super().__init__()
        self._service = service
        self._allowed = limits.redirects

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is not None:
            check_redirect(self._service, resp.url, urljoin(resp.url, target), self._allowed)
            count_redirect()
        return target


def open_session(service: str, user_agent: str, limits: Limits, token: str = "") -> requests.Session:
    """Return a session that keeps as many connections open as requests run in parallel, and retries nothing itself.

    `service`: what stands in messages; `token`: sent to the host of a request, not to one that it redirects to.
    """
    session = _Session(service, limits)
    session.auth = _Bearer(token) if token else None
    session.headers.update({"User-Agent": user_agent, "Accept-Encoding": "gzip"})
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=limits.parallel, max_retries=0))
    return session


@contextmanager
def raise_retry() -> Iterator[None]:
    """Turn the ways in which a connection fails into Retry, by code."""
    try:
        yield
    except requests.Timeout as error:
        raise Retry(f"timeout: {error}", split=True) from error
    except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError) as error:
        raise Retry(f"truncated: {error}") from error
    except requests.TooManyRedirects as error:
        raise Retry(f"redirect_loop: {error}") from error
    except requests.ConnectionError as error:
        cause = error.args[0] if error.args else None
        if isinstance(cause, ReadTimeoutError):
            raise Retry(f"timeout: {error}", split=True) from error
        reason = getattr(cause, "reason", None)  # of urllib3's MaxRetryError: no connection came about at all
        if reason:
            raise Retry(f"unreachable: {str(reason).rpartition('>: ')[2]}") from error
        raise Retry(f"connection_cut: {error}") from error
