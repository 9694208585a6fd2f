"""Read the commands that the documents show."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from factmill.tasks.assets import ASSETS_ROOT

DOCUMENTS = (
    "README.md",
    *sorted(path.relative_to(ASSETS_ROOT).as_posix() for path in (ASSETS_ROOT / "docs").rglob("*.md")),
)
OWN = "my_facts"
"""The benchmark of the page on writing one; tests/flows/test_packages.py installs and tries such a package."""
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"…|\b[A-Z]{4,}\b(?!=)")
"""Placeholders that a reader replaces."""


@dataclass(frozen=True)
class Example:
    """A command line that a document shows."""

    line: str
    output: tuple[str, ...] = ()
    """The output that the document shows; `…` replaces omitted text."""

    def find_missing_output(self, printed: str) -> list[str]:
        """Return the shown lines that were not printed, ignoring spaces, times and digests."""
        found = _mask_what_differs(printed)
        return [
            line
            for line in self.output
            if not all(part in found for part in map(str.strip, _mask_what_differs(line).split("…")))
        ]

    @property
    def words(self) -> list[str]:
        """Return the command and its arguments, without environment settings and the trailing comment."""
        words = shlex.split(self.line, comments=True)
        return words[len(self._settings) :]

    @property
    def _settings(self) -> list[str]:
        words = shlex.split(self.line, comments=True)
        return list(takewhile(re.compile(r"[A-Z_]+=").match, words))

    def environment(self, **ours: str) -> Mapping[str, str]:
        """Return the environment variables that the line sets, after `ours`."""
        return dict(setting.split("=", 1) for setting in self._settings) | ours

    def can_run(self, endless: Sequence[str]) -> bool:
        """Return whether it is one of our commands, ends by itself, and has no placeholder left."""
        words = self.words
        return (
            words[:1] == ["factmill"]
            and OWN not in self.line
            and not " ".join(words[1:]).startswith(tuple(endless))
            and not _PLACEHOLDER.search(" ".join(words))
        )


def _mask_what_differs(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+]+|\b[\d.]+ (?:seconds?|minutes?|hours?|days?) ago", "TIME", text)
    return " ".join(re.sub(r"\b[0-9a-f]{12,16}\b", "DIGEST", text).split())


def list_blocks(document: str, *languages: str) -> list[str]:
    """Return a document's code blocks in these languages."""
    return [
        text for language, text in _BLOCK.findall((ASSETS_ROOT / document).read_text("utf-8")) if language in languages
    ]


def list_named_files(document: str) -> dict[str, str]:
    """Return name → content of a document's files: a line with the name in backticks and a colon, then a block."""
    text = (ASSETS_ROOT / document).read_text("utf-8")
    return dict(re.findall(r"^`([\w.-]+)`:\n```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def list_examples(document: str) -> list[Example]:
    """Return the command lines of a document in order; in a console block, the text after each `$`."""
    found: list[Example] = []
    for language, block in _BLOCK.findall((ASSETS_ROOT / document).read_text("utf-8")):
        lines = block.replace("\\\n", " ").splitlines()
        if language == "sh":
            found += [Example(line) for line in lines]
        elif language == "console":
            for shown in re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]:
                line, *output = shown.splitlines()
                found.append(Example(line, tuple(output)))
    return [example for example in found if example.words]
