"""Steps in which models write, check and classify questions (SLAQ, paper §3.2, Appendix A.1, Table A.4)."""

import re
from collections.abc import Sequence
from dataclasses import replace

from prefect import task

from factmill.tasks.assets import load_list_entries, load_prompt
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.core.prompts import fill_prompt_template
from factmill.tasks.core.review import AutoReviewRules, EditableTexts, ReviewItem, make_review_item
from factmill.tasks.core.rows import Reject, RowOutcome
from factmill.tasks.engine.batches import (
    ParsedCompletion,
    apply_and_store_review_decisions,
    make_batch_cache_key,
    open_batch,
)
from factmill.tasks.slaq.core.article_matching import make_question_check_word_lists
from factmill.tasks.slaq.core.checks import check_generated_pairs, format_problems, restore_sound_pairs
from factmill.tasks.slaq.core.pair_replies import (
    CHECK_LINES_FORM,
    FACT_TYPE_FORM,
    PAIRS_FORM,
    PAIRS_PER_TOPIC,
    GeneratedQuestionAnswerPairs,
    read_fact_type,
    read_fault_per_question_answer_pair,
    read_generated_question_answer_pairs,
)
from factmill.tasks.slaq.core.rows import CheckedTopic, QuestionedTopic, SlaqTopicRow, TopicInPopularityHalf
from factmill.tasks.slaq.core.topic_sampling import make_equal_views_tie_break_key
from factmill.tasks.slaq.params import SlaqInputs

GENERATE_PAIRS_PROMPT, CHECK_PAIRS_PROMPT, FACT_TYPE_PROMPT = "slaq/generate", "slaq/check", "slaq/fact_type"
SECOND_MODEL_FLAG = "second_model"
"""Flag of the second model: a question cannot be understood alone, or the article does not give its answer."""
SLAQ_AUTO_RULES: AutoReviewRules = {SECOND_MODEL_FLAG: "drop"}
"""The policy `auto` drops a topic with a flagged pair."""
EDITABLE_SLAQ_TEXTS: EditableTexts = {
    **{
        f"Short{part[0].upper()}{at + 1}": (part, at)
        for part in ("questions", "answers")
        for at in range(PAIRS_PER_TOPIC)
    },
    "LongQ": "long_question",
    "LongA": "long_answer",
}
"""Column that a reviewer may replace → field of the row, with the index in a list."""
_FAILED_CHECK = re.compile(r"([a-z_]+): (?:pair [1-5]|long): ")
"""Matches formatted problems: the code of the first one, then all of them."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def write_questions(batch: StageBatch) -> BatchReceipt:
    """Have the author model write five short pairs and a long one for each article; retry a failed check once (A.1)."""
    work = open_batch(batch)
    prompt = load_prompt(GENERATE_PAIRS_PROMPT)
    lists = make_question_check_word_lists(
        load_list_entries("source_phrases"), load_list_entries("one_of_many"), load_list_entries("function_words")
    )
    asked = [
        (row.id, row, fill_prompt_template(prompt, topic=row.title, article=row.text))
        for row in work.rows(TopicInPopularityHalf)
    ]

    firsts: dict[str, tuple[GeneratedQuestionAnswerPairs, set[int]]] = {}
    """Row id → its first reply, and the numbers of the faulty pairs (0: the long one)."""

    def read(row: TopicInPopularityHalf, texts: Sequence[str]) -> GeneratedQuestionAnswerPairs | UnreadableCompletion:
        generated = read_generated_question_answer_pairs(texts[0])
        if isinstance(generated, UnreadableCompletion):
            return generated
        problems = check_generated_pairs(generated, row.title, row.text, lists)
        if problems and row.id in firsts:
            # pairs that passed the first time replace those of the second attempt
            mended = restore_sound_pairs(*firsts[row.id], generated)
            if not check_generated_pairs(mended, row.title, row.text, lists):
                return mended
        faulty = {problem.pair_number for problem in problems}
        firsts.setdefault(row.id, (generated, faulty))
        rest = "; repeat the pairs that are not named here as they are" if len(faulty - {0}) < PAIRS_PER_TOPIC else ""
        return UnreadableCompletion(f"{problems[0].code}: {format_problems(problems)}{rest}") if problems else generated

    return work.finish(
        (_make_questioned_topic(row, answer) for row, answer in work.prompt_model("author", asked, PAIRS_FORM, read)),
        QuestionedTopic,
    )


def _make_questioned_topic(
    row: TopicInPopularityHalf, answer: ParsedCompletion[GeneratedQuestionAnswerPairs]
) -> RowOutcome:
    if isinstance(answer.parsed, Reject):
        # the funnel counts rejects by the check that failed
        failed = _FAILED_CHECK.match(answer.parsed.detail)
        return replace(answer.parsed, reason=failed[1]) if failed else answer.parsed
    return row.extend_to(
        QuestionedTopic,
        questions=[pair.question for pair in answer.parsed.short],
        answers=[pair.answer for pair in answer.parsed.short],
        long_question=answer.parsed.long_question,
        long_answer=answer.parsed.long_answer,
        author=answer.model,
        author_call=answer.key,
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def check_questions(batch: StageBatch) -> BatchReceipt:
    """Have a second model check phrasing and grounding; put what it flags into the review queue (§3.2)."""
    work = open_batch(batch)
    rows = work.rows(QuestionedTopic)
    prompt = load_prompt(CHECK_PAIRS_PROMPT)
    asked = [
        (
            row.id,
            row,
            fill_prompt_template(prompt, topic=row.title, article=row.text, pairs=_format_question_answer_lines(row)),
        )
        for row in rows
    ]
    checked: list[CheckedTopic] = []
    outcomes: list[RowOutcome] = []
    items: list[ReviewItem] = []
    for row, answer in work.prompt_model(
        "judge", asked, CHECK_LINES_FORM, lambda _, texts: read_fault_per_question_answer_pair(texts[0])
    ):
        if isinstance(answer.parsed, Reject):
            outcomes.append(answer.parsed)
            continue
        flags = [f"ShortQ{number}: {problem}" for number, problem in enumerate(answer.parsed, 1) if problem is not None]
        shown = f"{row.title} ({row.url}, revision {row.revid})\n{_format_question_answer_lines(row)}\nLong: {row.long_question}\n{row.long_answer}"
        items += [make_review_item("slaq", row.id, SECOND_MODEL_FLAG, flag, shown) for flag in flags]
        judged = {"judge": answer.model, "judge_call": answer.key, "flags": flags, "reviewed_by": []}
        checked.append(row.extend_to(CheckedTopic, **judged))
    outcomes += apply_and_store_review_decisions(
        work, checked, items, work.inputs(SlaqInputs).reviewing, SLAQ_AUTO_RULES, EDITABLE_SLAQ_TEXTS
    )
    return work.finish(outcomes, CheckedTopic)


def _format_question_answer_lines(row: QuestionedTopic) -> str:
    pairs = zip(row.questions, row.answers, strict=True)
    return "\n".join(f"{number}. {question} — {answer}" for number, (question, answer) in enumerate(pairs, 1))


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def balance_halves(batch: StageBatch) -> BatchReceipt:
    """Keep equally many most and least viewed topics of each category, those with the most extreme views (§3.2)."""
    work = open_batch(batch)
    rows = work.rows(CheckedTopic)
    per_half = work.inputs(SlaqInputs).params.per_half
    outcomes: list[RowOutcome] = []
    for category in dict.fromkeys(row.category for row in rows):
        category_rows = [row for row in rows if row.category == category]
        category_rows.sort(key=lambda row: (-(row.views or 0), *make_equal_views_tie_break_key(row)))
        most = [row for row in category_rows if row.half == "most"]
        least = [row for row in reversed(category_rows) if row.half == "least"]
        kept = min(len(most), len(least), per_half)
        outcomes += [*most[:kept], *least[:kept]]
        for row in (*most[kept:], *least[kept:]):
            reason = "half_is_full" if kept == per_half else "other_half_is_short"
            detail = f"{category}: {len(most)} most and {len(least)} least viewed topics"
            outcomes.append(Reject(row.id, reason, detail))
    return work.finish(outcomes, CheckedTopic)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def classify_fact_answers(batch: StageBatch) -> BatchReceipt:
    """Classify each short answer as an OntoNotes entity type, or none (§3.2, Figure 6)."""
    work = open_batch(batch)
    rows = work.rows(CheckedTopic)
    prompt = load_prompt(FACT_TYPE_PROMPT)
    asked = [
        (row.id, row, fill_prompt_template(prompt, question=question, answer=answer))
        for row in rows
        for question, answer in zip(row.questions, row.answers, strict=True)
    ]
    answers: dict[str, list[ParsedCompletion[str]]] = {row.id: [] for row in rows}
    for row, answer in work.prompt_model("judge", asked, FACT_TYPE_FORM, lambda _, texts: read_fact_type(texts[0])):
        answers[row.id].append(answer)
    licence = work.inputs(SlaqInputs).licence
    return work.finish((_make_slaq_row(row, answers[row.id], licence) for row in rows), SlaqTopicRow)


def _make_slaq_row(row: CheckedTopic, fact_type_replies: Sequence[ParsedCompletion[str]], licence: str) -> RowOutcome:
    if failed := next((answer.parsed for answer in fact_type_replies if isinstance(answer.parsed, Reject)), None):
        return failed
    types = [answer.parsed for answer in fact_type_replies]
    columns: dict[str, object] = {}
    for number, (question, answer, kind) in enumerate(zip(row.questions, row.answers, types, strict=True), 1):
        columns |= {f"ShortQ{number}": question, f"ShortA{number}": answer}
        columns[f"ShortQ{number}_Entity"] = int(kind != "none")
    return row.narrow_to(
        SlaqTopicRow,
        **columns,
        Category=row.category,
        Topic=row.title,
        URL=row.url,
        LongQ=row.long_question,
        LongA=row.long_answer,
        Pageviews=row.views or 0,
        fact_types=types,
        fact_types_by=fact_type_replies[0].model,
        licence=licence,
    )
