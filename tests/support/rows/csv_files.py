"""Read, change and write CSV files as people fill them in."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def write_csv(path: Path, rows: Iterable[Mapping[str, str]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    first, *others = rows
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(first), delimiter=delimiter)
        writer.writeheader()
        writer.writerows([first, *others])
    return path
