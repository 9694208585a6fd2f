"""Time unpacking bzip2 on several cores against Arrow's reader, which uses one.

    python bench speed.mining.unpacking [--lines 0.4] [--cores 1 2] [--runs 3]

The text is N-Triples in the mixture of a truthy dump (triple_maker.py), compressed by Python. The fastest run
counts.
"""

import bz2
import io
import os
import sys
import time
from collections.abc import Callable

import pyarrow as pa
from scripts import read_options
from speed.mining.graph_maker import make_edges
from speed.mining.triple_maker import EDGE_SHARE, write_dump

from factmill.tasks.graph.loading.sources import bzip2


def read(stream: "bzip2.Bzip2Stream | pa.CompressedInputStream") -> int:
    """Return the number of bytes in a stream."""
    buffer, size = memoryview(bytearray(8 << 20)), 0
    while got := stream.readinto(buffer):
        size += got
    stream.close()
    return size


def read_on_cores(packed: bytes, cores: int) -> int:
    """Return the number of bytes unpacked on `cores` cores."""
    bzip2._CORES, bzip2._MAX_PENDING_BLOCKS = cores, 2 * cores + 2
    return read(bzip2.ParallelBzip2Stream(io.BytesIO(packed)))


def measure(name: str, unpack: Callable[[], int], size: int, runs: int) -> None:
    """Print MB of text per second and per second of CPU."""
    took = []
    for _ in range(runs):
        started, cpu_started = time.perf_counter(), time.process_time()
        if unpack() != size:
            sys.exit(f"{name}: other bytes than were packed")
        took.append((time.perf_counter() - started, time.process_time() - cpu_started))
    seconds, cpu = min(took)
    print(f"{name:16}{size / seconds / 1e6:8,.0f} MB/s{size / cpu / 1e6:8,.0f} MB a second of CPU", flush=True)


def main() -> None:
    """Print a line per reader."""
    options = read_options(__doc__, lines=(0.4, "in millions"), cores=[1, os.cpu_count() or 1], runs=3)
    lines, text = round(options.lines * 1_000_000), io.BytesIO()
    write_dump(make_edges(round(lines * EDGE_SHARE), 7), lines, text, 7)
    size, packed = len(text.getvalue()), bz2.compress(text.getvalue())
    print(f"{size:,} bytes, packed {len(packed):,}; load of the machine {os.getloadavg()[0]:.1f}")
    measure("Arrow", lambda: read(pa.CompressedInputStream(pa.BufferReader(packed), "bz2")), size, options.runs)
    for cores in options.cores:
        measure(f"ours, {cores} cores", lambda cores=cores: read_on_cores(packed, cores), size, options.runs)  # type: ignore[misc]
