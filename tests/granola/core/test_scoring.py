"""From answers to scores, over columns."""

from typing import Any

import pyarrow as pa
import pytest

from tasks.core.measures.metrics import Metric, measure
from tasks.core.rows import arrow_table
from tasks.granola.core.evaluation_rows import AnsweredQuestion, GranolaAnswer
from tasks.granola.core.scoring import guess_answers, list_scores, score_answers


def answered(number: int, answer: str, levels: list[str], **changed: Any) -> AnsweredQuestion:
    columns: dict[str, Any] = {
        "id": f"greedy/q{number}", "question_id": f"q{number}", "item": f"q{number}", "cluster": f"q{number}",
        "setting": "greedy", "question": "Where was X born?", "answer": answer, "answer_read": answer, "samples": [],
        "finish": "stop", "unscored": "" if answer else "no_answer", "detail": "", "tokens_in": 0, "tokens_out": 0,
        "model": "m", "call": "", "relation": "P19", "question_entity_popularity": number * 10,
        "granola_answers": levels,
    }  # fmt: skip
    return AnsweredQuestion.model_validate(columns | changed)


LEVELS = ["Voronezh", "Voronezh Oblast", "Russia"]
ROWS = [
    answered(1, "voronezh", LEVELS),
    answered(2, "the Voronezh Oblast", LEVELS),
    answered(3, "Russia", LEVELS, relation="P20", question_entity_popularity=None),
    answered(4, "Kursk", LEVELS, relation="P20"),
    answered(5, "I don't know.", LEVELS),
    answered(6, "", LEVELS),
    answered(7, "", LEVELS, unscored="missing"),
    answered(8, "I cannot help with that", LEVELS, unscored="refused"),
]


def score(rows: list[AnsweredQuestion], similarity: list[float | None] | None = None) -> pa.Table:
    scored = score_answers(arrow_table(AnsweredQuestion, rows), 0.5)
    column = pa.array(similarity or [None] * len(rows), pa.float64())
    return scored.append_column("semantic_similarity", column)


def find(metrics: list[Metric], metric: str, group: str = "") -> Metric:
    return next(each for each in metrics if (each.metric, each.group) == (metric, group))


def test_answers_get_levels_and_idk() -> None:
    scored = score(ROWS)
    assert scored["matched_level"].to_pylist() == [1, 1, 3, 0, 0, 0, None, 0]
    assert scored["is_idk"].to_pylist() == [False, False, False, False, True, False, False, True]
    assert scored["level_f1"].to_pylist()[1] == pytest.approx([2 / 3, 1, 0])
    assert scored["level_f1"].to_pylist()[6] == []
    assert scored.schema.names == list(GranolaAnswer.model_fields)


def test_accuracy_takes_level_1_alone_and_counts_idk_as_wrong() -> None:
    metrics = measure(list(list_scores(score(ROWS), 0.5, 2)))
    values = {each.metric: (each.value, each.n, each.n_unscored) for each in metrics if not each.group_by}
    assert values["accuracy"] == (pytest.approx(2 / 7, abs=1e-6), 7, 1)
    assert values["granola_accuracy"] == (pytest.approx(3 / 7, abs=1e-6), 7, 1)
    # without the two that say IDK; the silent one is wrong
    assert values["selective_accuracy"] == (0.4, 5, 1)
    assert values["selective_granola_accuracy"] == (0.6, 5, 1)
    # 1 + 1 + e^-1 of seven
    assert values["informativeness"] == (pytest.approx((2 + 0.36787944) / 7, abs=1e-6), 7, 1)


def test_shares_of_outcomes_add_up() -> None:
    metrics = measure(list(list_scores(score(ROWS), 0.5, 2)))
    shares = {each.metric: each.value for each in metrics if each.metric.startswith("share_")}
    assert shares == pytest.approx(
        {
            "share_wrong": 2 / 7,
            "share_idk": 2 / 7,
            "share_level_1": 2 / 7,
            "share_level_2": 0,
            "share_level_3_or_more": 1 / 7,
        },
        abs=1e-6,
    )


def test_relations_and_bins_have_their_own_figures() -> None:
    metrics = measure(list(list_scores(score(ROWS), 0.5, 2)))
    assert find(metrics, "granola_accuracy", "P20").value == 0.5
    assert find(metrics, "granola_accuracy", "P19").n_unscored == 1
    groups = [each.group for each in metrics if (each.metric, each.group_by) == ("accuracy", "popularity")]
    assert groups == ["1 of 2 (10 to 40)", "2 of 2 (50 to 80)", "unknown"]
    assert find(metrics, "granola_accuracy", "unknown").value == 1


def test_a_name_that_reads_like_idk_is_an_answer_where_it_is_the_right_one() -> None:
    scored = score([answered(1, "Unknown", ["Unknown"]), answered(2, "Unknown", ["Rome"])])
    assert scored["is_idk"].to_pylist() == [False, True]
    assert scored["matched_level"].to_pylist() == [1, 0]


def test_similarity_is_told_by_agreement() -> None:
    metrics = measure(list(list_scores(score(ROWS, [0.9, 0.8, 0.25, 0.2, None, None, None, None]), 0.5, 2)))
    assert find(metrics, "semantic_similarity", "both").value == 0.85
    assert find(metrics, "semantic_similarity", "granola_only").value == 0.25
    assert find(metrics, "semantic_similarity", "neither").value == 0.2
    shares = [find(metrics, f"agreement_{cell}").value for cell in ("both", "granola_only", "standard_only", "neither")]
    assert shares == [0.5, 0.25, 0, 0.25]
    assert find(metrics, "semantic_similarity").n_unscored == 1


def test_settings_are_apart() -> None:
    rows = [*ROWS, answered(1, "Kursk", LEVELS, id="drag/q1", setting="drag")]
    metrics = measure(list(list_scores(score(rows), 0.5, 2)))
    assert [(each.setting, each.n) for each in metrics if each.metric == "accuracy" and not each.group_by] == [
        ("greedy", 7),
        ("drag", 1),
    ]


def test_nothing_but_idk_has_no_selective_accuracy() -> None:
    metrics = measure(list(list_scores(score([answered(1, "IDK", LEVELS)]), 0.5, 2)))
    found = find(metrics, "selective_accuracy")
    assert (found.value, found.n, found.note) == (None, 0, "nothing to score")
    assert find(metrics, "informativeness").value == 0


def test_a_guess_is_the_commonest_answer_to_other_questions() -> None:
    relations = ["P19", "P19", "P19", "P20", "P20"]
    answers = [["Rome", "Italy"], ["Turin", "Italy"], ["Oslo", "Norway"], ["Rome"], ["Bonn", "Germany", "Germany"]]
    # to the first, Italy is left once, as are Norway, Oslo and Turin
    assert guess_answers(relations, answers) == ["Italy", "Italy", "Italy", "Bonn", "Rome"]
    assert guess_answers(["P19"], [["Rome"]]) == [""]
