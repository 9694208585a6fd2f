"""Prompt files: how they are read, filled in and turned into a call.

A prompt is one Markdown file with a TOML head between `+++` lines (role, inputs, sampling, reply format) and a body of
`# system`, `# user` and `# assistant` parts. Only `$name` is substituted, only declared inputs, and text that comes
from outside is kept from closing the fence it stands in, so that a label cannot speak as an instruction.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from factmill.tasks.core.fingerprints import Json, digest_bytes
from factmill.tasks.errors import PromptError

_PART = re.compile(r"^# (system|user|assistant)[ \t]*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(\w+)")
_TURNS = re.compile(r"(system )?(user assistant )*user ")

MOST_SHOWN = 12_000
"""So many characters of a rejected reply the model is shown; the longest reply that any prompt asks for has fewer."""
_LEFT_OUT = "\n[…]\n"
_MOST_KEPT = 300
"""So many characters of a turn are kept with a recorded call; the rest is what models and look-ups said before."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file, read."""

    id: str
    """Path below prompts/ without the ending, e.g. `granola/granular_answers`."""
    digest: str
    """SHA-256 of the file's bytes."""
    role: str
    """Which model of the world answers: author, judge or answerer."""
    inputs: tuple[str, ...]
    """Names that must be given, all of them used in the body."""
    parts: tuple[tuple[str, str], ...]
    """(speaker, text with $names) in order; demonstrations are user/assistant pairs."""
    temperature: float
    max_tokens: int
    schema: Mapping[str, Any] | None
    """JSON schema of the reply where the format is JSON; None for a line format."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt filled in for one row: what a chat model is asked, or scripted replies are looked up by."""

    prompt: Prompt
    variables: Mapping[str, str]
    samples: int = 1
    """How many replies are drawn for the same messages."""
    rejected: str = ""
    """The model's own reply to the first attempt, at most MOST_SHOWN characters; empty on that."""
    correction: str = ""
    """What was wrong with that reply, said to the model on the second attempt."""
    turns: tuple[Mapping[str, Any], ...] = ()
    """What was said since, as messages of the chat protocol: the model's own, calls of tools, what these gave."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Functions that the model may call, as the chat protocol defines them."""

    def correct(self, rejected: str, correction: str) -> "Ask":
        """Return the second attempt: the model sees its reply, without the middle of a very long one, and what was wrong."""
        half = (MOST_SHOWN - len(_LEFT_OUT)) // 2
        shown = rejected if len(rejected) <= MOST_SHOWN else f"{rejected[:half]}{_LEFT_OUT}{rejected[-half:]}"
        return replace(self, rejected=shown, correction=correction)

    def messages(self) -> list[dict[str, Any]]:
        """Return the chat messages, role and content each: user and assistant in turns, a user's or a tool's last."""
        safe = {name: value.replace("</", "< /") for name, value in self.variables.items()}
        filled: list[dict[str, Any]] = [{"role": who, "content": _fill(text, safe)} for who, text in self.prompt.parts]
        if self.correction:
            filled.append({"role": "assistant", "content": self.rejected})
            filled.append({"role": "user", "content": self.correction})
        return filled + [dict(turn) for turn in self.turns]

    def parts(self) -> dict[str, Json]:
        """Return what a recorded call keeps of this ask, by name; replies to first attempts of old are so served on."""
        more: dict[str, Json] = {"rejected": self.rejected} if self.correction else {}
        more |= {"turns": [_shorten_turn(turn) for turn in self.turns]} if self.turns else {}
        more |= {"tools": [dict(tool) for tool in self.tools]} if self.tools else {}
        return {
            "prompt": self.prompt.id,
            "prompt_digest": self.prompt.digest,
            "variables": dict(self.variables),
            "samples": self.samples,
            "correction": self.correction,
            "temperature": self.prompt.temperature,
            "max_tokens": self.prompt.max_tokens,
            **more,
        }


def read_prompt(prompt_id: str, data: bytes) -> Prompt:
    """Parse a prompt file; PromptError when its head or body is wrong, or an input is unused or undeclared."""
    match = re.fullmatch(r"\+\+\+\n(.*?)\n\+\+\+\n(.*)", data.decode("utf-8"), re.DOTALL)
    if not match:
        raise PromptError(f"prompts/{prompt_id}.md: expected a TOML head between two +++ lines")
    try:
        head = tomllib.loads(match[1])
    except tomllib.TOMLDecodeError as error:
        raise PromptError(f"prompts/{prompt_id}.md: head is not TOML: {error}") from error
    pieces = _PART.split(match[2])
    parts = tuple((who, text.strip()) for who, text in zip(pieces[1::2], pieces[2::2], strict=True))
    inputs = tuple(head.get("inputs", ()))
    used = {name for _, text in parts for name in _PLACEHOLDER.findall(text)}
    if not parts or used != set(inputs):
        raise PromptError(
            f"prompts/{prompt_id}.md: declared inputs {sorted(inputs)} but the body uses {sorted(used)}; they must agree"
        )
    if not _TURNS.fullmatch("".join(f"{who} " for who, _ in parts)):
        raise PromptError(
            f"prompts/{prompt_id}.md: parts are {', '.join(who for who, _ in parts)}; expected user and assistant in "
            "turns, a user's last, with a system part before them or none, since some servers insist on that"
        )
    return Prompt(
        id=prompt_id,
        digest=digest_bytes(data),
        role=head["role"],
        inputs=inputs,
        parts=parts,
        temperature=float(head.get("temperature", 0.0)),
        max_tokens=int(head.get("max_tokens", 512)),
        schema=head.get("schema"),
    )


def fill_in(prompt: Prompt, samples: int = 1, **variables: str) -> Ask:
    """Return the prompt filled in; PromptError unless exactly the declared inputs are given."""
    if set(variables) != set(prompt.inputs):
        raise PromptError(f"prompt {prompt.id} needs {sorted(prompt.inputs)}, was given {sorted(variables)}")
    return Ask(prompt, variables, samples)


def _fill(text: str, safe: Mapping[str, str]) -> str:
    pieces, names = _cut(text)
    return "".join(piece + safe[name] for piece, name in zip(pieces, names, strict=False)) + pieces[-1]


@lru_cache(maxsize=256)
def _cut(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what stands before, between and behind the placeholders of a part, and their names."""
    pieces = _PLACEHOLDER.split(text)
    return tuple(pieces[::2]), tuple(pieces[1::2])


def _shorten_turn(turn: Mapping[str, Any]) -> dict[str, Json]:
    """Return a turn as it is recorded: whole it would stand there once more for every turn behind it."""
    text = str(turn["content"])
    cut = {} if len(text) <= _MOST_KEPT else {"content": f"{text[:_MOST_KEPT]} […]", "characters": len(text)}
    return {**turn, **cut}
