"""Test requests written to a file and responses read from one."""

import json

import pytest
from support.batches.asking import answer, ask_all, bodies, collect, open_chat
from support.batches.run_batch import run_batch

from factmill.tasks.clients.batch_jobs.offline_batches import OfflineRequestAndReplyFilesOfRun
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import AwaitingReplyFile, OutputError, SourceError


class Rounds:
    """A run that exchanges request files in one folder, round by round."""

    def __init__(self, folder, server, run="granola-1a2b"):
        self.folder, self.server, self.run = folder, server, run
        self.requests, self.replies = folder / "a.jsonl", folder / "b.jsonl"

    def open(self, replies=None, writes=True) -> OfflineRequestAndReplyFilesOfRun:
        return OfflineRequestAndReplyFilesOfRun(self.run, self.folder, self.requests if writes else None, replies)

    def ask(self, calls, replies=None, **changed):
        """Return the responses, and the run's message about the file it wrote; empty if it wrote none."""
        files, got = self.open(replies), {}
        try:
            open_chat(self.server, None, files=files, **changed).send(
                calls, lambda call, reply: got.update({call.key: reply})
            )
        except AwaitingReplyFile:
            return got, files.finish_request_files()
        finally:
            files.close()
        return got, ""

    def answer(self) -> int:
        return run_batch(self.requests, self.replies, self.server.url)

    @property
    def lines(self):
        return [json.loads(line) for line in self.requests.read_text("utf-8").splitlines()]


@pytest.fixture
def rounds(make_server, tmp_path):
    return Rounds(tmp_path, make_server())


def test_responses_from_files_equal_single_responses_at_batch_price(rounds):
    calls = ask_all(5, samples=2)
    got, result = rounds.ask(calls)
    assert (got, rounds.server.requests) == ({}, 0)
    assert result.startswith(f"granola-1a2b: wrote 10 requests to m-1 in {rounds.requests}. ")
    assert rounds.answer() == 10
    got, result = rounds.ask(calls, rounds.replies)
    singly = collect(open_chat(rounds.server, None), calls)
    assert (bodies(got), result) == (bodies(singly), "")
    assert sum(reply.cost_usd for reply in got.values()) == pytest.approx(
        sum(reply.cost_usd for reply in singly.values()) / 2
    )


def test_samples_of_one_call_may_arrive_in_several_files(rounds):
    calls = ask_all(3, samples=2)
    rounds.ask(calls)
    rounds.answer()
    first, *others = rounds.replies.read_text("utf-8").splitlines(keepends=True)
    rounds.replies.write_text("".join(others), "utf-8")
    got, _ = rounds.ask(calls, rounds.replies)
    assert len(got) == 2
    assert [line["custom_id"] for line in rounds.lines] == [json.loads(first)["custom_id"]]
    rounds.answer()
    left = [call for call in calls if call.key not in got]
    rest, result = rounds.ask(left, rounds.replies)
    assert (len(rest), result) == (1, "")
    assert bodies({**got, **rest}) == bodies(collect(open_chat(rounds.server, None), calls))


def test_refused_parameters_are_rewritten_and_refusal_file_can_be_read_twice(make_server, tmp_path, messages):
    def refuse(body):
        if "max_tokens" in body:
            return {"status": 400, "json": {"error": {"message": "no 'max_tokens'", "param": "max_tokens"}}}
        if body.get("n", 1) > 1:
            text = "n must be 1 when using greedy sampling"
            return {"status": 400, "json": {"error": {"message": text, "param": "n"}}}
        return answer(body)

    rounds, calls = Rounds(tmp_path, make_server(refuse)), ask_all(2, samples=2)
    rounds.ask(calls, choices=True)
    rounds.answer()
    for _ in range(2):
        assert rounds.ask(calls, rounds.replies, choices=True)[0] == {}
        assert ["max_completion_tokens" in line["body"] for line in rounds.lines] == [True, True]
    assert messages[-1].startswith(f"{rounds.replies}: 2 replies to this build, 2 failed (refused")
    assert "another token_limit)" in messages[-1]
    rounds.answer()
    assert rounds.ask(calls, rounds.replies, choices=True)[0] == {}
    assert [line["body"].get("n") for line in rounds.lines] == [None] * 4
    rounds.answer()
    got, _ = rounds.ask(calls, rounds.replies, choices=True)
    assert {len(reply.body["texts"]) for reply in got.values()} == {2}
    rounds.ask(ask_all(3, samples=2)[2:], choices=True)  # the next stage uses files from the start
    assert [("max_completion_tokens" in line["body"], "n" in line["body"]) for line in rounds.lines] == [
        (True, False)
    ] * 2


def test_line_that_always_fails_becomes_transient_failure_after_all_attempts(make_server, tmp_path):
    rounds = Rounds(tmp_path, make_server(lambda _: {"status": 500, "json": {"error": {"message": "oh"}}}))
    limits, calls = ServiceLimits(attempts=2), ask_all(1)
    rounds.ask(calls, limits=limits)
    rounds.answer()
    assert rounds.ask(calls, rounds.replies, limits=limits)[0] == {}
    rounds.answer()
    got, result = rounds.ask(calls, rounds.replies, limits=limits)
    (reply,) = got.values()
    assert (reply.status, reply.transient, reply.error.partition(":")[0], result) == ("failed", True, "http_500", "")


def test_each_model_writes_its_own_request_file_and_all_share_one_reply_file(rounds):
    calls, files = ask_all(2), rounds.open()
    for name in ("org/author", "judge"):
        with pytest.raises(AwaitingReplyFile):
            collect(open_chat(rounds.server, None, files=files, name=name), calls[: 1 + (name == "judge")])
    assert (
        "1 request to org/author in " in (result := files.finish_request_files())
        and "2 requests to judge in " in result
    )
    assert sorted(path.name for path in rounds.folder.glob("*.jsonl")) == ["a.judge.jsonl", "a.org-author.jsonl"]
    assert list(rounds.folder.glob("*.part")) == []


def test_interrupted_request_writing_leaves_no_file(rounds):
    files = rounds.open()
    with pytest.raises(AwaitingReplyFile):
        collect(open_chat(rounds.server, None, files=files), ask_all(2))
    files.close()
    assert list(rounds.folder.glob("a.*")) == []


def test_missing_responses_are_requested_from_server_when_no_file_is_written(rounds):
    calls = ask_all(4)
    rounds.ask(calls[:3])
    rounds.answer()
    before = rounds.server.requests
    got = collect(open_chat(rounds.server, None, files=rounds.open(rounds.replies, writes=False), mode="single"), calls)
    assert (len(got), rounds.server.requests - before) == (4, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read"),
        ("", "none of its lines is a reply"),
        ("{}\n", "none of its lines is a reply"),
        (
            '{"custom_id": "0123abcd-0-x", "error": {"code": "y"}}\n',
            "all 1 of its lines answer requests of another build",
        ),
        ('{"custom_id": "x", "error": {"code": "y"}}\n', "all 1 of its lines answer requests of another build"),
    ],
)
def test_rejects_reply_file_without_response_for_this_build(rounds, content, said):
    if content is not None:
        rounds.replies.write_text(content, "utf-8")
    with pytest.raises(SourceError, match=said):
        rounds.open(rounds.replies)


def test_missing_folder_is_reported_before_any_request(rounds):
    rounds.requests = rounds.folder / "none" / "a.jsonl"
    with pytest.raises(OutputError, match="there is no folder"):
        rounds.open()
