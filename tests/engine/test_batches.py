"""Test the work on one batch: strict reading of replies, one correction, and every row accounted for."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.steps.receipts import make_receipt
from support.steps.warehouses import empty_warehouse

from factmill.tasks.core.batch_receipts import StageBatch
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.completions import PLAIN_TEXT_FORMAT, UnreadableCompletion
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.rows import MergedAway, Reject, Row, make_arrow_table
from factmill.tasks.engine import runs
from factmill.tasks.engine.batches import (
    BatchInProgress,
    StageOutputShards,
    enlarge_batch_for_many_rows,
    find_batch_receipt,
    open_batch,
)
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.errors import BuildError
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.shards import load_shard_table

PROMPT = parse_prompt_file("test/name", b'+++\nrole = "author"\ninputs = ["name"]\n+++\n# user\n$name\n')


class Named(Row):
    name: str


class Scripted:
    """A chat model that answers each name from a script, one reply an attempt."""

    identity = "scripted"
    is_outside = True

    def __init__(self, script: dict[str, list[CallResponse]]) -> None:
        self.script = {name: list(replies) for name, replies in script.items()}
        self.asked: list[tuple[str, str]] = []
        self.requests: list[Any] = []

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        for call in calls:
            name = str(call.parts["variables"]["name"])  # type: ignore[index,call-overload]
            self.asked.append((name, str(call.parts["correction"])))
            self.requests.append(call.unrecorded_parts["messages"])
            deliver(call, self.script[name].pop(0))


def said(*texts: str, finish: str = "stop") -> CallResponse:
    return CallResponse({"texts": list(texts), "finish": [finish] * len(texts), "fingerprint": None})


def read_number(row: Named, texts: list[str]) -> int | UnreadableCompletion:
    return int(texts[0]) if texts[0].isdigit() else UnreadableCompletion(f"expected a number, found {texts[0]!r}")


@pytest.fixture
def open_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Scripted], BatchInProgress]]:
    recorders: list[CallCache] = []

    def open_with(model: Scripted) -> BatchInProgress:
        recorder = CallCache(empty_warehouse(tmp_path / "w.duckdb"), "record")
        recorders.append(recorder)
        services: Any = SimpleNamespace(
            model=lambda role: (model, SimpleNamespace(name="tester", kind="openai", request_profile=dict))
        )
        run = BuildRun(tmp_path / "run", {"params": {}}, {}, {}, services, recorder)
        monkeypatch.setitem(runs._open_runs, str(run.folder), run)
        return open_batch(StageBatch(run=str(run.folder), stage="ask", index=0, key="k" * 40))

    yield open_with
    for recorder in recorders:
        recorder.close()


def ask_all(work: BatchInProgress, names: Sequence[str]) -> dict[str, Any]:
    asked = [(name, Named(id=name, name=name), fill_prompt_template(PROMPT, name=name)) for name in names]
    return {
        row.name: answer.parsed for row, answer in work.prompt_model("author", asked, PLAIN_TEXT_FORMAT, read_number)
    }


def test_unreadable_completion_is_requested_once_more_with_reason(
    open_work: Callable[[Scripted], BatchInProgress],
) -> None:
    whole = said("3", finish="length")  # a whole answer counts even at the token limit
    model = Scripted({"a": [said("1")], "b": [said("two"), said("2")], "c": [whole]})
    assert ask_all(open_work(model), ["a", "b", "c"]) == {"a": 1, "b": 2, "c": 3}
    assert [name for name, _ in model.asked] == ["a", "b", "c", "b"]
    assert "expected a number, found 'two'" in model.asked[-1][1]


def test_correction_request_repeats_conversation_with_unreadable_completion(
    open_work: Callable[[Scripted], BatchInProgress],
) -> None:
    model = Scripted({"b": [said("<think>hm</think>two"), said("2")]})
    ask_all(open_work(model), ["b"])
    first, second = model.requests
    assert second[: len(first)] == first
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[1]["content"] == "two", "thoughts are not sent back"


@pytest.mark.parametrize(
    ("replies", "reason", "asked"),
    [
        ([said("I'm sorry, but I can't help with that.")], "refused", 1),
        ([said("It is", finish="content_filter")], "refused", 1),
        ([said("The number is tw", finish="length")] * 2, "cut_off", 2),
        ([said("<think>The number is", finish="length")], "cut_off", 1),
        ([said("<think>The number is two.</think>")], "empty_reply", 1),
        ([said(" \n")], "empty_reply", 1),
        ([CallResponse(None, "failed", "empty_reply: 1 samples without text", transient=True)], "empty_reply", 1),
        ([CallResponse(None, "failed", "cut_off: 1 samples without text", transient=True)], "cut_off", 1),
        ([said("two"), said("I cannot help with that.")], "refused", 2),
        ([said("two"), said("tw", finish="length")], "cut_off", 2),
    ],
)
def test_unreadable_completion_has_reason_and_is_retried_only_where_useful(
    open_work: Callable[[Scripted], BatchInProgress], replies: list[CallResponse], reason: str, asked: int
) -> None:
    model = Scripted({"b": replies})
    assert ask_all(open_work(model), ["b"])["b"].reason == reason
    assert len(model.asked) == asked


def test_text_stripped_from_completion_is_stored_with_its_call(
    open_work: Callable[[Scripted], BatchInProgress],
) -> None:
    work = open_work(Scripted({"a": [said("1")], "b": [said("<think>?</think>\n```\n**2**\n```")]}))
    for name in "ab":
        work.add_input_row(name, "{}")
    ask_all(work, ["a", "b"])
    receipt = work.finish([Named(id=name, name=name) for name in "ab"], Named)
    uses = load_shard_table(receipt.shard, "uses").to_pylist()
    assert [(use["id"], use["taken_off"]) for use in uses] == [("a", None), ("b", "emphasis, fences, thoughts")]


@pytest.mark.parametrize("drawn", [[0, 1], [1], []])
def test_pilot_draw_passes_on_only_drawn_rows(
    open_work: Callable[[Scripted], BatchInProgress], drawn: list[int]
) -> None:
    work = open_work(Scripted({}))
    for name in "ab":
        work.add_input_row(name, "{}")
    rows = make_arrow_table(Named, [Named(id=name, name=name) for name in "ab"])
    receipt = work.finish_pilot_draw(rows, dict.fromkeys(drawn, 0.5), "not_in_pilot")
    assert (receipt.rows_in, receipt.rows, receipt.rejects) == (2, len(drawn), 2 - len(drawn))
    assert [row["id"] for row in load_shard_table(receipt.shard, "rows").to_pylist()] == [
        "ab"[place] for place in drawn
    ]
    assert receipt.drawn == {"ab"[place]: 0.5 for place in drawn}


def test_second_unreadable_completion_becomes_reject_that_keeps_it(
    open_work: Callable[[Scripted], BatchInProgress],
) -> None:
    result = ask_all(open_work(Scripted({"b": [said("two"), said("zwei")]})), ["b"])["b"]
    assert (result.row_id, result.reason) == ("b", "reply_not_in_format")
    assert "zwei" in result.detail


@pytest.mark.parametrize("transient", [True, False])
def test_failed_model_call_becomes_reject_with_cause(
    open_work: Callable[[Scripted], BatchInProgress], transient: bool
) -> None:
    model = Scripted({"a": [CallResponse(None, "failed", "http_503: down", transient=transient)]})
    assert ask_all(open_work(model), ["a"])["a"] == Reject("a", "model_failed", "http_503: down", retryable=transient)


def test_finish_writes_rows_rejects_merges_and_call_uses(open_work: Callable[[Scripted], BatchInProgress]) -> None:
    work = open_work(Scripted({"a": [said("1")]}))
    rows = [Named(id=name, name=name) for name in "abc"]
    for row in rows:
        work.add_input_row(row.id, row)
    ask_all(work, ["a"])
    receipt = work.finish([rows[0], Reject("b", "too_odd", "it is odd"), MergedAway("c", "a")], Named)
    assert (receipt.rows_in, receipt.rows, receipt.rejects, receipt.merged, receipt.calls_sent) == (3, 1, 1, 1, 1)
    assert load_shard_table(receipt.shard, "rejects").to_pylist() == [
        {"id": "b", "reason": "too_odd", "detail": "it is odd", "row": '{"id":"b","name":"b"}'}
    ]
    assert load_shard_table(receipt.shard, "merged").to_pylist() == [{"id": "c", "into_id": "a"}]
    assert [use["id"] for use in load_shard_table(receipt.shard, "uses").to_pylist()] == ["a"]
    assert find_batch_receipt(work.batch) == receipt
    # Prefect would link the stage's other batches to this one if the receipt shared a text object with the batch
    texts = {id(value) for value in vars(receipt).values() if isinstance(value, str)}
    assert not texts & {id(value) for value in vars(work.batch).values()}


def test_transient_failure_leaves_batch_without_receipt(open_work: Callable[[Scripted], BatchInProgress]) -> None:
    work = open_work(Scripted({}))
    work.add_input_row("a", "{}")
    assert work.finish([Reject("a", "model_failed", "down", retryable=True)], Named).unsettled == 1
    assert find_batch_receipt(work.batch) is None


@pytest.mark.parametrize(
    "outcomes",
    [
        [],
        [Named(id="a", name="a")] * 2,
        [Named(id="a", name="a"), Reject("a", "odd")],
        [Named(id="a", name="a"), Named(id="b", name="b"), Reject("c", "odd")],
    ],
    ids=["lost", "doubled", "row and reject", "one too many"],
)
def test_lost_or_duplicate_rows_stop_build(
    open_work: Callable[[Scripted], BatchInProgress], outcomes: list[Any]
) -> None:
    work = open_work(Scripted({}))
    for name in "ab":
        work.add_input_row(name, "{}")
    with pytest.raises(BuildError, match="stage ask, batch 0: 2 rows in, "):
        work.finish(outcomes, Named)


class Local(Scripted):
    """A graph on this machine, whose responses are not recorded."""

    identity = "graph-1"
    is_outside = False

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        for call in reversed(calls):
            name = str(call.parts["name"])
            self.asked.append((name, ""))
            deliver(call, self.script[name][0])


@pytest.mark.parametrize("outside", [False, True])
def test_lookup_shared_by_several_rows_is_requested_and_parsed_once(
    open_work: Callable[[Scripted], BatchInProgress], outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Local, "is_outside", outside)
    graph = Local({"Ada": [CallResponse(["Q7259"])], "Bob": [CallResponse(None, "failed", "bad_call: no")]})
    work, read = open_work(graph), list[Any]()
    asked = [
        (row_id, name, Call(graph.identity, "find", {"name": name}))
        for row_id, name in (("1", "Ada"), ("2", "Ada"), ("3", "Bob"), ("4", "Bob"))
    ]
    found, failed = work.call_and_parse(graph, asked, lambda body: read.append(body) or len(read))
    assert (found, read) == ({"Ada": 1}, [["Q7259"]])
    assert failed == {row_id: Reject(row_id, "wikidata_failed", "bad_call: no") for row_id in "34"}
    assert sorted(graph.asked) == [("Ada", ""), ("Bob", "")]
    assert [use[0] for use in work.call_uses] == (["1", "2", "3", "4"] if outside else [])


def test_local_graph_is_queried_in_chunks(
    open_work: Callable[[Scripted], BatchInProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("factmill.tasks.engine.batches._LOCAL_LOOKUP_CHUNK", 2)
    graph = Local(
        {name: [CallResponse(name)] for name in "ABCDE"} | {"C": [CallResponse(None, "failed", "bad_call: no")]}
    )
    work, sent = open_work(graph), list[int]()
    send = graph.send
    monkeypatch.setattr(graph, "send", lambda calls, deliver: (sent.append(len(calls)), send(calls, deliver)))
    asked = [
        (f"{number}", name, Call(graph.identity, "find", {"name": name})) for number, name in enumerate("ABACDCEA")
    ]
    found, failed = work.call_and_parse(graph, asked, str)
    assert found == {"A": "A", "B": "B", "D": "D", "E": "E"}
    assert failed == {row_id: Reject(row_id, "wikidata_failed", "bad_call: no") for row_id in "35"}
    assert sent == [2, 2, 1]
    assert sorted(name for name, _ in graph.asked) == [*"ABCDE"]


def test_chunked_conversion_to_columns_writes_identical_shard(
    open_work: Callable[[Scripted], BatchInProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts, written = [], []
    for at_once in (1_000, 2):
        monkeypatch.setattr("factmill.tasks.engine.batches._ARROW_CHUNK_ROWS", at_once)
        work = open_work(Scripted({}))
        rows = [Named(id=f"{number}", name=f"name {number}") for number in range(5)]
        for row in rows:
            work.add_input_row(row.id, row)
        receipts.append(work.finish((Reject(row.id, "odd", "") if row.id == "3" else row for row in rows), Named))
        written.append(load_shard_table(receipts[-1].shard, "rows").to_pylist())
    assert written[1] == [{"id": f"{number}", "name": f"name {number}"} for number in (0, 1, 2, 4)]
    assert (written[0], receipts[0].digest) == (written[1], receipts[1].digest)
    assert [(receipt.rows, receipt.rejects) for receipt in receipts] == [(4, 1)] * 2


@pytest.mark.parametrize(
    ("expected", "rows", "size"),
    [(500, 0, 500), (1, 32_000, 1), (500, 32_001, 501), (500, 100_000, 1563), (5_000, 100_000, 5_000)],
)
def test_large_stage_has_at_most_64_batches(expected: int, rows: int, size: int) -> None:
    assert enlarge_batch_for_many_rows(expected, rows) == size


def dataset(*rows: int) -> StageOutputShards:
    return StageOutputShards(tuple(make_receipt(f"s{i}", index=i, rows_in=n, rows=n) for i, n in enumerate(rows)))


@pytest.mark.parametrize(
    ("start", "stop", "shards", "skipped"),
    [
        (0, 3, ("s0",), 0),
        (2, 4, ("s0", "s2"), 0),
        (3, 7, ("s2",), 3),
        (4, 9, ("s2", "s3"), 3),
        (7, 9, ("s3",), 7),
        (0, 9, ("s0", "s2", "s3"), 0),
    ],
)
def test_row_range_selects_only_overlapping_shards(
    start: int, stop: int, shards: tuple[str, ...], skipped: int
) -> None:
    assert dataset(3, 0, 4, 2).shards_for_rows(start, stop) == (shards, skipped)


def test_empty_dataset_has_one_shard_that_provides_columns() -> None:
    assert dataset(0, 0).shards_for_rows(0, 0) == (("s0",), 0)


def test_row_range_names_units_of_its_rows() -> None:
    units = (("P19",), ("P26",), ("P50",), ("P50", "P57"))
    rows = StageOutputShards(dataset(3, 0, 4, 2).receipts, units)
    assert [rows.units_for_rows(*each) for each in ((0, 3), (2, 4), (7, 9), (0, 9))] == [
        ("P19",),
        ("P19", "P50"),
        ("P50", "P57"),
        ("P19", "P50", "P57"),
    ]
