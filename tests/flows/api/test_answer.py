"""Test scoring of answers from an async function and from a model of a world's file."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SmallBuilds
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world

import factmill as api
from factmill.tasks.errors import SettingsError, UsageError


@pytest.fixture(scope="module")
def warehouse(small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answer") / "w.duckdb"
    small_builds.copy("granola", path)
    return path


@pytest.fixture
def asked(warehouse: Path) -> list[dict[str, Any]]:
    return api.questions("granola", source=warehouse, setting="greedy")


def answer(*given: Any, **named: Any) -> list[dict[str, Any]]:
    return asyncio.run(api.answer(*given, **named))


async def say_paris(_: list[dict[str, str]]) -> str:
    return "Paris"


def test_answers_keep_input_order_and_are_scored(warehouse: Path, asked: list[dict[str, Any]]) -> None:
    running: list[int] = []
    most: list[int] = []

    async def model(messages: list[dict[str, str]]) -> str:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.001 * (len(messages[-1]["content"]) % 5))
        running.pop()
        text = messages[-1]["content"]
        messages.clear()  # the function's own copy
        return text

    answers = answer(model, asked, concurrency=3)
    assert [each["id"] for each in answers] == [each["id"] for each in asked]
    assert [each["answer"] for each in answers] == [each["messages"][-1]["content"] for each in asked]
    assert max(most) == 3
    scored = api.score("granola", answers, source=warehouse, setting="greedy")
    assert scored.metrics["n"][0].as_py() == len(asked)
    assert answer(model, []) == []


def test_undelivered_answers_are_unscored_with_reason(warehouse: Path, asked: list[dict[str, Any]]) -> None:
    count = iter(range(100))

    async def model(_: list[dict[str, str]]) -> Any:
        match next(count):
            case 0:
                raise TimeoutError("too\nslow")
            case 1:
                raise asyncio.CancelledError("inside")
            case 2:
                return None
            case 3:
                raise ValueError("x" * 10_000)
        return "Paris"

    answers = answer(model, asked, concurrency=1)
    assert [each.get("detail") for each in answers[:3]] == [
        "TimeoutError: too slow",
        "CancelledError: inside",
        "the function returned a NoneType; expected text",
    ]
    assert len(answers[3]["detail"]) == 500
    assert {each["unscored"] for each in answers[:4]} == {"model_failed"}
    assert not any("unscored" in each for each in answers[4:])
    scored = api.score("granola", answers, source=warehouse, setting="greedy")
    rows = {row["question_id"]: row for row in scored.answers.to_pylist()}
    for each in answers[:4]:
        row = rows[each["id"]]
        assert (row["unscored"], row["detail"], row["answer"]) == ("model_failed", each["detail"], "")
    metric = scored.metrics.to_pylist()[0]
    assert (metric["n"], metric["n_unscored"]) == (len(asked) - 4, 4)


def test_cancelling_answer_cancels_model_calls(asked: list[dict[str, Any]]) -> None:
    cancelled: list[str] = []

    async def model(_: list[dict[str, str]]) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise
        return ""

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(api.answer(model, asked, concurrency=2), 0.1))
    assert cancelled == ["cancelled"] * 2


def test_invalid_arguments_raise_named_errors(warehouse: Path, asked: list[dict[str, Any]]) -> None:
    for model, rows, named, said in (
        (lambda _: "Paris", asked, {}, "expected an async function"),
        (5, asked, {}, "model is 5"),
        (say_paris, ["q"], {}, "asked, row 1"),
        (say_paris, [{"id": "a"}], {}, "asked, row 1"),
        (say_paris, asked, {"concurrency": 0}, "concurrency is 0"),
        (say_paris, asked, {"limit": 3}, "limit: an async function"),
        ("oracle", asked, {}, r"factmill\.score\(BENCHMARK, 'oracle'\)"),
        ("mine", asked, {}, r"no chat model called"),
    ):
        with pytest.raises(UsageError, match=said):
            answer(model, rows, source=warehouse, **named)


@pytest.fixture
def chat() -> Iterator[ScriptedChat]:
    def say(messages: Sequence[Message]) -> tuple[int, str]:
        return (200, "Paris") if len(messages[-1]["content"]) % 2 else (400, "content_filter: cannot be answered")

    model = ScriptedChat(say)
    yield model
    model.close()


def test_world_model_receives_same_requests_as_from_evaluate(
    warehouse: Path,
    asked: list[dict[str, Any]],
    chat: ScriptedChat,
    tmp_path: Path,
    small_builds: SmallBuilds,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_KEY", "secret")
    world = write_chat_world(tmp_path, chat.url, ["mine"])
    answers = answer("mine", asked, world=str(world), source=warehouse)
    lost = sum("unscored" in each for each in answers)
    assert 0 < lost < len(asked) == len(chat.web.seen)
    assert answer("mine", asked, world=str(world), source=warehouse) == answers
    assert len(chat.web.seen) == len(asked) + lost, "only failed requests are sent again"
    scored = api.score("granola", answers, source=warehouse, setting="greedy", model="mine")
    options = ("--world", world, "--warehouse", warehouse, "--setting", "greedy", "--reports", tmp_path, "--json")
    ran = small_builds.factmill("evaluate", "granola", "--model", "mine", *options, TEST_KEY="secret")
    assert ran.code == 0, ran.err
    assert len(chat.web.seen) == len(asked) + 2 * lost, "evaluate does not send it again either"
    columns = ("value", "n", "n_unscored", "ci_low", "ci_high")
    of_evaluate = {each["id"]: [each[name] for name in columns] for each in ran.json["metrics"]}
    assert {each["id"]: [each[name] for name in columns] for each in scored.metrics.to_pylist()} == of_evaluate
    with pytest.raises(UsageError, match=r"give the options that factmill\.questions was given"):
        answer("mine", [{**asked[0], "id": "P0-0"}], world=str(world), source=warehouse)
    with pytest.raises(UsageError, match="of several builds"):
        answer("mine", [asked[0], {**asked[1], "build": "b"}], world=str(world), source=warehouse)
    with pytest.raises(UsageError, match=r"unknown option limits; there are: .*; did you mean limit"):
        answer("mine", asked, world=str(world), source=warehouse, limits=3)
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(SettingsError, match="set it to the API key"):
        answer("mine", asked, world=str(world), source=warehouse)
