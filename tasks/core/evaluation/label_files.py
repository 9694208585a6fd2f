"""Files of labels as they come back from people: what can be used of them, and what is wrong, row by row.

A row is told by its number in the spreadsheet. Nothing is guessed: a label that is none, two that contradict each other
and a row whose text is not the one that was drawn are told and left out; the rest is used.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tasks.core.evaluation.labels import DrawnItem, LabelScheme
from tasks.core.fingerprints import digest_json
from tasks.core.reviewing.review_tables import read_loose_table
from tasks.errors import SourceError

TEXTS = ("question", "gold", "answer")
Kind = Literal["missing", "unreadable", "doubled", "contradicting", "unknown", "changed"]
_CELL = 32_000
"""Characters of a text that are compared: a spreadsheet keeps no more than 32,767 of a cell."""
_WHOLE = re.compile(r"([0-9]+)[.,]0*")


@dataclass(frozen=True, slots=True)
class Label:
    """What one person says of one item."""

    item: str
    labeller: str
    label: str
    note: str
    row: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a row."""

    kind: Kind
    told: str
    """With the row's number."""


@dataclass(slots=True)
class LabelFile:
    """What a file holds."""

    items: dict[str, DrawnItem] = field(default_factory=dict)
    """Item → what it is, where it has a label or was to have one."""
    labels: list[Label] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    is_drawn: bool = True
    """True for a file of `label export`; else it holds questions and answers of somebody's own."""

    def count_troubles(self) -> dict[str, int]:
        """Return kind → rows with it."""
        return dict(sorted(Counter(trouble.kind for trouble in self.troubles).items()))


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    cells: Mapping[str, str]

    def get(self, name: str) -> str:
        return self.cells.get(name, "").strip()


def name_items(text: str, file: str) -> list[str]:
    """Return the ids of drawn items that a file names; none where it has no column of them."""
    return [row.get("item") for row in _read_rows(text, file) if row.get("item")]


def read_labels(
    text: str,
    file: str,
    known: Mapping[str, DrawnItem],
    schemes: Mapping[str, LabelScheme],
    labeller: str,
    benchmark: str = "",
) -> LabelFile:
    """Read a file of labels.

    `known`: the drawn items among those that it names; `labeller`: who labelled where the file has no such column;
    `benchmark`: whose the labels are where they are of somebody's own and the file has no such column. SourceError for a
    file as a whole: no table, columns that lack, or nothing in it that can be used.
    """
    rows = _read_rows(text, file)
    found = LabelFile(is_drawn="item" in rows[0].cells) if rows else LabelFile()
    given: dict[tuple[str, str], list[Label]] = {}
    for row in rows:
        item = _find_item(row, known, schemes, benchmark, found.is_drawn, file)
        if isinstance(item, Trouble):
            found.troubles.append(item)
            continue
        found.items[item.id] = item
        label = _read_label(row.get("label"), schemes[item.benchmark].classes)
        if label is None:
            expected = ", ".join(schemes[item.benchmark].classes)
            said = row.get("label")
            kind: Kind = "unreadable" if said else "missing"
            told = (
                f"the label is {said!r}; expected one of {expected}"
                if said
                else f"no label; expected one of {expected}"
            )
            found.troubles.append(Trouble(kind, f"row {row.number}: {told}"))
            continue
        who = row.get("labeller") or labeller
        given.setdefault((item.id, who), []).append(Label(item.id, who, label, row.get("note"), row.number))
    for labels in given.values():
        _settle(labels, found)
    found.labels.sort(key=lambda label: (label.item, label.labeller))
    if not found.labels:
        told = "; ".join(trouble.told for trouble in found.troubles[:3]) or "there is no row below the head"
        raise SourceError(f"{file}: no label that can be used: {told}")
    return found


def _read_rows(text: str, file: str) -> list[_Row]:
    head, rows = read_loose_table(text, file)
    twice = [name for name, count in Counter(head).items() if name and count > 1]
    lacking = [] if "item" in head else [name for name in TEXTS if name not in head]
    lacking += [] if "label" in head else ["label"]
    if twice or lacking:
        told = f"the column {twice[0]} stands there twice" if twice else f"the column {lacking[0]} is missing"
        raise SourceError(
            f"{file}: {told}; expected item and label, as factmill label export wrote them, or question, gold, answer and "
            f"label; found {', '.join(head)}"
        )
    found = []
    for number, record in rows:
        if any(cell.strip() for cell in record[len(head) :]):
            raise SourceError(
                f"{file}, row {number}: {len(record)} cells, expected {len(head)}; a text with a separator in it stands there "
                "without quotation marks: save it as CSV by a spreadsheet"
            )
        found.append(_Row(number, dict(zip(head, record, strict=False))))
    return found


def _find_item(
    row: _Row,
    known: Mapping[str, DrawnItem],
    schemes: Mapping[str, LabelScheme],
    benchmark: str,
    is_drawn: bool,
    file: str,
) -> DrawnItem | Trouble:
    """Return what a row is about."""
    if not is_drawn:
        return _make_item(row, schemes, benchmark, file)
    name = row.get("item")
    item = known.get(name)
    if item is None:
        told = f"the item is {name!r}, which this warehouse did not draw" if name else "no item"
        return Trouble("unknown", f"row {row.number}: {told}")
    for column in TEXTS:
        if column in row.cells and not _is_same(row.cells[column], getattr(item, column)):
            return Trouble(
                "changed",
                f"row {row.number}: the {column} is not the one that was drawn for {name}: {row.get(column)[:40]!r}; were "
                "columns sorted one without the others, or was a cell edited?",
            )
    return item


def _make_item(row: _Row, schemes: Mapping[str, LabelScheme], benchmark: str, file: str) -> DrawnItem | Trouble:
    name = row.get("benchmark") or benchmark
    known = [each for each, scheme in schemes.items() if scheme.pose is not None]
    if name not in known:
        told = f"the benchmark {name!r}" if name else "no benchmark"
        raise SourceError(
            f"{file}, row {row.number}: {told}; expected one of {', '.join(known)}, in a column benchmark or by --benchmark"
        )
    texts = {column: row.get(column) for column in TEXTS}
    if not texts["question"]:
        return Trouble("unknown", f"row {row.number}: no question")
    key = digest_json([name, *texts.values()])[:16]
    blank = dict.fromkeys(("draw", "evaluation", "answer_id", "part", "setting", "stratum"), "")
    return DrawnItem(id=key, benchmark=name, cluster=texts["question"], stratum_size=0, **blank, **texts)


def _read_label(said: str, classes: Mapping[str, str]) -> str | None:
    """Return the label that somebody typed, in whatever letters; a spreadsheet may write 1 as 1.0 or 1,00."""
    plain = unicodedata.normalize("NFKC", said).strip()
    if number := _WHOLE.fullmatch(plain):
        plain = number[1]
    return next((label for label in classes if label.casefold() == plain.casefold()), None)


def _is_same(one: str, other: str) -> bool:
    """True where a cell holds a text: white space, and what no cell has room for, aside."""
    first, second = (" ".join(unicodedata.normalize("NFC", text)[:_CELL].split()) for text in (one, other))
    return first == second


def _settle(labels: Sequence[Label], found: LabelFile) -> None:
    """Keep the label of an item by one person; more than one is told, and none is kept where they contradict."""
    numbers = " and ".join(str(label.row) for label in labels)
    who = f" of {labels[0].labeller}" if labels[0].labeller else ""
    if len({label.label for label in labels}) > 1:
        said = " and ".join(label.label for label in labels)
        found.troubles.append(
            Trouble("contradicting", f"rows {numbers}: the same item has the labels {said}{who}; none is used")
        )
        return
    if len(labels) > 1:
        found.troubles.append(
            Trouble("doubled", f"rows {numbers}: the same item{who} with the same label; it counts once")
        )
    found.labels.append(labels[0])
