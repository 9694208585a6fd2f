"""Make small builds in the embedded world with a planted difference: an epoch, a model's name, or a prompt."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.commands.command import Factmill
from support.worlds.other_assets import assets_at
from support.worlds.replies import Variables, find_text, replying

from factmill.tasks import assets
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME

Twist = Callable[[str], str | None]
"""A reply → the changed reply; None: the reply is missing."""


class Planting:
    """Builds of one benchmark in their own warehouse."""

    def __init__(self, folder: Path, factmill: Factmill, *options: str | Path) -> None:
        self.folder, self.factmill, self.options = folder, factmill, options
        self._named = ("--warehouse", folder / "w.duckdb", "--json")

    def build(
        self,
        *options: str | Path,
        epoch: str = "2026-01-01",
        model: str = SCRIPTED_MODEL_NAME,
        twist: tuple[str, Twist] | None = None,
    ) -> str:
        """Build and return the build's id; `twist`: a prompt with a changed wording, and the replies to it."""
        world = self.folder / "planted.toml"
        text = (assets.ASSETS_ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
        text = text.replace("epoch = 2026-01-01", f"epoch = {epoch}")
        world.write_text(text.replace('kind = "scripted"', f'kind = "scripted"\nname = "{model}"'), "utf-8")
        benchmark, *rest = [*self.options, *options]
        with self._twisted(*twist) if twist else replying():
            ran = self.factmill("build", benchmark, "--world", world, *rest, *self._named)
        assert ran.code == 0, ran.err
        build_id: str = ran.json["build_id"]
        return build_id

    def list_causes(self, before: str, after: str) -> dict[str, set[str]]:
        """Return kind of change → the causes of its rows."""
        ran = self.factmill("diff", before, after, *self._named)
        assert ran.code == 0, ran.err
        found: dict[str, set[str]] = {}
        rows: list[dict[str, Any]] = ran.json["rows"]
        for row in rows:
            found.setdefault(row["kind"], set()).add(
                " + ".join(f"{each['kind']}: {each['what']}" for each in row["causes"])
            )
        return found

    @contextmanager
    def _twisted(self, prompt: str, twist: Twist) -> Iterator[None]:
        def write(asked: str, variables: Variables) -> str | None:
            text = find_text(asked, variables)
            return twist(text) if text is not None and asked == prompt else text

        with edited_prompt(self.folder, prompt), replying(write):
            yield


@contextmanager
def edited_prompt(folder: Path, prompt: str) -> Iterator[None]:
    """Change a prompt's wording inside the block; `folder` gets a copy of the project's files."""
    copy = folder / "assets"
    for part in ("prompts", "sparql", "data/lists", "data/worlds"):
        shutil.copytree(assets.ASSETS_ROOT / part, copy / part)
    (copy / "data" / "world").symlink_to(assets.ASSETS_ROOT / "data" / "world")
    path = copy / "prompts" / f"{prompt}.md"
    path.write_text(path.read_text("utf-8").replace("# user", "Mind every word.\n# user", 1), "utf-8")
    with assets_at(copy):
        yield
    shutil.rmtree(copy)
