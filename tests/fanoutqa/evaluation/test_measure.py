"""Test FanOutQA's metrics and figures: columns of scores, planted models, unscored answers, and the paper's figures."""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from factmill.tasks.core.evaluation.rows import AnswerScore, EvaluationMetric
from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.rows import arrow_schema, make_arrow_table
from factmill.tasks.fanoutqa.core.evaluation.rows import FanOutJudgedPrediction, FanOutScoredPrediction
from factmill.tasks.fanoutqa.core.evaluation.scoring import (
    add_string_and_rouge_scores,
    align_pair_scores,
    make_nonblank_gold_and_answer_pairs,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer
from factmill.tasks.fanoutqa.evaluation.lemmatizers import load_lemmatizer
from factmill.tasks.fanoutqa.evaluation.measure import (
    FANOUTQA_PAPER_FIGURES,
    HUMAN_UPPER_BOUND,
    PROGRAM_JUDGE_NOTE,
    draw_fanoutqa_figures,
    list_fanoutqa_report_items,
    measure_fanoutqa,
)

GOLD = {"Oslo": "$5 million", "Rome": True}
RULES = load_lemmatizer("rules")


def row(at: int, answer: str = "", gold: Any = GOLD, **changed: Any) -> FanOutJudgedPrediction:
    result = {
        "id": f"closed_book/q{at:04}", "question_id": f"q{at:04}", "item": f"q{at:04}", "cluster": f"q{at:04}",
        "setting": "closed_book", "question": "Which?", "gold": json.dumps(gold), "kind": "dict", "split": "dev",
        "categories": ["Geography", "History"], "articles": [str(n) for n in range(5)], "evidence": [],
        "epoch": "2023-11-20T00:00:00Z", "answer": answer, "answer_read": answer, "samples": [], "finish": "stop",
        "unscored": "", "detail": "", "tokens_in": 1, "tokens_out": 1, "model": "m", "call": "", "searches": [],
        "context": [], "rounds": 0, "stopped": "", "grade": "D", "judge": "tester", "judge_call": "",
        "judge_unscored": "", "judge_detail": "",
    }  # fmt: skip
    return FanOutJudgedPrediction.model_validate(result | changed)


def score(rows: list[FanOutJudgedPrediction], bleurt: list[float | None] | None = None) -> pa.Table:
    table = add_string_and_rouge_scores(make_arrow_table(FanOutJudgedPrediction, rows), RULES)
    table = table.append_column("bleurt_like", pa.array(bleurt or [None] * len(rows), pa.float64()))
    return table.select(arrow_schema(FanOutScoredPrediction).names).cast(arrow_schema(FanOutScoredPrediction))


def measure(table: pa.Table, scorer: Any = "fixed") -> dict[tuple[str, str, str], MeasuredMetric]:
    scores, metrics = measure_fanoutqa(table, 0, scorer)
    assert scores.schema == arrow_schema(AnswerScore)
    return {(each.metric, each.group_by, each.group): each for each in metrics}


def read(found: dict[tuple[str, str, str], MeasuredMetric]) -> dict[str, tuple[float | None, int, int]]:
    return {name: (each.value, each.n, each.n_unscored) for (name, group, _), each in found.items() if not group}


def test_metrics_of_six_answers_match_hand_computed_values() -> None:
    table = score(
        [
            row(0, format_gold_answer(GOLD), grade="C"),
            row(1, "Oslo, Rome: yes", grade="A"),
            row(2, unscored="no_answer", detail="empty", grade="F"),
            row(3, unscored="missing", grade=""),
            row(4, "I cannot say", answer_read="", unscored="refused", grade=""),
            row(5, "Oslo - $5 mil", answer_read="", unscored="cut_off", grade="", split="test"),
        ]
    )
    found = measure(table)
    assert read(found) == {
        "loose": (0.4375, 4, 2),  # 1, 3/4, 0, 0
        "strict": (0.25, 4, 2),
        # "$5 million" is never found; missing answers count 0, cut-off ones score as they are: 3/4, 3/4, 0, 0, 0, 1/4
        "upstream_loose": (0.291667, 6, 0),
        "upstream_strict": (0.0, 6, 0),
        "rouge1": (0.4375, 4, 2),  # 1, 3/4: three words of five
        "rouge2": (0.333333, 4, 2),  # 1, 1/3: one pair of two, of four
        "rougeL": (0.4375, 4, 2),
        "judged": (0.25, 4, 2),
    }
    assert found["loose", "split", "test"].value is None
    assert found["loose", "category", "Geography"].n == 4
    assert found["loose", "articles", "5 or fewer"].n == 4
    assert found["loose", "kind", "dict"].n == 4
    assert "lemmas: rules" in found["loose", "", ""].note
    reasons = {each["id"]: each["unscored"] for each in measure_fanoutqa(table, 0)[0].to_pylist() if each["unscored"]}
    assert reasons["loose:closed_book/q0003"] == "missing"
    assert reasons["judged:closed_book/q0005"] == "cut_off"


def test_other_scorer_appears_only_where_its_scores_differ() -> None:
    same = score([row(0, "Oslo - 5", gold={"Oslo": 5})])
    assert {"loose", "strict"} <= {name for name, _, _ in measure(same)}
    assert not any(name.startswith("upstream") for name, _, _ in measure(same))
    chosen = [name for name, group, _ in measure(same, "upstream") if not group]
    assert chosen[:2] == ["upstream_loose", "upstream_strict"]
    assert "loose" not in chosen
    differing = [name for name, group, _ in measure(score([row(0, format_gold_answer(GOLD))]), "upstream") if not group]
    assert differing[:4] == ["upstream_loose", "upstream_strict", "loose", "strict"]


def test_unreadable_judge_completion_leaves_answer_unscored_with_reason() -> None:
    result = {"judge_unscored": "judge_unreadable", "judge_detail": "no verdict", "grade": ""}
    table = score([row(0, "Oslo", **result), row(1, "Oslo", grade="E"), row(2, "Oslo", grade="B"), row(3, "Rome")])
    judged = measure(table)["judged", "", ""]
    assert (judged.value, judged.n, judged.n_unscored) == (0.666667, 3, 1)
    (reason,) = [each for each in measure_fanoutqa(table, 0)[0].to_pylist() if each["unscored"]]
    assert (reason["id"], reason["unscored"], reason["detail"]) == (
        "judged:closed_book/q0000",
        "judge_unreadable",
        "no verdict",
    )
    by_program = score([row(0, "Oslo", judge="exact")])
    assert PROGRAM_JUDGE_NOTE in measure(by_program)["judged", "", ""].note
    assert not any(name == "judged" for name, _, _ in measure(score([row(0, "Oslo", judge="")])))


def test_oracle_and_silent_models_score_metric_extremes() -> None:
    golds = [GOLD, ["ann lee", "bob"], "two words", {"a b": {"c": [1.5, None, "35%"]}}]
    oracle = measure(score([row(at, format_gold_answer(gold), gold=gold, grade="C") for at, gold in enumerate(golds)]))
    assert {
        name: value for name, (value, _, _) in read(oracle).items() if not name.startswith("upstream")
    } == dict.fromkeys(("loose", "strict", "rouge1", "rouge2", "rougeL", "judged"), 1.0)
    silent = measure(score([row(at, gold=gold, unscored="no_answer", grade="F") for at, gold in enumerate(golds)]))
    for name, (value, n, missing) in read(silent).items():
        assert (n, missing) == (4, 0)
        assert value == 0 or name == "upstream_loose"


def test_planted_error_rates_lie_within_confidence_intervals() -> None:
    draw = np.random.default_rng(3)
    names = [f"name{number}" for number in range(10)]
    rows = []
    for at in range(800):
        said = [name for name in names if draw.random() < 0.7]
        rows.append(row(at, "\n".join(said), gold=names, grade="C" if draw.random() < 0.4 else "A"))
    found = measure(score(rows))
    for name, planted in (("loose", 0.7), ("strict", 0.7**10), ("judged", 0.4)):
        metric = found[name, "", ""]
        assert metric.ci_low is not None
        assert metric.ci_high is not None
        assert metric.ci_low <= planted <= metric.ci_high, metric


def test_cross_encoder_scores_only_existing_answers() -> None:
    pairs = make_nonblank_gold_and_answer_pairs(["a", " ", "b"], [GOLD, GOLD, None])
    assert pairs == [(format_gold_answer(GOLD), "a"), None, None]
    np.testing.assert_equal(align_pair_scores(pairs, np.array([0.126])), [0.13, np.nan, np.nan])
    metric = measure(score([row(0, "a"), row(1, "b")], bleurt=[0.5, None]))["bleurt_like", "", ""]
    assert (metric.value, metric.n, metric.n_unscored) == (0.5, 1, 1)


def test_report_items_summarise_each_answer() -> None:
    first, second = list_fanoutqa_report_items(
        score([row(0, format_gold_answer(GOLD), grade="C"), row(1, unscored="missing", grade="")])
    )
    assert (first.verdict, first.score, first.gold) == ("says all, graded C", 1.0, "Oslo - $5 million\nRome - yes")
    assert first.groups == {"split": "dev", "category": "Geography", "articles": "5 or fewer", "kind": "dict"}
    assert (second.verdict, second.score) == ("unscored: missing", None)


def test_figures_show_our_results_next_to_paper_models_and_people() -> None:
    _, metrics = measure_fanoutqa(score([row(0, format_gold_answer(GOLD), setting="open_book")]), 0)
    result = {"benchmark": "fanoutqa", "model": "m", "judge": "exact"}
    rows = [EvaluationMetric(id=str(at), **result, **each.model_dump()) for at, each in enumerate(metrics)]
    figures = {each.name: each for each in draw_fanoutqa_figures(rows)}
    assert list(figures) == ["loose", "upstream_loose", "judged", "articles"]
    (bars,) = figures["loose"].series
    shown = dict(zip(bars.x, bars.y, strict=True))
    assert (shown["m"], shown["people (paper)"], shown["people, marked by hand (paper)"]) == (
        1.0,
        0.685,
        HUMAN_UPPER_BOUND,
    )
    assert "Mistral-7B (paper)" not in shown
    assert figures["articles"].series[0].y == (1.0, None, None, None)
    assert PROGRAM_JUDGE_NOTE in figures["judged"].note
    assert "E: different, but not in what matters to the facts." in figures["judged"].note
    alike = [each.model_copy(update={"model": "n"}) for each in rows if not each.metric.startswith("upstream")]
    both = {each.name: each.note for each in draw_fanoutqa_figures([*rows, *alike])}
    assert ["Without n: both scorers give the same scores." in both[name] for name in ("upstream_loose", "loose")] == [
        True,
        False,
    ]
    assert draw_fanoutqa_figures([]) == []


def test_paper_figures_match_paper_table() -> None:
    found = {(each.metric, each.setting, each.model): each.value for each in FANOUTQA_PAPER_FIGURES}
    assert found["judged", "open_book", "people"] == 0.452
    assert found["strict", "evidence_provided", "Claude 2.1"] == 0.215
    assert found["rougeL", "closed_book", "GPT-4-turbo"] == 0.409
    assert len(found) == len(FANOUTQA_PAPER_FIGURES) == (7 + 7 + 7) * 9 + 3
