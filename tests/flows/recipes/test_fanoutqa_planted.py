"""Errors planted in good questions of the embedded world, one a question: each costs the question, with its reason."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from support.commands.command import Factmill
from support.worlds.replies import find_text, replying

from tasks.storage.warehouse import open_warehouse
from tasks.world.data import WORLD_FOLDER

Question = dict[str, Any]
Plant = Callable[[Question], object]
WIKI = "https://en.wikipedia.org/wiki/"
OWN = {
    question["question"]: question
    for path in sorted((WORLD_FOLDER / "sources" / "fanoutqa").glob("*.json"))
    for question in json.loads(path.read_text("utf-8"))
}


def swap(answer: dict[str, Any], one: str, other: str) -> None:
    answer[one], answer[other] = answer[other], answer[one]


def rest_on(number: int, title: str) -> Plant:
    return lambda question: question["strategy"][number].update(evidence=f"{WIKI}{title}")


def ask(old: str, new: str) -> Plant:
    return lambda question: question.update(question=question["question"].replace(old, new))


def spoil_sub_answer(question: Question) -> None:
    question["strategy"][4]["answer"] = question["answer"]["Hekla"] = 1999


def judge(prompt_id: str, variables: Mapping[str, str]) -> str | None:
    """Return what a careful judge replies to what was planted."""
    if prompt_id == "fanoutqa/objective" and "beautiful" in variables["question"]:
        return "What is beautiful is a matter of taste.\nN\nN"
    if prompt_id == "fanoutqa/wording" and "what were the heights" in variables["question"]:
        return "FLAG\nIt names no unit."
    return find_text(prompt_id, variables)


PLANTED: dict[str, tuple[str, Plant, str]] = {
    "an answer from nowhere": ("Which of the countries that border", lambda q: q["answer"].append("Sweden"), "answer_not_composed"),
    "two values swapped": ("How many inhabitants did the census", lambda q: swap(q["answer"], "Queens", "Brooklyn"), "answer_not_composed"),
    "an article used twice": ("On which river does each", rest_on(5, "Vienna"), "same_article"),
    "an answer its article does not say": ("As of 20 November 2023, in what year", spoil_sub_answer, "answer_not_found"),
    "a matter of opinion": ("What are the official languages", ask("each neighbour", "each beautiful neighbour"), "not_objective"),
    "no unit": ("As of November 2023, how many", ask("how many metres above sea level were the summits", "what were the heights of the summits"), "cannot_be_mended"),
    "asked before": ("On what date was each of the four members of the Beatles in", lambda _: None, "duplicate"),
    "one article for all": ("What is the diameter in kilometres", lambda _: None, "one_article_has_all"),
    "a page that is not there": ("What is the average area", rest_on(4, "Yellowstone_of_tests"), "evidence_missing"),
    "a page younger than the epoch": ("As of November 2023, did Berlin", rest_on(1, "Luxembourg_City"), "younger_than_epoch"),
    "too few articles": ("Which composer wrote", lambda q: q["strategy"].pop(), "at least 5 different articles"),
    "an article of another wiki": ("Is the Nile longer", lambda q: q["strategy"][0].update(evidence="https://fr.wikipedia.org/wiki/Nil"), "another Wikipedia"),
    "no way to an answer": ("How many kilometres long", lambda q: q["strategy"][2].pop("strategy"), "has neither evidence nor strategy"),
    "another answer to the same": ("Of the Nintendo 64", lambda q: q.update(answer=101.63), "contradicts"),
}  # fmt: skip
"""Kind of error → the beginning of the question it is planted in, how, and what it is found by."""


def plant(kind: str) -> Question:
    begins, spoil, _ = PLANTED[kind]
    question: Question = deepcopy(next(each for wording, each in OWN.items() if wording.startswith(begins)))
    spoil(question)
    return question | {"id": kind}


@pytest.fixture(scope="module")
def rejects(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Question → reason and detail of its reject, after one build of the good and the spoiled questions."""
    folder = tmp_path_factory.mktemp("planted")
    good = [question for wording, question in OWN.items() if wording.startswith(("On what date was each of the four members of the Beatles'", "Of the Nintendo 64"))]  # fmt: skip
    spoiled = [plant(kind) for kind in PLANTED]
    spoiled[-1].pop("id")
    (folder / "q.json").write_text(json.dumps([*good, *spoiled]), "utf-8")
    with replying(judge):
        ran = factmill("build", "fanoutqa", "--source", folder / "q.json", "--warehouse", folder / "w.duckdb", "--json")
    assert ran.code == 0, ran.err
    with open_warehouse(folder / "w.duckdb") as db:
        found = db.sql("SELECT coalesce(row, ''), reason || ': ' || detail FROM rejects").fetchall()
    return {json.loads(row)["question"]: told for row, told in found}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_error_is_caught(rejects: dict[str, str], kind: str) -> None:
    assert PLANTED[kind][2] in rejects.get(plant(kind)["question"], "published")
