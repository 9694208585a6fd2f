"""Measure path search and graph loading in a local graph and their growth with size, against peers in the same run.

    python bench speed.mining.mining [speed] [literals] [loading] [growth] [--edges 10 50] [--pairs 10000] [--runs 9] [--seed 7]

speed     batches of pairs, a third of which have paths, on random graphs shaped like Wikidata (graph_maker.py): finds
          all paths of one and two hops in both directions and writes them as Arrow. factmill, plain numpy, DuckDB, and
          SPARQL on Oxigraph get the same pairs; each peer first tries several query forms and keeps its fastest. Every
          path is compared. factmill's memory is measured in a process that does nothing else.
literals  batches of pairs of an item and a date, its year, or a number. In a third the item has the value, in a third
          an item it points at. Literals are spread over items, or clustered. --before also runs another checkout.
loading   the same N-Triples loaded by factmill and by `oxigraph load`: edges with labels, and the mixture of a truthy
          dump. Also measures unpacking gzip alone.
growth    graphs of 1 million edges and up, batches of 1 pair and up; gives an estimate for the whole truthy Wikidata.

Each contender runs in its own processes, one after the other. All data follow from the seed. Without --folder, files go
to a temporary folder; 50 million edges need about 12 GB. Exits 1 when any paths differ.
"""

import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from scripts import read_options
from speed.mining.graph_maker import Ints
from speed.mining.mining_estimate import Dump, Measured, Mixture, format_estimate, format_growth
from speed.mining.mining_tasks import MIB, Result, measure_command, run_task
from speed.mining.mining_workspace import Workspace, rate_of
from speed.mining.triple_maker import EDGE_SHARE

MILLION = 1_000_000
LITERAL_KINDS = ("dates", "years", "numbers")
SECTIONS = ("speed", "literals", "loading", "growth")
BATCHES = (1, 10, 100, 1_000, 10_000, 100_000)
COLD_PAIRS = 1_000
"""Few, since many pairs would load a graph of this size into memory whole, unlike a graph of a whole dump."""
SPARQL_TRIALS, TRIALS = 1_000, 10_000
COLUMNS = ("pair", "hops", "backward", "middle", "property_1", "property_2")


def measure_speed(workspace: Workspace, edges: int, pairs: int, runs: int, sparql_edges: int) -> None:
    """Print a table of factmill and the peers on one graph."""
    folder, made = workspace.make_graph(edges)
    name, loaded = workspace.load_graph(edges)
    work = workspace.folder / f"speed-{edges}"
    run_task("make_pairs", folder=folder, count=pairs, sets=runs + 1, seed=workspace.seed, out=work)
    first = run_task("warm_up_ours", name=name, home=workspace.home, pairs=work)
    request = {"name": name, "home": workspace.home, "pairs": work, "sets": runs + 1, "out": work}
    alone = run_task("find_ours", **request, cores=1)
    ours = run_task("find_ours", **request)
    _print_graph(made, loaded, first, ours, pairs)
    _print_heads()
    _print_row("ours", ours, pairs, None, ours)
    _print_row("on 1 core", alone, pairs, None, ours)
    workspace.check(ours["wrong_status"] == 0, f"{ours['wrong_status']} pairs whose status is not what their paths say")
    peers = {}
    for peer in ("numpy", "duckdb", "oxigraph"):
        if peer == "oxigraph" and edges > sparql_edges:
            print(f"{'oxigraph':10} not asked: more than {sparql_edges:,} edges (--sparql-edges)")
            continue
        place = work / peer
        if peer == "oxigraph":
            triples = workspace.write_triples(edges)
            run_task("load_oxigraph", path=triples, store=place)
            triples.unlink()
        sample = min(pairs, SPARQL_TRIALS if peer == "oxigraph" else TRIALS)
        peers[peer] = run_task(
            "find_like", peer=peer, folder=folder, place=place, pairs=work, sets=runs + 1, out=work, sample=sample
        )
        same = [_compare(work, peer, number) for number in range(1, runs + 1)]
        _print_row(peer, peers[peer], pairs, all(same), ours)
        workspace.check(all(same), f"{peer}: other paths than ours in {same.count(False)} of {runs} sets")
    for peer, result in peers.items():
        ranked = sorted(result["trials"].items(), key=lambda trial: -trial[1])
        tried = "; ".join(f"{form}: {rate:,.0f}" for form, rate in (*ranked[:2], *ranked[2:][-1:]))
        print(f"{peer}, {len(ranked)} ways tried, pairs/s of the quickest two and the slowest: {tried}")
    found = [len(np.unique(_read_ours(work, number)[:, 0])) / pairs for number in range(1, runs + 1)]
    paths = [len(_read_ours(work, number)) for number in range(1, runs + 1)]
    print(f"Pairs with paths: {min(found):.1%}–{max(found):.1%} a set; paths: {min(paths):,}–{max(paths):,} a set")
    shutil.rmtree(work)
    workspace.report.setdefault("speed", {})[edges] = {
        "ours": ours,
        "ours_on_1_core": alone,
        "first": first,
        "peers": peers,
        "with_paths": found,
    }


def _print_graph(made: Result, loaded: Result, first: Result, ours: Result, pairs: int) -> None:
    memory, degrees = ours["memory"], made["in_degrees"]
    print(
        f"\n## {made['edges']:,} edges, {made['items']:,} items, {made['properties']:,} properties\n"
        f"In-degrees: highest {degrees[0]:,}, 2nd {degrees[1]:,}, 11th {degrees[2]:,}, 101st {degrees[3]:,}; "
        f"highest out-degree {made['highest_out_degree']:,}, of an edge's subject {made['out_degree_of_an_edge']:.1f}\n"
        f"Loaded in {loaded['seconds']:.1f} s, {loaded['arrays_bytes'] / MIB:,.0f} MiB of arrays and "
        f"{loaded['tables_bytes'] / MIB:,.0f} MiB of tables\n"
        f"Opened in {ours['open_s'] * 1000:.1f} ms (first time {first['open_s'] * 1000:.1f} ms); first call of a "
        f"process {first['first_call_s']:.2f} s, of a later one {ours['first_call_s']:.2f} s (numba compiles what it has not "
        "kept)\n"
        f"Cold pages: {ours['cold_s']:.2f} s for the first {pairs:,} pairs ({pairs / ours['cold_s']:,.0f} pairs/s), "
        f"{ours['cold_mapped_mib']:,.0f} MiB of files mapped by them\n"
        f"Resident memory of our process: highest {memory['highest_mib']:,.0f} MiB, after all runs "
        f"{memory['resident_mib']:,.0f} MiB, of it {memory['mapped_mib']:,.0f} MiB mapped files"
    )


def _print_heads() -> None:
    print(
        f"\n{'':10}{'pairs/s':>11}{'slowest':>11}{'quickest':>11}{'CPU µs a pair':>15}{'same paths':>12}"
        f"{'ours is':>10}{'peak MiB':>10}  way"
    )


def _print_row(name: str, result: Result, pairs: int, same: bool | None, ours: Result) -> None:
    seconds, verdict = result["seconds"], {None: "", True: "yes", False: "NO"}[same]
    rate = pairs / median(seconds)
    ratio = "" if same is None else f"{rate_of(ours, pairs) / rate:,.1f}×"
    print(
        f"{name:10}{rate:11,.0f}{pairs / max(seconds):11,.0f}{pairs / min(seconds):11,.0f}"
        f"{median(result['cpu_seconds']) / pairs * 1e6:15.2f}{verdict:>12}{ratio:>10}"
        f"{result['memory']['highest_mib']:10,.0f}  {result.get('form', '')}",
        flush=True,
    )


def _read_ours(work: Path, number: int) -> Ints:
    """Return factmill's paths in the peers' form: six integer columns, -1 for null, in factmill's order."""
    with pa.memory_map(str(work / f"ours-{number}.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
    columns = [table[name].cast(pa.int64() if name != "backward" else pa.int8()).fill_null(-1) for name in COLUMNS]
    return np.stack([column.to_numpy().astype(np.int64) for column in columns], axis=1)


def _compare(work: Path, peer: str, number: int) -> bool:
    """Return True when a peer's paths equal factmill's, in the same order."""
    return np.array_equal(_read_ours(work, number), np.load(work / f"{peer}-{number}.npy"))


def measure_literals(
    workspace: Workspace, edges: int, literals: int, an_item: int, pairs: int, runs: int, before: Path | None
) -> None:
    """Print the pairs per second with dates, years and numbers in a graph with `literals` literals.

    Literals are spread over items, or clustered with `an_item` per item. Files and graphs from an earlier run in the
    folder are reused.
    """
    name = f"literals-{literals}-{an_item}-edges-{edges}"
    work = workspace.folder / name
    asked = {
        "count": literals,
        "an_item": an_item,
        "pairs": pairs,
        "sets": runs + 1,
        "seed": workspace.seed,
        "work": work,
    }
    print(f"\n## {literals:,} dates and numbers, {edges:,} edges", end="")
    print(f", {an_item} an item" if an_item else "", flush=True)
    if not (workspace.home / name).exists():
        _load_literals(workspace, edges, name, asked)
    elif not (work / f"pairs-{pairs}-{runs}").exists():
        run_task("save_pairs_of_literals", folder=workspace.make_graph(edges)[0], **asked)
    (work / f"pairs-{pairs}-{runs}").touch()
    checkouts = {"before": before} if before else {}
    for kind in LITERAL_KINDS:
        lines: list[Result] = []
        for which, code in {**checkouts, "now": None}.items():
            found = run_task("find_literals", code, name=name, home=workspace.home, work=work, kind=kind, sets=runs + 1)
            cpu, paths = median(found["cpu_seconds"]) / pairs * 1e6, median(found["paths"])
            memory = found["memory"]["own_mib"]
            print(
                f"{kind:8}{which:8}{rate_of(found, pairs):11,.0f} pairs/s, {cpu:5.1f} µs of CPU a pair, {paths:,.0f} paths,"
                f" {memory:,.0f} MiB of its own",
                flush=True,
            )
            lines.append(found)
            workspace.report.setdefault("literals", {}).setdefault(name, {}).setdefault(kind, {})[which] = found
        workspace.check(lines[0]["sha256"] == lines[-1]["sha256"], f"{name}, {kind}: other paths than before")


def _load_literals(workspace: Workspace, edges: int, name: str, asked: Result) -> None:
    folder, path = workspace.make_graph(edges)[0], workspace.folder / f"{name}.nt"
    if not path.exists():
        partly = path.with_suffix(".partly")
        run_task("write_literal_file", folder=folder, out=partly, **asked)
        partly.rename(path)
    loaded = run_task("load_ours", path=path, name=name, home=workspace.home)
    path.unlink()
    print(
        f"loaded in {loaded['seconds']:.1f} s, {loaded['cpu_s']:.1f} of CPU: {loaded['arrays_bytes'] / MIB:,.0f} MiB of"
        f" arrays, {loaded['tables_bytes'] / MIB:,.0f} MiB of tables",
        flush=True,
    )


def measure_loading(workspace: Workspace, lines: int) -> None:
    """Print a table of loading the same files with factmill and Oxigraph; seconds are those of whole processes."""
    heads = f"{'seconds':>9}{'triples/s':>12}{'ours is':>9}{'CPU s':>8}{'peak MiB':>10}{'MiB on disk':>13}"
    print(f"\n## Loading {lines:,} lines of N-Triples\n\n{'file':9}{'loader':25}{heads}", flush=True)
    for kind, edges in (("labels", lines * 3 // 4), ("dump", round(lines * EDGE_SHARE))):
        folder, _ = workspace.make_graph(edges)
        path = workspace.folder / f"{kind}.nt"
        written = run_task("write_file", folder=folder, out=path, kind=kind, lines=lines, seed=workspace.seed)["lines"]
        ours = run_task("load_ours", path=path, name=kind, home=workspace.home)
        workspace.check(ours["lines"] == written, f"{kind}: {ours['lines']:,} of {written:,} lines were read")
        workspace.check(ours["malformed"] == 0, f"{kind}: {ours['malformed']:,} malformed lines")
        workspace.check(ours["stored"]["edges"] == edges, f"{kind}: stored edges are not those written")
        results = {"ours": {**ours, "disk_bytes": ours["arrays_bytes"] + ours["tables_bytes"]}}
        results |= {f"oxigraph load{option}": _load_oxigraph(workspace, path, option) for option in ("", " --lenient")}
        for loader, result in results.items():
            ratio = "" if loader == "ours" else f"{result['wall_s'] / ours['wall_s']:.1f}×"
            print(
                f"{kind:9}{loader:25}{result['wall_s']:9.1f}{written / result['wall_s']:12,.0f}{ratio:>9}"
                f"{result['cpu_s']:8.1f}{result['peak_mib']:10,.0f}{result['disk_bytes'] / MIB:13,.0f}",
                flush=True,
            )
        results |= _measure_gzip(workspace, path, written, ours["wall_s"])
        workspace.report.setdefault("loading", {})[kind] = {"lines": written, **results}
    print(
        "labels: edges and an English label for each item, all of it kept; "
        "dump: the mixture of a truthy dump (triple_maker.py)"
    )


def _load_oxigraph(workspace: Workspace, path: Path, option: str) -> Result:
    """Load a file into a new store with Oxigraph's own command, and remove the store."""
    from factmill.tasks.world.serving import get_oxigraph_binary

    store = workspace.folder / "oxigraph"
    shutil.rmtree(store, ignore_errors=True)
    command = [str(get_oxigraph_binary()), "load", "--location", str(store), "--file", str(path), *option.split()]
    result = measure_command(command, is_json=False)
    disk_bytes = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    shutil.rmtree(store)
    os.sync()
    return {**result, "disk_bytes": disk_bytes}


def _measure_gzip(workspace: Workspace, path: Path, lines: int, plain_s: float) -> dict[str, Result]:
    """Compress a file, and print how loading it compares with unpacking it; remove both files."""
    kind, packed = path.stem, path.with_suffix(".nt.gz")
    measure_command(["gzip", "--force", str(path)], is_json=False)
    os.sync()
    python = run_task("read_gzip", path=packed)
    with_gzip = measure_command(["sh", "-c", f"gzip -dc '{packed}' > /dev/null"], is_json=False)
    ours = run_task("load_ours", path=packed, name=kind, home=workspace.home)
    print(
        f"{kind:9}{'ours, gzip':25}{ours['wall_s']:9.1f}{lines / ours['wall_s']:12,.0f}{'':9}{ours['cpu_s']:8.1f}"
        f"{ours['peak_mib']:10,.0f}\n{'':9}of which unpacking alone takes {python['seconds'] / ours['wall_s']:.0%} "
        f"(python, {python['seconds']:.1f} s) or {with_gzip['wall_s'] / ours['wall_s']:.0%} (gzip -dc, "
        f"{with_gzip['wall_s']:.1f} s); loading takes {ours['wall_s'] / plain_s:.2f} × the plain file's",
        flush=True,
    )
    packed.unlink()
    return {"ours, gzip": ours, "python gzip": python, "gzip -dc": with_gzip}


def measure_growth(workspace: Workspace, sizes: list[int], batches: list[int], dump: Dump) -> None:
    """Print how time, disk and memory grow, and the estimate for the whole of Wikidata."""
    measured = []
    for edges in sizes:
        folder, made = workspace.make_graph(edges)
        name, loaded = workspace.load_graph(edges)
        work = workspace.folder / f"growth-{edges}"
        run_task("make_pairs", folder=folder, count=max(batches), sets=1, seed=workspace.seed, out=work)
        grown = run_task("grow", name=name, home=workspace.home, pairs=work, batches=batches)
        run_task("make_pairs", folder=folder, count=COLD_PAIRS, sets=1, seed=workspace.seed, out=work)
        cold = run_task("find_ours", name=name, home=workspace.home, pairs=work, sets=1, out=work)
        shutil.rmtree(work)
        measured.append(
            Measured(
                edges=edges,
                items=made["items"],
                load_s=loaded["seconds"],
                load_cpu_s=loaded["cpu_seconds"],
                load_peak_mib=loaded["peak_mib"],
                arrays_bytes=loaded["arrays_bytes"],
                tables_bytes=loaded["tables_bytes"],
                seconds={int(size): seconds for size, seconds in grown["medians"].items()},
                open_s=grown["open_s"],
                highest_mib=grown["memory"]["highest_mib"],
                cold_pairs=COLD_PAIRS,
                cold_s=cold["cold_s"],
                cold_mapped_mib=cold["cold_mapped_mib"],
            )
        )
    print(format_growth(measured), flush=True)
    mixture = _load_mixture(workspace, sizes[-2] if len(sizes) > 1 else sizes[-1])
    print(format_estimate(measured, mixture, dump), flush=True)
    workspace.report["growth"] = {"measured": [asdict(each) for each in measured], "dump": asdict(dump)}


def _load_mixture(workspace: Workspace, lines: int) -> Mixture:
    """Load a dump-like mixture of lines, or reuse the result of the loading section."""
    done = workspace.report.get("loading", {}).get("dump")
    if done:
        lines, loaded = done["lines"], done["ours"]
    else:
        folder, _ = workspace.make_graph(round(lines * EDGE_SHARE))
        path = workspace.folder / "growth.nt"
        run_task("write_file", folder=folder, out=path, kind="dump", lines=lines, seed=workspace.seed)
        loaded = run_task("load_ours", path=path, name="growth", home=workspace.home)
        path.unlink()
    return Mixture(lines, loaded["stored"]["edges"], loaded["seconds"], loaded["cpu_seconds"], loaded["tables_bytes"])


def main() -> int:
    """Run the selected sections."""
    options = read_options(
        __doc__,
        sections=(list(SECTIONS), f"{', '.join(SECTIONS)}; all when none is given"),
        edges=([10.0, 50.0], "graphs of speed, in millions"),
        growth_edges=([1.0, 10.0, 50.0], "those of growth, in millions"),
        sparql_edges=(10.0, "ask Oxigraph on graphs up to so many millions"),
        literals=([2.5, 12.5], "dates and numbers, in millions"),
        crowded=([2.5], "those that lie together, in millions"),
        an_item=(75, "dates and numbers of an item where they lie together"),
        before=(Path, "another checkout, for literals"),
        lines=(10.0, "lines of loading, in millions"),
        pairs=(10_000, "pairs in a batch of speed"),
        batches=(list(BATCHES), "batches of growth"),
        runs=(9, "warm runs, each on pairs of its own"),
        seed=7,
        folder=(Path, "work here and use the graphs made here before (their edges, not loads)"),
        keep=(False, "leave the temporary folder"),
        json=(Path, "write all figures to this file"),
        **{f"dump_{name}": (float(default), meaning) for name, (default, meaning) in Dump.describe().items()},
    )
    if unknown := set(options.sections) - set(SECTIONS):
        sys.exit(f"no section {', '.join(sorted(unknown))}: give some of {', '.join(SECTIONS)}")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="mining-"))
    folder.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(folder.resolve(), options.seed)
    wanted = options.sections
    print(
        f"seed {workspace.seed}, {os.cpu_count()} cores, load of the machine {os.getloadavg()[0]:.1f}, in {workspace.folder}"
    )
    try:
        if "speed" in wanted:
            for size in options.edges:
                edges, most = round(size * MILLION), round(options.sparql_edges * MILLION)
                measure_speed(workspace, edges, options.pairs, options.runs, most)
        if "literals" in wanted:
            wanted_literals = [
                *((size, 0) for size in options.literals),
                *((size, options.an_item) for size in options.crowded),
            ]
            edges = round(options.edges[0] * MILLION)
            for size, an_item in wanted_literals:
                literals = round(size * MILLION)
                measure_literals(workspace, edges, literals, an_item, options.pairs, options.runs, options.before)
        if "loading" in wanted:
            measure_loading(workspace, round(options.lines * MILLION))
        if "growth" in wanted:
            dump = Dump(**{name: getattr(options, f"dump_{name}") for name in Dump.describe()})
            measure_growth(workspace, [round(size * MILLION) for size in options.growth_edges], options.batches, dump)
    finally:
        if not options.folder and not options.keep:
            shutil.rmtree(folder)
    print(f"\nload of the machine {os.getloadavg()[0]:.1f}; {workspace.bad} comparisons failed")
    if options.json:
        options.json.write_text(
            json.dumps({"seed": workspace.seed, "failed": workspace.bad, **workspace.report}, indent=1)
        )
    return 1 if workspace.bad else 0
