"""Test the page of a build: its content, that no text of sources or models is active, and what it withholds."""

import base64
import json
import os
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from support.builds.built import HOSTILE, add_call, publish_hostile, publish_withheld
from support.builds.published import publish_rows
from support.builds.released import multihal_row
from support.docs.chromium import open_page
from support.docs.read_page import ReadPage

from factmill.flows.commands.release import list_row_ids_with_released_answers
from factmill.flows.commands.report import load_page_for_build
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.benchmark import BIOKALMA, format_knowledge_with_names
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.release import FANOUTQA_RELEASE
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.attachments import make_page_visibility
from factmill.tasks.release.contents import ReleaseOptions
from factmill.tasks.release.write import make_manifest_without_withheld_texts
from factmill.tasks.reports.builds import sampled_rows
from factmill.tasks.reports.builds.build_page import (
    BUILD_RENDERERS,
    BuildPage,
    BuildPageRow,
    BuildPageVisibility,
    RowProvenance,
    StageSummary,
    format_trimmed_number,
    render_build_html,
    render_build_json,
    render_build_markdown,
)
from factmill.tasks.reports.builds.page_loading import (
    _compare_forecast,
    _format_budget_and_spending,
    make_kept_and_lost_rows_figure,
)
from factmill.tasks.reports.builds.sampled_rows import MAX_PAGE_ROWS, _sort_and_add_filter_groups
from factmill.tasks.reports.formatting import format_codes_as_words, format_service_name
from factmill.tasks.reports.page_frame import (
    describe_own_prompts_folder,
    format_build_command,
    make_build_reference,
)
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.warehouse import open_warehouse


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> BuildPage:
    warehouse = tmp_path_factory.mktemp("hostile") / "w.duckdb"
    return load_page_for_build(warehouse, resolve_build(warehouse, publish_hostile(warehouse).build_id))


def test_text_of_rows_calls_and_names_is_escaped(hostile: BuildPage) -> None:
    html = render_build_html(hostile)
    read = ReadPage(html)
    # every figure has its own style
    assert (read.tags.count("script"), read.tags.count("style")) == (1, 1 + len(hostile.figures))
    assert read.handlers == []
    assert not {"img", "textarea", "b", "base", "iframe"}.intersection(read.tags)
    assert [each for each in read.addresses if not each.startswith(("#", "data:"))] == []
    assert not any(each in html for each in ("\u202e", "\x00", "\u2028", "\ufffe"))
    assert "nothing[U+0000]here" in html and "[shortened: 1,000,000 characters in all]" in html
    assert len(html) < 700_000
    markdown = render_build_markdown(hostile)
    unfenced = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", markdown)
    assert "<script" not in (plain := re.sub(r"`+.*?`+", "", unfenced)) and not re.search(r"(?<!\\)\]\(", plain)
    assert len(markdown) < 200_000 and len(render_build_json(hostile)) < 700_000


def test_rows_excluded_from_release_are_not_on_its_page(tmp_path: Path) -> None:
    rows = [multihal_row("felm_1", input="under MIT"), multihal_row("felm_2", input="no trade", licence="CC-BY-NC-4.0")]
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": rows})
    choices = ReleaseOptions(excluded=("CC-BY-NC-4.0",))
    release = verify_and_assemble_release(tmp_path / "w.duckdb", MULTIHAL, MULTIHAL_RELEASE, build, choices)
    page = load_page_for_build(
        tmp_path / "w.duckdb", build, make_page_visibility(release, list_row_ids_with_released_answers(release))
    )
    text = render_build_html(page)
    assert "under MIT" in text and "no trade" not in text and "nothing in it" not in text
    assert (page.rows_in_all, page.reasons[0].examples[0].detail) == (1, "")
    assert "left out: they may quote rows that are left out" in text


def test_browser_filters_page_and_loads_nothing(hostile: BuildPage, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(render_build_html(hostile), "utf-8")
    dumped, asked = open_page(tmp_path / "page.html")
    assert f"{len(HOSTILE)} of {len(HOSTILE)} shown" in dumped
    assert [each for each in asked if "elsewhere" in each] == []


def test_row_shows_its_calls_after_one_click(hostile: BuildPage) -> None:
    assert (len(hostile.rows), hostile.rows_in_all, hostile.drawn) == (len(HOSTILE), len(HOSTILE), "")
    first = next(row for row in hostile.rows if row.id == "simpleqa_3_1_eng")
    (call,) = first.chain.calls
    assert (call.stage, call.operation, call.at) == ("read", "chat", "2026-04-30 12:00 UTC")
    assert call.asked == (("", "prompt ../../etc/passwd"), ("../../etc/passwd", "../../etc/passwd"))
    assert call.replied == "../../etc/passwd"
    assert "  question    ../../etc/passwd" in first.chain.lines
    assert first.shown["question"] == "../../etc/passwd"
    assert first.chain.command.startswith("factmill explain multihal simpleqa_3_1_eng --build multihal-")


def test_calls_of_one_kind_are_represented_by_first(tmp_path: Path) -> None:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    with open_warehouse(tmp_path / "w.duckdb") as db:
        for at in range(4):
            operation = "chat" if at % 2 else "label"
            add_call(db, build, "felm_1", {"id": at}, f"reply {at}", key=f"k{at}", operation=operation)
            add_call(db, build, "felm_1", {"id": at}, f"other {at}", key=f"m{at}", operation=operation)
    (row,) = load_page_for_build(tmp_path / "w.duckdb", build).rows
    lines = [(call.operation, call.replied, call.more) for call in row.chain.calls]
    assert lines == [("label", "reply 0", 0), ("label", "reply 2", 2), ("chat", "reply 1", 0), ("chat", "reply 3", 2)]


def test_hidden_answers_appear_on_no_release_page(tmp_path: Path) -> None:
    build = publish_withheld(tmp_path / "w.duckdb")
    page = load_page_for_build(tmp_path / "w.duckdb", build)
    whole = render_build_html(page)
    assert page.warnings == (page.warnings[0],) and page.warnings[0].startswith(
        "This page contains answers of the test part"
    )
    assert all(f"secret {at}" in whole for at in range(3))
    release = verify_and_assemble_release(tmp_path / "w.duckdb", FANOUTQA, FANOUTQA_RELEASE, build, ReleaseOptions())
    released = load_page_for_build(
        tmp_path / "w.duckdb", build, make_page_visibility(release, list_row_ids_with_released_answers(release))
    )
    for render in BUILD_RENDERERS.values():
        text = render(released)
        assert "secret 0" in text or render is render_build_markdown
        assert "secret 1" not in text and "secret 2" not in text
        assert FANOUTQA_RELEASE.canary in text
    assert [row.id for row in released.rows] == ["q0", "q1", "q2"] and released.warnings == ()
    assert released.review and released.review.items[0].reviewer == "Ada"


def test_page_shows_even_sample_of_many_rows_and_says_so(tmp_path: Path) -> None:
    rows = [multihal_row(f"felm_{at}") for at in range(3)] + [
        multihal_row(f"simpleqa_{at}") for at in range(MAX_PAGE_ROWS)
    ]
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": rows})
    page = load_page_for_build(tmp_path / "w.duckdb", build)
    assert (len(page.rows), page.rows_in_all) == (MAX_PAGE_ROWS, MAX_PAGE_ROWS + 3)
    assert sum(row.id.startswith("felm") for row in page.rows) == 3
    assert page.drawn == "400 of 403 rows: a fixed sample, evenly from each source dataset"
    html = render_build_html(page)
    assert html == render_build_html(load_page_for_build(tmp_path / "w.duckdb", build))
    assert '<select name="source_dataset">' in html and f"factmill export {build.build_id} --to DIR" in html


def render_all(warehouse: Path) -> bytes:
    """Return the page of a build and its release's description."""
    build = resolve_build(warehouse, "latest:multihal")
    release = verify_and_assemble_release(warehouse, MULTIHAL, MULTIHAL_RELEASE, build, ReleaseOptions())
    return (
        render_build_html(load_page_for_build(warehouse, build))
        + json.dumps(make_manifest_without_withheld_texts(release))
    ).encode()


def test_same_build_has_same_bytes_in_every_locale(tmp_path: Path) -> None:
    warehouse = tmp_path / "w.duckdb"
    publish_hostile(warehouse)
    with open_warehouse(warehouse) as db:
        db.execute("UPDATE builds SET published_at = '2026-05-01 20:00:00+00'")
    run = "import sys; from pathlib import Path; from test_build_page import render_all as r; sys.stdout.buffer.write(r(Path(sys.argv[1])))"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    elsewhere = {"TZ": "Asia/Tokyo", "LC_ALL": "de_DE.UTF-8", "PYTHONHASHSEED": "1", "PYTHONPATH": path}
    there = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", run, str(warehouse)],
        env=os.environ | elsewhere,
        check=True,
        capture_output=True,
    ).stdout
    assert there == render_all(warehouse)
    assert b"published 2026-05-01." in there


@pytest.mark.parametrize(
    ("row", "text"),
    [("A title", "A title"), ("1984", "1984"), ('["a", 2]', "a · 2"), ("null", ""), ('{"broken', '{"broken')],
)
def test_rejected_row_without_fields_is_shown_verbatim(tmp_path: Path, row: str, text: str) -> None:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    report = {**build.report, "stages": [{"stage": "read"}], "reasons": {"read": {"malformed_row": 1}}}
    with open_warehouse(tmp_path / "w.duckdb") as db:
        db.execute("INSERT INTO rejects VALUES (?, 'read', 'felm_2', 'malformed_row', '', ?)", [build.build_id, row])
    (reason,) = load_page_for_build(tmp_path / "w.duckdb", replace(build, report=report)).reasons
    assert reason.examples[0].chain.lines == (f"  {text}",)


def test_page_of_earlier_version_build_names_missing_parts(tmp_path: Path) -> None:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    report = {
        name: build.report[name] for name in ("author", "world", "rows", "rejects", "inputs", "stages", "reasons")
    }
    with open_warehouse(tmp_path / "w.duckdb") as db:
        db.execute("ALTER TABLE multihal DROP COLUMN judged_score")
        db.execute("UPDATE builds SET report = ?", [json.dumps({**report, "facts": {}})])
    page = load_page_for_build(tmp_path / "w.duckdb", resolve_build(tmp_path / "w.duckdb", build.build_id))
    assert any("which wrote no judged_score into multihal" in each for each in page.warnings)
    assert page.rows[0].shown["question"] == "Where was Kepler born?" and page.distributions == ()
    assert "Where was Kepler born?" in render_build_html(page)


def test_search_covers_all_visible_rows_beyond_page_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_rows, "MAX_PAGE_ROWS", 2)
    rows = [multihal_row(f"felm_{number}", input=f"tab\there {number}\u202e?") for number in range(5)]
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": rows})
    page = load_page_for_build(tmp_path / "w.duckdb", build)
    assert page.all_rows and (len(page.rows), page.all_rows.rows) == (2, 5)
    lines = zlib.decompress(base64.b64decode(page.all_rows.packed)).decode().split("\n")
    assert [line.count("\t") for line in lines] == [len(page.all_rows.headings) + len(page.all_rows.filters) - 1] * 5
    assert "tab here 3[U+202E]?" in lines[3]
    assert "The search looks at all 5." in render_build_html(page)
    assert "all_rows" not in json.loads(render_build_json(page))
    some = load_page_for_build(
        tmp_path / "w.duckdb", build, BuildPageVisibility(rows=frozenset(row["id"] for row in rows[:3]))
    )
    assert some.all_rows and some.all_rows.rows == 3
    assert b"here 4" not in zlib.decompress(base64.b64decode(some.all_rows.packed))


def test_funnel_shows_only_losses_when_almost_no_row_is_lost() -> None:
    stages = [
        StageSummary("read", rows_in=100, rows_out=99, rejects=1),
        StageSummary("link", rows_in=99, rows_out=90, rejects=9),
        StageSummary("count", rows_in=90, rows_out=90),
    ]
    alone = make_kept_and_lost_rows_figure(stages)
    assert [(series.label, series.x, series.y) for series in alone.series] == [
        ("rejected", ("link", "read"), (9.0, 1.0))
    ]
    assert alone.note == "No row was lost at: count."
    hidden = make_kept_and_lost_rows_figure(
        [
            StageSummary("read", rows_in=1_000, rows_out=990, rejects=10),
            StageSummary("score", rows_in=990, rows_out=490, rejects=500),
        ]
    )
    assert [(series.label, series.y) for series in hidden.series] == [("rejected", (500.0, 10.0))]
    many = make_kept_and_lost_rows_figure([*stages, StageSummary("score", rows_in=90, rows_out=40, rejects=50)])
    assert many.series[0].label == "passed on"
    assert many.series[0].x == ("score", "link", "read", "count")
    assert not make_kept_and_lost_rows_figure(stages[2:]).series[1].y[0]


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("waits for a decision about other_value", "waits for a decision about other value"),
        (
            "round 5: Q1: several_sentences: 2 found; the reply was: a_b: c",
            "round 5: Q1: several sentences: 2 found; the reply was: a_b: c",
        ),
        ("removed: 'Zevon' repeats_question", "removed: 'Zevon' repeats question"),
        (
            "not_objective: any five; dropped by policy auto",
            "not objective: any five; dropped by the rule for this flag",
        ),
        ("the column birth_place is missing", "the column birth_place is missing"),
    ],
)
def test_codes_in_details_become_words_but_names_and_replies_stay(detail: str, words: str) -> None:
    assert format_codes_as_words(detail, {"other_value"}) == words


def test_services_are_named_without_digest_of_their_content() -> None:
    named = {
        "embedded-2abb8cac74eb6905": "contents of the embedded world",
        "embedded-2abb8cac74eb6905/wikidata": "Wikidata (embedded world)",
        "embedded-nllb-1@5b7d691edb775b01-float32-cpu": "embedded-nllb-1",
        "https://query.wikidata.org/sparql": "https://query.wikidata.org/sparql",
    }
    assert {service: format_service_name(service) for service in named} == named


def test_rows_are_in_natural_order_and_show_no_group_twice() -> None:
    rows = [
        BuildPageRow(f"pairs_{number}", {"question": "Who?"}, {}, RowProvenance((), (), "")) for number in (10, 2, 1, 0)
    ]
    values = {
        row.id: {"relation": pid, "relation_label": label, "general_question": "Who?" if at % 2 else "What?"}
        for at, (row, (pid, label)) in enumerate(zip(rows, [("P26", "spouse"), ("P40", "child")] * 2, strict=True))
    }
    shown = _sort_and_add_filter_groups(rows, values, BIOKALMA)
    assert [row.id for row in shown] == ["pairs_0", "pairs_1", "pairs_2", "pairs_10"]
    assert (shown[0].groups, shown[0].shown) == ({"relation": "P40", "general_question": "Who?"}, {})
    own = {row_id: {**row, "relation": "P999999"} | {"id": row_id} for row_id, row in values.items()}
    assert "relation_label" in _sort_and_add_filter_groups(rows, own, BIOKALMA)[0].groups


def test_piece_of_knowledge_names_its_person() -> None:
    pieces = [{"qid": qid, "property": "residence", "value": value} for qid, value in (("Q1", "Paris"), ("Q2", "Rome"))]
    row = {"people": ["Q2", "Q1"], "names": ["Ada", "Ben"], "minimum_knowledge": pieces}
    assert format_knowledge_with_names(row) == "Ben: residence Paris · Ada: residence Rome"


def test_table_of_figures_has_percent_equal_decimals_and_n_of_shares_and_means(hostile: BuildPage) -> None:
    shape = {
        "dev": {"here": 19, "paper": 310, "n": 66},
        "mean_answers": {"here": 3.0, "paper": 2.9, "n": 66},
        "share_2_answers": {"here": 0.202, "paper": 0.2, "n": 66},
    }
    page = replace(
        hostile, shape=shape, value_labels={"shape": {"share_2_answers": "two answers", "dev": "development"}}
    )
    assert page.shape_as_texts == [
        ("two answers", "20.2 %", "20.0 %", "66"),
        ("development", "19", "310", ""),
        ("mean answers", "3.00", "2.90", "66"),
    ]


def test_rebuild_command_has_original_options(tmp_path: Path) -> None:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    assert format_build_command(["build", "multihal"], MULTIHAL.params, build) == "factmill build multihal --world mine"
    flow = {"languages": ["da", "de"], "limit": 5, "min_score": 4, "all_hops": True, "source": []}
    flow |= {"source": ["/home/maker/data/felm.csv", "felm"]}
    origin = {**build.origin, "flow": flow, "world": "/home/maker/my world.toml", "graph": "g"}
    said = format_build_command(["build", "multihal"], MULTIHAL.params, replace(build, origin=origin))
    assert said.startswith("factmill build multihal ") and said.endswith(" --world 'my world.toml' --graph g")
    assert "--limit 5" in said and "--all-hops" in said and "da" in said and "min-score" not in said
    assert "--source felm.csv --source felm " in said and "/home/maker" not in said


def test_rebuild_command_names_prompts_folder_without_its_path(tmp_path: Path) -> None:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": [multihal_row("felm_1")]})
    own = {**build.origin, "prompts": {"multihal/score_path": "text"}}
    known = replace(build, origin={**own, "prompt_files": {"multihal/score_path": "town/p/multihal/score_path.md"}})
    assert format_build_command(["build", "multihal"], MULTIHAL.params, known).endswith(" --prompts p/")
    unknown = replace(build, origin=own)
    assert format_build_command(["build", "multihal"], MULTIHAL.params, unknown).endswith(" --prompts my-prompts/")
    sentence = " my-prompts/ holds the own prompts above, such as my-prompts/multihal/score_path.md."
    assert [describe_own_prompts_folder([each]) for each in (build, unknown)] == ["", sentence]
    assert make_build_reference(MULTIHAL, unknown).note.endswith(sentence)


def test_calls_and_tokens_are_integers_and_cost_has_four_decimals() -> None:
    result = {
        "total": {"calls": 745.2, "tokens_in": 204_483.833, "usd": 1.23456},
        "low": {"calls": 700.4, "tokens_in": 202_094.789, "usd": 1.1},
        "high": {"calls": 790.6, "tokens_in": 206_680.902, "usd": 1.4},
        "actual": {"calls": 745, "tokens_in": 0, "usd": 1.0},
    }
    rows = [
        (each.what, each.forecast, each.low, each.high, each.actual, each.off) for each in _compare_forecast(result)
    ]
    assert rows == [
        ("different calls", 745, 700, 791, 745, "+0.0 %"),
        ("tokens in", 204_484, 202_095, 206_681, 0, "–"),
        ("US$", 1.2346, 1.1, 1.4, 1.0, "+23.5 %"),
    ]


def test_cost_is_shown_with_rounded_decimals() -> None:
    assert [format_trimmed_number(value, 4) for value in (0.0001, 1.2346, 745)] == ["0.0001", "1.2346", "745"]
    for name in ("build.html", "build.md"):
        page = (ASSETS_ROOT / "data" / "templates" / name).read_text("utf-8")
        assert page.count("each.low | plain(4)") == page.count("each.actual | plain(4)") == 1


def test_budget_limits_are_complete_and_use_correct_plural() -> None:
    spent = {"paid_usd": 0.001, "unanswered_usd": 0.0, "requests": 1, "hours": 0.5}
    text = _format_budget_and_spending({**spent, "bounds": {"cost_usd": 0.005, "requests": 1, "hours": 1.0}})
    assert text == ("at most US$ 0.0050, 1 request, 1 hour; its last run spent US$ 0.0010, 1 request, 0.50 hours")
