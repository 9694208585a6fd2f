"""What services can be asked: one record an operation, which says all that there is to know of it.

A record is known by its name as soon as it is made, wherever that is: those of the house are made beside their readers in
this folder, one of a benchmark in its own package. Clients, graphs, the recorder and `--since` look it up by the name that a
call bears, so that a new look-up is one record and nothing else:

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
"""Asks a MediaWiki: action and parameters → the JSON of its answer."""
Terms = Mapping[str | tuple[str, ...], Sequence[Any]]
"""Variable, or several, of a VALUES block → its rows: terms, or as many together."""
ServiceName = Literal["wikidata", "wikipedia", "pageviews", "falcon", "dbpedia", "model", "translator", "world"]


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing that a reply rests on."""

    kind: Literal["item", "label", "page"]
    name: str
    """QID, PID or title."""
    how: str = ""
    """Language of a label; `follow` or `stay` of a title: whether redirects are followed."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A thing that a reply rests on, and how it shows whether the reply would come again."""

    thing: Thing
    says: Mapping[str, Json] = field(default_factory=dict)
    """What the reply itself says of the thing, which must be in its state now."""
    by_date: bool = True
    """The thing must not have changed since the reply came either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparql:
    """How calls become a SPARQL query, and its solutions their bodies."""

    files: tuple[str, ...] = ()
    """The query below sparql/; where there are two, one for each number of `hops`."""
    text: str = ""
    """The query itself, where it is no file of the project."""
    own: tuple[str, ...] = ()
    """Parts in which calls that share a query may differ; without any each call has its own."""
    terms: Callable[[Sequence[Call]], Terms]
    """Calls that share a query → what its VALUES blocks hold; ValueError for a value that cannot stand there. Where one is
    empty, so is the answer, and nothing is asked."""
    limit: str = ""
    """Part with the number for the query's LIMIT."""
    read: Callable[[Sequence[Call], Sequence[Solution]], list[Json]]
    """Calls that share a query, and its solutions in any order → the body of each call."""

    def find_file(self, parts: Parts) -> str:
        """Return the file of the query that answers a call."""
        return self.files[parts["hops"] - 1 if len(self.files) > 1 else 0]

    def find_likeness(self, call: Call) -> str:
        """Return what calls must have in common to share a query."""
        shared = {name: value for name, value in call.parts.items() if name not in self.own}
        return f"{call.operation} {canonical_json(shared)}" if self.own else call.key

    def fill(self, query: str, calls: Sequence[Call]) -> str:
        """Return the query with the values of calls that share it."""
        for variables, rows in self.terms(calls).items():
            if isinstance(variables, str):
                query = fill_values(query, variables, rows)
            else:
                query = fill_tuples(query, variables, rows)
        return fill_limit(query, calls[0].parts[self.limit]) if self.limit else query  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Operation(Generic[T_co]):
    """One thing that a service can be asked; T: what its reply is read as."""

    name: str
    """Stands in calls and in all that is recorded of them."""
    _: KW_ONLY
    service: ServiceName
    parts: Mapping[str, Callable[[Any], bool]]
    """Parts of a call → whether a value can stand there."""
    optional: tuple[str, ...] = ()
    """Parts that may be left out."""
    read: Callable[[Any], T_co]
    """Reads the body of a reply."""
    sparql: Sparql | None = None
    """How a SPARQL endpoint is asked."""
    wiki: Callable[[Get, Sequence[Call]], list[Reply]] | None = None
    """How a MediaWiki is asked."""
    together: bool = False
    """A MediaWiki is asked for the titles of several calls at once."""
    graph: Callable[[Any, Sequence[Parts], str], list[Json]] | str = ""
    """How a local graph (tasks/graph/lookup.py) answers: graph, parts of calls, their language → a body each. Or why it does
    not."""
    has_labels: bool = True
    """Its reply depends on the language, which a graph must have been loaded in."""
    rests_on: Callable[[Parts, Any], list[Dependency] | None] | None = None
    """Parts and body → what the reply rests on (`--since`); None: on more than can be looked at."""
    world: Callable[[Parts], list[str] | None] | None = None
    """Parts → what of the embedded world a reply rests on (freshness.py), where it is not what `rests_on` says."""
    lasts_from: Callable[[Parts], datetime] | None = None
    """Parts → from when on replies are never answered otherwise again, however old they are."""

    def __post_init__(self) -> None:
        """Make the record known; ValueError when another one has its name."""
        if self.name in _KNOWN:
            raise ValueError(f"there is an operation {self.name} already; give this one another name")
        _KNOWN[self.name] = self

    @property
    def files(self) -> tuple[str, ...]:
        """Files of its queries, below sparql/."""
        return self.sparql.files if self.sparql else ()

    def call(self, service: str, **parts: Json) -> Call:
        """Return the call with these parts; ValueError where they are not those of the operation."""
        if wrong := (parts.keys() - self.parts.keys()) | (self.parts.keys() - parts.keys() - set(self.optional)):
            raise ValueError(f"{self.name}: expected the parts {', '.join(self.parts)}; see {', '.join(sorted(wrong))}")
        return Call(service, self.name, parts)

    def find_wrong_part(self, parts: Parts) -> str | None:
        """Return which part of a call is missing or has a value that cannot be, or None."""
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
    """Return all operations: ours, and those that packages of benchmarks have made so far."""
    _make_own()
    return list(_KNOWN.values())


def find_operation(name: str) -> Operation[Any] | None:
    """Return an operation by name; None where none has it."""
    _make_own()
    return _KNOWN.get(name)


@cache
def _make_own() -> None:
    """Import the modules that make our own records; they import this one."""
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
    """True for a number of things, 1 or more."""
    return isinstance(value, int) and value > 0


def is_list_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what is true for a list of such values."""
    return lambda value: isinstance(value, list) and all(map(is_right, value))


def is_none_or(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what is true for None, and for such a value."""
    return lambda value: value is None or is_right(value)


def rest_on_item(parts: Parts, _body: Any) -> list[Dependency]:
    """Return that a reply rests on the item that was asked for."""
    return [Dependency(Thing("item", str(parts["qid"])))]


def rest_on_labels(named: Mapping[str, str | None], parts: Parts) -> list[Dependency]:
    """Return that a reply rests on how it calls items and properties (id → label)."""
    language = str(parts.get("language", "en"))
    return [
        Dependency(Thing("label", name, language), {"label": label}, by_date=False) for name, label in named.items()
    ]
