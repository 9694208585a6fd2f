"""Releases compared: rows that one of them was made without are told as that."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.benchmarks import find_benchmark
from flows.releases.forms import find_release_forms
from tasks.core.publishing.release_forms import ReleaseForms
from tasks.diff.compare import compare_builds, require_comparable
from tasks.diff.core.changes import Diff, Kind
from tasks.diff.released import Side, laid_out, read_side
from tasks.release.core.licences import split_licences


def compare_releases(warehouse: Path, before: str, after: str, with_answers: bool = False) -> Diff:
    """Return what changed from one release to another, by their folders; one of the two may be a build of the warehouse.

    UsageError, SourceError and UnknownBuild say what was expected.
    """
    sides = [read_side(name, warehouse) for name in (before, after)]
    require_comparable(*(each.record for each in sides))
    forms = find_release_forms(sides[0].record)
    benchmark = find_benchmark(sides[0].record.benchmark)

    def find_left_out(kind: Kind, row: Mapping[str, Any]) -> str:
        return _tell_left_out(forms, sides, kind, row)

    with laid_out(benchmark, sides) as (path, records):
        return compare_builds(path, benchmark, records[0], records[1], with_answers, find_left_out)


def _tell_left_out(forms: ReleaseForms, sides: Sequence[Side], kind: Kind, row: Mapping[str, Any]) -> str:
    lacking, when = (sides[1], "later") if kind == "removed" else (sides[0], "earlier")
    told = {str(row[forms.source])} if forms.source else set()
    told |= {*split_licences(str(row[forms.licence]))} if forms.licence else set()
    found = [name for name in lacking.left_out if name in told]
    return f"the {when} release was made without {', '.join(found)}" if found else ""
