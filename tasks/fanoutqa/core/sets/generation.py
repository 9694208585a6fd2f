"""Generate fan-out questions with decompositions from sets of a graph (our third source, besides FanOutQA's two, §3.1).

A question asks one property of each member, answered by the member's own article. There are three forms: `whole` asks
about all members, `ranked` about the five with the highest or lowest number or date, `filtered` about those beyond a
round threshold. The owner's article lists the members of a listed set; the question names those of a named set. If a
listed set is ranked by another property than the asked one, the owner's article must also give the ranking's values,
next to the names.

A set must be complete: if a member's article does not confirm its value, a listed set loses the question, while a named
set takes another member. Plans are tried in the order of their digests; a set gives only a few questions of each form.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import Template
from typing import Literal, NamedTuple

from factmill.tasks.core.authoring.fanout_wording import EACH, Wording, count_in_words, put_moment
from factmill.tasks.core.fingerprints import Json, canonical_json, digest_json, seed_from
from factmill.tasks.fanoutqa.core.questions import FanOutQuestion, SubQuestion
from factmill.tasks.fanoutqa.core.sets.lists import Properties, Property, find_property
from factmill.tasks.fanoutqa.core.sets.members import (
    NOT_LISTED,
    NOT_SAID,
    TOO_FEW,
    Found,
    Member,
    MemberSet,
    Refused,
    read_of_all,
    refuse_set,
    verify_member,
)
from factmill.tasks.fanoutqa.core.sets.values import LEAST_LEFT_OUT, Value, choose_threshold, is_tied, write_threshold
from factmill.tasks.text.values.answers import Answer, find_answer, read_known_text

Form = Literal["whole", "ranked", "filtered"]
MOST_ASKED, MOST_NAMED = 12, 8
"""Most members that a question on a listed set asks about, and that a question on a named set names."""
_KEPT_A_FORM, _KEPT_A_PROPERTY = 2, 1
"""Most questions of one form per set, and with one property, asked or ranked by: a second would reveal its answer."""
_ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Composed:
    """A question without its final wording."""

    question: FanOutQuestion
    wording: Wording
    statements: tuple[str, ...]
    """Ids of the statements with the values asked for, and with those that members are ranked by."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A question that was tried, with its outcome."""

    id: str
    """Digest of set, form and properties, for a named set also of its members; no answer is part of it."""
    told: str
    """The digested content as JSON."""
    name: str
    """The set and the properties in short: P47 Q183 P36."""
    items: tuple[str, ...]
    """QIDs of the owner and of the members it is about."""
    outcome: Composed | Refused


@dataclass(frozen=True, slots=True)
class _Plan:
    form: Form
    asked: Property
    by: Property | None
    """Property that ranks or filters members; None for the form `whole`."""
    is_high: bool
    """True: the highest or latest members, or those above or after the threshold."""


class _Need(NamedTuple):
    """What articles must say for a plan, and for similar plans, to succeed."""

    pid: str
    by: bool
    """True if members are ranked by it."""
    reason: str
    """Reason of the refusal if they do not say it."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """The members in the answer."""

    found: Found
    phrase: str
    """What sets them apart from the other members, as in "have the largest areas"; empty for all."""
    count: int = 0
    """Number of members that a ranking asks for; 0 for all, and for those beyond a threshold."""
    limit: str = ""
    """The threshold in words; empty if there is none."""


def make_questions(of: MemberSet, properties: Properties) -> Iterator[Tried]:
    """Yield the questions tried on a set, until it has given enough of each form."""
    if refused := refuse_set(of):
        yield _make_tried(of, None, of.members, lambda _: refused)
        return
    forms: Counter[Form] = Counter()
    used: Counter[str] = Counter()
    hopeless: set[_Need] = set()
    for plan in _list_plans(of, properties):
        needed = _name_needed(of, plan)
        is_used = any(used[pid] >= _KEPT_A_PROPERTY for pid in _list_pids(plan))
        if forms[plan.form] >= _KEPT_A_FORM or is_used or needed in hopeless:
            continue
        tried = _try_plan(of, plan)
        if isinstance(tried.outcome, Composed):
            forms[plan.form] += 1
            used.update(_list_pids(plan))
        elif tried.outcome.reason == needed.reason:
            # what articles do not say of all members is missing for the other forms too
            hopeless.add(needed)
        yield tried


def _try_plan(of: MemberSet, plan: _Plan) -> Tried:
    if of.owner is None:
        picked = _pick_named(of, plan)
        named = [each for each, _ in picked] if len(picked) >= of.least else of.members
        return _make_tried(of, plan, named, lambda row_id: _compose_named(row_id, of, plan, picked))
    owner = of.owner
    return _make_tried(of, plan, of.members, lambda row_id: _compose_listed(row_id, of, owner, plan))


def _make_tried(
    of: MemberSet, plan: _Plan | None, members: Sequence[Member], compose: Callable[[str], Composed | Refused]
) -> Tried:
    told: dict[str, Json] = {"set": of.kind.unit, "plan": list(_name_plan(plan)) if plan else []}
    told |= {"owner": of.owner.qid} if of.owner else {"members": [each.qid for each in members]}
    owners = [of.owner.qid] if of.owner else []
    name = " ".join([of.kind.unit, *owners, *(_list_pids(plan) if plan else ())])
    row_id = digest_json(told)[:_ID_LENGTH]
    items = (*owners, *(each.qid for each in members))
    return Tried(row_id, canonical_json(told), name, items, compose(row_id))


def _list_pids(plan: _Plan) -> list[str]:
    return list(dict.fromkeys(each.pid for each in (plan.asked, plan.by) if each))


# ── Plans ──


def _list_plans(of: MemberSet, properties: Properties) -> list[_Plan]:
    """Return the plans that the graph's values allow, in the order of their digests."""
    needed = len(of.members) if of.owner else of.least
    known = [
        find_property(properties, pid, of.kind)
        for pid in of.kind.properties
        if sum(bool(member.values.get(pid)) for member in of.members) >= needed
    ]
    seed = (of.kind.unit, *([of.owner.qid] if of.owner else [each.qid for each in of.members]))
    plans = [_Plan("whole", each, None, True) for each in known]
    can_leave_out = len(of.members) >= of.least + LEAST_LEFT_OUT
    for by in known:
        for asked in known if of.owner else [by]:
            if by.can_rank and can_leave_out:
                is_high = bool(seed_from(*seed, by.pid, asked.pid) % 2)
                plans += [_Plan("ranked", asked, by, is_high), _Plan("filtered", asked, by, not is_high)]
    return sorted(plans, key=lambda plan: seed_from(*seed, *_name_plan(plan)))


def _name_plan(plan: _Plan) -> tuple[str, ...]:
    direction = "high" if plan.is_high else "low"
    return (plan.form, plan.asked.pid, *((plan.by.pid, direction) if plan.by else ()))


def _name_needed(of: MemberSet, plan: _Plan) -> _Need:
    if of.owner is None:
        return _Need(plan.asked.pid, plan.by is not None, TOO_FEW)
    if plan.by and plan.by != plan.asked:
        return _Need(plan.by.pid, True, NOT_LISTED)
    return _Need(plan.asked.pid, False, NOT_SAID)


def _choose(of: MemberSet, plan: _Plan, found: Found) -> _Choice | Refused:
    """Return the members in the answer, all or by the plan's ranking or threshold; Refused if none fit, or on a tie."""
    by = plan.by
    if by is None:
        return _Choice(found, "")
    ordered = sorted(found, key=lambda each: each[1].order, reverse=plan.is_high)
    if plan.form == "filtered":
        limit = choose_threshold([value for _, value in ordered], plan.is_high, of.least)
        if limit is None:
            return Refused(
                "no_threshold",
                f"no round number parts {of.least} or more by {by.pid} from {LEAST_LEFT_OUT} or more others",
            )
        told = write_threshold(limit, ordered[0][1].unit, by.kind == "time")
        beyond = [each for each in ordered if (each[1].order[0] > limit) == plan.is_high]
        return _Choice(beyond, Template(by.above if plan.is_high else by.below).substitute(limit=told), limit=told)
    if len(ordered) < of.least + LEAST_LEFT_OUT:
        return Refused(
            TOO_FEW, f"{len(ordered)} members are ranked, expected {LEAST_LEFT_OUT} or more beside the {of.least}"
        )
    upper = ordered[: of.least + 1]
    for (one, value), (other, next_value) in pairwise(upper):
        if is_tied(value, next_value):
            return Refused("tie", f"{one.name} and {other.name} are {value.answer} and {next_value.answer} by {by.pid}")
    return _Choice(upper[:-1], by.most if plan.is_high else by.least, of.least)


# ── Named sets ──


def _pick_named(of: MemberSet, plan: _Plan) -> Found:
    """Return members whose articles say the asked value, by digest; of one unit, distinct in name, article and rank."""
    found: Found = []
    for member in sorted(of.members, key=lambda each: seed_from(*_name_plan(plan), each.qid)):
        value = _verify_named(member, plan.asked)
        if isinstance(value, Value) and not any(_is_alike(plan, (member, value), other) for other in found):
            found.append((member, value))
    return found[:MOST_NAMED]


def _verify_named(member: Member, asked: Property) -> Value | str:
    value = verify_member(member, asked)
    said = read_known_text(f"{member.name}{member.year}")
    if isinstance(value, Value) and find_answer(value.answer, said).found:
        return "its name says the answer"
    return value


def _is_alike(plan: _Plan, one: tuple[Member, Value], other: tuple[Member, Value]) -> bool:
    (member, value), (others, other_value) = one, other
    titles = [each.article.evidence.title for each in (member, others) if each.article]
    return (
        value.unit != other_value.unit
        or member.name == others.name
        or titles[0] == titles[-1]
        or (plan.by is not None and is_tied(value, other_value))
    )


def _compose_named(row_id: str, of: MemberSet, plan: _Plan, picked: Found) -> Composed | Refused:
    least = of.least + (LEAST_LEFT_OUT if plan.by else 0)
    if len(picked) < least:
        verified = [(each.name, _verify_named(each, plan.asked)) for each in of.members]
        told = "; ".join(f"{name} {found}" for name, found in verified if isinstance(found, str))
        return Refused(
            "too_few_members", f"{len(picked)} members are borne out, expected {least} or more; {told[:500]}"
        )
    choice = _choose(of, plan, picked)
    if isinstance(choice, Refused):
        return choice
    return _compose(row_id, of, plan, None, picked, choice, picked)


# ── Listed sets ──


def _compose_listed(row_id: str, of: MemberSet, owner: Member, plan: _Plan) -> Composed | Refused:
    by_list = plan.by if plan.by != plan.asked else None
    known = read_of_all(of.members, by_list or plan.asked, owner if by_list else None)
    if isinstance(known, Refused):
        return known
    choice = _choose(of, plan, known)
    if isinstance(choice, Refused):
        return choice
    asked: Found | Refused = known
    if by_list:
        asked = read_of_all([member for member, _ in choice.found], plan.asked, None)
        choice = choice if isinstance(asked, Refused) else replace(choice, found=asked)
    if isinstance(asked, Refused):
        return asked
    if len(asked) > MOST_ASKED:
        return Refused("too_many_members", f"{len(asked)} members are asked of, expected {MOST_ASKED} or fewer")
    group = _format_group(of)
    which = f"What are {group}?"
    if by_list:
        moment = by_list.format_moment(of.month)
        which = put_moment(f"Which {count_in_words(choice.count)}of {group} {choice.phrase}?", moment)
    assert owner.article is not None, "a set whose owner has no article is refused before"
    names: list[Answer] = [member.name for member, _ in asked]
    first = SubQuestion(_name_sub(row_id, 0), which, names, owner.article.evidence)
    return _compose(row_id, of, plan, first, asked, choice, known)


def _format_group(of: MemberSet) -> str:
    """Return a listed set in words; for a named set the class of its members."""
    if of.owner is None:
        return of.kind.members
    return of.kind.format_group(of.owner.name, of.month)


# ── The question ──


def _compose(
    row_id: str, of: MemberSet, plan: _Plan, first: SubQuestion | None, asked: Found, choice: _Choice, ranked: Found
) -> Composed | Refused:
    """Return the question over these members; Refused if one article, or the question itself, gives the answer.

    `first`: the sub-question for the members. `ranked`: all members with the values they were chosen by.
    """
    firsts = (first,) if first else ()
    leaves = [
        SubQuestion(
            id=_name_sub(row_id, at),
            question=_ask_of(of, plan.asked, member, value),
            answer=value.answer,
            evidence=member.article.evidence if member.article else None,
            depends_on=tuple(each.id for each in firsts),
        )
        for at, (member, value) in enumerate(asked, start=1)
    ]
    subs = (*firsts, *leaves)
    for article in (each.article for each in (of.owner, *(member for member, _ in asked)) if each):
        if article and all(find_answer(sub.answer, article.known).found is not False for sub in subs):
            return Refused("one_article_has_all", f"{article.evidence.title} says all {len(subs)} sub-answers")
    chosen_at = plan.by.format_moment(of.month) if plan.by else ""
    asked_at = plan.asked.format_moment(of.month)
    wording = Wording(
        group=_format_group(of),
        owner=of.owner.name if of.owner else "",
        names=() if of.owner else tuple(f"{of.kind.list_name(member.name)}{member.year}" for member, _ in asked),
        choice=f"{choice.phrase} {chosen_at}".strip(),
        count=choice.count,
        limit=choice.limit,
        asked=_ask_of_each(plan.asked, asked[0][1], "" if asked_at == chosen_at else asked_at),
        unit=asked[0][1].unit,
        month=of.month if (of.owner and of.kind.changes) or chosen_at or asked_at else "",
    )
    answer: dict[str, Answer] = {member.name: value.answer for member, value in choice.found}
    if told := wording.find_told(answer):
        return Refused("question_says_answer", f"a question about these names would say {', '.join(told)}")
    statements = dict.fromkeys(each for _, value in (*asked, *ranked) for each in value.statements)
    return Composed(FanOutQuestion(row_id, "", subs, answer, (of.kind.members,)), wording, tuple(statements))


def _name_sub(row_id: str, at: int) -> str:
    return digest_json([row_id, at])[:_ID_LENGTH]


def _ask_of(of: MemberSet, asked: Property, member: Member, value: Value) -> str:
    question = Template(asked.question).substitute(x=f"{of.kind.call(member.name)}{member.year}", unit=value.unit)
    return put_moment(question, asked.format_moment(of.month))


def _ask_of_each(asked: Property, value: Value, moment: str) -> str:
    question = put_moment(Template(asked.question).substitute(x=EACH, unit=value.unit), moment)
    return question[0].lower() + question[1:-1]
