"""Which facts are looked at."""

from support.rows.slaq_answers import judged_table

from tasks.slaq.core.mechanism.choosing import choose_facts

SHORT = [[1, 1, 0, 0, None], [1, 1, 1, 1, 1]]
LONG = [[1, 0, 1, 0, 1], [1, 1, 0, 0, 0]]


def test_facts_right_in_both_answers_and_in_one_are_chosen() -> None:
    chosen = choose_facts(judged_table(SHORT, LONG).to_pylist(), "m", "mine", 30, 0)
    assert {fact.id: (fact.kind, fact.right_short, fact.right_long) for fact in chosen.facts} == {
        "m/t0/1": ("aligned", 1, 1),
        "m/t0/2": ("misaligned", 1, 0),
        "m/t0/3": ("misaligned", 0, 1),
        "m/t1/1": ("aligned", 1, 1),
        "m/t1/2": ("aligned", 1, 1),
        "m/t1/3": ("misaligned", 1, 0),
        "m/t1/4": ("misaligned", 1, 0),
        "m/t1/5": ("misaligned", 1, 0),
    }
    assert chosen.counts == {"aligned": 3, "misaligned": 5, "wrong_in_both": 1, "unscored": 1}


def test_as_many_of_each_kind_are_drawn_by_seed() -> None:
    answers = judged_table([[1, 1, 1, 0, 0]] * 8, [[1, 1, 1, 1, 1]] * 8).to_pylist()
    drawn = [choose_facts(answers, "m", "mine", 4, seed).facts for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [sum(fact.kind == kind for fact in drawn[0]) for kind in ("aligned", "misaligned")] == [4, 4]


def test_what_was_asked_in_one_way_alone_is_no_fact() -> None:
    assert choose_facts(judged_table(SHORT, []).to_pylist(), "m", "mine", 30, 0).facts == ()
