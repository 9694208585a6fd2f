"""The form in which people write fan-out questions: check, parse and format it (FanOutQA, Appendix E.1).

A question is an object with `question`, `answer`, and its support: either `evidence`, the address of one article, or
`strategy`, a list of questions in the same form. Questions that need the answers of the strategy stand in `then`. Paths
use these words: strategy[1].then[0].

Released questions on articles can be written in this form and read back without loss. For that a question may have
keys that no author needs: `id` (default: derived from the wording and the path), `depends_on` (default: a question
under `then` needs all of the strategy), `page` (id, revision and title of the article, if known), `categories`
(top-level), and `order` (the ids under strategy and then, if they were mixed; each list keeps its own order).
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from factmill.tasks.core.digests import digest_json
from factmill.tasks.fanoutqa.core.forms.checks import (
    MAX_SUB_QUESTION_LEVELS,
    FormViolation,
    check_answer,
    check_categories,
    check_dependency_cycles,
    check_page_and_revision_ids,
    check_question_text,
    check_repeated_ids,
    check_unknown_keys,
    enumerate_sub_questions,
    format_value_summary,
    is_nonblank_utf8_text,
    make_mismatch_violation,
    make_violation,
    sort_violations_by_path,
    walk_sub_questions,
)
from factmill.tasks.fanoutqa.core.questions import MIN_ARTICLES, ArticleEvidence, FanOutQuestion, SubQuestion
from factmill.tasks.text.wikipedia_urls import ArticleUrl, canonical_title, parse_article_url_or_problem

__all__ = ["FormViolation", "check_authored_question", "format_authored_question", "parse_authored_question"]

_COMMON_KEYS = ("question", "strategy", "then", "evidence", "answer", "id", "order")
_TOP_KEYS = (*_COMMON_KEYS, "categories")
_SUB_KEYS = (*_COMMON_KEYS, "depends_on", "page")
_AUTHORED_LISTS = ("strategy", "then")
_PAGE_KEYS = ("pageid", "revid", "title")
_ID_DIGITS = 16


def check_authored_question(found: object, least_articles: int = MIN_ARTICLES) -> list[FormViolation]:
    """Return all violations of the authored form; if there are none, `parse_authored_question` can parse the question."""
    if not isinstance(found, Mapping):
        return [make_mismatch_violation("", "no_object", "an object with question, strategy and answer", found)]
    broken = [
        *_check_question_tree(found, "", 0),
        *check_categories(found),
        *check_repeated_ids(found, _AUTHORED_LISTS),
    ]
    subs = [sub for _, sub in walk_sub_questions(found, _AUTHORED_LISTS)]
    articles = {_make_article_key(sub) for sub in subs if isinstance(sub.get("evidence"), str)}
    if subs and len(articles) < least_articles:
        message = f"expected at least {least_articles} different articles as evidence, found {len(articles)}"
        broken.append(make_violation("", "too_few_articles", message))
    return sort_violations_by_path(broken)


def parse_authored_question(found: Mapping[str, Any]) -> FanOutQuestion:
    """Parse a question that passes `check_authored_question`."""
    top_id = found.get("id") or _digest_wording(found["question"])
    return FanOutQuestion(
        id=top_id,
        question=found["question"],
        decomposition=_parse_sub_questions(found, top_id, ""),
        answer=found["answer"],
        categories=tuple(found.get("categories", ())),
    )


def format_authored_question(question: FanOutQuestion) -> dict[str, Any]:
    """Return a question in the authored form; ValueError if its answer or decomposition is held back."""
    if question.answer is None or not question.decomposition:
        raise ValueError(
            f"{question.id}: the question has no answer or no decomposition; expected a question of the dev part"
        )
    form: dict[str, Any] = {} if question.id == _digest_wording(question.question) else {"id": question.id}
    form |= {"question": question.question, **_format_sub_questions(question.decomposition, question.id, "")}
    form["answer"] = question.answer
    if question.categories:
        form["categories"] = list(question.categories)
    return form


def _digest_wording(wording: str) -> str:
    """Return a question's id, a digest of its wording alone: editing an answer moves nothing between splits."""
    return digest_json(" ".join(unicodedata.normalize("NFC", wording).split()).casefold())[:_ID_DIGITS]


def _digest_sub_question_path(top_id: str, path: str) -> str:
    return digest_json([top_id, path])[:_ID_DIGITS]


def _check_question_tree(found: Mapping[Any, Any], path: str, level: int) -> Iterator[FormViolation]:
    yield from check_unknown_keys(found, _SUB_KEYS if level else _TOP_KEYS, path)
    yield from check_question_text(found, path)
    yield from check_answer(found, path, may_be_empty=level > 0)
    if "id" in found and not is_nonblank_utf8_text(found["id"]):
        yield make_mismatch_violation(path, "wrong_id", "a text as id", found["id"])
    yield from _check_evidence_or_strategy(found, path, level)
    if "page" in found and level:
        yield from _check_evidence_page(found, path)
    for key in _AUTHORED_LISTS:
        if key in found:
            yield from _check_sub_question_list(found, key, path, level)
    yield from _check_authored_dependencies(found, path)


def _check_evidence_or_strategy(found: Mapping[Any, Any], path: str, level: int) -> Iterator[FormViolation]:
    """Yield violations in a question's support, which is an article or a strategy."""
    if "evidence" in found:
        if level == 0:
            message = "has its own evidence; expected evidence only at sub-questions, so that no single article answers the question"
            yield make_violation(path, "evidence_at_top", message)
        elif "strategy" in found:
            yield make_violation(
                path, "evidence_and_strategy", "has both evidence and strategy; expected one of the two"
            )
        if not is_nonblank_utf8_text(found["evidence"]):
            yield make_mismatch_violation(
                path, "evidence_no_text", "the URL of one article as evidence", found["evidence"]
            )
        elif isinstance(problem := parse_article_url_or_problem(found["evidence"]), str):
            yield make_violation(path, "evidence_no_article", f"evidence: {problem}")
    elif "strategy" not in found and level:
        message = "has neither evidence nor strategy; expected the URL of an article, or sub-questions"
        yield make_violation(path, "no_evidence_no_strategy", message)
    if "strategy" not in found and not level:
        yield make_violation(path, "no_strategy", "has no strategy; expected a list of sub-questions")
    if "then" in found and "strategy" not in found:
        yield make_violation(
            path, "then_without_strategy", "has then without strategy; expected a strategy with the first sub-questions"
        )


def _check_sub_question_list(found: Mapping[Any, Any], key: str, path: str, level: int) -> Iterator[FormViolation]:
    listed = found[key]
    if not isinstance(listed, list):
        yield make_mismatch_violation(path, "no_list", f"a list of questions as {key}", listed)
    elif not listed:
        yield make_violation(
            path, "empty_list", f"{key} is an empty list; expected at least one question, or no key {key}"
        )
    elif level == MAX_SUB_QUESTION_LEVELS:
        message = f"expected at most {MAX_SUB_QUESTION_LEVELS} levels of sub-questions, found more; put some of them on the same level"
        yield make_violation(path, "too_deep", message)
    else:
        for sub_path, sub in enumerate_sub_questions(found, [key], path):
            if isinstance(sub, Mapping):
                yield from _check_question_tree(sub, sub_path, level + 1)
            else:
                yield make_mismatch_violation(sub_path, "no_object", "an object with question and answer", sub)


def _check_evidence_page(found: Mapping[Any, Any], path: str) -> Iterator[FormViolation]:
    page = found["page"]
    if "evidence" not in found:
        yield make_violation(
            path, "page_without_evidence", "has page without evidence; expected the URL of the article too"
        )
    if not isinstance(page, Mapping):
        yield make_mismatch_violation(path, "wrong_page", "page as an object", page)
        return
    yield from check_unknown_keys(page, _PAGE_KEYS, path)
    yield from check_page_and_revision_ids(page, path, "page.", None)
    if "title" in page and not is_nonblank_utf8_text(page["title"]):
        yield make_mismatch_violation(path, "wrong_page", "a text as page.title", page["title"])


def _check_authored_dependencies(found: Mapping[Any, Any], path: str) -> Iterator[FormViolation]:
    """Yield violations in depends_on and order of a question's children."""
    subs = [(kind, at, sub) for kind in _AUTHORED_LISTS for at, sub in enumerate_sub_questions(found, [kind], path)]
    well_formed = [(kind, at, sub) for kind, at, sub in subs if isinstance(sub, Mapping)]
    paths = {sub["id"]: at for _, at, sub in well_formed if is_nonblank_utf8_text(sub.get("id"))}
    needs: dict[str, list[str]] = {each: [] for each in paths}
    for kind, at, sub in well_formed:
        if "depends_on" not in sub:
            continue
        needed = sub["depends_on"]
        if kind == "strategy":
            yield make_violation(
                at, "depends_on_in_strategy", "has depends_on; put questions with depends_on under then"
            )
        elif not isinstance(needed, list) or not needed or not all(map(is_nonblank_utf8_text, needed)):
            yield make_mismatch_violation(at, "wrong_depends_on", "a list of ids as depends_on", needed)
        elif unknown := [each for each in needed if each not in paths]:
            message = (
                f"depends_on names {format_value_summary(unknown[0])}; expected ids of questions on the same level"
            )
            yield make_violation(
                at,
                "depends_on_nobody",
                f"{message} ({', '.join(map(format_value_summary, paths)) or 'none has an id'})",
            )
        elif is_nonblank_utf8_text(sub.get("id")):
            needs[sub["id"]] += needed
    yield from check_dependency_cycles(needs, paths)
    if "order" in found:
        order = found["order"]
        listed = order if isinstance(order, list) and all(map(is_nonblank_utf8_text, order)) else []
        lists = {kind: [sub.get("id") for under, _, sub in well_formed if under == kind] for kind in _AUTHORED_LISTS}
        if not listed or len(paths) != len(subs) or sorted(listed) != sorted(paths):
            message = f"expected in order the ids of all questions under strategy and then, found {format_value_summary(order)}"
            yield make_violation(path, "wrong_order", message)
        elif any(ids != [each for each in listed if each in ids] for ids in lists.values()):
            message = (
                "order changes the order of the questions under strategy or then; expected each list in its own order"
            )
            yield make_violation(path, "wrong_order", message)


def _make_article_key(found: Mapping[Any, Any]) -> str:
    """Return the key that distinguishes articles: the title, or an invalid address itself, reported elsewhere."""
    page = found.get("page")
    title = page.get("title") if isinstance(page, Mapping) else None
    return (
        canonical_title(title)
        if is_nonblank_utf8_text(title)
        else canonical_title(_parse_title_or_keep_url(found["evidence"]))
    )


def _parse_title_or_keep_url(url: str) -> str:
    address = parse_article_url_or_problem(url)
    return address.title if isinstance(address, ArticleUrl) else url


def _parse_sub_questions(found: Mapping[str, Any], top_id: str, path: str) -> tuple[SubQuestion, ...]:
    listed = [
        (kind, at, sub, sub.get("id") or _digest_sub_question_path(top_id, at))
        for kind in _AUTHORED_LISTS
        for at, sub in enumerate_sub_questions(found, [kind], path)
    ]
    first = [sub_id for kind, _, _, sub_id in listed if kind == "strategy"]
    subs = [
        SubQuestion(
            id=sub_id,
            question=sub["question"],
            answer=sub["answer"],
            evidence=_parse_evidence(sub),
            decomposition=_parse_sub_questions(sub, top_id, at),
            depends_on=tuple(sub.get("depends_on", first)) if kind == "then" else (),
        )
        for kind, at, sub, sub_id in listed
    ]
    if "order" in found:
        place = {sub_id: number for number, sub_id in enumerate(found["order"])}
        subs.sort(key=lambda sub: place[sub.id])
    return tuple(subs)


def _parse_evidence(found: Mapping[str, Any]) -> ArticleEvidence | None:
    if "evidence" not in found:
        return None
    page = found.get("page", {})
    title = page.get("title") or _parse_title_or_keep_url(found["evidence"])
    return ArticleEvidence(title, found["evidence"], page.get("pageid"), page.get("revid"))


def _format_sub_questions(subs: Sequence[SubQuestion], top_id: str, path: str) -> dict[str, Any]:
    """Return a decomposition as strategy and then; ids are written only if something refers to them."""
    first = tuple(sub.id for sub in subs if not sub.depends_on)
    later = [sub for sub in subs if sub.depends_on]
    in_order = [*first, *(sub.id for sub in later)]
    is_mixed = in_order != [sub.id for sub in subs]
    names_all = is_mixed or any(sub.depends_on != first for sub in later)
    above = f"{path}." if path else ""
    at = {"strategy": count(), "then": count()}
    form: dict[str, Any] = {}
    for sub in subs:
        kind = "then" if sub.depends_on else "strategy"
        place = f"{above}{kind}[{next(at[kind])}]"
        written: dict[str, Any] = {}
        if names_all or sub.id != _digest_sub_question_path(top_id, place):
            written["id"] = sub.id
        written["question"] = sub.question
        if sub.depends_on and sub.depends_on != first:
            written["depends_on"] = list(sub.depends_on)
        written |= _format_sub_questions(sub.decomposition, top_id, place) | _format_evidence(sub.evidence)
        form.setdefault(kind, []).append({**written, "answer": sub.answer})
    return {**form, "order": [sub.id for sub in subs]} if is_mixed else form


def _format_evidence(evidence: ArticleEvidence | None) -> dict[str, Any]:
    if evidence is None:
        return {}
    page = {"pageid": evidence.pageid, "revid": evidence.revid, "title": evidence.title}
    is_told_by_address = evidence == ArticleEvidence(_parse_title_or_keep_url(evidence.url), evidence.url)
    return {"evidence": evidence.url} if is_told_by_address else {"evidence": evidence.url, "page": page}
