"""Wrap correct replies as models do: a wrapper takes the correct reply and returns what the model writes instead.

The request's own random numbers choose a wrapper's form, so the same request always gets the same reply.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from support.habits.contents import Asked

DEPTH = 10_000


@dataclass(frozen=True)
class Said:
    """One choice of a completion."""

    content: str | None
    finish: str = "stop"
    refusal: str | None = None


Dress = Callable[[str, Asked, Random], Said]
_NUMBERED = re.compile(r"^(\d+)(::?) ", re.MULTILINE)
_LABELLED = re.compile(r"^(\d+::?|[A-Z][a-z]+:) ", re.MULTILINE)


def say_plainly(text: str, _asked: Asked, _draw: Random) -> Said:
    return Said(text)


def fence(text: str, _asked: Asked, draw: Random) -> Said:
    mark = draw.choice(["```", "```json" if text.startswith("{") else "```text", "~~~"])
    return Said(f"{mark}\n{text}\n{mark[:3]}")


def lead_in(text: str, _asked: Asked, draw: Random) -> Said:
    lead = draw.choice(["Sure! Here is what you asked for:", "Certainly, here you go:", "Here's the result:"])
    return Said(f"{lead}\n{draw.choice(['', chr(10)])}{text}")


def think_aloud(text: str, _asked: Asked, draw: Random) -> Said:
    """Think first, in the reply's form and about a wrong answer, as models do that are given a form."""
    tag = draw.choice(["think", "think", "thinking", "reasoning"])
    first = text.splitlines()[0]
    label = _LABELLED.match(first)
    draft = {"Yes": "No", "No": "Yes", "Y": "N", "N": "Y"}.get(
        first
    ) or f"{label[0] if label else ''}1, or something else?"
    return Said(f"<{tag}>\nThe form is given, so a first draft:\n{draft}\nNo. Let me see it again.\n</{tag}>\n\n{text}")


def number_otherwise(text: str, _asked: Asked, draw: Random) -> Said:
    """Number lines with other marks; list items without numbers get one."""
    style = draw.choice(["{}. ", "{}) ", "Level {}: " if "1:: " in text else "{}. "])
    if _NUMBERED.search(text):
        return Said(_NUMBERED.sub(lambda found: style.format(found[1]), text))
    if text.startswith("Path: "):
        return Said("\n".join(f"{style.format(at)}{line}" for at, line in enumerate(text.splitlines(), 1)))
    return Said(text)


def embolden(text: str, _asked: Asked, draw: Random) -> Said:
    """Set a line's label or each whole line in bold, or turn the lines into list items."""
    if text.startswith("{"):
        return Said(f"**{text}**")
    style = draw.choice(["label", "line", "item"])
    if style == "label" and _LABELLED.search(text):
        return Said(_LABELLED.sub(r"**\1** ", text))
    return Said("\n".join(f"- {line}" if style == "item" else f"**{line}**" for line in text.splitlines()))


def remark(text: str, _asked: Asked, draw: Random) -> Said:
    last = draw.choice(
        ["Let me know if you need anything else!", "I hope this helps.", "Note: this rests on the given text."]
    )
    return Said(f"{text}\n\n{last}")


def widen(text: str, _asked: Asked, _draw: Random) -> Said:
    """Write the colons of labels in full width, as East Asian keyboards do."""
    return Said(_LABELLED.sub(lambda found: found[0].strip().replace(":", "\uff1a"), text))


def gloss(text: str, asked: Asked, _draw: Random) -> Said:
    """Mark each level after the first as less specific."""
    if asked.prompt.id != "granola/granular_answers":
        return Said(text)
    first, *rest = text.splitlines()
    return Said("\n".join([first, *(f"{line} (less specific)" for line in rest)]))


def tabulate(text: str, _asked: Asked, draw: Random) -> Said:
    """Put numbered lines, or lines with a label, into a Markdown table."""
    if not _LABELLED.search(text):
        return Said(text)
    rows = [line.partition(" ") for line in text.splitlines()]
    if any(not _LABELLED.match(line) for line in text.splitlines()):
        return Said(text)
    cells = [f"| {head.rstrip(':')} | {answer} |".replace("||", "| |") for head, _, answer in rows]
    header = draw.choice([["| Level | Answer |", "|---|---|"], ["| Level | Answer |"], []])
    return Said("\n".join([*header, *cells]))


def head(text: str, _asked: Asked, draw: Random) -> Said:
    return Said(f"{draw.choice(['## Final Answer', '**Final answer:**', '### Answer'])}\n\n{text}")


def tag(text: str, _asked: Asked, draw: Random) -> Said:
    name = draw.choice(["result", "answer", "reply", "solution"])
    return Said(f"<{name}>\n{text}\n</{name}>")


def number_in_script(text: str, _asked: Asked, draw: Random) -> Said:
    """Number lines with the digits of another script."""
    zero = ord(draw.choice("٠०０০๐"))
    return Said(_NUMBERED.sub(lambda found: f"{''.join(chr(zero + int(each)) for each in found[1])}{found[2]} ", text))


def mark_sources(text: str, _asked: Asked, _draw: Random) -> Said:
    """Append source marks to the lines."""
    return Said(text if text.startswith("{") else "\n".join(f"{line} [1][2]" for line in text.splitlines()))


def explain(text: str, _asked: Asked, draw: Random) -> Said:
    return Said(
        f"{text}\n{draw.choice(['', chr(10)])}{draw.choice(['Explanation:', '**Explanation:**'])} the given text says so."
    )


def go_on(text: str, _asked: Asked, draw: Random) -> Said:
    """Invent the next turn."""
    return Said(
        f"{text}\n{draw.choice(['User: And the next one?', 'Human: Thanks.', '<|im_start|>user' + chr(10) + 'And now?'])}"
    )


def write_json5(text: str, _asked: Asked, _draw: Random) -> Said:
    """Write JSON with an extra comma and a comment."""
    return Said(f"{{ // as asked for\n{text[1:-1]},\n}}" if text.startswith("{") else text)


def decorate(text: str, _asked: Asked, _draw: Random) -> Said:
    """Put an emoji before a question."""
    return Said(
        text.replace("Question: ", "Question: ❓ ", 1)
        if text.startswith("Question: ")
        else f"❓ {text}"
        if text.endswith("?")
        else text
    )


def do_all(text: str, asked: Asked, draw: Random) -> Said:
    """Think, add an introduction and a fence, and remark at the end."""
    for dress in (fence, lead_in, remark, think_aloud):
        text = dress(text, asked, draw).content or ""
    return Said(text)


def lead_in_and_fence(text: str, asked: Asked, draw: Random) -> Said:
    return lead_in(fence(text, asked, draw).content or "", asked, draw)


def dress_anyhow(text: str, asked: Asked, draw: Random) -> Said:
    """Wrap each reply in a different way."""
    return draw.choice((fence, lead_in, think_aloud, number_otherwise, embolden, remark, widen, gloss))(
        text, asked, draw
    )


def think_and_dress(text: str, asked: Asked, draw: Random) -> Said:
    """Think, then wrap the reply in any way."""
    return think_aloud(dress_anyhow(text, asked, draw).content or "", asked, draw)


def miss_the_form(_text: str, _asked: Asked, _draw: Random) -> Said:
    return Said("That depends on how one looks at it.")


def refuse(_text: str, _asked: Asked, draw: Random) -> Said:
    result = draw.choice(
        [
            "I'm sorry, but I can't help with that.",
            "I cannot assist with this request.",
            "I'm unable to comply with that.",
        ]
    )
    return draw.choice([Said(result), Said(None, refusal=result), Said(None, "content_filter")])


def cut_off(text: str, _asked: Asked, draw: Random) -> Said:
    """Stop at the token limit: within the reply, or while still thinking."""
    return Said(
        draw.choice([text[: len(text) // 2], f"<think>\nFirst I look at it all. {text[: len(text) // 2]}"]), "length"
    )


def say_nothing(_text: str, _asked: Asked, draw: Random) -> Said:
    return Said(draw.choice(["", None, " \n"]))


def nest(_text: str, _asked: Asked, _draw: Random) -> Said:
    return Said('{"short": ' + "[" * DEPTH + "]" * DEPTH + "}")
