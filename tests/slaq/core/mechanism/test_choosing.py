"""Which facts can be looked at, and in which order."""

from support.rows.slaq_answers import judged_table

from tasks.slaq.core.mechanism.choosing import choose_facts, count_kinds, format_kinds

SHORT = [[1, 1, 0, 0, None], [1, 1, 1, 1, 1]]
LONG = [[1, 0, 1, 0, 1], [1, 1, 0, 0, 0]]


def test_facts_right_in_both_answers_and_in_one_can_be_looked_at() -> None:
    chosen = choose_facts(judged_table(SHORT, LONG).to_pylist(), "m", "mine", 0)
    facts = [fact for drawn in chosen.drawn.values() for fact in drawn]
    assert {fact.id: (fact.kind, fact.right_short, fact.right_long) for fact in facts} == {
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


def test_the_seed_gives_the_order_of_the_draw() -> None:
    answers = judged_table([[1, 1, 1, 0, 0]] * 8, [[1, 1, 1, 1, 1]] * 8).to_pylist()
    drawn = [choose_facts(answers, "m", "mine", seed).drawn for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {kind: len(facts) for kind, facts in drawn[0].items()} == {"aligned": 24, "misaligned": 16}


def test_drawn_and_unscored_facts_are_counted_by_kind() -> None:
    kinds = count_kinds([("aligned", ""), ("aligned", "too_long"), ("aligned", "")])
    assert kinds == {"aligned": {"drawn": 3, "unscored": 1}, "misaligned": {"drawn": 0, "unscored": 0}}
    assert format_kinds(kinds) == "2 of 3 aligned facts, 0 of 0 misaligned facts"


def test_what_was_asked_in_one_way_alone_is_no_fact() -> None:
    assert choose_facts(judged_table(SHORT, []).to_pylist(), "m", "mine", 0).drawn == {"aligned": (), "misaligned": ()}
