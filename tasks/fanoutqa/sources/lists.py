"""The lists that fan-out questions are made from (data/lists)."""

from functools import cache

from tasks.assets import asset_path
from tasks.fanoutqa.core.sets.lists import Property, SetKind, read_fanout_properties, read_fanout_sets


@cache
def load_fanout_sets() -> dict[str, SetKind]:
    """Return unit → kind of sets that fan-out questions are made from, from `data/lists/fanout_sets.csv`."""
    return read_fanout_sets(asset_path("data/lists", "fanout_sets.csv").read_text("utf-8"))


@cache
def load_fanout_properties() -> dict[tuple[str, str], Property]:
    """Return (PID, members or empty) → how a property is asked, from `data/lists/fanout_properties.csv`."""
    return read_fanout_properties(asset_path("data/lists", "fanout_properties.csv").read_text("utf-8"))
