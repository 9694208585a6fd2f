"""Options of rebuilds and `factmill serve`, and their checks; nothing here imports Prefect."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, Field, ValidationError, create_model, model_validator

from factmill.flows.benchmarks import BENCHMARKS, get_benchmark
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.core.service_settings import MaxAge
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.naming.manifests import make_build_manifest
from factmill.tasks.errors import FactmillError, SettingsError, UsageError
from factmill.tasks.evaluation.definition import Evaluation, check_tested_model
from factmill.tasks.files import load_toml, resolve_absolute_path
from factmill.tasks.options import BenchmarkParams, CliOption, RunOptions
from factmill.tasks.settings import SERVICE_SECTIONS, load_world
from factmill.tasks.text.durations import format_duration_in_one_unit, parse_validated_duration
from factmill.tasks.text.sanitize import format_did_you_mean


def _check_benchmark_name(name: str) -> str:
    try:
        return get_benchmark(name).name
    except UsageError as error:
        raise ValueError(str(error)) from error


def _check_time_zone_name(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError(f"{name!r}: expected the name of a time zone, such as UTC or Europe/Vienna") from None


KnownBenchmarkName = Annotated[
    str, AfterValidator(_check_benchmark_name), Field(json_schema_extra={"enum": list(BENCHMARKS)})
]


class MultiBenchmarkRebuildParamsBase(BenchmarkParams):
    """What a rebuild makes."""

    benchmarks: Annotated[tuple[KnownBenchmarkName, ...], CliOption(metavar="NAME")] = ()
    """Build only this benchmark (repeatable). Default: all."""
    evaluate: Annotated[tuple[str, ...], CliOption(metavar="MODEL")] = ()
    """Evaluate this model after each build (repeatable): a model of the world's file ([models.NAME]), or a built-in one (oracle, guesser, silent). Default: no evaluation."""

    release: Annotated[str, CliOption(metavar="DIR")] = ""
    """Release each build to DIR/BENCHMARK if it passes all gates. The options whose description begins with "Gate" set the gates. Default: no release."""
    authors: Annotated[tuple[str, ...], CliOption(metavar="NAME")] = ()
    """Authors of the releases, each 'Family, Given' or the name of a group (repeatable)."""
    rows_within: float = Field(default=0.1, ge=0, le=MAX_SETTING_NUMBER)
    """Gate: release only if the number of rows changed by at most this share since the previous release."""
    most_lost: float = Field(default=0.5, ge=0, le=1)
    """Gate: release only if no stage rejected more than this share of its rows."""
    unchecked_judge: bool = False
    """Gate: release a build even if its judge was never checked against people (see `factmill judge-card`). Default: such a build is not released."""
    unexplained: bool = False
    """Gate: release a build even if rows changed since the previous release and the cause is not known. Default: such a build is not released."""

    def list_chosen_benchmarks(self) -> list[Benchmark]:
        """Return the benchmarks to build, in the registry's order."""
        return [each for name, each in BENCHMARKS.items() if not self.benchmarks or name in self.benchmarks]

    def list_model_evaluations(self, benchmark: Benchmark) -> list[tuple[str, Evaluation]]:
        """Return (model, evaluation) for each model to evaluate on a benchmark."""
        how = EVALUATIONS.get(benchmark.name)
        return [(model, how) for model in self.evaluate] if how else []


_benchmark_param_fields: dict[str, Any] = {
    name: (each.params, Field(default=each.params(), title=each.title.partition(":")[0], description=f"{each.title}."))
    for name, each in BENCHMARKS.items()
}
RebuildParams: type[MultiBenchmarkRebuildParamsBase] = create_model(
    "RebuildParams",
    __base__=MultiBenchmarkRebuildParamsBase,
    __doc__=MultiBenchmarkRebuildParamsBase.__doc__,
    **_benchmark_param_fields,
)
"""MultiBenchmarkRebuildParamsBase with each benchmark's own parameters under its name."""


class ServeOptions(MultiBenchmarkRebuildParamsBase, RunOptions):
    """Options of `factmill serve`."""

    cron: Annotated[str | None, CliOption(metavar="CRON")] = None
    """Schedule rebuilds by a cron line, such as "0 3 1 * *": at 03:00 on the first day of each month."""
    interval: Annotated[MaxAge | None, CliOption(metavar="TIME")] = None
    """Schedule rebuilds at this interval, such as 12h or 30d."""
    rrule: Annotated[str | None, CliOption(metavar="RRULE")] = None
    """Schedule rebuilds by an iCalendar rule, such as "FREQ=MONTHLY;BYDAY=1MO"."""
    timezone: Annotated[str, AfterValidator(_check_time_zone_name), CliOption(metavar="ZONE")] = "UTC"
    """Time zone of --cron and --rrule, such as Europe/Vienna."""
    runs: int = Field(default=2, ge=1, le=64)
    """Maximum number of runs at the same time; further runs wait."""
    catch_up: Annotated[bool, CliOption("--catch-up/--no-catch-up")] = True
    """When serve starts, start one run that makes up for all scheduled times that it missed."""
    log_json: bool = False
    """Print the deployments, and each start and end of a run, as one JSON object per line on standard output."""

    @model_validator(mode="after")
    def _check_one_schedule(self) -> "ServeOptions":
        schedules = [name for name in ("cron", "interval", "rrule") if getattr(self, name)]
        if len(schedules) > 1:
            raise ValueError(f"{' and '.join(f'--{name}' for name in schedules)}: expected only one schedule")
        if self.interval and parse_validated_duration(self.interval) < 1:
            raise ValueError(f"--interval {self.interval}: expected at least one second (1s)")
        return self

    def make_run_options(self, period_s: float | None = None) -> RunOptions:
        """Return the options of the runs; `period_s`: seconds between rebuilds.

        If neither the options nor the world's file set an age, replies expire after half the period: they last to the
        end of their rebuild, and the next rebuild fetches them again. With the full period, none would have expired by
        then, since each reply arrives a little after its rebuild begins.
        """
        options = {name: getattr(self, name) for name in RunOptions.model_fields}
        world = load_world(self.world, self.graph)
        if self.max_age is None and period_s and not any(getattr(world, name).max_age for name in SERVICE_SECTIONS):
            options["max_age"] = format_duration_in_one_unit(period_s / 2)
        prompts = self.prompts and resolve_absolute_path(self.prompts)
        return RunOptions(**options | {"world": self.resolve_world_path(), "prompts": prompts})

    def make_rebuild_params(self, settings: Mapping[str, BenchmarkParams]) -> MultiBenchmarkRebuildParamsBase:
        """Return the parameters of rebuilds; `settings`: benchmark → its own."""
        own: dict[str, Any] = {name: getattr(self, name) for name in MultiBenchmarkRebuildParamsBase.model_fields}
        return RebuildParams(**own | dict(settings))


def load_serve_config(path: Path) -> tuple[dict[str, Any], dict[str, BenchmarkParams]]:
    """Return the options in a TOML file for `factmill serve`, and benchmark → parameters for those with a table.

    SettingsError names the file, the key and what was expected.
    """
    try:
        options = load_toml(path)
        own = {name: options.pop(name) for name in BENCHMARKS if name in options}
        ServeOptions.model_validate(options)
        return options, {name: BENCHMARKS[name].params.model_validate(given) for name, given in own.items()}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}; --config expects a TOML file") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{path}: {where}: {first['msg']}" if where else f"{path}: {first['msg']}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error


def check_rebuild_inputs(params: MultiBenchmarkRebuildParamsBase, run: RunOptions) -> None:
    """Raise an error if a rebuild cannot start: an invalid world, a missing key, a missing source.

    The message begins with the benchmark's name.
    """
    check_rebuild_models_and_credentials(params, run)
    for benchmark in params.list_chosen_benchmarks():
        own = getattr(params, benchmark.name)
        with _prefixing_errors_with_benchmark(benchmark.name):
            make_build_manifest(benchmark, benchmark.resolve_inputs(own, run), run)


def check_rebuild_models_and_credentials(params: MultiBenchmarkRebuildParamsBase, run: RunOptions) -> None:
    """Raise SettingsError for an invalid world, an unknown model, a missing key or a missing contact address."""
    world = load_world(run.world, run.graph)
    for benchmark in params.list_chosen_benchmarks():
        roles = {*benchmark.model_roles(getattr(params, benchmark.name))}
        needs = [*benchmark.required_services(getattr(params, benchmark.name))]
        with _prefixing_errors_with_benchmark(benchmark.name):
            for model, evaluation in params.list_model_evaluations(benchmark):
                check_tested_model(world, model, "--evaluate")
                measured = evaluation.params.model_validate({"model": model})
                roles |= {*evaluation.model_roles(measured)}
                needs += evaluation.required_services(measured)
            if run.mode != "replay":
                world.require_model_credentials(roles)
                world.require_service_access(*needs)


def validate_flow_parameters(flow: str, parameters: Mapping[str, Any]) -> tuple[BenchmarkParams, RunOptions]:
    """Return the validated parameters of a flow run, given from outside.

    flow: a benchmark's name, or `rebuild`. UsageError names unknown parameters, with suggestions, and invalid ones.
    """
    models: dict[str, type[BenchmarkParams] | type[RunOptions]] = {
        "params": BENCHMARKS[flow].params if flow in BENCHMARKS else RebuildParams,
        "run": RunOptions,
    }
    faults = []
    for name in (each for each in parameters if each not in models):
        # a name outside of the models may belong into one of them
        hints = ((owner, format_did_you_mean(name, model.model_fields)) for owner, model in models.items())
        inside = next((hint.replace("mean ", f"mean {owner}.") for owner, hint in hints if hint), "")
        faults.append(f"{name}: unknown parameter{inside or format_did_you_mean(name, models)}")
    read: dict[str, Any] = {}
    for name, model in models.items():
        try:
            read[name] = model.model_validate(parameters.get(name, {}))
        except ValidationError as error:
            faults += [_describe_parameter_fault(name, model, fault) for fault in error.errors()]
    if faults:
        raise UsageError("; ".join(faults))
    return read["params"], read["run"]


def _describe_parameter_fault(name: str, model: type[BaseModel], fault: Any) -> str:
    """Return the error of a parameter: its place and the message, or a suggestion for an unknown name."""
    place = [str(part) for part in fault["loc"]]
    where = ".".join([name, *place])
    if fault["type"] != "extra_forbidden":
        return f"{where}: {fault['msg'].removeprefix('Value error, ')}"
    for part in place[:-1]:
        field = model.model_fields.get(part)
        if field is not None and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            model = field.annotation
    return f"{where}: unknown parameter{format_did_you_mean(place[-1], model.model_fields)}"


@contextmanager
def _prefixing_errors_with_benchmark(benchmark: str) -> Iterator[None]:
    try:
        yield
    except FactmillError as error:
        raise type(error)(f"{benchmark}: {error}") from error
