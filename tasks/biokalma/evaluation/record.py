"""BioKaLMA's evaluation as commands know it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tasks.biokalma.benchmark import BIOKALMA
from tasks.biokalma.core.evaluation.geval import list_ratings
from tasks.biokalma.core.evaluation.rows import BioAnswer, BioAsked, ScoredBio, ScoredCitation
from tasks.biokalma.core.evaluation.settings import ABLATED, GIVEN, REMOVED, RETRIEVED
from tasks.biokalma.evaluation.ask import (
    ANSWER,
    JUDGES,
    BiokalmaEvaluationInputs,
    BiokalmaEvaluationParams,
    answer_rightly,
    fill_prompt,
    guess_answers,
    list_shown_questions,
)
from tasks.biokalma.evaluation.figures import PAPER, draw_figures
from tasks.biokalma.evaluation.measure import F1, HEADLINE, MICRO, list_items, measure_biokalma
from tasks.biokalma.evaluation.score import score_answers
from tasks.core.calls.knowledge import HUMAN
from tasks.core.evaluation.labels import LabelScheme
from tasks.core.evaluation.rows import EvaluationMetric, Score
from tasks.core.replies import CITED
from tasks.engine.benchmark import WIKIDATA_QUERIES, Assets, Locked
from tasks.evaluation.measured import find_measured
from tasks.evaluation.record import BUILT_IN, EXACT, Evaluation, list_roles, lock_evaluation, tell_answer
from tasks.models.cross_encoder import ENTAILMENT, identify_cross_encoder
from tasks.options import RunOptions
from tasks.settings import home

SETTINGS = {
    RETRIEVED: "the graphs of the people whom the question names, looked up: the baseline",
    GIVEN: "the graphs of the two people whom it is about",
    **{f"{REMOVED}{number}": f"these, with {number} of the pieces it takes left out" for number in (1, 2, 3)},
    f"{ABLATED}100": "these, as the first of the following",
    **{
        f"{ABLATED}{share}": f"{share} % of these; the others are replaced by somebody else's"
        for share in (80, 60, 40, 20)
    },
}
PLAIN = (GIVEN, "removed_1", "removed_2", "removed_3")
"""Settings of the built-in models where none is named: in the others the graphs lack what no model could know they do."""


def lock_inputs(params: BiokalmaEvaluationParams, run: RunOptions) -> Locked[BiokalmaEvaluationInputs]:
    """Return what an evaluation depends on; UsageError says what was expected."""
    nli = None if params.nli is None else identify_cross_encoder(params.nli, home(), [ENTAILMENT])
    asked = params.model_copy(update={"judge": params.judge or EXACT})
    locked = lock_evaluation(BIOKALMA_EVALUATION, asked, run, BiokalmaEvaluationInputs, nli=nli, class_qid=HUMAN)
    made = find_measured(BIOKALMA, params, run).record.lock["params"]["params"]
    changed: dict[str, Any] = {"class_qid": made.get("class_qid", HUMAN)}
    if locked.inputs.params.judge == EXACT:
        # a program rates nothing, so nobody judges, and no report says so
        changed["params"] = locked.inputs.params.model_copy(update={"judge": ""})
    if params.model in BUILT_IN and not (params.setting or params.answers):
        changed["settings"] = PLAIN
    return replace(locked, inputs=locked.inputs.model_copy(update=changed))


def tell_notes(inputs: BiokalmaEvaluationInputs) -> list[str]:
    """Return a sentence on each kind of figure that needs one: what no model gave, and what no model can reach."""
    told = []
    if any(setting not in (GIVEN, f"{ABLATED}100") for setting in inputs.settings):
        told.append(
            "recall counts what the graphs lack too (Table 5), so where pieces are left out nobody reaches 1, nor does the oracle"
        )
    if inputs.params.nli is None:
        told.append(
            "alignment and [NA] are by a lexical rule: --nli names no cross-encoder (factmill models add cross-encoder --help)"
        )
    if not inputs.params.judge:
        told.append(
            "no text is rated for coherence, consistency, fluency and relevance: that takes a model that judges"
        )
    return told


def explain_answer(row: ScoredBio) -> Iterator[str]:
    """Yield what an answer's row says, as lines to read."""
    yield f"  question    {row.question}   ({row.setting}, {row.form}; factmill explain biokalma {row.item})"
    about = ", ".join(f"{name} ({qid})" for qid, name in zip(row.people, row.names, strict=True))
    shown = ", ".join(f"{name} ({qid})" for qid, name in zip(row.retrieved, row.retrieved_names, strict=True))
    yield f"  about       {about}, joined by {row.relation}"
    yield f"  shown       {shown or '(nothing)'}: {len(row.given)} pieces"
    for piece in row.minimum:
        yield f"  needed      {piece.qid} {piece.property}: {piece.value}{'   (not shown)' if piece in row.removed else ''}"
    yield tell_answer(row.answer, row)
    yield from _explain_citations(row)
    rated = {name: getattr(row, name) for name in JUDGES}
    if any(rated.values()):
        yield f"  ratings     {', '.join(f'{name} {value or chr(8211)}' for name, value in rated.items())} of 5   (by {row.judge})"
    yield from (f"  unrated     {each}" for each in row.unrated)
    yield from [f"  unscored    {row.unscored}: {row.detail}"] if row.unscored else []


def _explain_citations(row: ScoredBio) -> Iterator[str]:
    if row.citations:
        yield f"  citations   each with the sentence it stands in (whether that bears it out: {row.aligner})"
    for cited in row.citations:
        told = f"{cited.qid} {cited.property}: {cited.value}" if cited.kind == "triple" else cited.text
        yield f"              {cited.sentence + 1}. {told}   {describe_citation(cited)}"


def describe_citation(cited: ScoredCitation) -> str:
    """Return what was found of a citation, in a few words."""
    if cited.kind == "malformed":
        return f"malformed: {cited.why}"
    if cited.kind == "not_available":
        return "marks what is missing" if cited.is_aligned else "marks nothing that is missing"
    told = "needed" if cited.is_needed else "in the graph" if cited.is_correct else "not in the graph"
    return told if cited.is_aligned else f"{told}, not what its sentence says"


def list_needs(params: BiokalmaEvaluationParams) -> tuple[str, ...]:
    """Return the services that are asked: a Wikidata where something is retrieved."""
    asks = params.answers is None and params.model not in BUILT_IN
    return ("wikidata",) if RETRIEVED in (params.setting or (SETTINGS if asks else ())) else ()


BIOKALMA_EVALUATION: Evaluation = Evaluation(
    name="biokalma_evaluation",
    title="Measure a model on BioKaLMA: answers that cite a knowledge graph, and say what it lacks",
    examples=(
        "factmill evaluate biokalma --model oracle",
        "factmill evaluate biokalma --world my-world.toml --model mine --setting retrieved --form specific --limit 50",
        "factmill evaluate biokalma --answers answers.jsonl --scorer upstream",
    ),
    params=BiokalmaEvaluationParams,
    lock_inputs=lock_inputs,
    recipe="flows.evaluate.biokalma:evaluate_biokalma",
    tables={"biokalma_answers": ScoredBio, "biokalma_scores": Score, "evaluation_metrics": EvaluationMetric},
    main_table="biokalma_answers",
    part="setting",
    shown={"id": "id", "question": "question", "answer": "answer", "retrieved_names": "shown"},
    explain=explain_answer,
    assets=Assets(
        prompts=(ANSWER, *JUDGES.values()),
        lists=("function_words.txt", "person_properties.txt", "pool_left_out.txt", "relation_forms.csv"),
        queries=WIKIDATA_QUERIES,
    ),
    needs=list_needs,
    roles=lambda params: tuple(filter(None, list_roles(params))),
    of=BIOKALMA,
    settings=SETTINGS,
    usual=tuple(SETTINGS),
    plain=(GIVEN,),
    headline=HEADLINE,
    main=f"{MICRO}_{F1}",
    meaning="Whether the model's citations are the knowledge that it takes to answer: the harmonic mean of how many of them "
    "are right and needed, and how much of what is needed they cite.",
    questions=list_shown_questions,
    fill=fill_prompt,
    inputs=BiokalmaEvaluationInputs,
    asked=BioAsked,
    answers=BioAnswer,
    form=CITED,
    oracle=answer_rightly,
    guess=guess_answers,
    score=score_answers,
    measure=lambda answers, inputs: measure_biokalma(answers, inputs.params),
    figures=draw_figures,
    items=list_items,
    paper=PAPER,
    labels=LabelScheme(
        asks="How good is the text in this respect, from 1 to 5?",
        classes={"1": "worst", "2": "poor", "3": "fair", "4": "good", "5": "best"},
        is_ordinal=True,
        of=list_ratings,
        prompts=tuple(JUDGES.values()),
    ),
)
