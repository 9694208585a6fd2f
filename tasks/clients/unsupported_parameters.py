"""Request parameters that a server of the OpenAI protocol refuses, and the settings to use instead.

Both are read from error bodies. Some servers name the parameter in a field of its own, others in the message, some name
several at once; others describe only its effect ("Only one candidate can be specified"). Nothing is learnt from a
refusal that names nothing in the request, that calls a number too large, or that is about the model's output.

Servers put their message into `error.message`, `message`, `detail`, `detail[].msg` or `error`; Gemini wraps the object
in a list, and gateways carry the body of the server behind them as JSON in a string. Values of the request that a body
repeats (`detail[].input`) are left out: the text of a prompt is no message of the server.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from factmill.tasks.core.service_settings import ModelSettings

_IGNORED_FIELDS = frozenset({"input", "failed_generation", "url", "id", "request_id", "user_id", "headers", "object"})
"""Fields that hold parts of the request or the reply, or names without meaning."""
_PARAMETER_FIELDS = frozenset({"param", "parameter", "field", "loc", "argument"})
_NUMBER_TOO_LARGE = re.compile(
    r"too (large|long|high|many|big)|at most|(less|greater|more|larger|higher|lower) than|exceed|up to|"
    r"\b(maximum|upper|valid range|range|between)\b|<=|≤|>",
    re.IGNORECASE,
)
_TOKEN_LIMIT_NAME = r"max[_ ]?(?:completion[_ ]?|output[_ ]?|new[_ ]?)?tokens"
_TOKEN_LIMIT_TOO_LARGE = re.compile(
    rf"(?<!\+ )(?<!\+ ['\"`])(?<!and )(?<!and ['\"`])\b{_TOKEN_LIMIT_NAME}\b['\"`]?(?! (?:and|\+) (?:the )?(?:input|prompt|messages))"
    r"[^.;]{0,60}?(?:too (?:large|high|big)|must be(?! at least)|should be|cannot be|can't be|exceed|greater|larger|at most|range|>|≤|<=)|"
    rf"range of {_TOKEN_LIMIT_NAME}|maximum tokens you requested",
    re.IGNORECASE,
)
_BODY_TOO_LARGE_STATUS = 413
_LENGTH_STATUSES = frozenset({400, 422, 500})
_PROMPT_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|(max_?imum|max) (prompt|model|input) length|string_above_max_length|string too long|"
    r"(prompt|input|message|request|text)s?( \([^)]*\))?( is| are)? (too|longer than) (long|large|the (model|max|context))|"
    r"\b(prompt|input)\b[^.]{0,60}(exceed|too (long|large) (for|to)|longer than)[^.]{0,40}(max|limit|length|context|token|support)|"
    r"(input|prompt)[ _]token count[^.]{0,60}(exceed|supports? up to)|too many (input |prompt )?tokens(?! per)|"
    r"exceed[^.]{0,40}(token limit|number of tokens|context|\bn_ctx)|payload size exceeds|token limit exceeded|"
    r"total tokens[^.]{0,20} exceed|prompt has \d+ tokens|prompt[^.]{0,20}\+ ['\"`]?max_tokens|max_tokens must be at least 1, got -|"
    r"range of input length|"
    r"`inputs` (tokens \+|must have)|reduce (the length of |your |the )(the )?(input|messages?|prompt)|request_too_large|"
    r"prompt[^.]{0,20}超长|超过.{0,20}长度",
    re.IGNORECASE,
)
_MAX_ERROR_BODY_DEPTH = 50
_MAX_ERROR_CHARACTERS = 20_000
"""Characters of an error that are read; the rest is ignored."""


@dataclass(frozen=True, slots=True)
class ErrorBodyMessagesAndParameters:
    """Messages and named parameters of an error body."""

    words: str
    """Its messages and codes, one a line."""
    params: tuple[str, ...]
    """Parameters that it names in a field of its own, such as `seed` or `messages[0].role`; dots join the parts of a
    FastAPI `loc`."""


def read_error_messages_and_parameters(text: str) -> ErrorBodyMessagesAndParameters:
    """Read an error body; one that is not JSON is its own message."""
    params: list[str] = []
    try:
        words = list(_iterate_strings_collecting_parameters(json.loads(text), params, _MAX_ERROR_BODY_DEPTH))
    except (ValueError, RecursionError):
        return ErrorBodyMessagesAndParameters(text[:_MAX_ERROR_CHARACTERS], ())
    return ErrorBodyMessagesAndParameters("\n".join(words)[:_MAX_ERROR_CHARACTERS], tuple(dict.fromkeys(params)))


def is_prompt_too_long(status: int, text: str) -> bool:
    """True where a request is refused because its prompt is too long for the model, or its body for the server.

    A reply limit that is too large does not count.
    """
    if status == _BODY_TOO_LARGE_STATUS:
        return True
    if status not in _LENGTH_STATUSES:
        return False
    error = read_error_messages_and_parameters(text)
    return bool(_PROMPT_TOO_LONG.search(error.words)) and not is_token_limit_too_large(error)


def is_token_limit_too_large(error: ErrorBodyMessagesAndParameters) -> bool:
    """True where a request is refused because it allows the reply more tokens than the model can write."""
    is_named = any(re.search(rf"\b{_TOKEN_LIMIT_NAME}$", param) for param in error.params)
    return bool((is_named and _NUMBER_TOO_LARGE.search(error.words)) or _TOKEN_LIMIT_TOO_LARGE.search(error.words))


def _iterate_strings_collecting_parameters(node: Any, params: list[str], remaining_depth: int) -> Iterator[str]:
    """Yield the strings of a body, and add the parameters that it names to `params`; RecursionError where it nests too
    deeply."""
    if not remaining_depth:
        raise RecursionError
    if isinstance(node, str):
        yield from _iterate_text_and_embedded_json_strings(node, params, remaining_depth)
    elif isinstance(node, list):
        for each in node:
            yield from _iterate_strings_collecting_parameters(each, params, remaining_depth - 1)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in _PARAMETER_FIELDS and (named := _read_parameter_name(value)):
                params.append(named)
            elif name not in _IGNORED_FIELDS:
                yield from _iterate_strings_collecting_parameters(value, params, remaining_depth - 1)


def _iterate_text_and_embedded_json_strings(text: str, params: list[str], remaining_depth: int) -> Iterator[str]:
    """Yield a message; where it contains JSON, yield the text before it and the strings in it."""
    start, end = (
        min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=0),
        max(text.rfind("}"), text.rfind("]")),
    )
    if start < end:
        try:
            carried = json.loads(text[start : end + 1])
        except ValueError:
            carried = None
        if isinstance(carried, dict) or (isinstance(carried, list) and any(isinstance(each, dict) for each in carried)):
            yield text[:start]
            yield from _iterate_strings_collecting_parameters(carried, params, remaining_depth - 1)
            return
    yield text


def _read_parameter_name(value: Any) -> str:
    """Return the name of a parameter; empty where a field holds none."""
    if isinstance(value, list):
        return ".".join(str(part) for part in value if part != "body")
    return value.strip() if isinstance(value, str) else ""


_PARAMETER_REFUSAL_STATUSES = frozenset({400, 422})
_SERVER_ERROR_STATUSES = frozenset({500, 501})
"""Statuses with which some servers refuse a parameter, an unreadable schema, or roles that their template does not
allow."""
_TOOL_KEYS = frozenset({"tool_calls", "tool_call_id"})
LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
SETTING_WITHOUT_PARAMETER: Mapping[str, dict[str, Any]] = {
    "n": {"choices": False},
    "seed": {"seed": False},
    "response_format": {"json_schema": False},
    "reasoning_effort": {"reasoning_effort": ""},
    "temperature": {"temperature": "none"},
    "max_tokens": {"token_limit": "max_completion_tokens"},
    "max_completion_tokens": {"token_limit": "max_tokens"},
    "system": {"system": "merge"},
    "tools": {"tools": False},
}
"""Parameter → the setting with which requests are sent without it, the cheapest to lose first."""
_UNSUPPORTED_WORDING = re.compile(
    r"unsupported|not (?:yet |currently |be )?(?:support|allow|permit|accept|implement|recogni)|n't (?:support|accept|allow|take)|"
    r"unknown|unrecogni[sz]ed|unexpected|extra (?:input|field|param)|extra_forbidden|forbidden|deprecated|instead|no such|"
    r"cannot find|disallow|removed|不支持|未知",
    re.IGNORECASE,
)
"""Wording for a parameter that is not accepted at all."""
_REFUSAL_WORDING = re.compile(
    rf"{_UNSUPPORTED_WORDING.pattern}|\b(?:not|cannot|can't|invalid|must|only|should|requires?|incompatible|unavailable|disabled|than|no)\b|exceed|maximum|非法|无效|错误",
    re.IGNORECASE,
)
_N_PARAMETER = (
    r"(?-i:['\"`\[]n['\"`\]]|(?<![A-Za-z])n(?=参数)|(?<![\w'’.\\-])n(?=\s*(?:[=><]|:\s|\(|(?:must|should|cannot|can't|value|has to|is|other|greater)\b|"
    r"parameter\b|not |unsupported))(?! is the)|(?:(?<=parameter )|(?<=argument )|(?<=field )|(?<=: )|"
    r"(?<=, )|(?<=and ))n(?=\s*(?:[,.;:]|$|and\b)))"
)
"""`n` where it is the name of a parameter and not a letter."""
_PARAMETER_NAME = re.compile(
    rf"(?<!\w)(?P<name>{'|'.join(LIMIT_NAMES)}|temperature|seed|reasoning_effort|response_format|tools)(?![a-z0-9_])|(?P<n>{_N_PARAMETER})",
    re.IGNORECASE,
)
_NAME_SEPARATOR = re.compile(
    r"['\"`]?\s*(?::[^,{}\[\]]{1,40})?(?:(?:,|/|&|\b(?:and|or)\b)\s*(?:(?:and|or)\s+)?['\"`]?"
    r"(?:\w+['\"`]?\s*(?::[^,{}\[\]]{1,40})?(?:,|\b(?:and|or)\b)\s*['\"`]?)*)"
)
"""Text between two names of one list."""
_STREAM_REQUIRED_WORDING = re.compile(
    r"\bstream\W{1,4}(parameter )?(must|has to|should|needs to) be (set to )?\W?true|"
    r"only stream(ing|ed)?\b.{0,40}(support|allow|available|accept)|only.{0,20}support\w*.{0,20}\bstream|support\w* only.{0,20}\bstream|must.{0,20}\b(stream the response|use streaming)|"
    r"streaming (is|mode is) (required|mandatory)|requires? (the )?\W?stream(ing)?\b|"
    r"non-?stream(ing)?\b.{0,40}\b(not|n't|cannot|unsupported|disabled)|(not|n't) support.{0,20}non-?stream|"
    r"must be set to false for non-streaming|\"param\"\s*:\s*\"stream\"|\"stream\"\W{1,9}msg\W{1,5}input should be true",
    re.IGNORECASE | re.DOTALL,
)

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")

_ONE_CHOICE_WORDING = re.compile(
    r"(?:only|exactly) (?:one|1|a single) (?:candidate|completion|choice|generation|response|output|sample)|"
    r"(?:multiple|several|more than (?:one|1)) (?:candidate|completion|choice|generation|output|response|sample|sequence)s?|"
    r"candidate_?count|num_(?:generations|return_sequences|choices)|number of (?:choices|completions|candidates|generations)",
    re.IGNORECASE,
)
_EFFORT_WORDING = re.compile(
    r"reasoning[ ._]?(?:effort|level|mode)|thinking[ _]?(?:level|budget|config|mode|effort)|"
    r"(?:not|n't) support (?:thinking|reasoning)|(?:thinking|reasoning) (?:is|are) (?:not|un)|"
    r"['\"`](?:thinking|think|reasoning)['\"`]|\bthink value|(?<!best[ -])\beffort\b",
    re.IGNORECASE,
)
_SCHEMA_WORDING = re.compile(
    r"response_?(?:format|schema|mime_?type)|response (?:format|schema|mime type)|json[ _](?:schema|mode|object)|jsonschema|"
    r"output_(?:config|schema|format)|structured[ _](?:output|generation|decoding)|guided[ _](?:json|decoding|grammar|generation)|xgrammar|"
    r"grammar (?:error|is|cannot|could)|(?:pars\w+|compil\w+|invalid|convert\w*|unsupported) .{0,20}grammar|constrained (?:decoding|generation|output)|"
    r"controlled generation|additional_?properties|\b(?:(?:min|max)(?:Items|Length)|(?:any|one|all)Of|uniqueItems|propertyNames)\b|"
    r"invalid schema|unsupported (?:json )?schema|"
    r"schema .{0,80}(?:not supported|unsupported|too (?:complex|deep|many|large)|nest)",
    re.IGNORECASE,
)
_MODEL_OUTPUT_WORDING = re.compile(
    r"failed_generation|json_validate_failed|tool_use_failed|failed to (?:generate|validate)|adjust your prompt|"
    r"(?:did|does|could|was|were|is|are)(?:n't| not)(?: be)? (?:match|conform|satisf|follow|complet|pars|valid)\w* .{0,20}"
    r"(?:schema|grammar|json|format)|(?:generated|model'?s?) (?:output|reply|response|text|json|content)|"
    r"(?:output|reply|response|completion) (?:violates|is not valid|was not valid|is invalid)",
    re.IGNORECASE,
)
"""Wording about what a model wrote, or failed to write, rather than what the server accepts."""
_TOOLS_WORDING = re.compile(r"\btools?\b|tool.?(choice|call|use)|function.?call", re.IGNORECASE)
_TOOL_CALL_WORDING = re.compile(r"tool_use_failed|failed_generation|tool_call_id|messages\[")
"""Wording about a single tool call or message, rather than tools in general."""
_SYSTEM_ROLE = r"['\"`]?\b(?:system|developer)\b['\"`]?"
_NO_SYSTEM_ROLE_WORDING = re.compile(
    rf"{_SYSTEM_ROLE}[ _-]?(?:role|message|prompt|instruction)s?\b.{{0,40}}(?:\bnot\b|n't|unsupported|disabled)|"
    rf"(?:not|n't) (?:support|accept|allow|recogni[sz]e)\w*.{{0,30}}(?:role.{{0,20}}{_SYSTEM_ROLE}|{_SYSTEM_ROLE}.{{0,3}}(?:role|message|prompt|instruction)|"
    r"['\"`](?:system|developer)['\"`])|"
    rf"(?:invalid|unexpected|unknown|unsupported|unrecogni[sz]ed) (?:message )?(?:role|value)s?:? {_SYSTEM_ROLE}|role.{{0,20}}{_SYSTEM_ROLE}.{{0,40}}\bnot\b|"
    rf"{_SYSTEM_ROLE} (?:role )?(?:is|are) (?:not|un)\w*|use ['\"`]?developer['\"`]? instead|top-level .{{0,3}}system|"
    r"messages\[0\]\.role|unknown variant ['\"`]system|role.{0,20}\b(?:one of|either)\b(?!.{0,60}\bsystem\b).{0,20}user|only user(?:,| and| or) (?:assistant|model)\b.{0,30}roles? (?:are|is)|(?:first|initial) message must (?:be|have|come)|"
    r"must (?:start|begin) with (?:a |the )?['\"`]?user",
    re.IGNORECASE | re.DOTALL,
)
_ALTERNATING_ROLES_WORDING = re.compile(r"\balternat(?:e|es|ing)\b", re.IGNORECASE)
_OPTIONAL_SYSTEM_WORDING = re.compile(r"optional\)? system", re.IGNORECASE)
_PARAMETER_WORDING = re.compile(
    r"parameter|argument|invalid.?request|bad.?request|unsupported|not support|not implemented|unprocessable|validation",
    re.IGNORECASE,
)
_UNRELATED_ERROR_WORDING = re.compile(
    r"content.?(?:filter|policy|management|moderation|exists risk)|safety|moderat|flagged|harmful|sensitive|unsafe|inspection|"
    r"\bblocked|prohibited|usage polic|recitation|guardrail|敏感|违规|credit|balance|quota|billing|payment|insufficient|"
    r"spend|suspend|deactivat|api.?key|unauthori|authenti|credential|permission|forbidden|organi[sz]ation|subscri|licen[sc]e|"
    r"(?:user|your) location|country|region|expired|rate.?limit|too many requests|overload|time[d]?.?out|deadline|"
    r"(?:unknown|invalid|no such|unsupported) model|model_?not_?found|model.{0,60}(?:not (?:exist|found|available|valid|loaded)|(?:is|are) (?:not|no longer) support|"
    r"decommission|retired|shut ?down)|valid model|tool_call|json body",
    re.IGNORECASE,
)
"""Wording of a refusal for the content, the account, the model or the turns of a request."""

_WHOLE_REQUEST_NAMES = frozenset({"request", "input", "payload", "__root__"})
"""Values in the parameter field that name no parameter."""

ChatProtocolMessage = Mapping[str, Any]


def read_settings_from_refusal(
    model: ModelSettings,
    status: int,
    text: str,
    sent: Mapping[str, Any],
    learnt: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the model settings that avoid a refusal; {} where it does not tell.

    `learnt`: settings that were changed for this request after earlier refusals.
    """
    if status not in (*_PARAMETER_REFUSAL_STATUSES, *_SERVER_ERROR_STATUSES, 404):
        return {}
    if status in _PARAMETER_REFUSAL_STATUSES and (change := _read_stream_setting_from_refusal(text, sent)):
        return change
    error = read_error_messages_and_parameters(text)
    if status == 404:
        return {"tools": False} if "tools" in sent and _refuses_tools(error, sent) else {}
    lessons: dict[str, Any] = {}
    for name in _list_refused_parameters(error, sent, is_clear=status in _SERVER_ERROR_STATUSES):
        lessons |= _find_setting_without_parameter(model, name, error, sent, learnt)
    return lessons or _read_settings_from_implied_refusal(model, status, error, sent)


def is_unexplained_refusal(status: int, text: str) -> bool:
    """True where a server refuses a request without naming a reason: by its status, or by an error about parameters.

    Call it only for texts from which `read_settings_from_refusal` learns nothing and that are not about the prompt's length.
    """
    if status not in (*_PARAMETER_REFUSAL_STATUSES, *_SERVER_ERROR_STATUSES, 404):
        return False
    error = read_error_messages_and_parameters(text)
    if status == 404:
        return "requested parameters" in error.words
    if status in _SERVER_ERROR_STATUSES and not _PARAMETER_WORDING.search(error.words):
        return False
    is_named = any(param not in _WHOLE_REQUEST_NAMES for param in error.params)
    is_other = _UNRELATED_ERROR_WORDING.search(error.words) or _MODEL_OUTPUT_WORDING.search(error.words)
    return not (is_named or is_other or is_token_limit_too_large(error))


def merge_system_and_repeated_roles(messages: Sequence[ChatProtocolMessage]) -> list[dict[str, Any]]:
    """Return messages without a system role and with alternating speakers, the user first.

    Tool calls and their results stay as they are, as separate messages.
    """
    merged: list[dict[str, Any]] = []
    for message in messages:
        role = "user" if message["role"] == "system" else message["role"]
        if merged and merged[-1]["role"] == role and not _TOOL_KEYS & {*message, *merged[-1]}:
            merged[-1]["content"] += f"\n\n{message['content']}"
        else:
            merged.append({**message, "role": role})
    return merged


def _read_stream_setting_from_refusal(text: str, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting for a server that only streams, or that streams without `stream_options`."""
    if not sent.get("stream") and _STREAM_REQUIRED_WORDING.search(text):
        return {"stream": True}
    return {"stream": "no_usage"} if "stream_options" in sent and "stream_options" in text else {}


def needs_role_merging(messages: Sequence[ChatProtocolMessage]) -> bool:
    """True where messages have a system role, or roles that do not alternate."""
    return merge_system_and_repeated_roles(messages) != list(messages)


def has_tool_messages(messages: Sequence[ChatProtocolMessage]) -> bool:
    """True where messages hold tool calls or their results."""
    return any(_TOOL_KEYS & {*message} for message in messages)


def format_changed_settings_as_toml(before: ModelSettings, after: ModelSettings) -> list[str]:
    """Return the settings that differ between two states of a model, as lines of a world's file."""
    return [f"{name} = {json.dumps(value)}" for name, value in find_changed_settings(before, after).items()]


def find_changed_settings(before: ModelSettings, after: ModelSettings) -> dict[str, Any]:
    """Return the settings of `after` that differ from those of `before`."""
    was, now = (model.model_dump(mode="json") for model in (before, after))
    return {name: value for name, value in now.items() if value != was[name]}


def _list_refused_parameters(
    error: ErrorBodyMessagesAndParameters, sent: Mapping[str, Any], *, is_clear: bool = False
) -> list[str]:
    """Return the parameters of a request that its refusal names.

    They come from a field of their own, else from the first sentence that refuses some. `is_clear`: only sentences
    count that call them not accepted at all.
    """
    if error.params and not is_clear:
        parts = [part for param in error.params for part in re.split(r"[.\[\]]+", param)]
        if named := [
            name for name in dict.fromkeys(parts) if name in sent and (_PARAMETER_NAME.fullmatch(name) or name == "n")
        ]:
            return named
    for sentence in _SENTENCE_END.split(error.words):
        if (_UNSUPPORTED_WORDING if is_clear else _REFUSAL_WORDING).search(sentence) and (
            named := _list_first_named_parameters(sentence, sent)
        ):
            return named
    return []


def _list_first_named_parameters(sentence: str, sent: Mapping[str, Any]) -> list[str]:
    """Return the first parameter of a request that a sentence names, and those in one list with it.

    Tools are returned only where nothing else is named, since they are refused in combination with another parameter.
    """
    found = [(match["name"] or "n", match) for match in _PARAMETER_NAME.finditer(sentence)]
    found = [(name.lower(), match) for name, match in found if name.lower() in sent]
    found = [each for each in found if each[0] != "tools"] or found
    named: dict[str, None] = {}
    for at, (name, match) in enumerate(found):
        if at and not _NAME_SEPARATOR.fullmatch(sentence[found[at - 1][1].end() : match.start()]):
            break
        named[name] = None
    return list(named)


def _find_setting_without_parameter(
    model: ModelSettings,
    name: str,
    error: ErrorBodyMessagesAndParameters,
    sent: Mapping[str, Any],
    learnt: Mapping[str, Any],
) -> dict[str, Any]:
    if name in LIMIT_NAMES:
        if is_token_limit_too_large(error) or not (error.params or _UNSUPPORTED_WORDING.search(error.words)):
            return {}
        return {"token_limit": "none"} if "token_limit" in learnt else dict(SETTING_WITHOUT_PARAMETER[name])
    if name == "response_format":
        return {} if _MODEL_OUTPUT_WORDING.search(error.words) else _make_next_looser_json_schema_setting(model)
    if name == "tools" and not _refuses_tools(error, sent):
        return {}
    return dict(SETTING_WITHOUT_PARAMETER[name])


def _read_settings_from_implied_refusal(
    model: ModelSettings, status: int, error: ErrorBodyMessagesAndParameters, sent: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings for a refusal that names no parameter but describes its effect."""
    words = error.words
    if model.system == "own" and _refuses_system_or_role_order(error, sent.get("messages", ())):
        return {"system": "merge"}
    if status in _PARAMETER_REFUSAL_STATUSES and _REFUSAL_WORDING.search(words):
        if "n" in sent and _ONE_CHOICE_WORDING.search(words):
            return {"choices": False}
        if "reasoning_effort" in sent and _EFFORT_WORDING.search(words):
            return {"reasoning_effort": ""}
    if "response_format" in sent and _SCHEMA_WORDING.search(words) and not _MODEL_OUTPUT_WORDING.search(words):
        return _make_next_looser_json_schema_setting(model)
    if "tools" in sent and _refuses_tools(error, sent):
        return {"tools": False}
    return {}


def _make_next_looser_json_schema_setting(model: ModelSettings) -> dict[str, Any]:
    return {"json_schema": "json_object" if model.json_schema is True else False}


def _refuses_system_or_role_order(
    error: ErrorBodyMessagesAndParameters, messages: Sequence[ChatProtocolMessage]
) -> bool:
    """True where a refusal is about a system role or roles that do not alternate, and merging them changes that."""
    if _ALTERNATING_ROLES_WORDING.search(error.words) and _OPTIONAL_SYSTEM_WORDING.search(error.words):
        return needs_role_merging([message for message in messages if message["role"] != "system"])
    is_named = any(re.fullmatch(r"messages[.\[]0\]?\.(?:\w+\.)?role", param) for param in error.params)
    is_refused = (
        is_named or _ALTERNATING_ROLES_WORDING.search(error.words) or _NO_SYSTEM_ROLE_WORDING.search(error.words)
    )
    return bool(is_refused) and needs_role_merging(messages)


def _refuses_tools(error: ErrorBodyMessagesAndParameters, sent: Mapping[str, Any]) -> bool:
    """True where a request is refused for its tools; False amid tool calls, whose content may be the reason."""
    if has_tool_messages(sent.get("messages", ())):
        return False
    named = " ".join(error.params)
    sentences = _SENTENCE_END.split(error.words)
    is_refused = _TOOLS_WORDING.search(named) or any(
        _TOOLS_WORDING.search(each) and _REFUSAL_WORDING.search(each) for each in sentences
    )
    return bool(is_refused) and not _TOOL_CALL_WORDING.search(f"{error.words} {named}")
