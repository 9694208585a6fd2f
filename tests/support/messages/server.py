"""Serve Anthropic's wire format on loopback: Messages and Message Batches, with the state of batches on disk.

The model's reply is a completion of the chat protocol, so that one script plays both protocols. A request may contain
only the fields of the SDK's types. A batch advances one step with each poll or listing.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsBase, MessageCreateParamsNonStreaming
from support.habits.server import write_model_world
from support.webs.loopback import Loopback, Seen

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""Body of a chat request → the server's response: status, json, headers."""
KEY = "sk-ant-loopback"
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_NAMED = {*MessageCreateParamsBase.__annotations__, *MessageCreateParamsNonStreaming.__annotations__}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class MessagesServer:
    """The server; `seen` has the accepted Messages requests, single or in batches."""

    def __init__(self, folder: Path, answer: Answer, *, accepts: frozenset[str] = frozenset()) -> None:
        """`accepts`: parameters that it takes in addition to the SDK's."""
        self.seen: list[dict[str, Any]] = []
        self.answered: Counter[str] = Counter()
        """Params of a batch's request → number of responses."""
        self.ends: dict[int, str] = {}
        """Number of a batch, from 1 → its end: `never`, `expired`, `canceled`; all others complete."""
        self.cut_creations = 0
        """Number of further batch creations that take effect but lose their response."""
        self.errors: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _: None
        """Messages request → its error response."""
        self._answer = answer
        self._accepts = _NAMED | accepts
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.web = Loopback()
        self.web.handle = self._handle
        self.url = self.web.url

    @property
    def batches(self) -> list[dict[str, Any]]:
        """Return the batches in their state on disk."""
        return [json.loads(path.read_text("utf-8")) for path in sorted(self._folder.glob("msgbatch_*.json"))]

    def close(self) -> None:
        self.web.close()

    def put_foreign(self, count: int, status: str, created: datetime) -> None:
        """Put another user's batch into the account."""
        requests = [{"custom_id": f"theirs-{at}", "params": {"messages": []}} for at in range(count)]
        self._save({**self._new(requests), "processing_status": status, "created_at": created.isoformat()})
        if status == "ended":
            batch = self.batches[-1]
            lines = [{"custom_id": each["custom_id"], "result": {"type": "expired"}} for each in requests]
            self._end(batch, lines)

    def _handle(self, seen: Seen) -> dict[str, Any]:  # noqa: PLR0911 (one a route)
        # the SDK sends a key as a bearer token; `x-api-key` is the older form
        if KEY not in (seen.headers.get("x-api-key"), seen.headers.get("authorization", "").removeprefix("Bearer ")):
            return error(401, "invalid x-api-key")
        if not seen.headers.get("anthropic-version"):
            return error(400, "anthropic-version: header is required")
        path = seen.path.strip("/").split("/")
        match seen.method, path:
            case "POST", ["v1", "messages"]:
                return self.answer(seen.json())
            case "POST", ["v1", "messages", "batches"]:
                batch = self._create(seen.json())
                if self.cut_creations > 0:
                    self.cut_creations -= 1
                    return {"cut": True}
                return batch
            case "GET", ["v1", "messages", "batches"]:
                return self._list(seen.query)
            case "POST", ["v1", "messages", "batches", batch_id, "cancel"]:
                batch = self._load(batch_id)
                if batch["processing_status"] == "ended":
                    return error(400, "Batch is not in progress")
                now = _now()
                return self._save({**batch, "processing_status": "canceling", "cancel_initiated_at": now})
            case "GET", ["v1", "messages", "batches", batch_id] if (self._folder / f"{batch_id}.json").is_file():
                return self._save(self._step(self._load(batch_id)))
            case "GET", ["v1", "messages", "batches", batch_id, "results"]:
                path_of_results = self._folder / f"{batch_id}.jsonl"
                if path_of_results.is_file():
                    return {"bytes": path_of_results.read_bytes(), "type": "application/x-jsonl"}
        return error(404, f"Not found: {seen.path}")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a Messages request."""
        request = _use_blocks(request)
        refused = self._refuse(request) or self.errors(request)
        if refused:
            return refused
        self.seen.append(request)
        said = self._answer(_read_chat(request))
        if said.get("status", 200) != 200:
            message = said["json"]["error"]["message"]
            return {**error(said["status"], message), "headers": said.get("headers", {})}
        return {"json": _write_message(request, said["json"])}

    def _refuse(self, request: dict[str, Any]) -> dict[str, Any] | None:  # noqa: PLR0911 (one a reason)
        """Return the 400 for a request that violates the API."""
        for name in ("model", "messages", "max_tokens"):
            if name not in request:
                return error(400, f"{name}: Field required")
        if unknown := sorted(request.keys() - self._accepts):
            return error(400, f"{unknown[0]}: Extra inputs are not permitted")
        if not 0 <= request.get("temperature", 1) <= 1:
            return error(400, "temperature: range: 0..1")
        budget = (request.get("thinking") or {}).get("budget_tokens")
        if budget is not None and not 1024 <= budget < request["max_tokens"]:
            return error(400, "`max_tokens` must be greater than `thinking.budget_tokens`")
        schema = request.get("output_config", {}).get("format", {}).get("schema", {})
        if "maxItems" in json.dumps(schema):
            return error(400, "output_config.format.schema: For 'array' type, property 'maxItems' is not supported")
        open_calls: set[str] = set()
        for at, message in enumerate(request["messages"]):
            blocks = message["content"]
            if message["role"] not in ("user", "assistant") or not blocks:
                return error(400, f"messages.{at}: all messages must have non-empty content")
            if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
                return error(400, "messages: text content blocks must be non-empty")
            results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
            if results != open_calls:
                return error(400, f"messages.{at}: `tool_use` ids were found without `tool_result` blocks")
            open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        return None

    def _new(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        number = len(self.batches) + 1
        counts = dict.fromkeys(("canceled", "errored", "expired", "succeeded"), 0)
        return {
            "id": f"msgbatch_{number:04}",
            "type": "message_batch",
            "number": number,
            "step": 0,
            "requests": requests,
            "processing_status": "in_progress",
            "request_counts": counts | {"processing": len(requests)},
            "created_at": _now(),
            "ended_at": None,
            "cancel_initiated_at": None,
            "results_url": None,
        }

    def _create(self, asked: dict[str, Any]) -> dict[str, Any]:
        requests = asked["requests"]
        ids = [request["custom_id"] for request in requests]
        if len(set(ids)) < len(ids):
            return error(400, "requests: custom_id values must be unique")
        if not all(len(each) <= 64 and each.replace("-", "").replace("_", "").isalnum() for each in ids):
            return error(400, "requests.0.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
        return self._save(self._new(requests))

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        """Return a page of one batch, newest first. Every batch advances one step."""
        for each in self.batches:
            self._save(self._step(each))
        listed = self.batches[::-1]
        ids = [each["id"] for each in listed]
        start = ids.index(query["after_id"]) + 1 if "after_id" in query else 0
        page = [_show(each) for each in listed[start : start + 1]]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        return {"json": {"data": page, "has_more": start + 1 < len(listed), **ends}}

    def _load(self, batch_id: str) -> dict[str, Any]:
        return dict(json.loads((self._folder / f"{batch_id}.json").read_text("utf-8")))

    def _save(self, batch: dict[str, Any]) -> dict[str, Any]:
        draft = self._folder / "draft"
        draft.write_text(json.dumps(batch), "utf-8")
        draft.replace(self._folder / f"{batch['id']}.json")
        return {"json": _show(batch)}

    def _step(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch after its next step."""
        end = self.ends.get(batch["number"], "")
        if batch["processing_status"] == "canceling":
            end = "canceled"
        if batch["processing_status"] == "ended" or end == "never" or batch["requests"][0]["custom_id"] == "theirs-0":
            return batch
        if batch["step"] < 2 and not end:
            return {**batch, "step": batch["step"] + 1}
        requests = batch["requests"]
        answered = len(requests) if not end else len(requests) // 2
        lines = []
        for at, request in enumerate(requests):
            if at >= answered:
                result: dict[str, Any] = {"type": end}
            else:
                answer = self.answer(request["params"])
                is_good = answer.get("status", 200) == 200
                self.answered[json.dumps(request, sort_keys=True)] += is_good
                result = (
                    {"type": "succeeded", "message": answer["json"]}
                    if is_good
                    else {"type": "errored", "error": answer["json"]}
                )
            lines.append({"custom_id": request["custom_id"], "result": result})
        Random(batch["id"]).shuffle(lines)
        return self._end(batch, lines)

    def _end(self, batch: dict[str, Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        (self._folder / f"{batch['id']}.jsonl").write_bytes(content)
        kinds = Counter(line["result"]["type"] for line in lines)
        counts = {name: kinds[name] for name in ("canceled", "errored", "expired", "succeeded")} | {"processing": 0}
        url = f"{self.url}/v1/messages/batches/{batch['id']}/results"
        ended = {
            **batch,
            "processing_status": "ended",
            "request_counts": counts,
            "results_url": url,
            "ended_at": _now(),
        }
        self._save(ended)
        return ended


def write_messages_world(folder: Path, url: str, habit: str, roles: Sequence[str], settings: str = "") -> Path:
    """Write the embedded world with a habit's model behind Anthropic's API; its key is in ANTHROPIC_TEST_KEY."""
    path = write_model_world(folder, url, habit, roles, settings)
    native = 'kind = "anthropic"\nkey_env = "ANTHROPIC_TEST_KEY"\nname = "habits"'
    path.write_text(path.read_text("utf-8").replace('kind = "openai"\nname = "habits"', native), "utf-8")
    return path


def error(status: int, message: str) -> dict[str, Any]:
    """Return an error in the API's form."""
    result = {"type": _ERRORS[status], "message": message}
    return {"status": status, "json": {"type": "error", "error": result, "request_id": "req_1"}}


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _show(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if name not in ("requests", "step", "number")}


def _use_blocks(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request with lists of blocks in place of plain texts, and one text as its system prompt."""
    turns = [
        {
            **turn,
            "content": [{"type": "text", "text": turn["content"]}]
            if isinstance(turn["content"], str)
            else turn["content"],
        }
        for turn in request.get("messages", [])
    ]
    system = request.get("system", "")
    system = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)
    return request | {"messages": turns} | ({"system": system} if system else {})


def _read_chat(request: dict[str, Any]) -> dict[str, Any]:
    """Return the chat request that is equivalent to a Messages request."""
    messages = [{"role": "system", "content": request["system"]}] if request.get("system") else []
    for message in request["messages"]:
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        calls = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            }
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        for block in message["content"]:
            if block["type"] == "tool_result":
                given = block["content"]
                text = given if isinstance(given, str) else "".join(each["text"] for each in given)
                messages.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
        if texts or calls:
            said = {"role": message["role"], "content": "\n\n".join(texts)}
            messages.append({**said, "tool_calls": calls} if calls else said)
    body = {"model": request["model"], "messages": messages, "max_tokens": request["max_tokens"]}
    if tools := request.get("tools"):
        body["tools"] = [
            {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
            for tool in tools
        ]
    return body


def _write_message(request: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completion as a message."""
    [choice] = reply["choices"]
    said = choice["message"]
    content: list[dict[str, Any]] = []
    if request.get("thinking"):
        content.append({"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"})
    if said.get("content"):
        content.append({"type": "text", "text": said["content"], "citations": None})
    for call in said.get("tool_calls") or ():
        named = call["function"]
        content.append(
            {"type": "tool_use", "id": call["id"], "name": named["name"], "input": json.loads(named["arguments"])}
        )
    usage = reply.get("usage") or {}
    stop = _STOPS.get(choice["finish_reason"], choice["finish_reason"])
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": "policy"} if stop == "refusal" else None,
        "usage": {
            "input_tokens": usage.get("prompt_tokens", 1),
            "output_tokens": usage.get("completion_tokens", 1),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "service_tier": "standard",
        },
    }
