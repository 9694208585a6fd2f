"""`factmill graph`: loading, listing, checking and removing local graphs, with progress on standard error."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tasks.graph.folders import FoundGraph, list_graphs
from tasks.graph.load import load_graph
from tasks.graph.load_progress import LoadProgress
from tasks.graph.loading.sources.streams import Form
from tasks.graph.manifest import check_graph
from tasks.settings import graphs_folder, home

NEWS_EVERY_S = 10.0
"""How often a line is printed where standard error is no terminal."""

_PHASES = {
    "checking": "checking what was read before",
    "reading": "reading",
    "sorting": "sorting tables",
    "writing": "writing arrays",
    "digesting": "digesting files",
}
_console = Console(stderr=True)


def load(
    files: list[str],
    name: str,
    languages: tuple[str, ...],
    form: Form | None,
    dump_date: str | None,
    replace: bool,
) -> dict[str, Any]:
    """Load dump files as a local graph, with progress, and return its manifest and the seconds it took."""
    started = time.perf_counter()
    with _shown(f"loading {name}") as show:
        manifest = load_graph(
            files,
            name,
            graphs_folder(home()),
            languages,
            lambda news: show(format_progress(news)),
            form=form,
            dump_date=dump_date,
            replace=replace,
            notice=_say,
        )
    return {**manifest.model_dump(mode="json"), "seconds": round(time.perf_counter() - started, 2)}


def listing() -> list[dict[str, Any]]:
    """Return name, state, edges and digest of every local graph and half load."""
    return [_describe(found) for found in list_graphs(graphs_folder(home()))]


def check(name: str, malformed: int = 0) -> dict[str, Any]:
    """Read all files of a graph, with progress; return of each what it should be and what is wrong with it.

    `malformed`: so many of the lines that were no triples are listed, where the graph is not damaged.
    """
    with _shown(f"checking {name}") as show:
        manifest, damage = check_graph(
            name, graphs_folder(home()), lambda read, total: show(f"{read / 1e6:,.0f} of {total / 1e6:,.0f} MB")
        )
    files = {file: {**told.model_dump(), "damage": damage.get(file)} for file, told in manifest.files.items()}
    lines: list[Any] = []
    if malformed and not damage:
        from tasks.graph.lookup import open_graph

        with open_graph(name, graphs_folder(home())) as graph:
            lines = [asdict(line) for line in graph.list_malformed(malformed)]
    told = {"malformed": manifest.malformed, "malformed_lines": lines, "files": files}
    return {"name": name, "digest": manifest.digest, "agrees": not damage, **told}


def format_progress(news: LoadProgress) -> str:
    """Return how far a load is in one line: phase, share, lines, rates and time left."""
    parts = [_PHASES[news.phase]]
    if news.phase in ("checking", "reading"):
        parts[0] = f"{parts[0]} {news.source}".rstrip()
        if news.bytes_total:
            parts.append(f"{100 * news.bytes_read / news.bytes_total:.0f} %")
    parts.append(f"{news.lines:,} lines")
    if news.phase == "reading":
        parts += [f"{news.lines_per_s:,.0f} lines/s", f"{news.text_bytes_per_s / 1e6:,.0f} MB/s"]
        if news.eta_s is not None:
            parts.append(f"all is read in {_format_time(news.eta_s)}")
    return ", ".join(parts)


def _describe(found: FoundGraph) -> dict[str, Any]:
    of_graph = found.manifest
    return {
        "name": found.name,
        "state": found.state,
        "edges": of_graph.stored["edges"] if of_graph else None,
        "digest": of_graph.digest if of_graph else None,
        "dump_date": of_graph.dump_date if of_graph else None,
        "advice": found.advice,
    }


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@contextmanager
def _shown(title: str) -> Iterator[Callable[[str], None]]:
    """Yield what takes the latest news: shown live on a terminal, elsewhere as a line now and then."""
    if not _console.is_terminal:
        with _print_now_and_then(title) as show:
            yield show
        return
    columns = (TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[note]}", markup=False))
    with Progress(*columns, console=_console) as bar:
        task = bar.add_task(title, note="")
        yield lambda note: bar.update(task, note=note)


@contextmanager
def _print_now_and_then(title: str) -> Iterator[Callable[[str], None]]:
    """Yield what takes the latest news; a thread prints them, so that long steps without any are seen too."""
    latest, is_over, started = [""], threading.Event(), time.monotonic()

    def print_latest() -> None:
        while not is_over.wait(NEWS_EVERY_S):
            _say(f"{title}: {_format_time(time.monotonic() - started)}, {latest[0]}")

    def take(note: str) -> None:
        latest[0] = note

    printer = threading.Thread(target=print_latest, daemon=True)
    printer.start()
    try:
        yield take
    finally:
        is_over.set()
        printer.join()


def _say(text: str) -> None:
    _console.print(text, markup=False, highlight=False, soft_wrap=True)
