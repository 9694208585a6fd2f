"""Lines of a job that the server refuses without saying what: that is found by single requests, once."""

import pytest
from support.batches.asking import answer, ask_all, collect, jobs, open_chat

REFUSED = {"status": 400, "json": {"error": {"message": "Bad request."}}}


@pytest.mark.parametrize("first_singly", [True, False])
def test_a_job_whose_lines_are_refused_without_a_word_is_probed_singly(make_server, tmp_path, first_singly) -> None:
    def refuse(body):
        return REFUSED if "seed" in body else answer(body)

    server = make_server(refuse)
    chat = open_chat(server, tmp_path, jobs=jobs(first_singly=first_singly, few_singly=0))
    chat._has_sent_first = True  # as where an earlier run has left a job
    calls = ask_all(10, samples=2)
    got = collect(chat, calls)
    if not first_singly:
        assert {reply.status for reply in got.values()} == {"failed"}, "a server of jobs alone takes no single request"
        return
    assert {(reply.status, len(reply.body["texts"])) for reply in got.values()} == {("ok", 2)}
    assert [len(server.read_input(job)) for job in server.jobs] == [20, 19], "one is answered by the probe"
    assert "seed = false" in chat.notes()[0]


def test_a_line_that_is_refused_among_others_like_it_is_not_probed(make_server, tmp_path) -> None:
    def refuse(body):
        return REFUSED if "person 3?" in body["messages"][-1]["content"] else answer(body)

    server = make_server(refuse)
    chat = open_chat(server, tmp_path, jobs=jobs(first_singly=True))
    calls = ask_all(10)
    got = collect(chat, calls)
    assert [call for call in calls if got[call.key].status == "failed"] == [calls[3]]
    assert [len(server.read_input(job)) for job in server.jobs] == [9]
    assert chat.notes() == []
