"""Registry of benchmarks: the records that installed packages name under the entry point `factmill.benchmarks`.

factmill's own five are found the same way. An entry point's name is the benchmark's name; its value locates the record
(`module:NAME`). A package that fails to load stops no other: `BROKEN_BENCHMARKS` holds the reason, and `factmill doctor` shows it.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from factmill.tasks.assets import add_asset_root
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import SettingsError, UsageError
from factmill.tasks.storage.builds import BENCHMARK_ENTRY_POINTS
from factmill.tasks.text.sanitize import format_did_you_mean

OWN_PACKAGE = "factmill"


class InstalledPackageVersion(NamedTuple):
    """The installed package that a benchmark comes from."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


BENCHMARKS: dict[str, Benchmark] = {}
"""Name → benchmark, in the order of `build all`: factmill's own first, then those of other packages."""
PACKAGES: dict[str, InstalledPackageVersion] = {}
"""Name of a benchmark → the package that provides it."""
BROKEN_BENCHMARKS: dict[str, str] = {}
"""Name of a benchmark that failed to load → package and reason."""


def _register_installed_benchmarks() -> None:
    found = sorted(
        entry_points(group=BENCHMARK_ENTRY_POINTS),
        key=lambda each: (_get_package_name_and_version(each).name != OWN_PACKAGE, each.name),
    )
    for entry in found:
        package = _get_package_name_and_version(entry)
        try:
            record = entry.load()
            _check_benchmark_record(entry, record)
            if record.root is not None:
                add_asset_root(record.root)
        except Exception as error:  # noqa: BLE001 - another package's code may fail in any way, and must not stop the others
            BROKEN_BENCHMARKS[entry.name] = f"{package}: {type(error).__name__}: {error}"
        else:
            BENCHMARKS[entry.name], PACKAGES[entry.name] = record, package


def _get_package_name_and_version(entry: EntryPoint) -> InstalledPackageVersion:
    return (
        InstalledPackageVersion(entry.dist.name, entry.dist.version)
        if entry.dist
        else InstalledPackageVersion("unknown", "0")
    )


def _check_benchmark_record(entry: EntryPoint, record: object) -> None:
    if not isinstance(record, Benchmark):
        raise SettingsError(f"{entry.value} is a {type(record).__name__}, expected a Benchmark")
    if record.name != entry.name:
        raise SettingsError(f"the entry point is called {entry.name}, its benchmark {record.name}; they need one name")
    if entry.name in BENCHMARKS:
        raise SettingsError(f"{PACKAGES[entry.name]} has a benchmark {entry.name} already")


_register_installed_benchmarks()


def get_benchmark(name: str) -> Benchmark:
    """Return a benchmark by name; UsageError if there is none."""
    if name in BROKEN_BENCHMARKS:
        raise UsageError(f"the benchmark {name} could not be loaded from {BROKEN_BENCHMARKS[name]}")
    if name not in BENCHMARKS:
        known = ", ".join(BENCHMARKS) or "none; install factmill again, from its folder: pip install -e ."
        benchmark = name.partition("-")[0]
        hint = f"; to name a build: {benchmark} --build {name}" if benchmark in BENCHMARKS else ""
        raise UsageError(f"no benchmark {name!r}; there are: {known}{hint or format_did_you_mean(name, BENCHMARKS)}")
    return BENCHMARKS[name]
