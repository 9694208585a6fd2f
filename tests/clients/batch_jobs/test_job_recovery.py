"""Test recovery of batch jobs: after a stopped or killed run, a server that lost state, and damaged job files."""

import re
import threading
import time

import pytest
from support.batches.asking import ask, ask_all, collect, interrupt, jobs, open_chat, wait_for
from support.steps.warehouses import empty_warehouse

from factmill.tasks.clients.batch_jobs.job_files import load_job_files
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.storage.recording.call_cache import CallCache


def test_stopped_build_resumes_its_job(make_server, tmp_path, messages):
    server, calls = make_server(), ask_all(10)
    server.ends = {1: "never"}
    assert interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in messages)) == {}
    notes = [line for line in messages if line.startswith("note: ")]
    assert notes == [
        "note: job batch_0001 continues at the server and costs money; the same command resumes it. To cancel it: "
        f"factmill jobs --cancel batch_0001 --warehouse {tmp_path}/w.duckdb"
    ]
    server.ends.clear()
    assert len(collect(open_chat(server, tmp_path), calls[3:])) == 7
    assert "job batch_0001: resuming 10 requests that an earlier run submitted" in messages
    assert len(collect(open_chat(server, tmp_path), calls[:3])) == 3, "asked later about the same job"
    assert len(server.jobs) == 1
    assert list((tmp_path / "jobs").iterdir()) == []


def test_rereading_job_for_late_caller_resends_no_request(make_server, tmp_path, messages):
    """By then another job holds the requests that this one left unanswered."""
    server, calls = make_server(), ask_all(10)
    server.ends = {1: "never", 2: "never"}
    interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in messages))
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
def test_job_whose_creation_response_was_lost_is_found_again(make_server, tmp_path, path):
    """The response to the upload or the job creation is lost, then the process dies."""
    server, calls = make_server(), ask_all(10)
    server.cuts[path] = 1
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert len(server.jobs) == 1


@pytest.mark.parametrize(("path", "lists", "made"), [("/files", True, 1), ("/batches", True, 1), ("/files", False, 1), ("/batches", False, 2)])  # fmt: skip
def test_process_killed_while_submitting_job_pays_once(make_server, tmp_path, path, lists, made, messages):
    server, calls = make_server(), ask_all(10)
    server.lists = lists
    server.cuts[path] = 1_000
    handed_in = lambda: server.cuts[path] < 1_000  # noqa: E731
    chat = open_chat(server, tmp_path, jobs=jobs(poll_s=0.05))
    assert interrupt(chat, calls, handed_in) == {}
    server.cuts.clear()
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert len(server.jobs) == made
    assert any("lists no batches" in line for line in messages) == (not lists)
    assert max(server.answered.values()) == 1


def test_unreachable_server_stops_run_and_missing_batch_support_is_reported(make_server, tmp_path):
    server = make_server()
    with pytest.raises(ServiceUnreachable, match="gave no useful response about a batch job to 4 requests"):
        collect(open_chat(server, tmp_path, url="http://127.0.0.1:9/v1"), [ask()])
    with pytest.raises(ServiceUnreachable, match="accepts no files, so it has no batch jobs; remove `mode`"):
        collect(open_chat(server, tmp_path / "b", url=f"{server.url}/elsewhere"), [ask()])
    assert len(collect(open_chat(server, tmp_path), [ask()])) == 1, (
        "a request that never reached a server is sent again"
    )


def leave_a_lost_job(server, folder, calls, messages) -> None:
    server.ends = {1: "never"}
    interrupt(open_chat(server, folder), calls, lambda: any("in_progress" in line for line in messages))
    server.forget()
    server.ends.clear()
    messages.clear()


def test_requests_of_job_lost_by_server_are_resent_in_another_and_reported_once(make_server, tmp_path, messages):
    server, calls = make_server(), ask_all(10)
    leave_a_lost_job(server, tmp_path, calls, messages)
    assert len(collect(open_chat(server, tmp_path), calls[2:])) == 8
    assert [line for line in messages if "another job" in line] == [
        "note: job batch_0001: 8 requests lost, since the server no longer knows the job; another job sends them again"
    ]
    assert [len(server.read_input(job)) for job in server.jobs] == [8]
    assert list((tmp_path / "jobs").iterdir()) == []


def test_uploaded_job_never_created_is_resubmitted_when_its_file_is_lost(make_server, tmp_path):
    server, calls = make_server(), ask_all(3)
    serve, asked = server.web.handle, []

    def make_none(seen):
        if seen.method == "POST" and seen.path.endswith("/batches"):
            asked.append(seen)
            return {"cut": True}
        return serve(seen)

    server.web.handle = make_none
    interrupt(open_chat(server, tmp_path), calls, lambda: asked)
    server.forget()
    server.web.handle = serve
    with pytest.raises(ServiceUnreachable, match="Invalid input_file_id"):
        collect(open_chat(server, tmp_path, "other"), calls)
    assert len(collect(open_chat(server, tmp_path), calls)) == 3
    assert len(server.jobs) == 1


@pytest.mark.parametrize(
    ("key", "noted", "lists", "doubt"),
    [
        (
            "other",
            True,
            True,
            r"it was submitted with another key, .* set that key \(MY_KEY\) and run the same command again",
        ),
        (
            "key",
            False,
            True,
            r"it was submitted by an earlier version .* set that key \(MY_KEY\)",
        ),
        ("key", True, False, "this server lists no jobs at all and may not be the one that accepted it"),
    ],
)
def test_job_that_may_still_be_running_stops_run(make_server, tmp_path, messages, key, noted, lists, doubt):
    """Sending the requests again would pay for them twice."""
    server, calls = make_server(), ask_all(3)
    leave_a_lost_job(server, tmp_path, calls, messages)
    (file,) = (tmp_path / "jobs").iterdir()
    if not noted:
        file.write_text(re.sub('"key_mark":"[^"]+"', '"key_mark":""', file.read_text("utf-8")), "utf-8")
    server.lists = lists
    with pytest.raises(ServiceUnreachable, match=f"knows no job batch_0001, but {doubt}") as stopped:
        collect(open_chat(server, tmp_path, key), calls)
    assert str(stopped.value).endswith(
        f"send, and pay for, its 3 requests again: factmill jobs --forget batch_0001 --warehouse {tmp_path}/w.duckdb"
    )
    assert server.jobs == [] and file.exists()
    assert not any("continues at the server" in line for line in messages)


def test_server_that_loses_every_job_gets_no_more_attempts_than_in_single_mode(make_server, tmp_path, messages):
    server = make_server()
    serve = server.web.handle

    def lose(seen):
        if "/batches/" in seen.path:
            server.forget()
        return serve(seen)

    server.web.handle = lose
    got = collect(open_chat(server, tmp_path), ask_all(3))
    assert {(reply.status, reply.transient) for reply in got.values()} == {("failed", True)}
    assert sum("submitted" in line for line in messages) == 4
    assert list((tmp_path / "jobs").iterdir()) == []


def test_truncated_result_file_is_read_again(make_server, tmp_path):
    server = make_server()
    first = [True]

    def halve(content):
        return content[: len(content) // 2] if first and first.pop() else content

    server.spoil = halve
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert len(server.jobs) == 1


def test_job_with_lost_results_is_reported_once_and_resent_in_another(make_server, tmp_path, messages):
    server = make_server()
    serve = server.web.handle

    def lose(seen):
        return {"status": 404, "text": "no such file"} if "output-batch_0001" in seen.path else serve(seen)

    server.web.handle = lose
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert [line for line in messages if line.startswith("note: ")] == [
        "note: job batch_0001: the server no longer has its file output-batch_0001",
        "note: job batch_0001: 10 requests without an answer; another job sends them again",
    ]
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 10]


def test_explicit_batch_price_is_used_unchanged(make_server, tmp_path):
    got = collect(open_chat(make_server(), tmp_path, batch_price=1.0), [ask()])
    assert next(iter(got.values())).cost_usd == pytest.approx(100 * 2e-6 + 20 * 10e-6)


@pytest.mark.parametrize("days", [-40, 40, 20_000])
def test_job_is_resumed_even_when_clock_has_changed(make_server, tmp_path, messages, monkeypatch, days):
    server, calls = make_server(), ask_all(5)
    server.ends = {1: "never"}
    interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in messages))
    server.ends.clear()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + days * 86_400)
    assert len(collect(open_chat(server, tmp_path), calls)) == 5
    assert len(server.jobs) == 1


def test_damaged_job_files_are_ignored(make_server, tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "a.job").write_bytes(b"\x00\xff{")
    server = make_server()
    assert len(collect(open_chat(server, tmp_path), [ask()])) == 1
    assert [job["id"] for job in server.jobs] == ["batch_0001"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("first_by_job", [True, False])
def test_responses_recorded_in_batch_mode_replay_in_single_mode_and_vice_versa(make_server, tmp_path, first_by_job):
    server, calls = make_server(), ask_all(6, samples=2)
    ways = [open_chat(server, tmp_path), open_chat(server, None)]
    recorder = CallCache(empty_warehouse(tmp_path / "w.duckdb"), "record")
    first, second = (recorder.get_or_send(calls, way) for way in (ways if first_by_job else ways[::-1]))
    recorder.close()
    assert (first.sent, second.sent, second.replayed) == (6, 0, 6)
    assert first.records == second.records


def test_cancel_command_quotes_job_id_from_server_for_shell(make_server, tmp_path, messages):
    queue = open_chat(make_server(), tmp_path)._batch_queue
    assert queue is not None
    queue._files.create("a.jsonl", ["x"], {}).append(job="batch/../1; reboot $(id)")
    queue._report_open_jobs()
    assert "factmill jobs --cancel 'batch/../1; reboot $(id)'" in messages[-1]


@pytest.mark.parametrize(("samples", "most", "known"), [(1, 4, {2: 4, 3: 4}), (2, 5, {1: 1, 2: 5, 3: 5, 4: 5, 5: 4})])
def test_job_with_recorded_responses_is_forgotten_when_another_job_stops_run(
    make_server, tmp_path, samples, most, known
):
    """If the samples of a call are in two jobs, nothing is recorded until all have arrived."""
    server, calls, got = make_server(), ask_all(12, samples), {}
    server.ends = {number: "never" for number in known if number > 1}
    serve = server.web.handle

    def refuse_then(seen):
        is_read = len(got) == most // samples
        is_read &= any(job.job_id == f"batch_{max(known):04}" for job in load_job_files(tmp_path / "jobs"))
        return {"status": 401, "text": "no"} if is_read and "batch_0002" in seen.path else serve(seen)

    server.web.handle = refuse_then
    chat = open_chat(server, tmp_path, jobs=jobs(requests=most))
    with pytest.raises(ServiceUnreachable, match="refuses the request with HTTP 401"):
        chat.send(calls, lambda call, reply: got.update({call.key: reply}))
    assert len(got) == most // samples
    assert {int(job.job_id[-4:]): len(job.open_ids) for job in load_job_files(tmp_path / "jobs")} == known
    server.web.handle, server.ends = serve, {}
    assert len(collect(open_chat(server, tmp_path), [call for call in calls if call.key not in got])) == 12 - len(got)
    assert list((tmp_path / "jobs").iterdir()) == []
    assert len(server.jobs) == len(known | {1: 0}) and max(server.answered.values()) == 1
