"""Scripted replies: replies written in advance, stored in files and used in place of a chat model's.

`data/world/replies/<prompt id>.yaml` holds the replies to one prompt:

    written_by: who wrote them, and for what
    replies:
    - question: Where was Ada Lovelace born?   # all variables of the prompt
      answer: London
      reply: |-
        1:: London
        2:: England
    - question: …
      article_digest: 7a73d97f38574468         # start of the SHA-256 of a variable longer than 300 characters
      article_begins: The uncanny valley is    # for readers
      fault: too coarse                        # only for a fault planted on purpose
      finish: length                           # only for a truncated or refused reply
      reply: …

A reply is found by the prompt's id and variables, so a reworded prompt keeps its replies. Entries are sorted by their
variables. A missing entry gives a failed reply with the error `no_scripted_reply`.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from factmill.tasks import progress
from factmill.tasks.assets import ROOT, load_prompt
from factmill.tasks.core.calls.call import Call, Deliver, Reply
from factmill.tasks.core.fingerprints import digest_json, digest_text
from factmill.tasks.core.finish_reasons import classify_finish
from factmill.tasks.core.service_settings import SCRIPTED
from factmill.tasks.errors import WorldError

REPLIES_FOLDER = ROOT / "data" / "world" / "replies"
LONGEST_VARIABLE = 300
"""Most characters of a variable stored as text; the file has the digest of a longer one."""
NAME_A_MODEL = (
    "scripted replies are written for the embedded world's own sources alone; for others name a model: give [models.author] "
    "and [models.judge] in a world's file (data/worlds/live.toml shows how) and build with --world FILE"
)
_DIGEST, _BEGINS = "_digest", "_begins"
_MOST_BEGUN = 60
"""Most characters of NAME_begins."""
_OWN_KEYS = ("fault", "finish", "reply")
Variables = Mapping[str, str]
Key = tuple[tuple[str, str], ...]
"""(name, text) of all variables, sorted by name; a long text is its digest, named `NAME_digest`."""


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One scripted reply."""

    text: str
    finish: str = "stop"
    fault: str = ""
    """Planted fault, in plain words; empty: none."""
    begins: tuple[tuple[str, str], ...] = ()
    """(NAME_begins, first characters) of the variables stored as digests."""


@dataclass(frozen=True, slots=True)
class RepliesFile:
    """The file of scripted replies to one prompt."""

    written_by: str
    replies: Mapping[Key, ScriptedReply]

    @property
    def faults(self) -> int:
        """Number of replies with a planted fault."""
        return sum(bool(reply.fault) for reply in self.replies.values())


def make_key(variables: Variables) -> Key:
    """Return the key for a prompt's variables."""
    short = {name: text for name, text in variables.items() if len(text) <= LONGEST_VARIABLE}
    long = {f"{name}{_DIGEST}": digest_text(text)[:16] for name, text in variables.items() if name not in short}
    return tuple(sorted({**short, **long}.items()))


def list_prompts() -> list[str]:
    """Return the sorted ids of the prompts with a file of replies."""
    return sorted(
        path.relative_to(REPLIES_FOLDER).with_suffix("").as_posix() for path in REPLIES_FOLDER.rglob("*.yaml")
    )


def replies_path(prompt_id: str) -> Path:
    """Return the path of a prompt's file of replies."""
    return REPLIES_FOLDER / f"{prompt_id}.yaml"


def load_replies(prompt_id: str) -> RepliesFile:
    """Load the replies to a prompt, none if there is no file; WorldError if the file is invalid."""
    return _load_file(replies_path(prompt_id), prompt_id)


@cache
def _load_file(path: Path, prompt_id: str) -> RepliesFile:
    if not path.is_file():
        return RepliesFile("", {})
    told = load_yaml(path.read_text("utf-8"), str(path))
    if not isinstance(told, dict) or told.keys() != {"written_by", "replies"} or not isinstance(told["replies"], list):
        raise WorldError(f"{path}: expected `written_by: …` and `replies:` with a list, nothing else")
    return RepliesFile(str(told["written_by"]), read_entries(told["replies"], prompt_id, str(path)))


def load_yaml(text: str, where: str) -> Any:
    """Parse YAML text; WorldError names the invalid position."""
    try:
        return yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise WorldError(f"{where}: not YAML: {error}") from error


def read_entries(entries: Sequence[Any], prompt_id: str, where: str) -> dict[Key, ScriptedReply]:
    """Parse a prompt's entries into key → reply; WorldError names the first invalid entry."""
    inputs = load_prompt(prompt_id).inputs
    replies: dict[Key, ScriptedReply] = {}
    for number, entry in enumerate(entries, start=1):
        key, reply = _read_entry(entry, inputs, f"{where}: reply {number}")
        if key in replies:
            raise WorldError(
                f"{where}: reply {number}: another one has the same variables; keep one of them: {describe_key(key)}"
            )
        replies[key] = reply
    return replies


def _read_entry(entry: Any, inputs: Sequence[str], where: str) -> tuple[Key, ScriptedReply]:
    if not isinstance(entry, dict) or "reply" not in entry:
        raise WorldError(f"{where}: expected the variables {', '.join(inputs)}, and `reply`")
    if entry["reply"] is None:
        raise WorldError(f"{where}: `reply` is empty; write the reply, or take the entry out")
    if wrong := [name for name, value in entry.items() if not isinstance(value, str)]:
        raise WorldError(
            f"{where}: YAML reads {wrong[0]} as {entry[wrong[0]]!r}, which is no text; write the text in quotes"
        )
    begins = {name: value for name, value in entry.items() if name.endswith(_BEGINS)}
    variables = {name: value for name, value in entry.items() if name not in _OWN_KEYS and name not in begins}
    given = sorted(name.removesuffix(_DIGEST) for name in variables)
    if given != sorted(inputs):
        raise WorldError(f"{where}: has the variables {', '.join(given)}; expected {', '.join(sorted(inputs))}")
    finish = entry.get("finish", "stop")
    if classify_finish(finish) not in ("done", "cut", "filtered"):
        raise WorldError(f"{where}: finish is {finish!r}; expected stop, length or refusal")
    long = {name: text for name, text in variables.items() if len(text) > LONGEST_VARIABLE}
    begins |= {f"{name}{_BEGINS}": " ".join(text.split())[:_MOST_BEGUN] for name, text in long.items()}
    return make_key(variables), ScriptedReply(
        entry["reply"], finish, entry.get("fault", ""), tuple(sorted(begins.items()))
    )


def format_file(prompt_id: str, file: RepliesFile) -> str:
    """Format a file: entries sorted by their variables in the prompt's order, digests last."""
    inputs = load_prompt(prompt_id).inputs
    names = [f"{name}{ending}" for name in inputs for ending in ("", _DIGEST, _BEGINS)]

    def place(key: Key) -> list[tuple[bool, int, str]]:
        return sorted((name.endswith(_DIGEST), names.index(name), text) for name, text in key)

    entries = []
    for key in sorted(file.replies, key=place):
        reply = file.replies[key]
        finish = "" if reply.finish == "stop" else reply.finish
        own = {name: text for name, text in (("fault", reply.fault), ("finish", finish)) if text}
        told = {**dict(key), **dict(reply.begins), **own, "reply": reply.text}
        entries.append({name: told[name] for name in (*names, *_OWN_KEYS) if name in told})
    return (
        f"# Replies to prompts/{prompt_id}.md in the embedded world, written beforehand; no model is asked at run time.\n"
        f"{format_yaml({'written_by': file.written_by})}replies:\n{''.join(format_yaml([each]) for each in entries)}"
    )


def save_replies(prompt_id: str, file: RepliesFile) -> None:
    """Write the replies to a prompt to their file."""
    path = replies_path(prompt_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(format_file(prompt_id, file), "utf-8")
    forget_replies()


def forget_replies() -> None:
    """Clear the caches, so that the files are loaded again."""
    _load_file.cache_clear()
    digest_replies.cache_clear()


class _Writer(yaml.SafeDumper):
    """YAML dumper that writes multi-line texts as blocks and None as nothing."""


_Writer.add_representer(
    str,
    lambda writer, text: writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
_Writer.add_representer(type(None), lambda writer, _: writer.represent_scalar("tag:yaml.org,2002:null", ""))


def format_yaml(told: Any) -> str:
    """Format a value as YAML for reading and editing by hand."""
    return yaml.dump(told, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=sys.maxsize)


def describe_key(key: Key) -> str:
    """Format a key in one line."""
    return ", ".join(f"{name} {text!r}" for name, text in key)


def find_reply(prompt_id: str, variables: Variables) -> ScriptedReply | None:
    """Return the reply to a prompt with these variables; None if there is none."""
    return load_replies(prompt_id).replies.get(make_key(variables))


def digest_reply(prompt_id: str, variables: Variables) -> str:
    """Return the digest, part of a call's key, of the reply to a prompt with these variables; empty: no reply."""
    reply = find_reply(prompt_id, variables)
    return "" if reply is None else digest_json([reply.text, reply.finish, reply.fault])[:16]


@cache
def digest_replies(prompt_id: str) -> str:
    """Return the digest of all replies to a prompt."""
    replies = load_replies(prompt_id).replies
    return digest_json(sorted([*key, reply.text, reply.finish, reply.fault] for key, reply in replies.items()))


def digest_keys(keys: Iterable[Key]) -> str:
    """Return the digest of keys, in any order."""
    return digest_json(sorted(keys))


class ScriptedReplies:
    """Service that answers chat calls from files."""

    is_outside = True

    def __init__(self) -> None:
        """Start without any reported prompts."""
        self.identity = SCRIPTED
        self._told: set[str] = set()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer every call; a missing reply is a failure, and their number is reported before any delivery."""
        found: list[ScriptedReply | None] = []
        for call in calls:
            variables: Any = call.parts["variables"] if call.operation == "chat" else {}
            texts = {str(name): str(value) for name, value in variables.items()}
            found.append(find_reply(str(call.parts["prompt"]), texts) if call.operation == "chat" else None)
        self._tell_missing(calls, found)
        for call, reply in zip(calls, found, strict=True):
            if reply is None:
                asked = call.parts.get("prompt") or f"the operation {call.operation}"
                error = f"no_scripted_reply: none is written for {asked} with these variables; name a model in the world's file"
                deliver(call, Reply(None, "failed", error))
                continue
            samples: Any = call.parts.get("samples", 1)
            body: dict[str, Any] = {
                "texts": [reply.text] * samples,
                "finish": [reply.finish] * samples,
                "fingerprint": f"written by {load_replies(str(call.parts['prompt'])).written_by}",
            }
            deliver(call, Reply({**body, "fault": reply.fault} if reply.fault else body))

    def _tell_missing(self, calls: Sequence[Call], found: Sequence[ScriptedReply | None]) -> None:
        """Report the number of missing replies per prompt, once for each prompt."""
        prompts = [str(call.parts.get("prompt")) for call in calls]
        missing = Counter(prompt for prompt, reply in zip(prompts, found, strict=True) if reply is None)
        for prompt in sorted(missing.keys() - self._told):
            self._told.add(prompt)
            progress.say(
                f"note: {missing[prompt]:,} of {prompts.count(prompt):,} prompts {prompt} asked just now have no scripted "
                f"reply, and their rows will be rejected (no_scripted_reply); {NAME_A_MODEL}"
            )
