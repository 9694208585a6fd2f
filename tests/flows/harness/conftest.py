"""Fixtures with a small build of every evaluated benchmark, and right, wrong, empty and refused answers to it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill

from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.evaluate.sessions import open_evaluation_session
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.evaluation.scoring_session import EvaluationSession
from factmill.tasks.storage.table_store import TableStore

SAID = (None, "", "I'm sorry, but I cannot help with that.", "**Answer:** Paris", None, "I do not know.")
"""Answers to questions in turn; None: the gold answer."""


@dataclass(frozen=True)
class Played:
    """A benchmark with a model whose answers are known."""

    factmill: Factmill
    session: EvaluationSession
    store: TableStore
    build_id: str
    answers: dict[tuple[str, str], str]
    """Setting, question id → answer."""
    by_prompt: dict[str, str]
    """The last message of a question's prompt → answer."""

    @property
    def settings(self) -> tuple[str, ...]:
        return self.session.inputs.settings

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics of `factmill evaluate --answers`."""
        folder = self.store.path.parent
        path = folder / "played.jsonl"
        lines = ({"setting": place[0], "id": place[1], "answer": text} for place, text in self.answers.items())
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        name = self.session.evaluation.benchmark.name
        settings = (part for setting in self.settings for part in ("--setting", setting))
        place = ("--build", self.build_id, "--warehouse", self.store.path, "--reports", folder)
        exact = ("--judge", "exact") if self.session.evaluation.judging_spec else ()
        ran = self.factmill("evaluate", name, "--answers", path, *settings, *place, *exact, "--json")
        assert ran.code == 0, ran.err
        metrics: list[dict[str, Any]] = ran.json["metrics"]
        return metrics


@pytest.fixture(scope="session")
def play(
    factmill: Factmill, small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Played]]:
    """Yield a function that plays a benchmark, built once a session; one process runs all files of this folder."""

    @cache
    def play(name: str) -> Played:
        warehouse = tmp_path_factory.mktemp(f"harness-{name}") / "w.duckdb"
        build_id = small_builds.copy(name, warehouse)
        store = TableStore(warehouse, build_id)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FACTMILL_HOME", str(factmill.home))
            session = open_evaluation_session(name, store, EVALUATIONS[name].offline_settings)
        evaluation, say_gold = session.evaluation, session.evaluation.make_oracle(session.rows)
        answers, by_prompt = {}, {}
        for at, asked in enumerate(rows_from_arrow(evaluation.question_model, session.list_questions())):
            prompt = evaluation.make_prompt(asked, session.inputs.params).build_messages()[-1]["content"]
            text = SAID[at % len(SAID)]
            said = by_prompt.setdefault(prompt, say_gold(asked) if text is None else text)
            answers[asked.setting, asked.question_id] = said
        return Played(factmill, session, store, build_id, answers, by_prompt)

    yield play
    play.cache_clear()  # closes what sessions have opened


@pytest.fixture(params=list(EVALUATIONS))
def played(request: pytest.FixtureRequest, play: Callable[[str], Played]) -> Played:
    return play(request.param)


@pytest.fixture(autouse=True)
def home_of_builds(factmill: Factmill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let code that runs without the command find the home's models, and nothing outside."""
    monkeypatch.setenv("FACTMILL_HOME", str(factmill.home))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
