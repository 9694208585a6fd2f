"""Test chat through batch jobs: same responses as single requests, through restarts, lost lines and every job end."""

import threading

import pytest
from support.batches.asking import answer, ask, ask_all, bodies, collect, jobs, open_chat

from factmill.tasks.clients.batch_jobs.job_files import load_job_files
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import AccountBlocked, ServiceUnreachable


def test_batch_job_returns_same_results_as_single_requests_at_half_price(make_server, tmp_path, messages):
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
    assert messages[0].startswith("job batch_0001: ") and all(
        fact in messages[0] for fact in ("40 requests", "m-1", "24h")
    )
    assert "job batch_0001: 10 of 40 done, in_progress" in messages
    assert messages[-1] == "job batch_0001: 40 of 40 done, completed"
    assert list((tmp_path / "jobs").iterdir()) == []


def test_no_request_is_lost_or_repeated_when_server_restarts_and_loses_lines(make_server, tmp_path, messages):
    server = make_server(loses_every=50, fails_every=37, restarts_at=frozenset({1, 3, 5, 8, 12}))
    calls = ask_all(150)
    got = collect(open_chat(server, tmp_path), calls)
    singly = collect(open_chat(server, None), calls)
    assert bodies(got) == bodies(singly)
    assert server.restarts == 5 and server.lost >= 3 and server.failed >= 4
    assert set(server.answered.values()) == {1}, "no request is paid for twice"
    assert any("7 requests without an answer; another job sends them again" in line for line in messages)


def test_oversized_result_file_stops_run_and_keeps_job(make_server, tmp_path, messages):
    server, calls = make_server(), ask_all(20)
    limits = ServiceLimits(parallel=4, timeout_s=5, attempts=4, backoff_s=0.01, max_bytes={"files": 500})
    with pytest.raises(
        ServiceUnreachable, match=r"a reply to files is longer than 500 bytes.*max_bytes = \{ files = 1000 \}"
    ):
        collect(open_chat(server, tmp_path, limits=limits), calls)
    assert sum("/content" in seen.path for seen in server.web.seen) == 1
    assert len(load_job_files(tmp_path / "jobs")) == 1
    assert len(collect(open_chat(server, tmp_path), calls)) == 20
    assert len(server.jobs) == 1, "the stored job is read"


def test_requests_from_many_threads_share_batch_jobs(make_server, tmp_path):
    server = make_server()
    chat, calls = open_chat(server, tmp_path, jobs=jobs(poll_s=0.2)), ask_all(40)
    got: dict[str, CallResponse] = {}
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
def test_batch_jobs_respect_size_limit_of_world_file(make_server, tmp_path, most, sizes):
    server = make_server()
    assert len(collect(open_chat(server, tmp_path, jobs=jobs(**most)), ask_all(20))) == 20
    assert [len(server.read_input(job)) for job in server.jobs] == sizes


def test_unsupported_parameters_are_learned_from_batch_lines(make_server, tmp_path):
    def refuse(body):
        if "max_tokens" in body:
            result = {"message": "Unsupported parameter: 'max_tokens'", "param": "max_tokens"}
            return {"status": 400, "json": {"error": result}}
        return answer({**body, "n": 1})

    server = make_server(refuse)
    chat = open_chat(server, tmp_path, choices=True)
    got = collect(chat, ask_all(5, samples=2))
    assert {len(reply.body["texts"]) for reply in got.values()} == {2}
    assert [len(server.read_input(job)) for job in server.jobs] == [5, 5, 10]
    assert "choices = false" in chat.notes()[0] and 'token_limit = "max_completion_tokens"' in chat.notes()[0]


def test_first_request_is_sent_singly_so_no_job_is_spent_learning_parameters(make_server, tmp_path):
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


def test_batch_only_server_gets_first_request_in_batch_job(make_server, tmp_path, messages):
    server = make_server()
    server.answers_singly = False
    assert len(collect(open_chat(server, tmp_path, jobs=jobs(first_singly=True)), ask_all(3))) == 3
    assert [len(server.read_input(job)) for job in server.jobs] == [3]
    assert messages[0].startswith("note: ") and "first request" in messages[0] and "HTTP" in messages[0]


def test_unreachable_server_is_reported_at_once_without_waiting(make_server, tmp_path, messages):
    chat = open_chat(make_server(), tmp_path, url="http://127.0.0.1:9/v1", jobs=jobs(first_singly=True))
    with pytest.raises(ServiceUnreachable, match=r"cannot be reached: .*factmill doctor"):
        collect(chat, ask_all(3))
    with pytest.raises(ServiceUnreachable, match="cannot be reached"):
        collect(chat, ask_all(1))  # another batch of the same stage
    assert messages == []


def test_lines_refused_for_lack_of_credit_stop_run_after_others_are_stored(make_server, tmp_path):
    is_paid = threading.Event()

    def play(body):
        name = body["messages"][-1]["content"]
        if "person 3?" in name:
            return {"status": 400, "json": {"error": {"message": "no", "code": "content_filter"}}}
        if int(name.split()[-1].rstrip("?")) >= 12 and not is_paid.is_set():
            return {"status": 429, "json": {"error": {"message": "no", "code": "insufficient_quota"}}}
        return answer(body)

    server, calls = make_server(play), ask_all(20)
    got = {}
    with pytest.raises(AccountBlocked, match="insufficient_quota"):
        open_chat(server, tmp_path).send(calls, lambda call, reply: got.update({call.key: reply}))
    assert {call.key for call in calls[:12]} == {*got}
    assert [call.parts["variables"]["name"] for call in calls if call.key in got and got[call.key].status != "ok"] == [
        "person 3"
    ]
    assert not got[calls[3].key].transient
    is_paid.set()
    left = collect(open_chat(server, tmp_path), calls[12:])
    assert {reply.status for reply in left.values()} == {"ok"}
    assert [len(server.read_input(job)) for job in server.jobs] == [20, 8]


def test_refused_first_request_is_not_repeated_in_batch_job(make_server, tmp_path):
    def play(body):
        if "person 0?" in body["messages"][-1]["content"]:
            return {"status": 400, "json": {"error": {"message": "the moon is full"}}}
        return answer(body)

    server, calls = make_server(play), ask_all(4)
    got = collect(open_chat(server, tmp_path, jobs=jobs(first_singly=True)), calls)
    assert (got[calls[0].key].status, got[calls[0].key].transient) == ("failed", True)
    assert [len(server.read_input(job)) for job in server.jobs] == [3]


def test_refused_line_and_empty_completion_fail_as_in_single_mode(make_server, tmp_path):
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


def test_lines_missing_from_results_fail_as_transient(make_server, tmp_path):
    server = make_server(loses_every=1)
    got = collect(open_chat(server, tmp_path), [ask(once=True)])
    (reply,) = got.values()
    assert (reply.status, reply.transient) == ("failed", True)
    assert reply.error == "lost_line: the job has no line for this request"
    assert len(server.jobs) == 4, "as many attempts as for a single request"


def test_expired_job_keeps_finished_results_and_resends_rest(make_server, tmp_path, messages):
    server = make_server()
    server.ends = {1: "expired"}
    assert {reply.status for reply in collect(open_chat(server, tmp_path), ask_all(10)).values()} == {"ok"}
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 5]
    assert set(server.answered.values()) == {1}
    assert "job batch_0001: 5 of 10 done, 5 failed, expired" in messages


def test_cancelled_job_keeps_finished_results_and_stops_run(make_server, tmp_path):
    server = make_server()
    server.ends = {1: "cancelled"}
    chat, got, calls = open_chat(server, tmp_path), {}, ask_all(10)
    with pytest.raises(ServiceUnreachable, match=r"job batch_0001 was cancelled.* 5 requests"):
        chat.send(calls, lambda call, reply: got.update({call.key: reply}))
    assert len(got) == 5
    assert len(collect(open_chat(server, tmp_path), [call for call in calls if call.key not in got])) == 5
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 5]


def test_failed_job_reports_reason(make_server, tmp_path):
    server = make_server()
    server.ends = {1: "failed model_mismatch"}
    with pytest.raises(ServiceUnreachable, match=r"batch_0001 failed.*: model_mismatch: not today"):
        collect(open_chat(server, tmp_path), ask_all(3))
    assert list((tmp_path / "jobs").iterdir()) == []


def test_jobs_shrink_when_account_exceeds_its_enqueued_limit(make_server, tmp_path, messages):
    server = make_server()
    server.ends = {1: "failed token_limit_exceeded"}
    assert len(collect(open_chat(server, tmp_path), ask_all(10))) == 10
    assert [len(server.read_input(job)) for job in server.jobs] == [10, 5, 5]
    assert any("token_limit_exceeded" in line and " 5 requests" in line for line in messages)


@pytest.mark.parametrize(("few", "sizes"), [(20, [59]), (2, [59, 5]), (0, [59, 5])])
def test_few_requests_left_unanswered_by_job_are_sent_singly(make_server, tmp_path, few, sizes):
    """A job may take a day however few requests it has."""
    server = make_server(loses_every=11)
    got = collect(open_chat(server, tmp_path, jobs=jobs(first_singly=True, few_singly=few)), ask_all(60))
    assert len(got) == 60
    assert [len(server.read_input(job)) for job in server.jobs] == sizes
    assert max(server.answered.values()) == 1
    singly = [reply.cost_usd for reply in got.values() if reply.cost_usd == pytest.approx(0.0004)]
    assert len(singly) == (1 if len(sizes) > 1 else 6), "at the full price"
    assert list((tmp_path / "jobs").iterdir()) == []


def test_requests_unanswered_singly_are_sent_in_another_job(make_server, tmp_path):
    server = make_server(loses_every=11)
    server.answers_singly = False
    got = collect(open_chat(server, tmp_path, jobs=jobs(first_singly=True)), ask_all(60))
    assert {reply.status for reply in got.values()} == {"ok"}
    assert [len(server.read_input(job)) for job in server.jobs] == [60, 5]


def test_few_single_requests_refused_for_lack_of_credit_are_not_sent_in_job(make_server, tmp_path):
    jobs_done = []

    def play(body):
        if jobs_done:
            return {"status": 402, "json": {"error": {"message": "no credit"}}}
        if "person 3?" in body["messages"][-1]["content"]:
            jobs_done.append(1)
            return {"json": {"error": {"code": 502, "message": "Provider returned error"}}}
        return answer(body)

    server = make_server(lambda body: answer(body) if "person 0?" in str(body) else play(body))
    chat = open_chat(server, tmp_path, jobs=jobs(first_singly=True, few_singly=2))
    with pytest.raises(AccountBlocked, match="no credit"):
        collect(chat, [ask("person 0"), ask("person 3")])
    assert len(server.jobs) == 1


@pytest.mark.parametrize(
    ("limit", "others_leave_at", "requests", "sizes"),
    [
        (10, 99, 40, "40x 20x 10 15x 10 10 10"),
        (7, 99, 40, "40x 20x 10x 5 7 7 7 14x 7 7"),
        (4, 99, 40, "40x 20x 10x 5x 2 4 4 4 8x 4 6x 4 4 4 4 4 2"),
        (10, 9, 200, "200x 100x 50x 25x 12x 6 9 9 9 18 36 72 41"),
    ],
)
def test_jobs_grow_back_to_enqueued_limit_of_account(make_server, tmp_path, limit, others_leave_at, requests, sizes):
    server = make_server()
    server.most_in_hand = lambda: limit if len(server.jobs) < others_leave_at else 1_000
    assert len(collect(open_chat(server, tmp_path), ask_all(requests))) == requests
    assert list_sizes(server) == sizes


def test_job_refused_while_others_are_pending_waits_for_them_and_keeps_its_size(make_server, tmp_path):
    server = make_server()
    server.most_in_hand = lambda: 70
    assert len(collect(open_chat(server, tmp_path, jobs=jobs(requests=20)), ask_all(100))) == 100
    assert [size for size in list_sizes(server).split() if not size.endswith("x")] == ["20"] * 5


def test_run_waits_for_full_account_and_stops_when_it_stays_full(make_server, tmp_path):
    server = make_server()
    server.most_in_hand = lambda: 0
    with pytest.raises(ServiceUnreachable, match=r"failed.*: token_limit_exceeded"):
        collect(open_chat(server, tmp_path), ask_all(8))
    assert list_sizes(server) == "8x 4x 2x 1x 1x 1x 1x"
    assert list((tmp_path / "jobs").iterdir()) == []
    server.most_in_hand = lambda: 8
    assert len(collect(open_chat(server, tmp_path), ask_all(8))) == 8


def list_sizes(server) -> str:
    """Return the number of requests in each job, and mark refused jobs with an x."""
    return " ".join(f"{len(server.read_input(job))}{'x' * (job['status'] == 'failed')}" for job in server.jobs)


@pytest.mark.parametrize("status", ["uploaded", "pending", "running"])
def test_job_is_created_once_its_file_is_processed(make_server, tmp_path, status):
    server = make_server()
    server.file_states = lambda looks: status if looks < 9 else "processed"
    assert len(collect(open_chat(server, tmp_path), ask_all(3))) == 3
    assert len(server.jobs) == 1
    paths = [(seen.method, seen.path.removeprefix("/v1/")) for seen in server.web.seen]
    # A file that stays `uploaded` may never change, so the queue creates the job after four polls.
    looks, asked = (4, 6) if status == "uploaded" else (9, 1)
    assert (paths.count(("GET", "files/file-0000")), paths.count(("POST", "batches"))) == (looks, asked)


@pytest.mark.parametrize(
    ("status", "expected", "times"),
    [
        (400, "The file file-0 is not yet processed.", 8),
        (409, "Input file file-0 is still being validated", 8),
        (404, "No such File object: file-0", 3),
        (400, "The input file cannot be found", 3),
    ],
)
def test_job_refused_because_its_file_is_not_ready_is_retried(make_server, tmp_path, status, expected, times):
    server, refused = make_server(), []
    serve = server.web.handle

    def refuse(seen):
        if seen.method == "POST" and seen.path.endswith("/batches") and len(refused) < times:
            refused.append(seen)
            return {"status": status, "json": {"error": {"message": expected}}}
        return serve(seen)

    server.web.handle = refuse
    assert len(collect(open_chat(server, tmp_path), ask_all(3))) == 3
    assert (len(refused), len(server.jobs)) == (times, 1)


def test_unprocessable_file_stops_run_and_is_uploaded_again_by_next_run(make_server, tmp_path):
    server = make_server()
    server.file_states = lambda looks: "error" if looks else "uploaded"
    with pytest.raises(ServiceUnreachable, match="cannot process the file file-0000 of a batch job"):
        collect(open_chat(server, tmp_path), ask_all(3))
    assert list((tmp_path / "jobs").iterdir()) == []
    server.file_states = lambda _: "processed"
    assert len(collect(open_chat(server, tmp_path), ask_all(3))) == 3
    assert len(server.jobs) == 1


def test_job_with_all_responses_recorded_is_not_listed_when_next_job_fails(make_server, tmp_path):
    server, got = make_server(loses_every=4), {}
    server.ends = {2: "failed model_mismatch"}
    with pytest.raises(ServiceUnreachable, match="model_mismatch"):
        open_chat(server, tmp_path).send(ask_all(12), lambda call, reply: got.update({call.key: reply}))
    assert len(got) == 9
    assert load_job_files(tmp_path / "jobs") == []


REFUSED = {"status": 400, "json": {"error": {"message": "Bad request."}}}


@pytest.mark.parametrize("first_singly", [True, False])
def test_job_with_unexplained_refusals_is_probed_with_single_requests(make_server, tmp_path, first_singly) -> None:
    def refuse(body):
        return REFUSED if "seed" in body else answer(body)

    server = make_server(refuse)
    chat = open_chat(server, tmp_path, jobs=jobs(first_singly=first_singly, few_singly=0))
    chat._has_sent_first = True  # as if an earlier run had left a job
    calls = ask_all(10, samples=2)
    got = collect(chat, calls)
    if not first_singly:
        assert {reply.status for reply in got.values()} == {"failed"}, (
            "a server with only batch jobs takes no single request"
        )
        return
    assert {(reply.status, len(reply.body["texts"])) for reply in got.values()} == {("ok", 2)}
    assert [len(server.read_input(job)) for job in server.jobs] == [20, 19], "one is answered by the probe"
    assert "seed = false" in chat.notes()[0]


def test_refused_line_among_similar_accepted_lines_is_not_probed(make_server, tmp_path) -> None:
    def refuse(body):
        return REFUSED if "person 3?" in body["messages"][-1]["content"] else answer(body)

    server = make_server(refuse)
    chat = open_chat(server, tmp_path, jobs=jobs(first_singly=True))
    calls = ask_all(10)
    got = collect(chat, calls)
    assert [call for call in calls if got[call.key].status == "failed"] == [calls[3]]
    assert [len(server.read_input(job)) for job in server.jobs] == [9]
    assert chat.notes() == []
