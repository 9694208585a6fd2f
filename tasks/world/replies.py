"""Scripted replies: what stands where a chat model's replies would, written one by one and kept in files.

`data/world/replies/<prompt id>.yaml` holds the replies to one prompt:

    written_by: who wrote them, and for what
    replies:
    - question: Where was Ada Lovelace born?   # the variables of the prompt, all of them
      answer: London
      reply: |-
        1:: London
        2:: England
    - question: …
      article_digest: 7a73d97f38574468         # of a variable of more than 300 characters (digest_variable)
      article_begins: The uncanny valley is    # for readers
      fault: too coarse                        # only where a fault is planted on purpose
      finish: length                           # only where a reply is cut off or refused
      reply: …

A reply is found by the prompt's id and its variables, so a prompt that is worded otherwise keeps its replies. Entries are
sorted by their variables. What is not there is a failed reply `no_scripted_reply`.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tasks import progress
from tasks.assets import ROOT, load_prompt
from tasks.core.calls.call import Call, Deliver, Reply
from tasks.core.fingerprints import digest_json, digest_text
from tasks.core.finish_reasons import classify_finish
from tasks.core.service_settings import SCRIPTED
from tasks.errors import WorldError

REPLIES_FOLDER = ROOT / "data" / "world" / "replies"
LONGEST_VARIABLE = 300
"""Characters of a variable that stands as it is; of a longer one the file has the digest."""
NAME_A_MODEL = (
    "scripted replies are written for the embedded world's own sources alone; for others name a model: give [models.author] "
    "and [models.judge] in a world's file (data/worlds/live.toml shows how) and build with --world FILE"
)
_DIGEST, _BEGINS = "_digest", "_begins"
_OWN_KEYS = ("fault", "finish", "reply")
Variables = Mapping[str, str]
Key = tuple[tuple[str, str], ...]
"""(name, text) of all variables, sorted by name; a long text's digest under `NAME_digest`."""


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply."""

    text: str
    finish: str = "stop"
    fault: str = ""
    """Which fault is planted, in plain words; empty: none."""


@dataclass(frozen=True, slots=True)
class RepliesFile:
    """The replies to one prompt."""

    written_by: str
    replies: Mapping[Key, ScriptedReply]

    @property
    def faults(self) -> int:
        """How many of the replies have a fault that was planted."""
        return sum(bool(reply.fault) for reply in self.replies.values())


def make_key(variables: Variables) -> Key:
    """Return the key of a prompt's variables."""
    return tuple(sorted(_name_value(name, text) for name, text in variables.items()))


def digest_variable(text: str) -> str:
    """Return the digest that stands for a long variable."""
    return digest_text(text)[:16]


def _name_value(name: str, text: str) -> tuple[str, str]:
    return (name, text) if len(text) <= LONGEST_VARIABLE else (f"{name}{_DIGEST}", digest_variable(text))


def load_replies(prompt_id: str) -> RepliesFile:
    """Return the replies to a prompt, none where there is no file; WorldError says what is wrong with one."""
    return _load_file(REPLIES_FOLDER / f"{prompt_id}.yaml", prompt_id)


@cache
def _load_file(path: Path, prompt_id: str) -> RepliesFile:
    if not path.is_file():
        return RepliesFile("", {})
    return read_replies(path.read_text("utf-8"), load_prompt(prompt_id).inputs, path)


def read_replies(text: str, inputs: Sequence[str], path: Path) -> RepliesFile:
    """Read a file of replies to a prompt with these inputs; WorldError names the first entry that breaks the rules."""
    try:
        told = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise WorldError(f"{path}: not YAML: {error}") from error
    if not isinstance(told, dict) or told.keys() != {"written_by", "replies"} or not isinstance(told["replies"], list):
        raise WorldError(f"{path}: expected `written_by: …` and `replies:` with a list, nothing else")
    replies: dict[Key, ScriptedReply] = {}
    for number, entry in enumerate(told["replies"], start=1):
        key, reply = _read_entry(entry, inputs, f"{path}, reply {number}")
        if key in replies:
            raise WorldError(f"{path}, reply {number}: another reply has the same variables: {describe_key(key)}")
        replies[key] = reply
    return RepliesFile(str(told["written_by"]), replies)


def _read_entry(entry: Any, inputs: Sequence[str], where: str) -> tuple[Key, ScriptedReply]:
    if not isinstance(entry, dict) or "reply" not in entry:
        raise WorldError(f"{where}: expected the variables {', '.join(inputs)}, and `reply`")
    if wrong := [name for name, value in entry.items() if not isinstance(value, str)]:
        raise WorldError(
            f"{where}: {wrong[0]} is {entry[wrong[0]]!r}, which YAML reads as no text; write text, in quotes if need be"
        )
    variables = {name: value for name, value in entry.items() if name not in _OWN_KEYS and not name.endswith(_BEGINS)}
    given = sorted(name.removesuffix(_DIGEST) for name in variables)
    if given != sorted(inputs):
        raise WorldError(f"{where}: has the variables {given}; the prompt's are {sorted(inputs)}")
    if long := [name for name, value in variables.items() if len(value) > LONGEST_VARIABLE]:
        raise WorldError(
            f"{where}: {long[0]} has more than {LONGEST_VARIABLE} characters; write {long[0]}{_DIGEST} instead"
        )
    finish = entry.get("finish", "stop")
    if classify_finish(finish) not in ("done", "cut", "filtered"):
        raise WorldError(f"{where}: finish is {finish!r}; expected stop, length or refusal")
    return tuple(sorted(variables.items())), ScriptedReply(entry["reply"], finish, entry.get("fault", ""))


def format_replies(
    prompt_id: str, inputs: Sequence[str], written_by: str, entries: Mapping[Key, Mapping[str, str]]
) -> str:
    """Return the text of a file: entries sorted by their variables in the prompt's order, digests behind all others.

    `entries`: key → what stands beside the variables: NAME_begins, fault, finish, reply.
    """
    lines = [
        f"# Replies to prompts/{prompt_id}.md in the embedded world, written one by one; no model was asked at run time.",
        _dump({"written_by": written_by}) + "replies:",
    ]
    names = [f"{name}{ending}" for name in inputs for ending in ("", _DIGEST, _BEGINS)]

    def place(key: Key) -> list[tuple[bool, int, str]]:
        return sorted((name.endswith(_DIGEST), names.index(name), text) for name, text in key)

    for key in sorted(entries, key=place):
        told = {**dict(key), **entries[key]}
        lines.append(_dump([{name: told[name] for name in (*names, *_OWN_KEYS) if name in told}]).rstrip("\n"))
    return "\n".join(lines) + "\n"


class _Writer(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


_Writer.add_representer(
    str,
    lambda writer, text: writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _dump(told: Any) -> str:
    return yaml.dump(told, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=sys.maxsize)


def describe_key(key: Key) -> str:
    """Return a key in one line."""
    return ", ".join(f"{name} {value!r}" for name, value in key)


def find_reply(prompt_id: str, variables: Variables) -> ScriptedReply | None:
    """Return the reply to a prompt with these variables; None where none is written."""
    return load_replies(prompt_id).replies.get(make_key(variables))


def digest_reply(prompt_id: str, variables: Variables) -> str:
    """Return the digest of what is written for a prompt with these variables, which a call's key holds; empty: nothing is."""
    reply = find_reply(prompt_id, variables)
    return "" if reply is None else digest_json([reply.text, reply.finish, reply.fault])[:16]


@cache
def digest_replies(prompt_id: str) -> str:
    """Return the digest of all replies to a prompt."""
    replies = load_replies(prompt_id).replies
    return digest_json([[key, reply.text, reply.finish, reply.fault] for key, reply in replies.items()])


class ScriptedReplies:
    """Answers chat calls from files."""

    is_outside = True

    def __init__(self) -> None:
        """Know of no prompt yet whose replies are missing."""
        self.identity = SCRIPTED
        self._told: set[str] = set()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer every call; a missing reply is a failed one, and how many are missing is told before any is delivered."""
        found = [_find(call) for call in calls]
        self._tell_missing(calls, found)
        for call, reply in zip(calls, found, strict=True):
            if reply is None:
                asked = call.parts.get("prompt") or f"the operation {call.operation}"
                error = f"no_scripted_reply: none is written for {asked} with these variables; {NAME_A_MODEL}"
                deliver(call, Reply(None, "failed", error))
                continue
            samples: Any = call.parts.get("samples", 1)
            body: dict[str, Any] = {
                "texts": [reply.text] * samples,
                "finish": [reply.finish] * samples,
                "fingerprint": SCRIPTED,
            }
            deliver(call, Reply({**body, "fault": reply.fault} if reply.fault else body))

    def _tell_missing(self, calls: Sequence[Call], found: Sequence[ScriptedReply | None]) -> None:
        """Say of each prompt, the first time that replies to it are missing, how many are."""
        prompts = [str(call.parts.get("prompt")) for call in calls]
        missing = Counter(prompt for prompt, reply in zip(prompts, found, strict=True) if reply is None)
        for prompt in sorted(missing.keys() - self._told):
            self._told.add(prompt)
            progress.say(
                f"note: {missing[prompt]:,} of {prompts.count(prompt):,} prompts {prompt} asked just now have no scripted "
                f"reply, and their rows will be rejected (no_scripted_reply); {NAME_A_MODEL}"
            )


def _find(call: Call) -> ScriptedReply | None:
    if call.operation != "chat":
        return None
    variables: Any = call.parts["variables"]
    return find_reply(str(call.parts["prompt"]), {str(name): str(value) for name, value in variables.items()})
