"""Test models behind a proxy: only the proxy resolves the host, over plain HTTP and TLS of a test authority."""

from collections.abc import Iterator

import pytest
from support.webs.loopback import Loopback
from support.webs.proxies import LoopbackProxy, make_certificates

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.sending.model_transport import find_environment_proxy, strip_proxy_credentials
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import ServiceUnreachable, SettingsError

HOST = "model.invalid"
PROMPT = parse_prompt_file(
    "test/p", b'+++\nrole = "author"\ninputs = ["name"]\ntemperature = 0\nmax_tokens = 9\n+++\n# user\nWho is $name?\n'
)
VARIABLES = [name for each in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (each, each.upper())]
ANSWER = {
    "json": {"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}
}


@pytest.fixture(autouse=True)
def _no_proxy_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*VARIABLES, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def proxy(server: Loopback) -> Iterator[LoopbackProxy]:
    server.handle = lambda seen: ANSWER if seen.headers.get("via") else {"status": 418, "text": "not directly"}
    opened = LoopbackProxy({HOST: server.port})
    yield opened
    opened.close()


def ask(url: str, inbox) -> str:
    """Return the model's text, or the error."""
    limits = ServiceLimits(parallel=20, timeout_s=5, attempts=1, backoff_s=0.01)
    chat = ChatClient(
        "m", ModelSettings(kind="openai", name="m", url=url, limits=limits), lambda: "sk-secret-0123", "tests"
    )
    calls = [make_chat_call("m", "m", fill_prompt_template(PROMPT, name=str(number))) for number in range(20)]
    chat.send(calls, inbox)
    found = {inbox[call].body["texts"][0] if inbox[call].body else inbox[call].error for call in calls}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_requests_to_model_use_proxy_from_environment(name, proxy, server, inbox, monkeypatch):
    monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert ask(f"http://{HOST}/v1", inbox) == "fine"
    assert set(proxy.seen) == {f"POST http://{HOST}/v1/chat/completions"}
    assert server.seen[0].headers["authorization"] == "Bearer sk-secret-0123"


def test_model_is_unreachable_without_proxy(proxy, server, inbox):
    with pytest.raises(ServiceUnreachable, match="cannot be reached"):
        ask(f"http://{HOST}/v1", inbox)


@pytest.mark.parametrize(
    ("no_proxy", "is_proxied"),
    [
        ("127.0.0.1", False),
        ("127.0.0.0/8", False),
        ("*", False),
        ("localhost, example.org", True),
        ("10.0.0.0/8", True),
    ],
)
def test_no_proxy_hosts_are_contacted_directly(no_proxy, is_proxied, server, inbox, monkeypatch):
    server.handle = lambda seen: ANSWER
    opened = LoopbackProxy({"127.0.0.1": server.port})
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{opened.port}")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert ask(f"{server.url}/v1", inbox) == "fine"
    assert bool(opened.seen) == is_proxied
    opened.close()


@pytest.mark.parametrize(
    ("url", "no_proxy", "found"),
    [
        ("http://api.example.org/v1", ".example.org", ""),
        ("http://example.org/v1", ".example.org", ""),
        ("http://notexample.org/v1", "example.org", "http://p:1"),
        ("http://example.org:8000/v1", "example.org:8000", ""),
        ("http://example.org:9000/v1", "example.org:8000", "http://p:1"),
        ("https://api.openai.com/v1", "", "http://s:2"),
    ],
)
def test_no_proxy_suffixes_and_ports_apply(url, no_proxy, found, monkeypatch):
    monkeypatch.setenv("http_proxy", "p:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://s:2")
    monkeypatch.setenv("no_proxy", no_proxy)
    assert find_environment_proxy(url) == found


@pytest.mark.parametrize("bundle", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_https_model_uses_proxy_tunnel_and_custom_certificate_authority(bundle, tmp_path, inbox, monkeypatch):
    authority, tls = make_certificates(tmp_path, HOST)
    server = Loopback(tls=tls)
    server.handle = lambda seen: ANSWER
    proxy = LoopbackProxy({HOST: server.port})
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(ServiceUnreachable, match=r"(?i)certificate.*through the proxy"):
        ask(f"https://{HOST}/v1", inbox)
    assert server.seen == []
    monkeypatch.setenv(bundle, str(authority))
    inbox.replies.clear()
    assert ask(f"https://{HOST}/v1", inbox) == "fine"
    assert set(proxy.seen) == {f"CONNECT {HOST}:443"}
    proxy.close()
    server.close()


def test_missing_certificate_files_are_named(server, inbox, monkeypatch, tmp_path):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with pytest.raises(SettingsError, match="REQUESTS_CA_BUNDLE"):
        ask(f"{server.url}/v1", inbox)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_password_is_sent_and_refusal_does_not_reveal_it(scheme, tmp_path, inbox, monkeypatch):
    authority, tls = make_certificates(tmp_path, HOST)
    server = Loopback(tls=tls if scheme == "https" else None)
    server.handle = lambda seen: ANSWER
    proxy = LoopbackProxy({HOST: server.port}, password="me:swordfish-1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    monkeypatch.setenv("ALL_PROXY", f"http://me:swordfish-1@127.0.0.1:{proxy.port}")
    assert ask(f"{scheme}://{HOST}/v1", inbox) == "fine"
    monkeypatch.setenv("ALL_PROXY", f"http://me:swordfish-2@127.0.0.1:{proxy.port}")
    with pytest.raises(ServiceUnreachable, match=f"the proxy http://127.0.0.1:{proxy.port} .* HTTP 407") as caught:
        ask(f"{scheme}://{HOST}/v1", inbox)
    assert "swordfish" not in str(caught.value)
    proxy.close()
    server.close()


def test_unreachable_proxy_is_named_without_its_password(inbox, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://me:swordfish-1@127.0.0.1:9")
    with pytest.raises(ServiceUnreachable, match=r"through the proxy http://127\.0\.0\.1:9") as caught:
        ask(f"http://{HOST}/v1", inbox)
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:9", "ftp://127.0.0.1:9", "http://me:swordfish-1@[::1"])
def test_unusable_proxy_address_is_settings_error(address, inbox, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(SettingsError, match="proxy") as caught:
        ask(f"http://{HOST}/v1", inbox)
    assert "swordfish" not in str(caught.value)


def test_proxy_description_omits_credentials():
    assert strip_proxy_credentials("http://me:p@ss@proxy.example.org:3128/") == "http://proxy.example.org:3128"
    assert strip_proxy_credentials("") == ""
