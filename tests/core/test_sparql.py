"""Test SPARQL terms: any content of a name stays inside the name."""

import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.core.sparql import (
    check_language_tag,
    decimal_term,
    direct_property_term,
    escape_literal,
    fill_values_blocks,
    integer_term,
    item_term,
    literal_term,
    replace_limit,
)

QUERY = """# VALUES ?name { "not this one" }
SELECT ?name WHERE { VALUES ?name { "a } b"@en "it's" } FILTER(?name != '}') }"""


def ask_back(text: str) -> str:
    query = fill_values_blocks(QUERY, "name", [literal_term(text, "en")])
    (row,) = pyoxigraph.Store().query(query)
    return row["name"].value


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@given(names)
def test_literal_round_trips_through_sparql(text):
    assert ask_back(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *('The "Boss"', "back\\slash", "\\", '\\"', "line\nbreak\r\n", "{brace} } ?x", "tab\tbell\x07"),
        *("Ōsaka 大阪 🏯", '" } DROP ALL #', "\\u0022", "'''", '"""', "# no comment", "$name %s {0}"),
    ],
)
def test_awkward_names_round_trip_through_sparql(text):
    assert ask_back(text) == text


@pytest.mark.parametrize("language", ["en", "pt-br", "zh-Hant", "mul"])
def test_literal_term_keeps_language_tag(language):
    assert literal_term("x", language) == f'"x"@{language}'


def test_terms_are_made_from_ids_and_numbers():
    assert (item_term("Q64"), direct_property_term("P19"), integer_term(7)) == ("wd:Q64", "wdt:P19", "7")


REFUSED = {
    (escape_literal, "cannot be sent as text"): ("half \ud83d", "nul \x00"),
    (check_language_tag, "not a language tag"): ("", "en fr", "e n", 'en" }', "en_US", "-en"),
    (item_term, "not an item id"): ("P19", "Q0", "Q", "q64", "Q64 } #", "Q64\n", "wd:Q64"),
    (direct_property_term, "not a property id"): ("Q64",),
    (decimal_term, "canonical form"): ("", "+1", "1.50", "01", "1e3", "NaN", '1" } #', "1.", "-0", "١"),
}


@pytest.mark.parametrize(
    ("make", "expected", "text"), [(*refusal, text) for refusal, texts in REFUSED.items() for text in texts]
)
def test_what_is_no_term_is_refused(make, expected, text):
    with pytest.raises(ValueError, match=expected):
        make(text)


def test_fill_values_block_fills_every_block_of_variable_and_nothing_else():
    query = 'SELECT * { { VALUES ?a { 1 "}" 2 } } UNION { values ?a{3}VALUES ?b { 4 } } } # VALUES ?a { 5 }'
    assert fill_values_blocks(query, "a", [integer_term(8), integer_term(9)]) == (
        "SELECT * { { VALUES ?a { 8 9 } } UNION { values ?a{ 8 9 }VALUES ?b { 4 } } } # VALUES ?a { 5 }"
    )


def test_decimal_term_keeps_value_of_number_of_any_length():
    number = "-0.000000000000000000000000000000000662607015"
    (row,) = pyoxigraph.Store().query(
        f"PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT (STR({decimal_term(number)}) AS ?text) {{}}"
    )
    assert row["text"].value == number


def test_fill_values_tuples_fills_every_block_of_several_variables():
    query = (
        'SELECT * { VALUES ?a { 1 } { VALUES (?a ?b) { (1 "}") (2 2) } } UNION { values(?a ?b){} } '
        "VALUES (?b ?a) { (3 3) } } # VALUES (?a ?b) { (5 5) }"
    )
    rows = [(integer_term(7), literal_term("x } y")), (integer_term(8), literal_term(")"))]
    assert fill_values_blocks(query, ("a", "b"), rows) == (
        'SELECT * { VALUES ?a { 1 } { VALUES (?a ?b) { (7 "x } y") (8 ")") } } UNION '
        '{ values(?a ?b){ (7 "x } y") (8 ")") } } VALUES (?b ?a) { (3 3) } } # VALUES (?a ?b) { (5 5) }'
    )


@pytest.mark.parametrize(
    ("query", "variables", "rows", "expected"),
    [
        ("SELECT * { VALUES (?a ?b) { } }", ("a", "b"), [(integer_term(7),)], "a, b; found 1: 7"),
        ("SELECT * { VALUES (?a ?b) { } }", ("b", "a"), [], "no block `VALUES \\( \\?b \\?a \\)"),
        ("SELECT * { VALUES ?a { 1 } }", "b", [], "no block `VALUES \\?b"),
        ("SELECT * { VALUES ?a { 1 ", "a", [], r"VALUES block of .* closed"),
    ],
)
def test_rows_that_fit_no_block_are_refused(query, variables, rows, expected):
    with pytest.raises(ValueError, match=expected):
        fill_values_blocks(query, variables, rows)


def test_fill_limit_fills_only_limit_of_query():
    assert replace_limit("# LIMIT 3\nSELECT * { } limit 10", 7) == "# LIMIT 3\nSELECT * { } limit 7"
    for query, limit in [("SELECT * {}", 1), ("SELECT * {} LIMIT 1 LIMIT 2", 1), ("SELECT * {} LIMIT 1", 0)]:
        with pytest.raises(ValueError, match="expected one LIMIT"):
            replace_limit(query, limit)
