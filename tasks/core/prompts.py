"""Parse prompt files, fill them in, and turn them into calls.

A prompt is a Markdown file with a TOML head between `+++` lines (role, inputs, sampling, reply format) and a body of
`# system`, `# user` and `# assistant` parts. Only `$name` of declared inputs is substituted. External text cannot close
the tag that encloses it, so that a label cannot act as an instruction.
"""

import re
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from factmill.tasks.core.digests import JsonValue, digest_bytes
from factmill.tasks.errors import PromptError

_PART_HEADING = re.compile(r"^# (system|user|assistant)[ \t]*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(\w+)")
_HEADER_KEYS = {
    "role": "author, judge or answerer",
    "inputs": "a list of names",
    "temperature": "a number from 0 to 2",
    "max_tokens": "a whole number above 0",
    "schema": "a table",
}
"""Key of a prompt's header → what it holds."""
_MAX_TEMPERATURE = 2
_TURN_ORDER = re.compile(r"(system )?(user assistant )*user ")

MAX_REJECTED_CHARACTERS = 12_000
"""Maximum number of characters of a rejected completion shown to the model; no prompt asks for a longer one."""
_OMISSION_MARK = "\n[…]\n"
_MAX_RECORDED_TURN_CHARACTERS = 300
"""Maximum number of characters of a turn kept in a recorded call; the rest repeats earlier completions and look-ups."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A parsed prompt file."""

    id: str
    """Path below prompts/ without the suffix, e.g. `granola/granular_answers`."""
    digest: str
    """SHA-256 of the file's bytes."""
    role: str
    """Role of the world's model that gets the prompt: author, judge or answerer."""
    inputs: tuple[str, ...]
    """Names of required inputs, all used in the body."""
    parts: tuple[tuple[str, str], ...]
    """(speaker, text with $names) in order; demonstrations are user/assistant pairs."""
    temperature: float
    max_tokens: int
    schema: Mapping[str, Any] | None
    """JSON schema of the completion if its format is JSON; None for a line format."""


@dataclass(frozen=True, slots=True)
class FilledPrompt:
    """A prompt filled in for one row, for a chat model or for looking up scripted replies."""

    prompt: PromptTemplate
    variables: Mapping[str, str]
    samples: int = 1
    """Number of completions drawn for the same messages."""
    rejected_reply: str = ""
    """The model's completion of the first attempt, at most MAX_REJECTED_CHARACTERS characters; empty during that attempt."""
    correction: str = ""
    """Message to the model about the fault in that completion, for the second attempt."""
    turns: tuple[Mapping[str, Any], ...] = ()
    """Later messages of the chat protocol: the model's own, tool calls, tool results."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Functions that the model may call, as the chat protocol defines them."""

    def with_correction(self, rejected: str, correction: str) -> "FilledPrompt":
        """Return the second attempt: the model sees its completion, without the middle if very long, and its fault."""
        if len(rejected) > MAX_REJECTED_CHARACTERS:
            half = (MAX_REJECTED_CHARACTERS - len(_OMISSION_MARK)) // 2
            rejected = f"{rejected[:half]}{_OMISSION_MARK}{rejected[-half:]}"
        return replace(self, rejected_reply=rejected, correction=correction)

    def build_messages(self) -> list[dict[str, Any]]:
        """Return the chat messages, each with role and content: user and assistant alternate, a user's or tool's is last."""
        safe = {name: value.replace("</", "< /") for name, value in self.variables.items()}
        filled: list[dict[str, Any]] = [
            {"role": who, "content": _PLACEHOLDER.sub(lambda found: safe[found[1]], text)}
            for who, text in self.prompt.parts
        ]
        if self.correction:
            filled.append({"role": "assistant", "content": self.rejected_reply})
            filled.append({"role": "user", "content": self.correction})
        return filled + [dict(turn) for turn in self.turns]

    def make_call_parts(self) -> dict[str, JsonValue]:
        """Return the parts of the recorded call, by name; optional ones are absent if empty, so that old records still match."""
        more: dict[str, JsonValue] = {"rejected": self.rejected_reply} if self.correction else {}
        turns = [dict(turn) for turn in self.turns]
        for turn in turns:  # the calls of all later turns repeat it
            if len(text := str(turn["content"])) > _MAX_RECORDED_TURN_CHARACTERS:
                turn |= {"content": f"{text[:_MAX_RECORDED_TURN_CHARACTERS]} […]", "characters": len(text)}
        more |= {"turns": turns} if turns else {}
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


def parse_prompt_file(
    prompt_id: str, data: bytes, where: str = "", packaged: PromptTemplate | None = None
) -> PromptTemplate:
    """Parse a prompt file; PromptError when its head or body is invalid, or an input is unused or undeclared.

    `where`: the file in error messages. `packaged`: the prompt that this one replaces; it must be asked of the same role,
    use exactly the same variables and have the same reply schema, since a step fills it in and reads its reply.
    """
    where = where or f"prompts/{prompt_id}.md"
    try:
        match = re.fullmatch(r"\+\+\+\n(.*?)\n\+\+\+\n(.*)", data.decode("utf-8"), re.DOTALL)
    except UnicodeDecodeError as error:
        raise PromptError(f"{where}: byte {error.start} is not UTF-8; save the file in the encoding UTF-8") from error
    if not match:
        raise PromptError(
            f"{where}: expected a TOML header between two +++ lines, as in `factmill prompts {prompt_id}`"
        )
    try:
        head = tomllib.loads(match[1])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PromptError(f"{where}: the header is not TOML: {error}") from error
    _check_header(head, where)
    pieces = _PART_HEADING.split(match[2])
    parts = tuple((who, text.strip()) for who, text in zip(pieces[1::2], pieces[2::2], strict=True))
    inputs = tuple(head.get("inputs", ()))
    used = {name for _, text in parts for name in _PLACEHOLDER.findall(text)}
    if packaged is not None:
        _check_replacement(head, used, where, packaged)
    if not parts or used != set(inputs):
        raise PromptError(
            f"{where}: the header declares the inputs {sorted(inputs)}, but the body uses {sorted(used)}; they must be the same"
        )
    if not _TURN_ORDER.fullmatch("".join(f"{who} " for who, _ in parts)):
        raise PromptError(
            f"{where}: the parts are {', '.join(who for who, _ in parts)}; expected an optional system part, then "
            "user and assistant in turns, user last, since some servers require that order"
        )
    return PromptTemplate(
        id=prompt_id,
        digest=digest_bytes(data),
        role=head["role"],
        inputs=inputs,
        parts=parts,
        temperature=float(head.get("temperature", 0.0)),
        max_tokens=int(head.get("max_tokens", 512)),
        schema=head.get("schema"),
    )


def _check_header(head: Mapping[str, Any], where: str) -> None:
    """Raise PromptError for a key of a prompt's header that is unknown, missing, or has a value of a wrong kind."""
    if unknown := [name for name in head if name not in _HEADER_KEYS]:
        raise PromptError(f"{where}: unknown key {unknown[0]} in the header; expected {', '.join(_HEADER_KEYS)}")
    inputs, temperature = head.get("inputs", []), head.get("temperature", 0.0)
    most = head.get("max_tokens", 512)
    right = {
        "role": isinstance(head.get("role"), str),
        "inputs": isinstance(inputs, list) and all(isinstance(each, str) for each in inputs),
        "temperature": isinstance(temperature, int | float)
        and not isinstance(temperature, bool)
        and 0 <= temperature <= _MAX_TEMPERATURE,
        "max_tokens": isinstance(most, int) and not isinstance(most, bool) and most > 0,
        "schema": isinstance(head.get("schema", {}), Mapping),
    }
    if wrong := [name for name, is_right in right.items() if not is_right]:
        raise PromptError(
            f"{where}: {wrong[0]} in the header is {head.get(wrong[0])!r}; expected {_HEADER_KEYS[wrong[0]]}"
        )


def _check_replacement(head: Mapping[str, Any], used: Set[str], where: str, packaged: PromptTemplate) -> None:
    """Raise PromptError unless a prompt can take the place of the packaged one; `used`: variables in its body."""
    allowed = ", ".join(f"${name}" for name in packaged.inputs) or "none"
    if unknown := sorted(used - {*packaged.inputs}):
        raise PromptError(
            f"{where}: the text uses the variable ${unknown[0]}, which is not provided; allowed: {allowed}. Remove it; if it "
            "is no variable, write it without the dollar sign"
        )
    if missing := [name for name in packaged.inputs if name not in used]:
        raise PromptError(
            f"{where}: the text does not use the variable ${missing[0]}, which must be in it; the variables: {allowed}. Add "
            f"${missing[0]} where its text should stand"
        )
    if {*head.get("inputs", ())} != {*packaged.inputs}:
        raise PromptError(
            f"{where}: inputs in the header is {head.get('inputs', [])}; expected {list(packaged.inputs)}: write that line so"
        )
    if head["role"] != packaged.role:
        raise PromptError(
            f'{where}: role in the header is {head["role"]!r}; this prompt is asked of {packaged.role!r}: write role = "{packaged.role}"'
        )
    if head.get("schema") != packaged.schema:
        raise PromptError(
            f"{where}: schema in the header differs from that of the packaged prompt, by which replies are read; leave it as "
            f"`factmill prompts {packaged.id}` prints it"
        )


def fill_prompt_template(prompt: PromptTemplate, samples: int = 1, **variables: str) -> FilledPrompt:
    """Fill in a prompt; PromptError unless exactly the declared inputs are given."""
    if set(variables) != set(prompt.inputs):
        raise PromptError(
            f"prompt {prompt.id}: expected the variables {sorted(prompt.inputs)}, found {sorted(variables)}"
        )
    return FilledPrompt(prompt, variables, samples)


def format_prompt_digests(digests: Mapping[str, str]) -> str:
    """Format id → digest of prompts as part of a line: ids with the beginnings of their digests."""
    return ", ".join(f"{name} (SHA-256 {digest[:12]})" for name, digest in sorted(digests.items()))
