"""Load a folder of the user's own prompts, which replace packaged prompts of the same ids.

The folder has the form of `prompts/`: `granola/answer.md` replaces the prompt `granola/answer`; the rest comes from the
package. A prompt is its text: line ends and a byte order mark do not count, so a copy that an editor saved otherwise is
the packaged prompt, and makes the same build. Everything is checked before any work begins.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from factmill.tasks.assets import list_packaged_prompts, load_packaged_prompt
from factmill.tasks.core.prompts import PromptTemplate, parse_prompt_file
from factmill.tasks.errors import PromptError, SettingsError
from factmill.tasks.files import load_file_bytes, resolve_absolute_path
from factmill.tasks.text.sanitize import format_did_you_mean

_MAX_PROMPT_BYTES = 1_000_000
_MAX_FILES = 1_000
"""Most files of a folder: `--prompts /` would walk a whole disk."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PROMPT_SUFFIX = ".md"
_IGNORED_FILE = "README.md"


@dataclass(frozen=True, slots=True)
class OwnPrompt:
    """A prompt of the user's own."""

    template: PromptTemplate
    text: str
    """The file's text with line ends \\n, without a byte order mark; the template's digest is that of its UTF-8 bytes."""
    path: Path

    @property
    def is_packaged_text(self) -> bool:
        """True for an unchanged copy of the packaged prompt."""
        return self.template.digest == load_packaged_prompt(self.template.id).digest


def load_own_prompts(folder: Path) -> dict[str, OwnPrompt]:
    """Return id → prompt of a folder, sorted by id.

    SettingsError for a folder that is missing, cannot be read or holds no prompt; PromptError for a file that replaces no
    packaged prompt, or cannot take its place (core/prompts.py). Hidden files and README.md are ignored.
    """
    folder = resolve_absolute_path(folder)
    if not folder.is_dir():
        raise SettingsError(
            f"the folder of own prompts {folder} {'is no folder' if folder.exists() else 'does not exist'}; expected one such as "
            "`factmill prompts granola/answer --copy-to FOLDER` writes"
        )
    known = list_packaged_prompts()
    found = {
        prompt.template.id: prompt for prompt in (_load_own_prompt(folder, path, known) for path in _list_files(folder))
    }
    if not found:
        raise SettingsError(
            f"the folder of own prompts {folder} holds no prompt; copy one there: factmill prompts granola/answer --copy-to {folder}"
        )
    return dict(sorted(found.items()))


def parse_own_prompts(texts: Mapping[str, str]) -> dict[str, PromptTemplate]:
    """Return id → prompt from recorded texts, which were checked when they were loaded; PromptError for a damaged one."""
    return {name: parse_prompt_file(name, text.encode(), f"the recorded prompt {name}") for name, text in texts.items()}


def _list_files(folder: Path) -> Iterable[Path]:
    """Return the files below a folder, also by links, without hidden ones; SettingsError for a folder that cannot be read, or
    holds too many."""

    def refuse(error: OSError) -> None:
        raise SettingsError(
            f"the folder of own prompts {folder} cannot be read: {error.filename}: {error.strerror}"
        ) from error

    found: list[Path] = []
    passed = {os.path.realpath(folder)}
    for below, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        # a link may lead back into the folder
        inner = {name: os.path.realpath(Path(below, name)) for name in sorted(folders) if not name.startswith(".")}
        folders[:] = [name for name, place in inner.items() if place not in passed]
        passed.update(inner.values())
        found += [Path(below, name) for name in files if not name.startswith(".") and name != _IGNORED_FILE]
        if len(found) > _MAX_FILES:
            raise SettingsError(
                f"{folder} holds more than {_MAX_FILES:,} files, so it is no folder of own prompts; name one that holds only these"
            )
    return sorted(found)


def _load_own_prompt(folder: Path, path: Path, known: list[str]) -> OwnPrompt:
    name = path.relative_to(folder).as_posix()
    prompt_id = name.removesuffix(_PROMPT_SUFFIX)
    if prompt_id not in known or prompt_id == name:
        meant = format_did_you_mean(prompt_id, known) or "."
        raise PromptError(
            f"{path}: factmill has no prompt {name}{meant} Expected BENCHMARK/NAME.md, as `factmill prompts` "
            "lists them; rename the file, or move it out of the folder"
        )
    try:
        data = load_file_bytes(path, _MAX_PROMPT_BYTES)
    except OSError as error:
        raise PromptError(f"{path}: cannot be read: {error.strerror}") from error
    data = data.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
    template = parse_prompt_file(prompt_id, data, str(path), load_packaged_prompt(prompt_id))
    return OwnPrompt(template, data.decode("utf-8"), path)
