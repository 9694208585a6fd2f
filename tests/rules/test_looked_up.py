"""What the rules author looks up for a prompt is what its replies are said to rest on (core/calls/freshness/contents.py)."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tasks.core.calls.call import Call
from tasks.core.calls.freshness.contents import READ_THE_GRAPH, list_contents
from tasks.core.calls.knowledge import Candidate, Description, Neighbour, Qid
from tasks.rules.author import _RULES, RulesAuthor

KNOWLEDGE = (
    "{qid: Q11, name: Ada Lovelace, place of birth: London}\n{qid: Q12, name: Charles Babbage, occupation: inventor}"
)
VARIABLES = {
    "question": "Where was Ada Lovelace born?",
    "answer": "London",
    "answer_description": "capital of the United Kingdom",
    "paragraph": "Ada Lovelace was born in London. Charles Babbage was an inventor.",
    "knowledge": KNOWLEDGE,
    "piece": KNOWLEDGE.splitlines()[0],
}


class Watched:
    """A graph that knows one thing of everything, and notes what it is asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.items: set[str] = set()

    def find(self, names: Iterable[str]) -> dict[str, list[Candidate]]:
        self.names |= {*(asked := list(names))}
        return {name: [Candidate(Qid("Q84"), "label")] for name in asked}

    def describe(self, qids: Iterable[str]) -> dict[Qid, Description]:
        self.items |= {*(asked := list(qids))}
        return {Qid(qid): Description("x", "capital of the United Kingdom", None, None) for qid in asked}

    def neighbours(self, qids: Iterable[str], pids: Sequence[str]) -> dict[Qid, list[Neighbour]]:
        self.items |= {*qids}
        return {}


@pytest.mark.parametrize(("prompt", "rule"), _RULES.items(), ids=list(_RULES))
def test_what_is_said_to_rest_on_the_prompt_alone_takes_no_graph(prompt: str, rule: Callable[..., Any]) -> None:
    (_, graph) = inspect.signature(rule).parameters
    assert graph == ("knowledge" if prompt in READ_THE_GRAPH else "_knowledge")


@pytest.mark.parametrize("prompt", sorted(READ_THE_GRAPH))
def test_nothing_is_looked_up_but_what_a_reply_is_said_to_rest_on(prompt: str) -> None:
    watched = Watched()
    call = Call("r", "chat", {"prompt": prompt, "variables": VARIABLES})
    RulesAuthor("r", watched).send([call], lambda _call, _reply: None)
    things: Any = list_contents("chat", call.parts, {})
    assert watched.items
    assert {f"about en {name}" for name in watched.names} <= {*things}
    of_names = {"Q84"} if watched.names else set()
    assert {f"item {qid}" for qid in watched.items - of_names} <= {*things}
