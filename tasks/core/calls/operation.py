"""Operations of services: one record per operation holds everything that clients, graphs and the call cache need.

Making a record registers it by name. factmill's own are made next to their parsers in this folder, those of a benchmark in
its own package (tests/support/own_operation.py has one). Clients, graphs, the call cache and `--since` find a record by the
name in a call, so a new look-up needs one record and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.digests import JsonValue, canonical_json
from factmill.tasks.core.sparql import SparqlSolution, fill_values_blocks, replace_limit
from factmill.tasks.text.wikidata_ids import is_pid, is_qid

T_co = TypeVar("T_co", covariant=True)
CallParts = Mapping[str, Any]
"""Parts of a call by name."""
MediaWikiGet = Callable[..., Any]
"""Sends a request to a MediaWiki: action and parameters → JSON of the response."""
ValuesBlocks = Mapping[str | tuple[str, ...], Sequence[Any]]
"""Variable or variables of a VALUES block → its rows: terms, or tuples of terms."""
ServiceName = Literal["wikidata", "wikipedia", "pageviews", "falcon", "dbpedia", "model", "translator", "world"]


@dataclass(frozen=True, slots=True)
class WikiItemLabelOrPageDependency:
    """An item, label or page that a response depends on."""

    kind: Literal["item", "label", "page"]
    name: str
    """QID, PID or title."""
    variant: str = ""
    """For a label its language; for a title `follow` or `stay`: whether redirects are followed."""


@dataclass(frozen=True, slots=True)
class ResponseDependency:
    """A dependency of a response, and the conditions under which the response is still valid."""

    resource: WikiItemLabelOrPageDependency
    stated_values: Mapping[str, JsonValue] = field(default_factory=dict)
    """Values of the thing in the response, which its current state must equal."""
    must_be_unchanged: bool = True
    """The thing must also be unchanged since the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSparqlMapping:
    """How to turn calls into a SPARQL query, and its solutions into response bodies."""

    query_files: tuple[str, ...] = ()
    """File of the query below sparql/; if there are two, one per number of `hops`."""
    query_text: str = ""
    """Text of the query, if it is no file of the project."""
    varying_parts: tuple[str, ...] = ()
    """Parts in which calls that share a query may differ; if empty, each call has its own query."""
    make_terms: Callable[[Sequence[Call]], ValuesBlocks]
    """Calls that share a query → contents of its VALUES blocks; ValueError for an invalid value. If a block is empty, so is
    the response, and no request is sent."""
    limit_part: str = ""
    """Part with the number for the query's LIMIT."""
    make_bodies: Callable[[Sequence[Call], Sequence[SparqlSolution]], list[JsonValue]]
    """Calls that share a query, and its solutions in any order → the body of each call."""

    def get_query_file(self, parts: CallParts) -> str:
        """Return the query file for a call with these parts."""
        return self.query_files[parts["hops"] - 1 if len(self.query_files) > 1 else 0]

    def get_sharing_key(self, call: Call) -> str:
        """Return a key that is equal for calls that can share a query."""
        shared = {name: value for name, value in call.parts.items() if name not in self.varying_parts}
        return f"{call.operation} {canonical_json(shared)}" if self.varying_parts else call.key

    def fill_query(self, query: str, calls: Sequence[Call]) -> str:
        """Fill the values of calls into the query that they share."""
        for variables, rows in self.make_terms(calls).items():
            query = fill_values_blocks(query, variables, rows)
        return replace_limit(query, calls[0].parts[self.limit_part]) if self.limit_part else query


@dataclass(frozen=True, slots=True)
class Operation(Generic[T_co]):
    """One operation of a service; T: type of its parsed response."""

    name: str
    """Name in calls and in their records."""
    _: KW_ONLY
    service: ServiceName
    part_checks: Mapping[str, Callable[[Any], bool]]
    """Part of a call → check of its value."""
    optional_parts: tuple[str, ...] = ()
    """Parts that may be left out."""
    parse_body: Callable[[Any], T_co]
    """Parser of a response body."""
    sparql: OperationSparqlMapping | None = None
    """Mapping to a query of a SPARQL endpoint."""
    fetch_from_wiki: Callable[[MediaWikiGet, Sequence[Call]], list[CallResponse]] | None = None
    """Function that fetches the responses from a MediaWiki."""
    batches_titles: bool = False
    """One MediaWiki request can hold the titles of several calls."""
    load_from_graph: Callable[[Any, Sequence[CallParts], str], list[JsonValue]] | str = ""
    """Look-up in a local graph (tasks/graph/lookup.py): graph, parts of calls, their language → one body each. Or a text: why
    graphs do not support it."""
    depends_on_language: bool = True
    """The response depends on the language, in which a graph must have been loaded."""
    list_dependencies: Callable[[CallParts, Any], list[ResponseDependency] | None] | None = None
    """Parts and body → dependencies of the response (`--since`); None: they cannot be checked."""
    list_world_contents: Callable[[CallParts], list[str] | None] | None = None
    """Parts → contents of the embedded world that a response depends on (freshness.py), if `list_dependencies` does not give them."""
    get_immutable_from: Callable[[CallParts], datetime] | None = None
    """Parts → time from which a response is immutable."""

    def __post_init__(self) -> None:
        """Register the record; ValueError when another one has its name."""
        if self.name in _OPERATIONS_BY_NAME:
            raise ValueError(f"an operation named {self.name} exists already; choose another name")
        _OPERATIONS_BY_NAME[self.name] = self

    @property
    def query_files(self) -> tuple[str, ...]:
        """Files of its queries, below sparql/."""
        return self.sparql.query_files if self.sparql else ()

    def make_call(self, service: str, **parts: JsonValue) -> Call:
        """Make the call with these parts; ValueError if they are not those of the operation."""
        if wrong := (parts.keys() - self.part_checks.keys()) | (
            self.part_checks.keys() - parts.keys() - set(self.optional_parts)
        ):
            raise ValueError(
                f"{self.name}: expected the parts {', '.join(self.part_checks)}; missing or unknown: {', '.join(sorted(wrong))}"
            )
        return Call(service, self.name, parts)

    def find_wrong_part(self, parts: CallParts) -> str | None:
        """Return a message about a missing part or an invalid value, or None."""
        for name, is_right in self.part_checks.items():
            if name not in parts and name not in self.optional_parts:
                return f"{name} is missing"
            if name in parts and not is_right(parts[name]):
                return f"{name} cannot be {parts[name]!r}"
        return None


_OPERATIONS_BY_NAME: dict[str, Operation[Any]] = {}
_OPERATION_MODULES = (
    *("chat", "entity_linking", "freshness", "item_facts", "pageviews", "path_calls", "translation_and_perplexity"),
    *("wikidata", "wikipedia"),
)
"""Modules of this folder that define operations."""


def list_operations() -> list[Operation[Any]]:
    """Return all operations: factmill's own, and those registered so far by benchmark packages."""
    _import_own_operations()
    return list(_OPERATIONS_BY_NAME.values())


def find_operation(name: str) -> Operation[Any] | None:
    """Return an operation by name; None if there is none."""
    _import_own_operations()
    return _OPERATIONS_BY_NAME.get(name)


@cache
def _import_own_operations() -> None:
    """Import the modules that register factmill's own records; they import this one."""
    for name in _OPERATION_MODULES:
        import_module(f"factmill.tasks.core.calls.{name}")


def is_string_value(value: Any) -> bool:
    """True for text."""
    return isinstance(value, str)


def is_item_id(value: Any) -> bool:
    """True for the id of an item."""
    return isinstance(value, str) and is_qid(value)


def is_property_id(value: Any) -> bool:
    """True for the id of a property."""
    return isinstance(value, str) and is_pid(value)


def is_positive_count(value: Any) -> bool:
    """True for a whole number of 1 or more."""
    return isinstance(value, int) and value > 0


def make_list_check(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check for lists of such values."""
    return lambda value: isinstance(value, list) and all(map(is_right, value))


def make_optional_check(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check for None and such values."""
    return lambda value: value is None or is_right(value)


def list_item_dependency(parts: CallParts, _body: Any) -> list[ResponseDependency]:
    """Return the requested item as the only dependency of a response."""
    return [ResponseDependency(WikiItemLabelOrPageDependency("item", str(parts["qid"])))]


def list_label_dependencies(labels_by_id: Mapping[str, str | None], parts: CallParts) -> list[ResponseDependency]:
    """Return dependencies of a response on its labels of items and properties (id → label)."""
    language = str(parts.get("language", "en"))
    return [
        ResponseDependency(
            WikiItemLabelOrPageDependency("label", name, language), {"label": label}, must_be_unchanged=False
        )
        for name, label in labels_by_id.items()
    ]
