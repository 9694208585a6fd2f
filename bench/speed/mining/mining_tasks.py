"""Run parts of the mining benchmark, each in its own process, so that time and memory are measured separately.

    python bench speed.mining.mining_tasks TASK '{"parameter": …}'        prints a JSON object

`run_task` starts a task and adds the cost of the whole process. Before a cold run, posix_fadvise drops a graph's pages
from the page cache; before the warm runs, they are read once. Warm runs still map each page for the first time.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

sys.path.insert(0, os.environ.get("MINING_CODE", str(Path(__file__).resolve().parents[3])))

from speed.mining.graph_maker import Edges, Ints, draw_pairs, make_edges, read_edges, save_edges
from speed.mining.literal_maker import FIRST_PID, PROPERTIES, draw_literals, save_literal_pairs, write_literals
from speed.mining.triple_maker import write_dump, write_triples

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20

Result = dict[str, Any]
T = TypeVar("T")


def run_task(task: str, code: Path | None = None, **parameters: Any) -> Result:
    """Run a task in a new process, optionally with another checkout's code; return `measure_command`'s result."""
    command = [sys.executable, str(Path(__file__).resolve()), task, json.dumps(parameters, default=str)]
    return measure_command(command, **({"MINING_CODE": str(code.resolve())} if code else {}))


def measure_command(command: list[str], *, is_json: bool = True, **environment: str) -> Result:
    """Run a command; return its JSON result, if any, with wall_s, cpu_s and peak_mib of the process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=errors, cwd=ROOT, env={**os.environ, **environment})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode:
            said = errors.read().decode()[-3000:]
            sys.exit(f"{' '.join(command)[:500]}\nended with {process.returncode}:\n{said}")
        result: Result = json.loads(out.read().decode().splitlines()[-1]) if is_json else {}
    used = {"wall_s": seconds, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}
    return {**result, **used}


def make_graph(edges: int, seed: int, folder: str) -> Result:
    """Make a graph and save its arrays."""
    made = make_edges(edges, seed)
    save_edges(made, Path(folder))
    degrees = np.sort(made.count_in_degrees())[::-1]
    out_degrees = np.diff(made.offsets)
    return {
        "edges": len(made),
        "items": len(made.items),
        "properties": len(made.properties),
        "in_degrees": degrees[[0, 1, 10, 100]].tolist(),
        "highest_out_degree": int(out_degrees.max()),
        "out_degree_of_an_edge": float((out_degrees.astype(float) ** 2).sum() / out_degrees.sum()),
    }


def make_pairs(folder: str, count: int, sets: int, seed: int, out: str) -> Result:
    """Draw sets of pairs; write set k to <out>/pairs-<k>.npy, two rows."""
    edges = read_edges(Path(folder))
    Path(out).mkdir(parents=True, exist_ok=True)
    for number in range(sets):
        np.save(Path(out) / f"pairs-{number}.npy", np.stack(draw_pairs(edges, count, seed + number)))
    return {}


def write_file(folder: str, out: str, kind: str, lines: int, seed: int) -> Result:
    """Write a graph as N-Triples: `edges` alone, with `labels`, or as a `dump` of `lines` lines."""
    edges = read_edges(Path(folder))
    with Path(out).open("wb") as file:
        if kind == "dump":
            written = write_dump(edges, lines, file, seed)
        else:
            written = write_triples(edges, file, labelled=kind == "labels")
        file.flush()
        os.fsync(file.fileno())  # otherwise the disk is still writing during the load
    return {"lines": written, "bytes": Path(out).stat().st_size}


def read_gzip(path: str) -> Result:
    """Unpack a file with Python's gzip and discard the text."""
    started, size = time.perf_counter(), 0
    with gzip.open(path) as file:
        while chunk := file.read(8 * MIB):
            size += len(chunk)
    return {"seconds": time.perf_counter() - started, "bytes": size}


def load_ours(path: str, name: str, home: str) -> Result:
    """Load N-Triples as a local graph."""
    from factmill.tasks.graph.load import load_graph

    started, cpu_started = time.perf_counter(), time.process_time()
    manifest = load_graph([path], name, Path(home), ("en",), replace=True)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    sizes = {file.name: file.stat().st_size for file in (Path(home) / name).iterdir()}
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "lines": manifest.lines,
        "malformed": manifest.malformed,
        "stored": manifest.stored,
        "arrays_bytes": sum(size for file, size in sizes.items() if file.endswith(".npy")),
        "tables_bytes": sum(size for file, size in sizes.items() if file.endswith(".duckdb")),
    }


def load_oxigraph(path: str, store: str) -> Result:
    """Load N-Triples with pyoxigraph, for queries."""
    import speed.mining.mining_peers as peers

    shutil.rmtree(store, ignore_errors=True)
    started = time.perf_counter()
    peers.load_oxigraph(Path(path), Path(store))
    return {"seconds": time.perf_counter() - started}


def drop_pages(folder: Path) -> None:
    """Ask the kernel to drop the files of a folder from the page cache."""
    for file in folder.iterdir():
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def read_pages(folder: Path) -> None:
    """Read the files of a folder into the page cache without mapping them."""
    for file in folder.iterdir():
        with file.open("rb", buffering=0) as stream:
            while stream.read(8 * MIB):
                pass


def read_memory() -> dict[str, float]:
    """Return this process's resident memory in MiB: total, peak, mapped from files, and anonymous."""
    names = {"VmRSS": "resident_mib", "VmHWM": "highest_mib", "RssFile": "mapped_mib", "RssAnon": "own_mib"}
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {names[line[0][:-1]]: int(line[1]) / 1024 for line in lines if line[0][:-1] in names}


def warm_up_ours(name: str, home: str, pairs: str) -> Result:
    """Open a graph and find the paths of one pair: the start-up cost of a new process."""
    return {"open_s": (opened := _open_ours(name, home))[1], "first_call_s": _find_first(opened[0], Path(pairs))}


def _open_ours(name: str, home: str) -> tuple[Any, float]:
    from factmill.tasks.graph.lookup import open_graph

    started = time.perf_counter()
    graph = open_graph(name, Path(home))
    return graph, time.perf_counter() - started


def _find_first(graph: Any, pairs: Path) -> float:
    subjects, objects = np.load(pairs / "pairs-0.npy")[:, :1]
    started = time.perf_counter()
    _find_ours(graph, subjects, objects)
    return time.perf_counter() - started


def _find_ours(graph: Any, subjects: Ints, objects: Ints, out: Path | None = None) -> Any:
    """Find paths; write them as an Arrow file if `out` is given."""
    from factmill.tasks.core.wikidata_paths import PathSearchOptions

    found = graph.find_item_paths(subjects, objects, PathSearchOptions(always_two_hops=True, max_paths=None))
    if out:
        with pa.ipc.new_file(out, found.paths.schema) as writer:
            writer.write_table(found.paths)
    return found


def find_ours(name: str, home: str, pairs: str, sets: int, out: str, cores: int | None = None) -> Result:
    """Time factmill's finder: set 0 with cold pages, the others warm; write paths to <out>/ours-<k>.arrow."""
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    folder = Path(home) / name
    drop_pages(folder)
    graph, open_s = _open_ours(name, home)
    opened = read_memory()
    first_s = _find_first(graph, Path(pairs))
    before = read_memory()["mapped_mib"]
    seconds, cpu, wrong = [], [], 0
    for number in range(sets):
        file = Path(out) / f"ours-{number}.arrow"
        found, took, used = _time(partial(_find_ours, graph, out=file), *_read_pairs(Path(pairs), number))
        wrong += _count_wrong_status(found)
        seconds.append(took)
        cpu.append(used)
        if number == 0:
            cold_mapped_mib = read_memory()["mapped_mib"] - before
            read_pages(folder)
    return {
        "open_s": open_s,
        "first_call_s": first_s,
        "cold_s": seconds[0],
        "cold_mapped_mib": cold_mapped_mib,
        "seconds": seconds[1:],
        "cpu_seconds": cpu[1:],
        "wrong_status": wrong,
        "opened": opened,
        "memory": read_memory(),
    }


def _count_wrong_status(found: Any) -> int:
    """Return the number of pairs whose status contradicts their paths."""
    rows = np.bincount(found.paths["pair"].to_numpy(), minlength=found.pairs.num_rows)
    status = found.pairs["status"].to_numpy(zero_copy_only=False)
    right = (found.pairs["total"].to_numpy() == rows) & (found.pairs["kept"].to_numpy() == rows)
    right &= np.where(rows > 0, status == "found", np.isin(status, ["none", "unknown_subject", "unknown_object"]))
    return int((~right).sum())


def _read_pairs(pairs: Path, number: int) -> Ints:
    """Return a set of pairs, two rows."""
    return np.load(pairs / f"pairs-{number}.npy")


def _time(find: Callable[..., T], subjects: Ints, objects: Any) -> tuple[T, float, float]:
    """Return a finder's result, its wall seconds, and its CPU seconds."""
    started, cpu_started = time.perf_counter(), time.process_time()
    found = find(subjects, objects)
    return found, time.perf_counter() - started, time.process_time() - cpu_started


def write_literal_file(folder: str, out: str, count: int, an_item: int, seed: int, **sets: Any) -> Result:
    """Write a graph with `count` dates and numbers as N-Triples, and sets of pairs to search paths to them."""
    edges = read_edges(Path(folder))
    with Path(out).open("wb") as file:
        written = write_triples(edges, file) + write_literals(edges, draw_literals(edges, count, seed, an_item), file)
    save_pairs_of_literals(folder, count, an_item, seed, **sets)
    return {"lines": written}


def save_pairs_of_literals(
    folder: str, count: int, an_item: int, seed: int, pairs: int, sets: int, work: str
) -> Result:
    """Write only the sets of pairs."""
    edges = read_edges(Path(folder))
    Path(work).mkdir(parents=True, exist_ok=True)
    save_literal_pairs(edges, draw_literals(edges, count, seed, an_item), pairs, sets, seed, Path(work))
    return {}


def find_literals(name: str, home: str, work: str, kind: str, sets: int) -> Result:
    """Time paths to dates, years of dates, or numbers with warm pages; set 0 does not count."""
    from factmill.tasks.core.wikidata_paths import PathSearchOptions
    from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

    read_pages(Path(home) / name)
    graph, _ = _open_ours(name, home)
    options = PathSearchOptions(always_two_hops=True, max_paths=None)
    counted = frozenset(range(FIRST_PID, FIRST_PID + PROPERTIES))
    seconds, cpu, paths, digest = [], [], [], hashlib.sha256()
    for number in range(sets):
        subjects, values = np.load(Path(work) / f"{'numbers' if kind == 'numbers' else 'dates'}-{number}.npy")
        wanted: Any = [WantedNumberWithUnit(str(value)) for value in values.tolist()]
        if kind != "numbers":
            days = values.astype("datetime64[D]").tolist()
            wanted = [PartialDate(day.year, *((day.month, day.day) if kind == "dates" else ())) for day in days]
        find = partial(graph.find_literal_paths, properties=counted, options=options)
        found, took, used = _time(find, subjects, wanted)
        seconds.append(took)
        cpu.append(used)
        paths.append(len(found.paths))
        digest.update(repr([found.paths.to_pydict(), found.pairs.to_pydict()]).encode())
    return {
        "seconds": seconds[1:],
        "cpu_seconds": cpu[1:],
        "paths": paths[1:],
        "sha256": digest.hexdigest(),
        "memory": read_memory(),
    }


def find_like(peer: str, folder: str, place: str, pairs: str, sets: int, out: str, sample: int) -> Result:
    """Time a peer on sets 1 and up, with the form that was fastest on `sample` pairs of set 0."""
    finders = _list_finders(peer, read_edges(Path(folder)), Path(place))
    everything = _read_pairs(Path(pairs), 0)
    trials: dict[str, float] = {}
    for name, make in finders.items():
        find = make()
        find(*everything[:, -50:])
        trials[name] = sample / _time(find, *everything[:, :sample])[1]
    best = max(trials, key=lambda name: trials[name])
    find = finders[best]()
    find(*everything)  # warms this form's pages
    seconds, cpu = [], []
    for number in range(1, sets):
        rows, took, used = _time(find, *_read_pairs(Path(pairs), number))
        seconds.append(took)
        cpu.append(used)
        np.save(Path(out) / f"{peer}-{number}.npy", rows)
    return {"form": best, "trials": trials, "seconds": seconds, "cpu_seconds": cpu, "memory": read_memory()}


def _list_finders(peer: str, edges: Edges, place: Path) -> dict[str, Callable[[], Callable[[Ints, Ints], Ints]]]:
    """Return a function for each form of a peer that opens it."""
    import speed.mining.mining_peers as peers

    if peer == "numpy":
        find = peers.open_numpy(edges)
        return {"from the end with fewer edges": lambda: find}
    if peer == "duckdb":
        return {form: partial(peers.open_duckdb, edges, place, form) for form in peers.DUCKDB_FORMS}
    return {
        f"{form}, {count:,} pairs a query": partial(peers.open_oxigraph, place, form, count)
        for form in peers.SPARQL_FORMS
        for count in peers.SPARQL_BATCHES
    }


def grow(name: str, home: str, pairs: str, batches: list[int]) -> Result:
    """Time factmill's finder on batches of several sizes with warm pages; return the median per size.

    Runs use different pairs as far as the pairs suffice."""
    read_pages(Path(home) / name)
    graph, open_s = _open_ours(name, home)
    _find_first(graph, Path(pairs))
    subjects, objects = np.load(Path(pairs) / "pairs-0.npy")
    medians: dict[str, float] = {}
    for size in batches:
        runs = min(20, max(3, len(subjects) // size))
        seconds = []
        for run in range(runs):
            chosen = np.arange(run * size, (run + 1) * size) % len(subjects)
            started = time.perf_counter()
            _find_ours(graph, subjects[chosen], objects[chosen])
            seconds.append(time.perf_counter() - started)
        medians[str(size)] = float(np.median(seconds))
    return {"open_s": open_s, "medians": medians, "memory": read_memory()}


TASKS: dict[str, Callable[..., Result]] = {
    each.__name__: each
    for each in (
        make_graph, make_pairs, write_file, write_literal_file, save_pairs_of_literals, read_gzip, load_ours, load_oxigraph, warm_up_ours, find_ours, find_literals, find_like, grow,
    )
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
