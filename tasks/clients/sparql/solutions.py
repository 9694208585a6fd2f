"""Solutions of a SPARQL query, as endpoints send them (SPARQL 1.1 Query Results JSON Format, section 3)."""

import re
from collections.abc import Mapping
from typing import Any

from tasks.text.ids import id_number, is_pid, is_qid

Cell = Mapping[str, str]
"""One RDF term: its `type` (uri, literal or bnode) and `value`, a literal with `datatype` or `xml:lang` if it has one."""
Solution = Mapping[str, Cell]
"""Variable → term; a variable without a value is absent."""

ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
XSD = "http://www.w3.org/2001/XMLSchema#"
_UTC = re.compile(r"(?:\.0+)?(?:Z|[+-]00:00)\Z")


def read_results(results: Any) -> list[Solution]:
    """Return the solutions in a parsed body; KeyError, TypeError or AttributeError when it does not have the form."""
    solutions = results["results"]["bindings"]
    for solution in solutions:
        for cell in solution.values():
            if not isinstance(cell["value"], str):
                raise TypeError(f"expected text as the value of a term, found {cell!r}")
    return list(solutions)


def item_number(cell: Cell) -> int | None:
    """Return the number of an item; None when the term is none (a lexeme, a property, a text)."""
    qid = cell["value"].removeprefix(ENTITY)
    return id_number(qid) if is_qid(qid) else None


def property_number(cell: Cell, namespace: str) -> int | None:
    """Return the number of a property whose IRI is in this namespace; None when it is in another."""
    pid = cell["value"].removeprefix(namespace)
    return id_number(pid) if is_pid(pid) else None


def is_typed(cell: Cell) -> bool:
    """True for a literal that is more than text: a date or number."""
    datatype = cell.get("datatype", "")
    return datatype.startswith(XSD) and datatype != f"{XSD}string"


def tidy_date(text: str) -> str:
    """Return a date and time without the .000 and +00:00 that some engines make of Wikidata's Z."""
    return _UTC.sub("Z", text)
