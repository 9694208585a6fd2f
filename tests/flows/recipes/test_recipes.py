"""Test flows made from a definition and a list of steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prefect.exceptions import ParameterTypeError
from support.builds.build_rows import check_balance
from support.commands.command import Factmill
from support.steps.inputs import granola_inputs

from factmill.flows import recipes
from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.granola import granola
from factmill.flows.multihal import multihal
from factmill.flows.recipes import Stage, StepTask, make_recipe
from factmill.tasks.engine.benchmark import BuildInputsAndSourceFiles
from factmill.tasks.errors import UsageError
from factmill.tasks.granola.answer_levels import remove_trivial_answers
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.granola.disambiguate import link_question_entities
from factmill.tasks.granola.params import GranolaParams
from factmill.tasks.granola.source_questions import (
    choose_question_reader,
    make_questions_from_facts,
    read_entity_questions,
)
from factmill.tasks.multihal.params import MultiHalParams
from factmill.tasks.options import BuildReport, RunOptions


class Rows:
    """A stand-in for the rows of a stage."""

    def __init__(self, name: str) -> None:
        self.name = name

    def table(self, _model: type) -> str:
        return self.name

    def all_rows(self) -> str:
        return self.name


class Noted:
    """A build that records what a recipe does with it."""

    run = "the run"

    def __init__(self) -> None:
        self.done: list[Any] = []

    def load_source(self, step: StepTask, units: Any) -> Rows:
        self.done.append(("load", step.name, list(units)))
        return Rows(step.name)

    def run_stage(self, step: StepTask, rows: Rows, **options: Any) -> Rows:
        self.done.append((step.name, rows.name, {name: value for name, value in options.items() if value}))
        return Rows(step.name)

    def publish(self, tables: Any) -> BuildReport:
        self.done.append(("publish", tables))
        return BuildReport.model_construct(build_id="granola-1")


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """Make a GRANOLA-EQ recipe without a build; people decide on one row when the recipe requests it."""
    noted = Noted()

    @contextmanager
    def opened(_record: Any, locked: BuildInputsAndSourceFiles[Any], _run: RunOptions) -> Iterator[Noted]:
        noted.done.append(("open", locked.inputs.params.review))
        yield noted

    monkeypatch.setattr(recipes, "open_build", opened)
    monkeypatch.setattr(
        recipes, "create_build_artifacts", lambda _record, report, rows: noted.done.append(("leave", rows))
    )
    monkeypatch.setattr(recipes, "pause_and_count_decisions", lambda _report, _run: 1)
    return noted


FROM_WIKIDATA = GranolaParams(source=("wikidata",), relations=("P19", "P36"))
FIRST = [("open", "auto"), ("load", "make_questions_from_facts", ["P19", "P36"])]


def test_rows_pass_steps_in_order_and_last_rows_are_published(build: Noted) -> None:
    steps = (Stage(link_question_entities, single_batch=True, most_rows=9), remove_trivial_answers)
    recipe = make_recipe(GRANOLA, choose_question_reader, *steps, units=lambda locked: locked.inputs.limits)
    assert recipe.fn(FROM_WIKIDATA, RunOptions()).build_id == "granola-1"
    assert build.done == [
        *FIRST,
        ("link_question_entities", "make_questions_from_facts", {"single_batch": True, "most_rows": 9}),
        ("remove_trivial_answers", "link_question_entities", {}),
        ("publish", {"granola_eq": "remove_trivial_answers"}),
        ("leave", "remove_trivial_answers"),
    ]


def test_publish_step_receives_output_of_every_step(build: Noted) -> None:
    given: dict[StepTask, Any] = {}

    def publish(_build: Any, left: Any) -> BuildReport:
        given.update(left)
        return BuildReport.model_construct(build_id="granola-2")

    recipe = make_recipe(
        GRANOLA, make_questions_from_facts, link_question_entities, units=lambda _: ["P19"], publish=publish
    )
    assert recipe.fn(FROM_WIKIDATA, RunOptions()).build_id == "granola-2"
    assert {step.name: rows.name for step, rows in given.items()} == {
        "make_questions_from_facts": "make_questions_from_facts",
        "link_question_entities": "link_question_entities",
    }
    assert [each[0] for each in build.done] == ["open", "load", "link_question_entities", "leave"]


def test_parameters_are_checked_before_any_read(build: Noted) -> None:
    def check(run: Any, inputs: Any) -> None:
        assert (run, inputs.from_wikidata) == ("the run", True)
        raise UsageError("no such relation")

    recipe = make_recipe(GRANOLA, choose_question_reader, link_question_entities, check=check)
    with pytest.raises(UsageError, match="no such relation"):
        recipe.fn(FROM_WIKIDATA, RunOptions())
    assert build.done == [("open", "auto")]


def test_build_is_repeated_with_review_decisions(build: Noted) -> None:
    recipe = make_recipe(GRANOLA, choose_question_reader, units=lambda locked: locked.inputs.limits)
    recipe.fn(FROM_WIKIDATA.model_copy(update={"review": "ask"}), RunOptions())
    assert [each[1] for each in build.done if each[0] == "open"] == ["ask", "manual"]


def test_inputs_select_question_reader() -> None:
    assert choose_question_reader(granola_inputs(from_wikidata=True)) is make_questions_from_facts
    assert choose_question_reader(granola_inputs(from_wikidata=False)) is read_entity_questions


def test_flow_has_name_and_parameters_of_benchmark_record() -> None:
    assert (granola.name, granola.fn.__name__, granola.fn.__module__) == (
        "granola",
        "granola",
        "factmill.flows.granola",
    )
    assert granola.description == f"{GRANOLA.title}."
    assert multihal.validate_parameters({"params": {"limit": 3}, "run": {}})["params"] == MultiHalParams(limit=3)
    with pytest.raises(ParameterTypeError):
        multihal.validate_parameters({"params": {"limit": 0}, "run": {}})


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_builds_balance_and_rebuild_byte_for_byte_from_recorded_calls(
    benchmark: str, factmill: Factmill, embedded_builds: dict[str, Any]
) -> None:
    report = embedded_builds[benchmark]
    check_balance(report)
    ran = factmill("verify", report["build_id"], "--json")
    assert (ran.code, ran.json["agrees"]) == (0, True), (ran.out, ran.err)
    found = {name: table["found"] for name, table in ran.json["tables"].items()}
    assert found == {name: table["sha256"] for name, table in report["tables"].items()}


WRONG_USAGE = [
    (
        "biokalma",
        ["--class-qid", "nobody"],
        "Invalid value for '--class-qid': nobody: expected the QID of a class, like Q5 (human)",
    ),
    ("biokalma", ["--relations", "P26"], "--relations needs pairs from a Wikidata (--source wikidata)"),
    (
        "biokalma",
        ["--source", "wikidata", "--relations", "P26,P19"],
        "unknown relation P19; data/lists/pair_relations.csv has P26",
    ),
    (
        "biokalma",
        ["--source", "wikidata", "--class-qid", "Q43229"],
        "--class-qid Q43229: give the relations that join items of this class",
    ),
    (
        "biokalma",
        ["--source", "wikidata", "--class-qid", "Q999999999", "--relations", "P749"],
        "/wikidata has no such item",
    ),
    ("biokalma", ["--alpha", "2"], "Invalid value for '--alpha'"),
    ("biokalma", ["--rounds", "0"], "Invalid value for '--rounds'"),
    ("biokalma", ["--source", "/absent.jsonl"], "/absent.jsonl: no such file or folder"),
    (
        "slaq",
        ["--categories", " "],
        "'--categories': '': expected the name of a category without the prefix Category:, like Astronomy",
    ),
    (
        "slaq",
        ["--categories", "Category:Algebra"],
        "'--categories': 'Category:Algebra': expected the name of a category",
    ),
    ("slaq", ["--candidates", "1"], "Invalid value for '--candidates'"),
    ("slaq", ["--days", "9999"], "Invalid value for '--days'"),
    ("slaq", ["--review", "perhaps"], "Invalid value for '--review'"),
    ("multihal", ["--foundations", "quizbowl"], "'quizbowl': expected one of halueval, truthfulqa"),
    ("multihal", ["--languages", "nld"], "'nld': expected one of eng, deu"),
    ("multihal", ["--foundations", "halueva"], "; did you mean halueval?"),
    ("multihal", ["--source", "/absent"], "no such file or folder"),
    ("fanoutqa", ["--epoch", "yesterday"], "expected a day like 2023-11-20"),
    ("fanoutqa", ["--source", "nowhere.json"], "nowhere.json: no such file"),
    ("fanoutqa", ["--sets", "P1", "--source", "wikidata"], "unknown kind of sets 'P1'"),
    ("fanoutqa", ["--titles", "nowhere.txt"], "--titles nowhere.txt: file not found"),
]


@pytest.mark.parametrize(("benchmark", "arguments", "message"), WRONG_USAGE, ids=lambda value: str(value)[:60])
def test_invalid_usage_names_expected_value(
    factmill: Factmill, benchmark: str, arguments: list[str], message: str
) -> None:
    ran = factmill("build", benchmark, *arguments)
    assert (ran.code, message in " ".join(ran.err.split()), "Traceback" in ran.err) == (2, True, False), ran.err
