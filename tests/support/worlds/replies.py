"""Reply to prompts that no embedded build sends, such as those of planted worlds and the tests' own sources.

`replying()` completes the scripted replies of this process with the plainest well-formed ones, or with a function's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from factmill.tasks.world import scripted_replies
from factmill.tasks.world.scripted_replies import ScriptedReply

Variables = Mapping[str, str]
Write = Callable[[str, Variables], str | None]
"""Prompt's id and variables → the reply; None without one."""
COMMAND = "from support.worlds.replies import replying\nfrom factmill.flows.cli.entry import main\nwith replying():\n    main()\n"
"""The command with the plainest replies to prompts that have none; `tests` must be on the path."""
find_written = scripted_replies.find_scripted_reply
"""The replies of the files alone."""


def find_text(prompt_id: str, variables: Variables) -> str | None:
    """Return the embedded world's reply, or else the plainest one."""
    written = find_written(prompt_id, variables)
    return written.text if written else write_plainly(prompt_id, variables)


@contextmanager
def replying(write: Write = find_text) -> Iterator[None]:
    """Answer prompts by a function in place of the files inside the block."""

    def find(prompt_id: str, variables: Variables) -> ScriptedReply | None:
        text, written = write(prompt_id, variables), find_written(prompt_id, variables)
        # keeps the file's other fields, which the call's key contains
        return None if text is None else replace(written, text=text) if written else ScriptedReply(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripted_replies, "find_scripted_reply", find)
        yield


def write_plainly(prompt_id: str, variables: Variables) -> str | None:
    """Return the plainest well-formed reply; None for prompts that need the article (SLAQ's)."""
    write = _PLAIN.get(prompt_id)
    return write(variables) if write else None


def _list_levels(variables: Variables) -> str:
    """Return the answer and the end of its description, which is the country of most places."""
    return f"1:: {variables['answer']}\n2:: {re.split(', | in | of ', variables['answer_description'])[-1]}"


def _annotate(variables: Variables) -> str:
    text = variables["paragraph"]
    for qid, name, parts in _read_knowledge(variables["knowledge"]):
        for label, value in parts:
            cited = f"{value} [qid: {qid}, name: {name}, {label}: {value}]"
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _, cited=cited: cited, text, count=1)
    return f"Paragraph: {text}"


def _extend(variables: Variables) -> str:
    ((_, name, parts),) = _read_knowledge(variables["piece"])
    values = " and ".join(value for _, value in parts)
    return f"Paragraph: {variables['paragraph']} The {parts[0][0]} of {name} was {values}."


def _ask_generally(variables: Variables) -> str:
    names = " and ".join(name for _, name, _ in _read_knowledge(variables["knowledge"]))
    return f"Question: What do we know about {names}?"


def _ask_specifically(variables: Variables) -> str:
    known = _read_knowledge(variables["knowledge"])
    labels = ", ".join(dict.fromkeys(label for _, _, parts in known for label, _ in parts))
    return f"Question: What is known about {' and '.join(name for _, name, _ in known)}, as to {labels}?"


def _select_paths(variables: Variables) -> str:
    return "\n".join(f"Path: {path}" for path in variables["paths"].splitlines()[: int(variables["number"])])


def _word_question(variables: Variables) -> str:
    names = variables["names"].replace(";", ",")
    listed = f"these {variables['group']}: {names}" if names else variables["group"]
    return f"Consider {listed}. Of {variables['choice']}, {variables['asked']}?"


_PLAIN: Mapping[str, Callable[[Variables], str]] = {
    "granola/granular_answers": _list_levels,
    "granola/description_consistency": lambda _: "Yes",
    "multihal/select_paths": _select_paths,
    "multihal/score_path": lambda _: "Score: 5",
    "biokalma/annotate": _annotate,
    "biokalma/extend": _extend,
    "biokalma/general_question": _ask_generally,
    "biokalma/specific_question": _ask_specifically,
    "slaq/check": lambda _: "\n".join(f"{number}: ok" for number in range(1, 6)),
    "slaq/fact_type": lambda _: "Type: none",
    "fanoutqa/word_question": _word_question,
    "fanoutqa/objective": lambda _: "It can be looked up.\nY\nY",
    "fanoutqa/wording": lambda _: "No change.",
}


def _read_knowledge(text: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return QID, name, and (label, value) of each line `{qid: Q1, name: Ada Lovelace, place of birth: London}`."""
    found = []
    for line in text.splitlines():
        qid, name, *parts = re.split(r", (?=[a-z][^,:{}]*: )", line.strip("{} "))
        pairs = [(label, value) for label, _, value in (part.partition(": ") for part in parts) if value]
        found.append((qid.removeprefix("qid: "), name.removeprefix("name: "), pairs))
    return found
