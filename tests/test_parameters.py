"""Test that parameters are defined once: options, Prefect's form, manifests and deployments derive from them."""

import re
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from prefect.exceptions import ParameterTypeError

from factmill.flows import build_runner
from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.build_runner import load_tracked_flow, verify_build_by_replay
from factmill.flows.deployment_flows import make_deployed_flow
from factmill.flows.serve_options import RebuildParams, ServeOptions, validate_flow_parameters
from factmill.flows.serving.runner import make_deployments
from factmill.tasks.assets import ASSETS_ROOT, load_packaged_prompt
from factmill.tasks.core.digests import canonical_json
from factmill.tasks.errors import BuildFormatTooOld, ReplayMiss, UsageError
from factmill.tasks.granola.params import GranolaParams, resolve_granola_inputs
from factmill.tasks.multihal.core.rows import LANGUAGE_TAGS
from factmill.tasks.multihal.params import MultiHalParams
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS, FoundationName
from factmill.tasks.options import RunOptions
from factmill.tasks.slaq.params import SlaqParams
from factmill.tasks.storage.builds import BuildRecord
from factmill.testing import check_definition


@pytest.mark.parametrize("name", BENCHMARKS)
def test_command_options_and_prefect_form_come_from_parameter_models(name: str) -> None:
    check_definition(name)


def test_prefect_form_shows_ranges_and_choices() -> None:
    form = load_tracked_flow(BENCHMARKS["granola"]).parameters
    known = {name: each for model in form.definitions.values() for name, each in model["properties"].items()}
    assert (known["concurrency"]["minimum"], known["concurrency"]["maximum"]) == (1, 64)
    assert known["mode"]["enum"] == ["record", "replay", "refresh"]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("granola", {"params": {"limit": -1}}, "params.limit: Input should be greater than or equal to 1"),
        ("biokalma", {"params": {"class_qid": "P5"}}, "expected the QID of a class"),
        ("slaq", {"params": {"categories": ["Category:Art"]}}, "without the prefix Category:"),
        ("multihal", {"params": {"languages": ["nld"]}}, "Input should be 'eng', 'deu'"),
        ("fanoutqa", {"params": {"epoch": "soon"}}, "expected a day like 2023-11-20"),
        ("fanoutqa", {"params": {"size": 3}}, "Extra inputs are not permitted"),
        ("slaq", {"run": {"batch_size": 0}}, "run.batch_size: Input should be greater than or equal to 1"),
    ],
)
def test_run_with_invalid_parameters_is_rejected_before_start(name: str, given: Any, said: str) -> None:
    with pytest.raises(ParameterTypeError, match=said):
        load_tracked_flow(BENCHMARKS[name]).validate_parameters(given)


def test_deployment_is_built_from_models_and_enforces_their_schema() -> None:
    options = ServeOptions(world="live", cron="0 3 1 * *", benchmarks=("slaq",))
    made, rebuild = make_deployments(options, {"slaq": SlaqParams(per_half=3)})
    assert made.enforce_parameter_schema
    assert rebuild.enforce_parameter_schema
    assert (made.name, made.entrypoint, made.schedules) == ("slaq-live", "factmill.flows.deployment_flows.slaq", [])
    assert (rebuild.name, rebuild.entrypoint) == ("rebuild-live", "factmill.flows.rebuild.rebuild")
    assert [each.schedule.cron for each in rebuild.schedules or []] == ["0 3 1 * *"]  # type: ignore[union-attr]
    assert (made.parameters["params"]["per_half"], made.parameters["run"]["world"]) == (3, "live")
    flow = make_deployed_flow(BENCHMARKS["slaq"])
    assert flow.validate_parameters(made.parameters)["params"] == SlaqParams(per_half=3)
    assert flow.parameters == load_tracked_flow(BENCHMARKS["slaq"]).parameters
    assert RebuildParams(**rebuild.parameters["params"]).list_chosen_benchmarks() == [BENCHMARKS["slaq"]]


@pytest.mark.parametrize(
    ("expected", "age"),
    [
        ({"interval": "12h"}, "6h"),
        ({"cron": "0 3 * * *"}, "12h"),
        ({"interval": "12h", "max_age": "2d"}, "2d"),
        ({}, None),
    ],
)
def test_scheduled_max_age_is_half_of_period(expected: Any, age: str | None) -> None:
    options = ServeOptions(benchmarks=("slaq",), **expected)
    assert [each.parameters["run"]["max_age"] for each in make_deployments(options, {})] == [age, age]


def test_unknown_parameter_suggests_similar_name() -> None:
    result = {"params": {"relation": ["P19"]}, "relations": ["P19"], "paramz": {}}
    said = (
        "relations: unknown parameter; did you mean params.relations?; "
        "paramz: unknown parameter; did you mean params?; "
        "params.relation: unknown parameter; did you mean relations?"
    )
    with pytest.raises(UsageError, match=re.escape(said)):
        validate_flow_parameters("granola", result)


def test_choices_match_available_values() -> None:
    assert get_args(FoundationName) == tuple(FOUNDATIONS)
    assert get_args(get_args(MultiHalParams.model_fields["languages"].annotation)[0]) == tuple(LANGUAGE_TAGS)


def test_manifest_records_input_content_but_not_its_path(tmp_path: Path) -> None:
    rows = '[{"question": "Where was Ada born?", "answers": ["London"]}]'
    locks = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "P19.json").write_text(rows)
        found = resolve_granola_inputs(GranolaParams(source=(str(tmp_path / name),), samples=3, limit=9), RunOptions())
        assert found.inputs.params.source == (str(tmp_path / name),)
        assert found.inputs.limits == {"P19": 9}
        locks.append(canonical_json(found.inputs.dump_for_manifest()))
    assert locks[0] == locks[1]
    assert '"samples":3' in locks[0]


def test_build_with_parameters_of_earlier_version_is_reported() -> None:
    now = datetime.now(UTC)
    origin = {"world": "embedded", "graph": None, "flow": {"categories": None, "decisions": []}}
    record = BuildRecord("slaq-1", "slaq", "", {"version": "0.1.0", "code": "0" * 64}, origin, "", {}, now, now)
    with pytest.raises(
        BuildFormatTooOld,
        match=r"slaq-1 was made by factmill 0\.1\.0, code 0{16} with .* build it again with `factmill build slaq`",
    ):
        verify_build_by_replay(BENCHMARKS["slaq"], record, RunOptions())


@pytest.mark.parametrize(("changed", "hint"), [(("granola/answer",), False), (("slaq/check", "slaq/generate"), True)])
def test_missing_call_of_verify_names_packaged_prompts_that_changed(
    monkeypatch: pytest.MonkeyPatch, changed: tuple[str, ...], hint: bool
) -> None:
    def miss(*_: object) -> None:
        raise ReplayMiss("replay: 1 calls are not recorded")

    monkeypatch.setattr(build_runner, "benchmark_flow_with_prefect_server", lambda *_: nullcontext(miss))
    now = datetime.now(UTC)
    slaq = BENCHMARKS["slaq"]
    prompts = {name: load_packaged_prompt(name).digest for name in slaq.assets.prompts} | dict.fromkeys(changed, "0")
    lock = {"version": "0.1.0", "code": "0" * 64, "prompts": prompts}
    origin = {"world": "embedded", "graph": None, "flow": {}}
    record = BuildRecord("slaq-1", "slaq", "", lock, origin, "", {}, now, now)
    with pytest.raises(ReplayMiss) as error:
        verify_build_by_replay(slaq, record, RunOptions())
    assert ("Packaged prompts have changed since this build: slaq/generate, slaq/check." in str(error.value)) is hint


@pytest.mark.parametrize(
    ("benchmark", "used", "note"),
    [
        ("granola", "entityquestions/P19.json", "names do not begin with P19"),
        ("multihal", "truthfulqa/TruthfulQA.csv", "columns match no foundation"),
        ("biokalma", "biokalma/pairs.jsonl", "lack the columns paragraph, person, relation, other"),
    ],
)
def test_unused_source_files_are_noted(tmp_path: Path, benchmark: str, used: str, note: str) -> None:
    shutil.copy(ASSETS_ROOT / "data" / "world" / "sources" / used, tmp_path)
    (tmp_path / "other.json").write_text('[{"a": 1}]')
    known = BENCHMARKS[benchmark]
    locked = known.resolve_inputs(known.params(source=(str(tmp_path),)), RunOptions())
    (noted,) = locked.notes
    assert note in noted and noted.endswith(": other.json")
    assert "not used" not in "".join(known.resolve_inputs(known.params(), RunOptions()).notes)
