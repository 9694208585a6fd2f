"""What rebuilds and `factmill serve` are told, and what of it cannot be carried out; nothing here imports Prefect."""

import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, create_model, model_validator

from flows.benchmarks import BENCHMARKS, find_benchmark
from tasks.engine.benchmark import Benchmark
from tasks.engine.locks import make_lock
from tasks.errors import FactmillError, SettingsError, UsageError
from tasks.options import Option, Params, RunOptions
from tasks.settings import load_world

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(rf"(\d{{1,6}})\s*([{''.join(_UNITS)}])")


def _check_name(name: str) -> str:
    try:
        return find_benchmark(name).name
    except UsageError as error:
        raise ValueError(str(error)) from error


def _check_interval(interval: str) -> str:
    read_duration(interval)
    return interval


BenchmarkName = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"enum": list(BENCHMARKS)})]


class ChosenBenchmarks(Params):
    """What a rebuild makes."""

    benchmarks: Annotated[tuple[BenchmarkName, ...], Option("--benchmark", "NAME")] = ()
    """Only this benchmark (repeatable). Default: all."""
    evaluate: Annotated[tuple[str, ...], Option(metavar="MODEL")] = ()
    """Measure this model on every benchmark that models can be measured on (repeatable): one of the world's file, [models.NAME], or oracle, guesser, silent."""

    def chosen(self) -> list[Benchmark]:
        """Return the benchmarks that are made, in the order of all."""
        return [each for name, each in BENCHMARKS.items() if not self.benchmarks or name in self.benchmarks]


_settings: dict[str, Any] = {
    name: (each.params, Field(default=each.params(), title=each.title.partition(":")[0], description=f"{each.title}."))
    for name, each in BENCHMARKS.items()
}
RebuildParams: type[ChosenBenchmarks] = create_model(
    "RebuildParams", __base__=ChosenBenchmarks, __doc__=ChosenBenchmarks.__doc__, **_settings
)
"""The same, with each benchmark's own parameters under its name."""


class ServeOptions(ChosenBenchmarks, RunOptions):
    """What `factmill serve` is told."""

    cron: Annotated[str | None, Option(metavar="CRON")] = None
    """Rebuild by this cron line, such as "0 3 1 * *": the first of each month at three."""
    interval: Annotated[str | None, AfterValidator(_check_interval), Option(metavar="TIME")] = None
    """Rebuild so often: a number with s, m, h, d or w, such as 12h."""
    rrule: Annotated[str | None, Option(metavar="RRULE")] = None
    """Rebuild by this rule of iCalendar, such as "FREQ=MONTHLY;BYDAY=1MO"."""
    timezone: Annotated[str, Option(metavar="ZONE")] = "UTC"
    """Whose clock --cron and --rrule mean, such as Europe/Vienna."""
    runs: int = Field(default=2, ge=1, le=64)
    """Runs carried out at once; others wait for their turn."""

    @model_validator(mode="after")
    def _check_one_schedule(self) -> "ServeOptions":
        told = [name for name in ("cron", "interval", "rrule") if getattr(self, name)]
        if len(told) > 1:
            raise ValueError(f"{' and '.join(f'--{name}' for name in told)}: expected one schedule")
        return self

    def run_options(self) -> RunOptions:
        """Return the options of the runs."""
        told = {name: getattr(self, name) for name in RunOptions.model_fields}
        return RunOptions(**told | {"world": self.absolute_world()})

    def rebuild_params(self, settings: Mapping[str, Params]) -> ChosenBenchmarks:
        """Return the parameters of rebuilds; `settings`: benchmark → its own."""
        return RebuildParams(benchmarks=self.benchmarks, evaluate=self.evaluate, **settings)


def read_duration(given: str) -> timedelta:
    """Return a length of time written as 30s, 5m, 12h, 7d or 2w; ValueError says what was expected."""
    found = _DURATION.fullmatch(given.strip())
    if found is None or not int(found[1]):
        raise ValueError(f"{given!r}: expected a number above 0 with s, m, h, d or w, such as 12h")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, Params]]:
    """Return what a TOML file tells `factmill serve`, and benchmark → parameters for those that have a table.

    SettingsError names file, key and what was expected.
    """
    try:
        told = tomllib.loads(path.read_text("utf-8"))
        own = {name: told.pop(name) for name in BENCHMARKS if name in told}
        ServeOptions.model_validate(told)
        return told, {name: BENCHMARKS[name].params.model_validate(given) for name, given in own.items()}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not a TOML file: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{path}: {where}: {first['msg']}" if where else f"{path}: {first['msg']}") from error


def check_runs(params: ChosenBenchmarks, run: RunOptions) -> None:
    """Raise what keeps a rebuild from being begun: a wrong world, a key that is not set, a source that is not there.

    The error's text begins with the benchmark's name.
    """
    world = load_world(run.world, run.graph)
    for benchmark in params.chosen():
        own = getattr(params, benchmark.name)
        try:
            make_lock(benchmark, benchmark.lock_inputs(own, run), run)
            if run.mode != "replay":
                world.require_keys(benchmark.roles(own))
        except FactmillError as error:
            raise type(error)(f"{benchmark.name}: {error}") from error
