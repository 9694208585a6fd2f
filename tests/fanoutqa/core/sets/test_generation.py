"""Test fan-out questions made from sets: forms, leaves, and refusals with reasons."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from support.rows.fanout_sets import (
    FOUNDED,
    HARBOUR,
    HARBOURS,
    LENGTH,
    NAMES,
    PEOPLE,
    PROPERTIES,
    make_islands,
    make_member,
    make_owner,
    make_set,
)

from factmill.tasks.fanoutqa.core.questions import FanOutQuestion, list_sub_questions
from factmill.tasks.fanoutqa.core.sets.generation import QuestionAttempt, UnwordedQuestion, try_questions_on_member_set
from factmill.tasks.fanoutqa.core.sets.members import MemberSet, ReasonForNoQuestion

LIST = f"The islands of the Grey Sea are {', '.join(NAMES)}."
TABLE = "\n\n".join(
    ["Islands", "Island", "Length in miles", *(cell for at, name in enumerate(NAMES) for cell in (name, f"{101 + at}"))]
)


def make(of: MemberSet) -> list[QuestionAttempt]:
    return list(try_questions_on_member_set(of, PROPERTIES))


def composed(of: MemberSet) -> dict[str, UnwordedQuestion]:
    """Map plans to questions; fail if any is refused."""
    found = {" ".join(_plan(tried)): tried.outcome for tried in make(of)}
    assert all(isinstance(outcome, UnwordedQuestion) for outcome in found.values()), found
    return {plan: outcome for plan, outcome in found.items() if isinstance(outcome, UnwordedQuestion)}


def refused(of: MemberSet) -> dict[str, tuple[str, str]]:
    """Map plans to reason and detail of their refusal."""
    return {
        " ".join(_plan(tried)): (tried.outcome.reason, tried.outcome.detail)
        for tried in make(of)
        if isinstance(tried.outcome, ReasonForNoQuestion)
    }


def try_plan(of: MemberSet, plan: str) -> tuple[str, UnwordedQuestion | ReasonForNoQuestion]:
    """Return a plan that begins like this, and its outcome, from the first set that reaches it."""
    for found in map(make, list_alike(of)):
        for tried in found:
            if (name := " ".join(_plan(tried))).startswith(plan):
                return name, tried.outcome
    raise LookupError(f"no set like this comes to {plan}")


def list_alike(of: MemberSet) -> Iterator[MemberSet]:
    """Yield sets that differ only by their ids, and so by the order of plans."""
    for number in range(100, 150):
        if of.owner:
            yield replace(of, owner=replace(of.owner, qid=f"Q{number}"))
        else:
            yield replace(of, members=tuple(replace(each, qid=f"{each.qid}{number}") for each in of.members))


def _plan(tried: QuestionAttempt) -> Sequence[str]:
    plan: list[str] = json.loads(tried.key_json)["plan"]
    return plan


def list_subs(question: FanOutQuestion) -> list[tuple[str, str, object, str]]:
    return [
        (path, sub.question, sub.answer, sub.evidence.title if sub.evidence else "")
        for path, sub in list_sub_questions(question)
    ]


def test_list_question_asks_property_of_all_members_via_list_article() -> None:
    found = composed(make_set(make_owner(LIST), make_islands(5), HARBOUR))
    assert list(found) == [f"whole {HARBOUR}"]
    made = found[f"whole {HARBOUR}"]
    assert made.question.answer == dict(zip(NAMES[:5], HARBOURS, strict=False))
    assert list_subs(made.question)[:2] == [
        ("strategy[0]", "What are the islands of the Grey Sea?", list(NAMES[:5]), "Grey Sea"),
        ("then[0]", "What is the harbour of the island Alsen?", "Port Alpha", "Alsen"),
    ]
    assert len(made.question.articles) == 6
    first, *others = made.question.decomposition
    assert all(each.depends_on == (first.id,) for each in others)
    assert (made.wording.group, made.wording.owner) == ("the islands of the Grey Sea", "Grey Sea")
    assert (made.wording.choice, made.wording.asked) == ("", "what is the harbour of each of them")


def test_ranked_list_question_answers_five_members_with_ranking_values() -> None:
    plan, made = try_plan(make_set(make_owner(LIST), make_islands(), LENGTH), "ranked")
    assert isinstance(made, UnwordedQuestion)
    lengths = dict(zip(NAMES, range(101, 108), strict=True))
    best = sorted(lengths, key=lambda name: lengths[name], reverse="high" in plan)[:5]
    assert made.question.answer == {name: lengths[name] for name in best}
    assert len(made.question.decomposition) == 8
    assert made.wording.choice == ("are the longest" if "high" in plan else "are the shortest")
    assert (made.wording.count, made.wording.unit) == (5, "miles")


def test_ranked_list_question_can_ask_second_property_of_top_five() -> None:
    of = make_set(make_owner(f"{LIST}\n\n{TABLE}"), make_islands(7, without=[LENGTH]), HARBOUR, LENGTH)
    plan, made = try_plan(of, f"ranked {HARBOUR}")
    assert isinstance(made, UnwordedQuestion)
    five = list(NAMES[6:1:-1] if "high" in plan else NAMES[:5])
    which = f"Which five of the islands of the Grey Sea are the {'longest' if 'high' in plan else 'shortest'}?"
    assert list_subs(made.question)[0] == ("strategy[0]", which, five, "Grey Sea")
    assert made.question.answer == {name: HARBOURS[NAMES.index(name)] for name in five}
    assert len(made.question.articles) == 6


def test_named_set_questions_have_no_list_step() -> None:
    of = make_set(None, make_islands(), HARBOUR, FOUNDED, LENGTH)
    for form in ("whole", "ranked", "filtered"):
        _, made = try_plan(of, form)
        assert isinstance(made, UnwordedQuestion)
        assert isinstance(made.question.answer, dict)
        assert len(made.question.decomposition) == len(made.wording.names) == 7
        assert len(made.question.answer) == (made.wording.count or len(made.question.answer)) >= 5
        assert {path.split("[")[0] for path, *_ in list_subs(made.question)} == {"strategy"}
        assert set(made.wording.names) == set(NAMES)


@pytest.mark.parametrize("form", ["ranked", "filtered"])
def test_ranked_and_filtered_questions_leave_out_at_least_two_members(form: str) -> None:
    for owner in (make_owner(LIST), None):
        _, made = try_plan(make_set(owner, make_islands(7), LENGTH), form)
        assert isinstance(made, UnwordedQuestion)
        assert isinstance(made.question.answer, dict)
        assert len(made.question.answer) == 5
        with pytest.raises(LookupError):
            try_plan(make_set(owner, make_islands(6), LENGTH), form)


def test_filtered_question_answers_exactly_members_beyond_threshold() -> None:
    _, filtered = try_plan(make_set(None, make_islands(), HARBOUR, FOUNDED), "filtered")
    assert isinstance(filtered, UnwordedQuestion)
    assert isinstance(filtered.question.answer, dict)
    assert 5 <= len(filtered.question.answer) < len(filtered.question.decomposition)
    years = {name: 1801 + 10 * at for at, name in enumerate(NAMES)}
    limit, is_after = int(filtered.wording.limit), "after" in filtered.wording.choice
    assert set(filtered.question.answer) == {name for name, year in years.items() if (year > limit) == is_after}


def test_question_about_changing_property_states_month() -> None:
    made = composed(make_set(None, make_islands(5), PEOPLE))[f"whole {PEOPLE}"]
    assert made.wording.month == "May 2020"
    assert made.wording.asked == "what is the population of each of them when last counted in May 2020"
    assert all(sub.question.endswith(" when last counted in May 2020?") for sub in made.question.decomposition)


def test_unverified_member_rejects_list_question_but_only_leaves_named_set() -> None:
    islands = [*make_islands(6), make_member(7, "Gorm", "Gorm is an island.", 6)]
    reason, detail = refused(make_set(make_owner(LIST), islands, HARBOUR))[f"whole {HARBOUR}"]
    assert reason == "member_not_verified"
    assert detail == "Gorm, P1: the article Gorm does not say Port Eta"
    made = composed(make_set(None, islands, HARBOUR))[f"whole {HARBOUR}"]
    assert set(made.wording.names) == set(NAMES[:6])


def test_unverified_property_is_not_retried_in_every_question_form() -> None:
    islands = make_islands(7, without=[LENGTH])
    assert len(refused(make_set(make_owner(LIST), islands, LENGTH))) == 1
    # one for the whole set, one for the plan that omits members
    assert len(refused(make_set(None, islands, LENGTH))) == 2


@pytest.mark.parametrize(
    ("of", "reason", "part"),
    [
        (make_set(make_owner(LIST), make_islands(4)), "too_few_members", "4 members, expected 5 or more"),
        (make_set(None, make_islands(4)), "too_few_members", "4 members"),
        (make_set(make_owner(LIST), make_islands(5) * 7), "too_many_members", "35 members, expected 30 or fewer"),
        (make_set(make_owner(None), make_islands()), "no_list_article", "Grey Sea: there is no such page"),
        (
            make_set(make_owner(LIST), [*make_islands(5), make_member(6, "Fenn", None, 5)]),
            "member_without_article",
            ": Fenn: there is no such page",
        ),
        (
            make_set(make_owner("Alsen and Brand lie in it."), make_islands()),
            "list_not_verified",
            "not name Corvo, Dorn",
        ),
        (
            make_set(
                make_owner(LIST.replace("Gorm", "Gorm and Hestur")), make_islands(), other_names=("Hestur", "Skye")
            ),
            "list_not_verified",
            "Grey Sea names Hestur ",
        ),
        (
            make_set(make_owner(LIST), [*make_islands(5), *make_islands(1)]),
            "same_article",
            "the same name or the same article",
        ),
    ],
)
def test_set_without_possible_question_is_refused_once(of: MemberSet, reason: str, part: str) -> None:
    found = refused(of)
    assert len(found) == 1
    assert found[""][0] == reason
    assert part in found[""][1]


def test_question_is_refused_when_one_article_has_all_answers() -> None:
    text = f"{LIST} Their harbours are {', '.join(HARBOURS)}."
    found = refused(make_set(make_owner(text), make_islands(), HARBOUR))
    reason, detail = found[f"whole {HARBOUR}"]
    assert (reason, detail.startswith("Grey Sea "), "8" in detail) == ("one_article_has_all", True, True)


def test_tie_refuses_ranked_list_and_is_excluded_from_named_set() -> None:
    islands = make_islands()
    twin = islands[1].values[LENGTH]
    text = "It is 102 miles long."
    for at in (2, 3, 4):
        made = make_member(at + 1, NAMES[at], text, at)
        islands[at] = replace(made, values={**made.values, LENGTH: twin})
    for owner, reason in ((make_owner(LIST), "tie"), (None, "too_few_members")):
        _, outcome = try_plan(make_set(owner, islands, LENGTH), "ranked")
        assert isinstance(outcome, ReasonForNoQuestion)
        assert outcome.reason == reason


def test_numbers_in_different_units_are_not_ranked_together() -> None:
    islands = make_islands()
    (value,) = islands[0].values[LENGTH]
    islands[0] = replace(islands[0], values={LENGTH: (replace(value, unit="furlongs"),)})
    found = refused(make_set(make_owner(LIST), islands, LENGTH))
    reason, detail = found[f"whole {LENGTH}"]
    assert (reason, " P4 in furlongs, miles; " in detail) == ("units_differ", True)
    assert all("Alsen" not in made.wording.names for made in composed(make_set(None, islands, LENGTH)).values())


def test_member_whose_name_contains_its_answer_is_excluded() -> None:
    islands = make_islands(6)
    islands[0] = replace(islands[0], name="Port Alpha Island")
    made = composed(make_set(None, islands, HARBOUR))[f"whole {HARBOUR}"]
    assert set(made.wording.names) == set(NAMES[1:6])


def test_set_yields_at_most_two_questions_per_form_and_one_per_property() -> None:
    for of in list_alike(make_set(None, make_islands(), HARBOUR, FOUNDED, LENGTH, PEOPLE)):
        found = composed(of)
        forms = [plan.split()[0] for plan in found]
        assert max(map(forms.count, forms)) <= 2
        asked = [plan.split()[1] for plan in found]
        assert len(set(asked)) == len(asked) >= 3


def test_ranking_property_of_list_is_not_also_asked() -> None:
    text = f"{LIST}\n\n{TABLE}"
    for of in list_alike(make_set(make_owner(text), make_islands(7, without=[PEOPLE]), HARBOUR, LENGTH)):
        plans = [_plan(tried) for tried in make(of) if isinstance(tried.outcome, UnwordedQuestion)]
        used = [pid for plan in plans for pid in {*plan[1:3]} & {HARBOUR, LENGTH}]
        assert len(used) == len(set(used)) >= 1


def test_question_lists_ids_of_its_items() -> None:
    islands = [*make_islands(6), make_member(7, "Gorm", "Gorm is an island.", 6)]
    (named,) = make(make_set(None, islands, HARBOUR))
    assert set(named.items) == {f"Q{number}" for number in range(1, 7)}
    (listed,) = make(make_set(make_owner(LIST), make_islands(5), HARBOUR))
    assert listed.items == ("Q99", *(f"Q{number}" for number in range(1, 6)))


def test_question_ids_depend_on_set_not_on_answers() -> None:
    of = make_set(make_owner(LIST), make_islands(), HARBOUR)
    changed = [replace(each, values={HARBOUR: ()}) for each in make_islands()]
    before = {tried.id: tried.key_json for tried in make(of)}
    assert all(len(each) == 16 for each in before)
    island = make_islands()[0]
    other_answer = replace(
        island,
        values={**island.values, HARBOUR: (replace(island.values[HARBOUR][0], answer="Port Omega"),)},
    )
    assert {tried.id for tried in make(replace(of, members=(other_answer, *of.members[1:])))} == set(before)
    assert make(replace(of, members=tuple(changed))) == []


def test_namesake_is_named_with_year_from_title_unless_year_is_answer() -> None:
    first, *others = make_islands()
    assert first.article is not None
    title = replace(first.article.evidence, title="Alsen (1801 settlement)")
    first = replace(first, article=replace(first.article, evidence=title))
    outcome = composed(make_set(None, [first, *others], HARBOUR))[f"whole {HARBOUR}"]
    assert "the island Alsen (1801)" in " ".join(sub.question for sub in outcome.question.decomposition)
    assert "Alsen (1801)" in outcome.wording.names
    assert isinstance(outcome.question.answer, dict)
    assert "Alsen" in outcome.question.answer
    reason, detail = refused(make_set(None, [first, *others[:4]], FOUNDED))[f"whole {FOUNDED}"]
    assert (reason, "Alsen has a name that gives the answer" in detail) == ("too_few_members", True)
