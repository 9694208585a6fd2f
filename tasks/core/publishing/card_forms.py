"""What a benchmark says of itself on the card of its releases, in prose: what its rows are, how each stage makes them, limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Beside = Mapping[str, tuple[float | str, float | str]]
"""Figure → here, in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardForms:
    """The prose of a card; Markdown."""

    about: str
    """What a row is, and what one measures with it."""
    steps: Mapping[str, str]
    """Stage of the recipe → what it does, in a sentence."""
    limits: tuple[str, ...]
    """What the rows are not, and what to heed when figures are read."""
    beside: Callable[[Mapping[str, Any], int], Beside] = lambda _facts, _rows: {}
    """Facts of a build's report and rows of the main table → figures beside the paper's, where the report has no shape."""
    headline: str = ""
    """Metric of its evaluations that stands for it (`Evaluation.main`)."""
    part_labels: Callable[[], Mapping[str, str]] = dict
    """What parts are called where their names alone say little: PID → label."""
    task: str = "question-answering"
    """As the Hugging Face Hub names tasks."""
