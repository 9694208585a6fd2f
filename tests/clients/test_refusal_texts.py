"""Test the refusal texts of many providers: those about a parameter, and those about something else."""

import json
from pathlib import Path
from typing import Any

import pytest

from factmill.tasks.clients.unsupported_parameters import (
    is_prompt_too_long,
    is_unexplained_refusal,
    read_settings_from_refusal,
)
from factmill.tasks.core.service_settings import ModelSettings

MODEL = ModelSettings(kind="openai", name="m", json_schema=True, choices=True, reasoning_effort="low")
TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
SENT = {
    "model": "m",
    "messages": [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who is Ada?"}],
    "temperature": 0.0,
    "max_tokens": 99,
    "stream": False,
    "n": 8,
    "seed": 1,
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": {"type": "object"}}},
}
TURNS = [
    *SENT["messages"],
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Found."},
]
NO_N, NO_SEED, NO_EFFORT, NO_TEMPERATURE = (
    {"choices": False},
    {"seed": False},
    {"reasoning_effort": ""},
    {"temperature": "none"},
)
OTHER_LIMIT, OTHER_SCHEMA, MERGED, NO_TOOLS = (
    {"token_limit": "max_completion_tokens"}, {"json_schema": "json_object"}, {"system": "merge"}, {"tools": False},
)  # fmt: skip


def say(message: str, **more: Any) -> dict[str, Any]:
    """Return an error in the form of OpenAI."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}


def google(message: str, **more: Any) -> list[dict[str, Any]]:
    """Return an error in the form of Gemini's compatible endpoint."""
    return [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT", **more}}]


def extra(
    *names: str, message: str = "Extra inputs are not permitted", kind: str = "extra_forbidden"
) -> dict[str, Any]:
    """Return an error in the form of FastAPI (also Mistral), which repeats the request."""
    items = [{"type": kind, "loc": ["body", name], "msg": message, "input": "temperature, seed"} for name in names]
    return {"object": "error", "message": {"detail": items}, "type": "invalid_request_error"}


def relayed(body: Any) -> dict[str, Any]:
    """Return an error in the form in which OpenRouter relays it."""
    metadata = {"raw": json.dumps(body), "provider_name": "Some"}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}, "user_id": "u"}


TEACHING = [
    # several samples
    ("azure", 400, say("Unsupported parameter: 'n' is not supported with this model.", param="n"), NO_N),
    ("groq", 400, say("'n' : number must be at most 1"), NO_N),
    ("xai", 400, {"code": "invalid-argument", "error": "Argument not supported on this model: n"}, NO_N),
    ("mistral", 422, extra("n"), NO_N),
    ("tgi", 422, {"error": "Input validation error: `n` must be 1", "error_type": "validation"}, NO_N),
    ("gemini field", 400, google("Request contains an invalid argument.", details=[{"fieldViolations": [{"field": "n"}]}]), NO_N),
    ("gemini count", 400, google("Multiple candidates is not enabled for this model"), NO_N),
    ("moonshot", 400, say("Invalid request: n must be 1 when temperature is 0"), NO_N),
    ("cerebras", 400, {"message": "n: value other than 1 is not supported", "type": "invalid_request_error"}, NO_N),
    ("sglang", 400, {"object": "error", "message": "Only one choice is supported with speculative decoding"}, NO_N),
    ("openrouter", 400, relayed(say("n > 1 is not supported")), NO_N),
    ("bedrock n", 400, {"message": "ValidationException: extraneous key [n] is not permitted"}, NO_N),
    ("zhipu", 400, {"error": {"code": "1214", "message": "n参数非法"}}, NO_N),
    ("dashscope", 400, say("<400> InternalError.Algo.InvalidParameter: The n parameter must be 1 when enable_thinking is true"), NO_N),
    # seed
    ("groq seed", 400, say("property 'seed' is unsupported"), NO_SEED),
    ("mistral seed", 422, extra("seed"), NO_SEED),
    ("openrouter seed", 400, relayed(google('Unknown name "seed": Cannot find field.')), NO_SEED),
    ("perplexity", 400, say("Unrecognized request argument supplied: seed"), NO_SEED),
    ("nim", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}, NO_SEED),
    ("python", 500, say("generate() got an unexpected keyword argument 'seed'", type="InternalServerError"), NO_SEED),
    ("sambanova", 400, {"error": {"message": "seed is not supported yet", "code": "unsupported_parameter"}}, NO_SEED),
    ("rust", 422, "Failed to deserialize the JSON body into the target type: unknown field `seed`, expected one of `model`, `messages`, `temperature`, `max_tokens` at line 1", NO_SEED),
    # temperature
    ("anthropic", 400, say("`temperature` may only be set to 1 when thinking is enabled."), NO_TEMPERATURE),
    ("anthropic both", 400, say("`temperature` and `top_p` cannot both be specified for this model. Please use only one."), NO_TEMPERATURE),
    ("bedrock", 400, {"message": "The model returned the following errors: `temperature` is deprecated for this model."}, NO_TEMPERATURE),
    ("moonshot temperature", 400, say("invalid temperature: only 1 is allowed for this model"), NO_TEMPERATURE),
    ("search preview", 400, say("Model incompatible request argument supplied: temperature"), NO_TEMPERATURE),
    ("openai temperature", 400, say("Only the default (1) value of temperature is supported"), NO_TEMPERATURE),
    ("range", 422, extra("temperature", message="Input should be greater than 0", kind="greater_than"), NO_TEMPERATURE),
    # limit of completion tokens
    ("mistral limit", 422, extra("max_completion_tokens"), {}),
    ("azure limit", 400, say("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"), OTHER_LIMIT),
    ("openrouter limit", 400, relayed(say("Unsupported parameter: 'max_tokens' is not supported with this model.", param="max_tokens")), OTHER_LIMIT),
    ("litellm limit", 400, say('litellm.BadRequestError: OpenAIException - {"error": {"message": "Unrecognized request argument supplied: max_tokens", "param": null}}'), OTHER_LIMIT),
    # effort
    ("ollama", 400, {"error": '"gemma3:4b" does not support thinking'}, NO_EFFORT),
    ("openai effort", 400, say("Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'low', 'medium', and 'high'.", param="reasoning_effort", code="unsupported_value"), NO_EFFORT),
    ("openai unknown", 400, say("Unrecognized request argument supplied: reasoning_effort"), NO_EFFORT),
    ("groq value", 400, say("`reasoning_effort` must be one of `none` or `default`"), NO_EFFORT),
    ("gemini thinking", 400, google("Thinking level is not supported for this model."), NO_EFFORT),
    ("gemini budget", 400, google("Unable to submit request because Thinking budget is not supported by this model"), NO_EFFORT),
    ("mistral effort", 422, extra("reasoning_effort"), NO_EFFORT),
    ("with tools", 400, say("Function tools with reasoning_effort are not supported for this model in /v1/chat/completions."), NO_EFFORT),
    ("ollama level", 400, {"error": 'think value "low" is not supported for this model'}, NO_EFFORT),
    # system role
    ("o1-mini", 400, say("Unsupported value: 'messages[0].role' does not support 'system' with this model.", param="messages[0].role", code="unsupported_value"), MERGED),
    ("o1", 400, say("The role 'system' is not supported with this model. Use 'developer' instead."), MERGED),
    ("gemma template", 400, {"object": "error", "message": "System role not supported", "type": "BadRequestError"}, MERGED),
    ("llama.cpp template", 500, say("Value is not callable: raise_exception('System role not supported')", type="server_error"), MERGED),
    ("gemini", 400, google("System instruction is not enabled for models/some"), MERGED),
    ("roles", 400, say("Conversation roles must alternate user/assistant/user/assistant/..."), MERGED),
    ("literal", 422, {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "Input should be 'user' or 'assistant'"}]}, MERGED),
    ("template roles", 400, say("Only user and assistant roles are supported!"), MERGED),
    ("cohere", 400, {"message": "invalid request: unknown role 'system'"}, MERGED),
    ("first", 400, say("The first message must be from the user"), MERGED),
    ("rust role", 422, "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `system`, expected `user` or `assistant`", MERGED),
    ("roles of", 400, say("Invalid 'messages': role must be one of user, assistant"), MERGED),
    # schema
    ("deepseek", 400, say("This response_format type is unavailable now"), OTHER_SCHEMA),
    ("fastapi", 422, {"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text' or 'json_object'"}]}, OTHER_SCHEMA),
    ("gemini states", 400, google("The specified schema produces a constraint that has too many states for serving."), OTHER_SCHEMA),
    ("gemini mime", 400, google("JSON mode is not enabled for models/gemma-3-27b-it"), OTHER_SCHEMA),
    ("llama.cpp schema", 400, say("JSON schema conversion failed: Unrecognized schema"), OTHER_SCHEMA),
    ("llama.cpp grammar", 500, say("Failed to parse grammar", type="server_error"), OTHER_SCHEMA),
    ("vllm xgrammar", 400, {"message": "The provided JSON schema contains features not supported by xgrammar."}, OTHER_SCHEMA),
    ("anthropic schema", 400, say("output_config.format.schema: Invalid schema: too many optional parameters"), OTHER_SCHEMA),
    ("groq schema", 400, say("invalid JSON schema for response_format: 'reply': additionalProperties:false must be set on every object", param="response_format"), OTHER_SCHEMA),
    ("nim schema", 422, {"error": "Structured output is not supported for this model"}, OTHER_SCHEMA),
    ("anthropic keyword", 400, say("For 'array' type, 'minItems' values other than 0 or 1 are not supported"), OTHER_SCHEMA),
    ("gemini depth", 400, google("A schema in GenerationConfig in the request exceeds the maximum allowed nesting depth."), OTHER_SCHEMA),
    # several parameters at once
    ("litellm", 400, say("litellm.UnsupportedParamsError: bedrock does not support parameters: ['n', 'seed'], for model=some. To drop these, set `litellm.drop_params=True`"), NO_N | NO_SEED),
    ("litellm values", 400, say("UnsupportedParamsError: some does not support parameters: {'frequency_penalty': 0, 'n': 8, 'reasoning_effort': 'low'}"), NO_N | NO_EFFORT),
    ("litellm schema", 400, say("some does not support parameters: ['response_format', 'seed'], for model=some"), OTHER_SCHEMA | NO_SEED),
    ("mistral several", 422, extra("seed", "n"), NO_N | NO_SEED),
    ("list", 400, say("Unsupported parameters: seed, n"), NO_N | NO_SEED),
]  # fmt: skip

TOO_LONG = [
    (400, say("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", code="context_length_exceeded")),
    (400, say("Your input exceeds the context window of this model. Please adjust your input and try again.")),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    (400, say("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens`")),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    (400, google("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")),
    (400, google("Unable to submit request because the input token count is 40000 but model only supports up to 32768.")),
    (400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"}),
    (400, say("Please reduce the length of the messages or completion.", code="context_length_exceeded")),
    (413, say("Request too large for model `some` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size", code="rate_limit_exceeded")),
    (400, {"object": "error", "message": "You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens."}),
    (400, {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}),
    (400, {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."}),
    (400, say("the request exceeds the available context size, try increasing it", type="exceed_context_size_error")),
    (500, say("input is too large to process. increase the physical batch size", type="server_error")),
    (400, {"error": "prompt too long; exceeded max context length by 12 tokens"}),
    (500, {"error": "the input length exceeds the context length"}),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`"}),
    (422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000"}),
    (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000."}),
    (400, {"message": "Input is too long for requested model."}),
    (400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 131072 but the request contains 140000 tokens."}),
    (400, say("This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens (8000 of text input, 1000 in the output).")),
    (400, relayed(say("The prompt is too long: 9000, model maximum context length: 8191"))),
    (400, say("Invalid request: Your request exceeded model token limit: 8192")),
    (400, say("invalid params, context window exceeds limit (2013)")),
    (400, say("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]")),
    (400, say("Requested tokens (5000) exceed context window of 4096")),
    (400, say("Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576.", code="string_above_max_length", param="messages[1].content")),
]  # fmt: skip

LIMIT_TOO_LARGE = [
    (400, say("max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you provided 9000.", param="max_tokens")),
    (400, say("'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 4096 tokens and your request has 100 input tokens (9000 > 4096 - 100).", param="max_tokens")),
    (400, say("max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for this model")),
    (400, say("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]")),
    (400, say("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model")),
    (422, extra("max_tokens", message="Input should be less than or equal to 8192", kind="less_than_equal")),
    (400, {"message": "The maximum tokens you requested exceeds the model limit of 4096."}),
    (400, say("Range of max_tokens should be [1, 8192]")),
]  # fmt: skip

OTHER_TROUBLE = [
    (400, say("The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.", param="prompt", code="content_filter")),
    (400, say("Your request was rejected as a result of our safety system.", code="content_policy_violation")),
    (400, say("Content Exists Risk")),
    (400, say("The prompt was flagged by a moderation tool.")),
    (400, say("<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content.", code="data_inspection_failed")),
    (400, google("API key not valid. Please pass a valid API key.")),
    (400, google("User location is not supported for the API use.")),
    (400, {"code": "invalid-argument", "error": "Incorrect API key provided: xa***. You can obtain an API key at the console."}),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}}),
    (429, say("You exceeded your current quota, please check your plan and billing details.", code="insufficient_quota")),
    (429, say("Rate limit reached for n requests per minute; temperature")),
    (404, say("The model `m` does not exist or you do not have access to it.", code="model_not_found")),
    (400, say("m is not a valid model ID")),
    (400, say("The model `m` has been decommissioned and is no longer supported.", code="model_decommissioned")),
    (404, {"error": "model 'm' not found, try pulling it first"}),
    (404, {"detail": "Not Found"}),
    (404, {"error": {"message": "No endpoints found that support image input", "code": 404}}),
    (500, say("The server had an error while processing your request. Sorry about that!", type="server_error")),
    (500, say("the temperature of the machine is too high", type="server_error")),
    (503, say("The engine is currently overloaded, please try again later")),
    (504, "upstream request timeout"),
    (408, say("Request timed out with seed 1, n = 8")),
    (400, say("Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.", code="tool_use_failed", failed_generation="search(n=8, seed)")),
    (400, say("Failed to generate JSON. Please adjust your prompt.", code="json_validate_failed", failed_generation='{"temperature": "n must be 1"}')),
    (400, say("The model output did not match the grammar")),
    (500, say("Generated text is not valid JSON for the given json_schema")),
    (400, say("We could not parse the JSON body of your request.")),
    (400, say("messages: at least one message is required", param="messages")),
    (422, {"detail": [{"loc": ["body", "messages", 1, "content"], "msg": "Input should be a valid string", "input": "seed is not supported"}]}),
]  # fmt: skip

TEACHING_NOTHING = [
    *LIMIT_TOO_LARGE,
    *OTHER_TROUBLE,
    (400, say("You may ask for n samples of no such kind")),
    (400, say("There were n errors in the request, and no more")),
    (400, say("Unsupported parameter: 'top_k' is not supported with this model.", param="top_k")),
    (400, say("Unknown parameter: 'logit_bias'.", param="logit_bias")),
    (400, {"object": "error", "message": "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."}),
    (400, say("After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).")),
    (400, say("Operating system not supported")),
    (400, say("Bad request.")),
    (400, "<html><h1>400 Bad Request</h1></html>"),
    (400, ""),
    (400, [1, 2]),
    (400, None),
]  # fmt: skip


def write(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize(
    ("status", "body", "lesson"), [each[1:] for each in TEACHING], ids=[each[0] for each in TEACHING]
)
def test_refusal_changes_setting_of_parameter_it_names(
    status: int, body: Any, lesson: dict[str, Any], with_tools: bool
) -> None:
    sent = SENT | ({"tools": [TOOL]} if with_tools else {})
    assert read_settings_from_refusal(MODEL, status, write(body), sent) == lesson
    assert not is_prompt_too_long(status, write(body))


@pytest.mark.parametrize(("status", "body"), [(status, body) for _, status, body, _ in TEACHING])
def test_refusal_of_parameter_not_sent_changes_no_setting(status: int, body: Any) -> None:
    plain = ModelSettings(kind="openai", name="m", temperature="none", seed=False, token_limit="none", system="merge")
    sent = {"model": "m", "messages": [{"role": "user", "content": "Who is Ada?"}], "stream": False}
    assert read_settings_from_refusal(plain, status, write(body), sent) == {}


@pytest.mark.parametrize(("status", "body"), TEACHING_NOTHING)
def test_other_errors_change_no_setting(status: int, body: Any) -> None:
    assert read_settings_from_refusal(MODEL, status, write(body), SENT) == {}
    assert read_settings_from_refusal(MODEL, status, write(body), {**SENT, "messages": TURNS, "tools": [TOOL]}) == {}


@pytest.mark.parametrize(("status", "body"), TOO_LONG)
def test_too_long_prompt_is_recognised_for_each_server(status: int, body: Any) -> None:
    assert is_prompt_too_long(status, write(body))
    assert read_settings_from_refusal(MODEL, status, write(body), SENT) == {}


@pytest.mark.parametrize(("status", "body"), TEACHING_NOTHING)
def test_other_failures_are_not_taken_for_too_long_prompt(status: int, body: Any) -> None:
    assert not is_prompt_too_long(status, write(body))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, say("Bad request.")),
        (400, ""),
        (400, "<html><h1>400 Bad Request</h1></html>"),
        (422, {"error": "Unprocessable entity"}),
        (400, say("This model does not support one of the parameters of the request.")),
        (400, google("Request contains an invalid argument.")),
        (404, {"error": {"message": "No endpoints found that can handle the requested parameters.", "code": 404}}),
        (500, say("Unsupported parameter combination")),
        (501, say("Not implemented")),
    ],
)
def test_refusal_without_reason_is_unexplained(status: int, body: Any) -> None:
    assert is_unexplained_refusal(status, write(body))
    assert read_settings_from_refusal(MODEL, status, write(body), SENT) == {}


@pytest.mark.parametrize(("status", "body"), [*LIMIT_TOO_LARGE, *OTHER_TROUBLE])
def test_refusal_for_content_account_or_model_is_explained(status: int, body: Any) -> None:
    assert not is_unexplained_refusal(status, write(body))


@pytest.mark.parametrize(
    ("text", "learnt", "lesson"),
    [
        ("max_tokens", {}, {"token_limit": "max_completion_tokens"}),
        ("max_completion_tokens", {}, {"token_limit": "max_tokens"}),
        ("max_completion_tokens", {"token_limit": "max_completion_tokens"}, {"token_limit": "none"}),
        ("max_tokens", {"token_limit": "max_tokens"}, {"token_limit": "none"}),
    ],
)
def test_alternative_token_limit_parameter_is_tried_before_omitting_limit(
    text: str, learnt: dict[str, str], lesson: dict[str, str]
) -> None:
    sent = {"messages": SENT["messages"], text: 99}
    model = ModelSettings(kind="openai", name="m", token_limit=text)
    assert read_settings_from_refusal(model, 422, write(extra(text)), sent, learnt) == lesson


def test_tools_are_dropped_before_schema_only_if_server_supports_no_tools() -> None:
    sent = {**SENT, "tools": [TOOL]}
    both = google("Function calling with a response mime type: 'application/json' is unsupported")
    assert read_settings_from_refusal(MODEL, 400, write(both), sent) == OTHER_SCHEMA
    assert read_settings_from_refusal(MODEL, 400, write(say("tools is not supported in this model.")), sent) == NO_TOOLS
    assert (
        read_settings_from_refusal(MODEL, 404, write(say("No endpoints found that support tool use.")), sent)
        == NO_TOOLS
    )


def test_schema_refused_in_older_format_too_is_not_sent() -> None:
    older = MODEL.model_copy(update={"json_schema": "json_object"})
    body = write(
        say("Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.")
    )
    assert read_settings_from_refusal(older, 400, body, SENT) == {"json_schema": False}


def test_collected_refusals_change_expected_settings(shared_data: Path) -> None:
    lines = (shared_data / "providers" / "refusals.jsonl").read_text("utf-8").splitlines()
    refusals = [json.loads(line) for line in lines]
    assert {
        each["from"]: read_settings_from_refusal(MODEL, each["status"], each["body"], SENT) for each in refusals
    } == {each["from"]: each["teaches"] for each in refusals}
