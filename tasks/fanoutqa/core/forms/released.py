"""The form in which FanOutQA is released: check and parse it.

The dev split has {id, question, decomposition, answer, categories}, each sub-question {id, question, decomposition,
answer, depends_on, evidence} and each article {pageid, revid, title, url}. The test split holds answers back:
{id, question, necessary_evidence, categories}. If the files of 2026 could not resolve an article, its page or
revision reads ###TBD###. Violations carry paths in the file: decomposition[1].decomposition[0].

Released questions need not meet the rules for authors: an article may be any page of the English Wikipedia that has a
history, `title` names it, and anything after the path of its address, such as a bare question mark, is ignored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from factmill.tasks.fanoutqa.core.forms.checks import (
    MAX_SUB_QUESTION_LEVELS,
    FormViolation,
    check_answer,
    check_categories,
    check_dependencies,
    check_id,
    check_page_and_revision_ids,
    check_question_text,
    check_repeated_sub_question_ids,
    check_sub_question_list,
    check_unknown_keys,
    enumerate_sub_questions,
    is_nonblank_utf8_text,
    make_mismatch_violation,
    make_violation,
    sort_violations_by_path,
)
from factmill.tasks.fanoutqa.core.questions import (
    UNRESOLVED_MARK,
    FanOutQuestion,
    list_article_references,
    parse_released_decomposition,
    parse_released_evidence,
)
from factmill.tasks.text.wikipedia_urls import find_english_wikipedia_url_problem, find_page_title_problem

_DEV_KEYS = ("id", "question", "decomposition", "answer", "categories")
_TEST_KEYS = ("id", "question", "necessary_evidence", "categories")
_SUB_KEYS = ("id", "question", "decomposition", "answer", "depends_on", "evidence")
_RELEASED_LISTS = ("decomposition",)
_ARTICLE_KEYS = ("pageid", "revid", "title", "url")


@dataclass(frozen=True, slots=True)
class UnresolvedArticle:
    """An article whose page or revision is still unknown."""

    question_id: str
    path: str
    """Path of the sub-question, such as decomposition[1]; necessary_evidence[i] in the test split."""
    title: str
    url: str


def list_unresolved_articles(question: FanOutQuestion) -> list[UnresolvedArticle]:
    """Return the references of a question whose page or revision is unknown, in order."""
    return [
        UnresolvedArticle(question.id, path, each.title, each.url)
        for path, _, each in list_article_references(question)
        if each.pageid is None or each.revid is None
    ]


def check_released_question(found: object) -> list[FormViolation]:
    """Return all violations of the released form; if there are none, `parse_released_question` can parse the question."""
    if not isinstance(found, Mapping):
        return [make_mismatch_violation("", "no_object", "an object with id, question and categories", found)]
    return sort_violations_by_path(
        [*_check_top_level_question(found), *check_repeated_sub_question_ids(found, _RELEASED_LISTS)]
    )


def parse_released_question(found: Mapping[str, Any]) -> FanOutQuestion:
    """Read a question that `check_released_question` passes."""
    evidence = [parse_released_evidence(each) for each in found.get("necessary_evidence", ())]
    return FanOutQuestion(
        id=found["id"],
        question=found["question"],
        decomposition=parse_released_decomposition(found.get("decomposition", ())),
        answer=found.get("answer"),
        categories=tuple(found.get("categories", ())),
        necessary_evidence=tuple(each for each in evidence if each),
        is_released=True,
    )


def _check_top_level_question(found: Mapping[Any, Any]) -> Iterator[FormViolation]:
    is_dev = "decomposition" in found
    yield from check_unknown_keys(found, _DEV_KEYS if is_dev else _TEST_KEYS, "")
    yield from check_id(found, "")
    yield from check_question_text(found, "")
    yield from check_categories(found)
    if "categories" not in found:
        yield make_violation("", "categories_missing")
    if is_dev:
        yield from check_answer(found, "", may_be_empty=False)
        yield from _check_decomposition(found, "", 0)
        if found["decomposition"] == []:
            yield make_violation("", "empty_list", "decomposition is an empty list; expected at least one sub-question")
        return
    articles = found.get("necessary_evidence")
    if not isinstance(articles, list) or not articles:
        yield make_mismatch_violation("", "no_list", "a list of articles as necessary_evidence", articles)
        return
    for at, each in enumerate(articles):
        yield from _check_released_article(each, f"necessary_evidence[{at}]", "")


def _check_decomposition(found: Mapping[Any, Any], path: str, level: int) -> Iterator[FormViolation]:
    wanted = "an object with id and question"
    yield from check_sub_question_list(found, "decomposition", path, level, _check_sub_question, wanted)
    if level < MAX_SUB_QUESTION_LEVELS:
        placed = enumerate_sub_questions(found, _RELEASED_LISTS, path)
        subs = [(at, sub) for at, sub in placed if isinstance(sub, Mapping)]
        paths = {sub["id"]: at for at, sub in subs if is_nonblank_utf8_text(sub.get("id"))}
        yield from check_dependencies(subs, paths, may_be_empty=True)


def _check_sub_question(found: Mapping[Any, Any], path: str, level: int) -> Iterator[FormViolation]:
    yield from check_unknown_keys(found, _SUB_KEYS, path)
    yield from check_id(found, path)
    yield from check_question_text(found, path)
    yield from check_answer(found, path, may_be_empty=True)
    yield from _check_decomposition(found, path, level)
    evidence = found.get("evidence")
    if "evidence" not in found:
        yield make_violation(path, "evidence_missing")
    elif evidence is None and found.get("decomposition") == []:
        yield make_violation(path, "no_evidence_no_decomposition")
    elif evidence is not None:
        if found.get("decomposition"):
            yield make_violation(path, "evidence_and_decomposition")
        yield from _check_released_article(evidence, path, "evidence.")


def _check_released_article(found: object, path: str, above: str) -> Iterator[FormViolation]:
    """Yield violations in an article; `above`: its key at `path`, with a final dot."""
    if not isinstance(found, Mapping):
        yield make_mismatch_violation(path, "wrong_page", f"{{{', '.join(_ARTICLE_KEYS)}}} as evidence", found)
        return
    yield from check_unknown_keys(found, _ARTICLE_KEYS, path)
    yield from check_page_and_revision_ids(found, path, above, UNRESOLVED_MARK)
    title, url = found.get("title"), found.get("url")
    if not is_nonblank_utf8_text(title):
        yield make_mismatch_violation(path, "wrong_page", f"a text as {above}title", title)
    elif trouble := find_page_title_problem(title):
        yield make_violation(path, "wrong_page", f"{above}title: {trouble}")
    if not is_nonblank_utf8_text(url):
        yield make_mismatch_violation(path, "evidence_no_text", f"the URL of one article as {above}url", url)
    elif trouble := find_english_wikipedia_url_problem(url):
        yield make_violation(path, "evidence_no_article", f"{above}url: {trouble}")
