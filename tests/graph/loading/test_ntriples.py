"""Test the grammar of N-Triples and the canonical spelling of a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.graph.loading.ntriples import canonicalise_line, unescape_literal

CANONICAL = b'<http://a.org/s> <http://a.org/p> "x"@en .\n'


SPELLINGS = [
    b'<http://a.org/s> <http://a.org/p> "x"@en .\n',
    b'<http://a.org/s>\t<http://a.org/p>\t"x"@en\t.\n',
    b'  <http://a.org/s>  <http://a.org/p> "x"@EN . # why\n',
    b'<http://a.org/s><http://a.org/p>"x"@en.\n',
    b'<http://a.org/\\u0073> <http://a.org/\\U00000070> "x"@en .\n',
]
CANONICAL_LINES = [
    b'<http://a.org/s> <http://a.org/p> "a \\"b\\" \\u00e9 \\U0001F600 \\t\\\\" .\n',
    b'<http://a.org/s> <http://a.org/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n',
    b"_:b1 <http://a.org/p> _:x.y .\n",
    b'<http://a.org/s> <http://a.org/p> "" .\n',
    '<http://a.org/é> <http://a.org/p> "Zürich 東京"@de-ch .\n'.encode(),
]
BLANK_LINES = [b"\n", b"   \t\n", b"# a comment\n", b"  #\n"]
MALFORMED_LINES = [
    b"<http://a.org/s> <http://a.org/p> <http://a.org/o>\n",
    b"<http://a.org/s> <http://a.org/p> .\n",
    b'<http://a.org/s> <http://a.org/p> "open .\n',
    b'<http://a.org/s> <http://a.org/p> "a"b" .\n',
    b'<http://a.org/s> <http://a.org/p> "bad escape \\x" .\n',
    b'<http://a.org/s> <http://a.org/p> "half a pair \\uD83D" .\n',
    b'<http://a.org/s> <http://a.org/p> "too high \\U00110000" .\n',
    b'<http://a.org/s> <http://a.org/p> "x"@ .\n',
    b'<http://a.org/s> <http://a.org/p> "x"^^xsd:date .\n',
    b'<http://a.org/s> "p" <http://a.org/o> .\n',
    b'"s" <http://a.org/p> <http://a.org/o> .\n',
    b"<http://a.org/s> _:p <http://a.org/o> .\n",
    b"<relative> <http://a.org/p> <http://a.org/o> .\n",
    b"<http://a.org/a b> <http://a.org/p> <http://a.org/o> .\n",
    b"<http://a.org/\\u0020> <http://a.org/p> <http://a.org/o> .\n",
    b'<http://a.org/s> <http://a.org/p> "x"^^<relative> .\n',
    b"<http://a.org/s> <http://a.org/p> <http://a.org/o> . <http://a.org/s>\n",
    b"wd:Q1 wdt:P31 wd:Q5 .\n",
    b"Q1\tP31\tQ5\n",
]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        *((line, CANONICAL) for line in SPELLINGS),
        *((line, line) for line in CANONICAL_LINES),
        *((line, b"") for line in BLANK_LINES),
        *((line, None) for line in MALFORMED_LINES),
    ],
)
def test_line_is_canonical_blank_or_malformed(line: bytes, expected: bytes | None) -> None:
    assert canonicalise_line(line) == expected


ESCAPES = {"\t": "\\t", "\b": "\\b", "\n": "\\n", "\r": "\\r", "\f": "\\f", '"': '\\"', "'": "\\'", "\\": "\\\\"}


@given(st.text(), st.randoms(use_true_random=False))
def test_text_is_unescaped_from_any_escape_style(text: str, random) -> None:  # type: ignore[no-untyped-def]
    spelled = "".join(
        random.choice([f"\\U{ord(c):08x}", f"\\u{ord(c):04X}" if ord(c) < 0x10000 else c, ESCAPES.get(c, c)])
        for c in text
    )
    assert unescape_literal(spelled) == text
    assert canonicalise_line(f'<a:s> <a:p> "{spelled}" .\n'.encode()) == f'<a:s> <a:p> "{spelled}" .\n'.encode()
