"""Test task folders for lm-evaluation-harness: its loader accepts them, and equal answers give equal figures."""

import math
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from .conftest import Played


class PlayedModel(LM):
    """A model that replays known answers and records its prompts."""

    def __init__(self, played: Played) -> None:
        super().__init__()
        self.played = played
        self.asked: list[str] = []

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        self.asked += [request.args[0] for request in requests]
        return [self.played.answers[request.doc["setting"], request.doc["id"]] for request in requests]

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise AssertionError("our tasks ask for texts alone")

    loglikelihood_rolling = loglikelihood


def test_same_answers_yield_identical_figures(played: Played, tmp_path: Path) -> None:
    name = played.session.evaluation.benchmark.name
    ran = played.factmill(
        "export", played.build_id, "--to", tmp_path / "out", "--lm-eval", tmp_path / "tasks",
        "--warehouse", played.store.path,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    manager = TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False)
    written = [task for task in manager.all_tasks if task != f"factmill_{name}"]
    wanted = [f"factmill_{name}_{setting}" for setting in played.settings]
    assert set(wanted) <= set(written)
    assert f"factmill_{name}" in manager.all_groups
    model = PlayedModel(played)
    found = simple_evaluate(model, tasks=wanted, task_manager=manager, bootstrap_iters=0)
    assert found is not None
    # a prompt without a chat template: system text, demonstrations and question, concatenated
    asked = played.session.evaluation
    assert any(prompt.endswith(text) for prompt in model.asked for text in list(played.by_prompt)[:1]), asked.name
    ours = {(each["setting"], each["metric"]): each for each in played.metrics if not each["group_by"]}
    for setting in played.settings:
        result = found["results"][f"factmill_{name}_{setting}"]
        values = {key.removesuffix(",none"): value for key, value in result.items() if key.endswith(",none")}
        shown = {metric: value for metric, value in values.items() if "_stderr" not in metric and metric != "unscored"}
        assert shown
        ends = [metric for metric in shown if metric.endswith(("_ci_lower", "_ci_upper"))]
        assert len(ends) * 3 == len(shown) * 2
        for metric, value in shown.items():
            measured, _, end = metric.partition("_ci_")
            expected = ours[setting, measured][{"": "value", "lower": "ci_low", "upper": "ci_high"}[end]]
            assert value == expected or (expected is None and math.isnan(value)), (setting, metric)
