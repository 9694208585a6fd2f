"""Test local models as services: opened on first use, every call answered once under concurrent callers."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.calls.translation_and_perplexity import (
    PerplexityOutcome,
    TextLogProbability,
    make_log_probability_call,
    make_translate_text_call,
    parse_log_probability,
)
from factmill.tasks.models import model_services
from factmill.tasks.models.model_services import LocalModelService, make_language_model_service, make_translator_service
from factmill.tasks.models.perplexity import (
    EMBEDDED_LANGUAGE_MODEL,
    EMBEDDED_LANGUAGE_MODEL_FOLDER,
    LanguageModel,
    get_language_model_identity,
)
from factmill.tasks.models.translator import EMBEDDED_TRANSLATOR_FOLDER as EMBEDDED_TRANSLATOR
from factmill.tasks.models.translator import Translator


def test_model_is_opened_once_and_only_when_needed(tmp_path) -> None:
    opened = []

    def open_model() -> LanguageModel:
        opened.append(1)
        return LanguageModel(EMBEDDED_LANGUAGE_MODEL_FOLDER, "cpu", threads=1)

    service = make_language_model_service(
        get_language_model_identity(EMBEDDED_LANGUAGE_MODEL, tmp_path, "cpu"), open_model
    )
    assert opened == []
    calls = [
        make_log_probability_call(service.identity, text)
        for text in ("Ada Lovelace is a mathematician.", "Rome is a city.", "", "Rome is a city")
    ]
    replies: dict[str, CallResponse] = {}
    for _ in range(2):
        service.send(calls, lambda call, reply: replies.update({call.key: reply}))
    assert opened == [1]
    assert [replies[call.key].status for call in calls] == ["ok", "ok", "failed", "ok"]
    assert replies[calls[2].key].error == (
        "unweighable: nothing_to_weigh: the text has no token after the first one that the model sees"
    )
    expected: list[PerplexityOutcome] = LanguageModel(EMBEDDED_LANGUAGE_MODEL_FOLDER, "cpu").compute_log_probabilities(
        [str(calls[0].parts["text"])]
    )
    assert [parse_log_probability(replies[calls[0].key].body)] == expected
    assert isinstance(expected[0], TextLogProbability)


def test_unsupported_operation_is_failed_response(tmp_path) -> None:
    service = make_language_model_service(
        "here", lambda: LanguageModel(EMBEDDED_LANGUAGE_MODEL_FOLDER, "cpu", threads=1)
    )
    calls = [Call("here", "chat", {"text": "hello"}), make_log_probability_call("here", "hello there")]
    replies: dict[str, CallResponse] = {}
    service.send(calls, lambda call, reply: replies.update({call.operation: reply}))
    assert replies["chat"].error == "unknown_operation: a language model has no chat"
    assert replies["perplexity"].status == "ok"


class Slow:
    """Answers calls in groups that it records, the first group only when released."""

    def __init__(self, failing: int = 0) -> None:
        self.goes: list[list[str]] = []
        self.begun, self.let = threading.Event(), threading.Event()
        self.failing = failing

    def answer(self, _model: str, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        self.goes.append(sorted(str(call.parts["text"]) for call in calls))
        self.begun.set()
        assert self.let.wait(20)
        if len(self.goes) <= self.failing:
            raise OSError(f"no memory in go {len(self.goes)}")
        for call in calls:
            deliver(call, CallResponse(str(call.parts["text"]).upper()))


def ask_at_once(slow: Slow, asked: Sequence[list[str]], delivers: Sequence[ResponseHandler] = ()) -> list[object]:
    """Send the first caller's calls, then the others' while it is being answered; return each reply or error."""
    service = LocalModelService("here", "model", lambda: "model", {"say": slow.answer})

    def ask(place: int) -> object:
        got: dict[str, object] = {}

        def keep(call: Call, reply: CallResponse) -> None:
            if place < len(delivers):
                delivers[place](call, reply)
            assert str(call.parts["text"]) not in got, "delivered twice"
            got[str(call.parts["text"])] = reply.body

        try:
            service.send([Call("here", "say", {"text": text}) for text in asked[place]], keep)
        except OSError as error:
            return str(error)
        return got

    with ThreadPoolExecutor(len(asked)) as pool:
        first = pool.submit(ask, 0)
        assert slow.begun.wait(20)
        others = [pool.submit(ask, place) for place in range(1, len(asked))]
        while len(service._waiting) < len(others):
            time.sleep(0.001)
        slow.let.set()
        return [future.result(20) for future in (first, *others)]


def test_waiting_callers_are_answered_in_one_batch_each_with_its_own_results() -> None:
    slow = Slow()
    got = ask_at_once(slow, [["a"], ["b", "c"], ["c", "d"], ["a", "e"]])
    assert slow.goes == [["a"], ["a", "b", "c", "d", "e"]]
    assert got == [{"a": "A"}, {"b": "B", "c": "C"}, {"c": "C", "d": "D"}, {"a": "A", "e": "E"}]


def test_model_failure_raises_separate_error_for_every_caller() -> None:
    slow = Slow(failing=2)
    got = ask_at_once(slow, [["a"], ["b"], ["c"]])
    assert got[0] == "no memory in go 1"
    assert sorted(map(str, got[1:])) in [["no memory in go 2", f"{{'{text}': '{text.upper()}'}}"] for text in "bc"]
    assert len(slow.goes) == 3


def test_caller_that_fails_on_delivery_affects_no_other_caller() -> None:
    def refuse(_call: Call, _reply: CallResponse) -> None:
        raise OSError("the disk is full")

    slow = Slow()
    got = ask_at_once(slow, [["a"], ["b", "c"], ["c", "d"]], [lambda *_: None, refuse])
    assert got == [{"a": "A"}, "the disk is full", {"c": "C", "d": "D"}]


def test_calls_are_answered_and_delivered_in_runs_of_similar_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_services, "_TEXTS_PER_RUN", 2)
    opened = Translator(EMBEDDED_TRANSLATOR, "cpu", threads=1)
    runs: list[list[str]] = []
    translate = opened.translate
    monkeypatch.setattr(opened, "translate", lambda asked: runs.append([text for text, _ in asked]) or translate(asked))
    service = make_translator_service("here", lambda: opened)
    texts = ["Berlin", "Where was Marie Curie born?", "Rome", "In which city did Karl Marx die?"]
    calls = [make_translate_text_call("here", text, "de") for text in texts]
    got: dict[str, CallResponse] = {}
    service.send(calls, lambda call, reply: got.update({call.key: reply}))
    assert runs == [[texts[3], texts[1]], [texts[0], texts[2]]]
    assert [got[call.key].body for call in calls] == translate([(text, "de") for text in texts])
