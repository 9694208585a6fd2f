"""Test finish reasons in every server's spelling."""

import pytest

from factmill.tasks.core.completions import (
    PLAIN_TEXT_FORMAT,
    StrippedCompletion,
    UnreadableCompletion,
    strip_completion_wrappers,
)
from factmill.tasks.core.finish_reasons import classify_finish_reason, format_unknown_finish_reason_warning

WORDS = {
    "cut": "length max_tokens model_length MAX_TOKENS MaxTokens incomplete max_output_tokens model_context_window_exceeded",
    "done": "stop STOP end_turn eos stop_sequence tool_calls tool_use function_call COMPLETE None null",
    "filtered": "content_filter refusal SAFETY RECITATION PROHIBITED_CONTENT BLOCKLIST SPII guardrail_intervened sensitive",
    "failed": "error ERROR insufficient_system_resource MALFORMED_FUNCTION_CALL malformed_model_output network_error",
    "unknown": "foo OTHER",
}


AMONG_OTHERS = {
    "": "done",
    "content_filter: RECITATION": "filtered",
    "function_call_filter: MALFORMED_FUNCTION_CALL": "failed",
    "FinishReason.STOP": "done",
}


@pytest.mark.parametrize(
    ("reason", "ending"),
    [*((word, ending) for ending, words in WORDS.items() for word in words.split()), *AMONG_OTHERS.items()],
)
def test_a_finish_reason_means_the_same_in_any_spelling_and_among_other_words(reason: str, ending: str) -> None:
    assert classify_finish_reason(reason) == ending


def test_unknown_finish_reasons_are_named_once_in_order() -> None:
    [note] = format_unknown_finish_reason_warning("m", ["stop", "zap, length", "", "None", "bar", "zap"])
    assert "'bar', 'zap'" in note
    assert "model m " in note
    assert format_unknown_finish_reason_warning("m", ["stop", "length, stop", ""]) == []


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "model_length", "incomplete"])
def test_truncated_text_is_recognised_under_any_finish_reason_name(finish: str) -> None:
    assert strip_completion_wrappers("Paris is the", finish, PLAIN_TEXT_FORMAT) == StrippedCompletion(
        "Paris is the", is_truncated=True
    )
    assert strip_completion_wrappers("", finish, PLAIN_TEXT_FORMAT).kind == "cut_off"  # type: ignore[union-attr]


@pytest.mark.parametrize("finish", ["SAFETY", "content_filter", "guardrail_intervened"])
def test_filtered_text_is_refused_under_any_finish_reason_name(finish: str) -> None:
    said = strip_completion_wrappers("Paris is", finish, PLAIN_TEXT_FORMAT)
    assert isinstance(said, UnreadableCompletion)
    assert said.kind == "refused"
