"""Parameters, questions, prompts in each setting, and judging of an evaluation on FanOutQA (paper §3.2)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.evaluation.answer_frame import enclose_answer_in_boundary_lines, make_answer_boundary
from factmill.tasks.core.evaluation.answers import CommonestAnswerGuesser
from factmill.tasks.core.evaluation.rows import REASONS_COUNTED_WRONG
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, MAX_WAIT_S, make_arrow_table, rows_from_arrow
from factmill.tasks.evaluation.answering_and_judging import AnswerJudgment, JudgingSpec
from factmill.tasks.evaluation.definition import EvaluationInputs, JudgedEvaluationParams, sample_question_clusters
from factmill.tasks.fanoutqa.core.evaluation.dialogue import (
    ROOM_CHARACTERS_PER_TOKEN,
    DialogueLimits,
    FanOutDialogue,
    ToolUse,
    answer_from_evidence,
    answer_in_closed_book,
    answer_with_searches,
)
from factmill.tasks.fanoutqa.core.evaluation.grades import (
    JUDGE_GRADE_FORM,
    choose_grade_letter_by_gold_strings,
    read_grade,
)
from factmill.tasks.fanoutqa.core.evaluation.rows import (
    CLOSED_BOOK,
    EVIDENCE_PROVIDED,
    OPEN_BOOK,
    FanOutEvaluationQuestion,
    FanOutGoldQuestion,
    FanOutJudgedPrediction,
    FanOutPinnedArticle,
    FanOutPrediction,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import (
    format_gold_answer,
    get_gold_dict_list_or_primitive,
)
from factmill.tasks.options import CliOption

CLOSED_BOOK_PROMPT, TOOL_SEARCH_PROMPT, TEXT_SEARCH_PROMPT, EVIDENCE_PROMPT, JUDGE_ANSWER_PROMPT = (
    f"fanoutqa/{name}"
    for name in (
        "answer_closed_book",
        "answer_with_tools",
        "answer_with_searches",
        "answer_from_articles",
        "judge_answer",
    )
)
DEFAULT_CONTEXT_TOKENS = 8192
"""Tokens of a context, unless an option or the world's file sets them."""


class FanOutEvaluationParams(JudgedEvaluationParams):
    """Options of an evaluation on FanOutQA."""

    setting: Annotated[
        tuple[Literal["closed_book", "open_book", "evidence_provided"], ...], CliOption(metavar="NAME")
    ] = ()
    """Only this setting (repeatable). Default: all three, as in the paper."""
    split: Literal["dev", "test", "all"] = "all"
    """Only questions of this split. Questions without an answer in the build are left out, such as those of a released test file."""
    scorer: Literal["fixed", "upstream"] = "fixed"
    """Which loose and strict accuracy comes first. fixed: ours. upstream: that of the paper's public scorer, with its faults. Reports show both if they differ."""
    lemmas: Annotated[str, CliOption(metavar="NAME")] = "auto"
    """How to lemmatise words: with a spaCy model (give its name), or with rules. auto: the default spaCy model if it is installed, else rules."""
    bleurt: Annotated[str | None, CliOption(metavar="NAME")] = None
    """Also score answers with this cross-encoder (see `factmill models`), as a replacement for BLEURT."""
    tools: ToolUse = "auto"
    """Open book: how the model searches. always: with tool calls of the chat protocol. never: with lines of plain text. auto: with tool calls, unless the server rejects them or the world's file has tools = false."""
    rounds: int = Field(default=16, ge=1, le=1000)
    """Open book: maximum number of turns with searches. Then the model gets one turn to answer."""
    most_tokens: int | None = Field(default=None, ge=1, le=MAX_SETTING_NUMBER)
    """Open book: maximum number of input and output tokens over all turns of a question. Then the model must answer. Default: only --rounds limits it."""
    most_seconds: float | None = Field(default=None, gt=0, le=MAX_WAIT_S)
    """Open book: maximum model time over all turns of a question, in seconds. Then the model must answer. A replay counts the recorded times, so it ends at the same turn. Default: no limit."""
    context_tokens: int | None = Field(default=None, ge=1024, le=MAX_SETTING_NUMBER)
    """Maximum number of tokens in the model's context, including its answer. 4 characters count as one token. Default: context_tokens of the world's file, else 8,192."""
    retrieval_share: Annotated[float, CliOption(metavar="SHARE")] = Field(default=0.5, gt=0, le=1)
    """Open book: maximum share of the context that one search may fill (paper: half)."""


class FanOutEvaluationInputs(EvaluationInputs):
    """Resolved inputs that the steps of FanOutQA's evaluation read."""

    params: FanOutEvaluationParams
    """Options, with the context and the search mode resolved from the world's file."""
    lemmatizer: str = ""
    """Name of the lemmatizer: rules, or a spaCy model with its version; empty: resolved at scoring time."""
    bleurt: dict[str, str] | None = None
    """Name and digest of the cross-encoder; None: no such score."""


def collect_gold_questions(read: Callable[[str], pa.Table]) -> pa.Table:
    """Return a build's questions that have an answer, by id (rows of `FanOutGoldQuestion`); `read`: table name → table.

    A release without hidden answers lacks the references, which give some away; the dev split also has its references
    in its decompositions.
    """

    def read_column(column: str, *tables: str) -> dict[str, Any]:
        rows = (row for table in tables for row in read(table).select(["id", column]).to_pylist())
        return {row["id"]: row[column] for row in rows}

    golds = read_column("answer", "fanoutqa_dev", "fanoutqa_test_answers")
    categories = read_column("categories", "fanoutqa_dev", "fanoutqa_test")
    evidence: dict[str, dict[int, FanOutPinnedArticle]] = {}
    for each in read("fanoutqa_references").to_pylist():
        if each["revid"] is not None:
            pinned = FanOutPinnedArticle(title=each["title"] or each["title_asked"], revid=each["revid"])
            evidence.setdefault(each["question_id"], {}).setdefault(each["revid"], pinned)
    for row_id, decomposition in read_column("decomposition", "fanoutqa_dev").items():
        evidence.setdefault(
            row_id, {found.revid: found for found in _list_decomposition_articles(json.loads(decomposition))}
        )
    rows = (
        FanOutGoldQuestion(
            **each,
            gold=golds[each["id"]],
            kind=get_gold_dict_list_or_primitive(json.loads(golds[each["id"]])),
            categories=categories[each["id"]],
            evidence=list(evidence.get(each["id"], {}).values()),
        )
        for each in read("fanoutqa").select(["id", "question", "split", "articles", "epoch"]).to_pylist()
        if each["id"] in golds
    )
    return make_arrow_table(FanOutGoldQuestion, rows)


def _list_decomposition_articles(sub_questions: Sequence[Mapping[str, Any]]) -> Iterator[FanOutPinnedArticle]:
    """Yield the article of each sub-question of a decomposition, in order, with repeats."""
    for each in sub_questions:
        if each.get("evidence"):
            yield FanOutPinnedArticle(title=each["evidence"]["title"], revid=each["evidence"]["revid"])
        yield from _list_decomposition_articles(each.get("decomposition") or ())


def list_fanoutqa_setting_questions(
    rows: pa.Table, inputs: FanOutEvaluationInputs
) -> Iterator[FanOutEvaluationQuestion]:
    """Yield the drawn questions (rows of `FanOutGoldQuestion`) in every setting."""
    wanted = inputs.params.split
    chosen = [row for row in rows_from_arrow(FanOutGoldQuestion, rows) if wanted in ("all", row.split)]
    drawn = sample_question_clusters([row.id for row in chosen], inputs.params)
    for setting in inputs.settings:
        for row in chosen:
            if row.id in drawn:
                fields = {"question_id": row.id, "item": row.id, "cluster": row.id, "setting": setting}
                yield FanOutEvaluationQuestion.model_validate(
                    {**row.model_dump(), **fields, "id": f"{setting}/{row.id}"}
                )


def fill_fanoutqa_question_prompt(asked: FanOutEvaluationQuestion, _: object = None) -> FilledPrompt:
    """Return a setting's first prompt for a question; titles and revisions stand in for the texts of articles."""
    if asked.setting == EVIDENCE_PROVIDED:
        named = "\n".join(f"({each.title}, revision {each.revid} of Wikipedia)" for each in asked.evidence)
        return fill_prompt_template(load_prompt(EVIDENCE_PROMPT), question=asked.question, articles=named)
    prompt = CLOSED_BOOK_PROMPT if asked.setting == CLOSED_BOOK else TEXT_SEARCH_PROMPT
    return fill_prompt_template(load_prompt(prompt), question=asked.question)


def make_fanoutqa_dialogue(asked: FanOutEvaluationQuestion, params: FanOutEvaluationParams) -> FanOutDialogue:
    """Return the dialogue that asks a question in its setting."""
    fill = partial(fill_prompt_template, question=asked.question)
    context = (params.context_tokens or DEFAULT_CONTEXT_TOKENS) * ROOM_CHARACTERS_PER_TOKEN
    bounds = DialogueLimits(params.rounds, context, params.retrieval_share, params.most_tokens, params.most_seconds)
    if asked.setting == EVIDENCE_PROVIDED:
        prompt = load_prompt(EVIDENCE_PROMPT)
        return answer_from_evidence(asked, bounds, lambda shown: fill(prompt, articles=shown))
    if asked.setting == OPEN_BOOK:
        by_tools = None if params.tools == "never" else fill(load_prompt(TOOL_SEARCH_PROMPT))
        in_text = None if params.tools == "always" else fill(load_prompt(TEXT_SEARCH_PROMPT))
        return answer_with_searches(asked, bounds, by_tools, in_text)
    return answer_in_closed_book(fill(load_prompt(CLOSED_BOOK_PROMPT)))


def fill_fanoutqa_judge_prompt(row: FanOutPrediction) -> FilledPrompt:
    """Return the judge's prompt for an answer, which stands inside a frame (Appendix F.3)."""
    return fill_prompt_template(
        load_prompt(JUDGE_ANSWER_PROMPT),
        question=row.question,
        gold=format_gold_answer(json.loads(row.gold)),
        boundary=make_answer_boundary(row.id, row.answer_read),
        answer=enclose_answer_in_boundary_lines(row.id, row.answer_read),
    )


def add_judge_grade(row: FanOutPrediction, judged: AnswerJudgment[str] | None, judge: str) -> FanOutJudgedPrediction:
    """Return an answer with its grade; an empty answer or a refusal gets F without a judge (Appendix F.3)."""
    fields = {"judge_call": "", "judge_unscored": "", "judge_detail": ""}
    grade = "F" if row.unscored in REASONS_COUNTED_WRONG else ""
    if judged:
        fields = {"judge_call": judged.call, "judge_unscored": judged.unscored, "judge_detail": judged.detail}
        grade = judged.verdict or ""
    return row.extend_to(FanOutJudgedPrediction, grade=grade, judge=judge, **fields)


FANOUTQA_JUDGING: JudgingSpec[FanOutPrediction, str, FanOutJudgedPrediction] = JudgingSpec(
    make_prompt=fill_fanoutqa_judge_prompt,
    completion_format=JUDGE_GRADE_FORM,
    parse_verdict=lambda _, texts: read_grade(texts[0]),
    judge_exactly=lambda row: choose_grade_letter_by_gold_strings(row.answer_read, json.loads(row.gold)),
    make_judged_row=add_judge_grade,
    row_model=FanOutJudgedPrediction,
)
"""Prompt, form, reader and program for grading answers (Appendix F.3)."""


def make_fanoutqa_guesser(rows: pa.Table) -> Callable[[FanOutEvaluationQuestion], str]:
    """Return the built-in guesser: it gives the commonest gold answer of the same kind among other questions.

    `rows`: rows of `FanOutGoldQuestion`.
    """
    commonest = CommonestAnswerGuesser((row.kind, row.gold) for row in rows_from_arrow(FanOutGoldQuestion, rows))

    def guess(asked: FanOutEvaluationQuestion) -> str:
        gold = commonest.guess(asked.kind, asked.gold)
        return format_gold_answer(json.loads(gold)) if gold else ""

    return guess
