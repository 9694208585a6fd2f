"""Write a chat model's completion: recognise the prompt from its messages, and reply from a script or plainly.

Only the messages are read, as by a model. The templates of prompts/*.md are matched against them, and the text in the
place of `$name` is that variable.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from support.worlds.replies import find_text

from factmill.tasks.assets import ASSETS_ROOT, load_prompt
from factmill.tasks.core.prompts import PromptTemplate

Message = dict[str, Any]
LOOKED_UP = "Berlin"
"""The text that an evaluated model looks up for every question."""


CHAT = PromptTemplate("chat", "", "author", (), (("user", ""),), 0.0, 64, None)
"""Any message that is no prompt of ours."""


@dataclass(frozen=True)
class Asked:
    """A prompt recovered from a request."""

    prompt: PromptTemplate
    variables: dict[str, str]
    is_correction: bool
    """True if messages follow the prompt's: a reply was sent back."""


class Contents:
    """The scripted replies to messages."""

    def write(self, asked: Asked) -> str:
        """Return the correct reply in the agreed form."""
        if asked.prompt is CHAT:
            return "Blue."
        if asked.prompt.role == "answerer":
            searches = asked.prompt.id == "fanoutqa/answer_with_searches"
            return (
                f"SEARCH: {LOOKED_UP}"
                if searches and not asked.is_correction
                else "ANSWER: Blue."
                if searches
                else "Blue."
            )
        text = find_text(asked.prompt.id, asked.variables)
        assert text is not None, asked
        return text


def recognise(messages: Sequence[Message]) -> Asked:
    """Return the prompt and variables that the messages contain; CHAT for no prompt of ours."""
    said = [message["content"] for message in messages]
    for prompt, patterns in _list_patterns():
        if len(said) >= len(patterns):
            found = [pattern.fullmatch(text) for pattern, text in zip(patterns, said, strict=False)]
            if all(found):
                given = {name: value for match in found if match for name, value in match.groupdict().items()}
                # undo the escape that keeps values from closing their tag
                variables = {name: given[name].replace("< /", "</") for name in prompt.inputs}
                return Asked(prompt, variables, len(said) > len(patterns))
    return Asked(CHAT, {}, False)


@cache
def _list_patterns() -> list[tuple[PromptTemplate, list[re.Pattern[str]]]]:
    folder = ASSETS_ROOT / "prompts"
    prompts = [
        load_prompt(path.relative_to(folder).with_suffix("").as_posix()) for path in sorted(folder.rglob("*.md"))
    ]
    own = [(prompt, [_make_pattern(text) for _, text in prompt.parts]) for prompt in prompts]
    # for a model without a system role, the system message precedes the first user message
    merged = [
        (prompt, [_make_pattern(f"{prompt.parts[0][1]}\n\n{prompt.parts[1][1]}"), *patterns[2:]])
        for prompt, patterns in own
        if prompt.parts[0][0] == "system"
    ]
    return own + merged


def _make_pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"\$(\w+)", template)
    return re.compile(
        "".join(f"(?P<{piece}>.*?)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)), re.DOTALL
    )
