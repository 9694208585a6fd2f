"""Test calling commands from Python: option names and error classes."""

from pathlib import Path
from typing import Any

import pytest
import typer

import factmill as api
from factmill.flows.api.command_process import make_command_line_arguments, run_json_command
from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.main import app
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.errors import BudgetExhausted, NoRowsPublished, SettingsError, SourceError, UnknownBuild, UsageError
from factmill.tasks.options import INTERNAL_OPTIONS, MODEL_ONLY_OPTIONS, REPLY_FILE_OPTIONS, RunOptions


def list_options(*path: str) -> set[str]:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_every_python_parameter_is_command_option(name: str) -> None:
    evaluation = EVALUATIONS[name]
    for path, params, left_out in (
        (("build", name), BENCHMARKS[name].params, (*INTERNAL_OPTIONS, *MODEL_ONLY_OPTIONS)),
        (("evaluate", name), evaluation.params, (*INTERNAL_OPTIONS, *REPLY_FILE_OPTIONS, "since")),
    ):
        fields = {**params.model_fields, **RunOptions.model_fields}
        given = {
            each: field.get_default(call_default_factory=True) for each, field in fields.items() if each not in left_out
        }
        given |= {each: True for each, value in given.items() if value is False}
        words = make_command_line_arguments(name, [params, RunOptions], given, left_out)
        assert len(words) > 5
        assert {word.partition("=")[0] for word in words} <= list_options(*path)
        assert all(value is not True or f"--{each.replace('_', '-')}" in words for each, value in given.items())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"relations": ["P19", "P26"]}, ["--relations=P19", "--relations=P26"]),
        ({"relations": "P19"}, ["--relations=P19"]),
        ({"source": [Path("a b"), "c"]}, ["--source=a b", "--source=c"]),
        ({"source": Path("-a")}, ["--source=-a"]),
        ({"limit": None, "relations": []}, []),
        ({"warehouse": Path("w.duckdb")}, ["--warehouse=w.duckdb"]),
        ({"stale_if_error": True, "max_cost": 0.5}, ["--stale-if-error", "--max-cost=0.5"]),
        ({"stale_if_error": False}, []),
    ],
)
def test_python_values_become_command_line_words(options: dict[str, Any], words: list[str]) -> None:
    assert make_command_line_arguments("granola", [BENCHMARKS["granola"].params, RunOptions], options) == words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"relation": ["P19"]},
            "granola: unknown option relation; there are: .*limit.*world.*; did you mean relations.",
        ),
        ({"pilot": 3}, "unknown option pilot"),
        ({"limit": 0}, "granola: limit is 0: .*greater than or equal to 1"),
        ({"limit": "many"}, "granola: limit is 'many': "),
        ({"relations": 5}, "granola: relations is 5: "),
        ({"concurrency": 65}, "granola: concurrency is 65: "),
        ({"max_age": "soon"}, "granola: max_age is 'soon'"),
    ],
)
def test_invalid_option_raises_usage_error_before_start(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        api.build("granola", **options)


def test_unknown_benchmark_raises_error() -> None:
    for call in (api.build, api.evaluate):
        with pytest.raises(UsageError, match="did you mean granola"):
            call("granolla")


def test_command_errors_keep_class_and_message(
    session_home: Path, prefect_api: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FACTMILL_HOME", str(session_home))
    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"no world 'nowhere\.toml'"):
        api.build("granola", world=Path("nowhere.toml"), quiet=True)
    (tmp_path / "P19.json").write_text("[]")
    with pytest.raises(SourceError, match=r"P19\.json: no rows"):
        api.build("granola", source="P19.json", quiet=True)
    with pytest.raises(UnknownBuild, match="has no build of granola to measure on"):
        warehouse = tmp_path / "w.duckdb"
        with pytest.raises(BudgetExhausted, match="requests") as reached:
            api.build("granola", limit=5, max_requests=0, warehouse=warehouse, quiet=True)
        assert reached.value.limit
        api.evaluate("granola", model="guesser", warehouse=warehouse, quiet=True)
    (tmp_path / "P19.json").write_text('[{"question": "Where was Nobody Such born?", "answers": ["Nowhere"]}]')
    with pytest.raises(NoRowsPublished) as lost:
        api.build("granola", source="P19.json", warehouse=warehouse, quiet=True)
    assert (lost.value.report.rows, lost.value.report.rejects) == (0, 1)
    assert lost.value.report.nothing_published == str(lost.value)


def test_command_output_is_printed_unless_quiet(capsys: pytest.CaptureFixture[str], own_home: Path) -> None:
    assert own_home
    with pytest.raises(UsageError, match=r"No such option: --nothing"):
        run_json_command(["build", "granola", "--nothing"], quiet=False)
    assert '"error"' not in capsys.readouterr().err
