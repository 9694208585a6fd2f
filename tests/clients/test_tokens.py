"""Test service tokens: sent only to the service's own host, and masked in all its responses."""

import logging
from typing import Any

import pytest
from support.webs.every_client import WITH_TOKENS, send_one
from support.webs.loopback import Seen

from factmill.tasks.errors import ServiceUnreachable

TOKEN = "eyJ0eXAiOiJKV1Qi.c2VjcmV0LTAx.Zm9yZ2VkIQ"


@pytest.mark.parametrize("name", WITH_TOKENS)
@pytest.mark.parametrize("token", ["", TOKEN])
def test_requests_carry_configured_token_or_no_authorization(name, token, server, limits, inbox, monkeypatch, tmp_path):
    # requests would read a password from this file and send it in place of the token
    (tmp_path / ".netrc").write_text("machine 127.0.0.1\nlogin someone\npassword of-another-program\n")
    if token:
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server.script({"status": 400, "text": "no"})
    send_one(name, server.url, limits, inbox, token)
    assert [seen.headers.get("authorization") for seen in server.seen] == [f"Bearer {token}" if token else None]


@pytest.mark.parametrize("name", [name for name in WITH_TOKENS if name != "falcon"])
def test_token_is_not_sent_when_redirected_to_another_allowed_host(name, server, other, limits, inbox):
    left = [{"status": 307, "headers": {"Location": "/here"}}, {"status": 307, "headers": {"Location": other.url}}]
    server.handle = lambda _: left.pop(0)
    allowed = limits.model_copy(update={"redirects": (f"127.0.0.1:{other.port}",)})
    call = send_one(name, server.url, allowed, inbox, TOKEN)
    assert "reached the other host" in str(inbox[call].error)
    assert [seen.headers.get("authorization") for seen in server.seen] == [f"Bearer {TOKEN}"] * 2
    assert [seen.headers.get("authorization") for seen in other.seen] == [None]


@pytest.mark.parametrize("name", WITH_TOKENS)
@pytest.mark.parametrize("status", [400, 503, 403])
def test_token_repeated_by_server_appears_in_no_message_or_log(name, status, server, limits, inbox, caplog):
    def repeat(seen: Seen) -> dict[str, Any]:
        if seen.path != "/moved" and name != "falcon":
            return {"status": 302, "headers": {"Location": f"/moved?token={TOKEN}"}}
        said = seen.headers["authorization"]
        return {"status": status, "text": f"refused: {said}", "headers": {"X-Echo": said}}

    caplog.set_level(logging.DEBUG)
    server.handle = repeat
    if status == 403:
        with pytest.raises(ServiceUnreachable, match=r"refused: Bearer \*\*\*") as raised:
            send_one(name, server.url, limits, inbox, TOKEN)
        assert TOKEN not in str(raised.value)
    else:
        call = send_one(name, server.url, limits, inbox, TOKEN)
        assert "refused: Bearer ***" in inbox[call].error
    assert TOKEN not in caplog.text


def test_token_in_response_is_not_recorded(server, limits, inbox):
    page = {"pageid": 5, "ns": 0, "title": "Berlin", "pageprops": {"wikibase_item": f"Q{TOKEN}"}}
    server.script({"json": {"query": {"pages": {"5": page}}}})
    call = send_one("wikipedia", server.url, limits, inbox, TOKEN)
    assert inbox[call].body["qid"] == "Q***"
