"""Test that the byte scanner sorts lines as the regular expressions do, in every spelling."""

import random
from collections import Counter
from typing import Any

import pytest

from factmill.tasks.graph.loading import line_patterns as shapes_module
from factmill.tasks.graph.loading.line_patterns import (
    classify_unkept_triple,
    make_line_patterns,
    sort_block_lines_into_rows,
    split_lines,
)
from factmill.tasks.graph.loading.sources.streams import LineBlock
from factmill.tasks.graph.loading.staging_rows import StagedRowsAndCounts

SHAPES = make_line_patterns(("de", "en-gb"))
WD, XSD = "http://www.wikidata.org", "http://www.w3.org/2001/XMLSchema"
SUBJECTS = [
    f"<{WD}/entity/Q42>",
    f"<{WD}/entity/Q999999999999999999>",
    f"<{WD}/entity/Q042>",
    f"<{WD}/entity/P31>",
    f"<{WD}/entity/L1-F2>",
    f"<{WD}/entity/statement/Q42-A>",
    f"<{WD}/value/abc>",
    "<https://www.wikidata.org/wiki/Special:EntityData/Q42>",
    "<http://www.wikidata.org/wiki/Special:EntityData/Q7>",
    "<http://wikiba.se/ontology#Dump>",
    "<https://en.wikipedia.org/wiki/Douglas_Adams>",
    "<https://de.wikipedia.org/wiki/Köln>",
    "_:b0",
    "<no-scheme>",
]
PREDICATES = [
    f"<{WD}/prop/direct/P31>",
    f"<{WD}/prop/direct/P999999999>",
    f"<{WD}/prop/direct/P1234567890>",
    f"<{WD}/prop/direct-normalized/P214>",
    f"<{WD}/prop/P31>",
    f"<{WD}/prop/statement/P569>",
    "<http://www.w3.org/2000/01/rdf-schema#label>",
    "<http://www.w3.org/2004/02/skos/core#altLabel>",
    "<http://schema.org/description>",
    "<http://schema.org/dateModified>",
    "<http://schema.org/about>",
    "<http://schema.org/name>",
    "<http://www.w3.org/2002/07/owl#sameAs>",
    "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
    "<http://wikiba.se/ontology#rank>",
]
OBJECTS = [
    f"<{WD}/entity/Q5>",
    f"<{WD}/entity/Q0>",
    f"<{WD}/entity/statement/Q42-A>",
    f"<{WD}/.well-known/genid/abc>",
    "<https://example.org/a b>",
    "<https://example.org/thing>",
    "_:b1",
    '"Köln 漢字"@de',
    '"with \\"escapes\\" and \\u00e9"@de',
    '"shouted"@DE',
    '"British"@en-GB',
    '"in another"@en',
    '"for all"@mul',
    '"no tag"@',
    '"wrong tag"@1a',
    '"Q5"',
    '""@de',
    *(f'"{value}"^^<{XSD}#dateTime>' for value in (
        "1952-03-11T00:00:00Z", "-0043-03-15T00:00:00Z", "+1952-00-00T00:00:00Z", "1952-13-01T00:00:00Z",
        "952-03-11T00:00:00Z", "12345678901234-01-31T23:59:60.25+01:00", "000000000000001952-01-01T00:00:00Z",
        "1952-03-11", "1952-03-32T00:00:00Z", "1952-03-11T00:00:00", "1952-03-11T00:00:00.Z", "",
    )),
    *(f'"{value}"^^<{XSD}#decimal>' for value in ("+1.50", "-7", "1.", ".5", ".", "1e5", "", "007", "--1")),
    f'"5"^^<{XSD}#integer>',
    '"5"^^<no-scheme>',
]  # fmt: skip


def tell(found: StagedRowsAndCounts) -> tuple[Any, ...]:
    """Return all sorted lines, independent of their order."""
    rows = {
        name: Counter(str(row) for table in tables for row in table.to_pylist())
        for name, tables in found.tables.items()
    }
    return rows, found.not_kept, found.lines, found.blank


def sort_both(text: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Sort a block with and without the scan."""
    block, found = LineBlock("a.nt", 1, text), []
    for size in (0, len(text) + 1):
        monkeypatch.setattr(shapes_module, "MIN_SCANNED_BLOCK_BYTES", size)
        found.append(tell(sort_block_lines_into_rows(block, SHAPES)))
    return found[0], found[1]


def make_lines() -> list[bytes]:
    """Return every subject with every predicate and object, and blank lines and comments."""
    lines = [f"{s} {p} {o} .\n".encode() for s in SUBJECTS for p in PREDICATES for o in OBJECTS]
    return [*lines, b"\n", b"# words .\n", b" .\n", b".\n"]


def test_scanner_and_patterns_agree_on_every_subject_predicate_and_object(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned, matched = sort_both(b"".join(make_lines()), monkeypatch)
    assert scanned == matched
    assert {"edges", "labels", "aliases", "descriptions", "direct_values", "changes", "malformed"} <= set(scanned[0])


def test_scanner_and_patterns_agree_on_lines_with_extra_or_missing_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(5)
    spoilt = []
    for line in dice.choices(make_lines(), k=4000):
        place, character = dice.randrange(len(line)), dice.choice(b' \t"\\<>^@.:_-+0Q9TZ\r#a')
        cut = dice.choice([line[:place], line[: place + 1]])
        other = dice.choice([cut + line[place + 1 :], cut + bytes([character]) + line[place + 1 :]])
        text = other.removesuffix(b"\n").decode(errors="replace")
        spoilt.append(text.replace("\ufffd", "é").encode() + b"\n")
    scanned, matched = sort_both(b"".join(spoilt), monkeypatch)
    assert scanned == matched
    assert scanned[0]["malformed"]


def test_scanner_recognises_most_lines_of_dump_without_patterns() -> None:
    from factmill.tasks.graph.loading.scanning import scan_lines_or_list_unrecognised

    text = "".join(
        f"<{WD}/entity/Q{nth} {predicate} {thing} .\n".replace(f"Q{nth} ", f"Q{nth}> ")
        for nth in range(1, 400)
        for predicate, thing in ((PREDICATES[0], OBJECTS[0]), (PREDICATES[0], OBJECTS[17]), (PREDICATES[6], OBJECTS[7]))
    ).encode()
    lines = split_lines(text)
    ends = shapes_module.np.frombuffer(lines.buffers()[1], "i4")[1:]
    assert (
        len(
            scan_lines_or_list_unrecognised(text, ends, SHAPES.languages, classify_unkept_triple, StagedRowsAndCounts())
        )
        == 0
    )


def test_more_predicates_than_fit_in_block_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f'<{WD}/entity/Q1> <{WD}/prop/direct/P{nth}> "x" .\n' for nth in range(1, 7000)).encode()
    scanned, matched = sort_both(text, monkeypatch)
    assert scanned == matched
    assert scanned[1] == {"direct_literal": 6999}
