"""How fast paths to dates and numbers are found, where items have few of them and where each has many."""

from pathlib import Path
from statistics import median

from speed.mining.mining_room import Room, rate_of
from speed.mining.mining_tasks import MIB, Result, run_task

KINDS = ("dates", "years", "numbers")


def measure_literals(
    room: Room, edges: int, literals: int, an_item: int, pairs: int, runs: int, before: Path | None
) -> None:
    """Print how many pairs with dates, years and numbers are answered a second in a graph with so many literals.

    They are spread over items, or lie `an_item` together. What was made and loaded in the folder earlier is used again.
    """
    name = f"literals-{literals}-{an_item}-edges-{edges}"
    work = room.folder / name
    asked = {"count": literals, "an_item": an_item, "pairs": pairs, "sets": runs + 1, "seed": room.seed, "work": work}
    print(f"\n## {literals:,} dates and numbers beside {edges:,} edges", end="")
    print(f", {an_item} an item" if an_item else "", flush=True)
    if not (room.home / name).exists():
        _load(room, edges, name, asked)
    elif not (work / f"pairs-{pairs}-{runs}").exists():
        run_task("save_pairs_of_literals", folder=room.make_graph(edges)[0], **asked)
    (work / f"pairs-{pairs}-{runs}").touch()
    checkouts = {"before": before} if before else {}
    for kind in KINDS:
        told: list[Result] = []
        for which, code in {**checkouts, "now": None}.items():
            found = run_task("find_literals", code, name=name, home=room.home, work=work, kind=kind, sets=runs + 1)
            cpu, paths = median(found["cpu_seconds"]) / pairs * 1e6, median(found["paths"])
            memory = found["memory"]["own_mib"]
            print(
                f"{kind:8}{which:8}{rate_of(found, pairs):11,.0f} pairs/s, {cpu:5.1f} µs of CPU a pair, {paths:,.0f} paths,"
                f" {memory:,.0f} MiB of its own",
                flush=True,
            )
            told.append(found)
            room.report.setdefault("literals", {}).setdefault(name, {}).setdefault(kind, {})[which] = found
        room.check(told[0]["sha256"] == told[-1]["sha256"], f"{name}, {kind}: other paths than before")


def _load(room: Room, edges: int, name: str, asked: Result) -> None:
    folder, path = room.make_graph(edges)[0], room.folder / f"{name}.nt"
    if not path.exists():
        partly = path.with_suffix(".partly")
        run_task("write_literal_file", folder=folder, out=partly, **asked)
        partly.rename(path)
    loaded = run_task("load_ours", path=path, name=name, home=room.home)
    path.unlink()
    print(
        f"loaded in {loaded['seconds']:.1f} s, {loaded['cpu_s']:.1f} of CPU: {loaded['arrays_bytes'] / MIB:,.0f} MiB of"
        f" arrays, {loaded['tables_bytes'] / MIB:,.0f} MiB of tables",
        flush=True,
    )
