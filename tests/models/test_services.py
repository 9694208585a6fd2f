"""The language model as a service: opened when first asked, every call answered once."""

from tasks.core.calls.call import Call, Reply
from tasks.core.calls.perplexity import Outcome, Weighed, call_perplexity, read_weighed
from tasks.models.perplexity import EMBEDDED, EMBEDDED_FOLDER, LanguageModel, identify_perplexity
from tasks.models.services import serve_perplexity


def test_the_model_is_opened_once_and_not_before_it_is_needed(tmp_path) -> None:
    opened = []

    def open_model() -> LanguageModel:
        opened.append(1)
        return LanguageModel(EMBEDDED_FOLDER, "cpu", threads=1)

    service = serve_perplexity(identify_perplexity(EMBEDDED, tmp_path, "cpu"), open_model)
    assert opened == []
    calls = [
        call_perplexity(service.identity, text)
        for text in ("Ada Lovelace is a mathematician.", "Rome is a city.", "", "Rome is a city")
    ]
    replies: dict[str, Reply] = {}
    for _ in range(2):
        service.send(calls, lambda call, reply: replies.update({call.key: reply}))
    assert opened == [1]
    assert [replies[call.key].status for call in calls] == ["ok", "ok", "failed", "ok"]
    assert replies[calls[2].key].error == (
        "unweighable: nothing_to_weigh: the text has no token after the first one that the model sees"
    )
    expected: list[Outcome] = LanguageModel(EMBEDDED_FOLDER, "cpu").weigh([str(calls[0].parts["text"])])
    assert [read_weighed(replies[calls[0].key].body)] == expected
    assert isinstance(expected[0], Weighed)


def test_what_a_language_model_cannot_do_is_a_failed_reply(tmp_path) -> None:
    service = serve_perplexity("here", lambda: LanguageModel(EMBEDDED_FOLDER, "cpu", threads=1))
    calls = [Call("here", "chat", {"text": "hello"}), call_perplexity("here", "hello there")]
    replies: dict[str, Reply] = {}
    service.send(calls, lambda call, reply: replies.update({call.operation: reply}))
    assert replies["chat"].error == "unknown_operation: a language model has no chat"
    assert replies["perplexity"].status == "ok"
