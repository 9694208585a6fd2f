"""`factmill graph`: loading and listing local graphs."""

import sys
import time
from typing import Any

from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tasks.graph.load import LoadProgress, load_graph
from tasks.graph.manifest import list_graphs
from tasks.settings import graphs_folder, home


def load(files: list[str], name: str, languages: tuple[str, ...], replace: bool) -> dict[str, Any]:
    """Load dump files as a local graph, with progress, and return its manifest and the seconds it took."""
    started = time.perf_counter()
    columns = (TextColumn("loading {task.fields[name]}"), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("load", name=name, note="")
        manifest = load_graph(
            files,
            name,
            graphs_folder(home()),
            languages,
            lambda news: bar.update(task, note=_note(news)),
            replace=replace,
        )
    return {**manifest.model_dump(mode="json"), "seconds": round(time.perf_counter() - started, 2)}


def listing() -> list[dict[str, Any]]:
    """Return name, edges and digest of every local graph."""
    return [
        {
            "name": manifest.name,
            "edges": manifest.stored["edges"],
            "digest": manifest.digest,
            "dump_date": manifest.dump_date,
        }
        for manifest in list_graphs(graphs_folder(home()))
    ]


def _note(news: LoadProgress) -> str:
    rate = news.lines / news.seconds if news.seconds else 0
    share = f"{100 * news.bytes_read / news.bytes_total:.0f} %, " if news.bytes_total else ""
    return f"{share}{news.lines:,} lines, {rate:,.0f} lines/s"
