"""Grammar of N-Triples lines and their canonical form.

The grammar follows RDF 1.1 N-Triples (https://www.w3.org/TR/n-triples/), as regular expressions over UTF-8 bytes that
RE2 (over millions of lines at once) and Python's `re` (over one line) interpret alike. Dumps are nearly always in
canonical form: one space between terms, IRIs without escapes, nothing after the full stop. Such lines are recognised in
bulk; `canonicalise_line` converts any other line, so that later code handles one form.
"""

import re

_UCHAR = (
    rb"\\u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2})"
    rb"|\\U00(?:0[1-9A-Fa-f][0-9A-Fa-f]{4}|10[0-9A-Fa-f]{4}"
    rb"|00(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}))"
)
_SCHEME = rb"[A-Za-z][A-Za-z0-9+.\-]*:"
_IRI_CHARACTER = rb"[^\x00-\x20<>\"{}|^`\\]"
_LABEL_START = rb"[A-Za-z0-9_:\x80-\xff]"
_LABEL_MIDDLE = rb"[A-Za-z0-9_:.\-\x80-\xff]"
_LABEL_END = rb"[A-Za-z0-9_:\-\x80-\xff]"

IRI = rb"<" + _SCHEME + _IRI_CHARACTER + rb"*>"
BLANK_NODE = rb"_:" + _LABEL_START + rb"(?:" + _LABEL_MIDDLE + rb"*" + _LABEL_END + rb")?"
QUOTED_TEXT = rb'"(?:[^"\\\n\r]|\\[tbnrf"\'\\]|' + _UCHAR + rb')*"'
LANGUAGE_TAG = rb"[A-Za-z]+(?:-[A-Za-z0-9]+)*"
TRIPLE = (
    rb"(?:" + IRI + rb"|" + BLANK_NODE + rb") " + IRI
    + rb" (?:" + IRI + rb"|" + BLANK_NODE + rb"|" + QUOTED_TEXT + rb"(?:@" + LANGUAGE_TAG + rb"|\^\^" + IRI + rb")?)"
)  # fmt: skip
"""A triple in canonical form, without the full stop."""
DATE_TIME_IRI = b"http://www.w3.org/2001/XMLSchema#dateTime"
DECIMAL_IRI = b"http://www.w3.org/2001/XMLSchema#decimal"

_LOOSE_IRI = rb"<(?:" + _IRI_CHARACTER + rb"|" + _UCHAR + rb")*>"
_LOOSE_LINE = re.compile(
    rb"[ \t]*(" + _LOOSE_IRI + rb"|" + BLANK_NODE + rb")[ \t]*(" + _LOOSE_IRI + rb")[ \t]*(?:(" + _LOOSE_IRI + rb"|" + BLANK_NODE
    + rb")|(" + QUOTED_TEXT + rb")(?:@(" + LANGUAGE_TAG + rb")|\^\^(" + _LOOSE_IRI + rb"))?)[ \t]*\.[ \t]*(?:#[^\n]*)?\n"
)  # fmt: skip
_BLANK_LINE = re.compile(rb"[ \t]*(?:#[^\n]*)?\n")
_WHOLE_IRI = re.compile(IRI)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def canonicalise_line(line: bytes) -> bytes | None:
    """Return a line (with its newline) in canonical form; empty for a blank line or comment, None if malformed.

    Escapes in literals are unchanged, except in dates and decimal numbers, where they are resolved.
    """
    if _BLANK_LINE.fullmatch(line):
        return b""
    found = _LOOSE_LINE.fullmatch(line)
    if not found:
        return None
    subject, predicate, thing, quoted, language, datatype = found.groups()
    if quoted is None:
        terms = [subject, predicate, thing]
    elif language is not None:
        terms = [subject, predicate, quoted + b"@" + language.lower()]
    else:
        typed = _unescape_date_or_decimal_literal(quoted, _unescape_iri(datatype)) if datatype else quoted
        terms = [subject, predicate, typed]
    spelled = [_unescape_iri(term) if term.startswith(b"<") else term for term in terms]
    if datatype and not _WHOLE_IRI.fullmatch(_unescape_iri(datatype)):
        return None
    if any(term.startswith(b"<") and not _WHOLE_IRI.fullmatch(term) for term in spelled):
        return None
    return b" ".join(spelled) + b" .\n"


def unescape_literal(text: str) -> str:
    """Resolve the escapes in the text of a quoted literal, which must be well-formed."""
    return _ESCAPE.sub(_resolve_escape, text)


def _unescape_date_or_decimal_literal(quoted: bytes, datatype: bytes) -> bytes:
    plain = unescape_literal(quoted[1:-1].decode()) if datatype[1:-1] in (DATE_TIME_IRI, DECIMAL_IRI) else ""
    # a text that needs an escape is not a date or number
    spelled = f'"{plain}"'.encode() if plain and not re.search(r'["\\\n\r]', plain) else quoted
    return spelled + b"^^" + datatype


def _resolve_escape(escape: re.Match[str]) -> str:
    short = escape.group(3)
    return _SHORT_ESCAPES[short] if short else chr(int(escape.group(1) or escape.group(2), 16))


def _unescape_iri(iri: bytes) -> bytes:
    return unescape_literal(iri.decode()).encode() if b"\\" in iri else iri
