"""Human labels of answers that a judge marked: drawing the answers, the allowed labels, and parsing the returned files.

A draw is stratified by setting and the judge's verdict, with equal numbers from each stratum as far as possible, so that
rare verdicts occur; each item records its stratum's size, by which figures are reweighted. Labellers see question, gold
answer and answer, but neither the model, the judge nor its verdict; order and ids reveal nothing about these.

Messages name a row by its number in the spreadsheet. Nothing is guessed: invalid labels, contradicting labels and rows
whose text differs from the drawn one are reported and left out; the rest is used.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.review import read_loose_table, write_table
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.errors import SourceError

COLUMNS = ("item", "question", "gold", "answer", "label", "note", "labels")
"""Columns of an exported file; people fill in `label` and `note`; `labels` lists the allowed labels."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an answer, with the judge's verdict on it."""

    part: str
    """Id of the part within the answer: a fact's number, the rated quality; empty if there is only one."""
    question: str
    """Question as labellers see it."""
    gold: str
    answer: str
    """Answer as the judge saw it."""
    verdict: str
    """A label; empty where the judge's completion could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScheme:
    """Verdicts of a judge in an evaluation, so that people can label the same (`factmill label`, `judge-card`).

    FanOutQA's scheme, where an answer has one grade, and three grades mean that it is right:

        LabelScheme(
            asks="How does the answer compare with the gold answer?",
            classes={"A": "wrong or no answer", "B": "right, and more exact", …, "F": "right in part"},
            right=frozenset("BCE"), metric="judged",
            of=lambda row: [Part("", row["question"], row["gold"], row["answer_read"], row["grade"])] if … else [],
            prompts=(JUDGE_ANSWER,), pose=pose_answer,
        )

    BioKaLMA's has `classes={"1": "worst", …, "5": "best"}`, `is_ordinal=True`, and one part of an answer per rating:
    `Part("coherence", "Is the text coherent? …", "", answer, str(row["ratings"]["coherence"]))`, …
    """

    asks: str
    """Question to labellers, one line."""
    classes: Mapping[str, str]
    """Label → its meaning; ordered labels go from worst to best."""
    of: Callable[[Mapping[str, Any]], Iterable[Part]]
    """A row of the evaluation's main table → its judged parts; empty if no judge saw it."""
    prompts: tuple[str, ...]
    """The judge's prompts, which with its name identify it."""
    pose: Callable[[str, str, str, str], Any] | None = None
    """Id, question, gold answer and answer from elsewhere → the answer's row, as input to the evaluation's judging; `of` reads
    one part from the judged row. None: an answer has several judged parts, so only drawn answers can be labelled."""
    is_ordinal: bool = False
    right: frozenset[str] = frozenset()
    """Labels that count as right; empty where labels are ratings."""
    metric: str = ""
    """Metric that is the share of answers with such a verdict; a judge's card corrects it."""


class DrawnItem(StrictModel):
    """One item for people to label, with the details that are hidden from them."""

    id: str
    """Id in the file; it reveals nothing about the item."""
    draw: str
    """Digest of the draw's evaluation, number of items, seed and strata."""
    evaluation: str
    """Id of the evaluation that it was drawn from."""
    benchmark: str
    """The evaluated benchmark."""
    answer_id: str
    """Id of the answer's row in the evaluation's main table."""
    part: str
    """Labelled part of the answer; empty for the whole answer."""
    setting: str
    """Setting in which the model was asked."""
    cluster: str
    """Resampling unit: answers of one cluster are not independent."""
    question: str
    """Question to the model, as people see it."""
    gold: str
    """Gold answer, as people see it."""
    answer: str
    """The model's answer."""
    stratum: str
    """Setting, verdict and further stratification values."""
    stratum_size: int
    """Number of judged items in the stratum, drawn or not."""


def draw_items(
    scheme: LabelScheme,
    rows: Iterable[Mapping[str, Any]],
    evaluation: str,
    benchmark: str,
    n: int,
    seed: int,
    by: Sequence[str],
) -> list[DrawnItem]:
    """Draw at most `n` items to label, in the order in which people get them.

    `rows`: those of the evaluation's main table; `by`: columns for stratification in addition to setting and verdict. Items
    without a verdict are not drawn: there is nothing to compare a label with.
    """
    draw = digest_json([evaluation, n, seed, list(by)])[:16]
    strata: dict[str, list[DrawnItem]] = {}
    for row in rows:
        for part in scheme.of(row):
            if part.verdict:
                stratum = " | ".join([row["setting"], part.verdict, *(str(row[column]) for column in by)])
                strata.setdefault(stratum, []).append(
                    DrawnItem(
                        # a letter before it, lest a spreadsheet takes it for a number
                        id=f"q{digest_json([draw, row['id'], part.part])[:12]}",
                        draw=draw,
                        evaluation=evaluation,
                        benchmark=benchmark,
                        answer_id=row["id"],
                        setting=row["setting"],
                        cluster=row["cluster"],
                        stratum=stratum,
                        stratum_size=0,
                        part=part.part,
                        question=part.question,
                        gold=part.gold,
                        answer=part.answer,
                    )
                )
    drawn: list[DrawnItem] = []
    for name, size in share_out({name: len(items) for name, items in strata.items()}, n, seed).items():
        chosen = sorted(strata[name], key=lambda item: digest_json([seed, "draw", item.id]))[:size]
        drawn += [item.model_copy(update={"stratum_size": len(strata[name])}) for item in chosen]
    return sorted(drawn, key=lambda item: digest_json([seed, "order", item.id]))


def share_out(sizes: Mapping[str, int], n: int, seed: int) -> dict[str, int]:
    """Return the number of items to draw per stratum: equal shares, with the shortfall of small strata given to others."""
    shares = dict.fromkeys(sizes, 0)
    order = sorted(sizes, key=lambda name: digest_json([seed, "stratum", name]))
    left = min(n, sum(sizes.values()))
    while left:
        open_ = [name for name in order if shares[name] < sizes[name]]
        each = max(1, left // len(open_))
        for name in open_[:left]:
            more = min(each, sizes[name] - shares[name], left)
            shares[name] += more
            left -= more
    return shares


def write_labels(scheme: LabelScheme, items: Sequence[DrawnItem]) -> str:
    """Format the file that people fill in, as CSV."""
    meaning = describe_labels(scheme)
    texts = ({"question": item.question, "gold": item.gold, "answer": item.answer} for item in items)
    blank = {"label": "", "note": "", "labels": meaning}
    return write_table(COLUMNS, ({"item": item.id, **text, **blank} for item, text in zip(items, texts, strict=True)))


def describe_labels(scheme: LabelScheme) -> str:
    """Format the question to labellers and the allowed labels, as one line."""
    return f"{scheme.asks} {'; '.join(f'{label}: {meaning}' for label, meaning in scheme.classes.items())}"


def count_strata(items: Iterable[DrawnItem]) -> dict[str, tuple[int, int]]:
    """Return stratum → (drawn items, all items), sorted by name."""
    drawn = Counter((item.stratum, item.stratum_size) for item in items)
    return {stratum: (count, size) for (stratum, size), count in sorted(drawn.items())}


TEXTS = ("question", "gold", "answer")
Kind = Literal["missing", "unreadable", "doubled", "contradicting", "unknown", "changed"]
_CELL = 32_000
"""Number of characters of a text to compare: a spreadsheet keeps at most 32,767 of a cell."""
_WHOLE = re.compile(r"([0-9]+)[.,]0*")


@dataclass(frozen=True, slots=True)
class Label:
    """One person's label of one item."""

    item: str
    labeller: str
    label: str
    note: str
    row: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem with a row of a label file."""

    kind: Kind
    told: str
    """Message with the row's number."""


@dataclass(slots=True)
class LabelFile:
    """Parsed file of labels."""

    items: dict[str, DrawnItem] = field(default_factory=dict)
    """Id → item, of all valid rows, with or without a label."""
    labels: list[Label] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    is_drawn: bool = True
    """True for a file of `label export`; else its questions and answers come from elsewhere."""

    def count_troubles(self) -> dict[str, int]:
        """Return kind of problem → number of rows."""
        return dict(sorted(Counter(trouble.kind for trouble in self.troubles).items()))


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    cells: Mapping[str, str]

    def get(self, name: str) -> str:
        return self.cells.get(name, "").strip()


def name_items(text: str, file: str) -> list[str]:
    """Return the item ids in a file; empty if it has no such column."""
    return [row.get("item") for row in _read_rows(text, file) if row.get("item")]


def read_labels(
    text: str,
    file: str,
    known: Mapping[str, DrawnItem],
    schemes: Mapping[str, LabelScheme],
    labeller: str,
    benchmark: str | None = "",
) -> LabelFile:
    """Parse a file of labels.

    `known`: drawn items, by id; `labeller`: name for rows without that column; `benchmark`: the benchmark of answers from
    elsewhere if the file has no such column; None: accept labels of drawn items only. SourceError for the whole file: no
    table, missing columns, or no usable label.
    """
    rows = _read_rows(text, file)
    found = LabelFile(is_drawn="item" in rows[0].cells) if rows else LabelFile()
    if benchmark is None and not found.is_drawn:
        raise SourceError(
            f"{file}: it has no column item, so its labels are of no evaluation here; measure a judge on it with factmill "
            f"judge-card --labels {file} --judge NAME"
        )
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
    benchmark: str | None,
    is_drawn: bool,
    file: str,
) -> DrawnItem | Trouble:
    """Return the item of a row, or the problem with it."""
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


def _make_item(row: _Row, schemes: Mapping[str, LabelScheme], benchmark: str | None, file: str) -> DrawnItem | Trouble:
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
    """Return the label that a person typed, ignoring case, or None; a spreadsheet may write 1 as 1.0 or 1,00."""
    plain = unicodedata.normalize("NFKC", said).strip()
    if number := _WHOLE.fullmatch(plain):
        plain = number[1]
    return next((label for label in classes if label.casefold() == plain.casefold()), None)


def _is_same(one: str, other: str) -> bool:
    """True when a cell holds a text, ignoring white space and characters beyond a cell's capacity."""
    first, second = (" ".join(unicodedata.normalize("NFC", text)[:_CELL].split()) for text in (one, other))
    return first == second


def _settle(labels: Sequence[Label], found: LabelFile) -> None:
    """Add one person's label of an item to the file; report repeated labels, and keep none if they contradict."""
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
