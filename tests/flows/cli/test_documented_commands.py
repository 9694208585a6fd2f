"""Run every command of the documents, except those that need Docker, other programs or run forever."""

import gzip
import json
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from support.batches.run_batch import run_batch
from support.commands.command import Factmill
from support.docs.documents import DOCUMENTS, list_blocks, list_examples, list_named_files
from support.habits.server import HabitsServer, write_habit_world
from support.models.scripted_chat import ScriptedChat
from support.rows.csv_files import read_csv, write_csv
from support.webs.prepared import link_prepared

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.errors import AwaitingReplyFile
from factmill.tasks.world.data import WORLD_FOLDER
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.rdf import write_world_ntriples

SOURCES = ASSETS_ROOT / "data" / "world" / "sources"
ON_PREFECT = ("README.md", "docs/measure/evaluate.md")
"""Documents whose commands use a Prefect server, as a reader's do; they evaluate each benchmark."""
PRICES = "usd_per_million_in = 0.15\nusd_per_million_out = 0.6"
ENDLESS = ("serve", "worker", "world")
"""Commands that run until stopped; tests/flows/test_serve.py and tests/engine/cluster run them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, session_home: Path) -> Iterator[Path]:
    """Make a folder with the files that the documents mention."""
    made = tmp_path_factory.mktemp("documents")
    shutil.copytree(SOURCES / "entityquestions", made / "EntityQuestions" / "test")
    shutil.copy(SOURCES / "biokalma" / "pairs.jsonl", made)
    shutil.copy(next((SOURCES / "simpleqa").iterdir()), made / "simple_qa_test_set.csv")
    questions = json.loads((SOURCES / "fanoutqa" / "places.json").read_text("utf-8"))
    (made / "my-questions.json").write_text(json.dumps(questions[:3]))
    for name, content in list_named_files("docs/rebuild/own-data.md").items():
        (made / name).write_text(content, "utf-8")
    (made / "pairs.csv").write_text("subject,object\nQ937,Q9021\n")
    with gzip.open(made / "truthy.nt.gz", "wt", encoding="utf-8") as file:
        write_world_ntriples(load_world_data(WORLD_FOLDER), file)
    author, model = HabitsServer(), ScriptedChat(lambda messages: (200, "Paris"))
    world = write_habit_world(made, author, "well-formed", ("author",)).rename(made / "my-world.toml")
    result = world.read_text("utf-8")
    world.write_text(result.replace('name = "habits"', f'name = "habits"\n{PRICES}'), "utf-8")
    with world.open("a", encoding="utf-8") as file:
        file.write(f'\n[models.mine]\nkind = "openai"\nname = "mine"\nurl = "{model.url}"\n')
    yield made
    author.close()
    model.close()


@pytest.fixture
def reader(session_home: Path, embedded_builds: object, prefect_api: str, tmp_path: Path) -> Factmill:
    """Return the command in the home of a reader who has run `make build`."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(session_home / "factmill.duckdb", home)
    link_prepared(session_home, home)
    return Factmill(home, prefect_api)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documented_commands_behave_as_documented(
    document: str, reader: Factmill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    reader = replace(reader, on_prefect=document in ON_PREFECT)
    shutil.copy(reader.home / "factmill.duckdb", folder / "backup.duckdb")  # the result of a `cp` in the documents
    for example in list_examples(document):
        if not example.can_run(ENDLESS):
            continue
        answer_questions(folder)
        width = {"COLUMNS": "100"} if example.output else {}
        ran = reader(*example.words[1:], **example.environment(PREFECT_API_URL=reader.prefect_api), **width)
        awaits_replies = "--requests" in example.words and ran.code == AwaitingReplyFile.exit_code
        assert ran.code == 0 or awaits_replies, f"{document}: {example.line}\n{ran.out}{ran.err}"
        missing = example.find_missing_output(ran.out + ran.err)
        assert not missing, f"{document}: {example.line} does not print {missing}, but\n{ran.out}{ran.err}"


def answer_questions(folder: Path) -> None:
    """Do what readers do between two commands: answer questions and requests, and fill in labels."""
    if (folder / "asked.jsonl").exists():
        world = tomllib.loads((folder / "my-world.toml").read_text("utf-8"))
        run_batch(folder / "asked.jsonl", folder / "replies.jsonl", world["models"]["author"]["url"])
    asked, labels = folder / "q.jsonl", folder / "labels.csv"
    if asked.exists():
        lines = [json.loads(line) for line in asked.read_text("utf-8").splitlines()]
        answers = [json.dumps({"id": each["id"], "answer": "Paris"}) for each in lines]
        (folder / "answers.jsonl").write_text("\n".join(answers))
    if labels.exists():
        rows = read_csv(labels)
        write_csv(labels, (row | {"label": str(number % 2)} for number, row in enumerate(rows)))


def test_reference_documents_every_reason_of_embedded_builds(reader: Factmill) -> None:
    described = tomllib.loads((ASSETS_ROOT / "docs" / "reasons.toml").read_text("utf-8"))
    with duckdb.connect(str(reader.home / "factmill.duckdb"), read_only=True) as db:
        found = {reason for (reason,) in db.execute("SELECT DISTINCT reason FROM rejects").fetchall()}
    assert len(found) > 30
    assert found - {reason for reasons in described.values() for reason in reasons} == set()


def test_documented_warehouse_queries_return_rows(reader: Factmill) -> None:
    assert reader("evaluate", "granola", "--model", "silent", "--limit", "5", "--setting", "greedy").code == 0
    queries = list_blocks("docs/rebuild/warehouse.md", "sql")
    assert len(queries) > 5
    with duckdb.connect(str(reader.home / "factmill.duckdb"), read_only=True) as db:
        for query in queries:
            assert db.execute(query).fetchall(), query
