"""Test how the lines of a dump are sorted."""

from typing import Any

import pytest
from support.graphs.rdf_lines import spell_out

from factmill.tasks.graph.loading.line_patterns import (
    StagedRowsAndCounts,
    make_line_patterns,
    sort_block_lines_into_rows,
)
from factmill.tasks.graph.loading.sources.streams import LineBlock

SHAPES = make_line_patterns(("de", "en"))


def sort_text(text: str | bytes) -> StagedRowsAndCounts:
    return sort_block_lines_into_rows(LineBlock("a.nt", 1, text if isinstance(text, bytes) else text.encode()), SHAPES)


def rows(found: StagedRowsAndCounts, name: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for table in found.tables.get(name, []) for row in table.to_pylist()]


def test_each_kept_triple_is_sorted_into_its_table() -> None:
    found = sort_text(
        spell_out("""
        wd:Q1 wdt:P31 wd:Q5
        wd:Q999999999999999999 wdt:P999999999 wd:Q2
        wd:Q1 rdfs:label "one"@en
        wd:Q1 rdfs:label "eins"@de
        wd:P31 rdfs:label "instance of"@en
        wd:Q1 skos:altLabel "the \\"first\\""@en
        wd:Q1 schema:description "a number > 0 \\u2013 \\\\o/"@en
        enwiki:One_%26_all schema:about wd:Q1
        enwiki:One_%26_all schema:name "One & all"@en
        wd:Q1 schema:dateModified "2020-01-02T03:04:05Z"^^xsd:dateTime
        data:Q2 schema:dateModified "2021-01-02T03:04:05Z"^^xsd:dateTime
        wikibase:Dump schema:dateModified "2022-01-02T03:04:05Z"^^xsd:dateTime
        """)
    )
    assert rows(found, "edges") == [(1, 31, 5), (999999999999999999, 999999999, 2)]
    assert rows(found, "labels") == [(1, "en", "one"), (1, "de", "eins")]
    assert rows(found, "property_labels") == [(31, "en", "instance of")]
    assert rows(found, "aliases") == [(1, "en", 'the "first"')]
    assert rows(found, "descriptions") == [(1, "en", "a number > 0 – \\o/")]
    assert rows(found, "articles") == [("https://en.wikipedia.org/wiki/One_%26_all", 1)]
    assert rows(found, "article_names") == [("https://en.wikipedia.org/wiki/One_%26_all", "One & all")]
    assert rows(found, "changes") == [
        (1, "2020-01-02T03:04:05Z"),
        (2, "2021-01-02T03:04:05Z"),
        (0, "2022-01-02T03:04:05Z"),
    ]
    assert not found.not_kept
    assert found.lines == 12


STATEMENT = """
    wd:Q1 wdt:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime
    wd:Q1 wdt:P2048 "+1.96"^^xsd:decimal
    wd:Q1 p:P569 wds:q1-A_b.c
    wds:q1-A wikibase:rank wikibase:DeprecatedRank
    wds:q1-A ps:P569 "-0043-03-15T00:00:00Z"^^xsd:dateTime
    wds:q1-A ps:P2048 "-.5"^^xsd:decimal
    wds:q1-A pq:P580 "-13798000000-00-00T00:00:00Z"^^xsd:dateTime
    wds:q1-A ps:P31 wd:Q5
    wds:q1-A ps:P1476 "a \\"title\\" > b"@en-gb
    wds:q1-A ps:P625 "Point(1 2)"^^<http://www.opengis.net/ont/geosparql#wktLiteral>
    wds:q1-A ps:P1 "Q5"
    wds:q1-A ps:P856 <https://a.org/?b=1>
    wds:q1-A ps:P1629 wd:P31
    wds:q1-A psv:P569 v:0a
    wds:q1-A pqv:P580 v:0b
    v:0a wikibase:timeValue "1952-03-11T00:00:00Z"^^xsd:dateTime
    v:0a wikibase:timePrecision "11"^^xsd:integer
    v:0b wikibase:quantityAmount "+1.96"^^xsd:decimal
    v:0b wikibase:quantityUnit wd:Q11573
"""


def test_statement_triples_are_sorted_into_their_tables() -> None:
    found = sort_text(spell_out(STATEMENT))
    assert {name: rows(found, name) for name in found.tables} == {
        "direct_values": [(1, 569, "1952-03-11T00:00:00Z"), (1, 2048, "+1.96")],
        "statements": [(1, 569, "q1-A_b.c")],
        "deprecated": [("q1-A",)],
        "statement_values": [("q1-A", 569, "-0043-03-15T00:00:00Z"), ("q1-A", 2048, "-.5")],
        "qualifier_values": [("q1-A", 580, "-13798000000-00-00T00:00:00Z")],
        "item_values": [("q1-A", 31, 5)],
        "other_values": [
            ("q1-A", 1476, 'a "title" > b'),
            ("q1-A", 625, "Point(1 2)"),
            ("q1-A", 1, "Q5"),
            ("q1-A", 856, "https://a.org/?b=1"),
            ("q1-A", 1629, "http://www.wikidata.org/entity/P31"),
        ],
        "statement_nodes": [("q1-A", 569, "0a")],
        "qualifier_nodes": [("q1-A", 580, "0b")],
        "times": [("0a", "1952-03-11T00:00:00Z")],
        "precisions": [("0a", 11)],
        "amounts": [("0b", "+1.96")],
        "units": [("0b", 11573)],
    }
    assert not found.not_kept


def test_older_ontology_name_is_recognised() -> None:
    text = spell_out(STATEMENT)
    old = sort_text(text.replace("wikiba.se/ontology#", "wikiba.se/ontology-beta#"))
    assert old.tables == sort_text(text).tables


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('wd:Q1 rdfs:label "one"@en-gb', "text"),
        ('wd:Q1 rdfs:label "uno"@it', "text"),
        ('wd:Q1 rdfs:label "no language"', "text"),
        ('wd:P31 skos:altLabel "is a"@en', "text"),
        ('<http://www.wikidata.org/entity/L1> rdfs:label "mother"@en', "text"),
        ('wd:P1 wdt:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime', "direct_literal"),
        ('wd:Q1 wdt:P569 "1952-03-11T00:00:00Z"', "direct_literal"),
        ('wd:Q1 wdt:P1114 "5"^^xsd:integer', "direct_literal"),
        ('wd:Q1 wdt:P1476 "title"@en', "direct_literal"),
        ("wd:Q1 wdt:P569 _:unknown", "unknown_value"),
        ("wd:Q1 wdt:P569 <http://www.wikidata.org/.well-known/genid/abc>", "unknown_value"),
        ("wd:Q1 wdt:P18 <http://commons.wikimedia.org/wiki/Special:FilePath/A.jpg>", "direct_other"),
        ("wd:P19 wdt:P31 wd:Q18608871", "direct_other"),
        ("wd:Q1 wdt:P1 wd:Q01", "direct_other"),
        ("wd:Q1 wdt:P1 wd:Q1000000000000000000", "direct_other"),
        ("<http://www.wikidata.org/entity/L1> p:P31 wds:L1-abc", "statement"),
        ("wds:q1-abc <http://www.wikidata.org/prop/statement/value-normalized/P2048> v:0a", "statement"),
        ("wds:q1-abc wikibase:rank wikibase:NormalRank", "rank"),
        ("wds:q1-abc wikibase:rank wikibase:PreferredRank", "rank"),
        ("wds:q1-abc ps:P569 _:unknown", "unknown_value"),
        ("wds:q1-abc ps:P569 <http://www.wikidata.org/.well-known/genid/abc>", "unknown_value"),
        ("wds:q1-abc pq:P580 _:unknown", "unknown_value"),
        ("wds:q1-abc pq:P580 <http://www.wikidata.org/.well-known/genid/abc>", "unknown_value"),
        ("wds:q1-abc pq:P31 wd:Q5", "qualifier"),
        ('wds:q1-abc pq:P1545 "7"', "qualifier"),
        ("wds:q1-abc prov:wasDerivedFrom ref:abc", "reference"),
        ('ref:abc pr:P813 "2020-01-01T00:00:00Z"^^xsd:dateTime', "reference"),
        ("ref:abc pr:P248 _:unknown", "reference"),
        ("wds:q1-abc rdf:type wikibase:Statement", "type"),
        ("v:0a wikibase:timeCalendarModel wd:Q1985727", "value_node"),
        ('v:0a wikibase:timePrecision "15"^^xsd:integer', "value_node"),
        ('v:0a wikibase:quantityUpperBound "+2"^^xsd:decimal', "value_node"),
        ("v:0a wikibase:quantityUnit wd:P1", "value_node"),
        ('v:0a wikibase:geoLatitude "1.5"^^xsd:double', "value_node"),
        ('data:Q1 wikibase:sitelinks "3"^^xsd:integer', "other"),
        ("<https://de.wikipedia.org/wiki/Eins> schema:about wd:Q1", "page"),
        ("enwiki:One schema:isPartOf <https://en.wikipedia.org/>", "page"),
        ('<https://de.wikipedia.org/wiki/Eins> schema:name "Eins"@de', "page"),
        ('wd:Q1 schema:name "one"@en', "page"),
        ('wd:Q1 schema:dateModified "yesterday"', "other"),
        ("_:b <http://www.w3.org/2002/07/owl#onProperty> wdt:P31", "other"),
    ],
)
def test_each_unused_triple_is_counted_by_kind(line: str, kind: str) -> None:
    found = sort_text(spell_out(line))
    assert dict(found.not_kept) == {kind: 1}
    assert not found.tables


def test_language_tags_match_completely_and_ignore_case() -> None:
    found = sort_text(spell_out('wd:Q1 rdfs:label "a"@EN\nwd:Q2 rdfs:label "b"@e\nwd:Q3 rdfs:label "c"@den'))
    assert rows(found, "labels") == [(1, "en", "a")]
    assert found.not_kept["text"] == 2


def test_unusual_spelling_is_sorted_into_same_tables() -> None:
    text = spell_out('wd:Q1 wdt:P31 wd:Q5\nwd:Q1 rdfs:label "one"@en\nwd:Q1 wdt:P569 "x"')
    unusual = (
        text.replace("> ", ">\t").replace(" .\n", ".# end\n").replace("/entity/Q1>", "/entity/\\u0051\\U00000031>")
    )
    plain, other = sort_text(text), sort_text(unusual)
    assert unusual != text
    assert [rows(plain, name) for name in ("edges", "labels")] == [rows(other, name) for name in ("edges", "labels")]
    assert plain.not_kept == other.not_kept == {"direct_literal": 1}


def test_malformed_lines_are_stored_with_file_line_number_and_text() -> None:
    good = spell_out("wd:Q1 wdt:P31 wd:Q5").encode()
    block = LineBlock("dump.nt", 101, good + b"oops\n\n# comment\n" + good + b'<a:s> <a:p> "\xff" .\n' + good)
    found = sort_block_lines_into_rows(block, SHAPES)
    assert rows(found, "malformed") == [
        ("dump.nt", 102, "not a triple", "oops"),
        ("dump.nt", 106, "not UTF-8", '<a:s> <a:p> "\\xff" .'),
    ]
    assert found.count_rows("edges") == 3
    assert (found.lines, found.blank) == (7, 2)


WRONG = [
    ('"hello"^^xsd:dateTime', "not a date"),
    ('"2001-13-01T00:00:00Z"^^xsd:dateTime', "not a date"),
    ('"2001-01-32T00:00:00Z"^^xsd:dateTime', "not a date"),
    ('"2001-01-01"^^xsd:dateTime', "not a date"),
    ('"100000000000001-01-01T00:00:00Z"^^xsd:dateTime', "not a date"),
    ('"a \\"2001-01-01T00:00:00Z"^^xsd:dateTime', "not a date"),
    ('"\\n"^^xsd:dateTime', "not a date"),
    ('""^^xsd:dateTime', "not a date"),
    ('"1e5"^^xsd:decimal', "not a decimal number"),
    ('"1,000"^^xsd:decimal', "not a decimal number"),
    ('"."^^xsd:decimal', "not a decimal number"),
]


@pytest.mark.parametrize(("literal", "reason"), WRONG)
@pytest.mark.parametrize("rest", ["wd:Q1 wdt:P569", "wds:q1-a ps:P569", "wds:q1-a pq:P569", "v:0 wikibase:timeValue"])
def test_literal_that_violates_its_datatype_is_malformed(rest: str, literal: str, reason: str) -> None:
    good = spell_out("wd:Q1 wdt:P31 wd:Q5")
    found = sort_text(good + spell_out(f"{rest} {literal}") + good)
    assert [row[1:3] for row in rows(found, "malformed")] == [(2, reason)]
    assert (found.count_rows("edges"), found.not_kept.total(), set(found.tables)) == (2, 0, {"edges", "malformed"})


@pytest.mark.parametrize(
    "value", ["100000000000000-01-01T00:00:00Z", "-0000-12-31T23:59:59.5+01:00", "0001-00-00T00:00:00"]
)
def test_unusual_date_is_kept_as_written(value: str) -> None:
    found = sort_text(spell_out(f'wds:q1-a ps:P569 "{value}"^^xsd:dateTime'))
    assert rows(found, "statement_values") == [("q1-a", 569, value)]


def test_escaped_dates_and_numbers_are_read_by_their_characters() -> None:
    lines = 'wd:Q1 wdt:P569 "\\u0031952-03-11T00:00:00Z"^^xsd:dateTime\nwd:Q1 wdt:P1 "\\U0000002B\\u0035"^^xsd:decimal'
    found = sort_text(spell_out(lines))
    assert rows(found, "direct_values") == [(1, 569, "1952-03-11T00:00:00Z"), (1, 1, "+5")]
