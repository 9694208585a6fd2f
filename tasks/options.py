"""Options of a run, base class of benchmark parameters, and the report of a build."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from factmill.tasks.core.calls.call import CallCacheMode
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, StrictModel
from factmill.tasks.core.service_settings import MaxAge
from factmill.tasks.core.spending.costs import BudgetLimits, format_cost
from factmill.tasks.core.table_columns import split_column_option_into_pair_texts
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.settings import SHIPPED_WORLDS, default_warehouse_path
from factmill.tasks.text.sanitize import format_did_you_mean


@dataclass(frozen=True, slots=True)
class CliOption:
    """Command-line form of a parameter whose name alone does not define it (metadata of a field)."""

    name: str = ""
    """Option with its dashes; empty: derived from the parameter's name."""
    metavar: str = ""
    """Placeholder of the value in the help."""


def format_invalid_option(error: ValidationError) -> str:
    """Format the first wrong option of a validation error, under its Python name: what was given, and what was expected."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    return f"{first['loc'][0]} is {first['input']!r}: {message}" if first["loc"] else message


def format_unknown_option(name: str, known: Iterable[str]) -> str:
    """Format that an option is unknown, with the one that may be meant and all that are known."""
    names = sorted(known)
    return f"unknown option {name}; there are: {', '.join(names)}{format_did_you_mean(name, names)}"


def split_each_text_at_commas(given: Any) -> Any:
    """Split each text of a list at its commas (a validator before pydantic's); anything else stays as it is."""
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        return given  # pydantic's error says what is expected
    return tuple(part.strip() for each in given for part in each.split(",") if part.strip())


def format_number_range(minimum: float | None, maximum: float | None) -> str:
    """Format the bounds of a number as text, without the default maximum MAX_SETTING_NUMBER; empty if no other bound is set."""
    if minimum in (None, -MAX_SETTING_NUMBER):
        return ""
    return f"{minimum} or more" if maximum in (None, MAX_SETTING_NUMBER) else f"from {minimum} to {maximum}"


def _add_bounds_to_help(schema: dict[str, Any]) -> None:
    """Append the bounds of numbers to their descriptions, which Prefect's form shows."""
    for field in schema["properties"].values():
        for number in (field, *field.get("anyOf", ())):
            if "minimum" in number:
                bounds = format_number_range(number["minimum"], number.get("maximum"))
                field["description"] += f" {bounds.capitalize()}." if bounds else ""


def _format_field_title(name: str, _: object) -> str:
    """Format the label of a parameter in Prefect's form."""
    words = name.replace("_qid", "_QID").replace("_", " ")
    return words[:1].upper() + words[1:]


class BenchmarkParams(StrictModel):
    """Base class of a benchmark's parameters: the only place for their names, types, defaults, help and bounds.

    The command's options, the flow's form in Prefect, the manifest and the steps derive from it.
    """

    model_config = ConfigDict(json_schema_extra=_add_bounds_to_help, field_title_generator=_format_field_title)


def _validate_source_label(given: str | None) -> str | None:
    label = given and given.strip()
    if label is not None and (
        not label or len(label) > _MAX_LABEL_CHARACTERS or not label.isprintable() or "/" in label
    ):
        raise ValueError(
            f"{given!r}: expected a text of at most {_MAX_LABEL_CHARACTERS} characters in one line, without /"
        )
    return label


_MAX_LABEL_CHARACTERS = 100


def _validate_licence_label_or_url(given: str | None) -> str | None:
    licence = given and given.strip()
    if not licence or not licence.startswith(LICENCE_ADDRESS_STARTS):
        return _validate_source_label(licence)
    if len(licence) > _MAX_LABEL_CHARACTERS or not licence.isprintable() or " " in licence:
        raise ValueError(f"{given!r}: expected an address of at most {_MAX_LABEL_CHARACTERS} characters without spaces")
    return licence


LICENCE_ADDRESS_STARTS = ("https://", "http://")
"""Beginnings of a licence that is named by its address."""


class UserTableParams(BenchmarkParams):
    """Parameters of a benchmark that reads tables of the user's own: CSV, TSV, JSON, JSON Lines, Parquet."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """File or folder to read (repeatable)."""
    map: Annotated[
        tuple[str, ...], BeforeValidator(split_column_option_into_pair_texts), CliOption(metavar="FIELD=COLUMN,…")
    ] = ()
    """Columns of your own table, as FIELD=COLUMN: question=q,answers=gold. A field that is not listed is read from the column of the same name. FIELD= leaves the field empty."""
    source_split: Annotated[str | None, CliOption(metavar="NAME")] = None
    """Read only this split of a folder, such as test (test.csv or data/test-00000-of-00001.parquet)."""
    source_name: Annotated[str | None, AfterValidator(_validate_source_label), CliOption(metavar="NAME")] = None
    """Name of your own source. It appears in the rows, and in the dataset card of a release."""
    source_licence: Annotated[str | None, AfterValidator(_validate_licence_label_or_url), CliOption(metavar="ID")] = (
        None
    )
    """Licence of your own source: an SPDX id (CC-BY-4.0), a web address, or LicenseRef-NAME. Default: for a published file that factmill knows, that file's licence; otherwise `none stated`. A release with `none stated` needs --allow-licence."""


class UserSourceParams(UserTableParams):
    """Parameters of a benchmark whose rows keep the name and the licence of a source of the user's own."""

    list_separator: Annotated[str | None, CliOption(metavar="TEXT")] = None
    """Separator between the values in a cell, such as `;` or `|`. Default: no separator; a cell holds one value or a JSON array."""


USER_SOURCE_FIELDS = frozenset(UserSourceParams.model_fields)
"""Parameters that a manifest holds resolved, as `own_source` and the digests of files."""


def _require_world_and_add_bounds_to_help(schema: dict[str, Any]) -> None:
    """Make the world required: a run with other options than its deployment's would use the default world."""
    schema["required"] = ["world"]
    _add_bounds_to_help(schema)


class RunOptions(StrictModel):
    """World of a build, and how the build runs."""

    model_config = ConfigDict(
        json_schema_extra=_require_world_and_add_bounds_to_help, field_title_generator=_format_field_title
    )

    world: Annotated[str, CliOption(metavar="WORLD")] = "embedded"
    """World (the services and models) to use: embedded (offline, no keys), live, or the path of a world's TOML file."""
    graph: Annotated[str | None, CliOption(metavar="NAME")] = None
    """Use this local graph as the world's Wikidata. `factmill graph` lists the graphs."""
    prompts: Annotated[Path | None, CliOption(metavar="FOLDER")] = None
    """Folder with your own prompts. Each replaces the packaged prompt of the same id (see `factmill prompts`). Default: the folder that `prompts` names in the world's file, if any."""
    warehouse: Annotated[Path | None, CliOption(metavar="FILE")] = None
    """DuckDB file that holds the builds. Default: factmill.duckdb in factmill's home folder (FACTMILL_HOME)."""
    mode: CallCacheMode = "record"
    """How to use recorded calls. record: send only calls without a recorded reply. replay: send none. refresh: send all again."""
    max_age: Annotated[MaxAge | None, CliOption(metavar="AGE")] = None
    """With --mode record: send a call to a live service again if its recorded reply is older than this (90m, 12h, 30d, or
    seconds). Other replies never expire: those of models, of local graphs and of the embedded world, and the texts of Wikipedia revisions. Default: max_age in the world's file; if that is not set, no reply expires (with `factmill serve`: half the time between two rebuilds)."""
    since: Annotated[str | None, CliOption(metavar="BUILD")] = None
    """Rebuild incrementally: reuse the replies of this build. A call is sent again only if the item or page that it asks about has changed, or if factmill cannot check that. factmill checks 50 items or pages per request. BUILD: a build's id, the start of the id, or "last" (the benchmark's newest build in this world). With --max-age AGE, replies younger than AGE are not checked. Default: replies are not checked for changes."""
    stale_if_error: bool = False
    """Use an expired reply if a live service fails. Without this option, the row fails."""
    concurrency: int = Field(default=4, ge=1, le=64)
    """Number of batches processed at the same time."""
    batch_size: int = Field(default=500, ge=1, le=MAX_SETTING_NUMBER)
    """Number of rows per batch. A stage has at most 64 batches; if it has more rows than fit, its batches are made larger."""
    max_cost: Annotated[float | None, CliOption(metavar="USD")] = Field(
        default=None, ge=0, le=MAX_SETTING_NUMBER, allow_inf_nan=False
    )
    """Maximum cost of this run's model requests in US dollars. If the next request could exceed it, the run stops (exit code 3). Run the same command again to continue; with `factmill serve`, the next run continues it."""
    max_requests: int | None = Field(default=None, ge=0, le=MAX_SETTING_NUMBER)
    """Maximum number of requests to services and models; each attempt counts. At the maximum, the run stops as with --max-cost."""
    max_hours: Annotated[float | None, CliOption(metavar="HOURS")] = Field(
        default=None, ge=0, le=MAX_SETTING_NUMBER, allow_inf_nan=False
    )
    """Maximum time of a run in hours. At the maximum, factmill sends no more requests, and the run stops as with --max-cost."""
    requests: SkipJsonSchema[Annotated[Path | None, CliOption(metavar="FILE")]] = Field(default=None, exclude=True)
    """Write the model requests to this file instead of sending them, and stop with exit code 4. Each line is one request in OpenAI's batch format. To continue, give the file of replies to --replies."""
    replies: SkipJsonSchema[Annotated[Path | None, CliOption(metavar="FILE")]] = Field(default=None, exclude=True)
    """File of replies to the requests that --requests wrote, in the format of `vllm run-batch`. The build sends its further requests to the models; add --requests to write them to a file instead."""
    pilot: SkipJsonSchema[int | None] = Field(default=None, exclude=True, ge=1, le=MAX_SETTING_NUMBER)
    """Process only this number of representative rows (engine/building.py), record their results for a forecast, and publish
    nothing."""
    pinned_build: SkipJsonSchema[str | None] = Field(default=None, exclude=True)
    """With mode replay: use exactly the replies of this build, and publish nothing."""

    @property
    def budget_limits(self) -> BudgetLimits:
        """Limits on what the run may spend."""
        return BudgetLimits(self.max_cost, self.max_requests, self.max_hours)

    def with_budget_limits(self, limits: BudgetLimits) -> "RunOptions":
        """Return these options with other spending limits."""
        return self.model_copy(
            update={"max_cost": limits.cost_usd, "max_requests": limits.requests, "max_hours": limits.hours}
        )

    def resolve_world_path(self) -> str:
        """Return the name of a shipped world, or the absolute path of a world's file."""
        return self.world if self.world in SHIPPED_WORLDS else os.path.realpath(self.world)


INTERNAL_OPTIONS = ("pilot", "pinned_build")
"""Options that only factmill's own commands set."""
REPLY_FILE_OPTIONS = ("requests", "replies")
"""Options of a single build that exchanges model requests and replies by files."""
MODEL_ONLY_OPTIONS = (*REPLY_FILE_OPTIONS, "max_cost")
"""Options without effect on a build that calls no model."""
LATEST_BUILD = "last"
"""Value of `since` for the newest build of the benchmark in this world."""


class BuildReport(BaseModel):
    """Report of a finished build."""

    build_id: str
    benchmark: str
    world: str
    author: str
    """Model that generated text; empty where none did."""
    caution: str = ""
    """Uses for which its rows are unfit; empty for none."""
    inputs: int
    opened: int = 0
    """Rows that stages made in addition to their input rows: a question's paths, a path's translations."""
    rows: int
    rejects: int
    merged: int
    calls_sent: int
    calls_replayed: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    unknown_cost_calls: int = 0
    """Calls of priced models whose responses reported no usage; `cost_usd` excludes them."""
    unpriced_models: list[str] = []
    """Called models without a price in the world's file."""
    seconds: float
    warehouse: str
    up_to_date: bool = False
    """True when the build existed already and nothing had to be done."""
    unsettled: int = 0
    """Rows lost to transient failures of a service; the same command retries them."""
    nothing_published: str = ""
    """Why no row is published, and what to do; empty if some are."""
    stages: list[dict[str, Any]] = []
    reasons: dict[str, dict[str, int]] = {}
    """Stage → reason → rejected rows."""
    tables: dict[str, dict[str, Any]] = {}
    """Published table → rows and SHA-256 of its Parquet bytes."""
    confirmed: bool = False
    """True when the build was made again and equals the existing one byte for byte."""
    spent: dict[str, Any] = {}
    """What this run sent over the network (core/spending/costs.py) and its `bounds`; empty where nothing was sent."""
    forecast: dict[str, Any] = {}
    """Forecast for this build (engine/spending/forecasting.py), if there was one."""
    own_prompts: dict[str, str] = {}
    """Id → SHA-256 of the prompts of the user's own that replaced packaged ones."""
    replies: dict[str, dict[str, Any]] = {}
    """Live service → number of `calls` that the build uses, times of their responses (`oldest`, `newest`), how many this build
    `asked` itself, and how many are `too_old` and replace a failure."""
    scripted: dict[str, dict[str, int]] = {}
    """Prompt → number of scripted `replies` that the build uses, and how many of them are planted `faults`."""
    since: dict[str, Any] = {}
    """Counts of the earlier `build`'s responses under `since`: `kept` as unchanged; `changed` and `undecidable` (operation →
    number), both requested again; `lasting` (immutable). `things` is the number of resources checked, in this number of
    `requests`."""
    facts: dict[str, Any] = {}
    """Further figures of this benchmark (ambiguous names, levels)."""
    notes: list[str] = []
    """Settings for the world's file that the run found out about the models."""

    def format_cost(self) -> str:
        """Format the cost of the responses that the build uses, and the number of those of unknown cost."""
        return format_cost(self.cost_usd, self.unknown_cost_calls, self.unpriced_models)


def resolve_warehouse_path(options: RunOptions) -> Path:
    """Return the absolute path of the warehouse that the options name, or of the default one."""
    return resolve_absolute_path(options.warehouse or default_warehouse_path())
