"""Test the commands from outside: the build, its reports, and wrong usage."""

import csv
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import requests
import typer
from support.commands.command import ROOT, Factmill
from support.steps.warehouses import empty_warehouse

from factmill.flows.cli.options import make_model_from_options, make_option_dataclass_fields
from factmill.flows.serve_options import ServeOptions
from factmill.tasks import errors
from factmill.tasks.errors import FactmillError
from factmill.tasks.options import INTERNAL_OPTIONS, REPLY_FILE_OPTIONS
from factmill.tasks.storage.warehouse import open_warehouse

REPORT_KEYS = {
    "build_id",
    "benchmark",
    "inputs",
    "rows",
    "rejects",
    "merged",
    "calls_sent",
    "calls_replayed",
    "seconds",
}


def test_embedded_build_names_its_author(embedded_build: Any) -> None:
    assert embedded_build.keys() >= REPORT_KEYS
    assert embedded_build["rows"] >= 60
    assert embedded_build["author"] == "scripted replies"
    assert embedded_build["calls_sent"] > 0


def test_second_build_reuses_first_and_sends_no_request(factmill: Factmill, embedded_build: Any) -> None:
    again = factmill("build", "granola", "--json").json
    assert (again["build_id"], again["calls_sent"], again["up_to_date"]) == (embedded_build["build_id"], 0, True)
    assert again["tables"] == embedded_build["tables"]


@pytest.fixture(scope="module")
def forced(factmill_on_prefect: Factmill, embedded_build: Any) -> Any:
    """Return the report of a forced build on the Prefect server, with another batch size and concurrency."""
    options = ("--force", "--concurrency", "1", "--batch-size", "40", "--json")
    return factmill_on_prefect("build", "granola", *options).json


def test_forced_build_with_other_batching_has_same_bytes(forced: Any, embedded_build: Any) -> None:
    again = forced
    assert again["calls_sent"] == 0
    assert (again["build_id"], again["tables"]) == (embedded_build["build_id"], embedded_build["tables"])


@pytest.mark.usefixtures("forced")
def test_run_stores_funnel_sample_and_cost_in_prefect(forced: Any, embedded_build: Any, prefect_api: str) -> None:
    found = requests.post(f"{prefect_api}/artifacts/filter", json={"sort": "CREATED_DESC"}, timeout=60).json()
    ours = {
        artifact["key"]: artifact["data"]
        for artifact in found
        if not str(artifact["key"]).startswith("granola-evaluation")
        and (
            embedded_build["build_id"] in str(artifact["description"])
            or "granola --rejects" in str(artifact["description"])
        )
    }
    assert ours.keys() == {f"granola-{name}" for name in ("funnel", "rejects", "sample", "cost", "figures", "page")}
    funnel = json.loads(ours["granola-funnel"])
    assert [stage["stage"] for stage in funnel] == [stage["stage"] for stage in embedded_build["stages"]]
    assert len(json.loads(ours["granola-sample"])) == 20
    assert "no model was asked" in ours["granola-cost"]


def change_copy(session_home: Path, tmp_path: Path, statement: str) -> Path:
    """Return a copy of the session's warehouse after one SQL statement changed some rows."""
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes((session_home / "factmill.duckdb").read_bytes())
    db = duckdb.connect(str(copy))
    changed = db.execute(statement).fetchone()
    db.close()
    assert changed is not None
    assert changed[0] > 0
    return copy


def test_verify_fails_when_recorded_calls_yield_other_rows(
    factmill: Factmill, embedded_build: Any, session_home: Path, tmp_path: Path
) -> None:
    forged = "UPDATE calls SET body = replace(body, 'United States', 'Atlantis') WHERE body LIKE '%:: %United States%'"
    ran = factmill("verify", "latest:granola", "--warehouse", change_copy(session_home, tmp_path, forged))
    assert ran.code == 1
    assert "DIFFERS" in ran.out
    assert "does NOT rebuild to the same bytes" in ran.out


def test_export_rejects_modified_published_table(
    factmill: Factmill, embedded_build: Any, session_home: Path, tmp_path: Path
) -> None:
    copy = change_copy(session_home, tmp_path, "UPDATE granola_eq SET answer = 'Atlantis' WHERE relation = 'P19'")
    ran = factmill("export", "latest:granola", "--to", tmp_path / "out", "--warehouse", copy)
    assert (ran.code, ran.err.endswith(" [warehouse]\n")) == (1, True), ran.err


def test_verify_names_missing_recorded_call(
    factmill: Factmill, embedded_build: Any, session_home: Path, tmp_path: Path
) -> None:
    copy = change_copy(session_home, tmp_path, "DELETE FROM calls WHERE operation = 'pageviews'")
    ran = factmill("verify", "latest:granola", "--warehouse", copy)
    assert (ran.code, ran.err.endswith(" [replay-miss]\n")) == (1, True), ran.err
    assert "pageviews" in ran.err


def test_export_writes_every_format_with_published_bytes(
    factmill: Factmill, embedded_build: Any, tmp_path: Path
) -> None:
    ran = factmill("export", "latest:granola", "--to", tmp_path)
    assert ran.code == 0, ran.err
    for name, table in embedded_build["tables"].items():
        assert hashlib.sha256((tmp_path / f"{name}.parquet").read_bytes()).hexdigest() == table["sha256"]
    frame = pd.read_parquet(tmp_path / "granola_eq.parquet")
    lines = [json.loads(line) for line in (tmp_path / "granola_eq.jsonl").read_text().splitlines()]
    with (tmp_path / "granola_eq.csv").open(newline="") as file:
        spread = list(csv.DictReader(file))
    assert len(frame) == len(lines) == len(spread) == embedded_build["rows"]
    assert list(frame["id"]) == sorted(frame["id"])
    for line, flat in zip(lines, spread, strict=True):
        assert [flat[key] for key in flat if key.startswith("granola_answer_") and flat[key]] == line["granola_answers"]
        assert line["granola_answers"][0] == line["answer"]
        assert line["num_granola_answers"] == len(line["granola_answers"]) >= 2
    rejects = pd.read_parquet(tmp_path / "rejects.parquet")
    assert list(rejects.columns) == ["stage", "id", "reason", "detail"]
    assert len(rejects) == embedded_build["rejects"]
    assert rejects["reason"].str.len().min() > 0


def test_explain_traces_every_row_to_its_calls(factmill: Factmill, embedded_build: Any) -> None:
    rows = factmill("show", "granola", "--limit", "3", "--json").json["rows"]
    for row in rows:
        trace = factmill("explain", "granola", row["id"], "--json").json
        assert trace["row"]["answer"] == row["answer"]
        operations = {call["operation"] for call in trace["calls"]}
        assert {"find_items", "describe_items", "chat"} <= operations
        chosen = {c["qid"] for c in trace["beside"]["granola_candidates"] if c["chosen"]}
        assert chosen == {row["question_entity_qid"], row["answer_entity_qid"]}
        assert row["author_call"] in {call["key"] for call in trace["calls"]}


def test_explain_covers_rejected_rows(factmill: Factmill, embedded_build: Any) -> None:
    reject = factmill("show", "granola", "--rejects", "--limit", "1", "--json").json["rejects"][0]
    ran = factmill("explain", "granola", reject["id"])
    assert ran.code == 0, ran.err
    assert reject["reason"] in ran.out


def test_prints_lists_and_tables(factmill: Factmill, embedded_build: Any) -> None:
    assert embedded_build["build_id"] in factmill("builds").out
    assert embedded_build["build_id"] in [build["build_id"] for build in factmill("builds", "--json").json]
    assert "granola_answers" in factmill("show", "granola", "--columns").out
    assert "P19-" in factmill("show", "granola", "--part", "P19").out


@pytest.mark.parametrize(
    ("arguments", "code", "error", "named"),
    [
        (["build", "granita"], 2, "usage", "'granita'"),
        (["build", "granola", "--world", "marble"], 2, "settings", "'marble'"),
        (["build", "granola", "--relations", "P9999"], 2, "usage", "P9999"),
        (["build", "granola", "--source", "/absent.json"], 2, "source", "/absent.json"),
        (["build", "granola", "--limit", "0"], 2, "usage", "'--limit': '0'"),
        (["build", "granola", "--max-error-score", "2"], 2, "usage", "'--max-error-score': '2'"),
        (["build", "granola", "--max-cost", "-1"], 2, "usage", "Try 'factmill build granola --help'"),
        (["evaluate", "slaq", "--max-cost", "-1"], 2, "usage", "Try 'factmill evaluate slaq --help'"),
        (["build", "slaq", "--forecast", "--pilot", "0"], 2, "usage", "Try 'factmill build slaq --help'"),
        (["build", "granola", "--policy", "largest"], 2, "usage", "'--policy': 'largest'"),
        (["build", "granola", "--graph", "nowhere"], 1, "local-graph", "nowhere"),
        (["build", "granola", "--colour", "red"], 2, "usage", "--colour"),
        (["verify", "granola-000000"], 2, "unknown-build", "'granola-000000'"),
        (
            ["verify", "latest:quizbowl"],
            2,
            "unknown-build",
            "no build 'latest:quizbowl': there is no benchmark 'quizbowl'",
        ),
        (["build", "quizbowl"], 2, "usage", "No such benchmark 'quizbowl'"),
        (["evaluate", "quizbowl"], 2, "usage", "No such benchmark 'quizbowl'"),
        (["quizbowl"], 2, "usage", "No such command 'quizbowl'"),
        (["evaluate", "granola", "--model", "nope"], 2, "settings", "    --world mine.toml --build latest:granola\n"),
        (["explain", "granola", "P19-zzz"], 2, "unknown-row", "'P19-zzz'"),
        (["export", "latest:granola"], 2, "usage", "'--to'"),
        (["show", "quizbowl"], 2, "usage", "'quizbowl'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_usage_has_exit_code_and_names_mistake(
    factmill: Factmill, embedded_build: Any, arguments: list[str], code: int, error: str, named: str
) -> None:
    ran = factmill(*arguments)
    assert (ran.code, f" [{error}]\n" in ran.err, named in ran.err) == (code, True, True), ran.err
    assert "Traceback" not in ran.err
    as_json = factmill(*arguments, "--json")
    assert as_json.code == code
    assert json.loads(as_json.err)["error"] == error


def test_every_error_class_has_unique_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FactmillError)]
    assert len({kind.code for kind in kinds}) == len(kinds) > 20
    assert (errors.UnknownBuild.code, errors.UsageError.code, errors.FactmillError.code) == (
        "unknown-build",
        "usage",
        "factmill",
    )
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", kind.code) for kind in kinds)


def test_internal_error_prints_traceback_or_json_object(factmill: Factmill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.flows.cli.main.app", lambda **_: 1 / 0)
    ran = factmill("doctor", "--json")
    assert (ran.code, "Traceback" in ran.err) == (1, True)
    assert json.loads(ran.err.splitlines()[-1]) == {
        "error": "internal",
        "message": "ZeroDivisionError: division by zero",
    }


def test_command_without_arguments_shows_help(factmill: Factmill) -> None:
    ran = factmill("build")
    assert (ran.code, "COMMAND [ARGS]" in ran.err, "[usage]" in ran.err) == (2, True, False)


def test_explain_links_merged_row_to_its_target_row(factmill: Factmill, embedded_builds: Any) -> None:
    build = embedded_builds["slaq"]["build_id"]
    with open_warehouse(factmill.home / "factmill.duckdb") as db:
        query = "SELECT id, into_id FROM merged_rows WHERE build_id = ? ORDER BY id LIMIT 1"
        (merged, into) = db.execute(query, [build]).fetchone() or ("", "")
    ran = factmill("explain", "slaq", merged, "--build", build)
    assert (ran.code, f"{merged} was merged into {into}; see `factmill explain slaq {into}`" in ran.err) == (2, True), (
        ran.err
    )


def test_unbuilt_benchmark_has_no_latest_build(factmill: Factmill, tmp_path: Path) -> None:
    ran = factmill("verify", "latest:fanoutqa", "--warehouse", empty_warehouse(tmp_path / "empty.duckdb"))
    assert (ran.code, ran.err.endswith(" [unknown-build]\n")) == (2, True), ran.err


def test_process_exits_with_code_of_command(factmill: Factmill) -> None:
    wrong = factmill.run_process("show", "quizbowl")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.endswith(" [usage]\n")
    assert "Traceback" not in wrong.err
    right = factmill.run_process("show", "granola", "--columns")
    assert (right.code, right.err) == (0, "")
    assert "granola_answers" in right.out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_process_without_standard_streams_opens_no_file_in_their_place(tmp_path: Path, closed: str) -> None:
    result = tmp_path / "descriptor"
    program = (
        "import os, sys; from factmill.flows.cli import entry, main; main._run_and_get_exit_code = lambda: ["
        f"open({str(result)!r}, 'w').write(str(min(os.open('/', 0) for _ in range(3)))), print(1), sys.stderr.write('2'), 0][-1]; "
        "entry.main()"
    )
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", program]
    ran = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr
    assert int(result.read_text("utf-8")) > 2


def test_malformed_rows_and_odd_names_become_rejects_with_reasons(factmill: Factmill, tmp_path: Path) -> None:
    odd = 'Ada "the {first}"\n\\ SELECT * } #'
    rows = [
        {"question": "Where was Albert Einstein born?", "answers": ["Ulm"]},
        {"question": "Where was Albert Einstein born?", "answers": ["Ulm"]},
        {"question": f"Where was {odd} born?", "answers": ["Ulm"]},
        {"question": "Where was Albert Einstein born?", "answers": [odd]},
        {"question": "When was Albert Einstein born?", "answers": ["1879"]},
        {"question": "Where was Marie Curie born?", "answers": ["Warsaw", "Vienna"]},
        {"question": "Where was Marie Curie born?", "answers": []},
        {"question": "Where was Marie Curie born?"},
    ]
    path = tmp_path / "P19.odd.json"
    path.write_text(json.dumps(rows))
    ran = factmill("build", "granola", "--source", path, "--warehouse", tmp_path / "odd.duckdb", "--json")
    assert ran.code == 1, ran.err
    report = ran.json
    assert report["inputs"] == len(rows) == report["rows"] + report["rejects"] + report["merged"]
    reasons = {reason: count for stage in report["reasons"].values() for reason, count in stage.items()}
    assert reasons == {
        "malformed_row": 1,
        "no_gold_answer": 1,
        "several_gold_answers": 4,
        "no_template_match": 1,
        "question_entity_not_found": 1,
    }


def test_command_waits_for_warehouse_locked_by_other_process_and_names_it(
    factmill: Factmill, embedded_build: Any, tmp_path: Path
) -> None:
    path = tmp_path / "held.duckdb"
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        ran = factmill("builds", "--warehouse", path, FACTMILL_WAIT_S="0.3")
    finally:
        holder.communicate(b"")
    assert (ran.code, ran.err.endswith(" [warehouse-busy]\n")) == (1, True), ran.err
    assert f"process {holder.pid}" in ran.err


@pytest.mark.parametrize(("arguments", "is_on"), [([], True), (["--no-catch-up"], False), (["--catch-up"], True)])
def test_flag_enabled_by_default_can_be_disabled(arguments: list[str], is_on: bool) -> None:
    app = typer.Typer()
    app.command()(
        make_dataclass(
            "command",
            make_option_dataclass_fields(ServeOptions, [*INTERNAL_OPTIONS, *REPLY_FILE_OPTIONS]),
            kw_only=True,
        )
    )
    assert make_model_from_options(ServeOptions, app(arguments, standalone_mode=False)).catch_up is is_on


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("forecast granola", "build granola --forecast"),
        ("compact", "gc --compact"),
        ("drift fanoutqa", "fanoutqa validate --drift"),
        ("fanoutqa drift --epoch 2026-01-01", "fanoutqa validate --drift"),
        ("validate fanoutqa x.json", "fanoutqa validate"),
        ("graph check mine", "graph --check --name NAME"),
        ("graph list --check mine", "graph"),
        ("models list", "models"),
        ("prepare", "doctor --prepare"),
        ("prompts list", "prompts"),
        ("prompts show granola/answer", "prompts ID"),
        ("prompts copy granola --to x", "prompts ID --copy-to FOLDER"),
        ("world serve --port 0", "world"),
        ("jobs cancel batch_1", "jobs --cancel JOB"),
        ("jobs forget batch_1", "jobs --forget JOB"),
        ("label export latest:x --to y", "label EVALUATION --to FILE"),
        ("label import y", "label --from FILE"),
        ("review export latest:x --to y", "review BUILD --to FILE"),
        ("review import y", "review --from FILE"),
    ],
)
def test_old_command_spelling_suggests_new_one(factmill: Factmill, old: str, new: str) -> None:
    ran = factmill(*old.split())
    assert (ran.code, f"Did you mean 'factmill {new}'?" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("build granola --pilot 3", "factmill build granola --forecast --pilot 50"),
        ("build granola --rows 3", "--rows"),
        ("evaluate granola --from latest:granola_evaluation", "--from"),
        ("build granola --forecast --force", "--force"),
        ("build granola --forecast --requests x.jsonl", "--requests"),
        ("evaluate granola --forecast --questions x.jsonl", "--questions"),
        ("build all --forecast", "one benchmark"),
        ("evaluate granola --forecast --model a --model b", "one model"),
        ("label", "--to FILE"),
        ("label latest:slaq_evaluation", "--to FILE"),
        ("label --to x.csv", "EVALUATION --to FILE"),
        ("review latest:slaq --from x.csv", "--from FILE"),
        ("review latest:slaq --to x.csv --from x.csv", "--from FILE"),
        ("show --columns", "--columns"),
        ("graph --malformed 3", "--check"),
        ("graph --check remove x", "factmill graph remove --check"),
        ("prompts --copy-to x", "prompts granola/answer --copy-to my-prompts/"),
        ("prompts granola --overwrite", "--copy-to"),
        ("fanoutqa validate --duplicates", "--drift"),
        ("fanoutqa validate x.json --drift", "either files"),
        ("fanoutqa validate x.json --epoch 2026-01-01", "--epoch works only with --drift"),
        ("fanoutqa validate --drift --duplicates", "--duplicates has no effect with --drift"),
    ],
)
def test_conflicting_options_are_rejected(factmill: Factmill, given: str, named: str) -> None:
    ran = factmill(*given.split())
    assert (ran.code, ran.err.endswith(" [usage]\n"), named in ran.err) == (2, True, True), ran.err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("show granola --limit x", "'--limit': 'x': expected a whole number"),
        ("build granola --limit x", "'--limit': 'x': expected a whole number"),
        ("show granola --limit 0", "'--limit': '0': expected a whole number, 1 or more"),
        ("build granola --limit 0", "'--limit': '0': expected a whole number, 1 or more"),
        ("worker --threads 2000", "'--threads': '2000': expected a whole number from 1 to 1024"),
        ("build granola --max-cost -1", "'--max-cost': '-1': expected a number, 0 or more"),
    ],
)
def test_wrong_number_states_what_was_expected(factmill: Factmill, given: str, expected: str) -> None:
    ran = factmill(*given.split())
    assert (ran.code, f"{expected} [usage]\n" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("command", "shown"),
    [("show", "[default: 20; 1 or more]"), ("worker", "[from 1 to 1024]"), ("serve", "[default: --catch-up]")],
)
def test_help_states_bounds_and_defaults_in_words(factmill: Factmill, command: str, shown: str) -> None:
    text = " ".join(factmill(command, "--help").out.split())
    assert shown in text
    assert "<=x" not in text and "x>=" not in text and "default: True" not in text


def test_show_without_benchmark_lists_builds(factmill: Factmill, embedded_build: Any) -> None:
    assert factmill("show").out == factmill("builds").out
    assert factmill("show", "--json").json == factmill("builds", "--json").json


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("build nope", "Expected one of: biokalma, fanoutqa, granola, multihal, slaq, all."),
        ("evaluate --model nope", "factmill evaluate biokalma --model"),
        ("report latest:nope", "no build 'latest:nope': there is no benchmark 'nope'"),
        ("build granola --relation P19", "No such option: --relation; did you mean --relations?"),
        ("build granola --limit x", "Invalid value for '--limit': 'x': expected a whole number"),
        ("build granola --max-cost x", "Invalid value for '--max-cost': 'x': expected a number"),
    ],
)
def test_invalid_usage_names_expected_value(factmill: Factmill, given: str, expected: str) -> None:
    ran = factmill(*given.split())
    assert (ran.code, expected in ran.err) == (2, True), ran.err
