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

from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.fanoutqa.core.forms.shared import (
    DEEPEST,
    Violation,
    check_answer,
    check_categories,
    check_ids,
    check_keys,
    check_numbers,
    check_order,
    check_question_text,
    describe_value,
    enumerate_subs,
    expect,
    in_order_of_file,
    is_text,
    violate,
    walk_subs,
)
from factmill.tasks.fanoutqa.core.questions import LEAST_ARTICLES, Evidence, FanOutQuestion, SubQuestion
from factmill.tasks.text.wikipedia_addresses import ArticleAddress, read_article_address, spell_title

__all__ = ["Violation", "check_authored", "read_authored", "write_authored"]

_EVERY = ("question", "strategy", "then", "evidence", "answer", "id", "order")
_TOP_KEYS = (*_EVERY, "categories")
_SUB_KEYS = (*_EVERY, "depends_on", "page")
_LISTS = ("strategy", "then")
_PAGE_KEYS = ("pageid", "revid", "title")
_ID_DIGITS = 16


def check_authored(found: object, least_articles: int = LEAST_ARTICLES) -> list[Violation]:
    """Return all violations of the authored form; if there are none, `read_authored` can parse the question."""
    if not isinstance(found, Mapping):
        return [expect("", "no_object", "an object with question, strategy and answer", found)]
    broken = [*_check_question(found, "", 0), *check_categories(found), *check_ids(found, _LISTS)]
    subs = [sub for _, sub in walk_subs(found, _LISTS)]
    articles = {_article_key(sub) for sub in subs if isinstance(sub.get("evidence"), str)}
    if subs and len(articles) < least_articles:
        told = f"expected at least {least_articles} different articles as evidence, found {len(articles)}"
        broken.append(violate("", "too_few_articles", told))
    return in_order_of_file(broken)


def read_authored(found: Mapping[str, Any]) -> FanOutQuestion:
    """Parse a question that passes `check_authored`."""
    top_id = found.get("id") or _digest_top(found["question"])
    return FanOutQuestion(
        id=top_id,
        question=found["question"],
        decomposition=_read_subs(found, top_id, ""),
        answer=found["answer"],
        categories=tuple(found.get("categories", ())),
    )


def write_authored(question: FanOutQuestion) -> dict[str, Any]:
    """Return a question in the authored form; ValueError if its answer or decomposition is held back."""
    if question.answer is None or not question.decomposition:
        raise ValueError(f"{question.id}: has no answer or no decomposition; expected a question of the dev part")
    form: dict[str, Any] = {} if question.id == _digest_top(question.question) else {"id": question.id}
    form |= {"question": question.question, **_write_subs(question.decomposition, question.id, "")}
    form["answer"] = question.answer
    if question.categories:
        form["categories"] = list(question.categories)
    return form


def _digest_top(wording: str) -> str:
    """Return a question's id, a digest of its wording alone: editing an answer moves nothing between splits."""
    return digest_json(" ".join(unicodedata.normalize("NFC", wording).split()).casefold())[:_ID_DIGITS]


def _digest_sub(top_id: str, path: str) -> str:
    return digest_json([top_id, path])[:_ID_DIGITS]


def _check_question(found: Mapping[Any, Any], path: str, level: int) -> Iterator[Violation]:
    yield from check_keys(found, _SUB_KEYS if level else _TOP_KEYS, path)
    yield from check_question_text(found, path)
    yield from check_answer(found, path, may_be_empty=level > 0)
    if "id" in found and not is_text(found["id"]):
        yield expect(path, "wrong_id", "a text as id", found["id"])
    yield from _check_support(found, path, level)
    if "page" in found and level:
        yield from _check_page(found, path)
    for key in _LISTS:
        if key in found:
            yield from _check_list(found, key, path, level)
    yield from _check_dependences(found, path)


def _check_support(found: Mapping[Any, Any], path: str, level: int) -> Iterator[Violation]:
    """Yield violations in a question's support, which is an article or a strategy."""
    if "evidence" in found:
        if level == 0:
            told = "has evidence of its own; expected it at sub-questions alone, of which no article answers all"
            yield violate(path, "evidence_at_top", told)
        elif "strategy" in found:
            yield violate(path, "evidence_and_strategy", "has both evidence and strategy; expected one of the two")
        if not is_text(found["evidence"]):
            yield expect(path, "evidence_no_text", "the address of one article as evidence", found["evidence"])
        elif isinstance(problem := read_article_address(found["evidence"]), str):
            yield violate(path, "evidence_no_article", f"evidence: {problem}")
    elif "strategy" not in found and level:
        told = "has neither evidence nor strategy; expected the address of an article, or sub-questions"
        yield violate(path, "no_evidence_no_strategy", told)
    if "strategy" not in found and not level:
        yield violate(path, "no_strategy", "has no strategy; expected a list of sub-questions")
    if "then" in found and "strategy" not in found:
        yield violate(path, "then_without_strategy", "has then without strategy; expected what can be asked first")


def _check_list(found: Mapping[Any, Any], key: str, path: str, level: int) -> Iterator[Violation]:
    listed = found[key]
    if not isinstance(listed, list):
        yield expect(path, "no_list", f"a list of questions as {key}", listed)
    elif not listed:
        yield violate(path, "empty_list", f"{key} is an empty list; expected a question in it, or no {key}")
    elif level == DEEPEST:
        told = f"expected at most {DEEPEST} levels of sub-questions, found more; ask some of them side by side"
        yield violate(path, "too_deep", told)
    else:
        for sub_path, sub in enumerate_subs(found, [key], path):
            if isinstance(sub, Mapping):
                yield from _check_question(sub, sub_path, level + 1)
            else:
                yield expect(sub_path, "no_object", "an object with question and answer", sub)


def _check_page(found: Mapping[Any, Any], path: str) -> Iterator[Violation]:
    page = found["page"]
    if "evidence" not in found:
        yield violate(path, "page_without_evidence", "has page without evidence; expected the article's address too")
    if not isinstance(page, Mapping):
        yield expect(path, "wrong_page", "page as an object", page)
        return
    yield from check_keys(page, _PAGE_KEYS, path)
    yield from check_numbers(page, path, "page.", None)
    if "title" in page and not is_text(page["title"]):
        yield expect(path, "wrong_page", "a text as page.title", page["title"])


def _check_dependences(found: Mapping[Any, Any], path: str) -> Iterator[Violation]:
    """Yield violations in depends_on and order of a question's children."""
    subs = [(kind, at, sub) for kind in _LISTS for at, sub in enumerate_subs(found, [kind], path)]
    well_formed = [(kind, at, sub) for kind, at, sub in subs if isinstance(sub, Mapping)]
    paths = {sub["id"]: at for _, at, sub in well_formed if is_text(sub.get("id"))}
    needs: dict[str, list[str]] = {each: [] for each in paths}
    for kind, at, sub in well_formed:
        if "depends_on" not in sub:
            continue
        needed = sub["depends_on"]
        if kind == "strategy":
            yield violate(at, "depends_on_in_strategy", "has depends_on; expected such a question under then")
        elif not isinstance(needed, list) or not needed or not all(map(is_text, needed)):
            yield expect(at, "wrong_depends_on", "a list of ids as depends_on", needed)
        elif unknown := [each for each in needed if each not in paths]:
            told = f"depends_on names {describe_value(unknown[0])}; expected ids of the questions beside it"
            yield violate(
                at, "depends_on_nobody", f"{told} ({', '.join(map(describe_value, paths)) or 'none has an id'})"
            )
        elif is_text(sub.get("id")):
            needs[sub["id"]] += needed
    yield from check_order(needs, paths)
    if "order" in found:
        order = found["order"]
        listed = order if isinstance(order, list) and all(map(is_text, order)) else []
        lists = {kind: [sub.get("id") for under, _, sub in well_formed if under == kind] for kind in _LISTS}
        if not listed or len(paths) != len(subs) or sorted(listed) != sorted(paths):
            told = f"expected the ids of all questions under strategy and then as order, found {describe_value(order)}"
            yield violate(path, "wrong_order", told)
        elif any(ids != [each for each in listed if each in ids] for ids in lists.values()):
            told = "order mixes strategy and then; expected the questions of each in the order they have there"
            yield violate(path, "wrong_order", told)


def _article_key(found: Mapping[Any, Any]) -> str:
    """Return the key that distinguishes articles: the title, or an invalid address itself, reported elsewhere."""
    page = found.get("page")
    title = page.get("title") if isinstance(page, Mapping) else None
    return spell_title(title) if is_text(title) else spell_title(_title_of(found["evidence"]))


def _title_of(url: str) -> str:
    address = read_article_address(url)
    return address.title if isinstance(address, ArticleAddress) else url


def _read_subs(found: Mapping[str, Any], top_id: str, path: str) -> tuple[SubQuestion, ...]:
    listed = [
        (kind, at, sub, sub.get("id") or _digest_sub(top_id, at))
        for kind in _LISTS
        for at, sub in enumerate_subs(found, [kind], path)
    ]
    first = [sub_id for kind, _, _, sub_id in listed if kind == "strategy"]
    subs = [
        SubQuestion(
            id=sub_id,
            question=sub["question"],
            answer=sub["answer"],
            evidence=_read_evidence(sub),
            decomposition=_read_subs(sub, top_id, at),
            depends_on=tuple(sub.get("depends_on", first)) if kind == "then" else (),
        )
        for kind, at, sub, sub_id in listed
    ]
    if "order" in found:
        place = {sub_id: number for number, sub_id in enumerate(found["order"])}
        subs.sort(key=lambda sub: place[sub.id])
    return tuple(subs)


def _read_evidence(found: Mapping[str, Any]) -> Evidence | None:
    if "evidence" not in found:
        return None
    page = found.get("page", {})
    title = page.get("title") or _title_of(found["evidence"])
    return Evidence(title, found["evidence"], page.get("pageid"), page.get("revid"))


def _write_subs(subs: Sequence[SubQuestion], top_id: str, path: str) -> dict[str, Any]:
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
        if names_all or sub.id != _digest_sub(top_id, place):
            written["id"] = sub.id
        written["question"] = sub.question
        if sub.depends_on and sub.depends_on != first:
            written["depends_on"] = list(sub.depends_on)
        written |= _write_subs(sub.decomposition, top_id, place) | _write_evidence(sub.evidence)
        form.setdefault(kind, []).append({**written, "answer": sub.answer})
    return {**form, "order": [sub.id for sub in subs]} if is_mixed else form


def _write_evidence(evidence: Evidence | None) -> dict[str, Any]:
    if evidence is None:
        return {}
    page = {"pageid": evidence.pageid, "revid": evidence.revid, "title": evidence.title}
    is_told_by_address = evidence == Evidence(_title_of(evidence.url), evidence.url)
    return {"evidence": evidence.url} if is_told_by_address else {"evidence": evidence.url, "page": page}
