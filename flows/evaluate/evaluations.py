"""Registry of evaluations: those that the benchmarks' records name."""

from factmill.flows.benchmarks import BENCHMARKS, OWN_PACKAGE, PACKAGES, get_benchmark
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.evaluation.definition import Evaluation

EVALUATIONS: dict[str, Evaluation] = {}
"""Name of a benchmark → its evaluation, in the order of `evaluate all`."""
BROKEN_EVALUATIONS: dict[str, str] = {}
"""Name of a benchmark whose evaluation failed to load → package and reason."""


def _load_benchmark_evaluations() -> None:
    for name, benchmark in BENCHMARKS.items():
        if not benchmark.evaluation:
            continue
        try:
            EVALUATIONS[name] = load_named_object(benchmark.evaluation)
        except Exception as error:  # another package's code may fail in any way, and must not stop the others
            if PACKAGES[name].name == OWN_PACKAGE:
                raise
            BROKEN_EVALUATIONS[name] = f"{PACKAGES[name]}: {type(error).__name__}: {error}"


_load_benchmark_evaluations()


def list_evaluations_and_analyses() -> dict[str, Benchmark]:
    """Return name of its builds → record, for all evaluations and analyses of evaluations."""
    analyses = [load_named_object(each.analysis) for each in BENCHMARKS.values() if each.analysis]
    return {each.name: each for each in (*EVALUATIONS.values(), *analyses)}


def get_benchmark_or_evaluation(name: str) -> Benchmark:
    """Return the record of a benchmark, evaluation or analysis by name; UsageError if there is none."""
    return list_evaluations_and_analyses().get(name) or get_benchmark(name)
