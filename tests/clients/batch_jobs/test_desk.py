"""A model that is asked by batch jobs: the same replies as singly, through restarts, losses and ends of all kinds."""

import json
import threading
from pathlib import Path

import pytest
from support.batches.server import BatchServer
from support.work.warehouses import empty_warehouse

from tasks import progress
from tasks.clients.chat import Chat
from tasks.clients.sending.sender import interrupt_sending
from tasks.core.calls.call import Reply
from tasks.core.calls.chat import call_chat
from tasks.core.calls.jobs import Jobs
from tasks.core.prompts import fill_in, read_prompt
from tasks.errors import ServiceError, ServiceUnreachable
from tasks.settings import Limits, Model
from tasks.storage.recording.recorder import Recorder

PROMPT = b"""+++
role = "author"
inputs = ["name"]
temperature = 0.7
max_tokens = 99
+++
# system
Answer.
# user
Who is $name?
"""


def answer(body: dict) -> dict:
    said = f"{body['messages'][-1]['content']} {body.get('seed', '')}"
    choices = [
        {"index": at, "finish_reason": "stop", "message": {"content": f"{said} {at}"}} for at in range(body.get("n", 1))
    ]
    return {"json": {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 20}}}


@pytest.fixture
def make_server(tmp_path):
    servers = []

    def make(answer=answer, **options) -> BatchServer:
        servers.append(BatchServer(tmp_path / f"server-{len(servers)}", answer, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def told(monkeypatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(progress, "say", lines.append)
    return lines


def open_chat(server: BatchServer, folder: Path | None, **changed) -> Chat:
    given = {
        "kind": "openai",
        "name": "m-1",
        "url": server.url,
        "mode": "batch",
        "usd_per_million_in": 2.0,
        "usd_per_million_out": 10.0,
        "key_env": "MY_KEY",
        "jobs": jobs(),
        "limits": Limits(parallel=4, timeout_s=5, attempts=4, backoff_s=0.01),
    }
    return Chat("here", Model.model_validate({**given, **changed}), lambda: "key", "tests", folder and folder / "jobs")


def jobs(**changed) -> Jobs:
    return Jobs.model_validate({"poll_s": 0.005, "first_singly": False, **changed})


def ask(name="Ada", samples=1, once=False):
    return call_chat("here", "m-1", fill_in(read_prompt("test/p", PROMPT), samples=samples, name=name), once=once)


def ask_all(count=60, samples=1):
    return [ask(f"person {number}", samples) for number in range(count)]


def collect(chat: Chat, calls) -> dict[str, Reply]:
    got: dict[str, Reply] = {}

    def deliver(call, reply):
        assert call.key not in got, "delivered twice"
        got[call.key] = reply

    chat.send(calls, deliver)
    return got


def bodies(replies) -> dict:
    return {key: (reply.status, reply.body) for key, reply in replies.items()}


def test_a_job_gives_what_single_calls_give_at_half_the_price(make_server, tmp_path, told):
    server, calls = make_server(), ask_all(20, samples=2)
    by_job = collect(open_chat(server, tmp_path), calls)
    singly = collect(open_chat(server, None), calls)
    assert bodies(by_job) == bodies(singly)
    costs = sum(reply.cost_usd for reply in singly.values())
    assert sum(reply.cost_usd for reply in by_job.values()) == pytest.approx(costs / 2) and costs > 0
    assert {reply.latency_s for reply in by_job.values()} == {60.0}
    (job,) = server.jobs
    sent = server.read_input(job)
    assert len(sent) == 40 and all(len(line["custom_id"]) <= 64 for line in sent)
    assert sent[0]["body"] == {
        "model": "m-1", "messages": [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who is person 0?"}],
        "temperature": 0.7, "max_tokens": 99, "stream": False, "seed": 0,
    }  # fmt: skip
    assert told[0] == "job batch_0001: 40 requests to m-1 handed in; done within 24h, as a rule"
    assert "job batch_0001: 10 of 40 done, in_progress" in told
    assert told[-1] == "job batch_0001: 40 of 40 done, completed"
    assert list((tmp_path / "jobs").iterdir()) == []


def test_nothing_is_lost_or_doubled_when_the_server_restarts_and_loses_lines(make_server, tmp_path, told):
    server = make_server(loses_every=50, fails_every=37, restarts_at=frozenset({1, 3, 5, 8, 12}))
    calls = ask_all(150)
    got = collect(open_chat(server, tmp_path), calls)
    singly = collect(open_chat(server, None), calls)
    assert bodies(got) == bodies(singly)
    assert server.restarts == 5 and server.lost >= 3 and server.failed >= 4
    assert set(server.answered.values()) == {1}, "nothing is paid for twice"
    assert any("7 requests left unanswered, which another job asks" in line for line in told)


def test_what_many_threads_ask_goes_into_the_same_jobs(make_server, tmp_path):
    server = make_server()
    chat, calls = open_chat(server, tmp_path, jobs=jobs(poll_s=0.2)), ask_all(40)
    got: dict[str, Reply] = {}
    threads = [
        threading.Thread(target=chat.send, args=(calls[at : at + 5], lambda call, reply: got.update({call.key: reply})))
        for at in range(0, 40, 5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 40
    sizes = [len(server.read_input(job)) for job in server.jobs]
    assert sum(sizes) == 40 and len(sizes) < 8, sizes


@pytest.mark.parametrize(("most", "sizes"), [({"requests": 8}, [8, 8, 4]), ({"megabytes": 0.0015}, [5, 5, 5, 5])])
def test_jobs_are_no_larger_than_the_world_says(make_server, tmp_path, most, sizes):
    server = make_server()
    assert len(collect(open_chat(server, tmp_path, jobs=jobs(**most)), ask_all(20))) == 20
    assert [len(server.read_input(job)) for job in server.jobs] == sizes


def test_what_a_server_will_not_take_is_learnt_from_lines_as_from_single_answers(make_server, tmp_path):
    def refuse(body):
        if "max_tokens" in body:
            told = {"message": "Unsupported parameter: 'max_tokens'", "param": "max_tokens"}
            return {"status": 400, "json": {"error": told}}
        return answer({**body, "n": 1})

    server = make_server(refuse)
    chat = open_chat(server, tmp_path, choices=True)
    got = collect(chat, ask_all(5, samples=2))
    assert {len(reply.body["texts"]) for reply in got.values()} == {2}
    assert [len(server.read_input(job)) for job in server.jobs] == [5, 5, 10]
    assert "choices = false" in chat.notes()[0] and 'token_limit = "max_completion_tokens"' in chat.notes()[0]


def test_the_first_request_goes_out_singly_and_spares_jobs_that_only_learn(make_server, tmp_path):
    def refuse(body):
        if "max_tokens" in body:
            return {"status": 400, "json": {"error": {"message": "no 'max_tokens'", "param": "max_tokens"}}}
        return answer({**body, "n": 1})

    server, calls = make_server(refuse), ask_all(5, samples=2)
    chat = open_chat(server, tmp_path, choices=True, jobs=jobs(first_singly=True))
    got = collect(chat, calls)
    assert {len(reply.body["texts"]) for reply in got.values()} == {2}
    assert [len(server.read_input(job)) for job in server.jobs] == [10]
    chat.send([ask("Bob")], lambda call, reply: got.update({call.key: reply}))
    assert len(server.jobs) == 2
    assert got[calls[1].key].cost_usd == pytest.approx(got[ask("Bob").key].cost_usd * 2)


def test_a_server_of_jobs_alone_gets_the_first_request_by_a_job_too(make_server, tmp_path, told):
    server = make_server()
    server.answers_singly = False
    assert len(collect(open_chat(server, tmp_path, jobs=jobs(first_singly=True)), ask_all(3))) == 3
    assert [len(server.read_input(job)) for job in server.jobs] == [3]
    assert told[0].startswith("note: the first request of all is left to a batch job too: ")


def test_a_line_that_is_refused_for_good_is_final_and_one_without_words_is_as_a_single_reply(make_server, tmp_path):
    def play(body):
        name = body["messages"][-1]["content"]
        if "person 1?" in name:
            return {"status": 400, "json": {"error": {"message": "the moon is full"}}}
        if "person 2?" in name:
            return {"json": {"choices": [{"message": {"content": ""}, "finish_reason": "length"}]}}
        return answer(body)

    server, calls = make_server(play), ask_all(4)
    got = collect(open_chat(server, tmp_path), calls)
    singly = collect(open_chat(server, None), calls)
    assert [(got[call.key].error, got[call.key].transient) for call in calls] == [
        (singly[call.key].error, singly[call.key].transient) for call in calls
    ]
    assert got[calls[1].key].error.startswith("http_400: ") and got[calls[2].key].error.startswith("cut_off: ")
    assert len(server.jobs) == 1


def test_lines_that_never_come_are_a_failure_that_may_pass(make_server, tmp_path):
    server = make_server(loses_every=1)
    got = collect(open_chat(server, tmp_path), [ask(once=True)])
    (reply,) = got.values()
    assert (reply.status, reply.transient) == ("failed", True)
    assert reply.error == "lost_line: the job has no line for this request"
    assert len(server.jobs) == 4, "as often as a single request is tried"


def test_an_expired_job_keeps_what_was_done_and_the_rest_is_asked_again(make_server, tmp_path, told):
    server = make_server()
    server.ends = {1: "expired"}
    assert {reply.status for reply in collect(open_chat(server, tmp_path), ask_all(10)).values()} == {"ok"}
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 5]
    assert set(server.answered.values()) == {1}
    assert "job batch_0001: 5 of 10 done, 5 failed, expired" in told


def test_a_cancelled_job_keeps_what_was_done_and_stops_the_run(make_server, tmp_path):
    server = make_server()
    server.ends = {1: "cancelled"}
    chat, got, calls = open_chat(server, tmp_path), {}, ask_all(10)
    with pytest.raises(ServiceUnreachable, match=r"job batch_0001 was cancelled; .* without an answer stay 5 requests"):
        chat.send(calls, lambda call, reply: got.update({call.key: reply}))
    assert len(got) == 5
    assert len(collect(open_chat(server, tmp_path), [call for call in calls if call.key not in got])) == 5
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 5]


def test_a_job_that_fails_as_a_whole_says_why(make_server, tmp_path):
    server = make_server()
    server.ends = {1: "failed model_mismatch"}
    with pytest.raises(ServiceUnreachable, match="nothing of it was done: model_mismatch: not today"):
        collect(open_chat(server, tmp_path), ask_all(3))
    assert list((tmp_path / "jobs").iterdir()) == []


def test_jobs_are_made_smaller_when_the_account_has_too_much_in_hand(make_server, tmp_path, told):
    server = make_server()
    server.ends = {1: "failed token_limit_exceeded"}
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 5, 5]
    assert any("Jobs have 5 requests at most from now on" in line for line in told)


def wait_for(condition) -> None:
    while not condition():
        threading.Event().wait(0.005)


def interrupt(chat: Chat, calls, condition) -> dict[str, Reply]:
    """Ask, break it off when a condition holds, and return what has come."""
    got: dict[str, Reply] = {}
    errors = []

    def send():
        try:
            chat.send(calls, lambda call, reply: got.update({call.key: reply}))
        except ServiceError as error:
            errors.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    wait_for(condition)
    interrupt_sending()
    thread.join()
    assert "sending was interrupted" in str(errors[0])
    return got


def test_a_build_that_is_stopped_goes_on_with_its_job(make_server, tmp_path, told):
    server, calls = make_server(), ask_all(10)
    server.ends = {1: "never"}
    assert interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in told)) == {}
    notes = [line for line in told if line.startswith("note: ")]
    assert notes == [
        "note: job batch_0001 goes on at the server, and is paid for; the same command goes on with it. To cancel it: "
        f'curl -X POST -H "Authorization: Bearer $MY_KEY" {server.url}/batches/batch_0001/cancel'
    ]
    server.ends.clear()
    assert len(collect(open_chat(server, tmp_path), calls[3:])) == 7
    assert "job batch_0001: going on with 10 requests that an earlier run handed in" in told
    assert len(collect(open_chat(server, tmp_path), calls[:3])) == 3, "asked later, of the same job"
    assert len(server.jobs) == 1
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_job_that_is_read_again_for_who_comes_late_asks_nothing_again(make_server, tmp_path, told):
    """What it has left unanswered is in another job by then."""
    server, calls = make_server(), ask_all(10)
    server.ends = {1: "never", 2: "never"}
    interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in told))
    del server.ends[1]
    lost = calls[0].key[:48].encode()
    server.spoil = lambda content: b"\n".join(line for line in content.split(b"\n") if lost not in line)
    chat, got = open_chat(server, tmp_path), {}
    early = threading.Thread(target=chat.send, args=(calls[:5], lambda call, reply: got.update({call.key: reply})))
    early.start()
    wait_for(lambda: len(server.jobs) == 2)
    assert len(collect(chat, calls[5:])) == 5
    server.spoil = lambda content: content
    server.ends.clear()
    early.join()
    assert len(got) == 5
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 1]
    assert {reply.status for reply in got.values()} == {"ok"}


@pytest.mark.parametrize("path", ["/files", "/batches"])
def test_what_the_server_did_but_did_not_tell_is_found_again(make_server, tmp_path, path):
    """The answer to an upload or to making a job is lost, and then the process dies."""
    server, calls = make_server(), ask_all(10)
    server.cuts[path] = 1
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert len(server.jobs) == 1


@pytest.mark.parametrize(("path", "lists", "made"), [("/files", True, 1), ("/batches", True, 1), ("/files", False, 1), ("/batches", False, 2)])  # fmt: skip
def test_a_process_that_died_while_it_handed_a_job_in_pays_once(make_server, tmp_path, path, lists, made, told):
    server, calls = make_server(), ask_all(10)
    server.lists = lists
    server.cuts[path] = 1_000
    handed_in = lambda: server.cuts[path] < 1_000  # noqa: E731
    chat = open_chat(server, tmp_path, jobs=jobs(poll_s=0.05))
    assert interrupt(chat, calls, handed_in) == {}
    server.cuts.clear()
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert len(server.jobs) == made
    assert any("lists no batches" in line for line in told) == (not lists)
    assert max(server.answered.values()) == 1


def test_a_server_that_is_not_there_stops_the_run_soon_and_one_without_jobs_is_told(make_server, tmp_path):
    server = make_server()
    with pytest.raises(ServiceUnreachable, match="gave no useful answer about a batch job to 4 requests"):
        collect(open_chat(server, tmp_path, url="http://127.0.0.1:9/v1"), [ask()])
    with pytest.raises(ServiceUnreachable, match="takes no files, so it has no batch jobs: leave out mode"):
        collect(open_chat(server, tmp_path / "b", url=f"{server.url}/elsewhere"), [ask()])
    assert len(collect(open_chat(server, tmp_path), [ask()])) == 1, "what never reached a server is asked anew"


def test_a_job_that_the_server_has_forgotten_stops_the_run(make_server, tmp_path, told):
    server = make_server()
    server.ends = {1: "never"}
    calls = ask_all(3)
    interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in told))
    for path in (tmp_path / "server-0").glob("batch_*"):
        path.unlink()
    with pytest.raises(ServiceUnreachable, match="knows no job batch_0001"):
        collect(open_chat(server, tmp_path), calls)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.replace(b"\n", b"\r\n").rstrip(),
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.decode().encode("utf-16"),
        lambda content: content + content,
        lambda content: content + b'{"custom_id": "nobody", "error": {"code": "x"}}\n{"cus',
    ],
)
def test_spoilt_files_lose_nothing(make_server, tmp_path, spoil):
    server = make_server()
    server.spoil = spoil
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert len(server.jobs) == 1


def test_what_is_half_a_file_is_read_again(make_server, tmp_path):
    server = make_server()
    first = [True]

    def halve(content):
        return content[: len(content) // 2] if first and first.pop() else content

    server.spoil = halve
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert len(server.jobs) == 1


def test_prices_of_their_own_are_taken_as_they_stand(make_server, tmp_path):
    got = collect(open_chat(make_server(), tmp_path, batch_price=1.0), [ask()])
    assert next(iter(got.values())).cost_usd == pytest.approx(100 * 2e-6 + 20 * 10e-6)


def test_files_of_jobs_that_are_damaged_or_old_are_no_trouble(make_server, tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "a.job").write_bytes(b"\x00\xff{")
    key = ask().key[:48]
    told = {"name": "old.jsonl", "begun": 1000.0, "learnt": {}, "ids": [key], "file": "file-1", "job": "batch_9"}
    (folder / "old.job").write_text(json.dumps(told) + "\n")
    server = make_server()
    assert len(collect(open_chat(server, tmp_path), [ask()])) == 1
    assert [job["id"] for job in server.jobs] == ["batch_0001"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("first_by_job", [True, False])
def test_what_was_recorded_in_one_way_serves_the_other(make_server, tmp_path, first_by_job):
    server, calls = make_server(), ask_all(6, samples=2)
    ways = [open_chat(server, tmp_path), open_chat(server, None)]
    recorder = Recorder(empty_warehouse(tmp_path / "w.duckdb"), "record")
    first, second = (recorder.answer(calls, way) for way in (ways if first_by_job else ways[::-1]))
    recorder.close()
    assert (first.sent, second.sent, second.replayed) == (6, 0, 6)
    assert first.records == second.records
