"""Parameters stand in one place: options, Prefect's form, locks and deployments are made of it."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from prefect.exceptions import ParameterTypeError

from flows.benchmarks import BENCHMARKS
from flows.cli.main import app
from flows.commands.serving.deployments import make_deployments
from flows.running import load_flow, verify_build
from flows.served import make_served
from flows.serving import RebuildParams, ServeOptions
from tasks.assets import ROOT
from tasks.core.fingerprints import canonical_json
from tasks.engine.benchmark import Benchmark
from tasks.errors import OldBuild
from tasks.granola.params import GranolaParams, lock_inputs
from tasks.multihal.core.rows import TAGS
from tasks.multihal.params import MultiHalParams
from tasks.multihal.sources.foundations import FOUNDATIONS, FoundationName
from tasks.options import BY_FILES, HIDDEN, RunOptions
from tasks.slaq.params import SlaqParams
from tasks.storage.builds import BuildRecord

EACH = pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=list(BENCHMARKS))


@EACH
def test_the_command_has_an_option_for_every_parameter_with_its_help(benchmark: Benchmark) -> None:
    command = typer.main.get_command(app).commands["build"].commands[benchmark.name]  # type: ignore[attr-defined]
    options = {option.name: option for option in command.params}
    for model, hidden in ((benchmark.params, set()), (RunOptions, set(HIDDEN))):
        for name, field in model.model_fields.items():
            if name in hidden:
                continue
            assert field.description
            assert options[name].help.startswith(field.description), name


@EACH
def test_the_flow_shows_help_ranges_and_choices_in_prefects_form(benchmark: Benchmark) -> None:
    form = load_flow(benchmark).parameters
    assert list(form.properties) == ["params", "run"]
    for model in (benchmark.params, RunOptions):
        shown = form.definitions[model.__name__]["properties"]
        assert shown.keys() == model.model_fields.keys() - {*HIDDEN, *BY_FILES}
        assert all(each["description"] for each in shown.values())
    known = {name: each for model in form.definitions.values() for name, each in model["properties"].items()}
    assert (known["concurrency"]["minimum"], known["concurrency"]["maximum"]) == (1, 64)
    assert known["mode"]["enum"] == ["record", "replay", "refresh"]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("granola", {"params": {"limit": -1}}, "params.limit: Input should be greater than or equal to 1"),
        ("biokalma", {"params": {"class_qid": "P5"}}, "expected the QID of a class"),
        ("slaq", {"params": {"categories": ["Category:Art"]}}, "expected the name of a category, without its prefix"),
        ("multihal", {"params": {"languages": ["nld"]}}, "Input should be 'eng', 'deu'"),
        ("fanoutqa", {"params": {"epoch": "soon"}}, "expected a day like 2023-11-20"),
        ("fanoutqa", {"params": {"size": 3}}, "Extra inputs are not permitted"),
        ("slaq", {"run": {"batch_size": 0}}, "run.batch_size: Input should be greater than or equal to 1"),
    ],
)
def test_a_run_with_wrong_parameters_is_refused_before_it_starts(name: str, given: Any, said: str) -> None:
    with pytest.raises(ParameterTypeError, match=said):
        load_flow(BENCHMARKS[name]).validate_parameters(given)


def test_a_deployment_is_made_of_the_models_and_held_to_them() -> None:
    options = ServeOptions(world="live", cron="0 3 1 * *", benchmarks=("slaq",))
    made, rebuild = make_deployments(options, {"slaq": SlaqParams(per_half=3)})
    assert made.enforce_parameter_schema
    assert rebuild.enforce_parameter_schema
    assert (made.parameters["params"]["per_half"], made.parameters["run"]["world"]) == (3, "live")
    flow = make_served(BENCHMARKS["slaq"])
    assert flow.validate_parameters(made.parameters)["params"] == SlaqParams(per_half=3)
    assert flow.parameters == load_flow(BENCHMARKS["slaq"]).parameters
    assert RebuildParams(**rebuild.parameters["params"]).chosen() == [BENCHMARKS["slaq"]]


@pytest.mark.parametrize(
    ("told", "age"),
    [
        ({"interval": "12h"}, "6h"),
        ({"cron": "0 3 * * *"}, "12h"),
        ({"interval": "12h", "max_age": "2d"}, "2d"),
        ({}, None),
    ],
)
def test_what_a_schedule_asks_again_is_older_than_half_its_period(told: Any, age: str | None) -> None:
    options = ServeOptions(benchmarks=("slaq",), **told)
    assert [each.parameters["run"]["max_age"] for each in make_deployments(options, {})] == [age, age]


def test_choices_are_those_that_there_are() -> None:
    assert get_args(FoundationName) == tuple(FOUNDATIONS)
    assert get_args(get_args(MultiHalParams.model_fields["languages"].annotation)[0]) == tuple(TAGS)


def test_a_lock_holds_what_was_found_and_not_where(tmp_path: Path) -> None:
    rows = '[{"question": "Where was Ada born?", "answers": ["London"]}]'
    locks = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "P19.json").write_text(rows)
        found = lock_inputs(GranolaParams(source=(str(tmp_path / name),), samples=3, limit=9), RunOptions())
        assert found.inputs.params.source == (str(tmp_path / name),)
        assert found.inputs.limits == {"P19": 9}
        locks.append(canonical_json(found.inputs.as_locked()))
    assert locks[0] == locks[1]
    assert '"samples":3' in locks[0]


def test_a_build_with_the_parameters_of_an_earlier_factmill_says_so() -> None:
    now = datetime.now(UTC)
    origin = {"world": "embedded", "graph": None, "flow": {"categories": None, "decisions": []}}
    record = BuildRecord("slaq-1", "slaq", "", {"version": "0.1.0"}, origin, "", {}, now, now)
    with pytest.raises(
        OldBuild, match=r"slaq-1 was made by factmill 0\.1\.0 .* build it again with `factmill build slaq`"
    ):
        verify_build(BENCHMARKS["slaq"], record, RunOptions())


@EACH
def test_a_record_names_its_recipe_tables_and_columns(benchmark: Benchmark) -> None:
    assert load_flow(benchmark).name == benchmark.name
    assert benchmark.shown.keys() | {benchmark.part, *benchmark.trace} <= benchmark.row.model_fields.keys()
    assert {side.table for side in benchmark.beside} | set(benchmark.held_out) <= benchmark.tables.keys()
    for side in benchmark.beside:
        assert side.column in benchmark.tables[side.table].model_fields
    assert {*benchmark.forms.json_columns, *benchmark.forms.arrays} <= benchmark.tables.keys()


@pytest.mark.parametrize(
    ("benchmark", "used", "note"),
    [
        ("granola", "entityquestions/P19.json", "since their names begin with none of P19"),
        ("multihal", "truthfulqa/TruthfulQA.csv", "since their columns are of no foundation"),
        ("biokalma", "biokalma/pairs.jsonl", "since they lack the columns paragraph, person, relation, other"),
    ],
)
def test_files_of_a_source_that_are_not_used_are_noted(tmp_path: Path, benchmark: str, used: str, note: str) -> None:
    shutil.copy(ROOT / "data" / "world" / "sources" / used, tmp_path)
    (tmp_path / "other.json").write_text('[{"a": 1}]')
    known = BENCHMARKS[benchmark]
    locked = known.lock_inputs(known.params(source=(str(tmp_path),)), RunOptions())
    assert list(locked.notes) == [f"not used, {note}: other.json"]
    assert "not used" not in "".join(known.lock_inputs(known.params(), RunOptions()).notes)
