"""The seven foundations of MultiHal: what each is, what its files look like, and which reader reads them (paper, Table 1).

A file is placed by its columns, which differ between all seven; a name that promises a foundation and columns that are
of none make an error that says what was expected.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tasks.errors import SourceError, UsageError
from tasks.multihal.sources import defan, felm, halubench, halueval, shroom, simpleqa, truthfulqa
from tasks.storage.source_files import SourceFile, describe_held, describe_unused, list_source, peek_columns
from tasks.storage.source_rows import ReadRow

FoundationName = Literal["halueval", "truthfulqa", "felm", "halubench", "shroom2024", "defan", "simpleqa"]


@dataclass(frozen=True, slots=True)
class Foundation:
    """One foundation."""

    name: FoundationName
    title: str
    files: str
    """What its files are called as they are published, and their kind."""
    columns: tuple[tuple[str, ...], ...]
    """Columns by which a file of it is known; any one of these sets."""
    read: Callable[[SourceFile], Iterator[ReadRow]]
    part_of: Callable[[Path], str | None]
    """Which part of the foundation a file is; two files cannot be the same part."""
    promise: re.Pattern[str]
    """Names that promise this foundation."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files placed with their foundations."""

    files: dict[str, list[Path]]
    """Foundation → its files, in the order of FOUNDATIONS and of their names."""
    left_out: list[str] = field(default_factory=list)
    """A sentence for each file of a foundation that MultiHal does not use, and one for files of no foundation."""


def _whole(_path: Path) -> str:
    return ""


FOUNDATIONS: dict[str, Foundation] = {
    foundation.name: foundation
    for foundation in (
        Foundation(
            "halueval", "HaluEval (QA)", "qa_data.json (JSON Lines)",
            (halueval.COLUMNS,), halueval.read_halueval, _whole, re.compile("halueval|qa_data", re.IGNORECASE),
        ),
        Foundation(
            "truthfulqa", "TruthfulQA (generation)", "TruthfulQA.csv",
            (truthfulqa.COLUMNS,), truthfulqa.read_truthfulqa, _whole, re.compile("truthful", re.IGNORECASE),
        ),
        Foundation(
            "felm", "FELM (world knowledge)", "all.jsonl or wk.jsonl (JSON Lines)",
            (felm.COLUMNS, felm.MIRROR_COLUMNS), felm.read_felm, _whole, re.compile("felm", re.IGNORECASE),
        ),
        Foundation(
            "halubench", "HaluBench", "Parquet or JSON Lines",
            (halubench.COLUMNS,), halubench.read_halubench, _whole, re.compile("halubench", re.IGNORECASE),
        ),
        Foundation(
            "shroom2024", "SHROOM 2024 (definition modelling)", "trial-v1.json, val.model-aware.v2.json, … (JSON)",
            (shroom.COLUMNS,), shroom.read_shroom, lambda path: shroom.name_part(path.name), re.compile("shroom", re.IGNORECASE),
        ),
        Foundation(
            "defan", "DefAn", "QA_domain_1_public.csv, … (CSV, one file a domain)",
            (defan.COLUMNS,), defan.read_defan, defan.domain_of, re.compile("QA_domain_", re.IGNORECASE),
        ),
        Foundation(
            "simpleqa", "SimpleQA", "simple_qa_test_set.csv",
            (simpleqa.COLUMNS,), simpleqa.read_simpleqa, _whole, re.compile("simple_?qa", re.IGNORECASE),
        ),
    )
}  # fmt: skip
"""Name → foundation, in the order of the paper's pipeline."""

_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")


def check_foundations(names: Sequence[str] | None) -> list[str]:
    """Return the foundations to read, all by default; UsageError for one that is not known."""
    if unknown := [name for name in names or () if name not in FOUNDATIONS]:
        raise UsageError(f"unknown foundation {', '.join(unknown)}; there are {', '.join(FOUNDATIONS)}")
    return [name for name in FOUNDATIONS if names is None or name in names]


def find_foundation_files(paths: Sequence[Path], foundations: Sequence[str] | None = None) -> FoundFiles:
    """Return which of the files, and of the files in the folders and their subfolders, belong to which foundation.

    `foundations`: those that are wanted, each of which must have a file; None takes what there is. Raises SourceError
    for a path that is not there, a file named outright that belongs nowhere, and two files that are the same.
    """
    wanted = check_foundations(foundations)
    placed: dict[Path, str] = {}
    for path in paths:
        for file in list_source(path, deep=True):
            if file == path:
                placed[path] = _place_outright(path, wanted)
            elif file.suffix.lower() in _SUFFIXES and (name := _place(file)) in wanted:
                placed[file] = name
    found = _share_out(placed)
    if missing := [name for name in wanted if name not in found.files and (foundations or not found.files)]:
        raise SourceError(
            f"no file of {', '.join(missing)} in {describe_held(paths)}; expected "
            + "; ".join(f"{name}: {_format_form(FOUNDATIONS[name])}" for name in missing)
        )
    if not foundations:
        found.left_out.extend(describe_unused(paths, list(placed), "since their columns are of no foundation"))
    return found


def _share_out(placed: dict[Path, str]) -> FoundFiles:
    found = FoundFiles({})
    parts: dict[tuple[str, str], Path] = {}
    for path in sorted(placed, key=lambda path: (list(FOUNDATIONS).index(placed[path]), path.name, path)):
        name = placed[path]
        if name == "defan" and path.suffix.lower() == ".json" and (copied := path.with_suffix(".csv")) in placed:
            found.left_out.append(f"{path}: left out; {copied.name} beside it holds the same rows")
            continue
        part = FOUNDATIONS[name].part_of(path)
        if part is None:
            raise SourceError(
                f"{path}: holds rows of {name}, but the name does not say of what; expected {_format_form(FOUNDATIONS[name])}"
            )
        if name == "defan" and part == defan.MATH:
            found.left_out.append(
                f"{path}: left out; DefAn's domain math is no list of questions with 14 paraphrases each"
            )
            continue
        other = parts.setdefault((name, part), path)
        if other.resolve() != path.resolve():
            raise SourceError(f"{path}: {name} has this part already, in {other}; name one of the two")
        if other == path:
            found.files.setdefault(name, []).append(path)
    return found


def _place_outright(path: Path, wanted: Sequence[str]) -> str:
    name = _place(path)
    if name is None:
        known = "; ".join(f"{name}: {_format_form(FOUNDATIONS[name])}" for name in wanted)
        raise SourceError(f"{path}: belongs to no foundation by its columns; expected one of {known}")
    if name not in wanted:
        raise SourceError(f"{path}: is a file of {name}, which is not among {', '.join(wanted)}")
    return name


def _place(path: Path) -> str | None:
    """Return the foundation of a file by its columns; SourceError where its name promises one and its columns are none's."""
    columns = set(peek_columns(path))
    for name, foundation in FOUNDATIONS.items():
        if any(columns.issuperset(known) for known in foundation.columns):
            return name
    for name, foundation in FOUNDATIONS.items():
        if foundation.promise.search(path.name):
            raise SourceError(
                f"{path}: row 1: named like a file of {name}, but its columns are {', '.join(sorted(columns))[:300] or 'not to be read'}; "
                f"expected {_format_form(foundation)}"
            )
    return None


def _format_form(foundation: Foundation) -> str:
    return f"{foundation.files} with the columns {', '.join(foundation.columns[0])}"
