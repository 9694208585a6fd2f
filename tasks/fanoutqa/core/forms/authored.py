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
    format_value_summary,
    is_nonblank_utf8_text,
    make_mismatch_violation,
    make_violation,
    sort_violations_by_path,
    walk_sub_questions,
)
from factmill.tasks.fanoutqa.core.questions import MIN_ARTICLES, ArticleEvidence, FanOutQuestion, SubQuestion
from factmill.tasks.text.wikipedia_urls import ArticleUrl, canonical_title, parse_english_article_url_or_problem

_COMMON_KEYS = ("question", "strategy", "then", "evidence", "answer", "id", "order")
_TOP_KEYS = (*_COMMON_KEYS, "categories")
_SUB_KEYS = (*_COMMON_KEYS, "depends_on", "page")
_AUTHORED_LISTS = ("strategy", "then")
_ID_DIGITS = 16


def check_authored_question(found: object, least_articles: int = MIN_ARTICLES) -> list[FormViolation]:
    """Return all violations of the authored form; if there are none, `parse_authored_question` can parse the question."""
    if not isinstance(found, Mapping):
        return [make_mismatch_violation("", "no_object", "an object with question, strategy and answer", found)]
    broken = [
        *_check_question(found, "", 0),
        *check_categories(found),
        *check_repeated_sub_question_ids(found, _AUTHORED_LISTS),
    ]
    subs = [sub for _, sub in walk_sub_questions(found, _AUTHORED_LISTS)]
    articles = {_make_article_key(sub) for sub in subs if isinstance(sub.get("evidence"), str)}
    if subs and len(articles) < least_articles:
        message = f"expected at least {least_articles} different articles as evidence, found {len(articles)}"
        broken.append(make_violation("", "too_few_articles", message))
    return sort_violations_by_path(broken)


def parse_authored_question(found: Mapping[str, Any]) -> FanOutQuestion:
    """Parse a question that passes `check_authored_question`."""
    top_id = found.get("id") or _make_question_id_from_wording(found["question"])
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
        problem = "the question has no answer or no decomposition; expected a question of the dev part"
        raise ValueError(f"{question.id}: {problem}")
    return {
        **({} if question.id == _make_question_id_from_wording(question.question) else {"id": question.id}),
        "question": question.question,
        **_format_strategy_and_then(question.decomposition, question.id, ""),
        "answer": question.answer,
        **({"categories": list(question.categories)} if question.categories else {}),
    }


def _make_question_id_from_wording(wording: str) -> str:
    """Return a question's id, a digest of its wording alone: editing an answer moves nothing between splits."""
    return digest_json(" ".join(unicodedata.normalize("NFC", wording).split()).casefold())[:_ID_DIGITS]


def _make_sub_question_id_from_path(top_id: str, path: str) -> str:
    return digest_json([top_id, path])[:_ID_DIGITS]


def _check_question(found: Mapping[Any, Any], path: str, level: int) -> Iterator[FormViolation]:
    yield from check_unknown_keys(found, _SUB_KEYS if level else _TOP_KEYS, path)
    yield from check_question_text(found, path)
    yield from check_answer(found, path, may_be_empty=level > 0)
    if "id" in found:
        yield from check_id(found, path)
    yield from _check_evidence_or_strategy(found, path, level)
    if "page" in found and level:
        yield from _check_evidence_page(found, path)
    for key in _AUTHORED_LISTS:
        if key in found:
            yield from check_sub_question_list(
                found, key, path, level, _check_question, "an object with question and answer"
            )
            if found[key] == []:
                message = f"{key} is an empty list; expected at least one question, or no key {key}"
                yield make_violation(path, "empty_list", message)
    yield from _check_dependencies_and_order(found, path)


def _check_evidence_or_strategy(found: Mapping[Any, Any], path: str, level: int) -> Iterator[FormViolation]:
    if "evidence" in found:
        if level == 0:
            yield make_violation(path, "evidence_at_top")
        elif "strategy" in found:
            yield make_violation(path, "evidence_and_strategy")
        if not is_nonblank_utf8_text(url := found["evidence"]):
            yield make_mismatch_violation(path, "evidence_no_text", "the URL of one article as evidence", url)
        elif isinstance(problem := parse_english_article_url_or_problem(url), str):
            yield make_violation(path, "evidence_no_article", f"evidence: {problem}")
    if "strategy" not in found:
        if not level:
            yield make_violation(path, "no_strategy")
        elif "evidence" not in found:
            yield make_violation(path, "no_evidence_no_strategy")
        if "then" in found:
            yield make_violation(path, "then_without_strategy")


def _check_evidence_page(found: Mapping[Any, Any], path: str) -> Iterator[FormViolation]:
    page = found["page"]
    if "evidence" not in found:
        yield make_violation(path, "page_without_evidence")
    if not isinstance(page, Mapping):
        yield make_mismatch_violation(path, "wrong_page", "page as an object", page)
        return
    yield from check_unknown_keys(page, ("pageid", "revid", "title"), path)
    yield from check_page_and_revision_ids(page, path, "page.", None)
    if "title" in page and not is_nonblank_utf8_text(page["title"]):
        yield make_mismatch_violation(path, "wrong_page", "a text as page.title", page["title"])


def _check_dependencies_and_order(found: Mapping[Any, Any], path: str) -> Iterator[FormViolation]:
    """Yield violations in depends_on and order of a question's children."""
    listed = {kind: list(enumerate_sub_questions(found, [kind], path)) for kind in _AUTHORED_LISTS}
    subs = {kind: [(at, sub) for at, sub in of if isinstance(sub, Mapping)] for kind, of in listed.items()}
    paths = {sub["id"]: at for of in subs.values() for at, sub in of if is_nonblank_utf8_text(sub.get("id"))}
    for at, sub in subs["strategy"]:
        if "depends_on" in sub:
            yield make_violation(at, "depends_on_in_strategy")
    dependent = [(at, sub) for at, sub in subs["then"] if "depends_on" in sub]
    yield from check_dependencies(dependent, paths, may_be_empty=False)
    if "order" in found:
        order = found["order"]
        ids = order if isinstance(order, list) and all(map(is_nonblank_utf8_text, order)) else []
        own_orders = [[sub.get("id") for _, sub in of] for of in subs.values()]
        if not ids or len(paths) != sum(map(len, listed.values())) or sorted(ids) != sorted(paths):
            message = f"expected in order the ids of all questions under strategy and then, found {format_value_summary(order)}"
            yield make_violation(path, "wrong_order", message)
        elif any(own != [each for each in ids if each in own] for own in own_orders):
            message = (
                "order changes the order of the questions under strategy or then; expected each list in its own order"
            )
            yield make_violation(path, "wrong_order", message)


def _make_article_key(sub_question: Mapping[Any, Any]) -> str:
    """Return the key that distinguishes articles: the title, or an invalid address itself, reported elsewhere."""
    page = sub_question.get("page")
    title = page.get("title") if isinstance(page, Mapping) else None
    return canonical_title(
        title if is_nonblank_utf8_text(title) else _parse_title_or_keep_url(sub_question["evidence"])
    )


def _parse_title_or_keep_url(url: str) -> str:
    address = parse_english_article_url_or_problem(url)
    return address.title if isinstance(address, ArticleUrl) else url


def _parse_sub_questions(found: Mapping[str, Any], top_id: str, path: str) -> tuple[SubQuestion, ...]:
    listed = [
        (kind, at, sub, sub.get("id") or _make_sub_question_id_from_path(top_id, at))
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


def _format_strategy_and_then(subs: Sequence[SubQuestion], top_id: str, path: str) -> dict[str, Any]:
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
        if names_all or sub.id != _make_sub_question_id_from_path(top_id, place):
            written["id"] = sub.id
        written["question"] = sub.question
        if sub.depends_on and sub.depends_on != first:
            written["depends_on"] = list(sub.depends_on)
        written |= _format_strategy_and_then(sub.decomposition, top_id, place) | _format_evidence(sub.evidence)
        form.setdefault(kind, []).append({**written, "answer": sub.answer})
    return {**form, "order": [sub.id for sub in subs]} if is_mixed else form


def _format_evidence(evidence: ArticleEvidence | None) -> dict[str, Any]:
    if evidence is None:
        return {}
    page = {"pageid": evidence.pageid, "revid": evidence.revid, "title": evidence.title}
    is_told_by_address = evidence == ArticleEvidence(_parse_title_or_keep_url(evidence.url), evidence.url)
    return {"evidence": evidence.url} if is_told_by_address else {"evidence": evidence.url, "page": page}
