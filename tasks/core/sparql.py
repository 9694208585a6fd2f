"""Make SPARQL terms from checked values, fill them into queries, and parse the solutions that endpoints send (SPARQL 1.1
Query Results JSON Format, section 3).

A query is a file that runs unchanged; a program replaces only the contents of a VALUES block (of one variable or of
several), or the number of a LIMIT. All inserted text consists of terms of this module, each a checked id, a number or an
escaped literal, so that no name (with quotes, braces, backslashes, line breaks) can become query text.
Escapes and literals: SPARQL 1.1 Query Language, sections 19.2, 19.7 and 19.8.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NewType, TypeVar

from factmill.tasks.text.values.wikidata_literals import canonical_number
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_pid, is_qid

SparqlTerm = NewType("SparqlTerm", str)
"""One RDF term, ready for a VALUES block."""

_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^<>\"{}|^`\\\x00-\x20]*")
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPED_CHARACTERS = re.compile(r'[\\"\x00-\x1f\x7f]')
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


def item_term(qid: str) -> SparqlTerm:
    """Return the term of an item, `wd:Q64`; ValueError for an invalid QID."""
    if not is_qid(qid):
        raise ValueError(f"{qid!r} is not an item id; expected Q and a number, like Q64")
    return SparqlTerm(f"wd:{qid}")


def entity_term(entity_id: str) -> SparqlTerm:
    """Return the term of an item or property as an entity, `wd:Q64`, `wd:P19`; ValueError for an invalid id."""
    if not is_qid(entity_id) and not is_pid(entity_id):
        raise ValueError(f"{entity_id!r} is not an item or property id; expected one like Q64 or P19")
    return SparqlTerm(f"wd:{entity_id}")


def iri_term(iri: str) -> SparqlTerm:
    """Return the term of any IRI, in angle brackets; ValueError for characters not allowed in an IRI."""
    if not _IRI.fullmatch(iri):
        raise ValueError(f"{iri!r} is not an IRI; expected a scheme, a colon, and no spaces, quotes or brackets")
    return SparqlTerm(f"<{iri}>")


def direct_property_term(pid: str) -> SparqlTerm:
    """Return the term of a property's direct claims, `wdt:P19`; ValueError for an invalid PID."""
    if not is_pid(pid):
        raise ValueError(f"{pid!r} is not a property id; expected P and a number, like P19")
    return SparqlTerm(f"wdt:{pid}")


def integer_term(number: int) -> SparqlTerm:
    """Return the term of a whole number."""
    return SparqlTerm(str(int(number)))


def decimal_term(number: str) -> SparqlTerm:
    """Return the term of an exact decimal; ValueError unless it is in canonical form (text.values.literals)."""
    if canonical_number(number) != number:
        raise ValueError(f"{number!r} is not a number in canonical form, like -1.5 or 1200")
    return SparqlTerm(f'"{number}"^^xsd:decimal')


def literal_term(text: str, language: str | None = None) -> SparqlTerm:
    """Return a quoted literal, with a language tag if one is given; ValueError for text that SPARQL cannot represent."""
    quoted = f'"{escape_literal(text)}"'
    return SparqlTerm(quoted if language is None else f"{quoted}@{check_language_tag(language)}")


def escape_literal(text: str) -> str:
    """Return text escaped for double quotes; ValueError when it holds half a surrogate pair or NUL.

    Line breaks need the short escapes: a backslash-u escape is resolved before the query is parsed, and the resulting
    line break would end the literal.
    """
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{text!r} holds a NUL or half a surrogate pair and cannot be sent as text")
    return _ESCAPED_CHARACTERS.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}"), text)


def check_language_tag(language: str) -> str:
    """Return a language tag unchanged; ValueError when it is malformed."""
    if not _LANGUAGE.fullmatch(language):
        raise ValueError(f"{language!r} is not a language tag; expected one like en or pt-br")
    return language


def fill_values_blocks(query: str, variables: str | Sequence[str], rows: Iterable[Any]) -> str:
    """Return the query with the contents of every `VALUES ?variable { … }` or `VALUES (?a ?b) { … }` block replaced by rows.

    A row is a term, or one term per variable. ValueError when the query has no such block; it may have several (one per
    branch of a UNION).
    """
    if isinstance(variables, str):
        return _fill_values_blocks_of_variables(query, [f"?{variables}"], " ".join(rows))
    block = []
    for row in rows:
        if len(row) != len(variables):
            raise ValueError(f"expected one term for each of {', '.join(variables)}; found {len(row)}: {' '.join(row)}")
        block.append(f"({' '.join(row)})")
    return _fill_values_blocks_of_variables(
        query, ["(", *(f"?{variable}" for variable in variables), ")"], " ".join(block)
    )


def _fill_values_blocks_of_variables(query: str, names: Sequence[str], block: str) -> str:
    tokens = _tokenize_query(query)
    pieces, kept_to = [], 0
    for at, (kind, text, _) in enumerate(tokens):
        brace = at + 1 + len(names)
        after = [token[1] for token in tokens[at + 1 : brace + 1]]
        if kind != "word" or text.upper() != "VALUES" or after != [*names, "{"]:
            continue
        opening = tokens[brace][2]
        closing = next((start for _, sign, start in tokens[brace + 1 :] if sign == "}"), None)
        if closing is None:
            raise ValueError(f"the VALUES block of {' '.join(names)} is not closed")
        pieces += [query[kept_to : opening + 1], f" {block} "]
        kept_to = closing
    if not pieces:
        raise ValueError(f"the query has no block `VALUES {' '.join(names)} {{ … }}`")
    return "".join(pieces) + query[kept_to:]


def replace_limit(query: str, limit: int) -> str:
    """Return the query with the number of its LIMIT replaced; ValueError unless there is exactly one."""
    tokens = _tokenize_query(query)
    found = [
        number
        for word, number in pairwise(tokens)
        if word[0] == "word" and word[1].upper() == "LIMIT" and number[1].isdecimal()
    ]
    if len(found) != 1 or limit < 1:
        raise ValueError(f"expected one LIMIT in the query and a positive number, found {len(found)} and {limit}")
    _, number, start = found[0]
    return f"{query[:start]}{limit}{query[start + len(number) :]}"


def _tokenize_query(query: str) -> list[tuple[str, str, int]]:
    """Return the tokens as (kind, text, start), without white space and comments."""
    return [
        (str(found.lastgroup), found[0], found.start()) for found in _TOKEN.finditer(query) if found.lastgroup != "skip"
    ]


RdfTerm = Mapping[str, str]
"""One RDF term: its `type` (uri, literal or bnode) and `value`, a literal with `datatype` or `xml:lang` if it has one."""
SparqlSolution = Mapping[str, RdfTerm]
"""Variable → term; a variable without a value is absent."""

SolutionValues = Mapping[str, str]
"""A solution reduced to the values of its terms: variable → value."""
C = TypeVar("C")
B = TypeVar("B")

ENTITY_NAMESPACE = "http://www.wikidata.org/entity/"
DIRECT_CLAIM_NAMESPACE = "http://www.wikidata.org/prop/direct/"
XSD_NAMESPACE = "http://www.w3.org/2001/XMLSchema#"
_UTC_SUFFIX = re.compile(r"(?:\.0+)?(?:Z|[+-]00:00)\Z")


def parse_sparql_results(results: Any) -> list[SparqlSolution]:
    """Return the solutions in decoded JSON; KeyError, TypeError or AttributeError when it has another structure."""
    solutions = results["results"]["bindings"]
    for solution in solutions:
        for cell in solution.values():
            if not isinstance(cell["value"], str):
                raise TypeError(f"expected text as the value of a term; found {cell!r}")
    return list(solutions)


def find_item_number(cell: RdfTerm) -> int | None:
    """Return the QID number of a term; None when it is no item (a lexeme, a property, a text)."""
    qid = cell["value"].removeprefix(ENTITY_NAMESPACE)
    return get_wikidata_id_number(qid) if is_qid(qid) else None


def find_property_number(cell: RdfTerm, namespace: str) -> int | None:
    """Return the PID number of a term whose IRI is in this namespace; None when it is not."""
    pid = cell["value"].removeprefix(namespace)
    return get_wikidata_id_number(pid) if is_pid(pid) else None


def is_date_or_number_literal(cell: RdfTerm) -> bool:
    """True for a literal with an XSD datatype other than string: a date or number."""
    datatype = cell.get("datatype", "")
    return datatype.startswith(XSD_NAMESPACE) and datatype != f"{XSD_NAMESPACE}string"


def normalise_utc_suffix(text: str) -> str:
    """Return a date and time with Z in place of the .000 and +00:00 that some engines write."""
    return _UTC_SUFFIX.sub("Z", text)


def adapt_value_reader_to_solutions(
    read: Callable[[Sequence[C], Sequence[SolutionValues]], B],
) -> Callable[[Sequence[C], Sequence[SparqlSolution]], B]:
    """Wrap a reader of plain values (variable → value) into a reader of solutions."""
    return lambda calls, solutions: read(
        calls, [{name: cell["value"] for name, cell in solution.items()} for solution in solutions]
    )


def group_rows_by_item(rows: Iterable[SolutionValues]) -> dict[str, list[SolutionValues]]:
    """Group rows by the QID of their `item`; other QIDs give an empty list."""
    by_qid: dict[str, list[SolutionValues]] = defaultdict(list)
    for row in rows:
        by_qid[row["item"].removeprefix(ENTITY_NAMESPACE)].append(row)
    return by_qid


def find_smallest_value(values: Iterable[str | None]) -> str | None:
    """Return the smallest value that is not None, so that repetitions and order in a response do not matter."""
    return min((value for value in values if value is not None), default=None)
