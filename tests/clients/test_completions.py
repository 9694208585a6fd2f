"""Test how chat responses are classified, over the bodies and statuses that providers send."""

import json
from pathlib import Path
from typing import Any

import pytest

from factmill.tasks.clients.completions import (
    find_chat_failure_or_raise,
    find_content_or_length_refusal,
    read_completion,
)
from factmill.tasks.clients.openai_server import ServerResponse
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.errors import AccountBlocked, ServiceUnreachable


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def choose(text: Any = "Paris", finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}, **more}


def outcome(status: int, body: Any) -> str:
    """Return the class of a response (`final`, `later`, `retry` or `stop`), and the code of the failure or error."""
    answer = ServerResponse(status, body if isinstance(body, str) else json.dumps(body))
    try:
        reply = find_chat_failure_or_raise("it", answer)
        if reply is None:
            found = read_completion("it", answer)
            return f"final {found.error.partition(':')[0]}" if found.error else f"answer {found.body['finish']}"
    except Retry as trouble:
        return f"retry {trouble.code}"
    except AccountBlocked as stopped:
        assert len(str(stopped).splitlines()) == 1
        return "stop account"
    except ServiceUnreachable:
        return "stop service"
    return f"{'later' if reply.transient else 'final'} {(reply.error or '').partition(':')[0]}"


ERRORS: list[tuple[str, int, Any, str]] = [
    ("OpenRouter, no credit", 402, error("Insufficient credits. Add more", code=402), "stop account"),
    ("402 without a word", 402, "", "stop account"),
    ("Anthropic, no credit", 400, {"type": "error", **error("Your credit balance is too low to access the API.", type="invalid_request_error")}, "stop account"),
    ("Anthropic, own limit", 400, error("You have reached your specified API usage limits. You will regain access on 2026-12-01."), "stop account"),
    ("OpenAI, quota", 429, error("You exceeded your current quota", code="insufficient_quota"), "stop account"),
    ("OpenAI, quota, 403", 403, error("no", type="insufficient_quota"), "stop account"),
    ("OpenAI, hard limit", 400, error("Billing hard limit has been reached", code="billing_hard_limit_reached"), "stop account"),
    ("OpenAI, deactivated", 401, error("The OpenAI account has been deactivated", code="account_deactivated"), "stop account"),
    ("xAI, spending limit", 429, {"code": "Some resource has been exhausted", "error": "Your team has used all available credits or reached its monthly spending limit."}, "stop account"),
    ("Moonshot, suspended", 429, error("Your account org-1 is suspended, please check your plan", type="exceeded_current_quota_error"), "stop account"),
    ("DashScope, arrears", 400, error("Access denied, please make sure your account is in good standing.", code="Arrearage"), "stop account"),
    ("LiteLLM, budget", 400, error("Budget has been exceeded! Current cost: 2, Max budget: 1", type="budget_exceeded"), "stop account"),
    ("OpenRouter, key limit", 403, error("Key limit exceeded (total limit).", code=403), "stop account"),
    ("Gemini, requests a minute", 429, [error("You exceeded your current quota, please check your plan and billing details. Please retry in 30s", status="RESOURCE_EXHAUSTED")], "retry http_429"),
    ("OpenAI, requests a minute", 429, error("Rate limit reached. Visit https://x/account/billing to add a payment method", code="rate_limit_exceeded"), "retry http_429"),
    ("Azure, filter", 400, error("The response was filtered due to the prompt triggering the content management policy.", code="content_filter", innererror={"code": "ResponsibleAIPolicyViolation"}), "final refused"),
    ("Azure, inner code alone", 400, error("no", innererror={"code": "ResponsibleAIPolicyViolation"}), "final refused"),
    ("OpenRouter, moderation", 403, error("Your input was flagged", code=403, metadata={"reasons": ["violence"], "flagged_input": "How…"}), "final refused"),
    ("xAI, guidelines", 403, {"code": "The caller does not have permission", "error": "Content violates usage guidelines."}, "final refused"),
    ("DashScope, inspection", 400, error("Input data may contain inappropriate content.", code="data_inspection_failed"), "final refused"),
    ("DeepSeek, risk", 400, error("Content Exists Risk", type="invalid_request_error"), "final refused"),
    ("Moonshot, risk", 400, error("The request was rejected because it was considered high risk", type="content_filter"), "final refused"),
    ("Anthropic, output", 400, error("Output blocked by content filtering policy", type="invalid_request_error"), "final refused"),
    ("LiteLLM, policy", 400, error("litellm.ContentPolicyViolationError: AzureException - filtered"), "final refused"),
    ("too long", 400, error("too long", code="context_length_exceeded"), "final prompt_too_long"),
    ("something in the request", 400, error("the moon is full"), "later http_400"),
    ("a number", 422, {"detail": [{"msg": "not a number", "input": "content violates my credit balance is too low"}]}, "later http_422"),
    ("gone", 410, "gone", "later http_410"),
    ("no such model", 404, error("no model m-1"), "stop service"),
    ("wrong key", 401, error("Incorrect API key"), "stop service"),
    ("forbidden", 403, error("Your request was blocked."), "stop service"),
    ("hosting page", 503, "<html>This account has been suspended</html>", "retry http_503"),
    ("overloaded", 529, error("Overloaded", type="overloaded_error"), "retry http_529"),
]  # fmt: skip

BODIES: list[tuple[str, Any, str]] = [
    ("an answer", {"choices": [choose()]}, "answer ['stop']"),
    ("an answer that speaks of money", {"choices": [choose("Your credit balance is too low: content violates it.")]}, "answer ['stop']"),
    ("answer with null error", {"error": None, "choices": [choose()]}, "answer ['stop']"),
    ("no credit", error("Insufficient credits", code=402), "stop account"),
    ("quota", error("no", code="insufficient_quota"), "stop account"),
    ("busy", error("Rate limit exceeded", code=429), "retry provider_busy"),
    ("overloaded", error("Provider is overloaded", code=503), "retry provider_busy"),
    ("broken", error("Provider returned error", code=502), "retry provider_failed"),
    ("in a list", [error("Internal error", code=500, status="INTERNAL")], "retry provider_failed"),
    ("vLLM's form", {"object": "error", "message": "engine is dead", "code": 500}, "retry provider_failed"),
    ("FastAPI's form", {"detail": "upstream is away"}, "retry provider_failed"),
    ("error with choices", {**error("died"), "choices": [choose("Par")]}, "retry provider_failed"),
    ("too long", error("maximum context length is 512 tokens", code=400), "final prompt_too_long"),
    ("flagged", error("flagged", code=403, metadata={"reasons": ["x"], "flagged_input": "y"}), "final refused"),
    ("MiniMax, input", {"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, "final refused"),
    ("MiniMax, balance", {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "stop account"),
    ("Gemini, block reason", {"promptFeedback": {"blockReason": "SAFETY"}, "usage": {"prompt_tokens": 9}}, "final refused"),
    ("Gemini, block reason without choices", {"choices": [], "prompt_feedback": {"block_reason": "OTHER"}}, "final refused"),
    ("no choices", {"choices": [], "usage": {"prompt_tokens": 9}}, "retry no_choices"),
    ("no choices at all", {"object": "chat.completion", "id": "x"}, "retry no_choices"),
    ("something else", {"hello": 1}, "retry malformed_reply"),
    ("a text", '"hello"', "retry malformed_reply"),
    ("no message", {"choices": [{"message": None}]}, "retry malformed_reply"),
    ("no choice", {"choices": ["Paris"]}, "retry malformed_reply"),
    ("a failed choice", {"choices": [choose("Par", "error", error={"code": 502, "message": "died"})]}, "retry provider_failed"),
    ("a busy choice", {"choices": [choose("Par", "stop", error={"code": 429, "message": "slow"})]}, "retry provider_busy"),
    ("a choice without credit", {"choices": [choose("", "error", error={"code": 402, "message": "Insufficient credits"})]}, "stop account"),
    ("a blocked choice", {"choices": [choose("", "error", error={"code": "content_filter"})]}, "answer ['content_filter']"),
    ("half a text", {"choices": [choose("Par", "error")]}, "retry provider_failed"),
    ("Gemini, call", {"choices": [choose("", "MALFORMED_FUNCTION_CALL")]}, "retry provider_failed"),
    ("DeepSeek, no room", {"choices": [choose("Par", "insufficient_system_resource")]}, "retry provider_failed"),
    ("one of two failed", {"choices": [choose(), choose("", "error")]}, "retry provider_failed"),
    ("filtered without a message", {"choices": [{"finish_reason": "SAFETY"}]}, "answer ['SAFETY']"),
    ("a refusal", {"choices": [{**choose(), "message": {"content": None, "refusal": "I will not."}}]}, "answer ['refusal']"),
    ("refusal with text", {"choices": [{**choose(), "message": {"content": "Paris", "refusal": "I will not."}}]}, "answer ['refusal']"),
    ("no refusal", {"choices": [{**choose(), "message": {"content": "Paris", "refusal": None}}]}, "answer ['stop']"),
    ("an unknown end", {"choices": [choose("Paris", "zap")]}, "answer ['zap']"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "expected"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_error_body_is_classified(status: int, body: Any, expected: str) -> None:
    assert outcome(status, body) == expected


@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_body_with_status_200_is_classified(body: Any, expected: str) -> None:
    assert outcome(200, body) == expected


def test_text_parts_are_joined_without_thinking() -> None:
    parts = [{"type": "thinking", "thinking": [{"text": "hm"}]}, {"type": "text", "text": "Pa"}, "ris", {"text": None}]
    answer = ServerResponse(200, json.dumps({"choices": [choose(parts)]}))
    assert read_completion("it", answer).body["texts"] == ["Paris"]


def test_only_failure_specific_to_request_is_no_sign_of_outage() -> None:
    def fail(body: Any) -> bool:
        with pytest.raises(Retry) as caught:
            read_completion("it", ServerResponse(200, json.dumps(body)))
        return caught.value.is_about_request

    assert fail({"choices": [], "usage": {}})
    assert fail({"choices": [choose("", "MALFORMED_FUNCTION_CALL")]})
    assert fail({"choices": [choose("", "error")]})
    assert fail(error("Provider returned error", code=502))
    assert not fail(error("Provider is overloaded", code=529))


def test_status_200_body_is_never_content_or_length_refusal() -> None:
    assert find_content_or_length_refusal("it", ServerResponse(200, json.dumps(error("Insufficient credits")))) is None


def test_parameter_refusals_are_not_content_or_length_refusals(shared_data: Path) -> None:
    lines = (shared_data / "providers" / "refusals.jsonl").read_text("utf-8").splitlines()
    refusals = [json.loads(line) for line in lines]
    assert refusals
    found = {
        each["from"]: find_content_or_length_refusal("it", ServerResponse(each["status"], each["body"]))
        for each in refusals
    }
    assert {name for name, reply in found.items() if reply} == set()
