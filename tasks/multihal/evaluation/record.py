"""MultiHal's evaluation definition: questions, scoring, metrics, figures and report items (paper §3)."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.evaluation.rows import EvaluationMetric, Score
from factmill.tasks.core.evaluation.scoring import Floats, gather_scores, score_rows, to_floats
from factmill.tasks.core.measures.agreement import correlate
from factmill.tasks.core.measures.figures import Figure, Series, draw_groups
from factmill.tasks.core.measures.metrics import Metric, measure
from factmill.tasks.core.prompts import Ask, fill_in
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.benchmark import Assets, Locked
from factmill.tasks.engine.naming.identities import embedder_identity
from factmill.tasks.evaluation.record import (
    Evaluation,
    EvaluationInputs,
    EvaluationParams,
    Item,
    PaperFigure,
    Tools,
    draw_clusters,
    lock_evaluation,
    tell_answer,
)
from factmill.tasks.models.cross_encoder import CONSISTENT, CONTRADICTION, ENTAILMENT, identify_cross_encoder
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.core.evaluation import answers
from factmill.tasks.multihal.core.evaluation.answers import (
    ANSWER,
    MultiHalAnswer,
    MultiHalAsked,
    Pair,
    ScoredMultiHal,
    ask_alone,
    ask_with_path,
    keep_best,
    pair_answers,
    score_answers,
)
from factmill.tasks.multihal.core.rows import MultiHalRow
from factmill.tasks.options import Option, RunOptions
from factmill.tasks.settings import home, load_world

QA, KG_RAG = "multihal/answer_qa", "multihal/answer_kg_rag"
PAIRED = {
    "nli": {"entailment": ENTAILMENT, "contradiction": CONTRADICTION},
    "consistency": {"consistency": CONSISTENT},
}
"""Option that names a cross-encoder → metrics that the model gives → possible names of each metric's label."""


class MultiHalEvaluationParams(EvaluationParams):
    """Options of an evaluation on MultiHal."""

    setting: Annotated[tuple[Literal["qa", "kg_rag"], ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: both, as in the paper."""
    languages: Annotated[tuple[Literal["eng", "deu", "fra", "ita", "spa", "por"], ...], Option("--language")] = ()
    """Only questions in this language (repeatable). Default: all that the build has."""
    nli: Annotated[str | None, Option(metavar="NAME")] = None
    """Also score entailment and contradiction (question with gold answer ⇒ answer) by this cross-encoder of `factmill models list`, which must know the languages that are asked in."""
    consistency: Annotated[str | None, Option(metavar="NAME")] = None
    """Also score how consistent answers are with the gold ones by this cross-encoder, of one score or with a label for it."""

    def list_roles(self) -> tuple[str, ...]:
        """Return the roles used: the model under test and the sentence encoder that compares its answers."""
        return (*super().list_roles(), "embedder")


class MultiHalEvaluationInputs(EvaluationInputs):
    """Resolved inputs of MultiHal's evaluation."""

    params: MultiHalEvaluationParams
    embedder: dict[str, str] = Field(default={})
    """Name and digest of the sentence encoder."""
    nli: dict[str, str] | None = None
    """Name and digest of the entailment model; None: entailment is not scored."""
    consistency: dict[str, str] | None = None
    """Name and digest of the consistency model; None: consistency is not scored."""


def tell_skipped(params: MultiHalEvaluationParams) -> list[str]:
    """Return a sentence per cross-encoder option without a model, naming the scores it leaves out."""
    return [
        f"no scores of {' and '.join(kinds)}: --{option} names no cross-encoder (factmill models add cross-encoder --help)"
        for option, kinds in PAIRED.items()
        if getattr(params, option) is None
    ]


def list_questions(rows: pa.Table, inputs: MultiHalEvaluationInputs) -> Iterator[MultiHalAsked]:
    """Yield the questions of every setting and language: in qa once per question, in kg_rag once per path."""
    read = rows_from_arrow(MultiHalRow, rows)
    drawn = draw_clusters([row.question_id for row in read], inputs.params)
    wanted = inputs.params.languages
    kept = [row for row in read if row.question_id in drawn and (not wanted or row.language in wanted)]
    for setting in inputs.settings:
        yield from map(ask_with_path, kept) if setting == "kg_rag" else _ask_once(kept)


def _ask_once(rows: Sequence[MultiHalRow]) -> Iterator[MultiHalAsked]:
    key: Callable[[MultiHalRow], tuple[str, str]] = lambda row: (row.question_id, row.language)  # noqa: E731
    return (ask_alone(list(mine)) for _, mine in groupby(sorted(rows, key=key), key))


def guess_answers(rows: pa.Table) -> Callable[[MultiHalAsked], str]:
    """Return the built-in guesser, a function from question to answer; `rows`: the measured build's."""
    guesses = answers.guess_answers(rows_from_arrow(MultiHalRow, rows))
    return lambda asked: guesses[asked.cluster, asked.language]


def fill_prompt(asked: MultiHalAsked, _: object = None) -> Ask:
    """Fill in the prompt of a question's setting (Appendix F, Listings 10 and 11)."""
    if asked.setting == "kg_rag":
        return fill_in(load_prompt(KG_RAG), question=asked.question, path=asked.path)
    return fill_in(load_prompt(QA), question=asked.question)


SCORE, DEVIATION, DELTA, RANKS = (
    "semantic_score",
    "semantic_score_deviation",
    "semantic_score_delta",
    "spearman_judged_score",
)
BOTH = "kg_rag - qa"
"""Setting name of differences between the two settings."""
GROUPS = ("language", "source_dataset", "domain")


def measure_multihal(answers: pa.Table, seed: int) -> tuple[pa.Table, list[Metric]]:
    """Return score rows and metrics of answers (rows of `ScoredMultiHal`)."""
    values = to_floats(answers["semantic_score"])
    scores = score_rows(answers, SCORE, values)
    given = gather_scores(scores, answers, GROUPS, is_share=False, unit="cosine")
    metrics = measure(given, seed)
    metrics += [_deviation(metric, answers) for metric in metrics if metric.group_by in ("", "language")]
    with_path = answers.filter(pc.equal(answers["setting"], "kg_rag"))
    if with_path.num_rows:
        metrics += list(_rank(with_path, seed))
    if with_path.num_rows and with_path.num_rows < answers.num_rows:
        deltas = score_rows(with_path, DELTA, find_deltas(answers, with_path), BOTH)
        metrics += measure(gather_scores(deltas, with_path, GROUPS, is_share=False, unit="cosine"), seed)
        scores = pa.concat_tables([scores, deltas])
    for option, kind in ((option, kind) for option, kinds in PAIRED.items() for kind in kinds):
        if pc.any(pc.not_equal(answers[f"{option}_model"], "")).as_py():
            more = score_rows(answers, kind, to_floats(answers[kind]))
            metrics += measure(gather_scores(more, answers, GROUPS, is_share=False, unit="probability"), seed)
            scores = pa.concat_tables([scores, more])
    return scores, metrics


def find_deltas(answers: pa.Table, with_path: pa.Table) -> Floats:
    """Return each path's gain in score over its question without a path; NaN if one of the two is unscored."""
    alone = answers.filter(pc.equal(answers["setting"], "qa"))
    keys = zip(alone["cluster"].to_pylist(), alone["language"].to_pylist(), strict=True)
    known = dict(zip(keys, to_floats(alone["semantic_score"]), strict=True))
    asked = zip(with_path["cluster"].to_pylist(), with_path["language"].to_pylist(), strict=True)
    before = np.array([known.get(key, np.nan) for key in asked])
    return np.round(to_floats(with_path["semantic_score"]) - before, 2)


def _deviation(metric: Metric, answers: pa.Table) -> Metric:
    """Return the metric for the standard deviation that goes with a mean (denominator n − 1; Figure 3)."""
    chosen = pc.equal(answers["setting"], metric.setting)
    if metric.group_by:
        chosen = pc.and_(chosen, pc.equal(answers[metric.group_by], metric.group))
    values = to_floats(answers.filter(chosen)["semantic_score"])
    kept = values[~np.isnan(values)]
    value = round(float(np.std(kept, ddof=1)), 6) if len(kept) > 1 else None
    note = "" if value is not None else "fewer than two scores"
    none = dict.fromkeys(("bound_low", "bound_high", "ci_low", "ci_high"))
    return metric.model_copy(update={"metric": DEVIATION, "value": value, "interval": "", "note": note, **none})


def _rank(with_path: pa.Table, seed: int) -> Iterator[Metric]:
    """Yield Spearman's correlation of the judge's score of a path with the semantic score of the answer given it (§3.2)."""
    places = [("", "", with_path)]
    for group_by in ("language", "source_dataset"):
        names = sorted(pc.unique(with_path[group_by]).to_pylist())
        places += [(group_by, name, with_path.filter(pc.equal(with_path[group_by], name))) for name in names]
    for group_by, group, rows in places:
        judged, given = to_floats(rows["judged_score"]), to_floats(rows["semantic_score"])
        found = correlate(judged, given, rows["cluster"].to_pylist(), seed)
        asked = found.n + found.n_unscored
        yield Metric(
            setting="kg_rag",
            metric=RANKS,
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


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Return Figure 3 and the gain from a path, by language and by foundation."""
    titles = {"language": "What a path adds, by language", "source_dataset": "What a path adds, by foundation"}
    note = "Semantic score with a path less that of the same question asked alone; whiskers are 95 % intervals over questions."
    deltas = [
        draw_groups(
            metrics, DELTA, group_by, name=f"delta_{group_by}", title=title, y_label="difference (cosine)", note=note
        )
        for group_by, title in titles.items()
    ]
    return [*_draw_bars(metrics), *(figure for figure in deltas if figure.series)]


def _draw_bars(metrics: Sequence[EvaluationMetric]) -> Iterator[Figure]:
    means = {_place(each): each for each in metrics if each.metric == SCORE and each.group_by == "language"}
    spread = {_place(each): each.value for each in metrics if each.metric == DEVIATION}
    series = []
    for model, setting in sorted({(model, setting) for model, setting, _ in means}):
        mine = {group: means[model, setting, group] for _, _, group in means if (model, setting, group) in means}
        values = tuple(each.value for each in mine.values())
        sds = [spread.get((model, setting, group)) or 0.0 for group in mine]
        ends = [None if value is None else (value - sd, value + sd) for value, sd in zip(values, sds, strict=True)]
        series.append(
            Series(
                f"{model}, {setting}",
                tuple(mine),
                values,
                tuple(end and end[0] for end in ends),
                tuple(end and end[1] for end in ends),
            )
        )
    if series:
        note = "Whiskers are one standard deviation to either side, as in the paper's Figure 3; intervals of the means stand in the table."
        yield Figure(
            "semantic_score",
            "Semantic score, by language",
            "bars",
            "language",
            "semantic score (cosine)",
            tuple(series),
            note,
        )


def _place(metric: EvaluationMetric) -> tuple[str, str, str]:
    return metric.model, metric.setting, metric.group


def list_items(answers: pa.Table) -> list[Item]:
    """Return answers (rows of `ScoredMultiHal`) as items for a report's answer browser."""
    return [
        Item(
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
            groups={name: each[name] for name in GROUPS},
        )
        for each in answers.to_pylist()
    ]


_MODELS = ("Gemini 2.0 Flash", "GPT 4o-Mini", "Llama-3.3-70b-instruct")
_TABLE_8 = {
    "eng": ((0.51, 0.83), (0.43, 0.61), (0.44, 0.80)),
    "deu": ((0.55, 0.70), (0.42, 0.56), (0.43, 0.61)),
    "fra": ((0.44, 0.62), (0.34, 0.44), (0.37, 0.52)),
    "ita": ((0.51, 0.77), (0.37, 0.50), (0.42, 0.61)),
    "spa": ((0.53, 0.72), (0.53, 0.72), (0.39, 0.51)),
    "por": ((0.50, 0.79), (0.41, 0.55), (0.42, 0.61)),
}
"""Language → the paper's semantic scores (QA, KG-RAG) of each model."""
PAPER = tuple(
    PaperFigure(
        metric=SCORE,
        setting=setting,
        model=model,
        value=value,
        where="Table 8",
        note="the paper's rows, translator and encoder (paraphrase-multilingual-MiniLM-L12-v2) are others",
        group_by="language",
        group=language,
    )
    for language, models in _TABLE_8.items()
    for model, pair in zip(_MODELS, models, strict=True)
    for setting, value in zip(("qa", "kg_rag"), pair, strict=True)
)


def score_multihal(answers: pa.Table, inputs: MultiHalEvaluationInputs, tools: Tools) -> pa.Table:
    """Add the score columns of `ScoredMultiHal` to answers (rows of `MultiHalAnswer`)."""
    said: list[str] = answers["answer_read"].to_pylist()
    accepted: list[list[str]] = answers["accepted"].to_pylist()
    texts = sorted({*said, *(text for each in accepted for text in each)})
    embedder = tools.embedder()
    scores, nearest = score_answers(said, accepted, texts, embedder.encode(texts))
    values = pa.array(scores, from_pandas=True)
    for name, column in (("semantic_score", values), ("nearest", nearest), ("encoder", [embedder.name] * len(said))):
        answers = answers.append_column(name, pa.array(column) if isinstance(column, list) else column)
    pairs = pair_answers(answers["question"].to_pylist(), said, accepted)
    for option in PAIRED:
        for name, column in _score_pairs(option, getattr(inputs.params, option), pairs, tools).items():
            answers = answers.append_column(name, column)
    return answers


def _score_pairs(option: str, model: str | None, pairs: Sequence[Sequence[Pair]], tools: Tools) -> dict[str, pa.Array]:
    """Return one cross-encoder's columns: its metrics and the model's name; nulls and "" if no model is given."""
    kinds, named = PAIRED[option], f"{option}_model"
    if model is None:
        empty = dict.fromkeys(kinds, pa.nulls(len(pairs), pa.float64()))
        return {**empty, named: pa.repeat("", len(pairs))}
    encoder = tools.cross_encoder(model)
    scores = keep_best(pairs, encoder.score([pair for mine in pairs for pair in mine], list(kinds.values())))
    found = {kind: pa.array(scores[:, at], from_pandas=True) for at, kind in enumerate(kinds)}
    return {**found, named: pa.repeat(encoder.name, len(pairs))}


def lock_inputs(params: MultiHalEvaluationParams, run: RunOptions) -> Locked[MultiHalEvaluationInputs]:
    """Resolve options into an evaluation's inputs; UsageError states what was expected."""
    encoder = embedder_identity(load_world(run.world, run.graph), home())
    known = {
        option: identify_cross_encoder(model, home(), list(kinds.values()))
        for option, kinds in PAIRED.items()
        if (model := getattr(params, option)) is not None
    }
    return lock_evaluation(MULTIHAL_EVALUATION, params, run, MultiHalEvaluationInputs, embedder=encoder, **known)


def explain_answer(row: ScoredMultiHal) -> Iterator[str]:
    """Yield an answer row's content as lines of text."""
    yield f"  question    {row.question}   ({row.setting}, {row.language}; factmill explain multihal {row.item})"
    yield from [f"  path        {row.path}"] if row.path else []
    yield f"  expected    {' | '.join(row.accepted)}"
    yield tell_answer(row.answer, row)
    if row.semantic_score is None:
        yield f"  unscored    {row.unscored or 'no_gold'}: {row.detail or 'nothing to compare with'}"
    else:
        yield f"  score       {row.semantic_score:.2f} with {row.nearest!r} (encoder {row.encoder})"
    if row.entailment is not None:
        told = f"entailment {row.entailment:.2f}, contradiction {row.contradiction:.2f}"
        yield f"  nli         {told} (question with an accepted answer ⇒ answer, by {row.nli_model})"
    if row.consistency is not None:
        yield f"  consistency {row.consistency:.2f} (by {row.consistency_model})"


MULTIHAL_EVALUATION: Evaluation = Evaluation(
    name="multihal_evaluation",
    title="Measure a model on MultiHal: semantic score with and without a path, in every language",
    examples=(
        "factmill evaluate multihal --model oracle",
        "factmill evaluate multihal --world my-world.toml --model mine --language eng --limit 100",
        "factmill evaluate multihal --answers answers.jsonl --nli my-nli-model",
    ),
    params=MultiHalEvaluationParams,
    lock_inputs=lock_inputs,
    recipe="factmill.tasks.multihal.evaluation.record:MULTIHAL_EVALUATION",
    tables={"multihal_answers": ScoredMultiHal, "multihal_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="multihal_answers",
    narrowing=frozenset({"limit", "languages"}),
    part="language",
    shown={"id": "id", "question": "question", "answer": "answer", "semantic_score": "score", "nearest": "nearest"},
    explain=explain_answer,
    assets=Assets(prompts=(QA, KG_RAG)),
    of=MULTIHAL,
    settings={"qa": "the question alone", "kg_rag": "the question with one of its paths"},
    usual=("qa", "kg_rag"),
    plain=("qa", "kg_rag"),
    headline=(SCORE, DELTA, RANKS, *(kind for kinds in PAIRED.values() for kind in kinds)),
    main=SCORE,
    meaning="How near the model's answers are in meaning to an accepted one, by a sentence encoder (1: the same), when it "
    "is asked alone (qa) and when it is given a path of facts that leads to the answer (kg_rag).",
    questions=list_questions,
    fill=fill_prompt,
    inputs=MultiHalEvaluationInputs,
    asked=MultiHalAsked,
    answers=MultiHalAnswer,
    form=ANSWER,
    oracle=lambda _: lambda asked: asked.accepted[0],
    guess=guess_answers,
    score=score_multihal,
    measure=lambda answers, inputs: measure_multihal(answers, inputs.params.seed),
    notes=lambda inputs: tell_skipped(inputs.params),
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
)
