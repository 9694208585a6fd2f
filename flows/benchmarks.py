"""The benchmarks that can be built: the list of their records."""

from tasks.biokalma.benchmark import BIOKALMA
from tasks.engine.benchmark import Benchmark
from tasks.errors import UsageError
from tasks.fanoutqa.benchmark import FANOUTQA
from tasks.granola.benchmark import GRANOLA
from tasks.multihal.benchmark import MULTIHAL
from tasks.slaq.benchmark import SLAQ
from tasks.text.suggestions import suggest_name

BENCHMARKS = {benchmark.name: benchmark for benchmark in (GRANOLA, MULTIHAL, BIOKALMA, SLAQ, FANOUTQA)}
"""By name, in the order in which `build all` makes them."""


def find_benchmark(name: str) -> Benchmark:
    """Return a benchmark by name; UsageError when there is none."""
    if name not in BENCHMARKS:
        there = ", ".join(BENCHMARKS)
        raise UsageError(f"no benchmark {name!r}; there are: {there}{suggest_name(name, BENCHMARKS)}")
    return BENCHMARKS[name]
