"""Write the embedded world with other models."""

import re
from collections.abc import Iterable
from pathlib import Path

from factmill.tasks.assets import ASSETS_ROOT


def write_world_with_model(path: Path, roles: Iterable[str], settings: str, name: str = "embedded") -> Path:
    """Write the embedded world under a name, with a model in some roles; `settings`: lines about the model."""
    text = (ASSETS_ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
    for role in roles:
        text = re.sub(rf"\[models\.{role}\][^\[]*", "", text) + f"\n[models.{role}]\n{settings}\n"
    path.write_text(text.replace('name = "embedded"', f'name = "{name}"', 1), "utf-8")
    return path
