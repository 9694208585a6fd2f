"""Classification of chat responses, the same for single requests and for lines of batch jobs.

| response | outcome |
|---|---|
| 2xx with choices | an answer: a text and a finish reason for each sample |
| a choice with an `error` or a finish reason that is a failure; 2xx with an error or an empty body | the provider failed: Retry, and after the last try a failed reply that the next run asks again |
| an error of a content filter or of moderation, with any status; no choices, but the reason of a block | failed reply `refused`, permanent |
| no credit, a spending limit, a suspended account, HTTP 402 | AccountBlocked: the run stops |
| the prompt is too long | failed reply `prompt_too_long`, permanent |
| 401, 403, 404 | ServiceUnreachable: the service refuses us, or knows no such model |
| 3xx, 408, 413, 414, 425, 429, 5xx | Retry |
| any other 4xx | failed reply that the next run asks again |

A sample that a filter ended, or that has a `refusal`, stays among the others with a finish reason that shows it
(core/finish_reasons.py); chat.py joins samples. Providers report a block or a lack of credit with any status and in
many wordings. Only the codes and messages of errors are searched for them, never a model's text or what an error quotes
of the prompt.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from factmill.tasks.clients.openai_server import ServerResponse
from factmill.tasks.clients.sending.http_responses import (
    find_final_http_failure_or_raise,
    parse_json_body,
    shorten_to_line,
)
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.clients.unsupported_parameters import is_prompt_too_long
from factmill.tasks.core.calls.call import CallResponse, make_failed_response
from factmill.tasks.core.finish_reasons import classify_finish_reason
from factmill.tasks.errors import AccountBlocked, ServiceUnreachable

_CONTENT_FILTER_CODE = re.compile(
    r"content_filter(?:_error)?|content_policy_violation|contentpolicyviolationerror|responsibleaipolicyviolation"
    r"|data_?inspection_?failed"
)
_CONTENT_FILTER_MESSAGE = re.compile(
    r"content[ _-]?(?:filter(?:ing)?|management|safety|moderation) polic|content[ _]?policy[ _]?violation"
    r"|content violates|content exists risk|considered high risk|inappropriate content|new_sensitive"
    r"|(?:prompt|input|content|response|output) (?:was|is|has been) (?:flagged|blocked|filtered)"
    r"|result of (?:our|the) safety system|for safety reasons|(?:unsafe|sensitive) content|敏感内容",
    re.IGNORECASE,
)
_ACCOUNT_BLOCKED_CODE = re.compile(
    r"402|insufficient_(?:quota|balance|credits|user_quota)|billing_(?:hard_limit_reached|not_active|error|disabled)"
    r"|budget_exceeded|exceeded_current_quota_error|(?:enforced|contract|linked_organization)_spend_limit_reached"
    r"|organization_(?:on_hold|restricted)|account_(?:deactivated|suspended)|accountoverdueerror|arrearage"
)
_ACCOUNT_BLOCKED_MESSAGE = re.compile(
    r"credit balance is too low|insufficient (?:account |user )?(?:credits?|balance|funds)|requires more credits"
    r"|all (?:of )?(?:your |its )?(?:available |remaining |included )?credits|(?:exceeded|reached) your (?:monthly )?included credits"
    r"|(?:doesn't|does not|don't|do not) have (?:any|enough) credits|out of credits?\b"
    r"|credits? (?:are|is|have been|has been) (?:depleted|exhausted|used up)|(?:credit|key) limit (?:exceeded|reached)"
    r"|spend(?:ing)? (?:limit|cap)|specified API usage limits?|budget has been exceeded|ExceededBudget"
    r"|billing hard limit|billing (?:is not|has not been|not) (?:active|enabled)|requires billing|billing has been disabled"
    r"|(?:is|has been|was) (?:currently )?(?:suspended|deactivated|in arrears|overdue)\b"
    r"|(?:account|organi[sz]ation)\b[^.]{0,60}\b(?:is|has been|was) (?:disabled|restricted|locked|banned|terminated)\b"
    r"|in good standing|payment required|余额不足|欠费",
    re.IGNORECASE,
)
_BUSY_CODE = re.compile(r"429|503|529|rate_limit_(?:exceeded|error)|resource_exhausted|overloaded_error|unavailable")

_CODE_FIELDS = ("code", "type", "status", "reason", "status_code", "error_code")
_MESSAGE_FIELDS = ("message", "msg", "detail", "error", "status_msg", "error_msg")
_NESTED_ERROR_FIELDS = ("error", "errors", "detail", "details", "innererror", "inner_error", "base_resp")
_MAX_ERROR_DEPTH = 5
_ERROR_FIELDS = ("error", "errors", "detail", "message", "base_resp")
"""Fields of a body without choices in which servers report an error."""


@dataclass(slots=True)
class ProviderErrorDetails:
    """Codes and messages of a provider's error, collected from all its fields."""

    codes: list[str] = field(default_factory=list)
    """Numbers, types, states and reasons, in lower case."""
    messages: list[str] = field(default_factory=list)
    is_flagged: bool = False
    """True when it lists what moderation found in the prompt (OpenRouter)."""

    @property
    def is_blocked(self) -> bool:
        return self.is_flagged or self._matches(_CONTENT_FILTER_CODE, _CONTENT_FILTER_MESSAGE)

    @property
    def is_account_blocked(self) -> bool:
        return self._matches(_ACCOUNT_BLOCKED_CODE, _ACCOUNT_BLOCKED_MESSAGE)

    @property
    def is_busy(self) -> bool:
        return any(map(_BUSY_CODE.fullmatch, self.codes))

    def _matches(self, code: re.Pattern[str], message: re.Pattern[str]) -> bool:
        return any(map(code.fullmatch, self.codes)) or any(map(message.search, self.messages))


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """Content of a response with status 2xx."""

    body: dict[str, Any]
    """In the format of core/calls/chat.py."""
    usage: Any
    """The response, whose token counts give the price (core/spending/costs.py)."""
    error: str = ""
    """Why there are no samples: `refused` or `prompt_too_long`, a colon, details."""


def find_content_or_length_refusal(service: str, answer: ServerResponse) -> CallResponse | None:
    """Return a failed reply for a request refused for its content or length; None for success and for any other error.

    AccountBlocked when the account may make no further requests.
    """
    if answer.status < 300:
        return None
    error = read_provider_error(answer.text)
    excerpt = f"HTTP {answer.status}: {shorten_to_line(answer.text)}"
    if error.is_blocked:
        return make_failed_response("refused", excerpt)
    if error.is_account_blocked:
        raise AccountBlocked(service, excerpt)
    if is_prompt_too_long(answer.status, answer.text):
        return make_failed_response("prompt_too_long", shorten_to_line(answer.text))
    return None


def find_chat_failure_or_raise(service: str, answer: ServerResponse) -> CallResponse | None:
    """Return None for 2xx, and a failed reply where retrying in this run is useless; else raise Retry or
    ServiceUnreachable."""
    if failure := find_content_or_length_refusal(service, answer):
        return failure
    if answer.status == 404:
        raise ServiceUnreachable(
            f"{service}: HTTP 404: {shorten_to_line(answer.text)}. Check url, name and account of the model"
        )
    failure = find_final_http_failure_or_raise(service, answer.status, answer.text, answer.retry_after)
    # other failures may lie in the account or the server's setup, which people can fix
    return failure and replace(failure, transient=True)


def read_completion(service: str, answer: ServerResponse) -> ChatCompletion:
    """Read a response with status 2xx; Retry when the provider failed, AccountBlocked as in `find_content_or_length_refusal`."""
    read = parse_json_body(answer.text)
    body = read[0] if isinstance(read, list) and read else read
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or body.get("error") or not isinstance(choices, list) or not choices:
        return _read_failure_of_choiceless_response(service, answer, body)
    try:
        choices = sorted(choices, key=lambda choice: choice.get("index") or 0)
        samples = [_read_text_finish_reason_and_tool_calls(service, choice) for choice in choices]
    except (KeyError, TypeError, AttributeError) as error:
        raise Retry(f"malformed_reply: no choices in {shorten_to_line(answer.text)}") from error
    texts, finish, calls = ([sample[at] for sample in samples] for at in range(3))
    found = {"texts": texts, "finish": finish, "fingerprint": body.get("system_fingerprint")}
    return ChatCompletion(found | ({"calls": calls} if any(calls) else {}), body)


def read_provider_error(text: str) -> ProviderErrorDetails:
    """Read the codes and messages of an error body."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = "" if text.lstrip().startswith("<") else shorten_to_line(text)
    return _read_error_body(body)


def _read_error_body(body: Any) -> ProviderErrorDetails:
    error = ProviderErrorDetails()
    if isinstance(body, str):
        error.messages.append(body)
    else:
        _collect_error_details(body, error, _MAX_ERROR_DEPTH)
    return error


def _collect_error_details(part: Any, error: ProviderErrorDetails, depth: int) -> None:
    if depth and isinstance(part, list):
        for each in part:
            _collect_error_details(each, error, depth - 1)
    if not depth or not isinstance(part, Mapping):
        return
    codes = (part.get(name) for name in _CODE_FIELDS)
    error.codes += [str(code).lower() for code in codes if isinstance(code, str | int) and not isinstance(code, bool)]
    error.messages += [part[name] for name in _MESSAGE_FIELDS if isinstance(part.get(name), str)]
    metadata = part.get("metadata")
    if isinstance(metadata, Mapping) and (metadata.get("flagged_input") or metadata.get("reasons")):
        error.is_flagged = True
    for name in _NESTED_ERROR_FIELDS:
        _collect_error_details(part.get(name), error, depth - 1)


def _read_failure_of_choiceless_response(service: str, answer: ServerResponse, body: Any) -> ChatCompletion:
    """Return the permanent failure that a 2xx without choices reports; Retry for any other."""
    body = body if isinstance(body, Mapping) else {}
    nothing: dict[str, Any] = {"texts": [], "finish": [], "fingerprint": None}
    excerpt = shorten_to_line(answer.text)
    feedback = body.get("promptFeedback") or body.get("prompt_feedback")
    if isinstance(feedback, Mapping) and (reason := feedback.get("blockReason") or feedback.get("block_reason")):
        return ChatCompletion(nothing, body, f"refused: the prompt is blocked: {reason}")
    is_error = "error" in (body.get("object"), body.get("type")) or any(map(body.get, _ERROR_FIELDS))
    if is_error and (final := find_content_or_length_refusal(service, ServerResponse(400, answer.text))):
        return ChatCompletion(nothing, body, final.error or "")
    if is_error:
        raise _make_provider_retry(_read_error_body(body), excerpt)
    if "usage" in body or body.get("object") == "chat.completion":
        raise Retry(f"no_choices: the reply holds no choices: {excerpt}", is_about_request=True)
    raise Retry(f"malformed_reply: no choices in {excerpt}")


def _read_text_finish_reason_and_tool_calls(
    service: str, choice: Mapping[str, Any]
) -> tuple[str, str, list[dict[str, str]]]:
    """Return the text of a sample, its finish reason, and its tool calls; Retry when the provider failed."""
    finish = str(choice.get("finish_reason"))
    if failure := choice.get("error"):
        error, excerpt = _read_error_body(failure), shorten_to_line(json.dumps(failure, ensure_ascii=False))
        if not error.is_blocked:
            raise AccountBlocked(service, excerpt) if error.is_account_blocked else _make_provider_retry(error, excerpt)
        finish = "content_filter"
    ending = classify_finish_reason(finish)
    if ending == "failed":
        detail = f"provider_failed: the reply ends with finish reason {finish}"
        # a provider that cannot read a model's reply to one prompt still answers others
        raise Retry(detail, is_about_request=True)
    message = choice.get("message")
    if message is None and ending == "filtered":
        return "", finish, []
    message = choice["message"]
    if refusal := message.get("refusal"):
        finish = finish if ending == "filtered" else "refusal"
        return refusal if isinstance(refusal, str) else _read_message_text(message.get("content")), finish, []
    return _read_message_text(message.get("content")), finish, _read_tool_calls(message)


def _make_provider_retry(error: ProviderErrorDetails, excerpt: str) -> Retry:
    code = "provider_busy" if error.is_busy else "provider_failed"
    return Retry(f"{code}: {excerpt}", is_about_request=not error.is_busy)


def _read_message_text(content: str | Sequence[str | Mapping[str, Any]] | None) -> str:
    """Return the text of a message; of content in parts, such as thoughts and text, only the texts."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str))


def _read_tool_calls(message: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the tool calls of a message, in the current form or the older one (`function_call`)."""
    asked = message.get("tool_calls") or []
    if not asked and message.get("function_call"):
        asked = [{"function": message["function_call"]}]
    calls = []
    for at, each in enumerate(asked, 1):
        named = each.get("function") or {}
        given = named.get("arguments") or ""
        # nine characters, since some servers accept only ids of that length
        fields = {"id": str(each.get("id") or f"call{at:05}"), "name": str(named.get("name") or "")}
        calls.append(
            {**fields, "arguments": given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)}
        )
    return calls
