"""The services of a world, opened when they are first asked (identities.py knows them before)."""

import fcntl
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.assets import load_query
from tasks.core.calls.call import Call, Deliver, Service
from tasks.core.calls.paths import Ask, PathsByCalls
from tasks.core.paths import PathFinder
from tasks.engine.identities import (
    embedder_name,
    identify_service,
    perplexity_identity,
    perplexity_model,
    rules_identity,
    service_urls,
    translator_identity,
    translator_model,
    wikidata_identity,
)
from tasks.errors import SettingsError
from tasks.settings import Model, World, api_key, graphs_folder, load_world

if TYPE_CHECKING:
    from tasks.graph.lookup import Graph
    from tasks.models.embed import Embedder

WORLD_LANGUAGES = ("en", "de", "fr", "it", "es", "pt")
"""Languages of the embedded world's labels."""


class LazyService:
    """A service that is opened at the first call."""

    def __init__(self, identity: str, is_outside: bool, open_service: Callable[[], Service]) -> None:
        self.identity = identity
        self.is_outside = is_outside
        self._open = open_service
        self._service: Service | None = None
        self._lock = threading.Lock()

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer every call (see core.calls.call.Service)."""
        with self._lock:
            if self._service is None:
                self._service = self._open()
        self._service.send(calls, deliver)

    def notes(self) -> list[str]:
        """Return what was learnt of the service, where it is one that learns (a chat model)."""
        noting = getattr(self._service, "notes", None)
        return noting() if noting else []


@dataclass(slots=True)
class Services:
    """All services of one run's world."""

    world: World
    home: Path
    wikidata: Service
    wikipedia: Service
    pageviews: Service
    falcon: Service
    dbpedia: Service
    _endpoints: Callable[[], dict[str, str]]
    _models: dict[str, Service] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _graph: "Graph | None" = None
    _embedder: "Embedder | None" = None
    _translator: Service | None = None
    _perplexity: Service | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, world_name: str, graph: str | None, home: Path) -> "Services":
        """Open the services of a world by name, with a local graph as its Wikidata if one is named."""
        world = load_world(world_name, graph)
        stack = ExitStack()
        endpoints = _endpoint_finder(world, home, stack)
        services = cls(
            world=world,
            home=home,
            wikidata=_open_wikidata(world, home, endpoints, stack),
            wikipedia=_open_wikipedia(world, endpoints),
            pageviews=_open_pageviews(world, endpoints),
            falcon=_open_falcon(world, endpoints),
            dbpedia=_open_dbpedia(world, endpoints),
            _endpoints=endpoints,
        )
        services._stack = stack
        return services

    def model(self, role: str) -> tuple[Service, Model]:
        """Return the model of a role and its settings; SettingsError when the world names none."""
        settings = self.world.models.get(role)  # type: ignore[call-overload]
        if settings is None:
            raise SettingsError(
                f"the world {self.world.name} names no model in the role {role}; add [models.{role}] to its file"
            )
        with self._lock:
            if role not in self._models:
                self._models[role] = _open_model(settings, self.world, self.home, self._stack)
            return self._models[role], settings

    def graph(self) -> "Graph":
        """Return the local graph of this world, for what needs all labels at hand; SettingsError when there is none."""
        from tasks.graph.lookup import Graph

        if isinstance(self.wikidata, Graph):
            return self.wikidata
        with self._lock:
            if self._graph is None:
                self._graph = self._stack.enter_context(_local_graph(self.world, self.home))
            return self._graph

    def embedder(self) -> "Embedder":
        """Return the sentence encoder of this world, opened once."""
        from tasks.models.embed import open_embedder

        with self._lock:
            if self._embedder is None:
                self._embedder = open_embedder(embedder_name(self.world, self.home), self.home)
            return self._embedder

    def translator(self) -> Service:
        """Return the translator of this world."""
        from tasks.models.translate import open_translator
        from tasks.models.translation_service import TranslationService

        settings, home = translator_model(self.world), self.home
        with self._lock:
            if self._translator is None:
                self._translator = TranslationService(
                    translator_identity(self.world, home),
                    lambda: open_translator(settings.name, home, compute_type=settings.compute_type),
                )
            return self._translator

    def perplexity(self) -> Service:
        """Return the language model of this world that weighs texts."""
        with self._lock:
            if self._perplexity is None:
                self._perplexity = _open_perplexity(self.world, self.home)
            return self._perplexity

    def notes(self) -> list[str]:
        """Return what was learnt of the models that were asked, as lines to read."""
        return [note for model in self._models.values() if isinstance(model, LazyService) for note in model.notes()]

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()


def choose_finder(service: Service, ask: Ask) -> PathFinder:
    """Return the engine behind a world's Wikidata: the local graph itself, or calls to the endpoint through `ask`."""
    from tasks.graph.lookup import Graph

    return service if isinstance(service, Graph) else PathsByCalls(ask, service.identity)


def embedded_graph(home: Path) -> "Graph":
    """Return the embedded world's facts as a local graph, made on first use and kept under the world's digest."""
    from tasks.graph.lookup import open_graph
    from tasks.graph.manifest import FORMAT_VERSION
    from tasks.world.data import WORLD_FOLDER
    from tasks.world.store import digest_store

    folder, name = home / "world-graphs", f"{digest_store(WORLD_FOLDER)}-{FORMAT_VERSION}"
    with _one_at_a_time(home / "world-cache" / "graph.lock"):
        if not (folder / name).is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            _load_world_graph(folder, name)
    return open_graph(name, folder)


def _load_world_graph(folder: Path, name: str) -> None:
    from tasks.graph.load import load_graph
    from tasks.world.data import WORLD_FOLDER
    from tasks.world.files.reading import load_world_data
    from tasks.world.rdf import write_rdf

    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".nt") as triples:
        write_rdf(load_world_data(WORLD_FOLDER), triples)
        triples.flush()
        load_graph([triples.name], name, folder, WORLD_LANGUAGES)


@contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Let one process in at a time; the others wait."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _endpoint_finder(world: World, home: Path, stack: ExitStack) -> Callable[[], dict[str, str]]:
    """Return a function that gives each service's URL, starting the embedded world when one of them is needed."""
    given = service_urls(world)
    lock = threading.Lock()
    started: dict[str, str] = {}

    def endpoints() -> dict[str, str]:
        with lock:
            if not started and world.is_embedded:
                from tasks.world.serving import running_world

                started.update(stack.enter_context(running_world(home)).endpoints)
                # the embedded store holds DBpedia's links to its items too
                started["dbpedia"] = started["wikidata"]
        return {name: started[name] if url == "embedded" else url for name, url in given.items() if url}

    return endpoints


def _open_wikidata(world: World, home: Path, endpoints: Callable[[], dict[str, str]], stack: ExitStack) -> Service:
    if world.wikidata.engine == "graph":
        from tasks.graph.lookup import open_graph

        return stack.enter_context(open_graph(world.wikidata.graph, graphs_folder(home)))
    identity = wikidata_identity(world, home) if world.has("wikidata") else ""

    def connect() -> Service:
        from tasks.clients.wikidata.client import WikidataSparql
        from tasks.clients.wikidata.queries import QUERY_IDS

        queries = {name: load_query(query_id) for name, query_id in QUERY_IDS.items()}
        return WikidataSparql(endpoints()["wikidata"], identity, world.wikidata.limits, world.user_agent, queries)

    return LazyService(identity, True, connect)


def _open_wikipedia(world: World, endpoints: Callable[[], dict[str, str]]) -> Service:
    identity = identify_service("wikipedia", world.wikipedia.url)

    def connect() -> Service:
        from tasks.clients.wikipedia import Wikipedia

        return Wikipedia(endpoints()["wikipedia"], identity, world.wikipedia.limits, world.user_agent)

    return LazyService(identity, True, connect)


def _open_pageviews(world: World, endpoints: Callable[[], dict[str, str]]) -> Service:
    identity = identify_service("pageviews", world.pageviews.url)

    def connect() -> Service:
        from tasks.clients.pageviews import Pageviews

        return Pageviews(endpoints()["pageviews"], identity, world.pageviews.limits, world.user_agent)

    return LazyService(identity, True, connect)


def _open_falcon(world: World, endpoints: Callable[[], dict[str, str]]) -> Service:
    identity = identify_service("falcon", world.falcon.url)

    def connect() -> Service:
        from tasks.clients.falcon import Falcon

        return Falcon(endpoints()["falcon"], identity, world.falcon.limits, world.user_agent)

    return LazyService(identity, True, connect)


def _open_dbpedia(world: World, endpoints: Callable[[], dict[str, str]]) -> Service:
    identity = identify_service("dbpedia", world.dbpedia.url)

    def connect() -> Service:
        from tasks.clients.dbpedia import Dbpedia

        query = load_query("dbpedia/same_as")
        return Dbpedia(endpoints()["dbpedia"], identity, world.dbpedia.limits, world.user_agent, query)

    return LazyService(identity, True, connect)


def _open_model(settings: Model, world: World, home: Path, stack: ExitStack) -> Service:
    if settings.kind == "rules":

        def think() -> Service:
            from tasks.rules.author import RulesAuthor

            return RulesAuthor(rules_identity(world, home), stack.enter_context(_local_graph(world, home)))

        return LazyService(rules_identity(world, home), True, think)

    identity = settings.url

    def connect() -> Service:
        from tasks.clients.chat import Chat

        return Chat(identity, settings, lambda: api_key(settings), world.user_agent)

    return LazyService(identity, True, connect)


def _open_perplexity(world: World, home: Path) -> Service:
    settings, identity = perplexity_model(world), perplexity_identity(world, home)
    if settings.kind == "openai":
        from tasks.clients.perplexity import Scorer

        return LazyService(
            identity, True, lambda: Scorer(identity, settings, lambda: api_key(settings), world.user_agent)
        )
    from tasks.models.perplexity import open_perplexity
    from tasks.models.perplexity_service import PerplexityService

    return PerplexityService(identity, lambda: open_perplexity(settings.name, home, compute_type=settings.compute_type))


def _local_graph(world: World, home: Path) -> "Graph":
    """Return the world's local graph, or the embedded world's facts as one; SettingsError when it has neither."""
    from tasks.graph.lookup import open_graph

    if world.wikidata.engine == "graph":
        return open_graph(world.wikidata.graph, graphs_folder(home))
    if world.wikidata.url != "embedded":
        raise SettingsError(
            f"the rules author and the labels linker read a local graph or the embedded world, but the Wikidata of the "
            f"world {world.name} is {world.wikidata.url}; name a graph with --graph, or a model server and --linker falcon"
        )
    return embedded_graph(home)
