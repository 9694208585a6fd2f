"""The first step of BioKaLMA: pairs from a file, and from the facts of a Wikidata behind SPARQL or as a local graph."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.graphs.namesakes import ORGANISATIONS, PEOPLE
from support.steps.inputs import biokalma_inputs
from support.steps.steps import Left, read_unit
from support.webs.two_wikidatas import LIMITS, Served

from tasks.biokalma.people import draw_person_pairs, read_person_pairs
from tasks.errors import ServiceUnreachable


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("wikidatas"))
    yield served
    served.close()


@pytest.fixture
def draw(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Draw the pairs of a relation from items, with both engines; rows but for the service's name."""

    def run(items: Sequence[str], pid: str, of: str = "Q5", **limits: int) -> Left:
        def step(services: Any, folder: Path) -> Left:
            inputs = biokalma_inputs(class_qid=of, limits={pid: None, **limits})
            left = read_unit(draw_person_pairs, pid, services, folder, monkeypatch, inputs)
            assert {row.pop("source_name") for row in left.rows.values()} <= {services.wikidata.identity}
            return left

        return served.open(items).run(step, tmp_path)

    return run


def test_pairs_are_drawn_from_the_facts_of_a_wikidata(draw: Callable[..., Left]) -> None:
    left = draw(PEOPLE, "P40")
    assert {row_id: (row["person"], row["other"]) for row_id, row in left.rows.items()} == {
        "P40-Q11-Q12": ("Winston Churchill", "Randolph Churchill"),
        "P40-Q12-Q13": ("Randolph Churchill", "Winston Churchill"),
        "P40-Q21-Q22": ("Johann Strauss", "Johann Strauss"),
        "P40-Q21-Q23": ("Johann Strauss", "Eduard Strauss"),
        "P40-Q42-Q41": ("Lord Byron", "Ada Lovelace"),
    }
    row = left.rows["P40-Q11-Q12"]
    assert (row["given"], row["paragraph"], row["relation_label"]) == (["Q11", "Q12"], None, "child")
    assert left.rejects == {
        "P40-Q43-Q41": ("not_of_class", "Q43: not of Q5"),
        "P40-Q47-Q13": ("incomplete_name", "Cher: a first and a family name are wanted"),
        "P40-Q48-Q13": ("not_of_class", "Q48: not of Q5"),
    }

    left = draw(PEOPLE, "P26")
    assert {row_id: reason for row_id, (reason, _) in left.rejects.items()} == {
        "P26-Q31-Q31": "self_relation",
        "P26-Q45-Q11": "item_without_label",
        "P26-Q46-Q11": "incomplete_name",
    }
    assert left.rows == {}


def test_organisations_are_drawn_with_names_of_one_word(draw: Callable[..., Left]) -> None:
    left = draw(ORGANISATIONS, "P749", "Q43229")
    assert left.rows.keys() == {"P749-Q61-Q62", "P749-Q64-Q62", "P749-Q66-Q62"}
    assert left.rejects == {"P749-Q65-Q62": ("not_of_class", "Q65: not of Q43229")}


@pytest.mark.parametrize(("limit", "drawn"), [(0, 0), (1, 1), (3, 4), (9, 8)])
def test_as_many_persons_are_drawn_as_were_asked_for(draw: Callable[..., Left], limit: int, drawn: int) -> None:
    assert draw(PEOPLE, "P40", P40=limit).receipt.rows_in == drawn


def test_pairs_whose_classes_or_labels_cannot_be_had_are_drawn_by_a_later_run(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = served.open(PEOPLE)

    def run() -> Left:
        services = SimpleNamespace(wikidata=both.sparql(LIMITS.model_copy(update={"batch": 1})))
        inputs = biokalma_inputs(limits={"P40": None})
        return read_unit(draw_person_pairs, "P40", services, tmp_path / "run", monkeypatch, inputs)

    both.too_much = "wd:Q12 "
    left = run()
    assert {row_id: reason for row_id, (reason, _) in left.rejects.items()} == {
        "P40-Q11-Q12": "wikidata_failed",
        "P40-Q12-Q13": "wikidata_failed",
        "P40-Q43-Q41": "not_of_class",
        "P40-Q47-Q13": "incomplete_name",
        "P40-Q48-Q13": "not_of_class",
    }
    assert (left.rows.keys(), left.receipt.unsettled) == ({"P40-Q21-Q22", "P40-Q21-Q23", "P40-Q42-Q41"}, 2)

    both.too_much = ""
    assert run().receipt.unsettled == 0

    both.too_much = "wdt:P26"
    with pytest.raises(ServiceUnreachable, match="does not list the facts of P26: http_504"):
        services = SimpleNamespace(wikidata=both.sparql())
        read_unit(
            draw_person_pairs, "P26", services, tmp_path / "other", monkeypatch, biokalma_inputs(limits={"P26": None})
        )


def test_a_file_is_read_row_by_row_up_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"paragraph": "A. B.", "person": "Ada Lovelace", "relation": "father", "other": "Lord Byron"}
    source = tmp_path / "own.jsonl"
    source.write_text("".join(f"{json.dumps(each)}\n" for each in (row, {**row, "person": "Ada"}, row)), "utf-8")

    def run(of: str, **limits: int) -> Left:
        inputs = biokalma_inputs(class_qid=of, limits={"own.jsonl": None, **limits})
        folder = tmp_path / "run"
        return read_unit(read_person_pairs, "own.jsonl", SimpleNamespace(), folder, monkeypatch, inputs, [source])

    left = run("Q5")
    assert (left.rows.keys(), left.receipt.rows_in) == ({"own_0", "own_2"}, 3)
    assert {row_id: reason for row_id, (reason, _) in left.rejects.items()} == {"own_1": "incomplete_name"}
    assert run("Q43229").rows.keys() == {"own_0", "own_1", "own_2"}
    assert run("Q5", **{"own.jsonl": 2}).receipt.rows_in == 2
    assert run("Q5", **{"own.jsonl": 0}).receipt.rows_in == 0
