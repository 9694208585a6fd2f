"""Fuzz responses of a model's server: each is a completion, or an error of a kind that is reported and retried."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.damage import mutilate, odd_json, replace_parts

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.completions import read_completion
from factmill.tasks.clients.openai_server import ServerResponse
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.clients.unsupported_parameters import read_settings_from_refusal
from factmill.tasks.core.calls.chat import parse_chat_response
from factmill.tasks.core.completions import CompletionFormat, strip_samples_and_parse_together
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.slaq.core.pair_replies import PAIRS_FORM, read_generated_question_answer_pairs

CHAT = ChatClient("here", ModelSettings(kind="openai", name="m", url="http://127.0.0.1:9/v1"), lambda: "", "tests")
CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}
BODY = {"choices": [CHOICE], "usage": {"prompt_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 1}}}
GENERATED = {"short": [{"question": "q?", "answer": "a"}] * 5, "long_question": "q?", "long_answer": "a"}
CHOICES = st.lists(replace_parts(CHOICE) | odd_json(*CHOICE), max_size=3) | odd_json()
BODIES = replace_parts(BODY) | st.builds(lambda each: {**BODY, "choices": each}, CHOICES) | odd_json(*BODY)
ROWS: st.SearchStrategy[Any] = replace_parts(GENERATED) | odd_json(*GENERATED)
patient = settings(max_examples=200)


def mutilate_text(whole: Any) -> st.SearchStrategy[str]:
    return mutilate(json.dumps(whole).encode()).map(lambda body: body.decode("utf-8", "replace"))


@patient
@given(text=mutilate_text(BODY) | BODIES.map(json.dumps))
def test_any_response_body_is_read_or_retried(text: str) -> None:
    try:
        completion = read_completion("a model", ServerResponse(200, text))
    except (Retry, ServiceUnreachable):
        return
    if completion.error:
        return  # blocked, or too long
    canonical_json(completion.body).encode()
    chat = parse_chat_response(completion.body)
    if not chat.texts:
        return  # the request is retried
    for form in (
        CompletionFormat(),
        CompletionFormat("object"),
        CompletionFormat("lines", line_head="[0-9]+", is_numbered=True),
    ):
        strip_samples_and_parse_together(chat.texts, chat.finish, form, lambda texts: texts)
    read_settings_from_refusal(CHAT.model, 400, text, {"temperature": 1})


@patient
@given(text=ROWS.map(json.dumps) | mutilate_text(GENERATED))
def test_any_json_in_completion_is_read_or_unreadable(text: str) -> None:
    strip_samples_and_parse_together(
        [text], ["stop"], PAIRS_FORM, lambda texts: read_generated_question_answer_pairs(texts[0])
    )
