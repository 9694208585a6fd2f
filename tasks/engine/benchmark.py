"""What a benchmark is to everything around it: one record, kept by the benchmark itself (tasks/<name>/benchmark.py).

Commands, deployments, locks and exports read the record and know no benchmark by name; flows/benchmarks.py lists them.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from tasks.core.measures.audits import Audit
from tasks.core.publishing.export_forms import ExportForms
from tasks.core.row_matching import Matching
from tasks.core.rows import StrictModel
from tasks.core.spending.forecasting import count_characters
from tasks.options import Params, RunOptions
from tasks.settings import ROLES, World
from tasks.storage.source_files import SourceFile

WIKIDATA_QUERIES = tuple(
    f"wikidata/{name}"
    for name in ("find_items", "describe_items", "label", "resolve_item", "neighbours", "list_facts", "item_facts")
)
"""Queries that every benchmark may ask of a Wikidata."""
WIKIDATA_SOURCE = "wikidata"
"""Source name that stands for the facts of the world's Wikidata."""


class Inputs(StrictModel):
    """What a build's steps read beside rows: its parameters, and what they come to in this world, by content."""

    resolved: ClassVar[frozenset[str]] = frozenset()
    """Parameters that other fields say by content (a path, by its file's digest). The lock leaves them out, so steps
    find their defaults."""
    params: Params

    def as_locked(self) -> dict[str, Any]:
        """Return the inputs as a lock holds them, JSON-able."""
        return self.model_dump(mode="json", exclude={"params": set(self.resolved)})


I_co = TypeVar("I_co", bound=Inputs, covariant=True)


@dataclass(frozen=True, slots=True)
class Locked(Generic[I_co]):
    """What a benchmark's build depends on, beside world, assets and code."""

    inputs: I_co
    files: Mapping[str, Sequence[SourceFile]] = field(default_factory=dict)
    """Unit of the source → its files; the lock has their names and digests."""
    wikidata: str | None = None
    """Identity of the Wikidata, where rows are made of its facts."""
    author: str = ""
    """Who writes, where it is not the world's author: the model that an evaluation measures."""
    notes: Sequence[str] = ()
    """What the user should know of the source before the build: files that are not used."""


@dataclass(frozen=True, slots=True)
class Assets:
    """Files of the project that a build reads: their digests are in its lock."""

    prompts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    """Files of data/lists."""
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SideTable:
    """A published table whose rows belong to rows of the main one; `explain` tells them with it."""

    table: str
    column: str
    """Holds the id of the main table's row."""
    explain: Callable[[Sequence[Any], Mapping[str, str]], Iterable[str]]
    """Rows of the table (its row model) and service → identity, as lines to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark."""

    name: str
    """Also that of its flow, and the beginning of its builds' ids."""
    title: str
    """A line that says what it is."""
    examples: tuple[str, ...]
    """Commands that build it."""
    params: type[Params]
    lock_inputs: Callable[[Any, RunOptions], Locked[Inputs]]
    """Parameters → what the build depends on; UsageError says what was expected."""
    recipe: str
    """Where its Prefect flow is: `module:function`. The flow takes `params` and `run`."""
    tables: Mapping[str, type[BaseModel]]
    """Published tables with their row models; each has an `id`."""
    main_table: str
    part: str
    """Column of the main table by which rows fall into parts: `show` spreads what it prints over them."""
    shown: Mapping[str, str]
    """Columns that `show` prints, with their headings."""
    trace: tuple[str, ...]
    """Columns whose values are ids of the row at earlier stages, under which its calls are filed."""
    matching: Matching = field(default_factory=Matching)
    """How its rows are found again in another build."""
    explain: Callable[[Any], Iterable[str]]
    """A row of the main table (its row model), as lines to read."""
    beside: tuple[SideTable, ...] = ()
    held_out: tuple[str, ...] = ()
    """Tables with answers of a test part, which exports leave out unless they are asked for."""
    forms: ExportForms = field(default_factory=ExportForms)
    assets: Assets = field(default_factory=Assets)
    needs: Callable[[Any], Sequence[str]] = lambda _: ()
    """Parameters → services that steps ask, by their sections in a world's file."""
    roles: Callable[[Any], Collection[str]] = lambda _: ROLES
    """Parameters → the world's models that it may ask."""
    pilot_at: str = ""
    """Stage before which a pilot draws its rows, where those before have to see all rows (a choice among them) or tell rows
    apart by what they will ask; empty: right behind the source."""
    pilot_by: tuple[str, ...] = ()
    """Columns whose values a pilot's rows have as often as all rows, where it is not `part` alone."""
    pilot_sides: str = ""
    """Column of whose values as many rows are drawn together, since a later stage balances them, or they share calls."""
    pilot_unit: Callable[[str], str] = str
    """Id of a row where a pilot draws → of what is drawn whole, where rows of one such thing ask the same (`pilot_sides`)."""
    pilot_size: Callable[[Mapping[str, Any]], int] = count_characters
    """Row where a pilot draws → by what number goes how much it will ask (a question's paths)."""
    audit: Audit = field(default_factory=partial(Audit, (), ""))
    """How people check its rows, as the paper's authors did; nobody checks those of an evaluation so."""

    @property
    def row(self) -> type[BaseModel]:
        """Model of the main table's rows."""
        return self.tables[self.main_table]


def is_from_wikidata(source: Sequence[str], run: RunOptions, world: World) -> bool:
    """True where rows are made of facts: where that was asked for, and by default unless the Wikidata is the embedded one."""
    return tuple(source) == (WIKIDATA_SOURCE,) or (not source and bool(run.graph or not world.is_embedded))


def find_absolute(source: Sequence[str]) -> tuple[str, ...]:
    """Return sources as they hold from any working directory."""
    return tuple(each if each == WIKIDATA_SOURCE else os.path.realpath(each) for each in source)


def share_limit(limit: int | None, units: Sequence[str]) -> dict[str, int | None]:
    """Return unit → most rows to read, so that `limit` rows are spread over the units; None: all."""
    if limit is None:
        return dict.fromkeys(units)
    share, rest = divmod(limit, len(units))
    return {unit: share + (index < rest) for index, unit in enumerate(units)}
