"""The record that describes a benchmark to the rest of factmill, defined in tasks/<name>/benchmark.py.

Commands, deployments, manifests and exports use only this record and know no benchmark by name; flows/benchmarks.py finds the
records. Code that shows, releases or evaluates builds is referenced as `module:name`, so neither a build nor `--help`
imports it.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from factmill.tasks.core.calls.item_facts import ITEM_FACTS_OPERATION
from factmill.tasks.core.calls.wikidata import (
    ALIASES_OPERATION,
    DESCRIBE_ITEMS_OPERATION,
    FIND_ITEMS_OPERATION,
    LABEL_OPERATION,
    LIST_FACTS_OPERATION,
    NEIGHBOURS_OPERATION,
    RESOLVE_ITEM_OPERATION,
)
from factmill.tasks.core.measures.audits import AuditProtocol
from factmill.tasks.core.publishing.release_spec import BenchmarkExportFormat
from factmill.tasks.core.rows import BuildRowMatchingRules, StrictModel
from factmill.tasks.core.spending.forecasting import count_characters_of_row_as_text
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.errors import SettingsError
from factmill.tasks.options import USER_SOURCE_FIELDS, BenchmarkParams, RunOptions, UserTableParams
from factmill.tasks.settings import BUILD_MODEL_ROLES, World
from factmill.tasks.storage.source_files import SourceFile

WIKIDATA_QUERIES = tuple(
    file
    for each in (
        FIND_ITEMS_OPERATION,
        DESCRIBE_ITEMS_OPERATION,
        LABEL_OPERATION,
        ALIASES_OPERATION,
        RESOLVE_ITEM_OPERATION,
        NEIGHBOURS_OPERATION,
        LIST_FACTS_OPERATION,
        ITEM_FACTS_OPERATION,
    )
    for file in each.query_files
)
"""SPARQL queries that every benchmark may send to Wikidata."""
WIKIDATA_SOURCE = "wikidata"
"""Source name that means the facts of the world's Wikidata."""


class BuildInputs(StrictModel):
    """Inputs of a build's steps other than rows: its parameters, and what they resolve to in this world, by content."""

    resolved: ClassVar[frozenset[str]] = frozenset()
    """Parameters that other fields replace by content (a path by its file's digest). The manifest omits them, so steps see
    their defaults."""
    params: BenchmarkParams
    own_source: UserSourceSettings | None = None
    """How files of the user's own are read; None for other sources, and the manifest then omits it."""

    def dump_for_manifest(self) -> dict[str, Any]:
        """Return the inputs as stored in a manifest, JSON-serializable."""
        resolved = set(self.resolved)
        if isinstance(self.params, UserTableParams):
            resolved |= USER_SOURCE_FIELDS
        found = self.model_dump(mode="json", exclude={"params": resolved})
        if self.own_source is None:
            del found["own_source"]
        return found


I_co = TypeVar("I_co", bound=BuildInputs, covariant=True)


@dataclass(frozen=True, slots=True)
class BuildInputsAndSourceFiles(Generic[I_co]):
    """What a build depends on besides world, assets and code."""

    inputs: I_co
    files: Mapping[str, Sequence[SourceFile]] = field(default_factory=dict)
    """Source unit → its files; the manifest has their names and digests."""
    wikidata_identity: str | None = None
    """Identity of the Wikidata, if rows are made from its facts."""
    author: str = ""
    """The model that writes, if not the world's author: the model that an evaluation measures."""
    notes: Sequence[str] = ()
    """Notes for the user on the source before the build, such as unused files."""
    source_rows: int | None = None
    """Rows of the user's own tables, if they are the whole source; None for other sources. For forecasts only."""


@dataclass(frozen=True, slots=True)
class BenchmarkAssetNames:
    """Project files that a build reads; their digests are in its manifest."""

    prompts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    """Files in data/lists."""
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompanionTable:
    """A companion table: each of its rows belongs to a row of the main table, and `explain` shows both together."""

    table: str
    row_id_column: str
    """Column with the id of the main table's row."""
    explain: Callable[[Sequence[Any], Mapping[str, str]], Iterable[str]]
    """(Rows of the table as its row model, service → identity) → lines of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Description of one benchmark."""

    name: str
    """Also the name of its flow and the prefix of its builds' ids."""
    title: str
    """One-line description."""
    examples: tuple[str, ...]
    """Example commands that build it."""
    params: type[BenchmarkParams]
    resolve_inputs: Callable[[Any, RunOptions], BuildInputsAndSourceFiles[BuildInputs]]
    """(Parameters, run options) → what the build depends on; raises UsageError for invalid parameters."""
    recipe: str
    """Its Prefect flow as `module:function`; the flow takes `params` and `run`. For an evaluation with the usual steps, the
    place of this record, from which the flow is made."""
    narrowing_params: frozenset[str] = frozenset({"limit"})
    """Parameters, and inputs resolved from them, that select the part of the source to read: rows found in only one of two
    builds may be due to them."""
    tables: Mapping[str, type[BaseModel]]
    """Published table → row model; each has an `id`."""
    main_table: str
    group_column: str
    """Column of the main table that divides rows into groups; `show` prints rows from all groups."""
    value_labels: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    """Column whose values are codes → value → label for readers; pages show both."""
    display_columns: Mapping[str, str]
    """Column that `show` prints → its heading."""
    ordered_list_columns: frozenset[str] = frozenset()
    """Of these, list columns whose order matters (fine to coarse, a path); `show` prints arrows between their entries."""
    display_texts: Mapping[str, Callable[[Mapping[str, Any]], str]] = field(default_factory=dict)
    """Of these, columns whose text for readers needs other columns of the row → row → text."""
    trace_id_columns: tuple[str, ...]
    """Columns with the row's ids in earlier stages, under which its calls are filed."""
    matching: BuildRowMatchingRules = field(default_factory=BuildRowMatchingRules)
    """How to match its rows with those of another build."""
    explain: Callable[[Any], Iterable[str]]
    """Row of the main table (its row model) → lines of text."""
    companion_tables: tuple[CompanionTable, ...] = ()
    statements_sql: str = ""
    """SELECT of the Wikidata statements behind its rows, for analysts: build_id, row_id, subject, property, value,
    statement, modified, asked_for (`tasks/storage/schema.py`); empty if its rows use none."""
    held_out_tables: tuple[str, ...] = ()
    """Tables with answers of a test split, which exports omit unless requested."""
    forms: BenchmarkExportFormat = field(default_factory=BenchmarkExportFormat)
    assets: BenchmarkAssetNames = field(default_factory=BenchmarkAssetNames)
    required_services: Callable[[Any], Sequence[str]] = lambda _: ()
    """Parameters → services that steps use, by their sections in a world's file."""
    required_models: Sequence[str] = ()
    """Models without prompts that steps use, by their roles in a world's file: perplexity."""
    reads_wikipedia_files: bool = False
    """Its steps also read a Wikipedia from a file, which knows neither items of articles nor members of categories."""
    model_roles: Callable[[Any], Collection[str]] = lambda _: BUILD_MODEL_ROLES
    """Parameters → roles of the world's models that it may use."""
    pilot_stage: str = ""
    """Stage before which a pilot draws its rows, if earlier stages must see all rows (to choose among them) or determine which
    calls rows need; empty: directly after the source."""
    pilot_strata_columns: tuple[str, ...] = ()
    """Columns whose values are as frequent in a pilot as in all rows, if not `group_column` alone."""
    pilot_balance_column: str = ""
    """Column for which a pilot draws equally many rows of each value together, since a later stage balances them or they
    share calls."""
    pilot_unit: Callable[[str], str] = str
    """Id of a row where a pilot draws → id of the unit that is drawn as a whole, if the unit's rows share calls
    (`pilot_balance_column`)."""
    pilot_size: Callable[[Mapping[str, Any]], int] = count_characters_of_row_as_text
    """Row where a pilot draws → number proportional to the calls it will need (a question's paths)."""
    evaluation: str = ""
    """Evaluation of models on it, as `module:NAME`; empty if none."""
    analysis: str = ""
    """Record of the analysis of its evaluations, as `module:NAME`; empty if none."""
    release: str = ""
    """Its release forms, as `module:NAME`; empty if it is not released."""
    page: str = ""
    """Function that lists the distributions on a build's page, as `module:function`; empty if the page shows only what it shows
    for every benchmark."""
    root: Path | None = None
    """Folder with its own prompts/, sparql/ and data/, read in addition to factmill's; None if it has none."""
    audit: AuditProtocol = field(default_factory=partial(AuditProtocol, (), ""))
    """How people audit its rows, as the paper's authors did; rows of an evaluation have no audit."""

    @property
    def main_row_model(self) -> type[BaseModel]:
        """Row model of the main table."""
        return self.tables[self.main_table]


def load_named_object(module_and_name: str) -> Any:
    """Return the object that `module:name` refers to; SettingsError if it cannot be loaded."""
    try:
        return resolve_name(module_and_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"{module_and_name} cannot be loaded ({error}); expected module:name of an installed package"
        ) from error


def builds_from_wikidata(source: Sequence[str], run: RunOptions, world: World) -> bool:
    """True if rows are made from Wikidata's facts: on request, or by default unless the world is embedded."""
    return tuple(source) == (WIKIDATA_SOURCE,) or (not source and bool(run.graph or not world.uses_embedded_services))


def make_sources_absolute(source: Sequence[str]) -> tuple[str, ...]:
    """Return sources as absolute paths; `wikidata` stays as it is."""
    return tuple(each if each == WIKIDATA_SOURCE else os.path.realpath(each) for each in source)


def split_limit_over_units(limit: int | None, units: Sequence[str]) -> dict[str, int | None]:
    """Return unit → maximum rows to read, distributing `limit` rows over the units; None: all rows."""
    if limit is None:
        return dict.fromkeys(units)
    share, rest = divmod(limit, len(units))
    return {unit: share + (index < rest) for index, unit in enumerate(units)}
