"""Operations of services: one record per operation holds everything that clients, graphs and the call cache need.

Making a record registers it by name. factmill's own are made next to their parsers in this folder, those of a benchmark in
its own package. Clients, graphs, the call cache and `--since` find a record by the name in a call, so a new look-up needs
one record and nothing else:

    DESCRIPTIONS = Operation(
        "descriptions",
        service="wikidata",
        parts={"qid": is_item, "language": is_text},
        read=str,
        sparql=Sparql(text=QUERY, own=("qid",), terms=list_terms, read=read_rows),
        graph=look_up,
        rests_on=rest_on_item,
    )
    work.look_up(wikidata, ((row.id, row.qid, DESCRIPTIONS.call(wikidata.identity, qid=row.qid, language="en")) …), DESCRIPTIONS.read)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar

from factmill.tasks.core.calls.call import Call, Reply
from factmill.tasks.core.fingerprints import Json, canonical_json
from factmill.tasks.core.sparql import Solution, fill_limit, fill_tuples, fill_values
from factmill.tasks.text.ids import is_pid, is_qid

T_co = TypeVar("T_co", covariant=True)
Parts = Mapping[str, Any]
"""Parts of a call by name."""
Get = Callable[..., Any]
"""Sends a request to a MediaWiki: action and parameters → JSON of the response."""
Terms = Mapping[str | tuple[str, ...], Sequence[Any]]
"""Variable or variables of a VALUES block → its rows: terms, or tuples of terms."""
ServiceName = Literal["wikidata", "wikipedia", "pageviews", "falcon", "dbpedia", "model", "translator", "world"]


@dataclass(frozen=True, slots=True)
class Thing:
    """An item, label or page that a response depends on."""

    kind: Literal["item", "label", "page"]
    name: str
    """QID, PID or title."""
    how: str = ""
    """For a label its language; for a title `follow` or `stay`: whether redirects are followed."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency of a response, and the conditions under which the response is still valid."""

    thing: Thing
    says: Mapping[str, Json] = field(default_factory=dict)
    """Values of the thing in the response, which its current state must equal."""
    by_date: bool = True
    """The thing must also be unchanged since the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparql:
    """How to turn calls into a SPARQL query, and its solutions into response bodies."""

    files: tuple[str, ...] = ()
    """File of the query below sparql/; if there are two, one per number of `hops`."""
    text: str = ""
    """Text of the query, if it is no file of the project."""
    own: tuple[str, ...] = ()
    """Parts in which calls that share a query may differ; if empty, each call has its own query."""
    terms: Callable[[Sequence[Call]], Terms]
    """Calls that share a query → contents of its VALUES blocks; ValueError for an invalid value. If a block is empty, so is
    the response, and no request is sent."""
    limit: str = ""
    """Part with the number for the query's LIMIT."""
    read: Callable[[Sequence[Call], Sequence[Solution]], list[Json]]
    """Calls that share a query, and its solutions in any order → the body of each call."""

    def find_file(self, parts: Parts) -> str:
        """Return the query file for a call with these parts."""
        return self.files[parts["hops"] - 1 if len(self.files) > 1 else 0]

    def find_likeness(self, call: Call) -> str:
        """Return a key that is equal for calls that can share a query."""
        shared = {name: value for name, value in call.parts.items() if name not in self.own}
        return f"{call.operation} {canonical_json(shared)}" if self.own else call.key

    def fill(self, query: str, calls: Sequence[Call]) -> str:
        """Fill the values of calls into the query that they share."""
        for variables, rows in self.terms(calls).items():
            if isinstance(variables, str):
                query = fill_values(query, variables, rows)
            else:
                query = fill_tuples(query, variables, rows)
        return fill_limit(query, calls[0].parts[self.limit]) if self.limit else query  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Operation(Generic[T_co]):
    """One operation of a service; T: type of its parsed response."""

    name: str
    """Name in calls and in their records."""
    _: KW_ONLY
    service: ServiceName
    parts: Mapping[str, Callable[[Any], bool]]
    """Part of a call → check of its value."""
    optional: tuple[str, ...] = ()
    """Parts that may be left out."""
    read: Callable[[Any], T_co]
    """Parser of a response body."""
    sparql: Sparql | None = None
    """Mapping to a query of a SPARQL endpoint."""
    wiki: Callable[[Get, Sequence[Call]], list[Reply]] | None = None
    """Function that fetches the responses from a MediaWiki."""
    together: bool = False
    """One MediaWiki request can hold the titles of several calls."""
    graph: Callable[[Any, Sequence[Parts], str], list[Json]] | str = ""
    """Look-up in a local graph (tasks/graph/lookup.py): graph, parts of calls, their language → one body each. Or a text: why
    graphs do not support it."""
    has_labels: bool = True
    """The response depends on the language, in which a graph must have been loaded."""
    rests_on: Callable[[Parts, Any], list[Dependency] | None] | None = None
    """Parts and body → dependencies of the response (`--since`); None: they cannot be checked."""
    world: Callable[[Parts], list[str] | None] | None = None
    """Parts → contents of the embedded world that a response depends on (freshness.py), if `rests_on` does not give them."""
    lasts_from: Callable[[Parts], datetime] | None = None
    """Parts → time from which a response is immutable."""

    def __post_init__(self) -> None:
        """Register the record; ValueError when another one has its name."""
        if self.name in _KNOWN:
            raise ValueError(f"there is an operation {self.name} already; give this one another name")
        _KNOWN[self.name] = self

    @property
    def files(self) -> tuple[str, ...]:
        """Files of its queries, below sparql/."""
        return self.sparql.files if self.sparql else ()

    def call(self, service: str, **parts: Json) -> Call:
        """Make the call with these parts; ValueError if they are not those of the operation."""
        if wrong := (parts.keys() - self.parts.keys()) | (self.parts.keys() - parts.keys() - set(self.optional)):
            raise ValueError(f"{self.name}: expected the parts {', '.join(self.parts)}; see {', '.join(sorted(wrong))}")
        return Call(service, self.name, parts)

    def find_wrong_part(self, parts: Parts) -> str | None:
        """Return a message about a missing part or an invalid value, or None."""
        for name, is_right in self.parts.items():
            if name not in parts and name not in self.optional:
                return f"{name} is missing"
            if name in parts and not is_right(parts[name]):
                return f"{name} cannot be {parts[name]!r}"
        return None


_KNOWN: dict[str, Operation[Any]] = {}
_OWN_MODULES = (
    "chat",
    "freshness",
    "item_facts",
    "knowledge",
    "linkers",
    "local_models",
    "pageviews",
    "paths",
    "wikipedia",
)
"""Modules of this folder that make records."""


def list_operations() -> list[Operation[Any]]:
    """Return all operations: factmill's own, and those registered so far by benchmark packages."""
    _make_own()
    return list(_KNOWN.values())


def find_operation(name: str) -> Operation[Any] | None:
    """Return an operation by name; None if there is none."""
    _make_own()
    return _KNOWN.get(name)


@cache
def _make_own() -> None:
    """Import the modules that register factmill's own records; they import this one."""
    for name in _OWN_MODULES:
        import_module(f"factmill.tasks.core.calls.{name}")


def is_text(value: Any) -> bool:
    """True for text."""
    return isinstance(value, str)


def is_item(value: Any) -> bool:
    """True for the id of an item."""
    return isinstance(value, str) and is_qid(value)


def is_property(value: Any) -> bool:
    """True for the id of a property."""
    return isinstance(value, str) and is_pid(value)


def is_count(value: Any) -> bool:
    """True for a whole number of 1 or more."""
    return isinstance(value, int) and value > 0


def is_list_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check for lists of such values."""
    return lambda value: isinstance(value, list) and all(map(is_right, value))


def is_none_or(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check for None and such values."""
    return lambda value: value is None or is_right(value)


def rest_on_item(parts: Parts, _body: Any) -> list[Dependency]:
    """Return the requested item as the only dependency of a response."""
    return [Dependency(Thing("item", str(parts["qid"])))]


def rest_on_labels(named: Mapping[str, str | None], parts: Parts) -> list[Dependency]:
    """Return dependencies of a response on its labels of items and properties (id → label)."""
    language = str(parts.get("language", "en"))
    return [
        Dependency(Thing("label", name, language), {"label": label}, by_date=False) for name, label in named.items()
    ]
