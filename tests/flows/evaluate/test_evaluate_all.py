"""`factmill evaluate all` and `report all`: it goes on when something fails, and the card says what it is made of."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Factmill
from support.commands.toy_command import ToyCommand
from support.models.scripted_chat import ScriptedChat, write_chat_world
from support.steps.warehouses import empty_warehouse

from tasks.storage.warehouse import open_warehouse

NAMES = ("Germany", "France", "Italy", "Spain", "Portugal", "Austria", "Poland", "Japan")


@pytest.fixture(scope="module")
def toy(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyCommand]:
    folder = tmp_path_factory.mktemp("toy")
    (folder / "names.txt").write_text("\n".join(NAMES), "utf-8")
    command = ToyCommand(factmill, folder)
    command("build", "countries", "--file", "names.txt")
    yield command
    command.close()


def test_what_fails_leaves_the_others_be_and_is_told_at_the_end(toy: ToyCommand, tmp_path: Path) -> None:
    chat = ScriptedChat(lambda _: (422, "no such thing"))
    world = write_chat_world(tmp_path, chat.url, ["answerer"])
    evaluate = ("evaluate", "all", "--world", world, "--model", "answerer", "--model", "oracle", "--reports", tmp_path)
    ran = toy(*evaluate, "--json", code=1)
    *told, last = map(json.loads, ran.out.splitlines())
    assert [each["metrics"][0]["value"] for each in told if "metrics" in each] == [1.0]
    failed = {(each["benchmark"], each["model"]): each["why"] for each in last["failed"]}
    assert "got no answer for any row (8 in all, the first: http_422" in failed["countries", "answerer"]
    assert failed["granola", "oracle"] == failed["granola", "answerer"]
    assert "make one: factmill build granola" in failed["granola", "oracle"]
    assert len(told) == len(failed) + 1
    again = next(each["next"] for each in last["failed"] if each["benchmark"] == "countries")
    assert again == f"factmill evaluate countries --model answerer --world {world} --warehouse {toy.warehouse}"
    assert {Path(path).name for path in last["card"]} == {f"card-oracle.{form}" for form in ("html", "md", "json")}

    out = toy(*evaluate, code=1).out
    chat.close()
    assert f"evaluated: 1 of {len(told)}" in out and f"again: {again}" in out and "card-oracle.html" in out
    assert out.count("no build of granola") == 1
    card = json.loads((tmp_path / "card-oracle.json").read_text("utf-8"))
    (part,) = (each for each in card["parts"] if each["rows"])
    assert part["benchmark"] == "countries" and part["pages"][0]["link"] == f"{last['evaluated'][0]}.html"
    missing = {each["benchmark"]: [one["command"] for one in each["missing"]] for each in card["parts"]}
    assert missing["slaq"] == ["factmill build slaq", f"factmill evaluate slaq --world {world} --model oracle"]


def test_a_model_that_none_could_ask_is_told_once_before_anything_is_asked(toy: ToyCommand) -> None:
    ran = toy("evaluate", "all", "--model", "oracle", "--model", "oracel", code=2)
    assert ran.out == "" and ran.err.count("--model oracel: the world embedded names no model so") == 1
    assert "name it" in toy("evaluate", "all", "--model", "oracle", "--questions", "q.jsonl", code=2).err


def test_the_card_takes_the_latest_evaluation_on_the_same_rows_and_says_so(toy: ToyCommand, tmp_path: Path) -> None:
    evaluate = ("evaluate", "countries", "--json", "--reports", tmp_path / "elsewhere", "--model")
    ids = [toy(*evaluate, "guesser", *more).json["evaluation_id"] for more in ((), ("--seed", "5"))]
    toy(*evaluate, "silent")
    to = tmp_path / "card.json"
    out = toy("report", "all", "--model", "guesser", "--model", "silent", "--to", to).out
    assert "Only a part of what was asked has a score (silent on countries 0.0 %" in out
    part = json.loads(to.read_text("utf-8"))["parts"][-1]
    assert part["left_out"] == [f"guesser: of 2 evaluations {ids[1]} was taken. Left out: {ids[0]} (seed: 0)."]
    assert [(page["link"], page["command"]) for page in part["pages"][:1]] == [
        ("", f"factmill report {ids[1]} --to {ids[1]}.html")
    ]
    unknown = toy("report", "all", "--model", "gueser", "--to", to, code=2).err
    assert "no evaluation of it is here" in unknown and "did you mean guesser?" in unknown
    assert "all stands alone" in toy("report", "all", ids[0], "--to", to, code=2).err
    kept, toy.warehouse = toy.warehouse, empty_warehouse(tmp_path / "none.duckdb")
    assert "factmill evaluate all --model NAME" in toy("report", "all", "--to", to, code=2).err
    toy.warehouse = kept


def test_evaluations_of_an_earlier_factmill_are_named_and_new_ones_are_made_beside_them(
    toy: ToyCommand, tmp_path: Path
) -> None:
    evaluate = ("evaluate", "countries", "--json", "--reports", tmp_path, "--model", "oracle", "--seed")
    old = toy(*evaluate, "1").json["evaluation_id"]
    with open_warehouse(toy.warehouse) as db:
        db.execute("ALTER TABLE countries_answers DROP COLUMN tokens_in")
    told = toy("report", old, "--to", tmp_path / "r.html", code=1).err
    assert f"{old} was made by an earlier factmill, which wrote no tokens_in into countries_answers" in told
    new = toy(*evaluate, "2").json["evaluation_id"]
    toy("export", new, "--to", tmp_path / "out")
    assert "which wrote no tokens_in" in toy("report", old, "--to", tmp_path / "r.html", code=1).err
    toy("report", "all", "--model", "oracle", "--to", tmp_path / "c.html")
    with open_warehouse(toy.warehouse) as db:
        db.execute("ALTER TABLE countries_answers ADD COLUMN gone INTEGER")
    told = toy(*evaluate, "3", code=1).err
    assert "the table countries_answers of this warehouse was made by another factmill" in told and "gone" in told


def test_the_name_of_a_model_acts_on_no_terminal(toy: ToyCommand, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "c-Germany", "answer": "Q183"}\n', "utf-8")
    name = "x\x1b[31m\nred " + "long " * 100
    kept, toy.warehouse = toy.warehouse, tmp_path / "w.duckdb"
    toy("build", "countries", "--file", "names.txt")
    out = toy("evaluate", "countries", "--answers", tmp_path / "a.jsonl", "--model", name, "--reports", tmp_path).out
    out += toy("builds").out
    toy.warehouse = kept
    assert "\x1b" not in out and out.count("x[U+001B][31m red long") == 2
    assert max(map(len, out.splitlines())) < 250
