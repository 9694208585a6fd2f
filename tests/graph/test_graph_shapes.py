"""What the lines of a dump are sorted into."""

import re
from typing import Any

import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdf_lines import spell_out

from tasks.graph.shapes import Sorted, make_shapes, sort_block
from tasks.graph.streams import Block

SHAPES = make_shapes(("de", "en"))


def sort_text(text: str | bytes) -> Sorted:
    return sort_block(Block("a.nt", 1, text if isinstance(text, bytes) else text.encode()), SHAPES)


def rows(found: Sorted, name: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for table in found.tables.get(name, []) for row in table.to_pylist()]


def test_each_kept_triple_goes_to_its_table() -> None:
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


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('wd:Q1 rdfs:label "one"@en-gb', "text"),
        ('wd:Q1 rdfs:label "uno"@it', "text"),
        ('wd:Q1 rdfs:label "no language"', "text"),
        ('wd:P31 skos:altLabel "is a"@en', "text"),
        ('<http://www.wikidata.org/entity/L1> rdfs:label "mother"@en', "text"),
        ('wd:Q1 wdt:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime', "direct_literal"),
        ('wd:Q1 wdt:P1476 "title"@en', "direct_literal"),
        ("wd:Q1 wdt:P569 _:unknown", "direct_unknown"),
        ("wd:Q1 wdt:P569 <http://www.wikidata.org/.well-known/genid/abc>", "direct_unknown"),
        ("wd:Q1 wdt:P18 <http://commons.wikimedia.org/wiki/Special:FilePath/A.jpg>", "direct_other"),
        ("wd:P19 wdt:P31 wd:Q18608871", "direct_other"),
        ("wd:Q1 wdt:P1 wd:Q01", "direct_other"),
        ("wd:Q1 wdt:P1 wd:Q1000000000000000000", "direct_other"),
        ("wd:Q1 p:P31 wds:q1-abc", "statement"),
        ("wds:q1-abc ps:P31 wd:Q5", "statement"),
        ("wds:q1-abc wikibase:rank wikibase:NormalRank", "statement"),
        ("<https://de.wikipedia.org/wiki/Eins> schema:about wd:Q1", "page"),
        ("enwiki:One schema:isPartOf <https://en.wikipedia.org/>", "page"),
        ('<https://de.wikipedia.org/wiki/Eins> schema:name "Eins"@de', "page"),
        ('wd:Q1 schema:name "one"@en', "page"),
        ('wd:Q1 schema:dateModified "yesterday"', "other"),
        ("_:b <http://www.w3.org/2002/07/owl#onProperty> wdt:P31", "other"),
    ],
)
def test_each_other_triple_is_counted_by_kind(line: str, kind: str) -> None:
    found = sort_text(spell_out(line))
    assert dict(found.not_kept) == {kind: 1}
    assert not found.tables


def test_language_tags_are_matched_whole_and_without_case() -> None:
    found = sort_text(spell_out('wd:Q1 rdfs:label "a"@EN\nwd:Q2 rdfs:label "b"@e\nwd:Q3 rdfs:label "c"@den'))
    assert rows(found, "labels") == [(1, "en", "a")]
    assert found.not_kept["text"] == 2


def test_unusual_spelling_ends_in_the_same_tables() -> None:
    text = spell_out('wd:Q1 wdt:P31 wd:Q5\nwd:Q1 rdfs:label "one"@en\nwd:Q1 wdt:P569 "x"')
    unusual = (
        text.replace("> ", ">\t").replace(" .\n", ".# end\n").replace("/entity/Q1>", "/entity/\\u0051\\U00000031>")
    )
    plain, other = sort_text(text), sort_text(unusual)
    assert unusual != text
    assert [rows(plain, name) for name in ("edges", "labels")] == [rows(other, name) for name in ("edges", "labels")]
    assert plain.not_kept == other.not_kept == {"direct_literal": 1}


def test_malformed_lines_are_set_aside_with_file_number_and_text() -> None:
    good = spell_out("wd:Q1 wdt:P31 wd:Q5").encode()
    block = Block("dump.nt", 101, good + b"oops\n\n# comment\n" + good + b'<a:s> <a:p> "\xff" .\n' + good)
    found = sort_block(block, SHAPES)
    assert rows(found, "malformed") == [
        ("dump.nt", 102, "not a triple", "oops"),
        ("dump.nt", 106, "not UTF-8", '<a:s> <a:p> "\\xff" .'),
    ]
    assert found.count_rows("edges") == 3
    assert (found.lines, found.blank) == (7, 2)


THINGS = st.sampled_from(["wd:Q1", "wd:Q64", "wd:P19", "wd:L7", "_:b0", "enwiki:Berlin", "enwiki:A_%22b%22"])
PREDICATES = st.sampled_from(["wdt:P31", "rdfs:label", "skos:altLabel", "schema:description", "schema:about", "p:P31"])
LITERALS = st.builds(
    lambda text, tag: '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"' + tag,
    st.text(st.sampled_from('ab >"\\\n\té–😀@.'), max_size=8),
    st.sampled_from(["", "@en", "@de", "@en-gb", "^^xsd:string"]),
)


def read_independently(text: str) -> dict[str, list[tuple[Any, ...]]]:
    """Sort triples with another parser and plain Python."""
    out: dict[str, list[tuple[Any, ...]]] = {"edges": [], "labels": [], "aliases": [], "descriptions": []}
    texts = {"#label": "labels", "#altLabel": "aliases", "/description": "descriptions"}
    for triple in pyoxigraph.parse(text, pyoxigraph.RdfFormat.N_TRIPLES):
        subject = re.fullmatch(r"<http://www.wikidata.org/entity/Q(\d+)>", str(triple.subject))
        thing = re.fullmatch(r"<http://www.wikidata.org/entity/Q(\d+)>", str(triple.object))
        predicate = re.fullmatch(r"http://www.wikidata.org/prop/direct/P(\d+)", triple.predicate.value)
        table = next((name for end, name in texts.items() if triple.predicate.value.endswith(end)), None)
        if subject and predicate and thing:
            out["edges"].append((int(subject[1]), int(predicate[1]), int(thing[1])))
        elif subject and table and getattr(triple.object, "language", None) in ("de", "en"):
            out[table].append((int(subject[1]), triple.object.language, triple.object.value))
    return out


@given(st.lists(st.tuples(THINGS, PREDICATES, st.one_of(THINGS, LITERALS)), min_size=1, max_size=20))
def test_sorting_in_bulk_agrees_with_another_parser(triples: list[tuple[str, str, str]]) -> None:
    text = spell_out("\n".join(map(" ".join, triples)))
    found = sort_text(text)
    assert not found.tables.get("malformed")
    assert {name: rows(found, name) for name in ("edges", "labels", "aliases", "descriptions")} == read_independently(
        text
    )
    kept = sum(found.count_rows(name) for name in found.tables)
    assert found.lines == len(triples) == kept + found.not_kept.total()
