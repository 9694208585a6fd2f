"""Test lines of batch jobs: no reader splits them differently, and any server output is readable."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.clients.batch_jobs.jsonl import ParsedBatchResults, format_request_line, parse_result_lines
from factmill.tasks.clients.openai_server import ServerResponse

KNOWN = ("a", "b", "c")


def line(custom_id="a", text="hello", status=200, **more) -> bytes:
    body = {"choices": [{"message": {"content": text}}]}
    result = {"custom_id": custom_id, "response": {"status_code": status, "body": body}, "error": None}
    return json.dumps({**result, **more}, ensure_ascii=False).encode()


def read(content: bytes) -> ParsedBatchResults:
    lines = ParsedBatchResults()
    parse_result_lines(content, KNOWN, lines)
    return lines


def said(lines: ParsedBatchResults) -> dict[str, str]:
    return {key: json.loads(each.text)["choices"][0]["message"]["content"] for key, each in lines.results.items()}


def test_line_encodes_its_request_in_ascii():
    written = format_request_line("k-1", {"messages": [{"content": "naïve\u2028\u0085\ud800\n"}]})
    assert written.isascii() and written.count(b"\n") == 1 and len(written.splitlines()) == 1
    result = json.loads(written)
    assert (result["custom_id"], result["method"], result["url"]) == ("k-1", "POST", "/v1/chat/completions")
    assert result["body"]["messages"][0]["content"] == "naïve\u2028\u0085\ud800\n"


@pytest.mark.parametrize(
    "content",
    [
        line("a", "né") + b"\n" + line("b") + b"\n",
        line("a", "né") + b"\r\n" + line("b"),
        b"\xef\xbb\xbf" + line("a", "né") + b"\n\n \n" + line("b"),
        (line("a", "né") + b"\n" + line("b")).decode().encode("utf-16"),
        b"\xfe\xff" + (line("a", "né") + b"\r\n" + line("b")).decode().encode("utf-16-be"),
        line("b") + b"\n" + line("a", "né"),
    ],
)
def test_result_files_are_read_in_any_encoding_or_line_format(content):
    assert said(read(content)) == {"a": "né", "b": "hello"}


def test_unicode_separators_within_text_do_not_end_line():
    assert said(read(line("a", "x\u2028y\u0085z\x0c"))) == {"a": "x\u2028y\u0085z\x0c"}


@pytest.mark.parametrize(
    "broken",
    [
        line()[:-3],
        b"<html>",
        b"null",
        b"[]",
        b'"a"',
        b"{}",
        b'{"custom_id": 5}',
        b'{"custom_id": "a"}',
        b'{"custom_id": ["a"], "response": {}}',
        b'{"custom_id": "a", "response": {"body": {}}}',
        b'{"custom_id": "a", "response": {"status_code": true, "body": {}}}',
        line("a", "né").decode().encode("latin-1"),
        b"[" * 100_000,
    ],
)
def test_unreadable_line_is_counted_and_skipped(broken):
    lines = read(b"\n".join([broken, line("b")]))
    assert said(lines) == {"b": "hello"}
    assert (lines.unreadable, lines.format_problems()) == (1, "1 are unreadable")


def test_lines_with_unknown_request_ids_are_skipped():
    lines = read(line("z") + b"\n" + line("a"))
    assert said(lines) == {"a": "hello"}
    assert lines.format_problems() == "1 belong to no known request"


def test_first_successful_line_wins_among_duplicates():
    lines = read(
        b"\n".join([line("a", "first"), line("a", "second"), line("b", "no", 500), line("b", "yes"), line("b", "late")])
    )
    assert said(lines) == {"a": "first", "b": "yes"}
    assert lines.format_problems() == "3 are duplicates"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"response": {"status_code": 429, "body": {"error": "slow"}}}, ServerResponse(429, '{"error": "slow"}')),
        ({"response": {"status_code": "400", "body": "oops"}}, ServerResponse(400, "oops")),
        ({"response": {"body": {"choices": []}}}, ServerResponse(200, '{"choices": []}')),
        (
            {"response": None, "error": {"code": "batch_expired", "message": "late"}},
            ServerResponse(0, "batch_expired: late"),
        ),
        ({"error": "gone"}, ServerResponse(0, "line_failed: gone")),
        # vLLM's program writes an error together with an empty response
        (
            {"response": {"status_code": 400, "request_id": "r"}, "error": {"code": 5}},
            ServerResponse(400, '{"code": 5}'),
        ),
        ({"error": {"code": None}}, ServerResponse(0, "line_failed: no reason given")),
    ],
)
def test_line_is_parsed_to_expected_result(value, expected):
    assert read(json.dumps({"custom_id": "a", **value}).encode()).results == {"a": expected}


@given(st.lists(st.sampled_from([line("a"), line("b", "né"), line("c")[:-9], b"\r", b"\x00", b"", b'{"custom_id":', b"\xff\xfe"])), st.binary(max_size=40))  # fmt: skip
def test_noise_raises_no_error_and_complete_lines_are_found(parts, noise):
    lines = read(b"\n".join([noise.replace(b"\n", b""), *parts]))
    if not noise.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert ("b" in lines.results) == (line("b", "né") in parts)
    assert set(lines.results) <= set(KNOWN)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["custom_id", "response", "error", "status_code", "body", "code"]), inner), max_leaves=8))  # fmt: skip
def test_any_json_line_counts_as_result_or_unreadable_or_unknown(messages):
    lines = read(json.dumps(messages).encode())
    assert len(lines.results) + lines.unreadable + lines.unknown_ids == 1
