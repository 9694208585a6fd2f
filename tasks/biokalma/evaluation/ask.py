"""What an evaluation on BioKaLMA asks: both questions of a row with the knowledge of its setting, and what rates the texts (paper §3.3, §4.1)."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Annotated, Literal

import pyarrow as pa

from tasks.assets import load_prompt
from tasks.biokalma.core.evaluation.built_in import Guesser, say_right
from tasks.biokalma.core.evaluation.geval import RATED
from tasks.biokalma.core.evaluation.rows import BioAnswer, BioAsked, Form
from tasks.biokalma.core.evaluation.settings import (
    FORMS,
    GIVEN,
    RETRIEVED,
    Measured,
    ask_row,
)
from tasks.biokalma.core.knowledge_sentences import verbalise_piece
from tasks.biokalma.core.rows import BiographyRow
from tasks.biokalma.sources.lists import load_relation_forms
from tasks.core.authoring.citations import format_knowledge
from tasks.core.authoring.pieces import Piece
from tasks.core.calls.knowledge import HUMAN
from tasks.core.evaluation.frame import frame, make_boundary
from tasks.core.prompts import Ask, fill_in
from tasks.core.rows import rows_from_arrow
from tasks.errors import UsageError
from tasks.evaluation.record import EvaluationInputs, JudgedParams, draw_clusters
from tasks.options import Option

ANSWER = "biokalma/answer"
JUDGES = {criterion: f"biokalma/judge_{criterion}" for criterion in RATED}
"""What a judge rates (§4.1) → the prompt."""
RATED_SETTINGS = (GIVEN, RETRIEVED)
"""Settings whose texts are rated, as in Tables 4 and 7."""
Setting = Literal[
    "given_graph", "retrieved", "removed_1", "removed_2", "removed_3",
    "ablated_100", "ablated_80", "ablated_60", "ablated_40", "ablated_20",
]  # fmt: skip


class BiokalmaEvaluationParams(JudgedParams):
    """What an evaluation on BioKaLMA can be told."""

    setting: Annotated[tuple[Setting, ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable). Default: all, as the paper reports them; for built-in models those without wrong graphs, for answers of a file given_graph."""
    form: Annotated[tuple[Form, ...], Option("--form")] = ()
    """Only this question of each row (repeatable). Default: both; the paper's main figures are of the specific one."""
    judge: Annotated[str, Option(metavar="NAME")] = "judge"
    """The model of the world's file that rates texts, [models.NAME], in the settings given_graph and retrieved: four calls an answer. Where it is no model, or exact, no text is rated: a program cannot."""
    nli: Annotated[str | None, Option(metavar="NAME")] = None
    """The cross-encoder of `factmill models list` that says whether a sentence bears out its citation. Default: a lexical rule, which is named in the report."""
    scorer: Literal["fixed", "upstream"] = "fixed"
    """fixed: citations count as the paper defines it; upstream: as its public script counts them."""


class BiokalmaEvaluationInputs(EvaluationInputs):
    """What the steps of BioKaLMA's evaluation read."""

    params: BiokalmaEvaluationParams
    class_qid: str = HUMAN
    """Class of the measured build's items; what the names of questions stand for is of it."""
    nli: dict[str, str] | None = None
    """Name and digest of the model of entailment; None: the lexical rule."""


def list_questions(rows: pa.Table, inputs: BiokalmaEvaluationInputs) -> Iterator[BioAsked]:
    """Yield both questions of every row in every setting; those of `retrieved` are shown nothing yet (retrieve.py)."""
    measured = Measured(rows_from_arrow(BiographyRow, rows))
    drawn = draw_clusters([row.id for row in measured.rows], inputs.params)
    for setting in inputs.settings:
        for row in measured.rows:
            if row.id in drawn:
                yield from ask_row(row, setting, measured.show(row, setting), inputs.params.form or FORMS)


def list_shown_questions(rows: pa.Table, inputs: BiokalmaEvaluationInputs) -> Iterator[BioAsked]:
    """Yield the questions whose knowledge needs no look-up: all but those of `retrieved`; UsageError where that is all."""
    settings = tuple(each for each in inputs.settings if each != RETRIEVED)
    if not settings:
        raise UsageError(
            f"--setting {RETRIEVED}: what it shows is looked up while a model is asked, with --model; expected another "
            f"setting, like {GIVEN}"
        )
    return list_questions(rows, inputs.model_copy(update={"settings": settings}))


def fill_prompt(asked: BioAsked, _: object = None) -> Ask:
    """Return a question with its knowledge as the prompt (§3.3, Table 13)."""
    return fill_in(load_prompt(ANSWER), knowledge=tell_knowledge(asked), question=asked.question)


def tell_knowledge(asked: BioAsked) -> str:
    """Return the graphs shown, a line each, in the order shown."""
    names = dict(zip(asked.retrieved, asked.retrieved_names, strict=True))
    return "\n".join(
        format_knowledge(names[qid], list(pieces)) for qid, pieces in groupby(asked.given, lambda piece: piece.qid)
    )


def fill_judge_prompt(row: BioAnswer, criterion: str) -> Ask:
    """Return an answer, inside its frame, as the judge's prompt for a criterion (Tables 14 to 17)."""
    boundary, framed = make_boundary(row.id, row.answer_read), frame(row.id, row.answer_read)
    knowledge = {"knowledge": tell_knowledge(row)} if criterion == "consistency" else {}
    prompt = load_prompt(JUDGES[criterion])
    return fill_in(prompt, 1, question=row.question, boundary=boundary, answer=framed, **knowledge)


def answer_rightly(_: pa.Table) -> Callable[[BioAsked], str]:
    """Return what the oracle says to a question."""
    return lambda asked: say_right(asked, _tell)


def guess_answers(rows: pa.Table) -> Callable[[BioAsked], str]:
    """Return what the guesser says to a question of these rows of the measured build."""
    guesser = Guesser(rows_from_arrow(BiographyRow, rows))
    return lambda asked: guesser.say(asked, _tell)


def _tell(piece: Piece, name: str) -> str:
    return verbalise_piece(piece, name, load_relation_forms())
