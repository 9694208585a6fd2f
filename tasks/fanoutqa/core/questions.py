"""Fan-out questions with their decompositions: the tree that all forms of them are read into (FanOutQA, paper §3, E.1).

A top-level question is answered by way of sub-questions; a sub-question rests on one article (its evidence) or on
sub-questions of its own. In rows a tree stands as JSON text in the form that was released: `to_released` writes it,
`read_released` reads it. Sub-questions are named by paths in the words of the authoring form: those that can be asked
at once are `strategy[i]`, those that need answers of others `then[j]`, each counted from 0: `strategy[1].then[0]`. In
a released question they are named as its file has them: `decomposition[3].decomposition[0]`, `necessary_evidence[2]`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from factmill.tasks.text.values.answers import Answer

LEAST_ARTICLES = 5
"""Different articles that a question must need (§3.1)."""
UNRESOLVED = "###TBD###"
"""Stands in the released files of 2026 for a page or revision that was not resolved."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The article that a sub-question rests on."""

    title: str
    """As MediaWiki writes it: decoded, spaces for underscores, without the section."""
    url: str
    """As it was written."""
    pageid: int | None = None
    """None: not resolved yet."""
    revid: int | None = None


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One question of a decomposition; either `evidence` or `decomposition` says how it is answered."""

    id: str
    question: str
    answer: Answer
    evidence: Evidence | None = None
    decomposition: tuple["SubQuestion", ...] = ()
    depends_on: tuple[str, ...] = ()
    """Ids of the questions beside it whose answers it needs."""


@dataclass(frozen=True, slots=True)
class FanOutQuestion:
    """A top-level question. A question of the released test part has necessary evidence alone."""

    id: str
    question: str
    decomposition: tuple[SubQuestion, ...] = ()
    answer: Answer | None = None
    """None where it is held back (test part)."""
    categories: tuple[str, ...] = ()
    necessary_evidence: tuple[Evidence, ...] = ()
    """Only where there is no decomposition."""
    is_released: bool = False
    """True: paths are those of the released form."""

    @property
    def articles(self) -> list[str]:
        """Titles of the different articles, in order."""
        found = [sub.evidence.title for _, sub in list_sub_questions(self) if sub.evidence]
        return list(dict.fromkeys(found or [each.title for each in self.necessary_evidence]))


def list_sub_questions(question: FanOutQuestion) -> Iterator[tuple[str, SubQuestion]]:
    """Yield every sub-question with its path, a question before those that it rests on."""
    yield from _walk(question.decomposition, "", question.is_released)


def list_leaves(question: FanOutQuestion) -> Iterator[tuple[str, SubQuestion]]:
    """Yield the sub-questions that rest on an article, with their paths."""
    return ((path, sub) for path, sub in list_sub_questions(question) if sub.evidence is not None)


def list_references(question: FanOutQuestion) -> list[tuple[str, SubQuestion | None, Evidence]]:
    """Return the articles that a question rests on, each with its path and the sub-question that it answers, if told."""
    found = [(path, sub, sub.evidence) for path, sub in list_sub_questions(question) if sub.evidence]
    return [*found, *((f"necessary_evidence[{at}]", None, each) for at, each in enumerate(question.necessary_evidence))]


def _walk(subs: Sequence[SubQuestion], above: str, is_released: bool) -> Iterator[tuple[str, SubQuestion]]:
    at = Counter[str]()
    for sub in subs:
        kind = "decomposition" if is_released else "then" if sub.depends_on else "strategy"
        path = f"{above}{kind}[{at[kind]}]"
        at[kind] += 1
        yield path, sub
        yield from _walk(sub.decomposition, f"{path}.", is_released)


def dump_json(value: Any) -> str:
    """Return a value as JSON text with its keys in the order they have."""
    return json.dumps(value, ensure_ascii=False)


def evidence_to_released(evidence: Evidence | None) -> dict[str, Any] | None:
    """Return an article in the released form; what is not resolved says so as the released files do."""
    if evidence is None:
        return None
    pageid = UNRESOLVED if evidence.pageid is None else evidence.pageid
    revid = UNRESOLVED if evidence.revid is None else evidence.revid
    return {"pageid": pageid, "revid": revid, "title": evidence.title, "url": evidence.url}


def to_released(subs: Sequence[SubQuestion]) -> list[dict[str, Any]]:
    """Return a decomposition in the released form."""
    return [
        {
            "id": sub.id,
            "question": sub.question,
            "decomposition": to_released(sub.decomposition),
            "answer": sub.answer,
            "depends_on": list(sub.depends_on),
            "evidence": evidence_to_released(sub.evidence),
        }
        for sub in subs
    ]


def read_evidence(found: dict[str, Any] | None) -> Evidence | None:
    """Read an article of the released form, as `evidence_to_released` writes it; no input of others is checked here."""
    if found is None:
        return None
    pageid, revid = (None if found[name] == UNRESOLVED else found[name] for name in ("pageid", "revid"))
    return Evidence(found["title"], found["url"], pageid, revid)


def read_decomposition(found: Sequence[dict[str, Any]]) -> tuple[SubQuestion, ...]:
    """Read a decomposition that `to_released` has written."""
    return tuple(
        SubQuestion(
            id=each["id"],
            question=each["question"],
            answer=each["answer"],
            evidence=read_evidence(each["evidence"]),
            decomposition=read_decomposition(each["decomposition"]),
            depends_on=tuple(each["depends_on"]),
        )
        for each in found
    )
