"""Worlds of trials: the embedded one with the models of a server."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.commands.other_command import OtherCommand

from factmill.tasks.assets import ASSETS_ROOT


def write_provider_world(
    folder: Path,
    name: str,
    url: str,
    settings: Mapping[str, Any],
    attempts: int,
    command: OtherCommand,
    roles: Sequence[str] = ("author", "judge", "answerer"),
) -> Path:
    """Write the embedded world with one server's model in some roles; settings that a checkout does not know are left out."""
    said = {"kind": "openai", "name": "provider", "url": url, **settings}
    lines = [f"{key} = {_format(value)}" for key, value in said.items() if key in command.model_settings]
    limits = f"limits = {{ parallel = 4, timeout_s = 60, attempts = {attempts}, backoff_s = 0 }}"
    text = (ASSETS_ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
    for role in roles:
        text = re.sub(rf"\[models\.{role}\][^\[]*", "", text) + "\n".join(["", f"[models.{role}]", *lines, limits, ""])
    path = folder / f"{name}.toml"
    path.write_text(text.replace('name = "embedded"', f'name = "{name}"', 1), "utf-8")
    return path


def _format(value: Any) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_format(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
