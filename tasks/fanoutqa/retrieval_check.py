"""The retrieval check: does one article alone answer a fan-out question? (FanOutQA, Appendix B).

Authors have not seen every article. So the check takes the titles nearest to a question by embedding, among all titles
of the wiki, and flags the question if one of these articles holds all of its sub-answers: it needs no fan-out.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from prefect import task

from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.rows import Reject, RowOutcome, StrictModel, make_arrow_table
from factmill.tasks.engine.batches import make_batch_cache_key, open_batch
from factmill.tasks.fanoutqa.core.flags import contains_all_substrings, list_required_word_prefixes
from factmill.tasks.fanoutqa.core.questions import dump_json, list_leaf_sub_questions
from factmill.tasks.fanoutqa.core.rows import FlaggedQuestion, QuestionFlag
from factmill.tasks.fanoutqa.params import TITLE_FILE, FanOutInputs
from factmill.tasks.lookups.pinned_articles import (
    MissingArticleReason,
    PinnedArticleRevision,
    index_article_text,
    load_article_texts,
    pin_article_revisions_by_title_at_epoch,
)
from factmill.tasks.models.title_index import find_nearest_titles, open_or_build_title_index
from factmill.tasks.text.text_normalization import fold_case_accents_and_punctuation
from factmill.tasks.text.values.answer_search import AnswerValue, find_answer_and_missing_parts, index_text
from factmill.tasks.world.data import load_world_article_titles

MIN_ANSWERS_TO_CHECK = 2
"""Different searchable sub-answers that a question needs: an article that holds a single one proves nothing."""


class SingleArticleCheckCountsOfQuestion(StrictModel):
    """What the retrieval check read for a question: the companion table of `flag_answers_in_one_near_article`."""

    id: str
    """Id of the question."""
    answers: int
    """Different sub-answers that a text search can find; articles are read if there are at least two."""
    read: int
    """Different articles that were read, as of the epoch."""
    not_to_be_had: int
    """Titles without an article or text at the epoch; they prove nothing."""


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def find_near_articles(batch: StageBatch) -> BatchReceipt:
    """Find the titles nearest to each question by embedding (Appendix B: 30)."""
    work = open_batch(batch)
    rows = work.rows(FlaggedQuestion)
    services, count = work.run.services, work.inputs(FanOutInputs).params.near
    embedder, titles = services.embedder(), work.source_files(TITLE_FILE)
    questions = embedder.encode([row.question for row in rows])
    if titles:
        index = open_or_build_title_index(titles[0].path, titles[0].sha256 or "", embedder, services.home)
        near = index.nearest(questions, count)
    else:
        # without a list of titles: those of all questions, and all of the embedded Wikipedia
        candidates = {title for row in rows for title in row.tree().articles}
        if services.world.wikipedia.url == "embedded":
            candidates.update(load_world_article_titles())
        near = find_nearest_titles(sorted(candidates), questions, count, embedder)
    return work.finish(
        (row.replace(near_articles=list(dict.fromkeys(found))) for row, found in zip(rows, near, strict=True)),
        FlaggedQuestion,
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def flag_answers_in_one_near_article(batch: StageBatch) -> BatchReceipt:
    """Flag questions whose sub-answers all stand in one nearby article (Appendix B)."""
    work = open_batch(batch)
    rows = work.rows(FlaggedQuestion)
    answers = {row.id: _list_searchable_sub_answers(row) for row in rows}
    to_check = [row for row in rows if len(answers[row.id]) >= MIN_ANSWERS_TO_CHECK]
    pinned = pin_article_revisions_by_title_at_epoch(
        work, ((row.id, title) for row in to_check for title in row.near_articles), work.inputs(FanOutInputs).epoch
    )
    articles = {
        row.id: {
            each.revid: each for title in row.near_articles if isinstance(each := pinned[title], PinnedArticleRevision)
        }
        for row in to_check
    }
    texts = load_article_texts(
        work, ((row_id, each.title, revid) for row_id, near in articles.items() for revid, each in near.items())
    )
    having_all = _find_revisions_with_all_answers(answers, articles, texts)
    outcomes: list[RowOutcome] = []
    counts: list[SingleArticleCheckCountsOfQuestion] = []
    for row in rows:
        near = articles.get(row.id, {})
        tried = [pinned.get(title) for title in row.near_articles] + [texts[revid] for revid in near]
        unread = [each for each in tried if isinstance(each, MissingArticleReason)]
        outage = next((each for each in unread if each.reason == "wikipedia_failed"), None)
        if outage:
            outcomes.append(Reject(row.id, outage.reason, outage.detail, outage.retryable))
            continue
        found = next((near[revid] for revid in near if revid in having_all[row.id]), None)
        count = len(answers[row.id])
        if found:
            where = f"the article {found.title} (revision {found.revid})"
            detail = f"{where} alone holds all {count} different sub-answers; expected no article to hold them all"
            flag = QuestionFlag(code="one_article_has_all", path="", detail=detail)
        outcomes.append(row.replace(flags=[*row.flags, flag]) if found else row)
        read = sum(isinstance(texts[revid], str) for revid in near)
        counts.append(
            SingleArticleCheckCountsOfQuestion(id=row.id, answers=count, read=read, not_to_be_had=len(unread))
        )
    work.extras = make_arrow_table(SingleArticleCheckCountsOfQuestion, counts)
    return work.finish(outcomes, FlaggedQuestion)


def _list_searchable_sub_answers(row: FlaggedQuestion) -> list[AnswerValue]:
    """Return the different answers of the leaves that a text search can find."""
    nothing = index_text("")
    different = {dump_json(sub.answer): sub.answer for _, sub in list_leaf_sub_questions(row.tree())}
    return [answer for answer in different.values() if find_answer_and_missing_parts(answer, nothing).found is not None]


def _find_revisions_with_all_answers(
    answers: Mapping[str, Sequence[AnswerValue]],
    articles: Mapping[str, Mapping[int, PinnedArticleRevision]],
    texts: Mapping[int, str | MissingArticleReason],
) -> dict[str, set[int]]:
    """Return row id → revisions whose text holds all of its answers. Texts are read once each, one at a time."""
    beginnings = {row_id: list_required_word_prefixes(of) for row_id, of in answers.items()}
    near_to: dict[int, list[str]] = defaultdict(list)
    for row_id, near in articles.items():
        for revid in near:
            near_to[revid].append(row_id)
    having_all: dict[str, set[int]] = defaultdict(set)
    for revid, row_ids in near_to.items():
        text = texts[revid]
        if isinstance(text, MissingArticleReason):
            continue
        folded = fold_case_accents_and_punctuation(text)
        likely = [row_id for row_id in row_ids if contains_all_substrings(beginnings[row_id], folded)]
        known = index_article_text(text) if likely else None
        for row_id in likely:
            if known and all(find_answer_and_missing_parts(answer, known).found for answer in answers[row_id]):
                having_all[row_id].add(revid)
    return having_all
