"""Test Message Batches: same responses as single requests, whatever is lost on the way, and no double payment."""

from datetime import UTC, datetime, timedelta

import pytest
from support.batches.asking import ask_all, bodies, collect, interrupt, jobs, place_of, wait_for
from support.messages.server import KEY, MessagesServer, error

from factmill.tasks.clients.batch_jobs.job_control import cancel_job, inspect_jobs
from factmill.tasks.clients.batch_jobs.job_files import load_job_files
from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import ServiceError, ServiceUnreachable


def answer(body):
    message = {"content": f"{body['messages'][-1]['content']}!"}
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    return {"json": {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}}


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    server = MessagesServer(tmp_path / "server", answer, accepts=frozenset({"temperature"}))
    yield server
    server.close()


def open_chat(server, folder, key=KEY, **changed) -> ChatClient:
    given = {
        "kind": "anthropic",
        "name": "m-1",
        "url": server.url,
        "mode": "batch",
        "key_env": "MY_KEY",
        "jobs": jobs(),
        "limits": ServiceLimits(parallel=4, timeout_s=5, attempts=4, backoff_s=0.01),
    }
    return ChatClient(
        "here", ModelSettings.model_validate({**given, **changed}), lambda: key, "tests", folder and place_of(folder)
    )


def test_message_batches_return_same_responses_as_single_requests(server, tmp_path) -> None:
    calls = ask_all(30, samples=2)
    by_batches = collect(open_chat(server, tmp_path, jobs=jobs(requests=25)), calls)
    assert [len(batch["requests"]) for batch in server.batches] == [25, 25, 10]
    singly = collect(open_chat(server, None, mode="single"), calls)
    assert bodies(by_batches) == bodies(singly)
    assert list((tmp_path / "jobs").iterdir()) == []


def test_expired_and_errored_requests_are_resent_in_another_batch(server, tmp_path, messages) -> None:
    server.ends = {1: "expired"}
    left = [error(529, "Overloaded"), error(500, "Internal server error")]
    server.errors = lambda _: left.pop() if left else None
    got = collect(open_chat(server, tmp_path), ask_all(10))
    assert {reply.status for reply in got.values()} == {"ok"}
    assert [len(batch["requests"]) for batch in server.batches] == [10, 7]
    assert max(server.answered.values()) == 1


def test_parameter_refused_in_batch_is_learned_and_requests_are_resent(server, tmp_path) -> None:
    server._accepts -= {"temperature"}
    chat = open_chat(server, tmp_path)
    got = collect(chat, ask_all(10))
    assert {reply.status for reply in got.values()} == {"ok"}
    assert chat.model.temperature == "none"
    assert len(server.batches) == 2


def test_stopped_run_resumes_its_batch(server, tmp_path, messages) -> None:
    calls = ask_all(10)
    server.ends = {1: "never"}
    assert interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in messages)) == {}
    server.ends.clear()
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert any(line.startswith("job msgbatch_0001: resuming 10 requests") for line in messages)
    assert len(server.batches) == 1


def test_batch_whose_creation_got_no_response_is_found_again(server, tmp_path) -> None:
    server.cut_creations = 1
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert len(server.batches) == 1


@pytest.mark.parametrize("has_ended", [True, False])
def test_process_killed_during_batch_creation_pays_once(server, tmp_path, messages, has_ended) -> None:
    """Other users' batches hold as many requests; one is in progress and one has ended."""
    calls = ask_all(10)
    server.cut_creations = 1
    server.ends = {1: "never"}
    chat = open_chat(server, tmp_path)
    assert interrupt(chat, calls, lambda: any("may be msgbatch_0001" in line for line in messages)) == {}
    server.ends.clear()
    if has_ended:
        server._save(server._step({**server.batches[0], "step": 2}))
    server.put_foreign(10, "ended", datetime.now(UTC))
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert len(server.batches) == 2
    assert max(server.answered.values()) == 1


@pytest.mark.parametrize(
    ("count", "created"), [(10, timedelta(days=-3)), (9, timedelta(0))], ids=["older", "of another size"]
)
def test_foreign_batch_that_cannot_be_ours_is_not_awaited(server, tmp_path, count, created) -> None:
    calls = ask_all(10)
    server.ends = {1: "never"}
    chat = open_chat(server, tmp_path)
    server.cut_creations = 1
    interrupt(chat, calls, lambda: len(server.batches) == 1)
    (tmp_path / "server" / "msgbatch_0001.json").unlink()
    server.ends.clear()
    server.put_foreign(count, "in_progress", datetime.now(UTC) + created)
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert len(server.batches) == 2


def test_batch_possibly_created_under_another_key_is_not_created_again(server, tmp_path) -> None:
    calls = ask_all(10)
    server.ends = {1: "never"}
    server.cut_creations = 1
    interrupt(open_chat(server, tmp_path), calls, lambda: len(server.batches) == 1)
    with pytest.raises(ServiceUnreachable, match="another key"):
        collect(open_chat(server, tmp_path, key=f"{KEY}-2"), calls)
    assert len(server.batches) == 1


def test_jobs_are_inspected_and_cancelled_from_their_files(server, tmp_path, messages) -> None:
    calls = ask_all(10)
    server.ends = {1: "never"}
    interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in messages))
    [job] = load_job_files(tmp_path / "jobs")
    [looked] = inspect_jobs([job], "tests")
    assert (looked.trouble, looked.state.status, looked.state.total) == ("", "in_progress", 10)
    assert cancel_job(job, "tests").status == "canceling"
    with pytest.raises(ServiceUnreachable, match="was cancelled"):
        collect(open_chat(server, tmp_path), calls)
    server.ends.clear()
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert len(server.batches) == 2


def test_batch_of_uncertain_ownership_is_not_cancelled(server, tmp_path) -> None:
    server.ends = {1: "never"}
    server.cut_creations = 1
    interrupt(open_chat(server, tmp_path), ask_all(10), lambda: len(server.batches) == 1)
    wait_for(lambda: len(load_job_files(tmp_path / "jobs")) == 1)
    [job] = load_job_files(tmp_path / "jobs")
    with pytest.raises(ServiceError, match="may be msgbatch_0001"):
        cancel_job(job, "tests")
    assert server.batches[0]["processing_status"] == "in_progress"


def test_batch_lost_by_server_is_resubmitted(server, tmp_path, messages) -> None:
    calls = ask_all(10)
    server.ends = {1: "never"}
    interrupt(open_chat(server, tmp_path), calls, lambda: any("in_progress" in line for line in messages))
    (tmp_path / "server" / "msgbatch_0001.json").unlink()
    server.ends.clear()
    assert len(collect(open_chat(server, tmp_path), calls)) == 10
    assert any(" lost" in line for line in messages)
