"""Test an evaluation from `make_closed_book_evaluation` in Python programs and other harnesses."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from inspect_ai import eval as run_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from support.commands.command import ROOT

import factmill as api
from factmill.flows.evaluate import inspect_registry
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.evaluation.harness.lm_eval_tasks import write_lm_eval_folder
from factmill.tasks.evaluation.scoring_session import open_scoring_session
from factmill.tasks.storage.table_store import TableStore

GOLDS = {"Germany": "Q183", "France": "Q142", "Finland": "Q33", "Italy": "Q38"}


@pytest.fixture
def evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Evaluation]:
    """Find the toy's evaluation by name, and write its benchmark's rows into a folder."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "support"))
    from toy_benchmark import CountryQuestion
    from toy_closed_book import COUNTRIES_CLOSED_BOOK

    rows = [
        CountryQuestion(id=f"c-{name}", question=f"Which number has {name}?", letter=name[0], qid=qid, others=[])
        for name, qid in GOLDS.items()
    ]
    pq.write_table(make_arrow_table(CountryQuestion, rows), tmp_path / "countries.parquet")
    monkeypatch.setitem(EVALUATIONS, "countries", COUNTRIES_CLOSED_BOOK)
    yield COUNTRIES_CLOSED_BOOK


def test_python_api_returns_questions_and_scores_answers(evaluation: Evaluation, tmp_path: Path) -> None:
    asked = api.questions("countries", source=tmp_path)
    assert [each["id"] for each in asked] == ["c-Finland", "c-France", "c-Germany", "c-Italy"]
    scored = api.score("countries", {"c-Italy": "38", "c-France": "Q33"}, source=tmp_path)
    overall = scored.metrics.to_pylist()[0]
    assert (overall["value"], overall["n"], overall["n_unscored"], overall["bound_high"]) == (0.5, 2, 2, 0.75)
    again = api.score("countries", {"c-Italy": "38", "c-France": "Q33"}, asked=scored.answers.to_pylist())
    assert again.metrics == scored.metrics
    assert {len(api.questions("countries", source=tmp_path, limit=1, seed=seed)) for seed in range(9)} == {1, 2}, (
        "countries with one letter are drawn together"
    )
    with pytest.raises(UsageError, match="setting is 'open_book'"):
        api.questions("countries", source=tmp_path, setting="open_book")


def test_inspect_yields_same_figures(evaluation: Evaluation, tmp_path: Path) -> None:
    def answer(messages: list[object], *_: object) -> ModelOutput:
        name = next(name for name in GOLDS if name in messages[-1].text)  # type: ignore[attr-defined]
        output = ModelOutput.from_content("mockllm/model", "Q183" if name == "France" else GOLDS[name])
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return output

    task = inspect_registry._make_inspect_task(evaluation)(source=str(tmp_path), group_by="letter")
    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    (log,) = run_eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success" and log.results is not None, log.error
    values = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    assert (values["accuracy"], values["accuracy_n"]) == (0.75, 4)
    assert (values["accuracy/letter/F"], values["accuracy/letter/G"]) == (0.5, 1.0)


def test_lm_eval_folder_contains_task(evaluation: Evaluation, tmp_path: Path) -> None:
    session = open_scoring_session(evaluation, TableStore(tmp_path), ["closed_book"])
    files = {path.name for path in write_lm_eval_folder(session, tmp_path / "tasks", "countries-1")}
    assert {"closed_book.jsonl", "factmill_countries_closed_book.yaml", "utils.py"} <= files
    lines = (tmp_path / "tasks" / "countries" / "closed_book.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == len(GOLDS) and '"target": "Q33"' in lines[0]
