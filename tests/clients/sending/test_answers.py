"""Test how HTTP responses are classified: a reply, a final failure, a retry, or the end of the run."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from factmill.tasks.clients.sending.http_responses import (
    find_final_http_failure_or_raise,
    parse_json_body,
    parse_retry_after,
    shorten_to_line,
)
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.errors import AccountBlocked, ServiceUnreachable


@pytest.mark.parametrize(
    ("statuses", "expected", "splits"),
    [
        ((408, 425, 429, 500, 502, 503), "", False),
        ((413, 414, 504), "", True),
        ((300, 301, 304, 308), "a redirect that leads nowhere: ", False),
    ],
    ids=["may pass", "too big or too slow", "not followed"],
)
def test_transient_statuses_are_retried_and_split_where_smaller_groups_may_help(statuses, expected, splits):
    for status in statuses:
        with pytest.raises(Retry, match=f"http_{status}: {expected}try later") as caught:
            find_final_http_failure_or_raise("it", status, "try\nlater", "7")
        assert (caught.value.retry_after_s, caught.value.split) == (7, splits)


@pytest.mark.parametrize(("statuses", "transient"), [((400, 404, 410, 422), False), ((405, 406, 409, 418, 451), True)])
def test_only_statuses_about_request_are_final(statuses, transient):
    for status in statuses:
        reply = find_final_http_failure_or_raise("it", status, "not now")
        assert (reply.status, reply.error, reply.transient) == ("failed", f"http_{status}: not now", transient)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (402, AccountBlocked, "it: .* HTTP 402: no"),
        (401, ServiceUnreachable, "it: .*HTTP 401.*user_agent"),
        (403, ServiceUnreachable, "it: .*HTTP 403.*user_agent"),
    ],
)
def test_missing_credit_and_denied_access_stop_run(status, error, expected):
    with pytest.raises(error, match=expected):
        find_final_http_failure_or_raise("it", status, "no")


@pytest.mark.parametrize("status", [200, 204])
def test_success_status_is_no_failure(status):
    assert find_final_http_failure_or_raise("it", status, "") is None


@pytest.mark.parametrize(("value", "seconds"), [("0", 0.0), ("2.5", 2.5), ("-3", 0.0), (None, None), ("soon", None)])
def test_retry_after_in_seconds_is_parsed(value, seconds):
    assert parse_retry_after(value) == seconds


def test_retry_after_as_date_is_parsed():
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
def test_non_json_body_is_retried(text, code):
    with pytest.raises(Retry) as caught:
        parse_json_body(text)
    assert caught.value.code == code


def test_json_body_is_parsed():
    assert parse_json_body('{"a": 1}') == {"a": 1}


def test_error_details_are_short_and_on_one_line():
    assert shorten_to_line("a\n\n b " + "x" * 500, 10) == "a b xxxxx…"
