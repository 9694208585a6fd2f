"""What an HTTP answer means: an answer, a final failure, another try, or the end of the run."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from factmill.tasks.clients.sending.http_responses import (
    find_http_failure_or_raise,
    parse_json_body,
    parse_retry_after,
    shorten_to_line,
)
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.errors import AccountBlocked, ServiceUnreachable


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_statuses_that_may_pass_are_tried_again(status):
    with pytest.raises(Retry, match=f"http_{status}: try later") as caught:
        find_http_failure_or_raise("it", status, "try\nlater", "7")
    assert caught.value.retry_after_s == 7
    assert not caught.value.split


@pytest.mark.parametrize("status", [300, 301, 304, 308])
def test_a_redirect_that_was_not_followed_is_tried_again(status):
    with pytest.raises(Retry, match=f"http_{status}: a redirect that leads nowhere: try later"):
        find_http_failure_or_raise("it", status, "try\nlater")


@pytest.mark.parametrize("status", [413, 414, 504])
def test_too_big_or_too_slow_is_tried_again_in_halves(status):
    with pytest.raises(Retry) as caught:
        find_http_failure_or_raise("it", status, "")
    assert caught.value.split


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_other_statuses_are_final(status):
    reply = find_http_failure_or_raise("it", status, "no such thing")
    assert (reply.status, reply.error, reply.transient) == ("failed", f"http_{status}: no such thing", False)


@pytest.mark.parametrize("status", [405, 406, 409, 418, 451])
def test_statuses_that_are_not_about_the_request_are_left_to_the_next_run(status):
    reply = find_http_failure_or_raise("it", status, "not now")
    assert (reply.error, reply.transient) == (f"http_{status}: not now", True)


def test_an_account_without_credit_stops_the_run():
    with pytest.raises(AccountBlocked, match=r"it: .* HTTP 402: pay"):
        find_http_failure_or_raise("it", 402, "pay")


@pytest.mark.parametrize("status", [401, 403])
def test_being_refused_stops_the_run_and_says_what_to_check(status):
    with pytest.raises(ServiceUnreachable, match=f"it: .*HTTP {status}.*user_agent"):
        find_http_failure_or_raise("it", status, "who are you?")


@pytest.mark.parametrize("status", [200, 204])
def test_success_is_an_answer(status):
    assert find_http_failure_or_raise("it", status, "") is None


@pytest.mark.parametrize(("value", "seconds"), [("0", 0.0), ("2.5", 2.5), ("-3", 0.0), (None, None), ("soon", None)])
def test_retry_after_in_seconds(value, seconds):
    assert parse_retry_after(value) == seconds


def test_retry_after_as_a_date():
    soon = datetime.now(UTC) + timedelta(hours=2)
    assert 3600 < parse_retry_after(format_datetime(soon, usegmt=True)) <= 7200
    assert parse_retry_after("Fri, 31 Dec 1999 23:59:59 GMT") == 0.0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<!DOCTYPE html><p>hello", "html_instead_of_json"),
        ('{"a": [1, 2', "broken_json"),
        ("", "broken_json"),
        ("[" * 10_000 + "]" * 10_000, "broken_json"),
        ("[" * 102 + "]" * 102, "broken_json"),
        ('{"a": ' + "9" * 5000 + "}", "broken_json"),
    ],
)
def test_what_is_no_json_is_tried_again(text, code):
    with pytest.raises(Retry) as caught:
        parse_json_body(text)
    assert caught.value.code == code


def test_json_is_read():
    assert parse_json_body('{"a": 1}') == {"a": 1}


def test_details_are_kept_short_and_on_one_line():
    assert shorten_to_line("a\n\n b " + "x" * 500, 10) == "a b xxxxx…"
