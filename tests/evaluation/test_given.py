"""What a recorded reply comes to is the same whenever it is read."""

from tasks.core.calls.call import Reply
from tasks.evaluation.answering import read_reply


def test_tokens_and_seconds_are_those_that_were_recorded() -> None:
    body = {"texts": ["254 km"], "finish": ["stop"], "fingerprint": ""}
    given = read_reply(Reply(body, tokens_in=30, tokens_out=4, latency_s=1.25), "key")
    assert (given.texts, given.tokens_in, given.tokens_out, given.seconds) == (("254 km",), 30, 4, 1.25)
