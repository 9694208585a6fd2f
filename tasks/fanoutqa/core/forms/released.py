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
)
from factmill.tasks.fanoutqa.core.questions import (
    UNRESOLVED,
    FanOutQuestion,
    list_references,
    read_decomposition,
    read_evidence,
)
from factmill.tasks.text.wikipedia_addresses import find_title_trouble, find_wiki_trouble

_DEV_KEYS = ("id", "question", "decomposition", "answer", "categories")
_TEST_KEYS = ("id", "question", "necessary_evidence", "categories")
_SUB_KEYS = ("id", "question", "decomposition", "answer", "depends_on", "evidence")
_LISTS = ("decomposition",)
_ARTICLE_KEYS = ("pageid", "revid", "title", "url")


@dataclass(frozen=True, slots=True)
class UnresolvedReference:
    """An article whose page or revision is still unknown."""

    question_id: str
    path: str
    """Path of the sub-question, such as decomposition[1]; necessary_evidence[i] in the test split."""
    title: str
    url: str


def list_unresolved(question: FanOutQuestion) -> list[UnresolvedReference]:
    """Return the references of a question whose page or revision is unknown, in order."""
    return [
        UnresolvedReference(question.id, path, each.title, each.url)
        for path, _, each in list_references(question)
        if each.pageid is None or each.revid is None
    ]


def check_released(found: object) -> list[Violation]:
    """Return all violations of the released form; if there are none, `read_released` can parse the question."""
    if not isinstance(found, Mapping):
        return [expect("", "no_object", "an object with id, question and categories", found)]
    return in_order_of_file([*_check_top(found), *check_ids(found, _LISTS)])


def read_released(found: Mapping[str, Any]) -> FanOutQuestion:
    """Read a question that `check_released` passes."""
    evidence = [read_evidence(each) for each in found.get("necessary_evidence", ())]
    return FanOutQuestion(
        id=found["id"],
        question=found["question"],
        decomposition=read_decomposition(found.get("decomposition", ())),
        answer=found.get("answer"),
        categories=tuple(found.get("categories", ())),
        necessary_evidence=tuple(each for each in evidence if each),
        is_released=True,
    )


def _check_top(found: Mapping[Any, Any]) -> Iterator[Violation]:
    is_dev = "decomposition" in found
    yield from check_keys(found, _DEV_KEYS if is_dev else _TEST_KEYS, "")
    yield from _check_id(found, "")
    yield from check_question_text(found, "")
    yield from check_categories(found)
    if "categories" not in found:
        yield violate("", "categories_missing", "no categories; expected a list of texts, empty where there are none")
    if is_dev:
        yield from check_answer(found, "", may_be_empty=False)
        yield from _check_decomposition(found, "", 0)
        if found["decomposition"] == []:
            yield violate("", "empty_list", "decomposition is an empty list; expected sub-questions in it")
    else:
        yield from _check_necessary_evidence(found.get("necessary_evidence"))


def _check_necessary_evidence(listed: object) -> Iterator[Violation]:
    if not isinstance(listed, list) or not listed:
        yield expect("", "no_list", "a list of articles as necessary_evidence", listed)
        return
    for at, each in enumerate(listed):
        yield from _check_evidence(each, f"necessary_evidence[{at}]", "")


def _check_decomposition(found: Mapping[Any, Any], path: str, level: int) -> Iterator[Violation]:
    listed = found.get("decomposition")
    if not isinstance(listed, list):
        yield expect(path, "no_list", "a list of questions as decomposition", listed)
    elif listed and level == DEEPEST:
        yield violate(path, "too_deep", f"expected at most {DEEPEST} levels of sub-questions, found more")
    else:
        placed = list(enumerate_subs(found, _LISTS, path))
        for sub_path, sub in placed:
            if isinstance(sub, Mapping):
                yield from _check_sub(sub, sub_path, level + 1)
            else:
                yield expect(sub_path, "no_object", "an object with id and question", sub)
        yield from _check_dependences([(at, sub) for at, sub in placed if isinstance(sub, Mapping)])


def _check_sub(found: Mapping[Any, Any], path: str, level: int) -> Iterator[Violation]:
    yield from check_keys(found, _SUB_KEYS, path)
    yield from _check_id(found, path)
    yield from check_question_text(found, path)
    yield from check_answer(found, path, may_be_empty=True)
    yield from _check_decomposition(found, path, level)
    evidence = found.get("evidence")
    if "evidence" not in found:
        yield violate(
            path, "evidence_missing", "no evidence; expected an article, or null where there are sub-questions"
        )
    elif evidence is None and found.get("decomposition") == []:
        told = "has neither evidence nor decomposition; expected an article, or sub-questions"
        yield violate(path, "no_evidence_no_decomposition", told)
    elif evidence is not None:
        if found.get("decomposition"):
            yield violate(path, "evidence_and_decomposition", "has evidence and decomposition; expected one of the two")
        yield from _check_evidence(evidence, path, "evidence.")


def _check_id(found: Mapping[Any, Any], path: str) -> Iterator[Violation]:
    if not is_text(found.get("id")):
        yield expect(path, "wrong_id", "a text as id", found.get("id"))


def _check_evidence(found: object, path: str, above: str) -> Iterator[Violation]:
    """Yield violations in an article; `above`: its key at `path`, with a final dot."""
    if not isinstance(found, Mapping):
        yield expect(path, "wrong_page", f"{{{', '.join(_ARTICLE_KEYS)}}} as evidence", found)
        return
    yield from check_keys(found, _ARTICLE_KEYS, path)
    yield from check_numbers(found, path, above, UNRESOLVED)
    title, url = found.get("title"), found.get("url")
    if not is_text(title):
        yield expect(path, "wrong_page", f"a text as {above}title", title)
    elif trouble := find_title_trouble(title):
        yield violate(path, "wrong_page", f"{above}title: {trouble}")
    if not is_text(url):
        yield expect(path, "evidence_no_text", f"the address of one article as {above}url", url)
    elif trouble := find_wiki_trouble(url):
        yield violate(path, "evidence_no_article", f"{above}url: {trouble}")


def _check_dependences(placed: list[tuple[str, Mapping[Any, Any]]]) -> Iterator[Violation]:
    paths = {sub["id"]: path for path, sub in placed if is_text(sub.get("id"))}
    needs: dict[str, list[str]] = {each: [] for each in paths}
    for path, sub in placed:
        needed = sub.get("depends_on")
        if not isinstance(needed, list) or not all(map(is_text, needed)):
            yield expect(path, "wrong_depends_on", "a list of ids as depends_on", needed)
        elif unknown := [each for each in needed if each not in paths]:
            told = f"depends_on names {describe_value(unknown[0])}; expected ids of the questions beside it"
            yield violate(path, "depends_on_nobody", told)
        elif is_text(sub.get("id")):
            needs[sub["id"]] += needed
    yield from check_order(needs, paths)
