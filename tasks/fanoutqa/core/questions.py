"""Fan-out questions with their decompositions: the tree that all forms are parsed into (FanOutQA, paper §3, E.1).

A top-level question is answered through sub-questions; a sub-question rests on one article (its evidence) or on
sub-questions of its own. Rows hold a tree as JSON text in the released form: `format_released_decomposition` writes it,
`parse_released_question` reads it. Paths name sub-questions in the words of the authored form: those that can be asked at once
are `strategy[i]`, those that need answers of others `then[j]`, counted from 0: `strategy[1].then[0]`. In a released
question paths follow its file: `decomposition[3].decomposition[0]`, `necessary_evidence[2]`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from factmill.tasks.text.values.answer_search import AnswerValue

MIN_ARTICLES = 5
"""Least number of different articles that a question needs (§3.1)."""
UNRESOLVED_MARK = "###TBD###"
"""Marks an unresolved page or revision in the released files of 2026."""


@dataclass(frozen=True, slots=True)
class ArticleEvidence:
    """The article that a sub-question rests on."""

    title: str
    """As MediaWiki writes it: decoded, spaces for underscores, without the section."""
    url: str
    """As written in the source."""
    pageid: int | None = None
    """None: not resolved yet."""
    revid: int | None = None


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One question of a decomposition; it is answered by its `evidence` or by its own `decomposition`."""

    id: str
    question: str
    answer: AnswerValue
    evidence: ArticleEvidence | None = None
    decomposition: tuple["SubQuestion", ...] = ()
    depends_on: tuple[str, ...] = ()
    """Ids of its sibling questions whose answers it needs."""


@dataclass(frozen=True, slots=True)
class FanOutQuestion:
    """A top-level question. One of the released test split has only necessary evidence."""

    id: str
    question: str
    decomposition: tuple[SubQuestion, ...] = ()
    answer: AnswerValue | None = None
    """None if it is held back (test split)."""
    categories: tuple[str, ...] = ()
    necessary_evidence: tuple[ArticleEvidence, ...] = ()
    """Empty if there is a decomposition."""
    is_released: bool = False
    """True: paths are those of the released form."""

    @property
    def articles(self) -> list[str]:
        """Titles of the different articles, in order of use."""
        found = [sub.evidence.title for _, sub in list_sub_questions(self) if sub.evidence]
        return list(dict.fromkeys(found or [each.title for each in self.necessary_evidence]))


def list_sub_questions(question: FanOutQuestion) -> Iterator[tuple[str, SubQuestion]]:
    """Yield (path, sub-question) for all sub-questions, a parent before its children."""
    yield from _walk_tree(question.decomposition, "", question.is_released)


def list_leaf_sub_questions(question: FanOutQuestion) -> Iterator[tuple[str, SubQuestion]]:
    """Yield (path, sub-question) for the sub-questions that rest on an article."""
    return ((path, sub) for path, sub in list_sub_questions(question) if sub.evidence is not None)


def list_article_references(question: FanOutQuestion) -> list[tuple[str, SubQuestion | None, ArticleEvidence]]:
    """Return (path, sub-question, article) for all articles of a question; no sub-question for necessary evidence."""
    found = [(path, sub, sub.evidence) for path, sub in list_sub_questions(question) if sub.evidence]
    return [*found, *((f"necessary_evidence[{at}]", None, each) for at, each in enumerate(question.necessary_evidence))]


def _walk_tree(subs: Sequence[SubQuestion], above: str, is_released: bool) -> Iterator[tuple[str, SubQuestion]]:
    at = Counter[str]()
    for sub in subs:
        kind = "decomposition" if is_released else "then" if sub.depends_on else "strategy"
        path = f"{above}{kind}[{at[kind]}]"
        at[kind] += 1
        yield path, sub
        yield from _walk_tree(sub.decomposition, f"{path}.", is_released)


def dump_json(value: Any) -> str:
    """Return a value as JSON text, with keys in their own order."""
    return json.dumps(value, ensure_ascii=False)


def format_released_evidence(evidence: ArticleEvidence | None) -> dict[str, Any] | None:
    """Return an article in the released form; unresolved ids become UNRESOLVED_MARK, as in the released files."""
    if evidence is None:
        return None
    ids = {"pageid": evidence.pageid, "revid": evidence.revid}
    marked = {name: UNRESOLVED_MARK if number is None else number for name, number in ids.items()}
    return {**marked, "title": evidence.title, "url": evidence.url}


def format_released_decomposition(subs: Sequence[SubQuestion]) -> list[dict[str, Any]]:
    """Return a decomposition in the released form."""
    return [
        {
            "id": sub.id,
            "question": sub.question,
            "decomposition": format_released_decomposition(sub.decomposition),
            "answer": sub.answer,
            "depends_on": list(sub.depends_on),
            "evidence": format_released_evidence(sub.evidence),
        }
        for sub in subs
    ]


def parse_released_evidence(found: dict[str, Any] | None) -> ArticleEvidence | None:
    """Parse an article that `format_released_evidence` wrote, or that has been checked before; nothing is checked here."""
    if found is None:
        return None
    pageid, revid = (None if found[name] == UNRESOLVED_MARK else found[name] for name in ("pageid", "revid"))
    return ArticleEvidence(found["title"], found["url"], pageid, revid)


def parse_released_decomposition(found: Sequence[dict[str, Any]]) -> tuple[SubQuestion, ...]:
    """Parse a decomposition in the form that `format_released_decomposition` writes."""
    return tuple(
        SubQuestion(
            id=each["id"],
            question=each["question"],
            answer=each["answer"],
            evidence=parse_released_evidence(each["evidence"]),
            decomposition=parse_released_decomposition(each["decomposition"]),
            depends_on=tuple(each["depends_on"]),
        )
        for each in found
    )
