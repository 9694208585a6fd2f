"""The evaluation on FanOutQA as registered with the commands."""

import json
from collections.abc import Iterator
from pathlib import Path

from factmill.tasks.core.evaluation.labels import LabelScheme
from factmill.tasks.core.evaluation.rows import EvaluationMetric, Score
from factmill.tasks.engine.benchmark import Assets, Locked
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.record import EXACT, Evaluation, lock_evaluation, tell_answer
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.core.evaluation.rows import (
    CLOSED_BOOK,
    EVIDENCE_PROVIDED,
    OPEN_BOOK,
    FanOutAnswer,
    FanOutAsked,
    FanOutSearch,
    ScoredFanOut,
)
from factmill.tasks.fanoutqa.core.evaluation.scoring import WANTED
from factmill.tasks.fanoutqa.core.evaluation.strings.golds import write_gold
from factmill.tasks.fanoutqa.core.evaluation.strings.lemmas import RuleLemmatizer
from factmill.tasks.fanoutqa.core.evaluation.verdicts import BY_WORTH, GRADES, RIGHT, list_grades, pose_answer
from factmill.tasks.fanoutqa.evaluation.ask import (
    ALONE,
    ARTICLES,
    JUDGE,
    JUDGING,
    TEXT,
    TOOLS,
    USUAL_CONTEXT,
    FanOutEvaluationInputs,
    FanOutEvaluationParams,
    converse,
    fill_prompt,
    gather_questions,
    guess_answers,
    list_questions,
    say_gold,
)
from factmill.tasks.fanoutqa.evaluation.lemmas import MODEL, name_lemmatizer
from factmill.tasks.fanoutqa.evaluation.measure import (
    JUDGED,
    LOOSE,
    PAPER,
    STRICT,
    UPSTREAM_LOOSE,
    UPSTREAM_STRICT,
    draw_figures,
    list_items,
    measure_fanoutqa,
    score_judged,
)
from factmill.tasks.fanoutqa.evaluation.search import look_up
from factmill.tasks.models.cross_encoder import identify_cross_encoder
from factmill.tasks.options import RunOptions
from factmill.tasks.settings import home, load_world
from factmill.tasks.storage.stores import Store

_SETTINGS = {
    CLOSED_BOOK: "the question alone",
    OPEN_BOOK: "the question, and articles as of the epoch that the model searches for",
    EVIDENCE_PROVIDED: "the question with the best passages of the articles that it needs",
}
_STOPPED = {
    "rounds": "its rounds were used up",
    "tokens": "its tokens were used up (--most-tokens)",
    "time": "its seconds were used up (--most-seconds)",
    "room": "there was no room for more",
}


def lock_inputs(params: FanOutEvaluationParams, run: RunOptions) -> Locked[FanOutEvaluationInputs]:
    """Resolve the inputs that decide an evaluation; UsageError or SettingsError says what was expected."""
    if params.split == "test" and params.release and Store(Path(params.release)).is_without("fanoutqa_test_answers"):
        raise UsageError(
            f"--release {params.release}: it was made without the answers of the test part, so --split test cannot be scored; "
            "ask its makers for one made by factmill release --with-answers, or measure on --split dev"
        )
    model = load_world(run.world, run.graph).models.get(params.model)
    context = params.context_tokens or (model and model.context_tokens) or USUAL_CONTEXT
    settled = {
        "context_tokens": max(context - (model.thinking_tokens if model else 0), 1024),
        "tools": "never" if params.tools == "auto" and model is not None and not model.tools else params.tools,
    }
    return lock_evaluation(
        FANOUTQA_EVALUATION,
        params.model_copy(update=settled),
        run,
        FanOutEvaluationInputs,
        lemmatizer=name_lemmatizer(params.lemmas),
        bleurt=params.bleurt and identify_cross_encoder(params.bleurt, home(), WANTED),
    )


def tell_notes(inputs: FanOutEvaluationInputs) -> list[str]:
    """Return the notes for a report's figures, a sentence each."""
    told = ["ROUGE-2 counts pairs of words: a gold answer of one word has none, and gives 0 even to the oracle"]
    if inputs.lemmatizer == RuleLemmatizer.name:
        told.append(
            f"lemmas are by rules: the public scorer's are of spaCy's {MODEL}, which is not installed or not wanted, so "
            "its numbers (--scorer upstream) are met but for words whose lemmas differ"
        )
    return told


def list_needs(params: FanOutEvaluationParams) -> tuple[str, ...]:
    """Return the services that an evaluation calls: Wikipedia, if a model is shown articles."""
    settings = params.setting or (OPEN_BOOK, EVIDENCE_PROVIDED)
    return ("wikipedia",) if params.asks_model and {OPEN_BOOK, EVIDENCE_PROVIDED} & {*settings} else ()


def explain_answer(row: ScoredFanOut) -> Iterator[str]:
    """Yield the lines that explain one row of `fanoutqa_answers`."""
    yield f"  question    {row.question}   ({row.setting}, {row.split}; factmill explain fanoutqa {row.item})"
    yield f"  gold        {'; '.join(write_gold(json.loads(row.gold)).splitlines())}"
    yield from map(_tell_search, row.searches)
    if row.stopped:
        yield f"  stopped     told to answer, since {_STOPPED[row.stopped]}"
    if row.context:
        yield f"  shown       {len(row.context)} passages as of {row.epoch}: {'; '.join(row.context[:5])}{' …' if len(row.context) > 5 else ''}"
    yield tell_answer("; ".join(row.answer.splitlines()), row)
    yield from (
        [f"  read as     {'; '.join(row.answer_read.splitlines())}"] if row.answer_read != row.answer.strip() else []
    )
    yield from [f"  unscored    {row.unscored}: {row.detail}"] if row.unscored else []
    if row.loose is not None:
        yield f"  strings     {row.loose:.3f} of the gold answer's, public scorer {_tell(row.upstream_loose)} (lemmas: {row.lemmatizer})"
        yield f"  rouge       1: {_tell(row.rouge1)}, 2: {_tell(row.rouge2)}, L: {_tell(row.rougeL)}"
    yield from (
        [f"  bleurt      {row.bleurt_like:.3f} (a cross-encoder in its place)"] if row.bleurt_like is not None else []
    )
    if row.grade:
        yield f"  grade       {row.grade}: {GRADES[row.grade]}   (by {row.judge}{', a program' if row.judge == EXACT else ''})"
    elif row.judge_unscored:
        yield f"  grade       none: {row.judge_unscored}: {row.judge_detail}"


def _tell(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _tell_search(search: FanOutSearch) -> str:
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
    lock_inputs=lock_inputs,
    recipe="factmill.tasks.fanoutqa.evaluation.record:FANOUTQA_EVALUATION",
    tables={"fanoutqa_answers": ScoredFanOut, "fanoutqa_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="fanoutqa_answers",
    part="setting",
    shown={"id": "id", "question": "question", "gold": "gold", "answer": "answer", "loose": "loose", "grade": "grade"},
    explain=explain_answer,
    assets=Assets(
        prompts=(ALONE, TOOLS, TEXT, ARTICLES, JUDGE), lists=("irregular_forms.csv", "removed_from_evidence.txt")
    ),
    needs=list_needs,
    of=FANOUTQA,
    settings=_SETTINGS,
    usual=(CLOSED_BOOK, OPEN_BOOK, EVIDENCE_PROVIDED),
    plain=(CLOSED_BOOK,),
    headline=(LOOSE, STRICT, UPSTREAM_LOOSE, UPSTREAM_STRICT, JUDGED),
    main=LOOSE,
    meaning="The share of the gold answer's strings that the model's answer says, averaged over questions: what it finds of "
    "answers that lie in many articles, from memory (closed_book), by searching (open_book), and with the articles given.",
    gather=gather_questions,
    questions=list_questions,
    fill=fill_prompt,
    converse=converse,
    look=look_up,
    inputs=FanOutEvaluationInputs,
    asked=FanOutAsked,
    answers=FanOutAnswer,
    oracle=say_gold,
    guess=guess_answers,
    judging=JUDGING,
    score=score_judged,
    measure=lambda answers, inputs: measure_fanoutqa(answers, inputs.params.seed, inputs.params.scorer),
    notes=tell_notes,
    most_asked=100,  # each dialogue holds up to a whole context in memory
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
    labels=LabelScheme(
        asks="How does the answer stand to the gold answer?",
        classes={grade: GRADES[grade] for grade in BY_WORTH},
        right=RIGHT,
        metric=JUDGED,
        of=list_grades,
        prompts=(JUDGE,),
        pose=pose_answer,
    ),
)
