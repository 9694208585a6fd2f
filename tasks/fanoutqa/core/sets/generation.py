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
from typing import Literal

from factmill.tasks.core.authoring.question_wording import (
    EACH_MEMBER_PHRASE,
    PiecesToWordQuestionFrom,
    insert_moment,
    spell_out_count_with_space,
)
from factmill.tasks.core.digests import JsonValue, canonical_json, derive_seed, digest_json
from factmill.tasks.fanoutqa.core.questions import FanOutQuestion, SubQuestion
from factmill.tasks.fanoutqa.core.sets.members import (
    LIST_NOT_VERIFIED,
    MEMBER_NOT_VERIFIED,
    TOO_FEW_MEMBERS,
    MemberSet,
    MemberValues,
    ReasonForNoQuestion,
    SetMember,
    find_set_refusal,
    verify_all_member_values,
    verify_member_value,
)
from factmill.tasks.fanoutqa.core.sets.property_values import (
    MIN_LEFT_OUT,
    PropertyValue,
    choose_round_threshold,
    format_threshold,
    is_tied,
)
from factmill.tasks.fanoutqa.core.sets.set_kinds import PropertyPhrases, PropertyPhraseTable, get_property_phrases
from factmill.tasks.text.values.answer_search import AnswerValue, find_answer_and_missing_parts, index_text

QuestionForm = Literal["whole", "ranked", "filtered"]
MAX_MEMBERS_ASKED, MAX_MEMBERS_NAMED = 12, 8
"""Most members that a question on a listed set asks about, and that a question on a named set names."""
_QUESTIONS_PER_FORM, _QUESTIONS_PER_PROPERTY = 2, 1
"""Most questions of one form per set, and with one property, asked or ranked by: a second would reveal its answer."""
_ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class UnwordedQuestion:
    """A question without its final wording."""

    question: FanOutQuestion
    wording: PiecesToWordQuestionFrom
    statements: tuple[str, ...]
    """Ids of the statements with the values asked for, and with those that members are ranked by."""


@dataclass(frozen=True, slots=True)
class QuestionAttempt:
    """A question that was tried, with its outcome."""

    id: str
    """Digest of set, form and properties, for a named set also of its members; no answer is part of it."""
    key_json: str
    """The digested content as JSON."""
    short_name: str
    """The set and the properties in short: P47 Q183 P36."""
    items: tuple[str, ...]
    """QIDs of the owner and of the members it is about."""
    outcome: UnwordedQuestion | ReasonForNoQuestion


@dataclass(frozen=True, slots=True)
class _QuestionPlan:
    form: QuestionForm
    asked: PropertyPhrases
    by: PropertyPhrases | None
    """Property that ranks or filters members; None for the form `whole`."""
    is_high: bool
    """True: the highest or latest members, or those above or after the threshold."""

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies the plan among those of a set."""
        direction = "high" if self.is_high else "low"
        return (self.form, self.asked.pid, *((self.by.pid, direction) if self.by else ()))

    @property
    def pids(self) -> list[str]:
        return list(dict.fromkeys(each.pid for each in (self.asked, self.by) if each))

    def get_evidence_need(self, is_listed: bool) -> tuple[str, bool, str]:
        """Return what articles must say for this and similar plans to succeed.

        As the property, whether members are ranked by it, and the reason of the refusal if they do not say it.
        """
        if not is_listed:
            return self.asked.pid, self.by is not None, TOO_FEW_MEMBERS
        if self.by and self.by != self.asked:
            return self.by.pid, True, LIST_NOT_VERIFIED
        return self.asked.pid, False, MEMBER_NOT_VERIFIED


@dataclass(frozen=True, slots=True)
class _AnswerMembers:
    """The members in the answer."""

    member_values: MemberValues
    phrase: str
    """What sets them apart from the other members, as in "have the largest areas"; empty for all."""
    count: int = 0
    """Number of members that a ranking asks for; 0 for all, and for those beyond a threshold."""
    limit: str = ""
    """The threshold in words; empty if there is none."""


def try_questions_on_member_set(member_set: MemberSet, properties: PropertyPhraseTable) -> Iterator[QuestionAttempt]:
    """Yield the questions tried on a set, until it has given enough of each form."""
    if refused := find_set_refusal(member_set):
        yield _make_question_attempt(member_set, None, member_set.members, lambda _: refused)
        return
    forms: Counter[QuestionForm] = Counter()
    used: Counter[str] = Counter()
    hopeless: set[tuple[str, bool, str]] = set()
    for plan in _list_plans(member_set, properties):
        needed = plan.get_evidence_need(is_listed=member_set.owner is not None)
        is_used = any(used[pid] >= _QUESTIONS_PER_PROPERTY for pid in plan.pids)
        if forms[plan.form] >= _QUESTIONS_PER_FORM or is_used or needed in hopeless:
            continue
        tried = _try_plan(member_set, plan)
        if isinstance(tried.outcome, UnwordedQuestion):
            forms[plan.form] += 1
            used.update(plan.pids)
        elif tried.outcome.reason == needed[-1]:
            # what articles do not say of all members is missing for the other forms too
            hopeless.add(needed)
        yield tried


def _try_plan(member_set: MemberSet, plan: _QuestionPlan) -> QuestionAttempt:
    if owner := member_set.owner:
        return _make_question_attempt(
            member_set,
            plan,
            member_set.members,
            lambda row_id: _compose_question_on_set_of_owner(row_id, member_set, owner, plan),
        )
    picked = _select_distinct_verified_members(member_set, plan)
    named = [each for each, _ in picked] if len(picked) >= member_set.min_members else member_set.members
    return _make_question_attempt(
        member_set, plan, named, lambda row_id: _compose_question_on_named_set(row_id, member_set, plan, picked)
    )


def _make_question_attempt(
    member_set: MemberSet,
    plan: _QuestionPlan | None,
    members: Sequence[SetMember],
    compose: Callable[[str], UnwordedQuestion | ReasonForNoQuestion],
) -> QuestionAttempt:
    identity: dict[str, JsonValue] = {"set": member_set.kind.unit, "plan": list(plan.key) if plan else []}
    identity |= {"owner": member_set.owner.qid} if member_set.owner else {"members": [each.qid for each in members]}
    owners = [member_set.owner.qid] if member_set.owner else []
    name = " ".join([member_set.kind.unit, *owners, *(plan.pids if plan else ())])
    row_id = digest_json(identity)[:_ID_LENGTH]
    items = (*owners, *(each.qid for each in members))
    return QuestionAttempt(row_id, canonical_json(identity), name, items, compose(row_id))


# ── Plans ──


def _list_plans(member_set: MemberSet, properties: PropertyPhraseTable) -> list[_QuestionPlan]:
    """Return the plans that the graph's values allow, in the order of their digests."""
    members, owner = member_set.members, member_set.owner
    needed = len(members) if owner else member_set.min_members
    known = [
        get_property_phrases(properties, pid, member_set.kind)
        for pid in member_set.kind.properties
        if sum(bool(member.values.get(pid)) for member in members) >= needed
    ]
    seed = (member_set.kind.unit, *([owner.qid] if owner else [each.qid for each in members]))
    plans = [_QuestionPlan("whole", each, None, True) for each in known]
    can_leave_out = len(members) >= member_set.min_members + MIN_LEFT_OUT
    for by in known:
        for asked in known if owner else [by]:
            if by.kind != "item" and can_leave_out:
                is_high = bool(derive_seed(*seed, by.pid, asked.pid) % 2)
                plans += [
                    _QuestionPlan("ranked", asked, by, is_high),
                    _QuestionPlan("filtered", asked, by, not is_high),
                ]
    return sorted(plans, key=lambda plan: derive_seed(*seed, *plan.key))


def _choose_answer_members(
    member_set: MemberSet, plan: _QuestionPlan, found: MemberValues
) -> _AnswerMembers | ReasonForNoQuestion:
    """Return the members in the answer, all or by the plan's ranking or threshold; Refused if none fit, or on a tie."""
    by, least = plan.by, member_set.min_members
    if by is None:
        return _AnswerMembers(found, "")
    ordered = sorted(found, key=lambda each: each[1].sort_key, reverse=plan.is_high)
    if plan.form == "filtered":
        limit = choose_round_threshold([value for _, value in ordered], plan.is_high, least)
        if limit is None:
            detail = (
                f"no round threshold of {by.pid} separates {least} or more members from {MIN_LEFT_OUT} or more others"
            )
            return ReasonForNoQuestion("no_threshold", detail)
        threshold = format_threshold(limit, ordered[0][1].unit, by.kind == "time")
        beyond = [each for each in ordered if (each[1].sort_key[0] > limit) == plan.is_high]
        phrase = Template(by.above if plan.is_high else by.below).substitute(limit=threshold)
        return _AnswerMembers(beyond, phrase, limit=threshold)
    if len(ordered) < least + MIN_LEFT_OUT:
        detail = f"{len(ordered)} members can be ranked, expected {least + MIN_LEFT_OUT} or more ({least} in the answer, {MIN_LEFT_OUT} left out)"
        return ReasonForNoQuestion(TOO_FEW_MEMBERS, detail)
    for (one, value), (other, next_value) in pairwise(ordered[: least + 1]):
        if is_tied(value, next_value):
            detail = f"{one.name} ({value.answer}) and {other.name} ({next_value.answer}) are tied by {by.pid}"
            return ReasonForNoQuestion("tie", detail)
    return _AnswerMembers(ordered[:least], by.most if plan.is_high else by.least, least)


# ── Named sets ──


def _select_distinct_verified_members(member_set: MemberSet, plan: _QuestionPlan) -> MemberValues:
    """Return members whose articles say the asked value, by digest; of one unit, distinct in name, article and rank."""
    found: MemberValues = []
    for member in sorted(member_set.members, key=lambda each: derive_seed(*plan.key, each.qid)):
        value = _verify_value_not_revealed_by_name(member, plan.asked)
        if isinstance(value, PropertyValue) and not any(_is_confusable(plan, (member, value), each) for each in found):
            found.append((member, value))
    return found[:MAX_MEMBERS_NAMED]


def _verify_value_not_revealed_by_name(member: SetMember, asked: PropertyPhrases) -> PropertyValue | str:
    value = verify_member_value(member, asked)
    name_index = index_text(f"{member.name}{member.year_suffix}")
    if isinstance(value, PropertyValue) and find_answer_and_missing_parts(value.answer, name_index).found:
        return "has a name that gives the answer away"
    return value


def _is_confusable(
    plan: _QuestionPlan, one: tuple[SetMember, PropertyValue], other: tuple[SetMember, PropertyValue]
) -> bool:
    (member, value), (others, other_value) = one, other
    titles = [each.article.evidence.title for each in (member, others) if each.article]
    return (
        value.unit != other_value.unit
        or member.name == others.name
        or titles[0] == titles[-1]
        or (plan.by is not None and is_tied(value, other_value))
    )


def _compose_question_on_named_set(
    row_id: str, member_set: MemberSet, plan: _QuestionPlan, picked: MemberValues
) -> UnwordedQuestion | ReasonForNoQuestion:
    least = member_set.min_members + (MIN_LEFT_OUT if plan.by else 0)
    if len(picked) < least:
        verified = [(each.name, _verify_value_not_revealed_by_name(each, plan.asked)) for each in member_set.members]
        problems = "; ".join(f"{name} {found}" for name, found in verified if isinstance(found, str))
        detail = f"articles confirm {len(picked)} members, expected {least} or more; {problems[:500]}"
        return ReasonForNoQuestion(TOO_FEW_MEMBERS, detail)
    choice = _choose_answer_members(member_set, plan, picked)
    if isinstance(choice, ReasonForNoQuestion):
        return choice
    return _compose_question(row_id, member_set, plan, None, picked, choice, picked)


# ── Listed sets ──


def _compose_question_on_set_of_owner(
    row_id: str, member_set: MemberSet, owner: SetMember, plan: _QuestionPlan
) -> UnwordedQuestion | ReasonForNoQuestion:
    by_list = plan.by if plan.by != plan.asked else None
    known = verify_all_member_values(member_set.members, by_list or plan.asked, owner if by_list else None)
    if isinstance(known, ReasonForNoQuestion):
        return known
    choice = _choose_answer_members(member_set, plan, known)
    if isinstance(choice, ReasonForNoQuestion):
        return choice
    asked: MemberValues | ReasonForNoQuestion = known
    if by_list:
        asked = verify_all_member_values([member for member, _ in choice.member_values], plan.asked, None)
        choice = choice if isinstance(asked, ReasonForNoQuestion) else replace(choice, member_values=asked)
    if isinstance(asked, ReasonForNoQuestion):
        return asked
    if len(asked) > MAX_MEMBERS_ASKED:
        detail = f"the question asks about {len(asked)} members, expected {MAX_MEMBERS_ASKED} or fewer"
        return ReasonForNoQuestion("too_many_members", detail)
    group = _format_set_phrase(member_set)
    which = f"What are {group}?"
    if by_list:
        moment = by_list.format_moment(member_set.month)
        which = insert_moment(f"Which {spell_out_count_with_space(choice.count)}of {group} {choice.phrase}?", moment)
    assert owner.article is not None, "a set whose owner has no article is refused earlier"
    names: list[AnswerValue] = [member.name for member, _ in asked]
    first = SubQuestion(_make_generated_sub_question_id(row_id, 0), which, names, owner.article.evidence)
    return _compose_question(row_id, member_set, plan, first, asked, choice, known)


def _format_set_phrase(member_set: MemberSet) -> str:
    """Return a listed set in words; for a named set the class of its members."""
    if member_set.owner is None:
        return member_set.kind.members
    return member_set.kind.format_group(member_set.owner.name, member_set.month)


# ── The question ──


def _compose_question(
    row_id: str,
    member_set: MemberSet,
    plan: _QuestionPlan,
    first: SubQuestion | None,
    asked: MemberValues,
    choice: _AnswerMembers,
    ranked: MemberValues,
) -> UnwordedQuestion | ReasonForNoQuestion:
    """Return the question over these members; Refused if one article, or the question itself, gives the answer.

    `first`: the sub-question for the members. `ranked`: all members with the values they were chosen by.
    """
    kind, owner, month = member_set.kind, member_set.owner, member_set.month
    chosen_at = plan.by.format_moment(month) if plan.by else ""
    asked_at = plan.asked.format_moment(month)
    leaves = [
        SubQuestion(
            id=_make_generated_sub_question_id(row_id, at),
            question=plan.asked.format_question(
                f"{kind.format_member_name(member.name)}{member.year_suffix}", value.unit, asked_at
            ),
            answer=value.answer,
            evidence=member.article.evidence if member.article else None,
            depends_on=(first.id,) if first else (),
        )
        for at, (member, value) in enumerate(asked, start=1)
    ]
    subs = (*((first,) if first else ()), *leaves)
    for article in (each.article for each in (owner, *(member for member, _ in asked)) if each):
        if article and all(find_answer_and_missing_parts(sub.answer, article.known).found is not False for sub in subs):
            detail = f"{article.evidence.title} contains all {len(subs)} sub-answers"
            return ReasonForNoQuestion("one_article_has_all", detail)
    unit = asked[0][1].unit
    clause = plan.asked.format_question(EACH_MEMBER_PHRASE, unit, "" if asked_at == chosen_at else asked_at)
    wording = PiecesToWordQuestionFrom(
        group=_format_set_phrase(member_set),
        owner=owner.name if owner else "",
        names=()
        if owner
        else tuple(f"{kind.format_listed_name(member.name)}{member.year_suffix}" for member, _ in asked),
        choice=f"{choice.phrase} {chosen_at}".strip(),
        count=choice.count,
        limit=choice.limit,
        asked=clause[0].lower() + clause[1:-1],
        unit=unit,
        month=month if (owner and kind.changes) or chosen_at or asked_at else "",
    )
    answer: dict[str, AnswerValue] = {member.name: value.answer for member, value in choice.member_values}
    if revealed := wording.find_revealed_answers(answer):
        detail = f"a question with these names would give away {', '.join(revealed)}"
        return ReasonForNoQuestion("question_says_answer", detail)
    statements = dict.fromkeys(each for _, value in (*asked, *ranked) for each in value.statements)
    return UnwordedQuestion(FanOutQuestion(row_id, "", subs, answer, (kind.members,)), wording, tuple(statements))


def _make_generated_sub_question_id(row_id: str, at: int) -> str:
    return digest_json([row_id, at])[:_ID_LENGTH]
