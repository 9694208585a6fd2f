"""Grammar of N-Triples lines and their canonical form.

The grammar follows RDF 1.1 N-Triples (https://www.w3.org/TR/n-triples/), as regular expressions over UTF-8 bytes that
RE2 (over millions of lines at once) and Python's `re` (over one line) interpret alike. Dumps are nearly always in
canonical form: one space between terms, IRIs without escapes, nothing after the full stop. Such lines are recognised in
bulk; `canonical_line` converts any other line, so that later code handles one form.
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
BLANK = rb"_:" + _LABEL_START + rb"(?:" + _LABEL_MIDDLE + rb"*" + _LABEL_END + rb")?"
QUOTED = rb'"(?:[^"\\\n\r]|\\[tbnrf"\'\\]|' + _UCHAR + rb')*"'
LANGUAGE = rb"[A-Za-z]+(?:-[A-Za-z0-9]+)*"
TRIPLE = (
    rb"(?:" + IRI + rb"|" + BLANK + rb") " + IRI
    + rb" (?:" + IRI + rb"|" + BLANK + rb"|" + QUOTED + rb"(?:@" + LANGUAGE + rb"|\^\^" + IRI + rb")?)"
)  # fmt: skip
"""A triple in canonical form, without the full stop."""
DATE_TIME = b"http://www.w3.org/2001/XMLSchema#dateTime"
DECIMAL = b"http://www.w3.org/2001/XMLSchema#decimal"

_LOOSE_IRI = rb"<(?:" + _IRI_CHARACTER + rb"|" + _UCHAR + rb")*>"
_LOOSE_LINE = re.compile(
    rb"[ \t]*(" + _LOOSE_IRI + rb"|" + BLANK + rb")[ \t]*(" + _LOOSE_IRI + rb")[ \t]*(?:(" + _LOOSE_IRI + rb"|" + BLANK
    + rb")|(" + QUOTED + rb")(?:@(" + LANGUAGE + rb")|\^\^(" + _LOOSE_IRI + rb"))?)[ \t]*\.[ \t]*(?:#[^\n]*)?\n"
)  # fmt: skip
_NOTHING = re.compile(rb"[ \t]*(?:#[^\n]*)?\n")
_WHOLE_IRI = re.compile(IRI)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def canonical_line(line: bytes) -> bytes | None:
    """Return a line (with its newline) in canonical form; empty for a blank line or comment, None if malformed.

    Escapes in literals are unchanged, except in dates and decimal numbers, where they are resolved.
    """
    if _NOTHING.fullmatch(line):
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
        terms = [subject, predicate, _spell_typed(quoted, _plain_iri(datatype)) if datatype else quoted]
    spelled = [_plain_iri(term) if term.startswith(b"<") else term for term in terms]
    if datatype and not _WHOLE_IRI.fullmatch(_plain_iri(datatype)):
        return None
    if any(term.startswith(b"<") and not _WHOLE_IRI.fullmatch(term) for term in spelled):
        return None
    return b" ".join(spelled) + b" .\n"


def unescape(text: str) -> str:
    """Resolve the escapes in the text of a quoted literal, which must be well-formed."""
    return _ESCAPE.sub(_resolve, text)


def _spell_typed(quoted: bytes, datatype: bytes) -> bytes:
    plain = unescape(quoted[1:-1].decode()) if datatype[1:-1] in (DATE_TIME, DECIMAL) else ""
    # a text that needs an escape is not a date or number
    spelled = f'"{plain}"'.encode() if plain and not re.search(r'["\\\n\r]', plain) else quoted
    return spelled + b"^^" + datatype


def _resolve(escape: re.Match[str]) -> str:
    short = escape.group(3)
    return _SHORT_ESCAPES[short] if short else chr(int(escape.group(1) or escape.group(2), 16))


def _plain_iri(iri: bytes) -> bytes:
    return unescape(iri.decode()).encode() if b"\\" in iri else iri
