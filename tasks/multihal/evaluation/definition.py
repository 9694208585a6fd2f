"""MultiHal's evaluation definition: questions, scoring, metrics, figures and report items (paper §3)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.evaluation.scoring import (
    ScoreArray,
    column_to_floats,
    make_metric_scores_per_setting,
    make_score_rows,
)
from factmill.tasks.core.measures.agreement import compute_spearman
from factmill.tasks.core.measures.metrics import MeasuredMetric, measure_mean_metrics
from factmill.tasks.core.measures.report_figures import (
    FigureSeries,
    ReportFigure,
    format_metric_words,
    make_group_figure,
)
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.benchmark import BenchmarkAssetNames, BuildInputsAndSourceFiles
from factmill.tasks.engine.naming.identities import embedder_name_and_digest
from factmill.tasks.evaluation.definition import (
    AnswerShownInReport,
    Evaluation,
    EvaluationInputs,
    EvaluationParams,
    LocalScoringModels,
    PaperResult,
    format_explain_answer_line,
    resolve_evaluation_inputs,
    sample_question_clusters,
)
from factmill.tasks.models.cross_encoder import (
    CONSISTENT_LABELS,
    CONTRADICTION_LABELS,
    ENTAILMENT_LABELS,
    get_cross_encoder_identity,
)
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.core.evaluation import answers
from factmill.tasks.multihal.core.evaluation.answers import (
    ANSWER_REPLY_FORM,
    MultiHalPrediction,
    MultiHalQuestion,
    MultiHalScoredPrediction,
    PremiseAnswerPair,
    choose_best_pair_score_row_per_answer,
    make_kg_rag_question,
    make_premise_answer_pairs,
    make_question_without_path,
    score_semantic_similarity,
)
from factmill.tasks.multihal.core.rows import LANGUAGE_NAMES, MultiHalRow
from factmill.tasks.options import CliOption, RunOptions
from factmill.tasks.settings import factmill_home, load_world

QA_PROMPT, KG_RAG_PROMPT = "multihal/answer_qa", "multihal/answer_kg_rag"
CROSS_ENCODER_METRICS = {
    "nli": {"entailment": ENTAILMENT_LABELS, "contradiction": CONTRADICTION_LABELS},
    "consistency": {"consistency": CONSISTENT_LABELS},
}
"""Option that names a cross-encoder → metrics that the model gives → possible names of each metric's label."""


class MultiHalEvaluationParams(EvaluationParams):
    """Options of an evaluation on MultiHal."""

    setting: Annotated[tuple[Literal["qa", "kg_rag"], ...], CliOption(metavar="NAME")] = ()
    """Only this setting (repeatable). Default: both, as in the paper."""
    languages: tuple[Literal["eng", "deu", "fra", "ita", "spa", "por"], ...] = ()
    """Only questions in this language (repeatable). Default: all that the build has."""
    nli: Annotated[str | None, CliOption(metavar="NAME")] = None
    """Also score with this cross-encoder (see `factmill models`) whether question and gold answer entail or contradict the answer. It must support the languages of the questions."""
    consistency: Annotated[str | None, CliOption(metavar="NAME")] = None
    """Also score with this cross-encoder how consistent answers are with the gold answers. The model must have a single output, or a label for consistency."""

    def list_model_names(self) -> tuple[str, ...]:
        """Return the roles used: the model under test and the sentence encoder that compares its answers."""
        return (*super().list_model_names(), "embedder")


class MultiHalEvaluationInputs(EvaluationInputs):
    """Resolved inputs of MultiHal's evaluation."""

    params: MultiHalEvaluationParams
    embedder: dict[str, str] = Field(default={})
    """Name and digest of the sentence encoder."""
    nli: dict[str, str] | None = None
    """Name and digest of the entailment model; None: entailment is not scored."""
    consistency: dict[str, str] | None = None
    """Name and digest of the consistency model; None: consistency is not scored."""


def list_skipped_metric_notes(params: MultiHalEvaluationParams) -> list[str]:
    """Return a sentence per cross-encoder option without a model, naming the scores it leaves out."""
    return [
        f"no scores of {' and '.join(kinds)}: --{option} names no cross-encoder (factmill models add cross-encoder --help)"
        for option, kinds in CROSS_ENCODER_METRICS.items()
        if getattr(params, option) is None
    ]


def list_multihal_questions(rows: pa.Table, inputs: MultiHalEvaluationInputs) -> Iterator[MultiHalQuestion]:
    """Yield the questions of every setting and language: in qa once per question, in kg_rag once per path."""
    read = rows_from_arrow(MultiHalRow, rows)
    drawn = sample_question_clusters([row.question_id for row in read], inputs.params)
    wanted = inputs.params.languages
    kept = [row for row in read if row.question_id in drawn and (not wanted or row.language in wanted)]
    by_question: dict[tuple[str, str], list[MultiHalRow]] = defaultdict(list)
    for row in kept:
        by_question[row.question_id, row.language].append(row)
    for setting in inputs.settings:
        if setting == "kg_rag":
            yield from map(make_kg_rag_question, kept)
        else:
            yield from (make_question_without_path(by_question[place]) for place in sorted(by_question))


def make_multihal_guesser(rows: pa.Table) -> Callable[[MultiHalQuestion], str]:
    """Return the built-in guesser, a function from question to answer; `rows`: the measured build's."""
    guesses = answers.guess_commonest_answers_by_question_id(rows_from_arrow(MultiHalRow, rows))
    return lambda asked: guesses[asked.cluster, asked.language]


def fill_multihal_answer_prompt(asked: MultiHalQuestion, _: object = None) -> FilledPrompt:
    """Fill in the prompt of a question's setting (Appendix F, Listings 10 and 11)."""
    if asked.setting == "kg_rag":
        return fill_prompt_template(load_prompt(KG_RAG_PROMPT), question=asked.question, path=asked.path)
    return fill_prompt_template(load_prompt(QA_PROMPT), question=asked.question)


SEMANTIC_SCORE, SCORE_DEVIATION, SCORE_DELTA, JUDGE_CORRELATION = (
    "semantic_score",
    "semantic_score_deviation",
    "semantic_score_delta",
    "spearman_judged_score",
)
SETTING_DIFFERENCE = "kg_rag - qa"
"""Setting name of differences between the two settings."""
MULTIHAL_GROUP_COLUMNS = ("language", "source_dataset", "domain")


def compute_multihal_scores_and_metrics(answers: pa.Table, seed: int) -> tuple[pa.Table, list[MeasuredMetric]]:
    """Return score rows and metrics of answers (rows of `MultiHalScoredPrediction`)."""
    scores: list[pa.Table] = []

    def measure(
        rows: pa.Table, metric: str, values: ScoreArray, unit: str, setting: str | None = None
    ) -> list[MeasuredMetric]:
        """Add the score rows of a metric; return its means."""
        scores.append(make_score_rows(rows, metric, values, setting))
        given = make_metric_scores_per_setting(scores[-1], rows, MULTIHAL_GROUP_COLUMNS, is_share=False, unit=unit)
        return measure_mean_metrics(given, seed)

    metrics = measure(answers, SEMANTIC_SCORE, column_to_floats(answers["semantic_score"]), "cosine")
    metrics += [
        _make_semantic_score_deviation_metric(metric, answers)
        for metric in metrics
        if metric.group_by in ("", "language")
    ]
    with_path = answers.filter(pc.equal(answers["setting"], "kg_rag"))
    if with_path.num_rows:
        metrics += list(_correlate_path_and_answer_scores(with_path, seed))
    if with_path.num_rows and with_path.num_rows < answers.num_rows:
        gains = compute_score_gain_per_path(answers, with_path)
        metrics += measure(with_path, SCORE_DELTA, gains, "cosine", SETTING_DIFFERENCE)
    for option, kinds in CROSS_ENCODER_METRICS.items():
        if pc.any(pc.not_equal(answers[f"{option}_model"], "")).as_py():
            for kind in kinds:
                metrics += measure(answers, kind, column_to_floats(answers[kind]), "probability")
    return pa.concat_tables(scores), metrics


def compute_score_gain_per_path(answers: pa.Table, with_path: pa.Table) -> ScoreArray:
    """Return each path's gain in score over its question without a path; NaN if one of the two is unscored."""
    alone = answers.filter(pc.equal(answers["setting"], "qa"))
    keys = zip(alone["cluster"].to_pylist(), alone["language"].to_pylist(), strict=True)
    known = dict(zip(keys, column_to_floats(alone["semantic_score"]), strict=True))
    asked = zip(with_path["cluster"].to_pylist(), with_path["language"].to_pylist(), strict=True)
    before = np.array([known.get(key, np.nan) for key in asked])
    return np.round(column_to_floats(with_path["semantic_score"]) - before, 2)


def _make_semantic_score_deviation_metric(metric: MeasuredMetric, answers: pa.Table) -> MeasuredMetric:
    """Return the metric for the standard deviation that goes with a mean (denominator n − 1; Figure 3)."""
    chosen = pc.equal(answers["setting"], metric.setting)
    if metric.group_by:
        chosen = pc.and_(chosen, pc.equal(answers[metric.group_by], metric.group))
    values = column_to_floats(answers.filter(chosen)["semantic_score"])
    kept = values[~np.isnan(values)]
    value = round(float(np.std(kept, ddof=1)), 6) if len(kept) > 1 else None
    note = "" if value is not None else "fewer than two scores"
    none = dict.fromkeys(("bound_low", "bound_high", "ci_low", "ci_high"))
    return metric.model_copy(update={"metric": SCORE_DEVIATION, "value": value, "interval": "", "note": note, **none})


def _correlate_path_and_answer_scores(with_path: pa.Table, seed: int) -> Iterator[MeasuredMetric]:
    """Yield Spearman's correlation of the judge's score of a path with the semantic score of the answer given it (§3.2)."""
    places = [("", "", with_path)]
    for group_by in ("language", "source_dataset"):
        names = sorted(pc.unique(with_path[group_by]).to_pylist())
        places += [(group_by, name, with_path.filter(pc.equal(with_path[group_by], name))) for name in names]
    for group_by, group, rows in places:
        judged, given = column_to_floats(rows["judged_score"]), column_to_floats(rows["semantic_score"])
        found = compute_spearman(judged, given, rows["cluster"].to_pylist(), seed)
        asked = found.n + found.n_unscored
        yield MeasuredMetric(
            setting="kg_rag",
            metric=JUDGE_CORRELATION,
            group_by=group_by,
            group=group,
            value=found.rho,
            n=found.n,
            n_unscored=found.n_unscored,
            coverage=round(found.n / asked, 6) if asked else None,
            bound_low=None,
            bound_high=None,
            ci_low=found.ci_low,
            ci_high=found.ci_high,
            interval="bootstrap" if found.ci_low is not None else "",
            clusters=found.clusters,
            unit="rho",
            note=found.note.replace("second score", "semantic score").replace("first score", "score by the judge"),
        )


def draw_multihal_metric_figures(metrics: Sequence[EvaluationMetric]) -> list[ReportFigure]:
    """Return Figure 3 and the gain from a path, by language and by foundation."""
    titles = {"language": "What a path adds, by language", "source_dataset": "What a path adds, by foundation"}
    note = "Semantic score with a path minus the score of the same question without one; whiskers are 95 % intervals over questions."
    metrics = [
        each.model_copy(update={"group": LANGUAGE_NAMES.get(each.group, each.group)})
        if each.group_by == "language"
        else each
        for each in metrics
    ]
    deltas = [
        make_group_figure(
            metrics,
            SCORE_DELTA,
            group_by,
            name=f"delta_{group_by}",
            title=title,
            x_label="",
            y_label="difference (cosine)",
            note=note,
            reference=0.0,
        )
        for group_by, title in titles.items()
    ]
    return [*_draw_scores_by_language(metrics), *(figure for figure in deltas if figure.series)]


def _draw_scores_by_language(metrics: Sequence[EvaluationMetric]) -> Iterator[ReportFigure]:
    by_language = [each for each in metrics if each.metric == SEMANTIC_SCORE and each.group_by == "language"]
    means: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    for each in by_language:
        means[each.model, each.setting][each.group] = each.value
    deviations = (each for each in metrics if each.metric == SCORE_DEVIATION)
    spread = {(each.model, each.setting, each.group): each.value for each in deviations}
    languages = dict.fromkeys(each.group for each in by_language)
    series = []
    for (model, setting), found in means.items():
        groups = [language for language in languages if language in found]
        sds = {group: spread.get((model, setting, group)) or 0.0 for group in groups}
        lows, highs = (
            tuple(None if (mean := found[group]) is None else mean + sign * sds[group] for group in groups)
            for sign in (-1, 1)
        )
        values = tuple(found[group] for group in groups)
        series.append(FigureSeries(f"{model}, {format_metric_words(setting)}", tuple(groups), values, lows, highs))
    if series:
        note = "Whiskers are one standard deviation to either side, as in the paper's Figure 3; the table has the intervals of the means."
        title, y_label = "Semantic score, by language", "semantic score (cosine)"
        yield ReportFigure("semantic_score", title, "bars", "", y_label, tuple(series), note)


def list_multihal_report_items(answers: pa.Table) -> list[AnswerShownInReport]:
    """Return answers (rows of `MultiHalScoredPrediction`) as items for a report's answer browser."""
    return [
        AnswerShownInReport(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"] + (f"\nPath: {each['path']}" if each["path"] else ""),
            gold=" | ".join(each["accepted"]),
            answer=each["answer"],
            verdict=f"unscored: {each['unscored']}"
            if each["semantic_score"] is None
            else f"{each['semantic_score']:.2f}",
            score=each["semantic_score"],
            row_id=each["item"],
            groups={name: each[name] for name in MULTIHAL_GROUP_COLUMNS},
        )
        for each in answers.to_pylist()
    ]


_TABLE_8_MODELS = ("Gemini 2.0 Flash", "GPT 4o-Mini", "Llama-3.3-70b-instruct")
_TABLE_8 = {
    "eng": ((0.51, 0.83), (0.43, 0.61), (0.44, 0.80)),
    "deu": ((0.55, 0.70), (0.42, 0.56), (0.43, 0.61)),
    "fra": ((0.44, 0.62), (0.34, 0.44), (0.37, 0.52)),
    "ita": ((0.51, 0.77), (0.37, 0.50), (0.42, 0.61)),
    "spa": ((0.53, 0.72), (0.53, 0.72), (0.39, 0.51)),
    "por": ((0.50, 0.79), (0.41, 0.55), (0.42, 0.61)),
}
"""Language → the paper's semantic scores (QA, KG-RAG) of each model."""
MULTIHAL_PAPER_FIGURES = tuple(
    PaperResult(
        metric=SEMANTIC_SCORE,
        setting=setting,
        model=model,
        value=value,
        where="Table 8",
        note="the paper uses other rows, another translator and another encoder (paraphrase-multilingual-MiniLM-L12-v2)",
        group_by="language",
        group=language,
    )
    for language, models in _TABLE_8.items()
    for model, pair in zip(_TABLE_8_MODELS, models, strict=True)
    for setting, value in zip(("qa", "kg_rag"), pair, strict=True)
)


def score_multihal_predictions(
    answers: pa.Table, inputs: MultiHalEvaluationInputs, tools: LocalScoringModels
) -> pa.Table:
    """Add the score columns of `MultiHalScoredPrediction` to answers (rows of `MultiHalPrediction`)."""
    answer_texts: list[str] = answers["answer_read"].to_pylist()
    accepted: list[list[str]] = answers["accepted"].to_pylist()
    texts = sorted({*answer_texts, *(text for each in accepted for text in each)})
    embedder = tools.embedder()
    scores, nearest = score_semantic_similarity(answer_texts, accepted, texts, embedder.encode(texts))
    columns = {
        "semantic_score": pa.array(scores, from_pandas=True),
        "nearest": pa.array(nearest, pa.string()),
        "encoder": pa.repeat(embedder.name, len(answer_texts)),
    }
    pairs = make_premise_answer_pairs(answers["question"].to_pylist(), answer_texts, accepted)
    for option in CROSS_ENCODER_METRICS:
        columns |= _score_with_cross_encoder(option, getattr(inputs.params, option), pairs, tools)
    for name, column in columns.items():
        answers = answers.append_column(name, column)
    return answers


def _score_with_cross_encoder(
    option: str, model: str | None, pairs: Sequence[Sequence[PremiseAnswerPair]], tools: LocalScoringModels
) -> dict[str, pa.Array]:
    """Return one cross-encoder's columns: its metrics and the model's name; nulls and "" if no model is given."""
    kinds, named = CROSS_ENCODER_METRICS[option], f"{option}_model"
    if model is None:
        empty = dict.fromkeys(kinds, pa.nulls(len(pairs), pa.float64()))
        return {**empty, named: pa.repeat("", len(pairs))}
    encoder = tools.cross_encoder(model)
    scored = encoder.score([pair for row_pairs in pairs for pair in row_pairs], list(kinds.values()))
    scores = choose_best_pair_score_row_per_answer(pairs, scored)
    found = {kind: pa.array(scores[:, at], from_pandas=True) for at, kind in enumerate(kinds)}
    return {**found, named: pa.repeat(encoder.name, len(pairs))}


def resolve_multihal_evaluation_inputs(
    params: MultiHalEvaluationParams, run: RunOptions
) -> BuildInputsAndSourceFiles[MultiHalEvaluationInputs]:
    """Resolve options into an evaluation's inputs; UsageError states what was expected."""
    encoder = embedder_name_and_digest(load_world(run.world, run.graph), factmill_home())
    known = {
        option: get_cross_encoder_identity(model, factmill_home(), list(kinds.values()))
        for option, kinds in CROSS_ENCODER_METRICS.items()
        if (model := getattr(params, option)) is not None
    }
    return resolve_evaluation_inputs(
        MULTIHAL_EVALUATION, params, run, MultiHalEvaluationInputs, embedder=encoder, **known
    )


def explain_multihal_prediction(row: MultiHalScoredPrediction) -> Iterator[str]:
    """Yield an answer row's content as lines of text."""
    yield f"  question    {row.question}   ({row.setting}, {row.language}; factmill explain multihal {row.item})"
    yield from [f"  path        {row.path}"] if row.path else []
    yield f"  expected    {' | '.join(row.accepted)}"
    yield format_explain_answer_line(row.answer, row)
    if row.semantic_score is None:
        yield f"  unscored    {row.unscored or 'no_gold'}: {row.detail or 'nothing to compare with'}"
    else:
        yield f"  score       {row.semantic_score:.2f} with {row.nearest!r} (encoder {row.encoder})"
    if row.entailment is not None:
        scores = f"entailment {row.entailment:.2f}, contradiction {row.contradiction:.2f}"
        yield f"  nli         {scores} (question with an accepted answer ⇒ answer, by {row.nli_model})"
    if row.consistency is not None:
        yield f"  consistency {row.consistency:.2f} (by {row.consistency_model})"


MULTIHAL_EVALUATION: Evaluation = Evaluation(
    name="multihal_evaluation",
    title="Measure a model on MultiHal: semantic score with and without a path, in every language",
    examples=(
        "factmill evaluate multihal --model oracle",
        "factmill evaluate multihal --world my-world.toml --model mine --languages eng --limit 100",
        "factmill evaluate multihal --answers answers.jsonl --nli my-nli-model",
    ),
    params=MultiHalEvaluationParams,
    resolve_inputs=resolve_multihal_evaluation_inputs,
    recipe="factmill.tasks.multihal.evaluation.definition:MULTIHAL_EVALUATION",
    tables={
        "multihal_answers": MultiHalScoredPrediction,
        "multihal_scores": AnswerScore,
        "evaluation_metrics": EvaluationMetric,
    },
    main_table="multihal_answers",
    narrowing_params=frozenset({"limit", "languages"}),
    group_column="language",
    display_columns={
        "id": "id",
        "question": "question",
        "answer": "answer",
        "semantic_score": "score",
        "nearest": "nearest",
    },
    explain=explain_multihal_prediction,
    assets=BenchmarkAssetNames(prompts=(QA_PROMPT, KG_RAG_PROMPT)),
    benchmark=MULTIHAL,
    settings={"qa": "the question alone", "kg_rag": "the question with one of its paths"},
    default_settings=("qa", "kg_rag"),
    offline_settings=("qa", "kg_rag"),
    headline_metrics=(
        SEMANTIC_SCORE,
        SCORE_DELTA,
        JUDGE_CORRELATION,
        *(kind for kinds in CROSS_ENCODER_METRICS.values() for kind in kinds),
    ),
    main_metric=SEMANTIC_SCORE,
    main_metric_meaning="Similarity in meaning of the model's answers to an accepted answer, by a sentence encoder (1: the same), for the "
    "question alone (qa) and with a path of facts that leads to the answer (kg_rag).",
    make_questions=list_multihal_questions,
    make_prompt=fill_multihal_answer_prompt,
    inputs_model=MultiHalEvaluationInputs,
    question_model=MultiHalQuestion,
    prediction_model=MultiHalPrediction,
    completion_format=ANSWER_REPLY_FORM,
    make_oracle=lambda _: lambda asked: asked.accepted[0],
    make_guesser=make_multihal_guesser,
    score_predictions=score_multihal_predictions,
    compute_metrics=lambda answers, inputs: compute_multihal_scores_and_metrics(answers, inputs.params.seed),
    list_notes=lambda inputs: list_skipped_metric_notes(inputs.params),
    draw_figures=draw_multihal_metric_figures,
    list_report_items=list_multihal_report_items,
    paper_results=MULTIHAL_PAPER_FIGURES,
)
