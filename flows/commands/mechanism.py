"""`factmill mechanism`: find which components of a local model carry a fact in its short and in its long answer."""

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from factmill.flows.cli.options import AsJson, check_warehouse, list_options, print_result, read_options, write_file
from factmill.flows.running import make_build
from factmill.tasks import progress
from factmill.tasks.assets import load_list
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.metrics import round_value
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.errors import OutputError
from factmill.tasks.evaluation.record import METRICS, Item, pick_worst
from factmill.tasks.options import BuildReport, RunOptions, warehouse_of
from factmill.tasks.reports.content import PaperRow, Report, Subject, Unscored
from factmill.tasks.reports.entries import list_entries
from factmill.tasks.reports.pages import RENDERERS
from factmill.tasks.reports.texts import format_number, say, tell
from factmill.tasks.settings import home
from factmill.tasks.slaq.core.mechanism.pairing import pair_fact
from factmill.tasks.slaq.core.mechanism.rows import FEATURES, ComparedFact, PairedFact, count_kinds, format_kinds
from factmill.tasks.slaq.mechanism.ablating import require_extra
from factmill.tasks.slaq.mechanism.local_model import choose_device, read_layers
from factmill.tasks.slaq.mechanism.measure import (
    ACCURACY,
    ALIGNED,
    ALL,
    AUC,
    BY_FACT,
    DIFFERENCE,
    MISALIGNED,
    PAPER,
    draw_figures,
)
from factmill.tasks.slaq.mechanism.record import (
    MECHANISM,
    MechanismParams,
    choose_of,
    lock_inputs,
    read_pairs,
    write_pairs,
)
from factmill.tasks.storage.builds import BuildRecord, find_build, published_table
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.whole import clean

_PARAMS = MechanismParams.model_fields
_HELP = """Find out which components of a local model carry a fact in its short and in its long answer (SLAQ, paper §5): every
attention head and MLP is ablated for the tokens of both answers, and what is found is compared between facts that are
right in both and facts that are right in one. Answers and verdicts come from evaluations on SLAQ.

Needs torch, transformers, scikit-learn and POT: pip install 'factmill[mechanism]'. A run that is stopped goes on where it
was: the same command.

\b
Examples:
  factmill mechanism latest:slaq_evaluation --model ./Qwen3-1.7B
  factmill mechanism slaq_evaluation-1a2 slaq_evaluation-3b4 --model ./Qwen3-1.7B --model ./Qwen3-4B
  factmill mechanism latest:slaq_evaluation --model ./gpt2 --centre --write-pairs pairs.csv
  factmill mechanism latest:slaq_evaluation --model ./gpt2 --centre --pairs pairs.csv
  factmill mechanism latest:slaq_evaluation --model ./Qwen3-1.7B --world my-world.toml --tokens gold
"""
Evaluations = Annotated[list[str] | None, typer.Argument(metavar="EVALUATION…", help=_PARAMS["evaluation"].description)]
Force = Annotated[bool, typer.Option("--force", help="Compare again even when it is there; nothing is ablated twice.")]
Reports = Annotated[
    Path | None,
    typer.Option("--reports", metavar="DIR", help="Where the report is written. Default: reports in factmill's home."),
]
WritePairs = Annotated[
    Path | None,
    typer.Option(
        "--write-pairs",
        metavar="FILE",
        help="Write the pairs of answers as they are found, for people to mend and to give back with --pairs, and stop.",
    ),
]


def _look_into(given: Any) -> None:
    """Analyse models by the options of the command, print the results, and write a report."""
    progress.show()
    run, params = read_options(RunOptions, given), read_options(MechanismParams, given)
    check_warehouse(run.warehouse)
    if given.write_pairs:
        pairs, without = find_pairs(params, run, given.write_pairs)
        told = {"pairs": str(given.write_pairs), "facts": pairs, "without_pair": without}
        lines = [
            f"{given.write_pairs}: {pairs} facts, {without} of them without a pair; mend short_text and long_text, then --pairs"
        ]
    else:
        told, lines = analyse(params, run, given.force, given.reports or home() / "reports")
    print_result(given.as_json, told, lines)


_own = [each for each in list_options(MechanismParams) if each[0] != "evaluation"]
_run = [each for each in list_options(RunOptions) if each[0] in ("world", "warehouse", "mode", "max_cost")]
_Options = make_dataclass(
    "mechanism",
    [
        ("evaluation", Evaluations, None),
        *_own,
        *_run,
        ("force", Force, False),
        ("reports", Reports, None),
        ("write_pairs", WritePairs, None),
        ("as_json", AsJson, False),
    ],
)


def mechanism(**given: Any) -> None:
    """Analyse models; the options are those of the parameters."""
    _look_into(_Options(**given))


mechanism.__signature__ = inspect.signature(_Options)  # type: ignore[attr-defined] # Typer makes the options of it
mechanism.__doc__ = _HELP
mechanism.__annotations__ = dict(_Options.__annotations__)
_ORDER = (AUC, ACCURACY, AUC + BY_FACT, ACCURACY + BY_FACT, *FEATURES)
_LARGE_DIFFERENCE = 0.1
"""Difference between the unscored shares of aligned and misaligned facts above which a warning is printed."""


def analyse(params: MechanismParams, run: RunOptions, force: bool, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Make an analysis and its report; return the object of --json and lines of text."""
    require_extra()
    choose_device(params.device)
    made = make_build(MECHANISM, params, run, force)
    warehouse = warehouse_of(run)
    report = read_report(warehouse, find_build(warehouse, made.build_id))
    written = [
        write_file(render(report), folder / f"{made.build_id}{ending}", "--reports")
        for ending, render in RENDERERS.items()
    ]
    metrics = [*report.headline, *report.more]
    told = {
        "mechanism_id": made.build_id,
        "model": made.facts["model"],
        "evaluations": made.facts["evaluations"],
        "rows": made.rows,
        "facts": made.facts["facts"],
        "unscored": made.facts["unscored"],
        "kinds": made.facts["kinds"],
        "ablated": made.calls_sent,
        "ablated_before": made.calls_replayed,
        "seconds": made.seconds,
        "up_to_date": made.up_to_date,
        "reports": [str(path) for path in written],
        "metrics": [metric.model_dump() for metric in metrics],
    }
    return told, _format(made, metrics, written)


def _format(made: BuildReport, metrics: Sequence[EvaluationMetric], written: Sequence[Path]) -> list[str]:
    """Return an analysis as lines of text: facts, similarities, predictions, and the path of the report."""
    found = {(each.setting, each.metric): each for each in metrics}
    value = lambda *at: format_number(found[at].value) if at in found else "–"  # noqa: E731
    lines = [f"{made.build_id}: {made.rows} facts of {made.facts['model']}"]
    lines += [f"  {model}: {_tell_counts(counts)}" for model, counts in made.facts["facts"].items()]
    lines.append(f"  scored: {format_kinds(made.facts['kinds'])}")
    details = made.facts["details"]
    lines += [
        f"  unscored: {count} {say(reason)}, the first: {clean(details[reason])}"
        for reason, count in made.facts["unscored"].items()
    ]
    lines += [f"  warning: {each}" for each in _warn_of_difference(made.facts["kinds"])]
    heads = f"{'aligned':>9} {'misaligned':>11} {'ROC-AUC':>9} {'accuracy':>9} {'(by fact:':>10} {'accuracy)':>9}"
    lines.append(f"  {'':20} {heads}")
    for name in (*FEATURES, ALL):
        lines.append(
            f"  {say(name):20} {value(ALIGNED, name):>9} {value(MISALIGNED, name):>11} {value(name, AUC):>9} {value(name, ACCURACY):>9} "
            f"{value(name, AUC + BY_FACT):>10} {value(name, ACCURACY + BY_FACT):>9}"
        )
    if lacking := found.get((ALL, AUC)):
        lines += [f"  no prediction: {lacking.note}"] if lacking.value is None else []
    lines.append(
        f"  answers ablated, and replies of a judge: {made.calls_sent} now, {made.calls_replayed} before; {made.seconds:.1f} s"
        + ("; already there, from the same inputs" if made.up_to_date else "")
    )
    return [*lines, *(f"  report: {path}" for path in written if path.suffix == ".html")]


def find_pairs(params: MechanismParams, run: RunOptions, path: Path) -> tuple[int, int]:
    """Write the automatic pairs of answers to a file, without loading a model; return the numbers of facts and of facts
    without a pair."""
    locked = lock_inputs(params, run)
    given, words = locked.inputs.params, frozenset(load_list("function_words"))
    chosen = read_pairs(Path(given.pairs)) if given.pairs else {}
    rows: list[PairedFact] = [
        pair_fact(fact, words, given.least_matched, chosen)
        for subject in locked.inputs.subjects
        for facts in choose_of(warehouse_of(run), subject, given)[0].values()
        for fact in facts[: given.per_kind]
    ]
    try:
        write_pairs(path, rows)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {error.strerror}; name another place with --write-pairs"
        ) from error
    return len(rows), sum(not row.long_text for row in rows)


def read_report(warehouse: Path, record: BuildRecord) -> Report:
    """Return an analysis as a report."""
    with open_warehouse(warehouse) as db:
        metrics = rows_from_arrow(EvaluationMetric, published_table(db, record.build_id, METRICS))
        rows = rows_from_arrow(ComparedFact, published_table(db, record.build_id, MECHANISM.main_table))
    name = clean(record.report["facts"]["model"])
    entries, in_all = list_entries({name: pick_worst(list(_list_items(rows)))}, MECHANISM.name, record.build_id)
    overall = sorted(
        (each for each in metrics if not each.group_by),
        key=lambda each: (_ORDER.index(each.metric) if each.metric in _ORDER else len(_ORDER), each.id),
    )
    ours = {(each.metric, each.setting): each.value for each in overall}
    missing = Counter(
        (feature, row.kind, row.unscored) for row in rows for feature in FEATURES if getattr(row, feature) is None
    )
    is_told = lambda each: each.setting in (ALIGNED, MISALIGNED, DIFFERENCE) or each.setting == ALL  # noqa: E731
    return Report(
        title=f"{name}: what carries facts in short and in long answers",
        benchmark=MECHANISM.name,
        warnings=tuple(_warn(record, rows)),
        subjects=(Subject(name, name, record.build_id, _describe(record, rows)),),
        headline=tuple(each for each in overall if is_told(each)),
        more=tuple(each for each in overall if not is_told(each)),
        rankings=(),
        paper=tuple(
            PaperRow(
                each.metric, each.setting, "", "", {name: ours[each.metric, each.setting]}, {each.model: each.value}
            )
            for each in PAPER
            if (each.metric, each.setting) in ours
        ),
        paper_notes=tuple(dict.fromkeys(f"{each.where}: {each.note}" for each in PAPER)),
        grouped=tuple(each for each in metrics if each.group_by),
        figures=tuple(draw_figures(metrics)),
        unscored=tuple(
            Unscored(name, kind, feature, reason, count) for (feature, kind, reason), count in sorted(missing.items())
        ),
        entries=tuple(entries),
        entries_in_all=in_all,
    )


def _describe(record: BuildRecord, rows: Sequence[ComparedFact]) -> dict[str, str]:
    facts, lock, flow = record.report["facts"], record.lock, record.origin["flow"]
    told = {
        name: value for name, value in lock["params"]["params"].items() if name not in ("model", "evaluation", "pairs")
    }
    folders = {Path(path).name: Path(path) for path in flow["model"]}
    models = []
    for subject in lock["params"]["subjects"]:
        shape = read_layers(folders[subject["model"]]) if subject["model"] in folders else ""
        named = f"{clean(subject['model'])}{f' ({shape})' if shape else ''}"
        models.append(f"{named}, which the evaluation calls {clean(subject['asked'])}")
    found = Counter(row.paired_by for row in rows)
    pairs = (
        f"{found['file']} from a file, {found['position']} by position, {found['judge']} by a judge, {found['alignment']} by "
        f"alignment, {found['']} facts without one"
    )
    if unused := facts["unused_pairs"]:
        pairs += f"; {unused} pairs of the file are of no fact that was drawn"
    kinds = count_kinds((row.kind, row.unscored) for row in rows)
    return {
        "Models": "; ".join(models),
        "Evaluations": ", ".join(facts["evaluations"]),
        "Facts": f"{len(rows)}: {sum(row.kind == ALIGNED for row in rows)} aligned (right in both answers), "
        f"{sum(row.kind == MISALIGNED for row in rows)} misaligned (right in one)",
        "Drawn from": "; ".join(f"{model}: {_tell_counts(counts)}" for model, counts in facts["facts"].items()),
        "Scored": format_kinds(kinds),
        "Pairs": pairs,
        "Parameters": "; ".join(f"{say(name)} {tell(value)}" for name, value in told.items()),
        "Analysis": f"{record.build_id}, {record.made_by}",
    }


def _tell_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {say(name)}" for name, count in counts.items())


def _warn(record: BuildRecord, rows: Sequence[ComparedFact]) -> list[str]:
    without = sum(any(getattr(row, name) is None for name in FEATURES) for row in rows)
    warnings = []
    if rows and without / len(rows) > 0.05:
        warnings.append(
            f"{without} of {len(rows)} facts lack a similarity: what lacks one is seldom missing at random (see Unscored)."
        )
    warnings += _warn_of_difference(count_kinds((row.kind, row.unscored) for row in rows))
    kinds = {row.kind for row in rows}
    if len(kinds) == 1:
        warnings.append(
            f"All facts are {next(iter(kinds))}: there is nothing to compare them with, and nothing to predict."
        )
    if record.caution:
        warnings.append(f"{clean(record.caution)}.")
    warnings.append(
        "Zero-ablation says what a component does for a token's logit, not why; and what is aligned may be so for other reasons "
        "than the model's inner workings: in misaligned facts one of the two texts says something else."
    )
    return warnings


def _warn_of_difference(kinds: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a warning if facts of one kind are unscored much more often than those of the other, else nothing."""
    if not all(each["drawn"] for each in kinds.values()):
        return []
    few, many = sorted(kinds, key=lambda kind: kinds[kind]["unscored"] / kinds[kind]["drawn"])
    shares = [kinds[kind]["unscored"] / kinds[kind]["drawn"] for kind in (few, many)]
    if shares[1] - shares[0] <= _LARGE_DIFFERENCE:
        return []
    return [
        f"{shares[1]:.0%} of the {many} and {shares[0]:.0%} of the {few} facts that were drawn are unscored, so both kinds are "
        "no longer alike drawn: pair them by hand (--write-pairs) or name a judge (--judge)."
    ]


def _list_items(rows: Sequence[ComparedFact]) -> Iterator[Item]:
    for row in rows:
        values = [getattr(row, name) for name in FEATURES]
        told = [
            f"{say(name)} {format_number(value)}"
            for name, value in zip(FEATURES, values, strict=True)
            if value is not None
        ]
        told += [f"unscored: {say(row.unscored)}"] if row.unscored else []
        yield Item(
            answer_id=row.id,
            setting=row.kind,
            question=row.question,
            gold=row.gold,
            answer=f"{row.short_text or row.short_answer} ⇄ {row.long_text or '(nothing found)'}",
            verdict="; ".join(told),
            score=None if None in values else round_value(sum(values) / len(values)),
            row_id=row.id,
            groups={"category": row.category, "model": row.model},
        )
