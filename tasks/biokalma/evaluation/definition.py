"""BioKaLMA's `Evaluation` object: questions, prompts, scoring of answers, settings (paper §3.3, §4)."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any, Literal

import pyarrow as pa

from factmill.tasks.assets import load_prompt
from factmill.tasks.biokalma.benchmark import BIOKALMA
from factmill.tasks.biokalma.core.citations import read_sentences_and_citations
from factmill.tasks.biokalma.core.evaluation.rows import (
    RATING_CRITERIA,
    BiokalmaPrediction,
    BiokalmaQuestion,
    BiokalmaQuestionForm,
    CheckedCitation,
    CitationScorer,
    RatedBiokalmaPrediction,
    ScoredBiokalmaPrediction,
    list_answer_ratings,
)
from factmill.tasks.biokalma.core.evaluation.scoring import (
    LEXICAL_ALIGNER,
    SentenceAlignmentClaim,
    is_aligned_lexically,
    list_claims_of_citations_and_na_marks,
    make_entailment_pair,
    score_citations,
)
from factmill.tasks.biokalma.core.evaluation.shown_graphs import (
    ABLATED_PREFIX,
    GIVEN_SETTING,
    QUESTION_FORMS,
    REMOVED_PREFIX,
    RETRIEVED_SETTING,
    FrequentPieceGuesser,
    SettingGraphSelector,
    cluster_rows_by_pair_of_people,
    make_oracle_answer_of_minimum_set,
    make_row_questions,
)
from factmill.tasks.biokalma.core.knowledge_sentences import verbalise_piece
from factmill.tasks.biokalma.core.rows import BiokalmaRow
from factmill.tasks.biokalma.evaluation.metrics_and_figures import (
    BIOKALMA_PAPER_FIGURES,
    F1,
    HEADLINE,
    MICRO,
    compute_biokalma_scores_and_metrics,
    draw_biokalma_metric_figures,
    list_biokalma_report_items,
)
from factmill.tasks.biokalma.sources.person_pairs import load_relation_wordings
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece, format_person_knowledge
from factmill.tasks.core.calls.wikidata import HUMAN_QID
from factmill.tasks.core.completions import CITED_TEXT_FORMAT
from factmill.tasks.core.evaluation.answer_frame import enclose_answer_in_boundary_lines, make_answer_boundary
from factmill.tasks.core.evaluation.human_labels import JudgeVerdictLabelScheme
from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.core.rows import make_arrow_table, rows_from_arrow
from factmill.tasks.engine.benchmark import WIKIDATA_QUERIES, BenchmarkAssetNames, BuildInputsAndSourceFiles
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.definition import (
    BUILT_IN_MODELS,
    EXACT_JUDGE,
    Evaluation,
    EvaluationInputs,
    JudgedEvaluationParams,
    LocalScoringModels,
    format_explain_answer_line,
    resolve_evaluation_inputs,
    sample_question_clusters,
)
from factmill.tasks.evaluation.measured_build import resolve_measured_build
from factmill.tasks.models.cross_encoder import ENTAILMENT_LABELS, get_cross_encoder_identity
from factmill.tasks.options import CliOption, RunOptions
from factmill.tasks.settings import factmill_home

ANSWER_PROMPT = "biokalma/answer"
JUDGE_PROMPTS = {criterion: f"biokalma/judge_{criterion}" for criterion in RATING_CRITERIA}
"""Rating criterion (§4.1) → the judge's prompt."""
RATED_SETTINGS = (GIVEN_SETTING, RETRIEVED_SETTING)
"""Settings whose texts are rated, as in Tables 4 and 7."""
BiokalmaSetting = Literal[
    "given_graph", "retrieved", "removed_1", "removed_2", "removed_3",
    "ablated_100", "ablated_80", "ablated_60", "ablated_40", "ablated_20",
]  # fmt: skip


class BiokalmaEvaluationParams(JudgedEvaluationParams):
    """Parameters of an evaluation on BioKaLMA."""

    setting: Annotated[tuple[BiokalmaSetting, ...], CliOption(metavar="NAME")] = ()
    """Only this setting (repeatable). Default: all settings that the paper reports. Built-in models get only the settings without wrong graphs; answers from a file count for given_graph."""
    form: tuple[BiokalmaQuestionForm, ...] = ()
    """Only this one of a row's two questions (repeatable). Default: both. The paper's main figures use the specific question."""
    judge: Annotated[str, CliOption(metavar="NAME")] = "judge"
    """Model that rates texts in the settings given_graph and retrieved: [models.NAME] in the world's file. It costs four calls per answer. With "exact", or without a real model, no text is rated, since a program cannot rate texts."""
    nli: Annotated[str | None, CliOption(metavar="NAME")] = None
    """The cross-encoder (see `factmill models`) that decides whether a sentence supports its citation. Default: a lexical rule, which the report names."""
    scorer: CitationScorer = "fixed"
    """How to count citations. fixed: as the paper defines it. upstream: as the paper's public script does it."""


class BiokalmaEvaluationInputs(EvaluationInputs):
    """Resolved inputs of BioKaLMA's evaluation stages."""

    params: BiokalmaEvaluationParams
    class_qid: str = HUMAN_QID
    """Class of the measured build's items, and of the items that names in questions mean."""
    nli: dict[str, str] | None = None
    """Name and digest of the entailment model; None: the lexical rule."""


def list_biokalma_questions(rows: pa.Table, inputs: BiokalmaEvaluationInputs) -> Iterator[BiokalmaQuestion]:
    """Yield both questions of every row in every setting; those of `retrieved` have no graphs yet."""
    measured = SettingGraphSelector(rows_from_arrow(BiokalmaRow, rows))
    clusters = cluster_rows_by_pair_of_people(measured.rows)
    drawn = sample_question_clusters([*clusters.values()], inputs.params)
    for setting in inputs.settings:
        for row in measured.rows:
            if (cluster := clusters[row.id]) in drawn:
                graphs = measured.list_shown_graphs(row, setting)
                for question in make_row_questions(row, setting, graphs, inputs.params.form or QUESTION_FORMS):
                    yield question.model_copy(update={"cluster": cluster})


def list_questions_except_retrieved_setting(
    rows: pa.Table, inputs: BiokalmaEvaluationInputs
) -> Iterator[BiokalmaQuestion]:
    """Yield the questions that need no look-up, all except those of `retrieved`; UsageError where none is left."""
    settings = tuple(each for each in inputs.settings if each != RETRIEVED_SETTING)
    if not settings:
        raise UsageError(
            f"--setting {RETRIEVED_SETTING}: this setting looks up graphs while a model answers (--model); expected another "
            f"setting, like {GIVEN_SETTING}"
        )
    return list_biokalma_questions(rows, inputs.model_copy(update={"settings": settings}))


def fill_biokalma_answer_prompt(asked: BiokalmaQuestion, _: object = None) -> FilledPrompt:
    """Return the prompt of a question with its knowledge (§3.3, Table 13)."""
    knowledge = format_shown_knowledge(asked)
    return fill_prompt_template(load_prompt(ANSWER_PROMPT), knowledge=knowledge, question=asked.question)


def format_shown_knowledge(asked: BiokalmaQuestion) -> str:
    """Format the graphs shown, one per line, in the order shown."""
    names = dict(zip(asked.retrieved, asked.retrieved_names, strict=True))
    graphs = groupby(asked.given, lambda piece: piece.qid)
    return "\n".join(format_person_knowledge(names[qid], list(pieces)) for qid, pieces in graphs)


def fill_judge_prompt(row: BiokalmaPrediction, criterion: str) -> FilledPrompt:
    """Return the judge's prompt for a criterion, with the answer in its frame (Tables 14 to 17)."""
    boundary, framed = (
        make_answer_boundary(row.id, row.answer_read),
        enclose_answer_in_boundary_lines(row.id, row.answer_read),
    )
    knowledge = {"knowledge": format_shown_knowledge(row)} if criterion == "consistency" else {}
    prompt = load_prompt(JUDGE_PROMPTS[criterion])
    return fill_prompt_template(prompt, 1, question=row.question, boundary=boundary, answer=framed, **knowledge)


def make_biokalma_guesser(rows: pa.Table) -> Callable[[BiokalmaQuestion], str]:
    """Return the guesser, question → answer, for these rows of the measured build."""
    guesser = FrequentPieceGuesser(rows_from_arrow(BiokalmaRow, rows))
    return lambda asked: guesser.make_answer(asked, _verbalise_with_loaded_wordings)


def _verbalise_with_loaded_wordings(piece: PersonKnowledgePiece, name: str) -> str:
    return verbalise_piece(piece, name, load_relation_wordings())


_MIN_ENTAILMENT = 0.5
"""Minimum entailment probability at which a triple follows from a sentence."""


def score_biokalma_predictions(
    answers: pa.Table, inputs: BiokalmaEvaluationInputs, tools: LocalScoringModels
) -> pa.Table:
    """Score answers (rows of `RatedBiokalmaPrediction`, or of `BiokalmaPrediction` if unrated); returns rows of `ScoredBiokalmaPrediction`."""
    rows = (
        rows_from_arrow(RatedBiokalmaPrediction, answers)
        if "judge_calls" in answers.column_names
        else [add_empty_ratings(row) for row in rows_from_arrow(BiokalmaPrediction, answers)]
    )
    read = [read_sentences_and_citations(row.answer_read, row.given) for row in rows]
    both = list(zip(rows, read, strict=True))
    claims = {claim for row, cited in both for claim in list_claims_of_citations_and_na_marks(cited, row.removed)}
    aligns, aligner = _choose_aligner(claims, inputs.params.nli, tools)
    scored = []
    for row, cited in both:
        names = dict(zip(row.retrieved, row.retrieved_names, strict=True))
        held, counts = score_citations(cited, row.given, row.minimum, row.removed, aligns, inputs.params.scorer, names)
        fields = {"sentences": cited.sentences, "citations": held, "counts": counts, "aligner": aligner}
        scored.append(row.extend_to(ScoredBiokalmaPrediction, **fields))
    return make_arrow_table(ScoredBiokalmaPrediction, scored)


def add_empty_ratings(row: BiokalmaPrediction) -> RatedBiokalmaPrediction:
    """Return an answer's row with empty ratings."""
    return row.extend_to(
        RatedBiokalmaPrediction, **dict.fromkeys(RATING_CRITERIA), unrated=[], judge="", judge_calls=[]
    )


def _choose_aligner(
    claims: set[SentenceAlignmentClaim], model: str | None, tools: LocalScoringModels
) -> tuple[Callable[[SentenceAlignmentClaim], bool], str]:
    """Return the function that decides whether a claim holds (by a model or the rule), and its name."""
    if model is None:
        return is_aligned_lexically, LEXICAL_ALIGNER
    encoder = tools.cross_encoder(model)
    ordered = sorted(claims, key=lambda claim: (claim.sentence, claim.piece.model_dump_json()))
    pairs = [make_entailment_pair(claim, load_relation_wordings()) for claim in ordered]
    likely = encoder.score(pairs, [ENTAILMENT_LABELS])[:, 0] if pairs else ()
    known = {claim: bool(each >= _MIN_ENTAILMENT) for claim, each in zip(ordered, likely, strict=True)}
    return known.__getitem__, encoder.name


SETTINGS = {
    RETRIEVED_SETTING: "the graphs of the people that the question names, found by a search (the baseline)",
    GIVEN_SETTING: "the graphs of the two people that the question is about",
    **{f"{REMOVED_PREFIX}{each}": f"as given_graph, without {each} of the needed facts" for each in (1, 2, 3)},
    f"{ABLATED_PREFIX}100": "the same graphs as in given_graph: the 100 % point of the series ablated_80 to ablated_20",
    **{
        f"{ABLATED_PREFIX}{share}": f"{share} % of the right graphs; graphs of other people replace the rest"
        for share in (80, 60, 40, 20)
    },
}
BUILT_IN_MODEL_SETTINGS = (GIVEN_SETTING, "removed_1", "removed_2", "removed_3")
"""Default settings of the built-in models: in the others, no model could know what the graphs lack."""


def resolve_biokalma_evaluation_inputs(
    params: BiokalmaEvaluationParams, run: RunOptions
) -> BuildInputsAndSourceFiles[BiokalmaEvaluationInputs]:
    """Resolve an evaluation's inputs; raises UsageError."""
    nli = None if params.nli is None else get_cross_encoder_identity(params.nli, factmill_home(), [ENTAILMENT_LABELS])
    asked = params.model_copy(update={"judge": params.judge or EXACT_JUDGE})
    locked = resolve_evaluation_inputs(
        BIOKALMA_EVALUATION, asked, run, BiokalmaEvaluationInputs, nli=nli, class_qid=HUMAN_QID
    )
    made = resolve_measured_build(BIOKALMA, params, run).record.lock["params"]["params"]
    changed: dict[str, Any] = {"class_qid": made.get("class_qid", HUMAN_QID)}
    if locked.inputs.params.judge == EXACT_JUDGE:
        # without a judging model nothing is rated, and reports name no judge
        changed["params"] = locked.inputs.params.model_copy(update={"judge": ""})
    if params.model in BUILT_IN_MODELS and not (params.setting or params.answers):
        changed["settings"] = BUILT_IN_MODEL_SETTINGS
    return replace(locked, inputs=locked.inputs.model_copy(update=changed))


def list_score_limitation_notes(inputs: BiokalmaEvaluationInputs) -> list[str]:
    """Return report notes: metrics that no model produced, and values that no model can reach."""
    notes = []
    if any(setting not in (GIVEN_SETTING, f"{ABLATED_PREFIX}100") for setting in inputs.settings):
        notes.append(
            "recall also counts pieces that the graphs lack (Table 5), so if pieces are left out no model reaches 1, not even the oracle"
        )
    if inputs.params.nli is None:
        notes.append(
            "a lexical rule computes alignment and [NA], since --nli names no cross-encoder (factmill models add cross-encoder --help)"
        )
    if not inputs.params.judge:
        notes.append("no text is rated for coherence, consistency, fluency and relevance: ratings need a judge model")
    return notes


def explain_biokalma_prediction(row: ScoredBiokalmaPrediction) -> Iterator[str]:
    """Yield an answer row's contents as readable lines."""
    yield f"  question    {row.question}   ({row.setting}, {row.form}; factmill explain biokalma {row.item})"
    about = ", ".join(f"{name} ({qid})" for qid, name in zip(row.people, row.names, strict=True))
    shown = ", ".join(f"{name} ({qid})" for qid, name in zip(row.retrieved, row.retrieved_names, strict=True))
    yield f"  about       {about}, joined by {row.relation}"
    yield f"  shown       {shown or '(nothing)'}: {len(row.given)} pieces"
    for piece in row.minimum:
        yield f"  needed      {piece.qid} {piece.property}: {piece.value}{'   (not shown)' if piece in row.removed else ''}"
    yield format_explain_answer_line(row.answer, row)
    if row.citations:
        yield f"  citations   each with the number of its sentence (checked by: {row.aligner})"
    for cited in row.citations:
        text = f"{cited.qid} {cited.property}: {cited.value}" if cited.kind == "triple" else cited.text
        yield f"              {cited.sentence + 1}. {text}   {format_citation_verdict(cited)}"
    rated = {name: getattr(row, name) for name in JUDGE_PROMPTS}
    if any(rated.values()):
        yield f"  ratings     {', '.join(f'{name} {value or chr(8211)}' for name, value in rated.items())} of 5   (by {row.judge})"
    yield from (f"  unrated     {each}" for each in row.unrated)
    yield from [f"  unscored    {row.unscored}: {row.detail}"] if row.unscored else []


def format_citation_verdict(cited: CheckedCitation) -> str:
    """Format a citation's verdict in a few words."""
    if cited.kind == "malformed":
        return f"malformed: {cited.why}"
    if cited.kind == "not_available":
        return "marks something missing" if cited.is_aligned else "marks nothing missing"
    verdict = "needed" if cited.is_needed else "in the graph" if cited.is_correct else "not in the graph"
    return verdict if cited.is_aligned else f"{verdict}, but its sentence says something else"


def list_biokalma_services(params: BiokalmaEvaluationParams) -> tuple[str, ...]:
    """Return the services needed: Wikidata where the setting `retrieved` is measured."""
    settings = params.setting or (SETTINGS if params.calls_tested_model else ())
    return ("wikidata",) if RETRIEVED_SETTING in settings else ()


BIOKALMA_EVALUATION: Evaluation = Evaluation(
    name="biokalma_evaluation",
    title="Measure a model on BioKaLMA: whether answers cite the right facts of a knowledge graph, and mark missing ones",
    examples=(
        "factmill evaluate biokalma --model oracle",
        "factmill evaluate biokalma --world my-world.toml --model mine --setting retrieved --form specific --limit 50",
        "factmill evaluate biokalma --answers answers.jsonl --scorer upstream",
    ),
    params=BiokalmaEvaluationParams,
    resolve_inputs=resolve_biokalma_evaluation_inputs,
    recipe="factmill.flows.evaluate.biokalma:evaluate_biokalma",
    tables={
        "biokalma_answers": ScoredBiokalmaPrediction,
        "biokalma_scores": AnswerScore,
        "evaluation_metrics": EvaluationMetric,
    },
    main_table="biokalma_answers",
    group_column="setting",
    display_columns={"id": "id", "question": "question", "answer": "answer", "retrieved_names": "shown"},
    explain=explain_biokalma_prediction,
    assets=BenchmarkAssetNames(
        prompts=(ANSWER_PROMPT, *JUDGE_PROMPTS.values()),
        lists=("function_words.txt", "person_properties.txt", "pool_left_out.txt", "relation_forms.csv"),
        queries=WIKIDATA_QUERIES,
    ),
    required_services=list_biokalma_services,
    benchmark=BIOKALMA,
    settings=SETTINGS,
    default_settings=tuple(SETTINGS),
    offline_settings=(GIVEN_SETTING,),
    headline_metrics=HEADLINE,
    main_metric=f"{MICRO}_{F1}",
    main_metric_meaning="Whether the model cites the knowledge that the answer needs: the harmonic mean of the share of its citations that "
    "are right and needed, and the share of the needed knowledge that it cites.",
    make_questions=list_questions_except_retrieved_setting,
    make_prompt=fill_biokalma_answer_prompt,
    inputs_model=BiokalmaEvaluationInputs,
    question_model=BiokalmaQuestion,
    prediction_model=BiokalmaPrediction,
    completion_format=CITED_TEXT_FORMAT,
    make_oracle=lambda _: lambda asked: make_oracle_answer_of_minimum_set(asked, _verbalise_with_loaded_wordings),
    make_guesser=make_biokalma_guesser,
    score_predictions=score_biokalma_predictions,
    compute_metrics=lambda answers, inputs: compute_biokalma_scores_and_metrics(answers, inputs.params),
    list_notes=list_score_limitation_notes,
    draw_figures=draw_biokalma_metric_figures,
    list_report_items=list_biokalma_report_items,
    paper_results=BIOKALMA_PAPER_FIGURES,
    label_scheme=JudgeVerdictLabelScheme(
        instruction="How good is the text in this respect, from 1 to 5?",
        classes={"1": "worst", "2": "poor", "3": "fair", "4": "good", "5": "best"},
        is_ordinal=True,
        list_judged_parts=list_answer_ratings,
        prompts=tuple(JUDGE_PROMPTS.values()),
    ),
)
