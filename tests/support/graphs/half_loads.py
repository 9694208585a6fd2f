"""Load graphs in small steps that stop half way, and write the source files."""

import bz2
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph
import pytest
from support.graphs.rdf_lines import spell_out
from support.processes.ready import Ended, run_ready

from factmill.tasks.graph.folders import GraphManifest
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.loading.staging import LoadProgress

SMALL_STEPS = """
import os, resource, signal, sys
from pathlib import Path
from factmill.tasks.graph import load
from factmill.tasks.graph.loading import staging
from factmill.tasks.graph.loading.sources import streams
streams.BLOCK_BYTES, streams.TURTLE_BATCH_TRIPLES, staging.COMMIT_TEXT_BYTES = 4000, 30, 24_000
files, folder = sys.argv[2:], Path(sys.argv[1])
"""
"""Code of a separate process that loads in small blocks and commits every few, as a long load would."""


def make_lines(start: int, stop: int) -> list[str]:
    """Return lines of edges and labels, lines that are not kept, and blank and malformed lines."""
    text = []
    for nth in range(start, stop):
        text += [f"wd:Q{nth} wdt:P31 wd:Q{nth % 7 + 1}", f'wd:Q{nth} rdfs:label "item {nth}"@en']
        text += [f'wd:Q{nth} wdt:P569 "19{nth % 100:02d}-01-01T00:00:00Z"^^xsd:dateTime', f"wd:Q{nth} p:P1 wds:q{nth}"]
    lines = spell_out("\n".join(text)).splitlines(keepends=True)
    lines[5:5] = ["\n", "# words\n", "no triple\n"]
    return lines


LINES = make_lines(1, 200)
MORE = make_lines(150, 300)


@dataclass
class Loads:
    """Loads of some files into one folder, and their progress reports."""

    files: Sequence[Path]
    folder: Path
    notices: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)

    def run(
        self,
        name: str = "small",
        stop_after: int | None = None,
        progress: Callable[[LoadProgress], None] | None = None,
        **options: object,
    ) -> GraphManifest:
        """Load, and stop after `stop_after` reports as Ctrl-C does; `progress` receives the reports too."""
        self.notices, self.phases, news = [], [], 0

        def record(expected: LoadProgress) -> None:
            nonlocal news
            news += 1
            self.phases.append(expected.phase)
            if progress:
                progress(expected)
            if news == stop_after:
                raise KeyboardInterrupt

        return load_graph(
            self.files,
            name,
            self.folder,
            progress=record,
            notice=self.notices.append,
            **options,  # type: ignore[arg-type]
        )

    def stop(self, after: int = 60, **options: object) -> None:
        """Load, and stop after this many reports as Ctrl-C does."""
        with pytest.raises(KeyboardInterrupt):
            self.run(stop_after=after, **options)  # type: ignore[arg-type]


def write_files(folder: Path) -> list[Path]:
    """Write a plain and a compressed file of N-Triples and one of Turtle."""
    (folder / "a.nt").write_text("".join(LINES), "utf-8")
    (folder / "b.nt.gz").write_bytes(gzip.compress("".join(MORE).encode(), mtime=0))
    triples = pyoxigraph.parse("".join(line for line in make_lines(400, 450)[8:]), format=pyoxigraph.RdfFormat.TURTLE)
    pyoxigraph.serialize(triples, str(folder / "c.ttl"), format=pyoxigraph.RdfFormat.TURTLE)
    (folder / "c.ttl.bz2").write_bytes(bz2.compress((folder / "c.ttl").read_bytes()))
    return [folder / name for name in ("a.nt", "b.nt.gz", "c.ttl.bz2")]


def contents(made: GraphManifest) -> dict[str, object]:
    """Return the contents that must not depend on interruptions. (DuckDB's files differ in their row groups.)"""
    found = made.model_dump(exclude={"name", "created_at", "files"})
    for source in found["sources"]:
        source["path"] = Path(source["path"]).name
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run_in_small_steps(program: str, folder: Path, files: Sequence[Path], piped: bytes | None = None) -> Ended:
    return run_ready(SMALL_STEPS + program, folder, *files, piped=piped)
