"""The `Benchmark` record of SLAQ's mechanistic analysis: a build whose sources are evaluations and their models.

A file of pairs holds people's decisions on which parts of two answers state the same fact (in Appendix A.4 all were
paired by hand). Nothing here needs Prefect.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, StrictModel, arrow_schema
from factmill.tasks.engine.benchmark import (
    Benchmark,
    BenchmarkAssetNames,
    BuildInputs,
    BuildInputsAndSourceFiles,
    CompanionTable,
)
from factmill.tasks.errors import SourceError, UnknownBuild, UsageError
from factmill.tasks.evaluation.definition import EVALUATION_METRICS_TABLE, EXACT_JUDGE, resolve_judge_name
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import BenchmarkParams, CliOption, RunOptions, resolve_warehouse_path
from factmill.tasks.settings import load_world
from factmill.tasks.slaq.core.evaluation.answers import ScoredSlaqPrediction
from factmill.tasks.slaq.core.mechanism.rows import (
    SIMILARITY_MEASURES,
    FactAnsweredByOneModel,
    FactInShortAndLongAnswer,
    FactKind,
    FactWithComponentSimilarities,
    TokenRowWithComponentImportances,
    shuffle_and_count_facts_by_kind,
)
from factmill.tasks.slaq.evaluation.definition import ANSWER_LONG_PROMPT, ANSWER_SHORT_PROMPT, SLAQ_EVALUATION
from factmill.tasks.slaq.mechanism.ablation_service import Device, Precision, list_causal_model_files
from factmill.tasks.storage.builds import BuildRecord, list_builds, load_published_table, resolve_build
from factmill.tasks.storage.source_files import (
    SourceFile,
    iterate_numbered_csv_rows,
    make_source_file_with_digest,
    make_source_file_without_digest,
)
from factmill.tasks.storage.warehouse import open_warehouse

MECHANISM_NAME = "slaq_mechanism"
PAIRS_FILE_UNIT = "/pairs"
"""Source unit of the file of pairs; no model folder can have this name."""
QUOTE_PART_PROMPT = "slaq/pair"
"""Prompt with which a judge quotes the part of a long answer that states a fact."""
PAIR_COLUMNS = ("id", "short_text", "long_text")
_CONTEXT_COLUMNS = ("kind", "question", "gold", "short_answer", "long_answer", "unscored", "detail")
"""Columns of the file of pairs that inform the person who pairs; they are not read."""
LATEST_SLAQ_EVALUATION = f"latest:{SLAQ_EVALUATION.name}"


class MechanismParams(BenchmarkParams):
    """Parameters of the mechanistic analysis."""

    evaluation: Annotated[tuple[str, ...], CliOption(metavar="EVALUATION")] = (LATEST_SLAQ_EVALUATION,)
    """Evaluation on SLAQ with both settings: its id, the start of its id, or latest:slaq_evaluation (repeatable)."""
    model: Annotated[tuple[str, ...], CliOption(metavar="DIR")] = ()
    """Folder of the model that gave the answers, in Hugging Face format (repeatable: one per evaluation, in the same order)."""
    pairs: Annotated[str | None, CliOption(metavar="FILE")] = None
    """CSV file of pairs made by people, with the columns id, short_text and long_text. A pair holds the parts of both answers that state the same fact. It takes precedence over an automatic pair."""
    judge: Annotated[str, CliOption(metavar="NAME")] = "judge"
    """Model that finds the part of a long answer that states a fact, if the parts are not numbered: [models.NAME] in the world's file, or exact, which aligns the words of both answers. The embedded world has no judge model, so exact is used there."""
    per_kind: int = Field(default=30, ge=1, le=MAX_SETTING_NUMBER)
    """Number of facts to score per model and kind of fact (right in both answers, or right in only one). The facts are drawn with the seed."""
    least_matched: float = Field(default=0.5, ge=0, le=1)
    """To pair a short answer with a part of the long answer by alignment, the part must contain at least this share of its content words."""
    tokens: Literal["answer", "gold"] = "answer"
    """Which tokens to analyse. answer: the tokens of the model's own answers. gold: the tokens of the gold answer, which replaces both answers, so that right and wrong facts have the same tokens."""
    recover: float = Field(default=0.9, gt=0, le=1)
    """Minimum share of a token's logit that its minimal set of components must recover."""
    largest_set: float = Field(default=1.0, gt=0, le=1)
    """Maximum share of all components in a minimal set. A lower value saves time, but can leave tokens without a set."""
    centre: bool = False
    """Subtract the mean over the vocabulary from each logit, for models with logits below 0, such as GPT-2."""
    precision: Precision = "float32"
    """Number format of the computation. With bfloat16 and float16, the importance of a component is less exact."""
    device: Device = "auto"
    """Device for the computation; auto: the GPU if there is one, else the CPU."""
    folds: int = Field(default=5, ge=2, le=1000)
    """Number of cross-validation folds."""
    seed: int = Field(default=0, ge=-MAX_SETTING_NUMBER, le=MAX_SETTING_NUMBER)
    """Seed for drawing facts, folds and the confidence intervals."""


class ModelAndEvaluation(StrictModel):
    """A model to analyse, and the evaluation that has its answers."""

    model: str
    """Name of the model's folder."""
    evaluation: str
    """Content digest of the evaluation."""
    asked: str
    """The evaluation's name for the model."""


class MechanismInputs(BuildInputs):
    """Resolved inputs of the mechanistic analysis's steps."""

    resolved: ClassVar = frozenset({"evaluation", "model", "pairs", "device"})
    params: MechanismParams
    subjects: tuple[ModelAndEvaluation, ...]


def resolve_mechanism_inputs(params: MechanismParams, run: RunOptions) -> BuildInputsAndSourceFiles[MechanismInputs]:
    """Resolve the inputs of the analysis; raise UsageError for an invalid parameter, model folder or evaluation."""
    world = load_world(run.world, run.graph)
    folders = [resolve_absolute_path(each) for each in params.model]
    records = [_get_slaq_evaluation(each, run) for each in params.evaluation]
    if len(folders) != len(records):
        raise UsageError(
            f"{len(records)} evaluations and {len(folders)} models: give one --model DIR per evaluation, in the same order; "
            f"{MECHANISM_EXAMPLE}"
        )
    names = [folder.name for folder in folders]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f"two model folders are called {twice}; the name identifies the model in rows, so rename one of the folders"
        )
    files: dict[str, list[SourceFile]] = {
        name: list_causal_model_files(folder) for name, folder in zip(names, folders, strict=True)
    }
    changed: dict[str, Any] = {
        "evaluation": tuple(each.build_id for each in records),
        "model": tuple(map(str, folders)),
        "judge": resolve_judge_name(world, params.judge),
    }
    if params.pairs is not None:
        path = resolve_absolute_path(params.pairs)
        if not path.is_file():
            raise UsageError(f"{params.pairs}: file of pairs not found; `--write-pairs FILE` writes one to start with")
        load_short_and_long_answer_parts_file(path)
        files[PAIRS_FILE_UNIT], changed["pairs"] = [make_source_file_with_digest(path)], str(path)
    subjects = tuple(
        ModelAndEvaluation(model=name, evaluation=each.content_digest, asked=each.report["facts"]["model"])
        for name, each in zip(names, records, strict=True)
    )
    notes = [
        f"answers of {each.asked!r} are analysed with the model {each.model!r}; make sure that they are the same model"
        for each in subjects
        if each.asked.casefold() not in each.model.casefold() and each.model.casefold() not in each.asked.casefold()
    ]
    return BuildInputsAndSourceFiles(
        MechanismInputs(params=params.model_copy(update=changed), subjects=subjects),
        files,
        author=", ".join(names),
        notes=notes,
    )


def _get_slaq_evaluation(name: str, run: RunOptions) -> BuildRecord:
    try:
        record = resolve_build(resolve_warehouse_path(run), name)
    except UnknownBuild as error:
        if name != LATEST_SLAQ_EVALUATION:
            raise
        raise UnknownBuild(
            "no evaluation on SLAQ found; make one of the model's answers with factmill evaluate slaq --model NAME"
        ) from error
    if record.benchmark != SLAQ_EVALUATION.name:
        raise UsageError(
            f"{record.build_id} is a build of {record.benchmark}; expected an evaluation, made with factmill evaluate slaq"
        )
    settings = record.lock["params"]["settings"]
    if missing := [each for each in SLAQ_EVALUATION.default_settings if each not in settings]:
        raise UsageError(
            f"{record.build_id} has only {', '.join(settings)} answers; {missing[0]} answers are needed too; evaluate without --setting"
        )
    return record


def load_shuffled_facts_and_counts(
    warehouse: Path, subject: ModelAndEvaluation, params: MechanismParams
) -> tuple[dict[FactKind, tuple[FactAnsweredByOneModel, ...]], dict[str, int]]:
    """Load the facts of one model and their counts (shuffle_and_count_facts_by_kind); UnknownBuild if its evaluation is gone."""
    found = [build for build in list_builds(warehouse) if build.content_digest == subject.evaluation]
    if not found:
        raise UnknownBuild(f"the evaluation of {subject.asked} is no longer in {warehouse}; evaluate again")
    with open_warehouse(warehouse) as db:
        answers = load_published_table(db, found[-1].build_id, "slaq_answers").cast(arrow_schema(ScoredSlaqPrediction))
    return shuffle_and_count_facts_by_kind(answers.to_pylist(), subject.model, subject.asked, params.seed)


def count_facts_by_model_and_alignment(inputs: MechanismInputs, warehouse: Path) -> dict[str, dict[str, int]]:
    """Count facts before the draw: model → aligned, misaligned, wrong_in_both, unscored → facts of its evaluation."""
    return {each.model: load_shuffled_facts_and_counts(warehouse, each, inputs.params)[1] for each in inputs.subjects}


def load_short_and_long_answer_parts_file(file: Path | SourceFile) -> dict[str, tuple[str, str]]:
    """Load a file of pairs: id → (short text, long text), an empty text: search that side; SourceError if invalid."""
    source = file if isinstance(file, SourceFile) else make_source_file_without_digest(file)
    found: dict[str, tuple[str, str]] = {}
    for number, row in iterate_numbered_csv_rows(source, PAIR_COLUMNS):
        if row["id"] in found:
            raise SourceError(f"{source.path}: row {number}: {row['id']} is paired twice; expected one row per fact")
        found[row["id"]] = row["short_text"], row["long_text"]
    return found


def write_paired_answer_parts_file(path: Path, facts: Iterable[FactInShortAndLongAnswer]) -> None:
    """Write the pairs found as a CSV file, for people to correct."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow((*PAIR_COLUMNS, *_CONTEXT_COLUMNS))
        writer.writerows([getattr(row, name) for name in (*PAIR_COLUMNS, *_CONTEXT_COLUMNS)] for row in facts)


def explain_fact(row: FactWithComponentSimilarities) -> Iterator[str]:
    """Yield the lines that `factmill explain` prints for a fact."""
    yield f"  question    {row.question}   ({row.topic}; factmill explain slaq {row.item})"
    yield f"  gold        {row.gold}"
    for side, answer, text, right in (
        ("short", row.short_answer, row.short_text, row.right_short),
        ("long", row.long_answer, row.long_text, row.right_long),
    ):
        yield f"  {side:11} {answer or '(none)'}   ({'right' if right else 'wrong'})"
        yield f"  paired text {text or '(nothing)'}"
    yield f"  paired by   {row.paired_by or 'nothing'}" + (
        "" if row.matched is None else f", which has {row.matched:.0%} of the short answer's content words"
    )
    for name in SIMILARITY_MEASURES:
        value, check = getattr(row, name), getattr(row.hungarian, name)
        if value is not None:
            check_text = "" if check is None else f"   (one to one: {check:.3f})"
            yield f"  {name:18} {value:.3f}{check_text}"
    yield from [f"  unscored    {row.unscored}: {row.detail}"] if row.unscored else []


def explain_tokens(rows: Sequence[TokenRowWithComponentImportances], _: object) -> Iterator[str]:
    """Yield the lines that `factmill explain` prints for a fact's tokens."""
    for row in sorted(rows, key=lambda each: (each.side != "short", each.place)):
        first = ", ".join(row.components[:5]) + (", …" if len(row.components) > 5 else "")
        yield (
            f"  {row.side} {row.place:>2}    {row.token!r}: logit {row.base:.3f}, "
            + (
                f"{len(row.components)} components recover {row.recovered:.0%} of it: {first}"
                if row.recovered is not None
                else "no set"
            )
        )


MECHANISM_EXAMPLE = "factmill mechanism latest:slaq_evaluation --model ./Qwen3-1.7B"
SLAQ_MECHANISM: Benchmark = Benchmark(
    name=MECHANISM_NAME,
    title="Which components of a model carry a fact in its short and in its long answer (SLAQ, paper §5)",
    examples=(MECHANISM_EXAMPLE,),
    params=MechanismParams,
    resolve_inputs=resolve_mechanism_inputs,
    recipe="factmill.flows.evaluate.slaq_mechanism:analyse_slaq_mechanism",
    tables={
        MECHANISM_NAME: FactWithComponentSimilarities,
        "slaq_mechanism_tokens": TokenRowWithComponentImportances,
        EVALUATION_METRICS_TABLE: EvaluationMetric,
    },
    main_table=MECHANISM_NAME,
    group_column="kind",
    display_columns={
        "id": "id",
        "kind": "kind",
        "short_text": "short",
        "long_text": "long",
        "iou": "IoU",
        "unscored": "unscored",
    },
    trace_id_columns=("id",),
    explain=explain_fact,
    companion_tables=(CompanionTable("slaq_mechanism_tokens", "fact", explain_tokens),),
    assets=BenchmarkAssetNames(
        prompts=(ANSWER_SHORT_PROMPT, ANSWER_LONG_PROMPT, QUOTE_PART_PROMPT), lists=("function_words.txt",)
    ),
    model_roles=lambda params: () if params.judge == EXACT_JUDGE else (params.judge,),
)
