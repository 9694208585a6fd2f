"""HTTP transport to a model's server: proxies and certificates of the environment, and credentials of requests.

Proxies and certificate authorities are read as the requests library reads them, so that models are reached like
Wikipedia: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY (in lower case too), REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE;
SSL_CERT_FILE and SSL_CERT_DIR apply as well.

Secrets are added here, below the SDK's client, so that its logs and those of redirects never contain them.
"""

import itertools
import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx2

from factmill.tasks.clients.sending.budget import get_current_budget_account
from factmill.tasks.clients.sending.credentials import ModelCredentials, RequestCredentials
from factmill.tasks.clients.sending.response_limits import is_same_host_or_tls_upgrade, read_limited_body
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import ServiceUnreachable, SettingsError
from factmill.tasks.settings import get_environment_variable

_POOL_SIZE = 8
_PROXY_AUTH_REQUIRED = 407
# it logs raw response headers, in which servers repeat keys
logging.getLogger("httpcore2").setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class _ConnectionPoolsToOneHost:
    """Connection pools to one host, and its proxy."""

    is_own: bool
    """True for the model's own host, which alone gets keys."""
    proxy: str
    """Address without credentials; empty: none."""
    pools: tuple[httpx2.AsyncHTTPTransport, ...]
    turn: Iterator[httpx2.AsyncHTTPTransport]


class ModelTransport(httpx2.AsyncBaseTransport):
    """Sends a model's requests with its credentials, through the environment's proxy, over pools of a few connections.

    A pool scans all its connections when a request starts and ends; with 64 in one pool this is a fifth of a request's
    cost.
    """

    def __init__(self, model: ModelSettings, credentials: ModelCredentials) -> None:
        """Store the settings; open no connection."""
        self._name = f"model {model.name} at {model.url}"
        self._url = model.url
        self._limits = model.limits
        self._pools = -(-model.limits.parallel // _POOL_SIZE)
        self._credentials = credentials
        self._routes: dict[tuple[str, str, int | None], _ConnectionPoolsToOneHost] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; after HTTP 401, send it once more if there is a new key.

        SettingsError for an unusable proxy or certificate, ServiceUnreachable for a proxy that refuses us, Retry for a
        body that exceeds its limit or is broken.
        """
        return await self._read(await self._request(request))

    async def _request(self, request: httpx2.Request) -> httpx2.Response:
        route = self._find_route(request.url)
        if not route.is_own:
            return self._scrub(await self._send(route, request), {})
        access = await self._credentials.get()
        response = await self._send(route, _add_credentials(request, access))
        if response.status_code == 401 and (renewed := await self._credentials.renew(access)):
            await response.aclose()
            account = get_current_budget_account()
            account.budget.count_request(account.service)
            response = await self._send(route, _add_credentials(request, renewed))
        return self._scrub(response, access.query)

    async def aclose(self) -> None:
        """Close all connections."""
        for route in self._routes.values():
            for pool in route.pools:
                await pool.aclose()

    async def _read(self, response: httpx2.Response) -> httpx2.Response:
        """Return a response with its whole body, inflated; Retry when it exceeds its limit or is broken."""
        content = await read_limited_body(response, self._name, self._limits)
        headers = response.headers.copy()
        for of_wire in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(of_wire, None)
        # JSON and events are UTF-8, whatever charset a server names: Python's codec of that name may fail
        headers["content-type"] = headers.get("content-type", "").partition(";")[0]
        return httpx2.Response(response.status_code, headers=headers, content=content, extensions=response.extensions)

    def _scrub(self, response: httpx2.Response, query: Mapping[str, str]) -> httpx2.Response:
        """Redact secrets in a response's headers and reason, which libraries log.

        `query`: parameters that every request to the host carries; their secrets are removed from a redirect, which
        stays usable.
        """
        scrub = self._credentials.redact
        with suppress(KeyError, httpx2.InvalidURL):
            url = httpx2.URL(response.headers["Location"])
            for name in [name for name, value in query.items() if name in url.params and scrub(value) != value]:
                response.headers["Location"] = str(url := url.copy_remove_param(name))
        reason = response.extensions.get("reason_phrase", b"").decode("latin-1")
        head = [(name, value.decode("latin-1")) for name, value in response.headers.raw]
        if scrub(sent := "\n".join([reason, *(value for _, value in head)])) != sent:
            response.headers = httpx2.Headers([(name, scrub(value).encode("latin-1")) for name, value in head])
            response.extensions["reason_phrase"] = scrub(reason).encode("latin-1")
        return response

    async def _send(self, route: _ConnectionPoolsToOneHost, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await next(route.turn).handle_async_request(request)
        except httpx2.ProxyError as error:
            if str(_PROXY_AUTH_REQUIRED) in str(error):
                raise self._refused(route) from None
            raise httpx2.ConnectError(f"the proxy {route.proxy} reports: {error}") from error
        except httpx2.ConnectError as error:
            if not route.proxy:
                raise
            raise httpx2.ConnectError(f"{error} (through the proxy {route.proxy})") from error
        if response.status_code == _PROXY_AUTH_REQUIRED and route.proxy:
            await response.aclose()
            raise self._refused(route)
        return response

    def _refused(self, route: _ConnectionPoolsToOneHost) -> ServiceUnreachable:
        return ServiceUnreachable(
            f"{self._name}: the proxy {route.proxy} refuses the request with HTTP {_PROXY_AUTH_REQUIRED}. Put the user and password that it "
            "expects into the proxy's address in HTTPS_PROXY or HTTP_PROXY, or name the model's host in NO_PROXY"
        )

    def _find_route(self, url: httpx2.URL) -> _ConnectionPoolsToOneHost:
        origin = (url.scheme, url.host, url.port)
        if origin not in self._routes:
            address = f"{url.scheme}://{url.netloc.decode()}/"
            found = find_environment_proxy(address)
            authorities = _load_ssl_context(
                find_environment_ca_bundle(address),
                get_environment_variable("SSL_CERT_FILE"),
                get_environment_variable("SSL_CERT_DIR"),
            )
            proxy = _make_proxy(found, authorities) if found else None
            if proxy and proxy.auth:
                self._credentials.add_secret(proxy.auth[1])
            try:
                pools = tuple(httpx2.AsyncHTTPTransport(verify=authorities, proxy=proxy) for _ in range(self._pools))
            except ImportError as error:
                raise SettingsError(
                    f"{self._name}: the proxy {strip_proxy_credentials(found)} cannot be used: {error}"
                ) from None
            is_own = is_same_host_or_tls_upgrade(self._url, address)
            self._routes[origin] = _ConnectionPoolsToOneHost(
                is_own, strip_proxy_credentials(found), pools, itertools.cycle(pools)
            )
        return self._routes[origin]


def find_environment_proxy(url: str) -> str:
    """Return the environment's proxy for a URL, with its credentials; empty where there is none."""
    import requests
    from requests.utils import select_proxy

    found: str = (
        select_proxy(url, requests.Session().merge_environment_settings(url, {}, None, None, None)["proxies"]) or ""
    )
    return found if not found or "://" in found else f"http://{found}"


def find_environment_ca_bundle(url: str) -> str | None:
    """Return the file or folder of certificates in REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE; None where neither is set."""
    import requests

    found = requests.Session().merge_environment_settings(url, {}, None, None, None)["verify"]
    return found if isinstance(found, str) else None


def strip_proxy_credentials(proxy: str) -> str:
    """Return the address of a proxy without its credentials."""
    return proxy and f"{proxy.partition('://')[0]}://{proxy.partition('://')[2].rpartition('@')[2].rstrip('/')}"


def _make_proxy(address: str, authorities: ssl.SSLContext) -> httpx2.Proxy:
    try:
        # for a proxy that itself uses TLS
        return httpx2.Proxy(address, ssl_context=authorities if address.startswith("https:") else None)
    except (ValueError, httpx2.InvalidURL):
        raise SettingsError(
            f"HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: {strip_proxy_credentials(address)} is not the address of a proxy; expected "
            "one such as http://proxy.example.org:3128"
        ) from None


def _add_credentials(request: httpx2.Request, credentials: RequestCredentials) -> httpx2.Request:
    """Return a copy of a request with key, headers and query parameters added."""
    headers = request.headers.copy()
    for placeholder in ("Authorization", "X-Api-Key"):  # of the SDKs
        headers.pop(placeholder, None)
    headers.update(credentials.headers)
    new = {name: value for name, value in credentials.query.items() if name not in request.url.params}
    url = request.url.copy_merge_params(new) if new else request.url
    return httpx2.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)


@cache
def _load_ssl_context(bundle: str | None, *_given: str | None) -> ssl.SSLContext:
    """Load the environment's certificate authorities; cached, since loading takes longer than many requests."""
    try:
        context = httpx2.create_ssl_context()
        if bundle:
            is_folder = Path(bundle).is_dir()
            context.load_verify_locations(capath=bundle) if is_folder else context.load_verify_locations(cafile=bundle)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            "cannot read the certificates in REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE or SSL_CERT_DIR: "
            f"{error.strerror or error}; set it to a file of certificates in PEM format"
        ) from None
    return context
