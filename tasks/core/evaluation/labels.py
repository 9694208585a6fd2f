"""Labels of people on answers that a judge marked: which answers are drawn, what people may say, and files of labels as they come back.

A draw is stratified by setting and the judge's verdict, with as many items of each stratum as there are or as fit, so
that what is rare is there; each item knows its stratum's size, by which figures are weighted back. Those who label see
question, gold answer and answer: neither the model nor the judge nor its verdict, and no order or id that tells of them.

A row is told by its number in the spreadsheet. Nothing is guessed: a label that is none, two that contradict each other
and a row whose text is not the one that was drawn are told and left out; the rest is used.
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
"""Columns of a file that goes out; `label` and `note` are to be filled in, `labels` says what a label may be."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing of an answer that a judge gave a verdict on."""

    part: str
    """What tells it apart within the answer: a fact's number, what is rated; empty where there is one thing."""
    question: str
    """What is asked, as whoever labels reads it."""
    gold: str
    answer: str
    """As the judge was shown it."""
    verdict: str
    """A label; empty where the judge's reply could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScheme:
    """What verdicts on the answers of an evaluation are, for people to give the same (`factmill label`, `judge-card`).

    FanOutQA's, where one answer has one grade, of which three mean that it is right:

        LabelScheme(
            asks="How does the answer compare with the gold answer?",
            classes={"A": "wrong or no answer", "B": "right, and more exact", …, "F": "right in part"},
            right=frozenset("BCE"), metric="judged",
            of=lambda row: [Part("", row["question"], row["gold"], row["answer_read"], row["grade"])] if … else [],
            prompts=(JUDGE_ANSWER,), pose=pose_answer,
        )

    BioKaLMA's has `classes={"1": "worst", …, "5": "best"}`, `is_ordinal=True`, and as many parts of an answer as are
    rated: `Part("coherence", "Is the text coherent? …", "", answer, str(row["ratings"]["coherence"]))`, …
    """

    asks: str
    """What whoever labels is asked, one line."""
    classes: Mapping[str, str]
    """Label → what it means; where they have an order, from the worst to the best."""
    of: Callable[[Mapping[str, Any]], Iterable[Part]]
    """A row of the evaluation's main table → what a judge was asked about it; nothing where no judge was asked."""
    prompts: tuple[str, ...]
    """The judge's prompts: with its name, what it is."""
    pose: Callable[[str, str, str, str], Any] | None = None
    """Id, question, gold answer and answer of somebody's own → the answer's row, as the evaluation's judging takes it;
    the judged row of that is one that `of` reads, with one part. None: judges are asked several things of an answer, so only drawn
    answers can be labelled."""
    is_ordinal: bool = False
    right: frozenset[str] = frozenset()
    """Labels that count as right; empty where labels are ratings."""
    metric: str = ""
    """Metric that is the share of answers with such a verdict: what a judge's card corrects."""


class DrawnItem(StrictModel):
    """One thing that people are asked to label, and what they are not told of it."""

    id: str
    """As the file has it; tells nothing."""
    draw: str
    """Digest of the evaluation, number, seed and strata that it was drawn by."""
    evaluation: str
    """Id of the evaluation it was drawn of."""
    benchmark: str
    """The evaluated benchmark."""
    answer_id: str
    """Id of the answer's row in the evaluation's main table."""
    part: str
    """Which part of the answer is labelled; empty where it is the whole."""
    setting: str
    """In which the model was asked."""
    cluster: str
    """Answers of one cluster are not independent of each other."""
    question: str
    """What the model was asked, as people see it."""
    gold: str
    """What counts as right, as people see it."""
    answer: str
    """What the model said."""
    stratum: str
    """Setting, verdict and what else was stratified by."""
    stratum_size: int
    """Judged things in it, drawn or not."""


def draw_items(
    scheme: LabelScheme,
    rows: Iterable[Mapping[str, Any]],
    evaluation: str,
    benchmark: str,
    n: int,
    seed: int,
    by: Sequence[str],
) -> list[DrawnItem]:
    """Return the items of a draw, in the order in which people get them, as many as there are up to `n`.

    `rows`: of the evaluation's main table; `by`: their columns by which is stratified beside setting and verdict. What has
    no verdict is not drawn: there is nothing to compare a label with.
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
    """Return how many items of each stratum are drawn: alike many, what a small one lacks shared among the others."""
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
    """Return the file that people fill in, as CSV."""
    meaning = describe_labels(scheme)
    texts = ({"question": item.question, "gold": item.gold, "answer": item.answer} for item in items)
    blank = {"label": "", "note": "", "labels": meaning}
    return write_table(COLUMNS, ({"item": item.id, **text, **blank} for item, text in zip(items, texts, strict=True)))


def describe_labels(scheme: LabelScheme) -> str:
    """Return what is asked and what a label may be, as one line."""
    return f"{scheme.asks} {'; '.join(f'{label}: {meaning}' for label, meaning in scheme.classes.items())}"


def count_strata(items: Iterable[DrawnItem]) -> dict[str, tuple[int, int]]:
    """Return stratum → items drawn of it, and its items in all, by name."""
    drawn = Counter((item.stratum, item.stratum_size) for item in items)
    return {stratum: (count, size) for (stratum, size), count in sorted(drawn.items())}


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
    benchmark: str | None = "",
) -> LabelFile:
    """Read a file of labels.

    `known`: the drawn items among those that it names; `labeller`: who labelled where the file has no such column;
    `benchmark`: whose the labels are where they are of somebody's own and the file has no such column; None: only labels of
    drawn items are taken. SourceError for a file as a whole: no table, columns that lack, or nothing in it that can be used.
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
