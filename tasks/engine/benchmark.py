"""What a benchmark is to everything around it: one record, kept by the benchmark itself (tasks/<name>/benchmark.py).

Commands, deployments, locks and exports read the record and know no benchmark by name; flows/benchmarks.py finds them. What
shows, releases or measures its builds is named by its place, so that neither a build nor `--help` imports it.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from factmill.tasks.core.calls.item_facts import ITEM_FACTS
from factmill.tasks.core.calls.knowledge import (
    ALIASES,
    DESCRIBE_ITEMS,
    FIND_ITEMS,
    LABEL,
    LIST_FACTS,
    NEIGHBOURS,
    RESOLVE_ITEM,
)
from factmill.tasks.core.measures.audits import Audit
from factmill.tasks.core.publishing.release_forms import ExportForms
from factmill.tasks.core.rows import Matching, StrictModel
from factmill.tasks.core.spending.forecasting import count_characters
from factmill.tasks.errors import SettingsError
from factmill.tasks.options import Params, RunOptions
from factmill.tasks.settings import ROLES, World
from factmill.tasks.storage.source_files import SourceFile

WIKIDATA_QUERIES = tuple(
    file
    for each in (FIND_ITEMS, DESCRIBE_ITEMS, LABEL, ALIASES, RESOLVE_ITEM, NEIGHBOURS, LIST_FACTS, ITEM_FACTS)
    for file in each.files
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
    """Where its Prefect flow is: `module:function`. The flow takes `params` and `run`. Of an evaluation with the usual steps where
    this record is, whose flow is made of it."""
    narrowing: frozenset[str] = frozenset({"limit"})
    """Parameters that say how much is read, and of what, and inputs that they come to: what only one of two builds read may
    follow from them."""
    tables: Mapping[str, type[BaseModel]]
    """Published tables with their row models; each has an `id`."""
    main_table: str
    part: str
    """Column of the main table by which rows fall into parts: `show` spreads what it prints over them."""
    shown: Mapping[str, str]
    """Columns that `show` prints, with their headings."""
    ordered: frozenset[str] = frozenset()
    """Of these, lists whose order means something (fine to coarse, a path): `show` puts arrows between what they hold."""
    trace: tuple[str, ...]
    """Columns whose values are ids of the row at earlier stages, under which its calls are filed."""
    matching: Matching = field(default_factory=Matching)
    """How its rows are found again in another build."""
    explain: Callable[[Any], Iterable[str]]
    """A row of the main table (its row model), as lines to read."""
    beside: tuple[SideTable, ...] = ()
    statements: str = ""
    """SELECT of the statements of Wikidata that its rows rest on, for analysts: build_id, row_id, subject, property, value,
    statement, modified, asked_for (`tasks/storage/schema.py`); empty: its rows rest on none."""
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
    evaluation: str = ""
    """Where the evaluation of models on it is (`module:NAME`); empty: none."""
    analysis: str = ""
    """Where the record of what looks into its evaluations is (`module:NAME`); empty: nothing does."""
    release: str = ""
    """Where its release forms are (`module:NAME`); empty: it is not released."""
    page: str = ""
    """Where the function is that lists the distributions on a build's page (`module:function`); empty: the page shows
    what it shows of every benchmark."""
    root: Path | None = None
    """Folder whose prompts/, sparql/ and data/ its package reads beside factmill's; None: it has none of its own."""
    audit: Audit = field(default_factory=partial(Audit, (), ""))
    """How people check its rows, as the paper's authors did; nobody checks those of an evaluation so."""

    @property
    def row(self) -> type[BaseModel]:
        """Model of the main table's rows."""
        return self.tables[self.main_table]


def load_place(place: str) -> Any:
    """Return what `module:name` names; SettingsError where there is none."""
    try:
        return resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"{place} cannot be loaded ({error}); expected module:name of an installed package"
        ) from error


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
