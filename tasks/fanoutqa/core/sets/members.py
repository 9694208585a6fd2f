"""Sets with their members and articles, and checks that the articles confirm them (FanOutQA, §3.1).

A listed set must be complete: its owner's article names every member, and among them no other known item of their
class; every member has an article of its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.fanoutqa.core.questions import ArticleEvidence
from factmill.tasks.fanoutqa.core.sets.property_values import (
    PropertyValue,
    choose_value_stated_in_text,
    index_passages_following_name,
)
from factmill.tasks.fanoutqa.core.sets.set_kinds import PropertyPhrases, SetKind
from factmill.tasks.text.values.answer_search import AnswerValue, IndexedText, find_answer_and_missing_parts, index_text

MAX_LISTED_MEMBERS = 30
"""Most members of a listed set."""
LIST_NOT_VERIFIED, MEMBER_NOT_VERIFIED, TOO_FEW_MEMBERS = "list_not_verified", "member_not_verified", "too_few_members"
"""Reject reasons: the owner's article, or a member's own, does not confirm the set; fewer members than needed."""
_TITLE_YEAR = re.compile(r"\([^()]*\b([12][0-9]{3})\b[^()]*\)$")


@dataclass(frozen=True, slots=True)
class MemberArticle:
    """An article as of the epoch."""

    evidence: ArticleEvidence
    text: str
    known: IndexedText
    """The same text, indexed for look-ups of answers."""


@dataclass(frozen=True, slots=True)
class SetMember:
    """A member of a set, or its owner."""

    qid: str
    name: str
    article: MemberArticle | None
    article_problem: str
    """Why there is no article; empty if there is one."""
    values: Mapping[str, tuple[PropertyValue, ...]]
    """PID → values in the graph."""

    @property
    def year_suffix(self) -> str:
        """The year that distinguishes its article's title from namesakes, as a suffix to its name; empty if none."""
        found = _TITLE_YEAR.search(self.article.evidence.title) if self.article else None
        return f" ({found[1]})" if found and found[1] not in self.name else ""


@dataclass(frozen=True, slots=True)
class MemberSet:
    """A set to make questions from."""

    kind: SetKind
    owner: SetMember | None
    """None for a named set."""
    members: tuple[SetMember, ...]
    other_names: tuple[str, ...]
    """Names of other known items of the members' class."""
    month: str
    """The month of the epoch: November 2023."""
    min_members: int
    """Least number of members that a question asks about."""


@dataclass(frozen=True, slots=True)
class ReasonForNoQuestion:
    """Why no question was made."""

    reason: str
    detail: str
    retryable: bool = False
    """True if a later run may succeed."""


MemberValues = list[tuple[SetMember, PropertyValue]]
"""Members, each with the value that an article says."""


def find_set_refusal(member_set: MemberSet) -> ReasonForNoQuestion | None:
    """Return why a set allows no question at all; None if it may allow one."""
    count, least = len(member_set.members), member_set.min_members
    if count < least:
        return ReasonForNoQuestion(TOO_FEW_MEMBERS, f"the set has {count} members, expected {least} or more")
    if member_set.owner is None:
        return None
    if count > MAX_LISTED_MEMBERS:
        detail = f"the set has {count} members, expected {MAX_LISTED_MEMBERS} or fewer"
        return ReasonForNoQuestion("too_many_members", detail)
    return _find_listed_set_refusal(member_set, member_set.owner)


def _find_listed_set_refusal(member_set: MemberSet, owner: SetMember) -> ReasonForNoQuestion | None:
    """Return why a listed set fails: its owner's article does not list it, or a member has no own article."""
    members = member_set.members
    if owner.article is None:
        return ReasonForNoQuestion("no_list_article", f"{owner.name}: {owner.article_problem}")
    if lost := [each for each in members if each.article is None]:
        problems = "; ".join(f"{each.name}: {each.article_problem}" for each in lost[:3])
        detail = f"{len(lost)} of {len(members)} members have no article: {problems}"
        return ReasonForNoQuestion("member_without_article", detail)
    titles = [each.article.evidence.title for each in (owner, *members) if each.article]
    if len(set(titles)) < len(titles) or len({each.name for each in members}) < len(members):
        detail = "two members have the same name or the same article; expected different ones"
        return ReasonForNoQuestion("same_article", detail)
    return _find_member_list_mismatch(member_set, owner.article)


def _find_member_list_mismatch(member_set: MemberSet, article: MemberArticle) -> ReasonForNoQuestion | None:
    """Return which members an article does not name, or which other items it names among them; None if neither."""
    names: list[AnswerValue] = [each.name for each in member_set.members]
    finding = find_answer_and_missing_parts(names, article.known)
    if finding.found is not True:
        detail = f"{article.evidence.title} does not name {', '.join(finding.missing)}"
        return ReasonForNoQuestion(LIST_NOT_VERIFIED, detail)
    for paragraph in article.text.split("\n\n"):
        if all(name in paragraph for name in map(str, names)):
            known = index_text(paragraph)
            others = [name for name in member_set.other_names if name in paragraph]
            if more := [name for name in others if find_answer_and_missing_parts(name, known).found]:
                detail = f"{article.evidence.title} names {', '.join(more)} together with the members in the graph"
                return ReasonForNoQuestion(LIST_NOT_VERIFIED, detail)
    return None


def verify_member_value(
    member: SetMember, asked: PropertyPhrases, text: IndexedText | None = None
) -> PropertyValue | str:
    """Return the value that the member's article (or `text`) says, or a phrase on why it says none."""
    if member.article is None:
        return member.article_problem
    values = member.values.get(asked.pid, ())
    if not values:
        return f"has no {asked.pid} in the graph"
    value = choose_value_stated_in_text(values, text or member.article.known)
    if (
        isinstance(value, PropertyValue)
        and bool(value.unit) != ("$unit" in asked.question)
        and asked.kind == "quantity"
    ):
        return f"gives {asked.pid} in {value.unit or 'no unit'}, which does not fit the question {asked.question}"
    return value


def verify_all_member_values(
    members: Sequence[SetMember], asked: PropertyPhrases, owner: SetMember | None
) -> MemberValues | ReasonForNoQuestion:
    """Return the value of every member, from its own article or from the owner's article next to its name.

    Refused if one value is missing, or if the units differ.
    """
    found: MemberValues = []
    names = [member.name for member in members]
    listing = owner.article.text if owner and owner.article else None
    for member in members:
        text_after_name = None if listing is None else index_passages_following_name(member.name, names, listing)
        value = verify_member_value(member, asked, text_after_name)
        if isinstance(value, str):
            reason, where = (LIST_NOT_VERIFIED, owner) if owner else (MEMBER_NOT_VERIFIED, member)
            title = where.article.evidence.title if where.article else where.name
            return ReasonForNoQuestion(reason, f"{member.name}, {asked.pid}: the article {title} {value}")
        found.append((member, value))
    if len(units := dict.fromkeys(value.unit for _, value in found)) > 1:
        detail = f"the articles give {asked.pid} in {', '.join(units)}; expected one unit"
        return ReasonForNoQuestion("units_differ", detail)
    return found
