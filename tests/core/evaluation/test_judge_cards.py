"""Test judge cards: how often a judge is right on right answers, and on wrong ones."""

from factmill.tasks.core.evaluation.human_labels import ItemToLabel, JudgeVerdictLabelScheme
from factmill.tasks.core.evaluation.judge_cards import (
    JudgeCard,
    JudgeIdentity,
    format_card_summary,
    make_judge_card,
)

JUDGE = JudgeIdentity(benchmark="graded", judge="strict", prompt_digest="a")
SCHEME = JudgeVerdictLabelScheme(
    instruction="How good is it?", classes={"F": "bad", "C": "fair", "B": "good"}, list_judged_parts=lambda _: (), prompts=(), right_labels=frozenset("BC")
)  # fmt: skip
GRADES = ["F"] * 10 + ["C"] * 6 + ["B"] * 4
"""The judge's grades of twenty answers, drawn from a hundred by grade."""


def make(verdicts: list[str], people: list[str]) -> JudgeCard:
    size = {"F": 50, "C": 30, "B": 20}
    items = {
        f"i{at}": ItemToLabel(
            id=f"i{at}", draw="d", evaluation="e-1", benchmark="graded", answer_id=f"a{at}", part="", setting="short",
            cluster=f"q{at}", question="?", gold="g", answer="a", stratum=f"short | {grade}", stratum_size=size[grade],
        )
        for at, grade in enumerate(GRADES)
    }  # fmt: skip
    labels = {f"i{at}": {"ada": label} for at, label in enumerate(people)}
    found = {f"i{at}": verdict for at, verdict in enumerate(verdicts)}
    return make_judge_card(JUDGE, SCHEME, labels, items, found, "0" * 64, "e-1")


def test_grades_that_count_as_right_become_one_in_judge_card_rates() -> None:
    # of 50 rejected, people accept 2/10; of 50 accepted, people reject only 1/4 of 20: 45 of 55 are accepted
    people = ["C", "B", *["F"] * 8, *["B"] * 6, "F", *["C"] * 3]
    card = make(GRADES, people)
    for rates in (card.rates[""], card.rates["short"]):
        assert (rates.sensitivity, rates.specificity, rates.size) == (round(45 / 55, 6), round(40 / 45, 6), 100)
    assert card.drawn_of == ("e-1",)
    assert JudgeCard.model_validate_json(card.model_dump_json()) == card


def test_labels_sampled_by_other_judges_grades_are_not_reweighted() -> None:
    card = make(["F", "C"] * 10, GRADES)
    assert card.rates["short"].size == 20


def test_judge_card_of_older_version_or_other_prompts_corrects_nothing() -> None:
    card = make(GRADES, GRADES)
    earlier = card.model_dump()
    del earlier["rates"], earlier["drawn_of"]
    assert JudgeCard.model_validate(earlier).rates == {}
    assert "so it corrects no rate" in format_card_summary(card, JUDGE.model_copy(update={"prompt_digest": "b"}))
