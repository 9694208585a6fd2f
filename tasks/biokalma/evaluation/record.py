"""BioKaLMA's `Evaluation` object: questions, prompts, scoring of answers, settings (paper §3.3, §4)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any, Literal

import pyarrow as pa

from factmill.tasks.assets import load_prompt
from factmill.tasks.biokalma.benchmark import BIOKALMA
from factmill.tasks.biokalma.core.citations import read_citations
from factmill.tasks.biokalma.core.evaluation.rows import (
    RATED,
    BioAnswer,
    BioAsked,
    Form,
    RatedBio,
    ScoredBio,
    ScoredCitation,
    Scorer,
    list_ratings,
)
from factmill.tasks.biokalma.core.evaluation.scoring import (
    LEXICAL,
    Claim,
    align_lexically,
    list_claims,
    put_pair,
    score_citations,
)
from factmill.tasks.biokalma.core.evaluation.settings import (
    ABLATED,
    FORMS,
    GIVEN,
    REMOVED,
    RETRIEVED,
    Guesser,
    Measured,
    ask_row,
    say_right,
)
from factmill.tasks.biokalma.core.knowledge_sentences import verbalise_piece
from factmill.tasks.biokalma.core.rows import BiographyRow
from factmill.tasks.biokalma.evaluation.measure import (
    F1,
    HEADLINE,
    MICRO,
    PAPER,
    draw_figures,
    list_items,
    measure_biokalma,
)
from factmill.tasks.biokalma.sources.person_pairs import load_relation_forms
from factmill.tasks.core.authoring.citations import Piece, format_knowledge
from factmill.tasks.core.calls.knowledge import HUMAN
from factmill.tasks.core.evaluation.frame import frame, make_boundary
from factmill.tasks.core.evaluation.labels import LabelScheme
from factmill.tasks.core.evaluation.rows import EvaluationMetric, Score
from factmill.tasks.core.prompts import Ask, fill_in
from factmill.tasks.core.replies import CITED
from factmill.tasks.core.rows import arrow_table, rows_from_arrow
from factmill.tasks.engine.benchmark import WIKIDATA_QUERIES, Assets, Locked
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.measured import find_measured
from factmill.tasks.evaluation.record import (
    BUILT_IN,
    EXACT,
    Evaluation,
    EvaluationInputs,
    JudgedParams,
    Tools,
    draw_clusters,
    lock_evaluation,
    tell_answer,
)
from factmill.tasks.models.cross_encoder import ENTAILMENT, identify_cross_encoder
from factmill.tasks.options import Option, RunOptions
from factmill.tasks.settings import home

ANSWER = "biokalma/answer"
JUDGES = {criterion: f"biokalma/judge_{criterion}" for criterion in RATED}
"""Rating criterion (§4.1) → the judge's prompt."""
RATED_SETTINGS = (GIVEN, RETRIEVED)
"""Settings whose texts are rated, as in Tables 4 and 7."""
Setting = Literal[
    "given_graph", "retrieved", "removed_1", "removed_2", "removed_3",
    "ablated_100", "ablated_80", "ablated_60", "ablated_40", "ablated_20",
]  # fmt: skip


class BiokalmaEvaluationParams(JudgedParams):
    """Parameters of an evaluation on BioKaLMA."""

    setting: Annotated[tuple[Setting, ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: all, as the paper reports them; for built-in models those without wrong graphs, for answers of a file given_graph."""
    form: Annotated[tuple[Form, ...], Option("--form")] = ()
    """Only this question of each row (repeatable). Default: both; the paper's main figures are of the specific one."""
    judge: Annotated[str, Option(metavar="NAME")] = "judge"
    """The model of the world's file that rates texts, [models.NAME], in the settings given_graph and retrieved: four calls an answer. Where it is no model, or exact, no text is rated: a program cannot."""
    nli: Annotated[str | None, Option(metavar="NAME")] = None
    """The cross-encoder of `factmill models list` that says whether a sentence bears out its citation. Default: a lexical rule, which is named in the report."""
    scorer: Scorer = "fixed"
    """fixed: citations count as the paper defines it; upstream: as its public script counts them."""


class BiokalmaEvaluationInputs(EvaluationInputs):
    """Resolved inputs of BioKaLMA's evaluation stages."""

    params: BiokalmaEvaluationParams
    class_qid: str = HUMAN
    """Class of the measured build's items, and of the items that names in questions mean."""
    nli: dict[str, str] | None = None
    """Name and digest of the entailment model; None: the lexical rule."""


def list_questions(rows: pa.Table, inputs: BiokalmaEvaluationInputs) -> Iterator[BioAsked]:
    """Yield both questions of every row in every setting; those of `retrieved` have no graphs yet."""
    measured = Measured(rows_from_arrow(BiographyRow, rows))
    drawn = draw_clusters([row.id for row in measured.rows], inputs.params)
    for setting in inputs.settings:
        for row in measured.rows:
            if row.id in drawn:
                yield from ask_row(row, setting, measured.show(row, setting), inputs.params.form or FORMS)


def list_shown_questions(rows: pa.Table, inputs: BiokalmaEvaluationInputs) -> Iterator[BioAsked]:
    """Yield the questions that need no look-up, all except those of `retrieved`; UsageError where none is left."""
    settings = tuple(each for each in inputs.settings if each != RETRIEVED)
    if not settings:
        raise UsageError(
            f"--setting {RETRIEVED}: what it shows is looked up while a model is asked, with --model; expected another "
            f"setting, like {GIVEN}"
        )
    return list_questions(rows, inputs.model_copy(update={"settings": settings}))


def fill_prompt(asked: BioAsked, _: object = None) -> Ask:
    """Return the prompt of a question with its knowledge (§3.3, Table 13)."""
    return fill_in(load_prompt(ANSWER), knowledge=tell_knowledge(asked), question=asked.question)


def tell_knowledge(asked: BioAsked) -> str:
    """Format the graphs shown, one per line, in the order shown."""
    names = dict(zip(asked.retrieved, asked.retrieved_names, strict=True))
    return "\n".join(
        format_knowledge(names[qid], list(pieces)) for qid, pieces in groupby(asked.given, lambda piece: piece.qid)
    )


def fill_judge_prompt(row: BioAnswer, criterion: str) -> Ask:
    """Return the judge's prompt for a criterion, with the answer in its frame (Tables 14 to 17)."""
    boundary, framed = make_boundary(row.id, row.answer_read), frame(row.id, row.answer_read)
    knowledge = {"knowledge": tell_knowledge(row)} if criterion == "consistency" else {}
    prompt = load_prompt(JUDGES[criterion])
    return fill_in(prompt, 1, question=row.question, boundary=boundary, answer=framed, **knowledge)


def answer_rightly(_: pa.Table) -> Callable[[BioAsked], str]:
    """Return the oracle, question → answer."""
    return lambda asked: say_right(asked, _tell)


def guess_answers(rows: pa.Table) -> Callable[[BioAsked], str]:
    """Return the guesser, question → answer, for these rows of the measured build."""
    guesser = Guesser(rows_from_arrow(BiographyRow, rows))
    return lambda asked: guesser.say(asked, _tell)


def _tell(piece: Piece, name: str) -> str:
    return verbalise_piece(piece, name, load_relation_forms())


_LIKELY = 0.5
"""Minimum entailment probability at which a triple follows from a sentence."""


def score_answers(answers: pa.Table, inputs: BiokalmaEvaluationInputs, tools: Tools) -> pa.Table:
    """Score answers (rows of `RatedBio`, or of `BioAnswer` if unrated); returns rows of `ScoredBio`."""
    rows = (
        rows_from_arrow(RatedBio, answers)
        if "judge_calls" in answers.column_names
        else [leave_unrated(row) for row in rows_from_arrow(BioAnswer, answers)]
    )
    read = [read_citations(row.answer_read, row.given) for row in rows]
    aligns, aligner = _choose_aligner(
        {claim for row, cited in zip(rows, read, strict=True) for claim in list_claims(cited, row.removed)},
        inputs.params.nli,
        tools,
    )
    scored = []
    for row, cited in zip(rows, read, strict=True):
        names = dict(zip(row.retrieved, row.retrieved_names, strict=True))
        held, counts = score_citations(cited, row.given, row.minimum, row.removed, aligns, inputs.params.scorer, names)
        scored.append(row.extend(ScoredBio, sentences=cited.sentences, citations=held, counts=counts, aligner=aligner))
    return arrow_table(ScoredBio, scored)


def leave_unrated(row: BioAnswer) -> RatedBio:
    """Return an answer's row with empty ratings."""
    return row.extend(RatedBio, **dict.fromkeys(RATED), unrated=[], judge="", judge_calls=[])


def _choose_aligner(claims: set[Claim], model: str | None, tools: Tools) -> tuple[Callable[[Claim], bool], str]:
    """Return the function that decides whether a claim holds (by a model or the rule), and its name."""
    if model is None:
        return align_lexically, LEXICAL
    encoder = tools.cross_encoder(model)
    ordered = sorted(claims, key=lambda claim: (claim.sentence, claim.piece.model_dump_json()))
    pairs = [put_pair(claim, load_relation_forms()) for claim in ordered]
    likely = encoder.score(pairs, [ENTAILMENT])[:, 0] if pairs else ()
    known: Mapping[Claim, bool] = {claim: bool(each >= _LIKELY) for claim, each in zip(ordered, likely, strict=True)}
    return known.__getitem__, encoder.name


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
"""Default settings of the built-in models: in the others, no model could know what the graphs lack."""


def lock_inputs(params: BiokalmaEvaluationParams, run: RunOptions) -> Locked[BiokalmaEvaluationInputs]:
    """Resolve an evaluation's inputs; raises UsageError."""
    nli = None if params.nli is None else identify_cross_encoder(params.nli, home(), [ENTAILMENT])
    asked = params.model_copy(update={"judge": params.judge or EXACT})
    locked = lock_evaluation(BIOKALMA_EVALUATION, asked, run, BiokalmaEvaluationInputs, nli=nli, class_qid=HUMAN)
    made = find_measured(BIOKALMA, params, run).record.lock["params"]["params"]
    changed: dict[str, Any] = {"class_qid": made.get("class_qid", HUMAN)}
    if locked.inputs.params.judge == EXACT:
        # without a judging model nothing is rated, and reports name no judge
        changed["params"] = locked.inputs.params.model_copy(update={"judge": ""})
    if params.model in BUILT_IN and not (params.setting or params.answers):
        changed["settings"] = PLAIN
    return replace(locked, inputs=locked.inputs.model_copy(update=changed))


def tell_notes(inputs: BiokalmaEvaluationInputs) -> list[str]:
    """Return report notes: metrics that no model produced, and values that no model can reach."""
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
    """Yield an answer row's contents as readable lines."""
    yield f"  question    {row.question}   ({row.setting}, {row.form}; factmill explain biokalma {row.item})"
    about = ", ".join(f"{name} ({qid})" for qid, name in zip(row.people, row.names, strict=True))
    shown = ", ".join(f"{name} ({qid})" for qid, name in zip(row.retrieved, row.retrieved_names, strict=True))
    yield f"  about       {about}, joined by {row.relation}"
    yield f"  shown       {shown or '(nothing)'}: {len(row.given)} pieces"
    for piece in row.minimum:
        yield f"  needed      {piece.qid} {piece.property}: {piece.value}{'   (not shown)' if piece in row.removed else ''}"
    yield tell_answer(row.answer, row)
    if row.citations:
        yield f"  citations   each with the sentence it stands in (whether that bears it out: {row.aligner})"
    for cited in row.citations:
        told = f"{cited.qid} {cited.property}: {cited.value}" if cited.kind == "triple" else cited.text
        yield f"              {cited.sentence + 1}. {told}   {describe_citation(cited)}"
    rated = {name: getattr(row, name) for name in JUDGES}
    if any(rated.values()):
        yield f"  ratings     {', '.join(f'{name} {value or chr(8211)}' for name, value in rated.items())} of 5   (by {row.judge})"
    yield from (f"  unrated     {each}" for each in row.unrated)
    yield from [f"  unscored    {row.unscored}: {row.detail}"] if row.unscored else []


def describe_citation(cited: ScoredCitation) -> str:
    """Format a citation's verdict in a few words."""
    if cited.kind == "malformed":
        return f"malformed: {cited.why}"
    if cited.kind == "not_available":
        return "marks what is missing" if cited.is_aligned else "marks nothing that is missing"
    told = "needed" if cited.is_needed else "in the graph" if cited.is_correct else "not in the graph"
    return told if cited.is_aligned else f"{told}, not what its sentence says"


def list_needs(params: BiokalmaEvaluationParams) -> tuple[str, ...]:
    """Return the services needed: Wikidata where the setting `retrieved` is measured."""
    return ("wikidata",) if RETRIEVED in (params.setting or (SETTINGS if params.asks_model else ())) else ()


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
    recipe="factmill.flows.evaluate.biokalma:evaluate_biokalma",
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
    notes=tell_notes,
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
