"""The evaluations that can be made: the list of their records."""

from flows.benchmarks import find_benchmark
from tasks.biokalma.evaluation.record import BIOKALMA_EVALUATION
from tasks.engine.benchmark import Benchmark
from tasks.evaluation.record import Evaluation
from tasks.fanoutqa.evaluation.record import FANOUTQA_EVALUATION
from tasks.granola.evaluation.record import GRANOLA_EVALUATION
from tasks.multihal.evaluation.record import MULTIHAL_EVALUATION
from tasks.slaq.evaluation.record import SLAQ_EVALUATION
from tasks.slaq.mechanism.record import MECHANISM

EVALUATIONS: dict[str, Evaluation] = {
    each.of.name: each
    for each in (GRANOLA_EVALUATION, MULTIHAL_EVALUATION, BIOKALMA_EVALUATION, SLAQ_EVALUATION, FANOUTQA_EVALUATION)
}
"""By the name of the benchmark that they measure on, in the order in which `evaluate all` makes them."""


def find_record(name: str) -> Benchmark:
    """Return a benchmark by name, or what is made of one by that of its builds: an evaluation, or what looks into evaluations;
    UsageError when there is none."""
    made = {each.name: each for each in (*EVALUATIONS.values(), MECHANISM)}
    return made.get(name) or find_benchmark(name)
