"""`factmill mechanism`: find which components of a local model carry a fact in its short and in its long answer."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from factmill.flows.build_runner import make_or_reuse_build
from factmill.flows.cli.options import (
    JsonOption,
    check_warehouse_exists,
    make_model_from_options,
    make_option_dataclass_fields,
    print_result,
    write_report_files,
)
from factmill.tasks import progress
from factmill.tasks.assets import load_list_entries
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.metrics import round_to_six_decimals
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.errors import OutputError
from factmill.tasks.evaluation.definition import EVALUATION_METRICS_TABLE, AnswerShownInReport, sort_answers_worst_first
from factmill.tasks.options import BuildReport, RunOptions, resolve_warehouse_path
from factmill.tasks.reports.evaluation_report import EvaluationReport, PaperComparisonRow, ReportedModel, UnscoredCount
from factmill.tasks.reports.formatting import format_number, format_parameter_value, format_snake_case_as_words
from factmill.tasks.reports.item_browser import list_item_entries_and_count_all
from factmill.tasks.reports.page_frame import find_paper, format_build_command, make_evaluations_reference
from factmill.tasks.reports.rendering import REPORT_RENDERERS
from factmill.tasks.settings import factmill_home
from factmill.tasks.slaq.benchmark import SLAQ
from factmill.tasks.slaq.core.mechanism.pairing import pair_fact_answers
from factmill.tasks.slaq.core.mechanism.rows import (
    SIMILARITY_MEASURES,
    FactInShortAndLongAnswer,
    FactWithComponentSimilarities,
    count_drawn_and_unscored_by_kind,
    format_scored_fact_counts,
)
from factmill.tasks.slaq.mechanism.ablation import require_mechanism_extra
from factmill.tasks.slaq.mechanism.ablation_service import choose_torch_device, format_causal_model_layers_and_heads
from factmill.tasks.slaq.mechanism.benchmark import (
    SLAQ_MECHANISM,
    MechanismParams,
    load_short_and_long_answer_parts_file,
    load_shuffled_facts_and_counts,
    resolve_mechanism_inputs,
    write_paired_answer_parts_file,
)
from factmill.tasks.slaq.mechanism.measure import (
    ACCURACY,
    ALIGNED,
    ALL_SIX_MEASURES,
    BY_FACT_SUFFIX,
    KIND_DIFFERENCE,
    MECHANISM_PAPER_RESULTS,
    MISALIGNED,
    ROC_AUC,
    draw_mechanism_figures,
)
from factmill.tasks.storage.builds import BuildRecord, load_published_table, resolve_build
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.sanitize import escape_control_characters

_MECHANISM_FIELDS = MechanismParams.model_fields
_MECHANISM_HELP = """Find the components of a local model that carry a fact.

The analysis (SLAQ, paper §5) ablates every attention head and MLP of the model to find the components that carry a
fact in its short answer and in its long answer. It compares how similar these components are for facts that are right
in both answers and for facts that are right in only one. The answers and verdicts come from evaluations on SLAQ.

The command needs torch, transformers, scikit-learn and POT: pip install 'factmill[mechanism]'. After a stop, run the
same command again to continue.

\b
Examples:
  factmill mechanism latest:slaq_evaluation --model ./Qwen3-1.7B
  factmill mechanism slaq_evaluation-1a2 slaq_evaluation-3b4 --model ./Qwen3-1.7B --model ./Qwen3-4B
  factmill mechanism latest:slaq_evaluation --model ./gpt2 --centre --write-pairs pairs.csv
  factmill mechanism latest:slaq_evaluation --model ./gpt2 --centre --pairs pairs.csv
  factmill mechanism latest:slaq_evaluation --model ./Qwen3-1.7B --world my-world.toml --tokens gold
"""
EvaluationsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="EVALUATION…", help=_MECHANISM_FIELDS["evaluation"].description)
]
MechanismForceOption = Annotated[
    bool, typer.Option("--force", help="Repeat the comparison even if its result exists; stored ablations are reused.")
]
MechanismReportsOption = Annotated[
    Path | None,
    typer.Option(
        "--reports",
        metavar="DIR",
        help="Folder for the report. Default: the folder `reports` in factmill's home folder (FACTMILL_HOME).",
    ),
]
WritePairsOption = Annotated[
    Path | None,
    typer.Option(
        "--write-pairs",
        metavar="FILE",
        help="Write the automatic pairs of answers to this CSV file and stop. People can correct the file; then give it to --pairs.",
    ),
]


def _run_mechanism_command(given: Any) -> None:
    progress.set_progress_style()
    run, params = make_model_from_options(RunOptions, given), make_model_from_options(MechanismParams, given)
    check_warehouse_exists(run.warehouse)
    if given.write_pairs:
        pairs, without = write_pairs_and_count_facts_and_unpaired(params, run, given.write_pairs)
        result = {"pairs": str(given.write_pairs), "facts": pairs, "without_pair": without}
        lines = [
            f"{given.write_pairs}: {pairs} facts, {without} of them without a pair; correct short_text and long_text, then pass the "
            f"file to --pairs"
        ]
    else:
        result, lines = make_mechanism_analysis_and_report(
            params, run, given.force, given.reports or factmill_home() / "reports"
        )
    print_result(given.as_json, result, lines)


_RUN_OPTIONS = ("world", "prompts", "warehouse", "mode", "max_cost")
mechanism = make_dataclass(
    "mechanism",
    [
        ("evaluation", EvaluationsArgument, None),
        *make_option_dataclass_fields(MechanismParams, ["evaluation"]),
        *make_option_dataclass_fields(
            RunOptions, [each for each in RunOptions.model_fields if each not in _RUN_OPTIONS]
        ),
        ("force", MechanismForceOption, False),
        ("reports", MechanismReportsOption, None),
        ("write_pairs", WritePairsOption, None),
        ("as_json", JsonOption, False),
    ],
    namespace={"__post_init__": _run_mechanism_command, "__doc__": _MECHANISM_HELP},
    kw_only=True,
)
"""The options of the command; creating an instance starts the analysis."""
_METRIC_ORDER = (ROC_AUC, ACCURACY, ROC_AUC + BY_FACT_SUFFIX, ACCURACY + BY_FACT_SUFFIX, *SIMILARITY_MEASURES)
_LARGE_DIFFERENCE = 0.1
"""Difference between the unscored shares of aligned and misaligned facts above which a warning is printed."""


def make_mechanism_analysis_and_report(
    params: MechanismParams, run: RunOptions, force: bool, folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """Make an analysis and its report; return the object of --json and lines of text."""
    require_mechanism_extra()
    choose_torch_device(params.device)
    made = make_or_reuse_build(SLAQ_MECHANISM, params, run, force)
    warehouse = resolve_warehouse_path(run)
    report = load_mechanism_report(warehouse, resolve_build(warehouse, made.build_id))
    written = write_report_files(report, REPORT_RENDERERS, folder, made.build_id)
    metrics = [*report.headline, *report.more]
    result = {
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
    return result, _format_analysis(made, metrics, written)


def _format_analysis(made: BuildReport, metrics: Sequence[EvaluationMetric], written: Sequence[Path]) -> list[str]:
    found = {(each.setting, each.metric): each for each in metrics}
    value = lambda *at: format_number(found[at].value) if at in found else "–"  # noqa: E731
    lines = [f"{made.build_id}: {made.rows} facts of {made.facts['model']}"]
    lines += [f"  {model}: {_format_fact_counts(counts)}" for model, counts in made.facts["facts"].items()]
    lines.append(f"  scored: {format_scored_fact_counts(made.facts['kinds'])}")
    details = made.facts["details"]
    lines += [
        f"  unscored: {count} {format_snake_case_as_words(reason)}, for example: {escape_control_characters(details[reason])}"
        for reason, count in made.facts["unscored"].items()
    ]
    lines += [f"  warning: {each}" for each in _list_uneven_unscored_share_warnings(made.facts["kinds"])]
    heads = f"{'aligned':>9} {'misaligned':>11} {'ROC-AUC':>9} {'accuracy':>9} {'(by fact:':>10} {'accuracy)':>9}"
    lines.append(f"  {'':20} {heads}")
    for name in (*SIMILARITY_MEASURES, ALL_SIX_MEASURES):
        lines.append(
            f"  {format_snake_case_as_words(name):20} {value(ALIGNED, name):>9} {value(MISALIGNED, name):>11} {value(name, ROC_AUC):>9} {value(name, ACCURACY):>9} "
            f"{value(name, ROC_AUC + BY_FACT_SUFFIX):>10} {value(name, ACCURACY + BY_FACT_SUFFIX):>9}"
        )
    if lacking := found.get((ALL_SIX_MEASURES, ROC_AUC)):
        lines += [f"  no prediction: {lacking.note}"] if lacking.value is None else []
    lines.append(
        f"  ablated answers and replies of a judge: {made.calls_sent} new, {made.calls_replayed} reused; {made.seconds:.1f} s"
        + ("; already made from the same inputs" if made.up_to_date else "")
    )
    return [*lines, *(f"  report: {path}" for path in written if path.suffix == ".html")]


def write_pairs_and_count_facts_and_unpaired(params: MechanismParams, run: RunOptions, path: Path) -> tuple[int, int]:
    """Write the automatic pairs of answers to a file, without loading a model; return the numbers of facts and of facts
    without a pair."""
    locked = resolve_mechanism_inputs(params, run)
    given, words = locked.inputs.params, frozenset(load_list_entries("function_words"))
    chosen = load_short_and_long_answer_parts_file(Path(given.pairs)) if given.pairs else {}
    rows: list[FactInShortAndLongAnswer] = [
        pair_fact_answers(fact, words, given.least_matched, chosen)
        for subject in locked.inputs.subjects
        for facts in load_shuffled_facts_and_counts(resolve_warehouse_path(run), subject, given)[0].values()
        for fact in facts[: given.per_kind]
    ]
    try:
        write_paired_answer_parts_file(path, rows)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {error.strerror}; give another path with --write-pairs"
        ) from error
    return len(rows), sum(not row.long_text for row in rows)


def load_mechanism_report(warehouse: Path, record: BuildRecord) -> EvaluationReport:
    """Return an analysis as a report."""
    with open_warehouse(warehouse) as db:
        metrics = rows_from_arrow(EvaluationMetric, load_published_table(db, record.build_id, EVALUATION_METRICS_TABLE))
        rows = rows_from_arrow(
            FactWithComponentSimilarities, load_published_table(db, record.build_id, SLAQ_MECHANISM.main_table)
        )
    name = escape_control_characters(record.report["facts"]["model"])
    entries, in_all = list_item_entries_and_count_all(
        {name: sort_answers_worst_first(list(_list_fact_report_items(rows)))}, SLAQ_MECHANISM.name, record.build_id
    )
    overall = sorted(
        (each for each in metrics if not each.group_by),
        key=lambda each: (
            _METRIC_ORDER.index(each.metric) if each.metric in _METRIC_ORDER else len(_METRIC_ORDER),
            each.id,
        ),
    )
    ours = {(each.metric, each.setting): each.value for each in overall}
    missing = Counter(
        (feature, row.kind, row.unscored)
        for row in rows
        for feature in SIMILARITY_MEASURES
        if getattr(row, feature) is None
    )
    headline_settings = (ALIGNED, MISALIGNED, KIND_DIFFERENCE, ALL_SIX_MEASURES)
    return EvaluationReport(
        title=f"{name}: what carries facts in short and in long answers",
        benchmark=SLAQ_MECHANISM.name,
        warnings=tuple(_list_analysis_warnings(record, rows)),
        subjects=(ReportedModel(name, name, record.build_id, _describe_mechanism_analysis(record, rows)),),
        headline=tuple(each for each in overall if each.setting in headline_settings),
        more=tuple(each for each in overall if each.setting not in headline_settings),
        rankings=(),
        paper=tuple(
            PaperComparisonRow(
                each.metric, each.setting, "", "", {name: ours[each.metric, each.setting]}, {each.model: each.value}
            )
            for each in MECHANISM_PAPER_RESULTS
            if (each.metric, each.setting) in ours
        ),
        paper_notes=tuple(dict.fromkeys(f"{each.where}: {each.note}" for each in MECHANISM_PAPER_RESULTS)),
        grouped=tuple(each for each in metrics if each.group_by),
        figures=tuple(draw_mechanism_figures(metrics)),
        unscored=tuple(
            UnscoredCount(name, kind, feature, reason, count)
            for (feature, kind, reason), count in sorted(missing.items())
        ),
        entries=tuple(entries),
        entries_in_all=in_all,
        reference=make_evaluations_reference(
            SLAQ_MECHANISM.name,
            f"{name}: what carries facts in short and in long answers, by factmill",
            find_paper(SLAQ),
            [record],
            [format_build_command(["mechanism"], SLAQ_MECHANISM.params, record)],
        ),
    )


def _describe_mechanism_analysis(record: BuildRecord, rows: Sequence[FactWithComponentSimilarities]) -> dict[str, str]:
    facts, lock, flow = record.report["facts"], record.lock, record.origin["flow"]
    shown = {
        name: value for name, value in lock["params"]["params"].items() if name not in ("model", "evaluation", "pairs")
    }
    folders = {Path(path).name: Path(path) for path in flow["model"]}
    models = []
    for subject in lock["params"]["subjects"]:
        shape = format_causal_model_layers_and_heads(folders[subject["model"]]) if subject["model"] in folders else ""
        named = f"{escape_control_characters(subject['model'])}{f' ({shape})' if shape else ''}"
        models.append(f"{named}, named in the evaluation {escape_control_characters(subject['asked'])}")
    found = Counter(row.paired_by for row in rows)
    pairs = (
        f"{found['file']} from a file, {found['position']} by position, {found['judge']} by a judge, {found['alignment']} by "
        f"alignment, {found['']} facts without a pair"
    )
    if unused := facts["unused_pairs"]:
        pairs += f"; {unused} pairs of the file belong to no drawn fact"
    kinds = count_drawn_and_unscored_by_kind((row.kind, row.unscored) for row in rows)
    return {
        "Models": "; ".join(models),
        "Evaluations": ", ".join(facts["evaluations"]),
        "Facts": f"{len(rows)}: {sum(row.kind == ALIGNED for row in rows)} aligned (right in both answers), "
        f"{sum(row.kind == MISALIGNED for row in rows)} misaligned (right in one)",
        "Drawn from": "; ".join(f"{model}: {_format_fact_counts(counts)}" for model, counts in facts["facts"].items()),
        "Scored": format_scored_fact_counts(kinds),
        "Pairs": pairs,
        "Parameters": "; ".join(
            f"{format_snake_case_as_words(name)} {format_parameter_value(value)}" for name, value in shown.items()
        ),
        "Analysis": f"{record.build_id}, {record.code_version}",
    }


def _format_fact_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {format_snake_case_as_words(name)}" for name, count in counts.items())


def _list_analysis_warnings(record: BuildRecord, rows: Sequence[FactWithComponentSimilarities]) -> list[str]:
    without = sum(any(getattr(row, name) is None for name in SIMILARITY_MEASURES) for row in rows)
    warnings = []
    if rows and without / len(rows) > 0.05:
        warnings.append(f"{without} of {len(rows)} facts lack a similarity, probably not at random (see Unscored).")
    warnings += _list_uneven_unscored_share_warnings(
        count_drawn_and_unscored_by_kind((row.kind, row.unscored) for row in rows)
    )
    kinds = {row.kind for row in rows}
    if len(kinds) == 1:
        warnings.append(f"All facts are {next(iter(kinds))}, so there is nothing to compare or predict.")
    if record.caution:
        warnings.append(f"{escape_control_characters(record.caution)}.")
    warnings.append(
        "Zero-ablation shows the effect of a component on a token's logit, not its cause. Facts may also be aligned for reasons "
        "outside the model: in misaligned facts one of the two texts says something else."
    )
    return warnings


def _list_uneven_unscored_share_warnings(kinds: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a warning if facts of one kind are unscored much more often than those of the other, else nothing."""
    if not all(each["drawn"] for each in kinds.values()):
        return []
    few, many = sorted(kinds, key=lambda kind: kinds[kind]["unscored"] / kinds[kind]["drawn"])
    shares = [kinds[kind]["unscored"] / kinds[kind]["drawn"] for kind in (few, many)]
    if shares[1] - shares[0] <= _LARGE_DIFFERENCE:
        return []
    return [
        f"{shares[1]:.0%} of the {many} and {shares[0]:.0%} of the {few} facts drawn are unscored, so the two kinds "
        "are no longer comparable samples: pair them by hand (--write-pairs) or give a judge (--judge)."
    ]


def _list_fact_report_items(rows: Sequence[FactWithComponentSimilarities]) -> Iterator[AnswerShownInReport]:
    for row in rows:
        values = [getattr(row, name) for name in SIMILARITY_MEASURES]
        parts = [
            f"{format_snake_case_as_words(name)} {format_number(value)}"
            for name, value in zip(SIMILARITY_MEASURES, values, strict=True)
            if value is not None
        ]
        parts += [f"unscored: {format_snake_case_as_words(row.unscored)}"] if row.unscored else []
        yield AnswerShownInReport(
            answer_id=row.id,
            setting=row.kind,
            question=row.question,
            gold=row.gold,
            answer=f"{row.short_text or row.short_answer} ⇄ {row.long_text or '(nothing found)'}",
            verdict="; ".join(parts),
            score=None if None in values else round_to_six_decimals(sum(values) / len(values)),
            row_id=row.id,
            groups={"category": row.category, "model": row.model},
        )
