"""Names of runs: what tells one from another."""

from typing import Any

import pytest

from flows.serving import RebuildParams
from flows.watching.runs import name_run
from tasks.granola.evaluation.ask import GranolaEvaluationParams
from tasks.granola.params import GranolaParams
from tasks.options import Params, RunOptions
from tasks.slaq.params import SlaqParams


@pytest.mark.parametrize(
    ("flow", "params", "run", "name"),
    [
        ("granola", GranolaParams(), {}, "granola · embedded"),
        (
            "granola",
            GranolaParams(relations=("P19", "P26"), limit=500),
            {"world": "live"},
            "granola · live · P19,P26 · 500",
        ),
        (
            "granola",
            GranolaParams(source=("/a/b.json",), relations=tuple("abcdef"), samples=2),
            {"world": "/etc/worlds/ours.toml", "mode": "refresh"},
            "granola · ours · b · a,b,c,d +2 · samples 2 · refresh",
        ),
        ("granola", GranolaParams(limit=500), {"pilot": 20}, "granola · embedded · 500 · pilot of 20"),
        ("slaq", SlaqParams(per_half=3, review="ask"), {}, "slaq · embedded · per half 3 · review ask"),
        (
            "rebuild",
            RebuildParams(benchmarks=("slaq",), evaluate=("oracle",), slaq=SlaqParams(per_half=3)),
            {},
            "rebuild · embedded · slaq · oracle",
        ),
        (
            "granola_evaluation",
            GranolaEvaluationParams(model="oracle", build="granola-1"),
            {"pinned_build": "granola_evaluation-2", "mode": "replay"},
            "granola evaluation · embedded · oracle · granola-1 · verify granola_evaluation-2",
        ),
    ],
)
def test_a_name_says_benchmark_world_source_and_limit(
    flow: str, params: Params, run: dict[str, Any], name: str
) -> None:
    assert name_run(flow, params, RunOptions(**run)) == name
