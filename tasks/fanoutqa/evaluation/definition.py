"""The evaluation on FanOutQA as registered with the commands."""

import json
from collections.abc import Iterator
from pathlib import Path

from factmill.tasks.core.evaluation.human_labels import JudgeVerdictLabelScheme
from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.engine.benchmark import BenchmarkAssetNames, BuildInputsAndSourceFiles
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.definition import (
    EXACT_JUDGE,
    Evaluation,
    format_explain_answer_line,
    resolve_evaluation_inputs,
)
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.core.evaluation.grades import (
    GRADES,
    GRADES_WORST_FIRST,
    RIGHT_GRADES,
    list_fanoutqa_judged_parts,
    make_judgeable_fanoutqa_answer,
)
from factmill.tasks.fanoutqa.core.evaluation.rows import (
    CLOSED_BOOK,
    EVIDENCE_PROVIDED,
    OPEN_BOOK,
    FanOutEvaluationQuestion,
    FanOutPrediction,
    FanOutScoredPrediction,
    FanOutSearchRecord,
)
from factmill.tasks.fanoutqa.core.evaluation.scoring import SIMILARITY_LABELS
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer
from factmill.tasks.fanoutqa.core.evaluation.strings.rule_lemmatizer import RuleLemmatizer
from factmill.tasks.fanoutqa.evaluation.lemmatizers import SPACY_MODEL, resolve_lemmatizer_name
from factmill.tasks.fanoutqa.evaluation.measure import (
    FANOUTQA_PAPER_FIGURES,
    JUDGED,
    LOOSE,
    STRICT,
    UPSTREAM_LOOSE,
    UPSTREAM_STRICT,
    draw_fanoutqa_figures,
    list_fanoutqa_report_items,
    measure_fanoutqa,
    score_judged_predictions,
)
from factmill.tasks.fanoutqa.evaluation.questions import (
    CLOSED_BOOK_PROMPT,
    DEFAULT_CONTEXT_TOKENS,
    EVIDENCE_PROMPT,
    FANOUTQA_JUDGING,
    JUDGE_ANSWER_PROMPT,
    TEXT_SEARCH_PROMPT,
    TOOL_SEARCH_PROMPT,
    FanOutEvaluationInputs,
    FanOutEvaluationParams,
    collect_gold_questions,
    fill_fanoutqa_question_prompt,
    list_fanoutqa_setting_questions,
    make_fanoutqa_dialogue,
    make_fanoutqa_guesser,
)
from factmill.tasks.fanoutqa.evaluation.search import look_up_articles
from factmill.tasks.models.cross_encoder import get_cross_encoder_identity
from factmill.tasks.options import RunOptions
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.table_store import TableStore

_SETTING_DESCRIPTIONS = {
    CLOSED_BOOK: "the question alone",
    OPEN_BOOK: "the question; the model can search the articles as of the epoch",
    EVIDENCE_PROVIDED: "the question, with the most relevant passages of the articles it needs",
}
_STOP_REASONS = {
    "rounds": "it had used up its rounds (--rounds)",
    "tokens": "it had used up its tokens (--most-tokens)",
    "time": "it had used up its seconds (--most-seconds)",
    "room": "its context was full",
}


def resolve_fanoutqa_evaluation_inputs(
    params: FanOutEvaluationParams, run: RunOptions
) -> BuildInputsAndSourceFiles[FanOutEvaluationInputs]:
    """Resolve the inputs that decide an evaluation; UsageError or SettingsError says what was expected."""
    if (
        params.split == "test"
        and params.release
        and TableStore(Path(params.release)).lacks_released_table("fanoutqa_test_answers")
    ):
        raise UsageError(
            f"--release {params.release}: the release lacks the answers of the test part, so --split test cannot be scored; "
            "ask its publisher for one made with factmill release --with-answers, or measure with --split dev"
        )
    model = load_world(run.world, run.graph).models.get(params.model)
    context = params.context_tokens or (model and model.context_tokens) or DEFAULT_CONTEXT_TOKENS
    settled = {
        "context_tokens": max(context - (model.thinking_tokens if model else 0), 1024),
        "tools": "never" if params.tools == "auto" and model is not None and not model.tools else params.tools,
    }
    return resolve_evaluation_inputs(
        FANOUTQA_EVALUATION,
        params.model_copy(update=settled),
        run,
        FanOutEvaluationInputs,
        lemmatizer=resolve_lemmatizer_name(params.lemmas),
        bleurt=params.bleurt and get_cross_encoder_identity(params.bleurt, factmill_home(), SIMILARITY_LABELS),
    )


def list_fanoutqa_report_notes(inputs: FanOutEvaluationInputs) -> list[str]:
    """Return the notes for a report's figures, a sentence each."""
    notes = ["ROUGE-2 counts pairs of words: a gold answer of one word has none, so that even the oracle gets 0"]
    if inputs.lemmatizer == RuleLemmatizer.name:
        notes.append(
            f"rules give the lemmas: the public scorer uses spaCy's {SPACY_MODEL}, which is not installed or not chosen, so the "
            "numbers of --scorer upstream differ from it for words whose lemmas differ"
        )
    return notes


def list_fanoutqa_wiki_services(params: FanOutEvaluationParams) -> tuple[str, ...]:
    """Return the services that an evaluation calls: Wikipedia, if a model is shown articles."""
    settings = params.setting or (OPEN_BOOK, EVIDENCE_PROVIDED)
    return ("wikipedia",) if params.calls_tested_model and {OPEN_BOOK, EVIDENCE_PROVIDED} & {*settings} else ()


def explain_fanoutqa_answer(row: FanOutScoredPrediction) -> Iterator[str]:
    """Yield the lines that explain one row of `fanoutqa_answers`."""
    yield f"  question    {row.question}   ({row.setting}, {row.split}; factmill explain fanoutqa {row.item})"
    yield f"  gold        {'; '.join(format_gold_answer(json.loads(row.gold)).splitlines())}"
    yield from map(_format_search_outcome, row.searches)
    if row.stopped:
        yield f"  stopped     the model had to answer, because {_STOP_REASONS[row.stopped]}"
    if row.context:
        passages = f"{'; '.join(row.context[:5])}{' …' if len(row.context) > 5 else ''}"
        yield f"  shown       {len(row.context)} passages as of {row.epoch}: {passages}"
    yield format_explain_answer_line("; ".join(row.answer.splitlines()), row)
    if row.answer_read != row.answer.strip():
        yield f"  read as     {'; '.join(row.answer_read.splitlines())}"
    if row.unscored:
        yield f"  unscored    {row.unscored}: {row.detail}"
    if row.loose is not None:
        rouge1, rouge2, rouge_l, upstream = (
            "none" if value is None else f"{value:.3f}"
            for value in (row.rouge1, row.rouge2, row.rougeL, row.upstream_loose)
        )
        yield f"  strings     {row.loose:.3f} of the gold answer's strings found, public scorer {upstream} (lemmas: {row.lemmatizer})"
        yield f"  rouge       1: {rouge1}, 2: {rouge2}, L: {rouge_l}"
    if row.bleurt_like is not None:
        yield f"  bleurt      {row.bleurt_like:.3f} (by a cross-encoder instead of BLEURT)"
    if row.grade:
        by = f"{row.judge}, a program" if row.judge == EXACT_JUDGE else row.judge
        yield f"  grade       {row.grade}: {GRADES[row.grade]}   (by {by})"
    elif row.judge_unscored:
        yield f"  grade       none: {row.judge_unscored}: {row.judge_detail}"


def _format_search_outcome(search: FanOutSearchRecord) -> str:
    if search.chunks:
        gave = f"{search.chunks} of {search.of} passages of revision {search.revid}"
    else:
        near = f"; offered {', '.join(search.similar)}" if search.similar else ""
        gave = f"nothing ({search.reason}{f': {search.detail}' if search.detail else ''}){near}"
    return f"  search {search.round:<4} {search.title or '(no title)'} → {gave}"


FANOUTQA_EVALUATION: Evaluation = Evaluation(
    name="fanoutqa_evaluation",
    title="Measure a model on FanOutQA: closed book, open book with searches, and with the evidence provided",
    examples=(
        "factmill evaluate fanoutqa --model oracle",
        "factmill evaluate fanoutqa --world my-world.toml --model mine --setting open_book --rounds 10 --limit 50",
        "factmill evaluate fanoutqa --answers answers.jsonl --split dev --scorer upstream",
    ),
    params=FanOutEvaluationParams,
    resolve_inputs=resolve_fanoutqa_evaluation_inputs,
    recipe="factmill.tasks.fanoutqa.evaluation.definition:FANOUTQA_EVALUATION",
    tables={
        "fanoutqa_answers": FanOutScoredPrediction,
        "fanoutqa_scores": AnswerScore,
        "evaluation_metrics": EvaluationMetric,
    },
    main_table="fanoutqa_answers",
    group_column="setting",
    display_columns={
        "id": "id",
        "question": "question",
        "gold": "gold",
        "answer": "answer",
        "loose": "loose",
        "grade": "grade",
    },
    explain=explain_fanoutqa_answer,
    assets=BenchmarkAssetNames(
        prompts=(CLOSED_BOOK_PROMPT, TOOL_SEARCH_PROMPT, TEXT_SEARCH_PROMPT, EVIDENCE_PROMPT, JUDGE_ANSWER_PROMPT),
        lists=("irregular_forms.csv", "removed_from_evidence.txt"),
    ),
    required_services=list_fanoutqa_wiki_services,
    reads_wikipedia_files=True,
    benchmark=FANOUTQA,
    settings=_SETTING_DESCRIPTIONS,
    default_settings=(CLOSED_BOOK, OPEN_BOOK, EVIDENCE_PROVIDED),
    offline_settings=(CLOSED_BOOK,),
    headline_metrics=(LOOSE, STRICT, UPSTREAM_LOOSE, UPSTREAM_STRICT, JUDGED),
    main_metric=LOOSE,
    main_metric_meaning="The share of the gold answer's strings in the model's answer, averaged over questions whose answers are spread over "
    "many articles: from memory (closed_book), with search (open_book), and with the articles provided.",
    combine_tables=collect_gold_questions,
    make_questions=list_fanoutqa_setting_questions,
    make_prompt=fill_fanoutqa_question_prompt,
    make_dialogue=make_fanoutqa_dialogue,
    look_up=look_up_articles,
    inputs_model=FanOutEvaluationInputs,
    question_model=FanOutEvaluationQuestion,
    prediction_model=FanOutPrediction,
    make_oracle=lambda _: lambda asked: format_gold_answer(json.loads(asked.gold)),
    make_guesser=make_fanoutqa_guesser,
    judging_spec=FANOUTQA_JUDGING,
    score_predictions=score_judged_predictions,
    compute_metrics=lambda answers, inputs: measure_fanoutqa(answers, inputs.params.seed, inputs.params.scorer),
    list_notes=list_fanoutqa_report_notes,
    max_concurrent_questions=100,  # each dialogue holds up to a whole context in memory
    draw_figures=draw_fanoutqa_figures,
    list_report_items=list_fanoutqa_report_items,
    paper_results=FANOUTQA_PAPER_FIGURES,
    label_scheme=JudgeVerdictLabelScheme(
        instruction="How does the answer compare with the gold answer?",
        classes={grade: GRADES[grade] for grade in GRADES_WORST_FIRST},
        right_labels=RIGHT_GRADES,
        metric=JUDGED,
        list_judged_parts=list_fanoutqa_judged_parts,
        prompts=(JUDGE_ANSWER_PROMPT,),
        make_answer_row=make_judgeable_fanoutqa_answer,
    ),
)
