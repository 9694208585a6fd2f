"""Write N-Triples of a random graph (graph_maker.py): edges alone, with labels, or with all else in a truthy dump.

Lines are made column-wise, so that writing them takes less time than reading them back.
"""

from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from speed.mining.graph_maker import Edges, Ints

ROWS_AT_ONCE = 250_000
EDGE_SHARE = 0.19
"""Share of a dump's lines; the rest is `_REST`. Both are assumptions, not counts: per item about 13 edges to items, 13
other claims, 20 descriptions, 4 labels in three forms each, and 9 lines about its page."""

_ENTITY, _DIRECT = "<http://www.wikidata.org/entity/Q", "<http://www.wikidata.org/prop/direct/P"
_DATA, _SCHEMA, _XSD = (
    "<https://www.wikidata.org/wiki/Special:EntityData/Q",
    "<http://schema.org/",
    "^^<http://www.w3.org/2001/XMLSchema#",
)
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_LANGUAGES = [
    "en", "nl", "de", "fr", "es", "ar", "it", "sv", "ru", "pt", "zh", "ja", "pl", "uk", "ca", "sq", "bn", "he",
]  # fmt: skip

_REST: list[tuple[float, str, str, str]] = [
    (0.055, _ENTITY, _LABEL, "text"),
    (0.055, _ENTITY, "<http://www.w3.org/2004/02/skos/core#prefLabel>", "text"),
    (0.055, _ENTITY, f"{_SCHEMA}name>", "text"),
    (0.30, _ENTITY, f"{_SCHEMA}description>", "text"),
    (0.02, _ENTITY, "<http://www.w3.org/2004/02/skos/core#altLabel>", "text"),
    (0.11, _ENTITY, f"{_DIRECT}{{p}}>", '"{n}"'),
    (0.045, _ENTITY, "<http://www.wikidata.org/prop/direct-normalized/P{p}>", "<https://example.org/things/{n}>"),
    (0.03, _ENTITY, f"{_DIRECT}{{p}}>", f'"{{y}}-01-01T00:00:00Z"{_XSD}dateTime>'),
    (0.015, _ENTITY, f"{_DIRECT}{{p}}>", f'"+{{n}}"{_XSD}decimal>'),
    (0.025, _DATA, f"{_SCHEMA}dateModified>", f'"2024-04-08T23:00:02Z"{_XSD}dateTime>'),
    (0.025, _DATA, f"{_SCHEMA}version>", f'"{{n}}"{_XSD}integer>'),
    (0.025, _DATA, "<http://wikiba.se/ontology#statements>", f'"{{n}}"{_XSD}integer>'),
    (0.025, _DATA, "<http://wikiba.se/ontology#sitelinks>", f'"{{n}}"{_XSD}integer>'),
    (0.025, _DATA, f"{_SCHEMA}about>", f"{_ENTITY}{{n}}>"),
]
"""Share, subject, predicate, object; {n} is a number, {p} a property, {y} a year."""


def write_triples(edges: Edges, out: BinaryIO, *, labelled: bool = False) -> int:
    """Write a graph as N-Triples by subject, optionally with an English label each; return the number of lines."""
    lines, before = 0, -1
    for start in range(0, len(edges), ROWS_AT_ONCE):
        text = _write_edges(edges, slice(start, start + ROWS_AT_ONCE))
        lines += len(text)
        if labelled:
            places = np.unique(edges.subjects[start : start + ROWS_AT_ONCE])
            new = edges.items[places[places > before]]
            before = int(places[-1])
            out.write(_bytes(_join(_ENTITY, new, f'> {_LABEL} "', _name(new), '"@en .\n')))
            lines += len(new)
        out.write(_bytes(text))
    return lines


def write_dump(edges: Edges, lines: int, out: BinaryIO, seed: int) -> int:
    """Write `lines` N-Triples of all kinds that a truthy dump has, the edges among them, by item."""
    random = np.random.default_rng([seed, lines])
    written = 0
    for start in range(0, len(edges), ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, len(edges)))
        parts, items = [_write_edges(edges, rows)], [edges.items[edges.subjects[rows]]]
        low, high = (edges.subjects[place] for place in (rows.start, rows.stop - 1))
        wanted = round(lines * rows.stop / len(edges)) - round(lines * rows.start / len(edges)) - len(items[0])
        counts = np.bincount(
            random.choice(len(_REST), wanted, p=np.array([kind[0] for kind in _REST]) / sum(kind[0] for kind in _REST))
        )
        for count, (_, subject, predicate, value) in zip(counts, _REST, strict=False):
            numbers = edges.items[np.sort(random.integers(low, high + 1, count))]
            parts.append(_write_rest(numbers, subject, predicate, value, edges, random))
            items.append(numbers)
        order = np.argsort(np.concatenate(items), kind="stable")
        out.write(_bytes(pa.concat_arrays(parts).take(pa.array(order))))
        written += len(order)
    return written


def _write_edges(edges: Edges, rows: slice) -> pa.Array:
    subjects, objects = edges.items[edges.subjects[rows]], edges.items[edges.objects[rows]]
    return _join(
        _ENTITY, subjects, f"> {_DIRECT}", edges.properties[edges.labels[rows]], f"> {_ENTITY}", objects, "> .\n"
    )


def _write_rest(
    items: Ints, subject: str, predicate: str, value: str, edges: Edges, random: np.random.Generator
) -> pa.Array:
    """Return a line for each item."""
    columns: dict[str, pa.Array | Ints] = {
        "n": random.integers(1, 10**9, len(items)),
        "p": random.choice(edges.properties, len(items)),
        "y": random.integers(1000, 2025, len(items)),
    }
    if value == "text":
        ranks = (len(_LANGUAGES) * random.random(len(items)) ** 2).astype(np.int64)
        columns |= {"name": _name(items), "l": pa.array(_LANGUAGES).take(pa.array(ranks))}
        value = '"{name}"@{l}'
    pieces: list[str | Ints | pa.Array] = [subject, items]
    for piece in f"> {predicate} {value} .\n".replace("{", "\0{").replace("}", "\0").split("\0"):
        pieces.append(columns[piece[1:]] if piece.startswith("{") else piece)
    return _join(*pieces)


def _name(numbers: Ints) -> pa.Array:
    """Return synthetic names of two words and a number."""
    words = pa.array([a + b + c for a in "BDKLMRST" for b in ("an", "er", "il", "os", "u") for c in "abdegiknorstz"])
    first, last = words.take(pa.array(numbers * 7 % len(words))), words.take(pa.array(numbers % len(words)))
    return pc.binary_join_element_wise(first, last, pa.array(numbers).cast(pa.string()), " ")


def _join(*parts: "str | Ints | pa.Array") -> pa.Array:
    columns = [pa.array(part).cast(pa.string()) if isinstance(part, np.ndarray) else part for part in parts]
    return pc.binary_join_element_wise(*columns, "")


def _bytes(texts: pa.Array) -> memoryview:
    """Return the texts concatenated, without copying them."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)
    return memoryview(texts.buffers()[2])[ends[texts.offset] : ends[texts.offset + len(texts)]]
