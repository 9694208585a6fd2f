"""Which Prefect server is a standing one, and what is told of one that is away, or has lost its database."""

from typing import Any

import pytest
from httpx import ConnectError
from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings
from support.webs.loopback import Loopback, Seen

from flows.prefect_server import find_standing, find_trouble, require_server, telling_lost_server
from tasks.errors import PrefectLost, ServiceUnreachable


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(200, ""), (401, ""), (404, ""), (500, "it answers 500"), (503, "it answers 503, as without its database")],
)
def test_a_server_is_there_unless_it_is_in_trouble_itself(status: int, trouble: str) -> None:
    web = Loopback()
    web.script({"status": status, "json": {}})
    try:
        assert find_trouble(f"{web.url}/api").startswith(trouble)
        assert bool(find_trouble(f"{web.url}/api")) == bool(trouble)
    finally:
        web.close()


@pytest.mark.parametrize(
    ("given", "why"), [(None, "is not set"), ("admin:wrong", "has another user and password"), ("admin:right", "")]
)
def test_a_server_with_a_password_wants_it(given: str | None, why: str) -> None:
    def answer(seen: Seen) -> dict[str, Any]:
        is_let_in = seen.path.endswith("/ready") or seen.headers.get("authorization") == "Basic YWRtaW46cmlnaHQ="
        return {"json": {}} if is_let_in else {"status": 401, "json": {"exception_message": "Unauthorized"}}

    web = Loopback()
    web.handle = answer
    try:
        with temporary_settings({PREFECT_API_AUTH_STRING: given}):
            if not why:
                require_server(f"{web.url}/api")
                return
            with pytest.raises(
                ServiceUnreachable, match=f"PREFECT_API_AUTH_STRING {why}.*; set it to the USER:PASSWORD"
            ):
                require_server(f"{web.url}/api")
    finally:
        web.close()


def test_what_was_cut_off_by_a_server_that_is_back_is_told_as_lost_and_other_faults_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web = Loopback()
    web.script({"json": {}})
    monkeypatch.setenv("PREFECT_API_URL", f"{web.url}/api")
    try:
        with pytest.raises(PrefectLost, match="All connection attempts failed"), telling_lost_server():
            raise ConnectError("All connection attempts failed")
        with pytest.raises(KeyError), telling_lost_server():
            raise KeyError("a fault of ours")
    finally:
        web.close()


@pytest.mark.parametrize(
    ("named", "standing"),
    [("", ""), ("http://127.0.0.1:1/api", ""), ("http://127.0.0.1:2/api", "http://127.0.0.1:2/api")],
    ids=["none", "our own", "another beside our own"],
)
def test_a_server_that_we_did_not_start_is_a_standing_one(
    monkeypatch: pytest.MonkeyPatch, named: str, standing: str
) -> None:
    monkeypatch.setattr("flows.prefect_server._own", ["http://127.0.0.1:1/api"])
    monkeypatch.setenv("PREFECT_API_URL", named)
    assert find_standing() == standing
