"""Test pairs of people from a Wikidata and from files, and resolution of their names, with the real steps."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.graphs.namesakes import ORGANISATIONS, PEOPLE, write_item
from support.rows.biographies import person_pair, resolved_pair
from support.steps.inputs import biokalma_inputs
from support.steps.steps import Left, read_unit, run_step
from support.webs.two_wikidatas import LIMITS, Served, TwoWikidatas

from factmill.tasks.biokalma.core.rows import PersonPair
from factmill.tasks.biokalma.pair_preparation import (
    deduplicate_person_pairs,
    make_person_pairs_from_facts,
    read_person_pairs,
    resolve_people,
)
from factmill.tasks.errors import ServiceUnreachable

NAMES = [
    "Sinéad O'Connor",
    "Flann O’Brien",
    'Dwayne "The Rock" Johnson',
    "'Quoted' \"Twice\"",
    "Back\\slash \\n Man\\",
    "Sir Percy Florence Shelley, 3rd Baronet",
    '"@en . ?x ?y ?z } # Bobby',
    "$name ?item {Curly} <http://a.org>",
    "毛泽东",
    "Николай Гоголь",
    "Ὅμηρος ὁ ποιητής",
    "محمد بن موسى",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("wikidatas"))
    yield served
    served.close()


@pytest.fixture
def resolve(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Resolve pairs among items, with both engines."""

    def run(items: Sequence[str], *rows: PersonPair, of: str = "Q5") -> Left:
        def step(services: Any, folder: Path) -> Left:
            return run_step(resolve_people, rows, services, folder, monkeypatch, biokalma_inputs(class_qid=of))

        return served.open(items).run(step, tmp_path)

    return run


def one_by_one(both: TwoWikidatas) -> SimpleNamespace:
    """Return services that send each query separately, so that one may fail without the others."""
    return SimpleNamespace(wikidata=both.sparql(LIMITS.model_copy(update={"batch": 1})))


def found(left: Left) -> dict[str, tuple[str, str]]:
    """Map each row id to the items of person and other."""
    return {row_id: (row["person_qid"], row["other_qid"]) for row_id, row in left.rows.items()}


def candidates(left: Left, row_id: str, role: str) -> dict[str, tuple[str, bool, list[str]]]:
    """Map each QID to (matched by label or alias, in the class, items the relation joins)."""
    return {
        each["qid"]: (each["via"], each["is_of_class"], each["joined_to"])
        for each in left.extras
        if (each["row_id"], each["role"]) == (row_id, role)
    }


def test_names_in_any_script_are_found_by_both_engines(resolve: Callable[..., Left]) -> None:
    items = [write_item(f"Q{100 + at}", name, f"P26 Q{200 + at}") for at, name in enumerate(NAMES)]
    # the others have the names in reverse order, half of them as an alias
    others = NAMES[::-1]
    items += [write_item(f"Q{200 + at}", None if at % 2 else name, aliases=[name]) for at, name in enumerate(others)]
    rows = [person_pair(str(at), *both) for at, both in enumerate(zip(NAMES, others, strict=True))]
    left = resolve(items, *rows)
    assert left.rejects == {}
    assert found(left) == {str(at): (f"Q{100 + at}", f"Q{200 + at}") for at in range(len(NAMES))}
    assert {row["person_candidates"] for row in left.rows.values()} == {2}


def test_relation_decides_between_people_with_same_name(resolve: Callable[..., Left]) -> None:
    left = resolve(
        PEOPLE,
        person_pair("elder", "Winston Churchill", "Randolph Churchill", "P40"),
        person_pair("younger", "Winston Churchill", "Randolph Churchill", "P22"),
    )
    assert found(left) == {"elder": ("Q11", "Q12"), "younger": ("Q13", "Q12")}
    assert candidates(left, "elder", "person") == {
        "Q11": ("label", True, ["Q12"]),
        "Q13": ("label", True, []),
        "Q14": ("label", False, []),
        "Q15": ("alias", True, []),
    }
    assert candidates(left, "elder", "other") == {"Q12": ("label", True, ["Q11"])}
    assert candidates(left, "younger", "other") == {"Q12": ("label", True, ["Q13"])}
    row = left.rows["elder"]
    assert (row["person_candidates"], row["other_candidates"]) == (3, 1), "only people count"
    assert len({each["id"] for each in left.extras}) == len(left.extras) == 10


def test_relation_that_joins_several_people_rejects_pair_as_ambiguous(resolve: Callable[..., Left]) -> None:
    left = resolve(
        PEOPLE,
        person_pair("brothers", "Johann Strauss", "Edi Strauss", "P3373"),
        person_pair("two fathers", "Edi Strauss", "Johann Strauss", "P22"),
        person_pair("one name", "Johann Strauss", "Johann Strauss", "P40"),
    )
    # Q24 also has the brother Q22, but Q22 names only Q23
    assert found(left) == {"brothers": ("Q22", "Q23"), "two fathers": ("Q24", "Q21"), "one name": ("Q21", "Q22")}

    left = resolve(PEOPLE, person_pair("sons", "Karl Strauss", "Johann Strauss", "P22"))
    ((row_id, (reason, detail)),) = left.rejects.items()
    assert (row_id, reason, detail.startswith("P22 ")) == ("sons", "ambiguous_pair", True)
    assert detail.endswith(": Q26 and Q21, Q26 and Q22, Q27 and Q21")
    assert candidates(left, "sons", "person") == {
        "Q26": ("label", True, ["Q21", "Q22"]),
        "Q27": ("label", True, ["Q21"]),
        "Q28": ("alias", True, []),
    }
    assert candidates(left, "sons", "other") == {
        "Q21": ("label", True, ["Q26", "Q27"]),
        "Q22": ("label", True, ["Q26"]),
    }
    assert left.receipt.unsettled == 0


def test_relation_is_read_from_person_to_other_and_not_reversed(resolve: Callable[..., Left]) -> None:
    left = resolve(
        PEOPLE,
        person_pair("forward", "Johann Strauss", "Josef Strauss", "P3373"),
        person_pair("turned", "Josef Strauss", "Johann Strauss", "P3373"),
        person_pair("no such", "Winston Churchill", "Josef Strauss", "P26"),
    )
    assert found(left) == {"forward": ("Q21", "Q25")}
    assert left.rejects == {
        "turned": ("not_joined", "P3373 joins none of Q25 to any of Q21, Q22"),
        "no such": ("not_joined", "P26 joins none of Q11, Q13, Q15 to any of Q25"),
    }
    assert len(candidates(left, "no such", "person")) == 4


def test_namesakes_that_refer_to_each_other_form_one_pair(resolve: Callable[..., Left]) -> None:
    twins = [write_item("Q61", "Cato Porcius", "P3373 Q62"), write_item("Q62", "Cato Porcius", "P3373 Q61")]
    left = resolve(twins, person_pair("twins", "Cato Porcius", "Cato Porcius", "P3373"))
    assert found(left) == {"twins": ("Q61", "Q62")}


def test_person_is_not_paired_with_themselves(resolve: Callable[..., Left]) -> None:
    left = resolve(
        PEOPLE,
        person_pair("himself", "Mark Twain", "Samuel Clemens"),
        person_pair("by one name", "Mark Twain", "Mark Twain", "P737"),
    )
    assert left.reasons == dict.fromkeys(("himself", "by one name"), "not_joined")
    assert candidates(left, "himself", "person") == {"Q31": ("alias", True, [])}


def test_name_without_bearer_of_class_is_not_found(resolve: Callable[..., Left]) -> None:
    left = resolve(
        PEOPLE,
        person_pair("nobody", "Nobody Known", "Randolph Churchill"),
        person_pair("other nobody", "Randolph Churchill", "Nobody's Son"),
        person_pair("ship", "HMS Winston Churchill", "Randolph Churchill"),
        person_pair("case", "winston churchill", "Randolph Churchill", "P40"),
    )
    names = {
        "nobody": "'Nobody Known'",
        "other nobody": '"Nobody\'s Son"',
        "ship": "'HMS Winston Churchill'",
        "case": "'winston churchill'",
    }
    assert left.rejects.keys() == names.keys()
    for row_id, (reason, detail) in left.rejects.items():
        assert (reason, detail.endswith(names[row_id])) == ("name_not_found", True)
    assert candidates(left, "ship", "person") == {"Q51": ("label", False, [])}
    assert left.receipt.unsettled == 0


def test_untyped_item_with_person_properties_counts_as_person(resolve: Callable[..., Left]) -> None:
    left = resolve(PEOPLE, person_pair("a", "Ada Lovelace", "Lord Byron", "P22"))
    assert found(left) == {"a": ("Q41", "Q42")}
    # Q43 is a painting, though it has a child; Q44 has no property specific to people
    assert candidates(left, "a", "other") == {"Q42": ("label", True, ["Q41"]), "Q43": ("label", False, [])}
    assert candidates(left, "a", "person") == {"Q41": ("label", True, ["Q42"]), "Q44": ("label", False, [])}


def test_class_other_than_human_includes_its_subclasses(resolve: Callable[..., Left]) -> None:
    names = ("YouTube", "Waymo", "Larry Page", "Android")
    rows = [person_pair(name, name, "Google", "P749", paragraph="x") for name in names]
    left = resolve(ORGANISATIONS, *rows, of="Q43229")
    assert found(left) == {"YouTube": ("Q61", "Q62"), "Waymo": ("Q64", "Q62"), "Android": ("Q66", "Q62")}
    assert left.rejects["Larry Page"][0] == "name_not_found"
    assert candidates(left, "Waymo", "other") == {"Q62": ("label", True, ["Q64"]), "Q63": ("label", False, [])}

    assert resolve(ORGANISATIONS, *rows, of="Q71").reasons == dict.fromkeys(names, "name_not_found")


def test_pairs_whose_lookup_fails_are_left_for_later_run(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = served.open(PEOPLE)
    rows = [
        person_pair("churchills", "Winston Churchill", "Randolph Churchill", "P40"),
        person_pair("byrons", "Ada Lovelace", "Lord Byron", "P22"),
    ]

    def run() -> Left:
        return run_step(resolve_people, rows, one_by_one(both), tmp_path / "run", monkeypatch, biokalma_inputs())

    for trouble in ("Winston Churchill", "wd:Q13 ", "wdt:P40 }"):
        both.too_much = trouble
        left = run()
        reason, detail = left.rejects.pop("churchills")
        assert (reason, detail.partition(":")[0]) == ("wikidata_failed", "http_504"), trouble
        assert (left.rejects, found(left), left.receipt.unsettled) == ({}, {"byrons": ("Q41", "Q42")}, 1)
        assert {each["row_id"] for each in left.extras} == {"byrons"}

    both.too_much = ""
    left = run()
    assert (left.rejects, found(left)["churchills"], left.receipt.unsettled) == ({}, ("Q11", "Q12"), 0)


def test_failed_class_lookup_rejects_no_pair_permanently(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = served.open(ORGANISATIONS)
    names = ("YouTube", "Android", "Waymo", "Larry Page")
    rows, inputs = [person_pair(each, each, "Google", "P749") for each in names], biokalma_inputs(class_qid="Q43229")

    def run() -> Left:
        return run_step(resolve_people, rows, one_by_one(both), tmp_path / "run", monkeypatch, inputs)

    both.too_much = "wd:Q73 "
    left = run()
    assert left.reasons == dict.fromkeys(names, "wikidata_failed"), "all rows depend on the same class of Google"
    assert left.receipt.unsettled == len(rows)

    both.too_much = ""
    assert found(run()).keys() == {"YouTube", "Android", "Waymo"}


def test_unreachable_wikidata_stops_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = TwoWikidatas(PEOPLE[0], tmp_path / "wikidata")
    both.close()
    rows, services = [person_pair("a", "Ada Lovelace", "Lord Byron")], SimpleNamespace(wikidata=both.sparql())
    with pytest.raises(ServiceUnreachable, match="cannot be reached"):
        run_step(resolve_people, rows, services, tmp_path / "run", monkeypatch, biokalma_inputs(class_qid="Q5"))


def test_pairs_of_same_two_people_are_merged_whatever_relation_joins_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        resolved_pair("child", "Q42", "Q41", relation="P40"),
        resolved_pair("father", "Q41", "Q42", relation="P22", paragraph="Ada was a daughter of Byron."),
        resolved_pair("later father", "Q41", "Q42", relation="P22", paragraph="Byron was Ada's father."),
        resolved_pair("other child", "Q42", "Q4"),
        resolved_pair("spouse", "Q9", "Q10"),
        resolved_pair("spouse again", "Q10", "Q9"),
    ]
    left = run_step(deduplicate_person_pairs, rows, SimpleNamespace(), tmp_path / "run", monkeypatch, biokalma_inputs())
    assert left.rows.keys() == {"father", "other child", "spouse"}
    assert left.merged == {"child": "father", "later father": "father", "spouse again": "spouse"}
    assert left.rows["father"]["relation"] == "P22"
    assert left.rejects == {}


def test_only_first_pairs_of_one_person_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [resolved_pair(f"{at}", "Q1", f"Q{at}") for at in (2, 3, 4)]
    rows += [resolved_pair("turned", "Q4", "Q1"), resolved_pair("others", "Q3", "Q4")]
    given = biokalma_inputs(per_person=2)
    left = run_step(deduplicate_person_pairs, rows, SimpleNamespace(), tmp_path / "run", monkeypatch, given)
    assert left.rows.keys() == {"2", "3", "others"}
    ((row_id, (reason, detail)),) = left.rejects.items()
    assert (row_id, reason, detail.startswith("2 ")) == ("4", "person_has_enough_rows", True)
    assert " Q1; --per-person" in detail
    assert left.merged == {"turned": "4"}


@pytest.fixture
def draw(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Draw a relation's pairs from items with both engines; return rows without the service's name."""

    def run(items: Sequence[str], pid: str, of: str = "Q5", **limits: int) -> Left:
        def step(services: Any, folder: Path) -> Left:
            inputs = biokalma_inputs(class_qid=of, limits={pid: None, **limits})
            left = read_unit(make_person_pairs_from_facts, pid, services, folder, monkeypatch, inputs)
            assert {row.pop("source_name") for row in left.rows.values()} <= {services.wikidata.identity}
            return left

        return served.open(items).run(step, tmp_path)

    return run


def test_pairs_are_drawn_from_wikidata_facts(draw: Callable[..., Left]) -> None:
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
    facts = {
        "P40-Q43-Q41": ("not_of_class", "Q43: ", "Q5"),
        "P40-Q47-Q13": ("incomplete_name", "'Cher': ", "a first and a family name"),
        "P40-Q48-Q13": ("not_of_class", "Q48: ", "Q5"),
    }
    assert left.rejects.keys() == facts.keys()
    for row_id, (reason, detail) in left.rejects.items():
        expected, start, end = facts[row_id]
        assert (reason, detail.startswith(start), detail.endswith(end)) == (expected, True, True)

    left = draw(PEOPLE, "P26")
    assert left.reasons == {
        "P26-Q31-Q31": "self_relation",
        "P26-Q45-Q11": "item_without_label",
        "P26-Q46-Q11": "incomplete_name",
    }
    assert left.rows == {}


def test_organisations_with_single_word_names_are_drawn(draw: Callable[..., Left]) -> None:
    left = draw(ORGANISATIONS, "P749", "Q43229")
    assert left.rows.keys() == {"P749-Q61-Q62", "P749-Q64-Q62", "P749-Q66-Q62"}
    ((row_id, (reason, detail)),) = left.rejects.items()
    assert (row_id, reason) == ("P749-Q65-Q62", "not_of_class")
    assert detail.startswith("Q65: ")
    assert detail.endswith("Q43229")


@pytest.mark.parametrize(("limit", "drawn"), [(0, 0), (1, 1), (3, 4), (9, 8)])
def test_number_of_drawn_pairs_matches_limit(draw: Callable[..., Left], limit: int, drawn: int) -> None:
    assert draw(PEOPLE, "P40", P40=limit).receipt.rows_in == drawn


def test_pairs_with_failed_class_or_label_lookup_are_drawn_by_later_run(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = served.open(PEOPLE)

    def run(pid: str, services: Any) -> Left:
        inputs = biokalma_inputs(limits={pid: None})
        return read_unit(make_person_pairs_from_facts, pid, services, tmp_path / pid, monkeypatch, inputs)

    both.too_much = "wd:Q12 "
    left = run("P40", one_by_one(both))
    assert left.reasons == {
        **dict.fromkeys(("P40-Q11-Q12", "P40-Q12-Q13"), "wikidata_failed"),
        **dict.fromkeys(("P40-Q43-Q41", "P40-Q48-Q13"), "not_of_class"),
        "P40-Q47-Q13": "incomplete_name",
    }
    assert (left.rows.keys(), left.receipt.unsettled) == ({"P40-Q21-Q22", "P40-Q21-Q23", "P40-Q42-Q41"}, 2)

    both.too_much = ""
    assert run("P40", one_by_one(both)).receipt.unsettled == 0

    both.too_much = "wdt:P26"
    with pytest.raises(ServiceUnreachable, match="the facts of P26: http_504"):
        run("P26", SimpleNamespace(wikidata=both.sparql()))


def test_file_is_read_row_by_row_up_to_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"paragraph": "A. B.", "person": "Ada Lovelace", "relation": "father", "other": "Lord Byron"}
    source = tmp_path / "own.jsonl"
    source.write_text("".join(f"{json.dumps(each)}\n" for each in (row, {**row, "person": "Ada"}, row)), "utf-8")

    def run(of: str, **limits: int) -> Left:
        inputs = biokalma_inputs(class_qid=of, limits={"own.jsonl": None, **limits})
        folder = tmp_path / "run"
        return read_unit(read_person_pairs, "own.jsonl", SimpleNamespace(), folder, monkeypatch, inputs, [source])

    left = run("Q5")
    assert (left.rows.keys(), left.receipt.rows_in) == ({"own_0", "own_2"}, 3)
    assert left.reasons == {"own_1": "incomplete_name"}
    assert run("Q43229").rows.keys() == {"own_0", "own_1", "own_2"}
    assert run("Q5", **{"own.jsonl": 2}).receipt.rows_in == 2
    assert run("Q5", **{"own.jsonl": 0}).receipt.rows_in == 0
    source.write_text("".join(f"{json.dumps(each)}\n" for each in ({"person": "Ada"}, row, row)), "utf-8")
    left = run("Q5", **{"own.jsonl": 1})
    assert (left.rows.keys(), [reason for reason, _ in left.rejects.values()]) == ({"own_1"}, ["malformed_row"])
