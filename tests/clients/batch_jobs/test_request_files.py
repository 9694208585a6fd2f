"""Requests that are written to a file, and replies that come in one."""

import json

import pytest
from support.batches.asking import answer, ask_all, bodies, collect, open_chat
from support.batches.run_batch import run_batch

from factmill.tasks.clients.batch_jobs.offline_batches import OfflineRequestAndReplyFiles
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import AwaitingReplyFile, OutputError, SourceError


class Rounds:
    """A run that is asked by files, in one folder, round by round."""

    def __init__(self, folder, server, run="granola-1a2b"):
        self.folder, self.server, self.run = folder, server, run
        self.requests, self.replies = folder / "a.jsonl", folder / "b.jsonl"

    def open(self, replies=None, writes=True) -> OfflineRequestAndReplyFiles:
        return OfflineRequestAndReplyFiles(self.run, self.folder, self.requests if writes else None, replies)

    def ask(self, calls, replies=None, **changed):
        """Return what came, and what the run says of the file that it wrote; empty: it wrote none."""
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


def test_replies_by_files_are_those_of_single_calls_at_the_price_of_jobs(rounds):
    calls = ask_all(5, samples=2)
    got, told = rounds.ask(calls)
    assert (got, rounds.server.requests) == ({}, 0)
    assert told.startswith(f"granola-1a2b: wrote 10 requests to m-1 in {rounds.requests}. ")
    assert rounds.answer() == 10
    got, told = rounds.ask(calls, rounds.replies)
    singly = collect(open_chat(rounds.server, None), calls)
    assert (bodies(got), told) == (bodies(singly), "")
    assert sum(reply.cost_usd for reply in got.values()) == pytest.approx(
        sum(reply.cost_usd for reply in singly.values()) / 2
    )


def test_samples_of_a_call_may_come_in_several_files(rounds):
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
    rest, told = rounds.ask(left, rounds.replies)
    assert (len(rest), told) == (1, "")
    assert bodies({**got, **rest}) == bodies(collect(open_chat(rounds.server, None), calls))


def test_what_is_refused_is_written_otherwise_and_understood_again_when_it_is_read_twice(make_server, tmp_path, told):
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
    assert told[-1].startswith(f"{rounds.replies}: 2 replies to this build, 2 failed (refused")
    assert "another token_limit)" in told[-1]
    rounds.answer()
    assert rounds.ask(calls, rounds.replies, choices=True)[0] == {}
    assert [line["body"].get("n") for line in rounds.lines] == [None] * 4
    rounds.answer()
    got, _ = rounds.ask(calls, rounds.replies, choices=True)
    assert {len(reply.body["texts"]) for reply in got.values()} == {2}
    rounds.ask(ask_all(3, samples=2)[2:], choices=True)  # the next stage is asked so from the start
    assert [("max_completion_tokens" in line["body"], "n" in line["body"]) for line in rounds.lines] == [
        (True, False)
    ] * 2


def test_a_line_that_always_fails_is_given_up_and_asked_again_by_the_next_run(make_server, tmp_path):
    rounds = Rounds(tmp_path, make_server(lambda _: {"status": 500, "json": {"error": {"message": "oh"}}}))
    limits, calls = ServiceLimits(attempts=2), ask_all(1)
    rounds.ask(calls, limits=limits)
    rounds.answer()
    assert rounds.ask(calls, rounds.replies, limits=limits)[0] == {}
    rounds.answer()
    got, told = rounds.ask(calls, rounds.replies, limits=limits)
    (reply,) = got.values()
    assert (reply.status, reply.transient, reply.error.partition(":")[0], told) == ("failed", True, "http_500", "")


def test_several_models_have_a_file_each_and_one_of_replies(rounds):
    calls, files = ask_all(2), rounds.open()
    for name in ("org/author", "judge"):
        with pytest.raises(AwaitingReplyFile):
            collect(open_chat(rounds.server, None, files=files, name=name), calls[: 1 + (name == "judge")])
    assert "1 request to org/author in " in (told := files.finish_request_files()) and "2 requests to judge in " in told
    assert sorted(path.name for path in rounds.folder.glob("*.jsonl")) == ["a.judge.jsonl", "a.org-author.jsonl"]
    assert list(rounds.folder.glob("*.part")) == []


def test_requests_that_are_not_written_to_the_end_leave_no_file(rounds):
    files = rounds.open()
    with pytest.raises(AwaitingReplyFile):
        collect(open_chat(rounds.server, None, files=files), ask_all(2))
    files.close()
    assert list(rounds.folder.glob("a.*")) == []


def test_without_a_file_to_write_the_rest_is_asked_of_the_server(rounds):
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
def test_a_file_without_a_reply_to_this_build_is_refused(rounds, content, said):
    if content is not None:
        rounds.replies.write_text(content, "utf-8")
    with pytest.raises(SourceError, match=said):
        rounds.open(rounds.replies)


def test_a_folder_that_is_not_there_is_told_before_anything_is_asked(rounds):
    rounds.requests = rounds.folder / "none" / "a.jsonl"
    with pytest.raises(OutputError, match="there is no folder"):
        rounds.open()
