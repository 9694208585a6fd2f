"""Tables that runs leave in Prefect: what is read first stands first, since a page shows seven columns or so."""

from flows.watching.artifacts import list_metrics, list_worst
from tasks.core.evaluation.rows import EvaluationMetric
from tasks.evaluation.record import Item


def make_metric(name: str, group_by: str = "") -> EvaluationMetric:
    about = {"benchmark": "toy", "model": "m", "judge": "", "setting": "plain", "metric": name, "group_by": group_by}
    found = {"value": 0.51234, "n": 40, "n_unscored": 2, "clusters": 40, "coverage": 40 / 42, "unit": "", "note": ""}
    ends = {"bound_low": None, "bound_high": None, "ci_low": 0.4, "ci_high": 0.6, "interval": "wilson"}
    return EvaluationMetric.model_validate({"id": f"plain/{name}/{group_by}", "group": "", **about, **found, **ends})


def test_metrics_over_all_items_begin_with_what_was_measured() -> None:
    (row,) = list_metrics([make_metric("accuracy"), make_metric("accuracy", "relation")])
    assert list(row.items())[:5] == [
        ("setting", "plain"),
        ("metric", "accuracy"),
        ("value", "0.512"),
        ("95 % interval", "0.400 to 0.600"),
        ("items", 40),
    ]


def test_the_worst_answers_begin_with_question_and_answer_and_end_with_ids() -> None:
    items = [
        Item("plain/1", "plain", "Who?", "Ada", said, "right" if score else "wrong", score, "1", {"relation": "P50"})
        for said, score in (("Ada", 1.0), ("Eve", 0.0))
    ]
    worst = list_worst(items)
    assert [each["answer"] for each in worst] == ["Eve", "Ada"]
    assert list(worst[0]) == [
        "question",
        "answer",
        "verdict",
        "gold",
        "score",
        "setting",
        "answer_id",
        "row_id",
        "groups",
    ]
