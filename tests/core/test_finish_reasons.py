"""What a server's word for the end of a text means, in the spelling of any server."""

import pytest

from factmill.tasks.core.finish_reasons import classify_finish, describe_unknown
from factmill.tasks.core.replies import TEXT, Said, Unreadable, read_said

WORDS = {
    "cut": "length max_tokens model_length MAX_TOKENS MaxTokens incomplete max_output_tokens model_context_window_exceeded",
    "done": "stop STOP end_turn eos stop_sequence tool_calls tool_use function_call COMPLETE None null",
    "filtered": "content_filter refusal SAFETY RECITATION PROHIBITED_CONTENT BLOCKLIST SPII guardrail_intervened sensitive",
    "failed": "error ERROR insufficient_system_resource MALFORMED_FUNCTION_CALL malformed_model_output network_error",
    "unknown": "foo OTHER",
}


@pytest.mark.parametrize(
    ("word", "ending"), [(word, ending) for ending, words in WORDS.items() for word in words.split()]
)
def test_a_finish_reason_means_the_same_in_any_spelling(word: str, ending: str) -> None:
    assert classify_finish(word) == ending


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        ("", "done"),
        ("content_filter: RECITATION", "filtered"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "failed"),
        ("FinishReason.STOP", "done"),
    ],
)
def test_a_word_counts_among_others(reason: str, ending: str) -> None:
    assert classify_finish(reason) == ending


def test_unknown_words_are_named_once_in_order() -> None:
    [note] = describe_unknown("m", ["stop", "zap, length", "", "None", "bar", "zap"])
    assert "'bar', 'zap'" in note
    assert "model m " in note
    assert describe_unknown("m", ["stop", "length, stop", ""]) == []


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "model_length", "incomplete"])
def test_a_text_that_is_cut_by_any_name_is_read_as_cut(finish: str) -> None:
    assert read_said("Paris is the", finish, TEXT) == Said("Paris is the", is_cut=True)
    assert read_said("", finish, TEXT).kind == "cut_off"  # type: ignore[union-attr]


@pytest.mark.parametrize("finish", ["SAFETY", "content_filter", "guardrail_intervened"])
def test_a_text_that_a_filter_ended_is_refused_by_any_name(finish: str) -> None:
    said = read_said("Paris is", finish, TEXT)
    assert isinstance(said, Unreadable)
    assert said.kind == "refused"
