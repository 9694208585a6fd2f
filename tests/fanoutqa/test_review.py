"""Equal questions, and what the review makes of flags."""

from tasks.core.review import decide_items, flag_row
from tasks.fanoutqa.core.flags import FLAGS
from tasks.fanoutqa.core.rows import Flag
from tasks.fanoutqa.review import AUTO_RULES, name_flags


def test_the_policy_auto_has_a_rule_for_every_flag() -> None:
    items = [flag_row("fanoutqa", "q", code, "said", "seen") for code in FLAGS]
    decided = {item.flag: item.decision for item in decide_items(items, [], AUTO_RULES)}
    assert decided.keys() == FLAGS.keys()
    assert decided["unscored"] == "keep"
    assert decided["unproven_unit"] == "open"
    assert {decided[flag] for flag in FLAGS if flag not in ("unscored", "unproven_unit")} == {"drop"}


def test_a_flag_is_published_without_what_it_tells() -> None:
    flags = [
        Flag(code="answer_not_found", path="then[1]", detail="does not say 42"),
        Flag(code="duplicate", path="", detail="asks the same"),
        Flag(code="duplicate", path="", detail="asks the same as another"),
    ]
    assert name_flags(flags) == ["answer_not_found then[1]", "duplicate"]
