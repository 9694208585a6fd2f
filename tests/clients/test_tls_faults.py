"""Connections that no further try makes secure: every client ends at once, with the reason and what to do."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.webs.loopback import Loopback
from support.webs.proxies import make_certificates

from tasks.assets import load_query
from tasks.clients.chat import Chat
from tasks.clients.falcon import Falcon
from tasks.clients.pageviews import Pageviews
from tasks.clients.wikidata.client import WikidataSparql
from tasks.clients.wikidata.queries import OPERATIONS
from tasks.clients.wikipedia import Wikipedia
from tasks.core.calls.chat import call_chat
from tasks.core.calls.falcon import call_link
from tasks.core.calls.knowledge import call_label, call_pageviews
from tasks.core.calls.wikipedia import call_page_text
from tasks.core.prompts import fill_in, read_prompt
from tasks.core.service_settings import Limits, Model
from tasks.errors import ServiceUnreachable

ME = "factmill-tests (someone@example.org)"
PATIENT = Limits(parallel=4, timeout_s=20, attempts=9, backoff_s=60)
"""So that a second try is missed by nobody."""
PROMPT = read_prompt(
    "test/p", b'+++\nrole = "author"\ninputs = []\ntemperature = 0\nmax_tokens = 9\n+++\n# user\nWho?\n'
)
FAULTS = {
    "expired": "certificate has expired.*REQUESTS_CA_BUNDLE",
    "other host": "Hostname mismatch.*REQUESTS_CA_BUNDLE",
    "unknown authority": "unable to get local issuer certificate.*REQUESTS_CA_BUNDLE",
    "no TLS": "agree on no version of TLS.*one for https",
    "old TLS": "agree on no version of TLS.*one for https",
}


def open_sparql(url: str) -> tuple[Any, Any]:
    queries = {operation: load_query(f"wikidata/{operation}") for operation in OPERATIONS}
    return WikidataSparql(f"{url}/sparql", "w", PATIENT, ME, queries), call_label("w", "Q1")


def open_chat(url: str) -> tuple[Any, Any]:
    model = Model(kind="openai", name="m", url=f"{url}/v1", limits=PATIENT)
    return Chat("m", model, lambda: "sk-secret-0123", ME), call_chat("m", "m", fill_in(PROMPT))


CLIENTS: dict[str, Callable[[str], tuple[Any, Any]]] = {
    "sparql": open_sparql,
    "wikipedia": lambda url: (Wikipedia(url, "w", PATIENT, ME), call_page_text("w", 1)),
    "pageviews": lambda url: (Pageviews(url, "p", PATIENT, ME), call_pageviews("p", "Berlin", "20250101", "20250103")),
    "falcon": lambda url: (Falcon(f"{url}/", "f", PATIENT, ME), call_link("f", "Berlin", 2)),
    "chat": open_chat,
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    host = "other.invalid" if fault == "other host" else "localhost"
    bundle, tls = make_certificates(tmp_path, host, -1 if fault == "expired" else 1)
    if fault == "old TLS":
        tls.set_ciphers("ALL:@SECLEVEL=0")
        tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        if fault == "unknown authority":
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, str(bundle))
    loopback = Loopback(tls=None if fault == "no TLS" else tls)
    yield f"https://localhost:{loopback.port}"
    loopback.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_connection_that_cannot_be_secure_ends_the_run_at_once(name: str, url: str, fault: str, inbox) -> None:
    client, call = CLIENTS[name](url)
    with pytest.raises(ServiceUnreachable, match=FAULTS[fault]) as told:
        client.send([call], inbox)
    assert "localhost" in str(told.value)
