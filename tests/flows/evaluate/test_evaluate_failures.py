"""Test that a provider's failures are no results of the model: no credit, errors, blocked and cut-off completions."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.builds.measured import Measured, list_overall
from support.builds.small_builds import SmallBuilds
from support.commands.command import Ran
from support.models.scripted_chat import write_chat_world
from support.webs.loopback import Loopback, Seen

KEY = {"TEST_KEY": "secret-key-1"}
Play = Callable[[int, int], dict[str, Any]]
"""Maps a question's index, from 0, and its number of earlier requests to the response."""


def say(text: str | None, finish: str = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **more}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"json": {"usage": usage, "choices": [{"index": 0, "finish_reason": finish, "message": message}]}}


def refuse(status: int, **error: Any) -> dict[str, Any]:
    return {"status": status, "json": {"error": {"message": "no", **error}}}


class Provider:
    """A server that identifies questions by their order, and counts requests and responses with status 200 for each."""

    def __init__(self, golds: dict[str, str]) -> None:
        self.golds = golds
        self.asked: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.play: Play = lambda at, _: say(self.right(at))
        self.web = Loopback()
        self.web.handle = self._handle

    def right(self, at: int) -> str:
        return list(self.golds.values())[at]

    def _handle(self, seen: Seen) -> dict[str, Any]:
        if not seen.body:
            return {"status": 404, "json": {}}
        said = seen.json()["messages"][-1]["content"]  # a probe merges roles: the question then ends the message
        at = next(at for at, question in enumerate(self.golds) if said.endswith(question))
        answer = self.play(at, self.asked[at])
        self.asked[at] += 1
        self.answered[at] += answer.get("status", 200) == 200
        return answer


@pytest.fixture(scope="module")
def measure(small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return Measured.small(small_builds, "granola", tmp_path_factory.mktemp("granola"))


@pytest.fixture
def provider(measure: Measured) -> Iterator[Provider]:
    rows = measure.read("granola_eq", measure.build_id)
    provider = Provider({row["question"]: row["granola_answers"][0] for row in rows})
    yield provider
    provider.web.close()


@pytest.fixture
def evaluate(measure: Measured, provider: Provider, tmp_path: Path) -> Callable[..., Ran]:
    """Evaluate the provider's model, one request at a time.

    Each test's provider has its own address, and so its own calls.
    """
    world = write_chat_world(tmp_path, f"{provider.web.url}/v1", ["answerer"])
    world.write_text(world.read_text("utf-8").replace("parallel = 4", "parallel = 1"), "utf-8")
    place = (
        "--world",
        world,
        "--setting",
        "greedy",
        "--similarity",
        "0",
        "--build",
        measure.build_id,
        "--warehouse",
        measure.warehouse,
    )
    return lambda *options: measure.factmill("evaluate", "granola", *place, *(options or ("--json",)), **KEY)


def test_exhausted_credit_stops_run_and_later_run_requests_rest(
    provider: Provider, evaluate: Callable[..., Ran]
) -> None:
    questions = len(provider.golds)
    provider.play = lambda at, _: say(provider.right(at)) if provider.answered.total() < 5 else refuse(402, code=402)
    stopped = evaluate()
    assert stopped.code == 1
    assert "Traceback" not in stopped.err
    [line] = [line for line in stopped.err.splitlines() if "HTTP 402" in line]
    assert "the account can send no further requests" in line
    assert evaluate().code == 1
    assert provider.answered.total() == 5

    provider.play = lambda at, _: say(provider.right(at))
    result = evaluate().json
    assert set(provider.answered.values()) == {1}
    assert (result["unscored"], result["calls_sent"], result["calls_replayed"]) == (0, questions - 5, 5)
    assert list_overall(result)["greedy", "accuracy"]["value"] == 1


FAILURES = [
    say("half a", "error"),
    say("", "MALFORMED_FUNCTION_CALL"),
    {"json": {"error": {"code": 502, "message": "Provider returned error"}}},
    {"json": {"choices": [], "usage": {"prompt_tokens": 9}}},
]


def test_provider_failures_are_retried_and_never_count_as_answers(
    measure: Measured, provider: Provider, evaluate: Callable[..., Ran]
) -> None:
    questions = len(provider.golds)
    # the first four questions always fail, all others once
    provider.play = lambda at, before: FAILURES[at % 4] if at < 4 or not before else say(provider.right(at))
    result = evaluate().json
    rows = measure.read("granola_answers", result["evaluation_id"])
    assert Counter(row["unscored"] for row in rows) == {"": questions - 4, "model_failed": 4}
    assert {row["answer"] for row in rows if row["unscored"]} == {""}
    assert list_overall(result)["greedy", "accuracy"]["value"] == 1
    assert (result["unscored"], result["unsettled"]) == (4, 4)
    assert {provider.asked[at] for at in range(4)} == {2}, "limits.attempts attempts"

    provider.asked.clear()
    provider.play = lambda at, _: say("Xanadu")
    healed = evaluate().json
    assert provider.asked == dict.fromkeys(range(4), 1)
    assert (healed["unscored"], healed["unsettled"]) == (0, 0)
    assert list_overall(healed)["greedy", "accuracy"]["value"] == pytest.approx(1 - 4 / questions)


BLOCKS = [
    refuse(403, code=403, metadata={"reasons": ["violence"], "flagged_input": "Who"}),
    refuse(400, code="content_filter", innererror={"code": "ResponsibleAIPolicyViolation"}),
    {"json": {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usage": {"prompt_tokens": 9}}},
    say("Par", "SAFETY"),
    say(None, refusal="I will not."),
    say("Paris", refusal="I will not."),
]


def test_blocked_prompts_count_as_refusals_and_are_sent_once(
    measure: Measured, provider: Provider, evaluate: Callable[..., Ran]
) -> None:
    provider.play = lambda at, _: BLOCKS[at] if at < len(BLOCKS) else say(provider.right(at))
    result = evaluate().json
    rows = measure.read("granola_answers", result["evaluation_id"])
    assert Counter(row["unscored"] for row in rows)["refused"] == len(BLOCKS)
    assert (result["unscored"], result["unsettled"]) == (0, 0)
    overall = list_overall(result)
    assert overall["greedy", "share_idk"]["value"] == pytest.approx(len(BLOCKS) / len(rows))
    assert overall["greedy", "selective_accuracy"]["value"] == 1
    assert set(provider.asked.values()) == {1}
    again = evaluate("--force", "--json").json
    assert (again["calls_sent"], again["metrics"]) == (0, result["metrics"])


def test_model_with_every_prompt_blocked_is_measured_as_refusing(
    provider: Provider, evaluate: Callable[..., Ran]
) -> None:
    provider.play = lambda at, _: BLOCKS[0]
    result = evaluate().json
    assert list_overall(result)["greedy", "share_idk"]["value"] == 1
    assert set(provider.asked.values()) == {1}


def test_rejected_requests_end_with_message_and_are_repeated_later(
    provider: Provider, evaluate: Callable[..., Ran]
) -> None:
    provider.play = lambda at, _: refuse(400, message="the moon is full")
    ended = evaluate()
    assert ended.code == 1
    assert "the moon is full" in ended.err
    assert "run the same command again" in ended.err
    before = provider.asked.copy()
    first, others = max(before.values()), sorted(before.values())[:-1]
    assert first > 1  # one probe without each optional parameter
    assert set(others) == {1}
    provider.play = lambda at, _: say(provider.right(at))
    assert evaluate().json["unscored"] == 0
    assert set((provider.asked - before).values()) == {1}


def test_truncated_answers_are_recognised_and_unknown_finish_reasons_noted(
    measure: Measured, provider: Provider, evaluate: Callable[..., Ran]
) -> None:
    ends = ["length", "max_tokens", "model_length", "MAX_TOKENS", "incomplete", "zap", "zap"]
    provider.play = lambda at, _: say(provider.right(at), ends[at] if at < len(ends) else "end_turn")
    result = evaluate().json
    rows = measure.read("granola_answers", result["evaluation_id"])
    assert Counter(row["unscored"] for row in rows)["cut_off"] == 5
    assert {row["finish"] for row in rows} == {*ends, "end_turn"}
    assert result["unscored"] == 5
    assert list_overall(result)["greedy", "accuracy"]["value"] == 1
    for notes in (result["notes"], evaluate("--force", "--json").json["notes"]):
        assert len([note for note in notes if "'zap'" in note]) == 1
    assert set(provider.asked.values()) == {1}
