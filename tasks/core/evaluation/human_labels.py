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
from typing import Any

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.review import parse_spreadsheet_csv
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.core.sheets.sheet import (
    FilledSheetRow,
    Sheet,
    SheetLayout,
    SheetProblem,
    SheetProblemKind,
    SheetQuestion,
)
from factmill.tasks.errors import SourceError

LABEL_FILE_COLUMNS = ("item", "question", "gold", "answer", "label", "note", "labels")
"""Columns of an exported file; people fill in `label` and `note`; `labels` lists the allowed labels."""


@dataclass(frozen=True, slots=True)
class AnswerPartWithJudgeVerdict:
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
class JudgeVerdictLabelScheme:
    """Verdicts of a judge in an evaluation, so that people can label the same (`factmill label`, `judge-card`).

    FanOutQA's answers have one part, a grade from A to F, and three grades are `right_labels`; BioKaLMA's have one part per
    rating, with the ordered labels 1 to 5.
    """

    instruction: str
    """Question to labellers, one line."""
    classes: Mapping[str, str]
    """Label → its meaning; ordered labels go from worst to best."""
    list_judged_parts: Callable[[Mapping[str, Any]], Iterable[AnswerPartWithJudgeVerdict]]
    """A row of the evaluation's main table → its judged parts; empty if no judge saw it."""
    prompts: tuple[str, ...]
    """The judge's prompts, which with its name identify it."""
    make_answer_row: Callable[[str, str, str, str], Any] | None = None
    """Id, question, gold answer and answer from elsewhere → the answer's row, as input to the evaluation's judging; `list_judged_parts` reads
    one part from the judged row. None: an answer has several judged parts, so only drawn answers can be labelled."""
    is_ordinal: bool = False
    right_labels: frozenset[str] = frozenset()
    """Labels that count as right; empty where labels are ratings."""
    metric: str = ""
    """Metric that is the share of answers with such a verdict; a judge's card corrects it."""


class ItemToLabel(StrictModel):
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


def draw_stratified_label_items(
    scheme: JudgeVerdictLabelScheme,
    rows: Iterable[Mapping[str, Any]],
    evaluation: str,
    benchmark: str,
    n: int,
    seed: int,
    by: Sequence[str],
) -> list[ItemToLabel]:
    """Draw at most `n` items to label, in the order in which people get them.

    `rows`: those of the evaluation's main table; `by`: columns for stratification in addition to setting and verdict. Items
    without a verdict are not drawn: there is nothing to compare a label with.
    """
    draw = digest_json([evaluation, n, seed, list(by)])[:16]
    strata: dict[str, list[ItemToLabel]] = {}
    for row in rows:
        for part in scheme.list_judged_parts(row):
            if part.verdict:
                stratum = " | ".join([row["setting"], part.verdict, *(str(row[column]) for column in by)])
                strata.setdefault(stratum, []).append(
                    ItemToLabel(
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
    drawn: list[ItemToLabel] = []
    for name, size in allocate_equal_shares_to_strata(
        {name: len(items) for name, items in strata.items()}, n, seed
    ).items():
        chosen = sorted(strata[name], key=lambda item: digest_json([seed, "draw", item.id]))[:size]
        drawn += [item.model_copy(update={"stratum_size": len(strata[name])}) for item in chosen]
    return sorted(drawn, key=lambda item: digest_json([seed, "order", item.id]))


def allocate_equal_shares_to_strata(sizes: Mapping[str, int], n: int, seed: int) -> dict[str, int]:
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


def make_label_layout(scheme: JudgeVerdictLabelScheme | None = None) -> SheetLayout:
    """Return the layout of a sheet of answers to label; without a scheme, that of a file whose labels are checked later."""
    asked, classes = (scheme.instruction, scheme.classes) if scheme else ("", {})
    return SheetLayout(
        columns=LABEL_FILE_COLUMNS,
        key="item",
        who="labeller",
        shown=SHOWN_TEXT_COLUMNS,
        questions=(SheetQuestion("label", asked, classes), SheetQuestion("note", "Note")),
        instruction="Read the answer, and label it.",
        several_people=True,
    )


def make_label_sheet(scheme: JudgeVerdictLabelScheme, items: Sequence[ItemToLabel]) -> Sheet:
    """Return the drawn items as a sheet, which tells neither model nor judge nor verdict."""
    blank = {"label": "", "note": "", "labels": format_label_instruction(scheme)}
    texts = ({name: getattr(item, name) for name in SHOWN_TEXT_COLUMNS} for item in items)
    rows = [{"item": item.id, **text, **blank} for item, text in zip(items, texts, strict=True)]
    return Sheet(make_label_layout(scheme), rows)


def format_label_instruction(scheme: JudgeVerdictLabelScheme) -> str:
    """Format the question to labellers and the allowed labels, as one line."""
    return f"{scheme.instruction} {'; '.join(f'{label}: {meaning}' for label, meaning in scheme.classes.items())}"


def count_drawn_and_all_by_stratum(items: Iterable[ItemToLabel]) -> dict[str, tuple[int, int]]:
    """Return stratum → (drawn items, all items), sorted by name."""
    drawn = Counter((item.stratum, item.stratum_size) for item in items)
    return {stratum: (count, size) for (stratum, size), count in sorted(drawn.items())}


SHOWN_TEXT_COLUMNS = ("question", "gold", "answer")
_MAX_COMPARED_CHARACTERS = 32_000
"""Number of characters of a text to compare: a spreadsheet keeps at most 32,767 of a cell."""
_WHOLE_NUMBER = re.compile(r"([0-9]+)[.,]0*")


@dataclass(frozen=True, slots=True)
class HumanLabel:
    """One person's label of one item."""

    item: str
    labeller: str
    label: str
    note: str
    place: str
    """Place in the file: "row 3", "task 17"."""


@dataclass(slots=True)
class ParsedLabelFile:
    """Parsed file of labels."""

    items: dict[str, ItemToLabel] = field(default_factory=dict)
    """Id → item, of all valid rows, with or without a label."""
    labels: list[HumanLabel] = field(default_factory=list)
    problems: list[SheetProblem] = field(default_factory=list)
    is_of_draw: bool = True
    """True for a file of `label --to`; else its questions and answers come from elsewhere."""


def parse_label_rows(
    rows: Sequence[FilledSheetRow],
    file: str,
    drawn_items: Mapping[str, ItemToLabel],
    schemes: Mapping[str, JudgeVerdictLabelScheme],
    labeller: str,
    benchmark: str | None = "",
    problems: Sequence[SheetProblem] = (),
) -> ParsedLabelFile:
    """Parse the rows of a file of labels.

    `drawn_items`: drawn items, by id; `labeller`: name for rows without that column; `benchmark`: the benchmark of answers from
    elsewhere if the file has no such column; None: accept labels of drawn items only; `problems`: those of rows that were
    left out before. SourceError for the whole file: missing columns, or no usable label.
    """
    found = ParsedLabelFile(is_of_draw="item" in rows[0].cells) if rows else ParsedLabelFile()
    found.problems += problems
    if benchmark is None and not found.is_of_draw:
        raise SourceError(
            f"{file}: the column item is missing, so these labels belong to no evaluation in this warehouse; measure a judge on them with factmill "
            f"judge-card --labels {file} --judge NAME"
        )
    given: dict[tuple[str, str], list[HumanLabel]] = {}
    for row in rows:
        item = _find_or_make_label_item(row, drawn_items, schemes, benchmark, found.is_of_draw, file)
        if isinstance(item, SheetProblem):
            found.problems.append(item)
            continue
        found.items[item.id] = item
        cell, classes = row.get("label"), schemes[item.benchmark].classes
        plain = unicodedata.normalize("NFKC", cell).strip()
        if number := _WHOLE_NUMBER.fullmatch(plain):  # a spreadsheet may write 1 as 1.0 or 1,00
            plain = number[1]
        label = next((each for each in classes if each.casefold() == plain.casefold()), None)
        if label is None:
            kind: SheetProblemKind = "unreadable" if cell else "missing"
            message = f"the label is {cell!r}" if cell else "no label"
            found.problems.append(SheetProblem(kind, f"{row.place}: {message}; expected one of {', '.join(classes)}"))
            continue
        who = row.get("labeller") or labeller
        given.setdefault((item.id, who), []).append(HumanLabel(item.id, who, label, row.get("note"), row.place))
    for labels in given.values():
        _add_merged_label_of_one_person(labels, found)
    found.labels.sort(key=lambda label: (label.item, label.labeller))
    if not found.labels:
        message = (
            "; ".join(trouble.message for trouble in found.problems[:3]) or "the file has no rows below the header"
        )
        raise SourceError(f"{file}: no usable label: {message}")
    return found


def parse_label_csv_rows(text: str, file: str) -> list[FilledSheetRow]:
    """Parse the rows of a CSV of labels; SourceError for the whole file: no table, or missing columns."""
    head, rows = parse_spreadsheet_csv(text, file)
    twice = [name for name, count in Counter(head).items() if name and count > 1]
    lacking = [] if "item" in head else [name for name in SHOWN_TEXT_COLUMNS if name not in head]
    lacking += [] if "label" in head else ["label"]
    if twice or lacking:
        problem = f"the column {twice[0]} appears twice" if twice else f"the column {lacking[0]} is missing"
        raise SourceError(
            f"{file}: {problem}; expected the columns item and label, as written by factmill label, or question, gold, answer and "
            f"label; found {', '.join(head)}"
        )
    found = []
    for number, record in rows:
        if any(cell.strip() for cell in record[len(head) :]):
            raise SourceError(
                f"{file}, row {number}: {len(record)} cells, expected {len(head)}; a text that contains a separator "
                "is not quoted: save the file as CSV from a spreadsheet program"
            )
        found.append(FilledSheetRow(f"row {number}", number, dict(zip(head, record, strict=False))))
    return found


def _find_or_make_label_item(
    row: FilledSheetRow,
    known: Mapping[str, ItemToLabel],
    schemes: Mapping[str, JudgeVerdictLabelScheme],
    benchmark: str | None,
    is_drawn: bool,
    file: str,
) -> ItemToLabel | SheetProblem:
    """Return the item of a row, or the problem with it."""
    if not is_drawn:
        name = row.get("benchmark") or benchmark
        usable = [each for each, scheme in schemes.items() if scheme.make_answer_row is not None]
        if name not in usable:
            problem = f"unknown benchmark {name!r}" if name else "the benchmark is missing"
            raise SourceError(
                f"{file}, {row.place}: {problem}; expected one of {', '.join(usable)}, in the column benchmark or as --benchmark"
            )
        texts = {column: row.get(column) for column in SHOWN_TEXT_COLUMNS}
        if not texts["question"]:
            return SheetProblem("unknown", f"{row.place}: the question is empty")
        key = digest_json([name, *texts.values()])[:16]
        blank = dict.fromkeys(("draw", "evaluation", "answer_id", "part", "setting", "stratum"), "")
        return ItemToLabel(id=key, benchmark=name, cluster=texts["question"], stratum_size=0, **blank, **texts)
    name = row.get("item")
    item = known.get(name)
    if item is None:
        problem = f"this warehouse has drawn no item {name!r}" if name else "the item is empty"
        return SheetProblem("unknown", f"{row.place}: {problem}")
    for column in SHOWN_TEXT_COLUMNS:
        cell, drawn = (
            # a spreadsheet may change white space, and cuts a cell off at its capacity
            " ".join(unicodedata.normalize("NFC", text)[:_MAX_COMPARED_CHARACTERS].split())
            for text in (row.cells.get(column, ""), getattr(item, column))
        )
        if column in row.cells and cell != drawn:
            return SheetProblem(
                "changed",
                f"{row.place}: the {column} of {name} differs from the drawn one: {row.get(column)[:40]!r}; check whether "
                "a column was sorted without the others or a cell was edited",
            )
    return item


def _add_merged_label_of_one_person(labels: Sequence[HumanLabel], label_file: ParsedLabelFile) -> None:
    """Add one person's label of an item to the file; report repeated labels, and keep none if they contradict."""
    # "rows 3 and 7", as a spreadsheet's user says
    places = " and ".join(dict.fromkeys(label.place for label in labels)).replace(" and row ", " and ")
    places = places.replace("row ", "rows ", 1)
    who = f" by {labels[0].labeller}" if labels[0].labeller else ""
    if len({label.label for label in labels}) > 1:
        differing = " and ".join(label.label for label in labels)
        label_file.problems.append(
            SheetProblem(
                "contradicting", f"{places}: the same item has different labels{who}: {differing}; none is used"
            )
        )
        return
    if len(labels) > 1:
        label_file.problems.append(
            SheetProblem("doubled", f"{places}: the same item has the same label{who}; it counts once")
        )
    label_file.labels.append(labels[0])
