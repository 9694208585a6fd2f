"""Steps in which models write, check and classify questions (SLAQ, paper §3.2, Appendix A.1, Table A.4)."""

import re
from collections.abc import Sequence
from dataclasses import replace

from prefect import task

from factmill.tasks.assets import load_list, load_prompt
from factmill.tasks.core.prompts import fill_in
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import Unreadable
from factmill.tasks.core.review import AutoRules, Editable, ReviewItem, flag_row
from factmill.tasks.core.rows import Outcome, Reject
from factmill.tasks.engine.batches import Answered, batch_key, review_rows, work_on
from factmill.tasks.slaq.core.checks import check_all, format_problems, mend_pairs
from factmill.tasks.slaq.core.known_text import read_lists
from factmill.tasks.slaq.core.replies import (
    CHECK_LINES,
    FACT_TYPE_LINE,
    PAIRS,
    PAIRS_OBJECT,
    Generated,
    read_check,
    read_fact_type,
    read_generated,
)
from factmill.tasks.slaq.core.rows import CheckedTopic, ChosenTopic, QuestionedTopic, SlaqRow
from factmill.tasks.slaq.params import SlaqInputs

GENERATE, CHECK, FACT_TYPE = "slaq/generate", "slaq/check", "slaq/fact_type"
FLAG = "second_model"
"""Flag of the second model: a question cannot be understood alone, or the article does not give its answer."""
AUTO_RULES: AutoRules = {FLAG: "drop"}
"""The policy `auto` drops a topic with a flagged pair."""
EDITABLE: Editable = {
    **{f"Short{part[0].upper()}{at + 1}": (part, at) for part in ("questions", "answers") for at in range(PAIRS)},
    "LongQ": "long_question",
    "LongA": "long_answer",
}
"""Column that a reviewer may replace → field of the row, with the index in a list."""
_FAILED_CHECK = re.compile(r"([a-z_]+): (?:pair [1-5]|long): ")
"""Matches formatted problems: the code of the first one, then all of them."""


@task(cache_key_fn=batch_key, persist_result=True)
def write_questions(batch: Batch) -> Receipt:
    """Have the author model write five short pairs and a long one for each article; retry a failed check once (A.1)."""
    work = work_on(batch)
    prompt = load_prompt(GENERATE)
    lists = read_lists(load_list("source_phrases"), load_list("one_of_many"), load_list("function_words"))
    asked = [(row.id, row, fill_in(prompt, topic=row.title, article=row.text)) for row in work.rows(ChosenTopic)]

    firsts: dict[str, tuple[Generated, set[int]]] = {}
    """Row id → its first reply, and the numbers of the faulty pairs (0: the long one)."""

    def read(row: ChosenTopic, texts: Sequence[str]) -> Generated | Unreadable:
        generated = read_generated(texts[0])
        if isinstance(generated, Unreadable):
            return generated
        problems = check_all(generated, row.title, row.text, lists)
        if problems and row.id in firsts:
            # pairs that passed the first time replace those of the second attempt
            mended = mend_pairs(*firsts[row.id], generated)
            if not check_all(mended, row.title, row.text, lists):
                return mended
        faulty = {problem.which for problem in problems}
        firsts.setdefault(row.id, (generated, faulty))
        rest = "; repeat the pairs that are not named here as they are" if len(faulty - {0}) < PAIRS else ""
        return Unreadable(f"{problems[0].code}: {format_problems(problems)}{rest}") if problems else generated

    return work.finish(
        (_question(row, answer) for row, answer in work.ask("author", asked, PAIRS_OBJECT, read)), QuestionedTopic
    )


def _question(row: ChosenTopic, answer: Answered[Generated]) -> Outcome:
    if isinstance(answer.read, Reject):
        # the funnel counts rejects by the check that failed
        failed = _FAILED_CHECK.match(answer.read.detail)
        return replace(answer.read, reason=failed[1]) if failed else answer.read
    return row.extend(
        QuestionedTopic,
        questions=[pair.question for pair in answer.read.short],
        answers=[pair.answer for pair in answer.read.short],
        long_question=answer.read.long_question,
        long_answer=answer.read.long_answer,
        author=answer.model,
        author_call=answer.key,
    )


@task(cache_key_fn=batch_key, persist_result=True)
def check_questions(batch: Batch) -> Receipt:
    """Have a second model check phrasing and grounding; put what it flags into the review queue (§3.2)."""
    work = work_on(batch)
    rows = work.rows(QuestionedTopic)
    prompt = load_prompt(CHECK)
    asked = [
        (row.id, row, fill_in(prompt, topic=row.title, article=row.text, pairs=_format_pairs(row))) for row in rows
    ]
    checked: list[CheckedTopic] = []
    outcomes: list[Outcome] = []
    items: list[ReviewItem] = []
    for row, answer in work.ask("judge", asked, CHECK_LINES, lambda _, texts: read_check(texts[0])):
        if isinstance(answer.read, Reject):
            outcomes.append(answer.read)
            continue
        flags = [f"ShortQ{number}: {said}" for number, said in enumerate(answer.read, 1) if said is not None]
        items += [flag_row("slaq", row.id, FLAG, flag, _format_context(row)) for flag in flags]
        checked.append(row.extend(CheckedTopic, judge=answer.model, judge_call=answer.key, flags=flags, reviewed_by=[]))
    outcomes += review_rows(work, checked, items, work.inputs(SlaqInputs).reviewing, AUTO_RULES, EDITABLE)
    return work.finish(outcomes, CheckedTopic)


def _format_pairs(row: QuestionedTopic) -> str:
    pairs = zip(row.questions, row.answers, strict=True)
    return "\n".join(f"{number}. {question} — {answer}" for number, (question, answer) in enumerate(pairs, 1))


def _format_context(row: QuestionedTopic) -> str:
    return f"{row.title} ({row.url}, revision {row.revid})\n{_format_pairs(row)}\nLong: {row.long_question}\n{row.long_answer}"


@task(cache_key_fn=batch_key, persist_result=True)
def balance_halves(batch: Batch) -> Receipt:
    """Keep equally many most and least viewed topics of each category, those with the most extreme views (§3.2)."""
    work = work_on(batch)
    rows = work.rows(CheckedTopic)
    per_half = work.inputs(SlaqInputs).params.per_half
    outcomes: list[Outcome] = []
    for category in dict.fromkeys(row.category for row in rows):
        mine = [row for row in rows if row.category == category]
        most = sorted((row for row in mine if row.half == "most"), key=lambda row: (-(row.views or 0), row.pageid))
        least = sorted((row for row in mine if row.half == "least"), key=lambda row: (row.views or 0, -row.pageid))
        kept = min(len(most), len(least), per_half)
        outcomes += [*most[:kept], *least[:kept]]
        for row in (*most[kept:], *least[kept:]):
            reason = "half_is_full" if kept == per_half else "other_half_is_short"
            outcomes.append(
                Reject(row.id, reason, f"{category}: {len(most)} most and {len(least)} least viewed topics")
            )
    return work.finish(outcomes, CheckedTopic)


@task(cache_key_fn=batch_key, persist_result=True)
def type_facts(batch: Batch) -> Receipt:
    """Classify each short answer as an OntoNotes entity type, or none (§3.2, Figure 6)."""
    work = work_on(batch)
    rows = work.rows(CheckedTopic)
    prompt = load_prompt(FACT_TYPE)
    asked = [
        (row.id, row, fill_in(prompt, question=question, answer=answer))
        for row in rows
        for question, answer in zip(row.questions, row.answers, strict=True)
    ]
    answers = [
        answer for _, answer in work.ask("judge", asked, FACT_TYPE_LINE, lambda _, texts: read_fact_type(texts[0]))
    ]
    licence = work.inputs(SlaqInputs).licence
    return work.finish(
        (_publish(row, answers[at * PAIRS : (at + 1) * PAIRS], licence) for at, row in enumerate(rows)), SlaqRow
    )


def _publish(row: CheckedTopic, answers: Sequence[Answered[str]], licence: str) -> Outcome:
    if failed := next((answer.read for answer in answers if isinstance(answer.read, Reject)), None):
        return failed
    types = [answer.read for answer in answers]
    columns: dict[str, object] = {}
    for number, (question, answer, kind) in enumerate(zip(row.questions, row.answers, types, strict=True), 1):
        columns |= {f"ShortQ{number}": question, f"ShortA{number}": answer}
        columns[f"ShortQ{number}_Entity"] = int(kind != "none")
    return row.narrow(
        SlaqRow,
        **columns,
        Category=row.category,
        Topic=row.title,
        URL=row.url,
        LongQ=row.long_question,
        LongA=row.long_answer,
        Pageviews=row.views or 0,
        fact_types=types,
        fact_types_by=answers[0].model,
        licence=licence,
    )
