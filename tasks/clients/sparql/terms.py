"""SPARQL terms made from checked values, and the VALUES blocks they are put into.

A query is a file that runs as it stands; the only thing a program changes in it is what stands between the braces of a
VALUES block (of one variable or of several), or the number of a LIMIT. What goes in is made of terms from this module,
each of them a checked id, a number or an escaped literal, so that no name (with quotes, braces, backslashes, line
breaks) can become query text.
Escapes and literals: SPARQL 1.1 Query Language, sections 19.2, 19.7 and 19.8.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NewType

from tasks.text.ids import is_pid, is_qid
from tasks.text.values.literals import canonical_number

Term = NewType("Term", str)
"""One RDF term, ready to stand in a VALUES block."""

_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^<>\"{}|^`\\\x00-\x20]*")
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_TO_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f]')
_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
      | (?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
      | (?P<text>\"{3}(?:\"{0,2}(?:[^"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
                |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
      | (?P<variable>[?$]\w+)
      | (?P<word>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


def item_term(qid: str) -> Term:
    """Return the term of an item, `wd:Q64`; ValueError when the id is none."""
    if not is_qid(qid):
        raise ValueError(f"{qid!r} is not the id of an item; expected Q and a number, like Q64")
    return Term(f"wd:{qid}")


def entity_term(entity_id: str) -> Term:
    """Return the term of an item or property as a thing, `wd:Q64`, `wd:P19`; ValueError when the id is neither's."""
    if not is_qid(entity_id) and not is_pid(entity_id):
        raise ValueError(f"{entity_id!r} is not the id of an item or property; expected one like Q64 or P19")
    return Term(f"wd:{entity_id}")


def iri_term(iri: str) -> Term:
    """Return the term of any IRI, in angle brackets; ValueError for characters that no IRI can have."""
    if not _IRI.fullmatch(iri):
        raise ValueError(f"{iri!r} is not an IRI; expected a scheme, a colon, and no spaces, quotes or brackets")
    return Term(f"<{iri}>")


def direct_property_term(pid: str) -> Term:
    """Return the term of a property's direct claims, `wdt:P19`; ValueError when the id is none."""
    if not is_pid(pid):
        raise ValueError(f"{pid!r} is not the id of a property; expected P and a number, like P19")
    return Term(f"wdt:{pid}")


def number_term(number: int) -> Term:
    """Return the term of a whole number."""
    return Term(str(int(number)))


def decimal_term(number: str) -> Term:
    """Return the term of an exact number; ValueError unless it is in canonical form (text.values.literals)."""
    if canonical_number(number) != number:
        raise ValueError(f"{number!r} is not a number in canonical form, like -1.5 or 1200")
    return Term(f'"{number}"^^xsd:decimal')


def literal_term(text: str, language: str | None = None) -> Term:
    """Return a quoted literal, with a language tag if one is given; ValueError for what SPARQL cannot carry."""
    quoted = f'"{escape_literal(text)}"'
    return Term(quoted if language is None else f"{quoted}@{check_language(language)}")


def escape_literal(text: str) -> str:
    """Return text as it stands between double quotes; ValueError when it holds half a surrogate pair or NUL.

    Line breaks must take the short escapes: a backslash-u escape is resolved before the query is parsed, and a line
    break that comes from one would end the literal.
    """
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{text!r} holds a NUL or half a surrogate pair and cannot be sent as text")
    return _TO_ESCAPE.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}"), text)


def check_language(language: str) -> str:
    """Return a language tag unchanged; ValueError when it does not have the form of one."""
    if not _LANGUAGE.fullmatch(language):
        raise ValueError(f"{language!r} is not a language tag; expected one like en or pt-br")
    return language


def fill_values(query: str, variable: str, rows: Iterable[Term]) -> str:
    """Return the query with the contents of every `VALUES ?variable { … }` block replaced by rows.

    ValueError when the query has no such block. A variable may have several blocks (one for each branch of a UNION).
    """
    return _fill_blocks(query, [f"?{variable}"], " ".join(rows))


def fill_tuples(query: str, variables: Sequence[str], rows: Iterable[Sequence[Term]]) -> str:
    """Return the query with the contents of every `VALUES (?a ?b) { … }` block replaced by rows of as many terms."""
    block = []
    for row in rows:
        if len(row) != len(variables):
            raise ValueError(f"expected a term for each of {', '.join(variables)}, found {len(row)}: {' '.join(row)}")
        block.append(f"({' '.join(row)})")
    return _fill_blocks(query, ["(", *(f"?{variable}" for variable in variables), ")"], " ".join(block))


def _fill_blocks(query: str, names: Sequence[str], block: str) -> str:
    tokens = _read_tokens(query)
    pieces, kept_to = [], 0
    for at, (kind, text, _) in enumerate(tokens):
        brace = at + 1 + len(names)
        after = [token[1] for token in tokens[at + 1 : brace + 1]]
        if kind != "word" or text.upper() != "VALUES" or after != [*names, "{"]:
            continue
        opening = tokens[brace][2]
        closing = next((start for _, sign, start in tokens[brace + 1 :] if sign == "}"), None)
        if closing is None:
            raise ValueError(f"the VALUES block of {' '.join(names)} is never closed")
        pieces += [query[kept_to : opening + 1], f" {block} "]
        kept_to = closing
    if not pieces:
        raise ValueError(f"the query has no block `VALUES {' '.join(names)} {{ … }}`")
    return "".join(pieces) + query[kept_to:]


def fill_limit(query: str, limit: int) -> str:
    """Return the query with the number of its LIMIT replaced; ValueError unless there is exactly one."""
    tokens = _read_tokens(query)
    found = [
        number
        for word, number in pairwise(tokens)
        if word[0] == "word" and word[1].upper() == "LIMIT" and number[1].isdecimal()
    ]
    if len(found) != 1 or limit < 1:
        raise ValueError(f"expected one LIMIT in the query and a positive number, found {len(found)} and {limit}")
    _, number, start = found[0]
    return f"{query[:start]}{limit}{query[start + len(number) :]}"


def _read_tokens(query: str) -> list[tuple[str, str, int]]:
    """Return (kind, text, start) of everything but space and comments."""
    return [
        (str(found.lastgroup), found[0], found.start()) for found in _TOKEN.finditer(query) if found.lastgroup != "skip"
    ]
