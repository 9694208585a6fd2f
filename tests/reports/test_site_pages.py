"""Test pages of a site: ties, models without ranks, lower-is-better metrics, and inactive names."""

import dataclasses
import re

import pytest
from support.builds.changes import HOSTILE, make_diff
from support.builds.reported import EVALUATION, MODEL, make_evaluated

from factmill.tasks.diff.core.changes import ChangeCause, RowChange
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.reports.evaluation_report import SCRIPTED_ROWS_WARNING, LoadedEvaluation, make_evaluation_report
from factmill.tasks.reports.site_pages import (
    BenchmarkPage,
    MeasuredBuildLeaderboard,
    SiteBuild,
    make_build_change_summary,
    make_leaderboard,
    make_row_changes_by_build_figure,
    render_benchmark_page,
    render_site_index,
)

GOOD = ["gold"] * 18 + ["no", "no"]


def rank(
    *evaluated: LoadedEvaluation, baselines: int = 0, evaluation: Evaluation = EVALUATION
) -> MeasuredBuildLeaderboard:
    """Return the leaderboard; the last `baselines` of the evaluations belong to baselines."""
    models, others = evaluated[: len(evaluated) - baselines], evaluated[len(evaluated) - baselines :]
    links = {each.record.build_id: f"evaluations/{each.record.build_id}.html" for each in evaluated}
    reports = [make_evaluation_report(evaluation, [each]) for each in others]
    ids = [each.record.build_id for each in others]
    return make_leaderboard(
        evaluation, make_evaluation_report(evaluation, models), reports, links, ids, "m-1", "2026-01-01", (), "c.html"
    )


def page_of(*boards: MeasuredBuildLeaderboard, builds: tuple[SiteBuild, ...] = ()) -> BenchmarkPage:
    return BenchmarkPage("multihal", "MultiHal: <i>questions</i>", builds, 0, boards, ())


def build(build_id: str, notice: str = "", **more: object) -> SiteBuild:
    return SiteBuild(build_id, "2026-01-01", 10, ("world <u>w</u>",), notice, None, **more)  # type: ignore[arg-type]


def test_models_tied_on_items_share_ranks_and_name_each_other() -> None:
    board = rank(
        make_evaluated("strong", GOOD), make_evaluated("alike", ["no", *GOOD[1:]]), make_evaluated("weak", ["no"] * 20)
    )
    (table,) = board.main
    assert {each.model: (each.ranks, each.ties) for each in table.standings} == {
        "strong": ((1, 2), ("alike",)), "alike": ((1, 2), ("strong",)), "weak": ((3, 3), ())
    }  # fmt: skip
    assert table.leaders == ("strong", "alike") and board.models == 3
    index = render_site_index([page_of(board)])
    assert "strong, alike" in index and '<span class="tie">tie</span>' in index


def test_single_model_has_no_rank_and_baselines_are_not_ranked() -> None:
    alone = rank(make_evaluated("strong", GOOD))
    assert [each.ranks for each in alone.main[0].standings] == [None] and alone.models == 1
    assert "there is no other to compare it with" in render_benchmark_page(page_of(alone))
    assert "one model alone" in render_site_index([page_of(alone)])
    board = rank(make_evaluated("strong", GOOD), make_evaluated("best", ["gold"] * 20), baselines=1)
    assert [(each.model, each.is_baseline, each.ranks) for each in board.main[0].standings] == [
        ("strong", False, None),
        ("best", True, None),
    ]
    assert board.figure and board.figure.series[0].x == ("strong", "best (baseline)")


def test_figure_names_measured_build_and_banner_replaces_warning_of_scripted_rows() -> None:
    board = rank(make_evaluated("strong", GOOD))
    assert board.figure and board.figure.title.startswith("Accuracy, ")
    assert board.figure.note.startswith("Measured on m-1 of 2026-01-01, n\u00a0=\u00a020. ")
    scripted = dataclasses.replace(board, warnings=(f"{SCRIPTED_ROWS_WARNING} m-1: no ranks.", "Few answers."))
    for builds, is_kept in (((build("m-1", "scripted"),), False), ((build("b", "scripted"),), True)):
        page = render_benchmark_page(page_of(scripted, builds=builds))
        assert (SCRIPTED_ROWS_WARNING in page) == is_kept and "<li>Few answers.</li>" in page


def test_model_without_score_is_not_compared() -> None:
    page = render_benchmark_page(
        page_of(rank(make_evaluated("a", GOOD), make_evaluated("bb", ["no"] * 20), make_evaluated("ccc", [""] * 20)))
    )
    assert "not compared" in page and "Only 0.0 % of the answers of ccc have a score" in page


def test_lower_is_better_metric_ranks_lowest_first() -> None:
    evaluation = dataclasses.replace(EVALUATION, lower_is_better=("accuracy",))
    board = rank(make_evaluated("high", GOOD), make_evaluated("lower", ["no"] * 20), evaluation=evaluation)
    assert board.main[0].leaders == ("lower",)
    assert "(lower is better)" in render_benchmark_page(page_of(board))


def test_names_are_escaped() -> None:
    diff = make_diff()
    change = make_build_change_summary(diff, HOSTILE, "changes/x.html")
    builds = (dataclasses.replace(build(HOSTILE, "not for use"), change=change), build("b"))
    board = rank(make_evaluated(MODEL, GOOD), make_evaluated("other", ["no"] * 20))
    for page in (
        render_benchmark_page(page_of(board, builds=builds)),
        render_site_index([page_of(board, builds=builds)]),
    ):
        assert not re.search(r"<(script|b|i|u|img|textarea)\b", page)
        assert "default-src 'none'" in page and "script-src" not in page
        assert "MultiHal: &lt;i&gt;questions&lt;/i&gt;" in page


def test_notices_name_their_builds_unless_shared_by_all() -> None:
    assert page_of(builds=(build("a", "n"), build("b", "n"))).notices == ("n",)
    assert page_of(builds=(build("a", "n"), build("b"))).notices == ("a: n",)


def test_causes_beyond_five_are_counted_and_figure_groups_rows_by_change() -> None:
    rows = [
        RowChange("changed", f"r{at}", f"r{at}", (ChangeCause("prompt", f"p{at % 7}", "edited"),)) for at in range(21)
    ]
    change = make_build_change_summary(make_diff(rows=rows), "a", "x.html")
    assert (len(change.causes), change.more_causes, change.rows["changed"]) == (5, 2, 21)
    assert change.causes[0].rows == 3
    assert make_row_changes_by_build_figure("multihal", [build("a")]) is None
    figure = make_row_changes_by_build_figure("multihal", [dataclasses.replace(build("b"), change=change), build("a")])
    assert figure and [series.label for series in figure.series][::3] == ["first build shown", "changed"]
    assert figure.series[0].y == (10, 0)
    page = render_benchmark_page(page_of(builds=(dataclasses.replace(build("b"), change=change), build("a"))))
    assert "3 rows: <bdi>prompt p0</bdi>" in page


@pytest.mark.parametrize(("builds", "said"), [((), "No build of it is among the inputs"), ((build("a"),), "nothing has changed yet"), ((build("b", problem="too old"), build("a")), "not compared: too old")])  # fmt: skip
def test_missing_builds_and_evaluations_are_stated(builds: tuple[SiteBuild, ...], said: str) -> None:
    page = render_benchmark_page(page_of(builds=builds))
    assert said in page and "No model was measured" in page
    assert "nothing was measured" in render_site_index([page_of(builds=builds)])
