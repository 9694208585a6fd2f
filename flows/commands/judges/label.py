"""`factmill label`: judged answers go out to people, their labels come back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.evaluate.evaluations import EVALUATIONS
from tasks.core.evaluation.judge_cards import tell_among
from tasks.core.evaluation.label_files import LabelFile, name_items, read_labels
from tasks.core.evaluation.labels import LabelScheme, count_strata, draw_items, write_labels
from tasks.core.fingerprints import digest_bytes
from tasks.core.measures.agreement import AmongPeople, compare_people
from tasks.errors import OutputError, UsageError
from tasks.evaluation.record import Evaluation
from tasks.files import read_regular
from tasks.storage.builds import BuildRecord, find_build, published_table
from tasks.storage.labels import find_draw, find_items, load_labels, save_items, save_labels
from tasks.storage.warehouse import open_warehouse

_MOST_NAMED = 20
"""Rows with trouble that are told; the others are counted."""


def list_schemes() -> dict[str, LabelScheme]:
    """Return benchmark → what people may say of its answers, where a judge marks them."""
    return {name: each.labels for name, each in EVALUATIONS.items() if each.labels is not None}


def find_judged(warehouse: Path, name: str) -> tuple[Evaluation, LabelScheme, BuildRecord]:
    """Return an evaluation that a judge marked, by the name of its build; UsageError for any other."""
    record = find_build(warehouse, name)
    evaluation = next((each for each in EVALUATIONS.values() if each.name == record.benchmark), None)
    if evaluation is None or evaluation.labels is None:
        known = ", ".join(EVALUATIONS[each].name for each in list_schemes())
        raise UsageError(f"{record.build_id} holds no verdicts of a judge; expected a build of {known}")
    return evaluation, evaluation.labels, record


def read_rows(warehouse: Path, evaluation: Evaluation, record: BuildRecord) -> list[dict[str, Any]]:
    """Return the answers of an evaluation with their verdicts."""
    with open_warehouse(warehouse) as db:
        rows: list[dict[str, Any]] = published_table(db, record.build_id, evaluation.main_table).to_pylist()
    return rows


def export_labels(warehouse: Path, name: str, to: Path, n: int, seed: int, by: Sequence[str]) -> dict[str, Any]:
    """Draw answers of an evaluation, write them for people to label, and return what was written."""
    evaluation, scheme, record = find_judged(warehouse, name)
    if to.exists():
        raise OutputError(f"{to}: is there already and may hold labels; name another file, or remove it")
    rows = read_rows(warehouse, evaluation, record)
    unknown = [column for column in by if rows and column not in rows[0]]
    if unknown:
        raise UsageError(f"--by {unknown[0]}: expected a column of {evaluation.main_table}: {', '.join(rows[0])}")
    items = draw_items(scheme, rows, record.build_id, evaluation.of.name, n, seed, by)
    if not items:
        raise UsageError(f"{record.build_id} has no answer with a verdict: there is nothing to label")
    try:
        to.write_text(write_labels(scheme, items), "utf-8", newline="")
    except OSError as error:
        raise OutputError(f"{to}: cannot be written: {error.strerror}") from error
    with open_warehouse(warehouse) as db:
        save_items(db, items)
    model = str(record.lock["author"])
    judged = sum(bool(part.verdict) for row in rows for part in scheme.of(row))
    return {
        "file": str(to),
        "evaluation_id": record.build_id,
        "items": len(items),
        "judged": judged,
        "strata": {stratum: list(counts) for stratum, counts in count_strata(items).items()},
        "labels": dict(scheme.classes),
        "naming_the_model": sum(model.casefold() in item.answer.casefold() for item in items),
    }


def format_export(told: Mapping[str, Any]) -> list[str]:
    """Return what was written as lines to read."""
    lines = [
        f"{told['file']}: {told['items']} of {told['judged']} judged answers of {told['evaluation_id']}; fill in label "
        f"({', '.join(told['labels'])}), then factmill label import {told['file']} --labeller NAME"
    ]
    lines += [f"  {drawn:5} of {size:6}  {stratum}" for stratum, (drawn, size) in told["strata"].items()]
    left = told["judged"] - sum(size for _, size in told["strata"].values())
    if left:
        lines.append(f"  note: none was drawn of {left} answers, which are in other strata; with a larger --n they are")
    if told["naming_the_model"]:
        lines.append(f"  note: {told['naming_the_model']} answers hold the model's name themselves")
    return lines


def read_file(path: Path, export: str = "label export EVAL") -> tuple[str, str]:
    """Return a file's text and the SHA-256 of its bytes; UTF-8 with or without a mark, or a spreadsheet's UTF-16.

    `export`: the command that writes such a file. UsageError for what cannot be read.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; factmill {export} --to {path} writes one") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"), digest_bytes(data)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error}; save it as CSV in UTF-8") from error


def read_label_file(warehouse: Path, path: Path, labeller: str, benchmark: str = "") -> tuple[LabelFile, str]:
    """Return what a file of labels holds and its digest; who labelled is called as the file is where nobody says so."""
    text, digest = read_file(path)
    ids = name_items(text, path.name)
    with open_warehouse(warehouse) as db:
        known = find_items(db, ids)
    return read_labels(text, path.name, known, list_schemes(), labeller or path.stem, benchmark), digest


@dataclass(frozen=True)
class Imported:
    """What became of a file."""

    labels: int
    changed: int
    unlabelled: int
    """Items of the same draws that nobody has labelled."""
    labellers: tuple[str, ...]
    file: LabelFile
    among: Mapping[str, AmongPeople]
    """Benchmark → how far all who labelled its items agree."""


def import_labels(warehouse: Path, path: Path, labeller: str) -> Imported:
    """Take labels in; UsageError for a file of questions of somebody's own, which belong to no evaluation."""
    # any benchmark that takes them: whose labels of somebody's own are does not matter, they are refused
    anyone = next(name for name, scheme in list_schemes().items() if scheme.pose is not None)
    found, digest = read_label_file(warehouse, path, labeller, anyone)
    if not found.is_drawn:
        raise UsageError(
            f"{path}: it has no column item, so its labels are of no evaluation here; measure a judge on it with factmill "
            f"judge-card --labels {path} --judge NAME"
        )
    draws = {item.draw: item.benchmark for item in found.items.values()}
    with open_warehouse(warehouse) as db:
        changed = save_labels(db, found.labels, digest)
        drawn = {draw: find_draw(db, draw) for draw in draws}
        labels = {draw: load_labels(db, items) for draw, items in drawn.items()}
    schemes = list_schemes()
    of: dict[str, dict[str, Mapping[str, str]]] = {}
    for draw, given in labels.items():
        of.setdefault(draws[draw], {}).update(given)
    return Imported(
        labels=len(found.labels),
        changed=changed,
        unlabelled=sum(len(items) - len(labels[draw]) for draw, items in drawn.items()),
        labellers=tuple(sorted({label.labeller for label in found.labels})),
        file=found,
        among={name: compare_people(given, list(schemes[name].classes)) for name, given in sorted(of.items())},
    )


def format_import(path: Path, taken: Imported) -> list[str]:
    """Return what became of a file as lines to read."""
    who = f" of {', '.join(taken.labellers)}"
    lines = [
        f"{path}: {taken.labels} labels{who} taken in" + (f", {taken.changed} of them changed" if taken.changed else "")
    ]
    lines += format_troubles(taken.file)
    if taken.unlabelled:
        lines.append(f"  {taken.unlabelled} drawn items have no label yet")
    lines += [f"  {name}: {tell_among(each)}" for name, each in taken.among.items() if each.labellers > 1]
    return lines


def format_troubles(file: LabelFile) -> list[str]:
    """Return what is wrong in a file, row by row; rows without a label are counted alone."""
    missing = [trouble for trouble in file.troubles if trouble.kind == "missing"]
    others = [trouble for trouble in file.troubles if trouble.kind != "missing"]
    rows = [trouble.told.partition(":")[0].removeprefix("row ") for trouble in missing]
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    lines = [f"  {trouble.kind}: {trouble.told}" for trouble in others[:_MOST_NAMED]]
    lines += [f"  … and {len(others) - _MOST_NAMED} more"] if len(others) > _MOST_NAMED else []
    lines += [f"  missing: no label in {len(rows)} of the rows: {', '.join(rows[:_MOST_NAMED])}{more}"] if rows else []
    return lines
