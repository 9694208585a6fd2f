"""Parameters, questions, prompts in each setting, and judging of an evaluation on FanOutQA (paper §3.2)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.evaluation.answers import CommonestAnswers
from factmill.tasks.core.evaluation.frame import frame, make_boundary
from factmill.tasks.core.evaluation.rows import COUNTED_WRONG
from factmill.tasks.core.prompts import Ask, fill_in
from factmill.tasks.core.rows import LONGEST_S, MOST, arrow_table, rows_from_arrow
from factmill.tasks.evaluation.answering import Judged, Judging
from factmill.tasks.evaluation.record import EvaluationInputs, JudgedParams, draw_clusters
from factmill.tasks.fanoutqa.core.evaluation.dialogue import (
    CHARACTERS,
    Bounds,
    Held,
    Tools,
    answer_alone,
    answer_from_articles,
    answer_with_searches,
)
from factmill.tasks.fanoutqa.core.evaluation.rows import (
    CLOSED_BOOK,
    EVIDENCE_PROVIDED,
    OPEN_BOOK,
    FanOutAnswer,
    FanOutAsked,
    FanOutEvidence,
    FanOutGold,
    JudgedFanOut,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.golds import name_kind, write_gold
from factmill.tasks.fanoutqa.core.evaluation.verdicts import VERDICT, grade_answer, read_grade
from factmill.tasks.options import Option

ALONE, TOOLS, TEXT, ARTICLES, JUDGE = (
    f"fanoutqa/{name}"
    for name in (
        "answer_closed_book",
        "answer_with_tools",
        "answer_with_searches",
        "answer_from_articles",
        "judge_answer",
    )
)
USUAL_CONTEXT = 8192
"""Tokens of a context, unless an option or the world's file sets them."""


class FanOutEvaluationParams(JudgedParams):
    """Options of an evaluation on FanOutQA."""

    setting: Annotated[
        tuple[Literal["closed_book", "open_book", "evidence_provided"], ...], Option("--setting", "NAME")
    ] = ()
    """Only this setting (repeatable). Default: all three, as in the paper."""
    split: Literal["dev", "test", "all"] = "all"
    """Only questions of this part. Questions without an answer in the build, as of a released test file, are not asked."""
    scorer: Literal["fixed", "upstream"] = "fixed"
    """Whose loose and strict accuracy comes first: ours, or that of the public scorer with its faults. Both are told where they differ."""
    lemmas: Annotated[str, Option(metavar="NAME")] = "auto"
    """What brings words to their dictionary form: a spaCy model, rules, or auto: an installed spaCy model, else rules."""
    bleurt: Annotated[str | None, Option(metavar="NAME")] = None
    """Also score answers by this cross-encoder of `factmill models list`, in the place of BLEURT."""
    tools: Tools = "auto"
    """Open book: how the model searches. By the chat protocol's tools (always), by lines of plain text (never), or by tools unless its server refuses them or the world's file says tools = false (auto)."""
    rounds: int = Field(default=16, ge=1, le=1000)
    """Open book: turns in which the model may search; then it is told to answer, once."""
    most_tokens: int | None = Field(default=None, ge=1, le=MOST)
    """Open book: tokens, read and written, that a question's turns may take together before the model is told to answer. Default: no bound but rounds."""
    most_seconds: float | None = Field(default=None, gt=0, le=LONGEST_S)
    """Open book: seconds in which the model may answer, all turns of a question together, before it is told to answer; recorded ones, so a replay ends at the same turn. Default: no bound."""
    context_tokens: int | None = Field(default=None, ge=1024, le=MOST)
    """Tokens that the model can be shown at once, its answer included; 4 characters count as one. Default: context_tokens of the world's file, else 8,192."""
    retrieval_share: Annotated[float, Option("--retrieval-share", "SHARE")] = Field(default=0.5, gt=0, le=1)
    """Open book: share of the context that one search may fill (paper: half)."""


class FanOutEvaluationInputs(EvaluationInputs):
    """Resolved inputs that the steps of FanOutQA's evaluation read."""

    params: FanOutEvaluationParams
    """Options, with the context and the search mode resolved from the world's file."""
    lemmatizer: str = ""
    """Name of the lemmatizer: rules, or a spaCy model with its version; empty: resolved at scoring time."""
    bleurt: dict[str, str] | None = None
    """Name and digest of the cross-encoder; None: no such score."""


def gather_questions(read: Callable[[str], pa.Table]) -> pa.Table:
    """Return a build's questions that have an answer, by id (rows of `FanOutGold`); `read`: table name → table.

    A release without hidden answers lacks the references, which give some away; the dev split also has its references
    in its decompositions.
    """
    golds = {
        each["id"]: each["answer"]
        for name in ("fanoutqa_dev", "fanoutqa_test_answers")
        for each in read(name).select(["id", "answer"]).to_pylist()
    }
    evidence: dict[str, dict[int, FanOutEvidence]] = {}
    for each in read("fanoutqa_references").to_pylist():
        if each["revid"] is not None:
            pinned = FanOutEvidence(title=each["title"] or each["title_asked"], revid=each["revid"])
            evidence.setdefault(each["question_id"], {}).setdefault(each["revid"], pinned)
    for each in read("fanoutqa_dev").select(["id", "decomposition"]).to_pylist():
        if each["id"] not in evidence:
            evidence[each["id"]] = {found.revid: found for found in _list_evidence(json.loads(each["decomposition"]))}
    categories = {
        each["id"]: each["categories"]
        for name in ("fanoutqa_dev", "fanoutqa_test")
        for each in read(name).select(["id", "categories"]).to_pylist()
    }
    rows = (
        FanOutGold.model_validate(
            {
                **each,
                "gold": golds[each["id"]],
                "kind": name_kind(json.loads(golds[each["id"]])),
                "categories": categories[each["id"]],
                "evidence": list(evidence.get(each["id"], {}).values()),
            }
        )
        for each in read("fanoutqa").select(["id", "question", "split", "articles", "epoch"]).to_pylist()
        if each["id"] in golds
    )
    return arrow_table(FanOutGold, rows)


def _list_evidence(sub_questions: Sequence[Mapping[str, Any]]) -> Iterator[FanOutEvidence]:
    """Yield the article of each sub-question of a decomposition, in order, with repeats."""
    for each in sub_questions:
        if each.get("evidence"):
            yield FanOutEvidence(title=each["evidence"]["title"], revid=each["evidence"]["revid"])
        yield from _list_evidence(each.get("decomposition") or ())


def list_questions(rows: pa.Table, inputs: FanOutEvaluationInputs) -> Iterator[FanOutAsked]:
    """Yield the drawn questions (rows of `FanOutGold`) in every setting."""
    wanted = inputs.params.split
    chosen = [row for row in rows_from_arrow(FanOutGold, rows) if wanted in ("all", row.split)]
    drawn = draw_clusters([row.id for row in chosen], inputs.params)
    for setting in inputs.settings:
        for row in chosen:
            if row.id in drawn:
                told = {"question_id": row.id, "item": row.id, "cluster": row.id, "setting": setting}
                yield FanOutAsked.model_validate({**row.model_dump(), **told, "id": f"{setting}/{row.id}"})


def fill_prompt(asked: FanOutAsked, _: object = None) -> Ask:
    """Return a setting's first prompt for a question; titles and revisions stand in for the texts of articles."""
    if asked.setting == EVIDENCE_PROVIDED:
        named = "\n".join(f"({each.title}, revision {each.revid} of Wikipedia)" for each in asked.evidence)
        return fill_in(load_prompt(ARTICLES), question=asked.question, articles=named)
    return fill_in(load_prompt(ALONE if asked.setting == CLOSED_BOOK else TEXT), question=asked.question)


def converse(asked: FanOutAsked, params: FanOutEvaluationParams) -> Held:
    """Return the dialogue that asks a question in its setting."""
    context = (params.context_tokens or USUAL_CONTEXT) * CHARACTERS
    bounds = Bounds(params.rounds, context, params.retrieval_share, params.most_tokens, params.most_seconds)
    if asked.setting == EVIDENCE_PROVIDED:
        prompt = load_prompt(ARTICLES)
        return answer_from_articles(
            asked, bounds, lambda shown: fill_in(prompt, question=asked.question, articles=shown)
        )
    if asked.setting == OPEN_BOOK:
        by_tools, in_text = (fill_in(load_prompt(each), question=asked.question) for each in (TOOLS, TEXT))
        way = params.tools
        return answer_with_searches(
            asked, bounds, None if way == "never" else by_tools, None if way == "always" else in_text
        )
    return answer_alone(fill_in(load_prompt(ALONE), question=asked.question))


def fill_judge_prompt(row: FanOutAnswer) -> Ask:
    """Return the judge's prompt for an answer, which stands inside a frame (Appendix F.3)."""
    return fill_in(
        load_prompt(JUDGE),
        question=row.question,
        gold=write_gold(json.loads(row.gold)),
        boundary=make_boundary(row.id, row.answer_read),
        answer=frame(row.id, row.answer_read),
    )


def grade_exactly(row: FanOutAnswer) -> str:
    """Return the grade by the program `exact`."""
    return grade_answer(row.answer_read, json.loads(row.gold))


def mark_answer(row: FanOutAnswer, judged: Judged[str] | None, judge: str) -> JudgedFanOut:
    """Return an answer with its grade; an empty answer or a refusal gets F without a judge (Appendix F.3)."""
    if judged is None:
        grade = "F" if row.unscored in COUNTED_WRONG else ""
        return row.extend(JudgedFanOut, grade=grade, judge=judge, judge_call="", judge_unscored="", judge_detail="")
    told = {"judge_unscored": judged.unscored, "judge_detail": judged.detail}
    return row.extend(JudgedFanOut, grade=judged.verdict or "", judge=judge, judge_call=judged.call, **told)


JUDGING: Judging[FanOutAnswer, str, JudgedFanOut] = Judging(
    fill=fill_judge_prompt,
    form=VERDICT,
    read=lambda _, texts: read_grade(texts[0]),
    compare=grade_exactly,
    mark=mark_answer,
    row=JudgedFanOut,
)
"""Prompt, form, reader and program for grading answers (Appendix F.3)."""


def say_gold(_: pa.Table) -> Callable[[FanOutAsked], str]:
    """Return the built-in oracle: a function that answers a question with its gold answer."""
    return lambda asked: write_gold(json.loads(asked.gold))


def guess_answers(rows: pa.Table) -> Callable[[FanOutAsked], str]:
    """Return the built-in guesser: it gives the commonest gold answer of the same kind among other questions.

    `rows`: rows of `FanOutGold`.
    """
    commonest = CommonestAnswers((row.kind, row.gold) for row in rows_from_arrow(FanOutGold, rows))

    def guess(asked: FanOutAsked) -> str:
        gold = commonest.guess(asked.kind, asked.gold)
        return write_gold(json.loads(gold)) if gold else ""

    return guess
