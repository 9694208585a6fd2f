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
from factmill.tasks.assets import ASSETS_ROOT, load_prompt
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.digests import digest_json, digest_text
from factmill.tasks.core.finish_reasons import classify_finish_reason
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.errors import EmbeddedWorldError

SCRIPTED_REPLIES_FOLDER = ASSETS_ROOT / "data" / "world" / "replies"
MAX_INLINE_VARIABLE_CHARACTERS = 300
"""Most characters of a variable stored as text; the file has the digest of a longer one."""
CONFIGURE_A_MODEL_ADVICE = (
    "scripted replies exist only for the embedded world's own sources; for others configure a model: add [models.author] and "
    "[models.judge] to a world's file (data/worlds/live.toml is an example) and build with --world FILE"
)
_DIGEST_SUFFIX, _BEGINS_SUFFIX = "_digest", "_begins"
_MAX_BEGINNING_CHARACTERS = 60
"""Most characters of NAME_begins."""
_REPLY_KEYS = ("fault", "finish", "reply")
PromptVariables = Mapping[str, str]
ScriptedReplyKey = tuple[tuple[str, str], ...]
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
class ScriptedRepliesToPrompt:
    """The file of scripted replies to one prompt."""

    written_by: str
    replies: Mapping[ScriptedReplyKey, ScriptedReply]

    @property
    def fault_count(self) -> int:
        """Number of replies with a planted fault."""
        return sum(bool(reply.fault) for reply in self.replies.values())


def make_scripted_reply_key(variables: PromptVariables) -> ScriptedReplyKey:
    """Return the key for a prompt's variables."""
    short = {name: text for name, text in variables.items() if len(text) <= MAX_INLINE_VARIABLE_CHARACTERS}
    long = {f"{name}{_DIGEST_SUFFIX}": digest_text(text)[:16] for name, text in variables.items() if name not in short}
    return tuple(sorted({**short, **long}.items()))


def list_scripted_prompts() -> list[str]:
    """Return the sorted ids of the prompts with a file of replies."""
    return sorted(
        path.relative_to(SCRIPTED_REPLIES_FOLDER).with_suffix("").as_posix()
        for path in SCRIPTED_REPLIES_FOLDER.rglob("*.yaml")
    )


def get_scripted_replies_path(prompt_id: str) -> Path:
    """Return the path of a prompt's file of replies."""
    return SCRIPTED_REPLIES_FOLDER / f"{prompt_id}.yaml"


def load_scripted_replies(prompt_id: str) -> ScriptedRepliesToPrompt:
    """Load the replies to a prompt, none if there is no file; EmbeddedWorldError if the file is invalid."""
    return _load_scripted_replies_file(get_scripted_replies_path(prompt_id), prompt_id)


@cache
def _load_scripted_replies_file(path: Path, prompt_id: str) -> ScriptedRepliesToPrompt:
    if not path.is_file():
        return ScriptedRepliesToPrompt("", {})
    content = parse_yaml_text(path.read_text("utf-8"), str(path))
    if (
        not isinstance(content, dict)
        or content.keys() != {"written_by", "replies"}
        or not isinstance(content["replies"], list)
    ):
        raise EmbeddedWorldError(f"{path}: expected `written_by: …` and `replies:` with a list, and no other key")
    return ScriptedRepliesToPrompt(
        str(content["written_by"]), parse_scripted_replies(content["replies"], prompt_id, str(path))
    )


def parse_yaml_text(text: str, where: str) -> Any:
    """Parse YAML text; EmbeddedWorldError names the invalid position."""
    try:
        return yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise EmbeddedWorldError(f"{where}: not YAML: {error}") from error


def parse_scripted_replies(entries: Sequence[Any], prompt_id: str, where: str) -> dict[ScriptedReplyKey, ScriptedReply]:
    """Parse a prompt's entries into key → reply; EmbeddedWorldError names the first invalid entry."""
    inputs = load_prompt(prompt_id).inputs
    replies: dict[ScriptedReplyKey, ScriptedReply] = {}
    for number, entry in enumerate(entries, start=1):
        key, reply = _parse_scripted_reply(entry, inputs, f"{where}: reply {number}")
        if key in replies:
            raise EmbeddedWorldError(
                f"{where}: reply {number}: an earlier reply has the same variables; keep one of them: {format_scripted_reply_key(key)}"
            )
        replies[key] = reply
    return replies


def _parse_scripted_reply(entry: Any, inputs: Sequence[str], where: str) -> tuple[ScriptedReplyKey, ScriptedReply]:
    if not isinstance(entry, dict) or "reply" not in entry:
        raise EmbeddedWorldError(f"{where}: expected the variables {', '.join(inputs)}, and `reply`")
    if entry["reply"] is None:
        raise EmbeddedWorldError(f"{where}: `reply` is empty; write the reply, or remove the entry")
    if wrong := [name for name, value in entry.items() if not isinstance(value, str)]:
        raise EmbeddedWorldError(
            f"{where}: YAML reads {wrong[0]} as {entry[wrong[0]]!r}, which is not a text; write the text in quotes"
        )
    begins = {name: value for name, value in entry.items() if name.endswith(_BEGINS_SUFFIX)}
    variables = {name: value for name, value in entry.items() if name not in _REPLY_KEYS and name not in begins}
    given = sorted(name.removesuffix(_DIGEST_SUFFIX) for name in variables)
    if given != sorted(inputs):
        raise EmbeddedWorldError(f"{where}: has the variables {', '.join(given)}; expected {', '.join(sorted(inputs))}")
    finish = entry.get("finish", "stop")
    if classify_finish_reason(finish) not in ("done", "cut", "filtered"):
        raise EmbeddedWorldError(f"{where}: finish is {finish!r}; expected stop, length or refusal")
    long = {name: text for name, text in variables.items() if len(text) > MAX_INLINE_VARIABLE_CHARACTERS}
    begins |= {
        f"{name}{_BEGINS_SUFFIX}": " ".join(text.split())[:_MAX_BEGINNING_CHARACTERS] for name, text in long.items()
    }
    return make_scripted_reply_key(variables), ScriptedReply(
        entry["reply"], finish, entry.get("fault", ""), tuple(sorted(begins.items()))
    )


def format_scripted_replies_file(prompt_id: str, file: ScriptedRepliesToPrompt) -> str:
    """Format a file: entries sorted by their variables in the prompt's order, digests last."""
    inputs = load_prompt(prompt_id).inputs
    names = [f"{name}{ending}" for name in inputs for ending in ("", _DIGEST_SUFFIX, _BEGINS_SUFFIX)]

    def place(key: ScriptedReplyKey) -> list[tuple[bool, int, str]]:
        return sorted((name.endswith(_DIGEST_SUFFIX), names.index(name), text) for name, text in key)

    entries = []
    for key in sorted(file.replies, key=place):
        reply = file.replies[key]
        finish = "" if reply.finish == "stop" else reply.finish
        own = {name: text for name, text in (("fault", reply.fault), ("finish", finish)) if text}
        fields = {**dict(key), **dict(reply.begins), **own, "reply": reply.text}
        entries.append({name: fields[name] for name in (*names, *_REPLY_KEYS) if name in fields})
    return (
        f"# Replies to prompts/{prompt_id}.md in the embedded world, written beforehand; no model is asked at run time.\n"
        f"{format_readable_yaml({'written_by': file.written_by})}replies:\n{''.join(format_readable_yaml([each]) for each in entries)}"
    )


def write_scripted_replies(prompt_id: str, file: ScriptedRepliesToPrompt) -> None:
    """Write the replies to a prompt to their file."""
    path = get_scripted_replies_path(prompt_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(format_scripted_replies_file(prompt_id, file), "utf-8")
    clear_scripted_reply_caches()


def clear_scripted_reply_caches() -> None:
    """Clear the caches, so that the files are loaded again."""
    _load_scripted_replies_file.cache_clear()
    digest_scripted_replies.cache_clear()


class _BlockTextDumper(yaml.SafeDumper):
    """YAML dumper that writes multi-line texts as blocks and None as nothing."""


_BlockTextDumper.add_representer(
    str,
    lambda writer, text: writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
_BlockTextDumper.add_representer(type(None), lambda writer, _: writer.represent_scalar("tag:yaml.org,2002:null", ""))


def format_readable_yaml(value: Any) -> str:
    """Format a value as YAML for reading and editing by hand."""
    return yaml.dump(value, Dumper=_BlockTextDumper, sort_keys=False, allow_unicode=True, width=sys.maxsize)


def format_scripted_reply_key(key: ScriptedReplyKey) -> str:
    """Format a key in one line."""
    return ", ".join(f"{name} {text!r}" for name, text in key)


def find_scripted_reply(prompt_id: str, variables: PromptVariables) -> ScriptedReply | None:
    """Return the reply to a prompt with these variables; None if there is none."""
    return load_scripted_replies(prompt_id).replies.get(make_scripted_reply_key(variables))


def digest_reply_scripted_for_prompt(prompt_id: str, variables: PromptVariables) -> str:
    """Return the digest, part of a call's key, of the reply to a prompt with these variables; empty: no reply."""
    reply = find_scripted_reply(prompt_id, variables)
    return "" if reply is None else digest_json([reply.text, reply.finish, reply.fault])[:16]


@cache
def digest_scripted_replies(prompt_id: str) -> str:
    """Return the digest of all replies to a prompt."""
    replies = load_scripted_replies(prompt_id).replies
    return digest_json(sorted([*key, reply.text, reply.finish, reply.fault] for key, reply in replies.items()))


def digest_reply_key_set(keys: Iterable[ScriptedReplyKey]) -> str:
    """Return the digest of keys, in any order."""
    return digest_json(sorted(keys))


class ScriptedChatService:
    """Service that answers chat calls from files."""

    is_outside = True

    def __init__(self) -> None:
        """Start without any reported prompts."""
        self.identity = SCRIPTED_MODEL_NAME
        self._reported_prompts: set[str] = set()

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer every call; a missing reply is a failure, and their number is reported before any delivery."""
        found: list[ScriptedReply | None] = []
        for call in calls:
            variables: Any = call.parts["variables"] if call.operation == "chat" else {}
            texts = {str(name): str(value) for name, value in variables.items()}
            found.append(find_scripted_reply(str(call.parts["prompt"]), texts) if call.operation == "chat" else None)
        self._report_missing(calls, found)
        for call, reply in zip(calls, found, strict=True):
            if reply is None:
                asked = call.parts.get("prompt") or f"the operation {call.operation}"
                error = f"no_scripted_reply: none is written for {asked} with these variables; name a model in the world's file"
                deliver(call, CallResponse(None, "failed", error))
                continue
            samples: Any = call.parts.get("samples", 1)
            body: dict[str, Any] = {
                "texts": [reply.text] * samples,
                "finish": [reply.finish] * samples,
                "fingerprint": f"written by {load_scripted_replies(str(call.parts['prompt'])).written_by}",
            }
            deliver(call, CallResponse({**body, "fault": reply.fault} if reply.fault else body))

    def _report_missing(self, calls: Sequence[Call], found: Sequence[ScriptedReply | None]) -> None:
        """Report the number of missing replies per prompt, once for each prompt."""
        prompts = [str(call.parts.get("prompt")) for call in calls]
        missing = Counter(prompt for prompt, reply in zip(prompts, found, strict=True) if reply is None)
        for prompt in sorted(missing.keys() - self._reported_prompts):
            self._reported_prompts.add(prompt)
            count = prompts.count(prompt)
            progress.print_and_log(
                f"note: no scripted reply to {missing[prompt]:,} of {count:,} {'request' if count == 1 else 'requests'} with the prompt "
                f"{prompt}, so their rows will be rejected (no_scripted_reply); {CONFIGURE_A_MODEL_ADVICE}"
            )
