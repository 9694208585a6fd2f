"""How an export writes tables beyond one form for all: which columns are spread, read as JSON, or go out as an array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExportForms:
    """What a benchmark's tables need."""

    spread: Mapping[str, str] = field(default_factory=dict)
    """List column that a CSV spreads into numbered columns → beginning of their names."""
    separators: Mapping[str, str] = field(default_factory=dict)
    """List column → what stands between its entries in a CSV, where that is not <SEP>."""
    csv_id: str | None = None
    """Column that a CSV has as `id`, where the paper's ids are not ours."""
    json_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Table → columns that hold JSON, which JSON Lines write as what they say."""
    arrays: tuple[str, ...] = ()
    """Tables that are also written as one JSON array."""
