"""Sets with their members and articles, and checks that the articles confirm them (FanOutQA, §3.1).

A listed set must be complete: its owner's article names every member, and among them no other known item of their
class; every member has an article of its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.fanoutqa.core.questions import Evidence
from factmill.tasks.fanoutqa.core.sets.lists import Property, SetKind
from factmill.tasks.fanoutqa.core.sets.values import Value, find_beside, verify_value
from factmill.tasks.text.values.answers import Answer, KnownText, find_answer, read_known_text

MOST_MEMBERS = 30
"""Most members of a listed set."""
NOT_LISTED, NOT_SAID, TOO_FEW = "list_not_verified", "member_not_verified", "too_few_members"
"""Reject reasons: the owner's article, or a member's own, does not confirm the set; fewer members than needed."""
_YEAR_OF_TITLE = re.compile(r"\([^()]*\b([12][0-9]{3})\b[^()]*\)$")


@dataclass(frozen=True, slots=True)
class Article:
    """An article as of the epoch."""

    evidence: Evidence
    text: str
    known: KnownText
    """The same text, indexed for look-ups of answers."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a set, or its owner."""

    qid: str
    name: str
    article: Article | None
    trouble: str
    """Why there is no article; empty if there is one."""
    values: Mapping[str, tuple[Value, ...]]
    """PID → values in the graph."""

    @property
    def year(self) -> str:
        """The year that distinguishes its article's title from namesakes, as a suffix to its name; empty if none."""
        found = _YEAR_OF_TITLE.search(self.article.evidence.title) if self.article else None
        return f" ({found[1]})" if found and found[1] not in self.name else ""


@dataclass(frozen=True, slots=True)
class MemberSet:
    """A set to make questions from."""

    kind: SetKind
    owner: Member | None
    """None for a named set."""
    members: tuple[Member, ...]
    others: tuple[str, ...]
    """Names of other known items of the members' class."""
    month: str
    """The month of the epoch: November 2023."""
    least: int
    """Least number of members that a question asks about."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why no question was made."""

    reason: str
    detail: str
    retryable: bool = False
    """True if a later run may succeed."""


Found = list[tuple[Member, Value]]
"""Members, each with the value that an article says."""


def refuse_set(of: MemberSet) -> Refused | None:
    """Return why a set allows no question at all; None if it may allow one."""
    if len(of.members) < of.least:
        return Refused(TOO_FEW, f"{len(of.members)} members, expected {of.least} or more")
    if of.owner is None:
        return None
    if len(of.members) > MOST_MEMBERS:
        return Refused("too_many_members", f"{len(of.members)} members, expected {MOST_MEMBERS} or fewer")
    return _refuse_list(of, of.owner)


def _refuse_list(of: MemberSet, owner: Member) -> Refused | None:
    """Return why a listed set fails: its owner's article does not list it, or a member has no own article."""
    members = of.members
    if owner.article is None:
        return Refused("no_list_article", f"{owner.name}: {owner.trouble}")
    if lost := [each for each in members if each.article is None]:
        told = "; ".join(f"{each.name}: {each.trouble}" for each in lost[:3])
        return Refused("member_without_article", f"{len(lost)} of {len(members)}: {told}")
    titles = [each.article.evidence.title for each in (owner, *members) if each.article]
    if len(set(titles)) < len(titles) or len({each.name for each in members}) < len(members):
        return Refused("same_article", "two of the set have one name or one article; expected them to be told apart")
    return _find_gap(of, owner.article)


def _find_gap(of: MemberSet, article: Article) -> Refused | None:
    """Return which members an article does not name, or which other items it names among them; None if neither."""
    names: list[Answer] = [each.name for each in of.members]
    finding = find_answer(names, article.known)
    if finding.found is not True:
        return Refused(NOT_LISTED, f"{article.evidence.title} does not name {', '.join(finding.missing)}")
    for paragraph in article.text.split("\n\n"):
        if all(name in paragraph for name in map(str, names)):
            known = read_known_text(paragraph)
            if more := [name for name in of.others if name in paragraph and find_answer(name, known).found]:
                told = f"{article.evidence.title} names {', '.join(more)} among the members that the graph knows"
                return Refused(NOT_LISTED, told)
    return None


def verify_member(member: Member, asked: Property, text: KnownText | None = None) -> Value | str:
    """Return the value that the member's article (or `text`) says, or a phrase on why it says none."""
    if member.article is None:
        return member.trouble
    values = member.values.get(asked.pid, ())
    if not values:
        return f"has no {asked.pid} in the graph"
    value = verify_value(values, text or member.article.known)
    if isinstance(value, Value) and bool(value.unit) != asked.names_unit and asked.kind == "quantity":
        return f"is told in {value.unit or 'no unit'}, which does not fit the question {asked.question}"
    return value


def read_of_all(members: Sequence[Member], asked: Property, owner: Member | None) -> Found | Refused:
    """Return the value of every member, from its own article or from the owner's article next to its name.

    Refused if one value is missing, or if the units differ.
    """
    found: Found = []
    names = [member.name for member in members]
    for member in members:
        beside = find_beside(member.name, names, owner.article.text) if owner and owner.article else None
        value = verify_member(member, asked, beside)
        if isinstance(value, str):
            reason, where = (NOT_LISTED, owner) if owner else (NOT_SAID, member)
            title = where.article.evidence.title if where.article else where.name
            return Refused(reason, f"{member.name}, {asked.pid}: the article {title} {value}")
        found.append((member, value))
    if len(units := dict.fromkeys(value.unit for _, value in found)) > 1:
        return Refused("units_differ", f"{asked.pid} is told in {', '.join(units)}; expected one unit")
    return found
