"""Test reading data/world/: values, articles with their revisions, and named violations."""

import shutil
from pathlib import Path

import pytest
from check_world import check_world, describe_report

from factmill.tasks.errors import EmbeddedWorldError
from factmill.tasks.world.data import (
    ItemValue,
    QuantityValue,
    TimeValue,
    UnknownValue,
    WorldData,
    digest_world_files,
    parse_date_decade_or_century,
    parse_statement_value,
    split_statement,
)
from factmill.tasks.world.files import load_world_and_violations, load_world_data


@pytest.mark.parametrize(
    ("text", "year", "month", "day", "precision"),
    [
        ("1879-03-14", 1879, 3, 14, "day"),
        ("1879-03", 1879, 3, 1, "month"),
        ("1879", 1879, 1, 1, "year"),
        ("1870s", 1870, 1, 1, "decade"),
        ("19th century", 1801, 1, 1, "century"),
        ("1st century", 1, 1, 1, "century"),
        ("44-03-15 BCE", -43, 3, 15, "day"),
        ("1 BCE", 0, 1, 1, "year"),
        ("551 BCE", -550, 1, 1, "year"),
        ("440s BCE", -439, 1, 1, "decade"),
        ("5th century BCE", -499, 1, 1, "century"),
        ("1500-02-29", 1500, 2, 29, "day"),
    ],
)
def test_times_keep_precision_and_use_astronomical_years(
    text: str, year: int, month: int, day: int, precision: str
) -> None:
    assert parse_date_decade_or_century(text) == TimeValue(year, month, day, precision)


@pytest.mark.parametrize(
    "text", ["", "0", "1879-13", "1879-02-29", "1900-02-29", "1879-3-1", "sometime", "0th century"]
)
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        parse_date_decade_or_century(text)


def test_quantities_keep_every_digit() -> None:
    assert parse_statement_value("1.960 Q11573", "quantity") == QuantityValue("1.960", "Q11573")
    assert parse_statement_value("+3", "quantity") == QuantityValue("3", None)
    assert parse_statement_value("-3", "quantity") == QuantityValue("-3", None)
    with pytest.raises(ValueError, match=r"'3,755,251' .*expected a number"):
        parse_statement_value("3,755,251", "quantity")


def test_question_mark_is_unknown_value_of_every_type() -> None:
    assert [parse_statement_value("?", kind) for kind in ("item", "time", "quantity", "string")] == [UnknownValue()] * 4


def test_statement_is_split_into_value_qualifiers_and_rank() -> None:
    raw = split_statement("Q64 | P585=2022 | P459=Q1 | preferred")
    assert (raw.value, raw.qualifiers, raw.rank) == ("Q64", (("P585", "2022"), ("P459", "Q1")), "preferred")


def test_sample_is_loaded_completely(sample: WorldData) -> None:
    berlin = sample.items["Q64"]
    assert berlin.labels == {
        "en": "Berlin",
        "de": "Berlin",
        "fr": "Berlin",
        "it": "Berlino",
        "es": "Berlín",
        "pt": "Berlim",
    }
    assert berlin.names == ("Berlin", "Berlin-on-Spree")
    assert [s.value for s in berlin.iterate_best_statements() if s.pid == "P1082"] == [QuantityValue("3755251", None)]
    assert [s.value for s in berlin.list_statements_of("P17")] == [ItemValue("Q183")]
    assert sample.redirects["Berlin (old name)"] == "Berlin"


def test_each_revision_is_previous_one_with_replaced_passages(sample: WorldData) -> None:
    first, second, third = sample.articles["Berlin"].revisions
    assert "Michael Müller" in first.text and "3.6 million" in first.text
    assert "Franziska Giffey" in second.text and "3.6 million" in second.text
    assert "Kai Wegner" in third.text and "3.7 million" in third.text
    assert [r.parent_revid for r in (first, second, third)] == [0, first.revid, second.revid]


PLACES = "entities/places.yaml"
PEOPLE = "entities/people.yaml"
PROPERTIES = "properties.yaml"
CATEGORIES = "categories.yaml"
BERLIN = "articles/Berlin.html"
GERMANY = "articles/Germany.html"
CASES = [
    # file changed, text in it, replacement; file with the error, key, problem
    (PLACES, "P36: Q64", "P36: Q99", PLACES, "Q183.P36: ", "Q99 is not described"),
    (PLACES, "P36: Q64", "P99: Q64", PLACES, "Q183.P99: ", "unknown property"),
    (PLACES, "P36: Q64", "P36: Berlin", PLACES, "Q183.P36: ", "'Berlin' is not an item"),
    (PLACES, "P585=2018-12-31", "P77=2018", PLACES, "Q64.P1082: ", "qualifier P77 is unknown"),
    (PLACES, "P585=2018-12-31", "P585=sometime", PLACES, "Q64.P1082: ", "'sometime' is not a time"),
    (PLACES, "| deprecated", "| bad", PLACES, "Q64.P1082: ", "'bad' is not a qualifier"),
    (PLACES, "| deprecated", "| deprecated | preferred", PLACES, "Q64.P1082: ", "2 ranks"),
    (PLACES, "9999999 | deprecated", "3,7", PLACES, "Q64.P1082: ", "'3,7' is not a quantity"),
    (PLACES, "P571: 13th century", "P571: 13th", PLACES, "Q64.P571: ", "'13th' is not a time"),
    (PLACES, "P571: 13th century", "P571: [1237, 1237]", PLACES, "Q64.P571: ", "is stated 2 times"),
    (PLACES, "P571: 13th century", "P17: Q90", PLACES, "Q64.P17: ", "2 times; expected once"),
    (PLACES, "P571: 13th century", "born: 1237", PLACES, "Q64.born: ", "unknown key"),
    (PLACES, "P571: 13th century", "P571: {year: 1237}", PLACES, "Q64.P571: ", "expected a text"),
    (PLACES, "Q515:", "Q64:", PLACES, "item Q64: ", "described twice"),
    (PEOPLE, "Q868:", "Q64:", PLACES, "item Q64: ", "entities/people.yaml"),
    (PLACES, "label: Berlin / = / =", "label: Berlin / =", PLACES, "Q64.label: ", "5 labels"),
    (PLACES, "{label: census}", "{is: census}", PLACES, "Q39825: ", "no label"),
    (PLACES, "P571: 13th century", "P571: ?", PLACES, "YAML: ", "in quotes"),
    (PLACES, "wiki: Germany", "wiki: Berlin", PLACES, "Q64.wiki: ", "Q183 has the article 'Berlin' too"),
    (PROPERTIES, "P17: item |", "P17: thing |", PROPERTIES, "P17: ", "expected `PID: type | labels`"),
    (PROPERTIES, "P1082: quantity | population", "P1082: quantity | a / b", PROPERTIES, "P1082: ", "2 labels"),
    (CATEGORIES, "Cities: [Places]", "Cities: [Nowhere]", CATEGORIES, "Cities: ", "'Nowhere' is not in the tree"),
    (CATEGORIES, "Cities: [Places]", "Cities: [Cities]", CATEGORIES, "Cities: ", "is its own parent"),
    (CATEGORIES, "BER: Berlin", "BER: Nowhere", CATEGORIES, "BER: ", "leads to 'Nowhere'"),
    (CATEGORIES, "BER: Berlin", "Germany: Berlin", CATEGORIES, "Germany: ", "is a redirect and an article"),
    (CATEGORIES, "BER: Berlin", "City of Berlin: Berlin", BERLIN, "redirect City of Berlin: ", "described twice"),
    (BERLIN, "Müller, F", "X, F", BERLIN, "Berlin.revisions[1]: ", "occurs 0 times; expected exactly once"),
    (BERLIN, "Müller, F", "Berlin, F", BERLIN, "Berlin.revisions[1]: ", "expected exactly once"),
    (BERLIN, "revid: 8000102", "revid: 7", BERLIN, "Berlin.revisions[1]: ", "expected a higher revid"),
    (BERLIN, "at: 2022-09-18T07:40:00Z", "at: 2022", BERLIN, "Berlin.revisions[1].at: ", "expected a time like"),
    (BERLIN, "qid: Q64", "qid: Q183", BERLIN, "Berlin.qid: ", "expected `wiki: Berlin`"),
    (BERLIN, "qid: Q64", "qid: Q777", BERLIN, "Berlin.qid: ", "Q777 is not described"),
    (BERLIN, "qid: Q64\n", "", BERLIN, "Berlin.qid: ", "missing; expected Q64"),
    (BERLIN, "pageid: 7000001", "pageid: 7000002", GERMANY, "Germany: ", "'Berlin' uses pageid 7000002"),
    (BERLIN, "views: 4200", "views: many", BERLIN, "Berlin.views: ", "expected an integer of 0 or more"),
    (BERLIN, "views: 4200", "views: 4200\nviews: 42", BERLIN, "Berlin.views: ", "at most once, and no other key"),
    (BERLIN, "Cities|Berlin", "Towns|Berlin", BERLIN, "Berlin: ", "category 'Towns' is not in the tree"),
    (BERLIN, "views: 4200", "disambiguation: no", BERLIN, "Berlin.disambiguation: ", "expected true or false"),
    (BERLIN, "Capital of Germany", "[a, b]", BERLIN, "Berlin.short_description: ", "expected a text"),
    (GERMANY, "title: Germany", "title: Berlin", GERMANY, "article Berlin: ", "described twice"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_violation_names_file_key_and_expectation(
    tmp_path: Path, sample_folder: Path, case: tuple[str, str, str, str, str, str]
) -> None:
    changed, old, new, file, key, problem = case
    folder = tmp_path / "world"
    shutil.copytree(sample_folder, folder)
    text = (folder / changed).read_text("utf-8")
    assert old in text
    (folder / changed).write_text(text.replace(old, new, 1), "utf-8")
    _, violations = load_world_and_violations(folder)
    found = [str(violation) for violation in violations]
    assert [v for v in found if v.startswith(f"{file}: {key}") and problem in v], found
    with pytest.raises(EmbeddedWorldError, match="violations"):
        load_world_data(folder)


def test_missing_or_non_text_files_are_violations(tmp_path: Path, sample_folder: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(sample_folder, folder)
    (folder / "categories.yaml").unlink()
    (folder / "articles" / "Germany.html").write_bytes(b"\xff\xfe")
    _, violations = load_world_and_violations(folder)
    assert {v.file for v in violations if "cannot be read" in v.problem} == {"categories.yaml", "articles/Germany.html"}


def test_report_counts_contents_of_sample(sample_folder: Path) -> None:
    report = check_world(sample_folder)
    assert not report.violations
    assert report.shared_names == {"Berlin": ("Q64", "Q821244")}
    assert report.articles_by_category["Places"] == 2
    assert report.counts["times before the common era"] == 4
    assert list(describe_report(report))[-1] == "0 violations"


def test_digest_covers_exactly_files_that_are_read(tmp_path: Path, sample_folder: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(sample_folder, folder)
    (folder / "README.md").write_text("not read", "utf-8")
    assert digest_world_files(folder) == digest_world_files(sample_folder)
    with (folder / "articles" / "Germany.html").open("a") as stream:
        stream.write("\n")
    assert digest_world_files(folder) != digest_world_files(sample_folder)
