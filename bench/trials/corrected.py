"""Measure how often the interval of a rate corrected for a judge's errors contains the true rate.

    python bench trials.corrected [--samples 1000] [--seed 1] [--labels 120]

For each sensitivity and specificity, draws an evaluation of 100 topics with five facts each; some topics are
likelier to be answered correctly than others. The judge errs by its rates. People label a sample stratified by
verdict, as drawn by `factmill label --to`, from this evaluation or from another model's. Prints the share of samples
whose interval contains the true rate, corrected and raw, with Wilson's interval. Exits 1 when the coverage of a
corrected interval is below 93 %.
"""

import itertools

import numpy as np
from scripts import read_options

from factmill.tasks.core.evaluation.human_labels import allocate_equal_shares_to_strata
from factmill.tasks.core.measures.intervals import bootstrap_cluster_mean_interval, compute_wilson_interval
from factmill.tasks.core.measures.judge_correction import correct_judged_share, measure_judge_rates

TOPICS, FACTS = 100, 5
RATES = (0.7, 0.85, 0.97)
TRUE_RATES = (0.2, 0.5, 0.8)
LEAST = 0.93
DRAWS = 1_000


def judge_answers(
    rate: float, sensitivity: float, specificity: float, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return which answers are right and which the judge calls right (topics × facts)."""
    of_topic = draw.beta(4 * rate, 4 * (1 - rate), TOPICS)[:, None]
    right = draw.random((TOPICS, FACTS)) < of_topic
    called = np.where(right, draw.random(right.shape) < sensitivity, draw.random(right.shape) >= specificity)
    return right, called


def label(
    right: np.ndarray, called: np.ndarray, labels: int, draw: np.random.Generator
) -> tuple[list[int], list[float]]:
    """Return the positions of labelled answers, stratified by verdict, and their sampling weights."""
    places = {str(verdict): np.flatnonzero(called.ravel() == verdict) for verdict in (False, True)}
    sizes = {name: len(each) for name, each in places.items() if len(each)}
    chosen: list[int] = []
    weights: list[float] = []
    for name, size in allocate_equal_shares_to_strata(sizes, labels, 0).items():
        chosen += draw.choice(places[name], size, replace=False).tolist()
        weights += [sizes[name] / size] * size
    return chosen, weights


def hold(rate: float, rates: tuple[float, float], labels: int, transfers: bool, seed: int) -> tuple[bool, bool, float]:
    """Return whether one sample's corrected and raw intervals contain the true rate, and the corrected one's width."""
    draw = np.random.default_rng(seed)
    right, called = judge_answers(rate, *rates, draw)
    labelled = judge_answers(0.6, *rates, draw) if transfers else (right, called)
    chosen, weights = label(*labelled, labels, draw)
    people, judge = ([bool(side.ravel()[place]) for place in chosen] for side in labelled)
    topics = [str(topic) for topic in range(TOPICS)]
    of = [topics[place // FACTS] for place in chosen]
    found = measure_judge_rates(people, judge, of, weights, TOPICS * FACTS, DRAWS)
    said = called.sum(axis=1)
    sums = np.column_stack((np.full(TOPICS, FACTS), said, np.full(TOPICS, FACTS), said)).astype(np.float64)
    corrected = correct_judged_share(topics, sums, found, not transfers, draws=DRAWS)
    low, high = corrected[1] if corrected else (0.0, 1.0)
    raw = bootstrap_cluster_mean_interval(said.tolist(), [FACTS] * TOPICS, draws=DRAWS)
    return low <= rate <= high, raw[0] <= rate <= raw[1], high - low


def main() -> int:
    """Measure and print the coverage."""
    options = read_options(__doc__, samples=1000, seed=1, labels=120)
    worst, is_below = 1.0, False
    print("labels of   true  sens  spec  corrected [95 %]         width  raw")
    for transfers, rate, *rates in itertools.product((False, True), TRUE_RATES, RATES, RATES):
        samples = [
            hold(rate, (rates[0], rates[1]), options.labels, transfers, options.seed * 1_000_000 + sample)
            for sample in range(options.samples)
        ]
        held, raw = (sum(sample[at] for sample in samples) for at in (0, 1))
        low, high = compute_wilson_interval(held, options.samples)
        width = sum(sample[2] for sample in samples) / options.samples
        worst, is_below = min(worst, held / options.samples), is_below or high < LEAST
        whose = "another" if transfers else "its own"
        print(
            f"{whose:10} {rate:5.2f} {rates[0]:5.2f} {rates[1]:5.2f}  {held / options.samples:.3f} [{low:.3f}, {high:.3f}]  "
            f"{width:8.3f}  {raw / options.samples:.3f}",
            flush=True,
        )
    print(f"least coverage: {worst:.3f}; expected at least {LEAST}")
    return int(is_below)
