"""Client of Anthropic's own API (`kind = "anthropic"`): translates requests and responses of OpenAI's chat protocol.

Chat builds and reads bodies of OpenAI's chat protocol; this server translates them for Anthropic's SDK. OpenAiServerClient
does the rest: limits, redirects, prices and the run's budget. Errors stay as the API sends them.

The SDK is the extra `anthropic`, so it is imported when the first such model is asked. Requests go through its generic
`post`, as OpenAiServerClient's do. `messages.create` would refuse replies of more than about 21,000 tokens without a stream,
because they may take over ten minutes; here `limits.timeout_s` bounds the time.

Names and shapes are those of the SDK's types (anthropic 2.12, API version 2026-10-21). The differences:

| chat protocol | Messages API |
|---|---|
| `system` messages | one `system` text |
| `max_tokens` or `max_completion_tokens`, optional | `max_tokens`, required |
| `temperature` 0 to 2 | not among the SDK's parameters; sent as 0 to 1, and not while the model thinks |
| `reasoning_effort` | `output_config.effort` |
| `response_format` | `output_config.format` |
| `tools`, `tool_calls`, messages of role `tool` | `tools`, blocks `tool_use` and `tool_result` |
| `n`, `seed` | none |

All other keys, such as `thinking` from a model's `extra_body`, are sent unchanged. `finish_reason` and `usage` of a
response keep Anthropic's values and names; the text leaves thinking out.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import httpx2

from factmill.tasks.clients.openai_server import (
    DEFAULT_MAX_TOKENS,
    FILE_DEADLINE_S,
    FILE_TIMEOUT_S,
    OpenAiServerClient,
    ServerResponse,
)
from factmill.tasks.clients.sending.http_responses import parse_json_or_none
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import SettingsError

_TRANSLATED_REQUEST_KEYS = frozenset(
    {"messages", "n", "seed", "stream", "max_tokens", "max_completion_tokens", "temperature", "reasoning_effort"}
    | {"response_format", "tools", "output_config"}
)
_STATUS_BY_ERROR_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Error type → HTTP status. Batch results give only the type."""
_ERROR_BY_UNFINISHED_RESULT = {
    "canceled": {"code": "batch_cancelled", "message": "the batch was canceled before this request was answered"},
    "expired": {"code": "batch_expired", "message": "the batch expired before this request was answered"},
}

JsonBody = Mapping[str, Any]


def build_messages_request(
    chat_body: JsonBody, default_max_tokens: int, adapt_schema: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Build the body of `POST /v1/messages` from a body of the chat protocol.

    `default_max_tokens`: for a body without a limit. `adapt_schema`: reduces a JSON schema to the subset that the API
    takes.
    """
    request: dict[str, Any] = {name: value for name, value in chat_body.items() if name not in _TRANSLATED_REQUEST_KEYS}
    limits = (chat_body.get(name) for name in ("max_tokens", "max_completion_tokens"))
    request["max_tokens"] = next((limit for limit in limits if limit), default_max_tokens)
    request["messages"] = _merge_non_system_messages_into_turns(chat_body["messages"])
    if system := [message["content"] for message in chat_body["messages"] if message["role"] == "system"]:
        request["system"] = "\n\n".join(system)
    if "temperature" in chat_body and (chat_body.get("thinking") or {}).get("type") not in ("enabled", "adaptive"):
        request["temperature"] = min(1.0, max(0.0, chat_body["temperature"]))
    config: dict[str, Any] = {}
    if effort := chat_body.get("reasoning_effort"):
        config["effort"] = effort
    response_format = chat_body.get("response_format") or {}
    found = response_format.get("schema") or response_format.get("json_schema", {}).get("schema")
    if schema := (dict(found) if found else None):
        config["format"] = {"type": "json_schema", "schema": adapt_schema(schema)}
    if config := config | chat_body.get("output_config", {}):
        request["output_config"] = config
    if functions := [tool["function"] for tool in chat_body.get("tools") or ()]:
        request["tools"] = [
            {"name": each["name"], "input_schema": each.get("parameters") or {"type": "object"}}
            | {name: each[name] for name in ("description", "strict") if each.get(name) is not None}
            for each in functions
        ]
    return request


def _merge_non_system_messages_into_turns(messages: Sequence[JsonBody]) -> list[dict[str, Any]]:
    """Return the messages without system messages; consecutive messages of one role become one turn with several
    blocks."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _build_content_blocks(message)
    return turns


def _build_content_blocks(message: JsonBody) -> list[dict[str, Any]]:
    """Return the content of a message as blocks. Empty text makes no block, since the API refuses it."""
    text = message.get("content") or ""
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in message.get("tool_calls") or ():
        named = call["function"]
        # the tool's result explains what is wrong with arguments that are no object
        found = parse_json_or_none(named["arguments"] or "{}")
        given = found if isinstance(found, dict) else {}
        blocks.append({"type": "tool_use", "id": call["id"], "name": named["name"], "input": given})
    return blocks


def translate_message_to_chat_completion(message: Any) -> Any:
    """Convert a response of the Messages API to the chat protocol; return anything else unchanged."""
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), list):
        return message
    blocks = [block for block in message["content"] if isinstance(block, Mapping)]
    chat_message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text"),
    }
    for block in blocks:
        if block.get("type") == "tool_use":
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            call = {"id": block.get("id"), "type": "function"}
            call["function"] = {"name": block.get("name"), "arguments": arguments}
            chat_message.setdefault("tool_calls", []).append(call)
    if message.get("stop_reason") == "refusal":
        chat_message["refusal"] = (message.get("stop_details") or {}).get("explanation") or "refusal"
    return {
        "id": message.get("id"),
        "model": message.get("model"),
        "choices": [{"index": 0, "message": chat_message, "finish_reason": message.get("stop_reason")}],
        "usage": message.get("usage"),
    }


def translate_response_json_to_chat(text: str) -> str:
    """Convert a response body to the chat protocol; return text that is not JSON unchanged."""
    found = parse_json_or_none(text)
    return text if found is None else json.dumps(translate_message_to_chat_completion(found), ensure_ascii=False)


def read_custom_id(line: bytes) -> str | None:
    """Return the custom id of a line of batch results; None where it has none."""
    found = parse_json_or_none(line)
    custom_id = found.get("custom_id") if isinstance(found, dict) else None
    return custom_id if isinstance(custom_id, str) else None


def convert_batch_line_to_openai_format(line: bytes) -> bytes:
    """Convert a line of batch results to a line of an OpenAI job's output file (batch_jobs/jsonl.py).

    An unreadable line is returned unchanged; `parse_result_lines` counts it.
    """
    try:
        found = json.loads(line)
        result = found["result"]
        kind = result["type"]
        if kind == "succeeded":
            payload: dict[str, Any] = {
                "response": {"status_code": 200, "body": translate_message_to_chat_completion(result["message"])}
            }
        elif kind == "errored":
            error = result["error"]
            status = _STATUS_BY_ERROR_TYPE.get(error.get("error", error).get("type"), 500)
            payload = {"response": {"status_code": status, "body": error}}
        else:
            payload = {"error": _ERROR_BY_UNFINISHED_RESULT[kind]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return line
    return json.dumps({"custom_id": found.get("custom_id"), **payload}).encode("ascii")


MESSAGE_BATCHES_PATH = "/v1/messages/batches"


def require_anthropic_sdk() -> None:
    """Raise SettingsError unless the SDK is installed."""
    if find_spec("anthropic") is None:
        raise SettingsError(
            'kind = "anthropic" needs the Anthropic SDK, which is not installed: pip install "factmill[anthropic]"'
        )


class AnthropicServerClient(OpenAiServerClient):
    """Client of one model behind the Messages API."""

    library = "anthropic"

    def __init__(self, model: ModelSettings, read_key: Callable[[], str], user_agent: str) -> None:
        """Set up the client; send nothing. SettingsError where the SDK is not installed."""
        require_anthropic_sdk()
        super().__init__(model, read_key, user_agent)

    def _open_client(self, user_agent: str, http_client: httpx2.AsyncClient) -> Any:
        return self._sdk.AsyncAnthropic(
            api_key="none",  # the transport adds the real key; without one here the SDK looks for its own
            base_url=self.model.url,
            max_retries=0,
            timeout=self.model.limits.timeout_s,
            default_headers={"User-Agent": user_agent},
            http_client=http_client,
        )

    def translate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Build the Messages request for a body of the chat protocol."""
        return build_messages_request(body, DEFAULT_MAX_TOKENS, self._sdk.transform_schema)

    async def post(self, path: str, body: Mapping[str, Any]) -> ServerResponse:
        """Send one request, translating a chat and its response; Retry when the connection fails."""
        if path != "/chat/completions":
            return await super().post(path, body)
        answer = await super().post("/v1/messages", self.translate(body))
        # a secret may have been split over several blocks, which are now one text
        return (
            replace(answer, text=self.credentials.redact(translate_response_json_to_chat(answer.text)))
            if answer.status < 300
            else answer
        )

    async def create_batch(self, requests: Sequence[Mapping[str, Any]]) -> ServerResponse:
        """Create a Message Batch of `{"custom_id", "params"}`; Retry when the connection fails."""
        creating = self._client.post(
            MESSAGE_BATCHES_PATH,
            body={"requests": requests},
            cast_to=httpx2.Response,
            options={"timeout": FILE_TIMEOUT_S},
        )
        return self._read_response(await self._send(creating, FILE_DEADLINE_S))


def make_server_client_of_model_kind(
    model: ModelSettings, read_key: Callable[[], str], user_agent: str
) -> OpenAiServerClient:
    """Make the client of a chat model's server, by the model's kind; SettingsError where its SDK is not installed."""
    kind = AnthropicServerClient if model.kind == "anthropic" else OpenAiServerClient
    return kind(model, read_key, user_agent)
