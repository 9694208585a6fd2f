"""Format the growth table of graphs of some million edges, and an estimate for the whole truthy Wikidata.

The estimate states the rule of each extrapolation. The dump's size and MultiHal's number of pairs are assumptions,
which the command line can replace. MultiHal's 624 hours of queries for about 31 thousand questions are from its
paper (§1 and Appendix J).
"""

from dataclasses import dataclass, field, fields
from math import log

GIB, MIB, BILLION = 1 << 30, 1 << 20, 1e9
BYTES_AN_EDGE = 12
"""Of the arrays (tasks/graph/arrays.py): 4 bytes of position and 2 of property, in both directions."""
PAPER_HOURS = 624


@dataclass(frozen=True, slots=True)
class Dump:
    """Assumptions about the whole dump and MultiHal."""

    triples: float = field(default=8.0, metadata={"meaning": "triples of the truthy dump, in billions"})
    edges: float = field(default=1.55, metadata={"meaning": "of them direct claims from item to item, in billions"})
    items: float = field(default=0.115, metadata={"meaning": "items, in billions"})
    questions: float = field(default=31_000, metadata={"meaning": "questions of MultiHal"})
    pairs: float = field(default=30, metadata={"meaning": "pairs of subject and object a question"})

    @classmethod
    def describe(cls) -> dict[str, tuple[float, str]]:
        """Return the default and meaning of each assumption."""
        return {each.name: (each.default, each.metadata["meaning"]) for each in fields(cls)}  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of one random graph."""

    edges: int
    items: int
    load_s: float
    load_cpu_s: float
    load_peak_mib: float
    arrays_bytes: int
    tables_bytes: int
    seconds: dict[int, float]
    """Pairs in a batch → median seconds, with pages in the page cache."""
    open_s: float
    highest_mib: float
    """Resident memory of the process that answered all batches."""
    cold_pairs: int
    cold_s: float
    """Seconds of a batch of `cold_pairs` pairs with no page in memory."""
    cold_mapped_mib: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """Measurements of loading all kinds of lines that a dump has."""

    lines: int
    edges: int
    load_s: float
    load_cpu_s: float
    tables_bytes: int


def format_growth(measured: list[Measured]) -> str:
    """Return the table of measurements."""
    heads = "".join(f"{f'{each.edges:,} edges':>24}" for each in measured)
    lines = [f"\n## Growth\n\n{'':28}{heads}"]

    def add(name: str, cells: list[str]) -> None:
        lines.append(f"{name:28}" + "".join(f"{cell:>24}" for cell in cells))

    add("load, s", [f"{each.load_s:,.1f}" for each in measured])
    add("load, s of CPU", [f"{each.load_cpu_s:,.1f}" for each in measured])
    add("load, edges/s", [f"{each.edges / each.load_s:,.0f}" for each in measured])
    add("load, peak MiB", [f"{each.load_peak_mib:,.0f}" for each in measured])
    add("arrays, bytes an edge", [f"{each.arrays_bytes / each.edges:.1f}" for each in measured])
    add("tables, bytes an edge", [f"{each.tables_bytes / each.edges:.1f}" for each in measured])
    add("open, ms", [f"{each.open_s * 1000:.1f}" for each in measured])
    for size in measured[0].seconds:
        cells = [f"{each.seconds[size] * 1000:,.2f} ms {size / each.seconds[size]:>11,.0f}/s" for each in measured]
        add(f"{size:,} pair{'s' if size > 1 else ''}", cells)
    name = f"{measured[0].cold_pairs:,} pairs, cold pages"
    add(name, [f"{each.cold_s * 1000:,.2f} ms {each.cold_pairs / each.cold_s:>11,.0f}/s" for each in measured])
    add("files mapped by them, MiB", [f"{each.cold_mapped_mib:,.0f}" for each in measured])
    add("highest memory, MiB", [f"{each.highest_mib:,.0f}" for each in measured])
    return "\n".join(lines)


def format_estimate(measured: list[Measured], mixture: Mixture, dump: Dump) -> str:
    """Return the estimate for the whole dump from the two largest graphs and the mixture; needs two graphs."""
    if len(measured) < 2:
        return "No estimate: it takes graphs of two sizes."
    small, large = measured[-2:]
    times = dump.edges * BILLION / large.edges
    bend = max(1.0, _slope(small, large, small.load_s, large.load_s))
    edge_s = large.load_s / large.edges
    other_s = max(0.0, mixture.load_s - mixture.edges * edge_s) / (mixture.lines - mixture.edges)
    others = (dump.triples - dump.edges) * BILLION * other_s
    linear_h, bent_h = ((others + large.load_s * times**power) / 3600 for power in (1.0, bend))
    edge_cpu_s = large.load_cpu_s / large.edges
    other_cpu_s = max(0.0, mixture.load_cpu_s - mixture.edges * edge_cpu_s) / (mixture.lines - mixture.edges)
    cpu_h = BILLION * (dump.edges * edge_cpu_s + (dump.triples - dump.edges) * other_cpu_s) / 3600
    item_bytes = (large.arrays_bytes - BYTES_AN_EDGE * large.edges) / large.items
    arrays = BYTES_AN_EDGE * dump.edges * BILLION + item_bytes * dump.items * BILLION
    tables = mixture.tables_bytes / mixture.lines * dump.triples * BILLION
    batch = max(size for size in large.seconds if size <= 10_000)
    rate = batch / large.seconds[batch]
    fall = min(0.0, _slope(small, large, batch / small.seconds[batch], rate))
    warm, cold = rate * times**fall, large.cold_pairs / large.cold_s
    pairs = dump.questions * dump.pairs
    return f"""
## The whole truthy Wikidata, estimated
Assumed: {dump.triples:g} billion triples, {dump.edges:g} billion of them edges between {dump.items * 1000:g} million items; MultiHal's
{dump.questions:,.0f} questions with {dump.pairs:g} pairs each are {pairs:,.0f} pairs.
Measured: the table above, and {mixture.lines:,} lines of a dump-like mixture loaded in {mixture.load_s:.1f} s. The rest is extrapolated:
- Load: {linear_h:.1f} hours if edges cost what they cost at {large.edges:,} ({edge_s * 1e6:.2f} µs; other lines {other_s * 1e6:.2f} µs); {bent_h:.1f} if
  their cost bends on as from {small.edges:,} to {large.edges:,} (power {bend:.2f}). Unpacking the file comes on top where it is slower.
  By CPU, which other work on this machine disturbs less: {cpu_h:.1f} hours, if edges cost what they cost at {large.edges:,}.
- Disk: arrays {arrays / GIB:.1f} GiB ({BYTES_AN_EDGE} bytes an edge by their layout, {item_bytes:.1f} an item as measured), tables {tables / GIB:.0f} GiB
  (as the mixture: {mixture.tables_bytes / mixture.lines:.1f} bytes a triple); sorting needs about that once more while loading.
- Memory: a pair whose pages are all new brings {large.cold_mapped_mib * MIB / large.cold_pairs / 1024:.0f} KiB of files into memory (measured at {large.edges:,}
  edges, reading ahead included); all stay there on a machine with {arrays / GIB:.0f} GiB to spare.
- Pairs: {warm:,.0f} a second with pages in memory (measured {rate:,.0f} at {large.edges:,}; on from there with power {fall:.2f});
  {cold:,.0f} a second while every page is new, as measured for the first {large.cold_pairs:,} at {large.edges:,} on this disk.
- MultiHal's mining of item paths: {pairs / warm:,.1f} s warm, {pairs / cold:,.0f} s if no two pairs shared a page; the paper's queries took {PAPER_HOURS}
  hours, those for dates and numbers included."""


def _slope(small: Measured, large: Measured, before: float, after: float) -> float:
    """Return the power of the number of edges by which a figure changes."""
    return log(after / before) / log(large.edges / small.edges)
