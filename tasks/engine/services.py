"""Open a world's services on first use; naming/identities.py knows their identities without opening them."""

import shutil
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from factmill.tasks.clients.batch_jobs.job_files import JobsPlace
from factmill.tasks.clients.batch_jobs.request_files import RequestFiles
from factmill.tasks.clients.sending.budget import Budget
from factmill.tasks.clients.sending.lazy import LazyService
from factmill.tasks.clients.sending.limiter import share_limiter
from factmill.tasks.core.calls.call import Service
from factmill.tasks.core.calls.paths import Ask, PathsByCalls
from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.paths import PathFinder
from factmill.tasks.core.service_settings import EMBEDDED, SCRIPTED, Endpoint, Model, is_query_service, is_wikimedia_api
from factmill.tasks.engine.cluster.asking import Cluster
from factmill.tasks.engine.cluster.wire import Wanted, import_distributed
from factmill.tasks.engine.naming.identities import (
    embedder_name,
    identify_service,
    perplexity_identity,
    perplexity_model,
    service_urls,
    translator_identity,
    translator_model,
)
from factmill.tasks.errors import SettingsError
from factmill.tasks.processes import one_at_a_time
from factmill.tasks.progress import say
from factmill.tasks.settings import World, api_key, graphs_folder, load_world, read_token, require_variables
from factmill.tasks.text.whole import suggest_name

if TYPE_CHECKING:
    from factmill.tasks.graph.lookup import Graph
    from factmill.tasks.models.cross_encoder import PairScorer
    from factmill.tasks.models.embed import Embedder

T = TypeVar("T")
ServiceName = Literal["wikidata", "wikipedia", "pageviews", "falcon", "dbpedia"]

WORLD_LANGUAGES = ("en", "de", "fr", "it", "es", "pt")
"""Languages of the embedded world's labels."""


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
    jobs: JobsPlace | None
    """Where the state of batch jobs is stored; None: models get single requests, whatever the world says."""
    files: RequestFiles | None
    """Files of replies to read and requests to write, for chat models of the OpenAI protocol; None: requests are sent."""
    cluster: Cluster | None
    """Cluster that runs models and graphs; None: they run in this process."""
    _stack: ExitStack
    budget: Budget = field(default_factory=Budget)
    """Budget that all services share."""
    _opened: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Give the services one shared budget."""
        for service in (self.wikidata, self.wikipedia, self.pageviews, self.falcon, self.dbpedia):
            self._charge(service)

    @classmethod
    def open(
        cls,
        world_name: str,
        graph: str | None,
        home: Path,
        jobs: JobsPlace | None = None,
        files: RequestFiles | None = None,
    ) -> "Services":
        """Open the services of a world by name, with a local graph as its Wikidata if one is named.

        `jobs`: where the state of batch jobs outlives this process; `files`: of requests and replies, closed with the
        services.
        """
        world = load_world(world_name, graph)
        stack = ExitStack()
        if files:
            stack.callback(files.close)
        endpoints = _endpoint_finder(world, home, stack)
        cluster = Cluster(world.compute) if world.compute.engine == "dask" else None
        if cluster:
            stack.callback(cluster.close)
        names: tuple[ServiceName, ...] = ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")
        opened: dict[str, Any] = {
            name: _open_web_service(name, getattr(world, name), world, endpoints) for name in names
        }
        if world.wikidata.engine == "graph":
            from factmill.tasks.graph.lookup import open_graph

            opened["wikidata"] = stack.enter_context(open_graph(world.wikidata.graph, graphs_folder(home)))
        return cls(
            world=world,
            home=home,
            **opened,
            jobs=jobs,
            files=files,
            cluster=cluster,
            _stack=stack,
        )

    def model(self, role: str) -> tuple[Service, Model]:
        """Return a role's model and its settings; SettingsError if the world names none."""
        settings = self.world.models.get(role)
        if settings is None:
            raise SettingsError(
                f"the world {self.world.name} names no model in the role {role}; add [models.{role}] to its file"
                f"{suggest_name(role, self.world.models)}"
            )
        return self._once(f"model {role}", lambda: self._open_chat(settings)), settings

    def _open_chat(self, settings: Model) -> Service:
        identity = SCRIPTED if settings.kind == "scripted" else settings.url

        def connect() -> Service:
            if settings.kind == "scripted":
                from factmill.tasks.world.replies import ScriptedReplies

                return ScriptedReplies()
            from factmill.tasks.clients.chat import Chat

            jobs, files = self.jobs, self.files if settings.kind == "openai" else None
            own = replace(jobs, folder=jobs.folder / digest_json([identity, settings.name])[:16]) if jobs else None
            return Chat(identity, settings, lambda: api_key(settings), self.world.user_agent, own, files)

        return LazyService(identity, True, connect)

    def graph(self) -> "Graph":
        """Return this world's local graph, for code that needs all labels; SettingsError if there is none."""
        from factmill.tasks.graph.lookup import Graph

        if isinstance(self.wikidata, Graph):
            return self.wikidata
        return self._once("graph", lambda: self._stack.enter_context(_local_graph(self.world, self.home)))

    def paths(self, ask: Ask) -> PathFinder:
        """Return a path finder for this world's Wikidata: the local graph, here or on a cluster, or calls through `ask`."""
        from factmill.tasks.graph.lookup import Graph

        service, cluster = self.wikidata, self.cluster
        if not isinstance(service, Graph):
            return PathsByCalls(ask, service.identity)
        if cluster is None:
            return service
        from factmill.tasks.engine.cluster.remote import RemotePaths

        return RemotePaths(service.manifest.digest, cluster)

    def embedder(self) -> "Embedder":
        """Return this world's sentence encoder, opened once per process."""

        def open_it() -> "Embedder":
            from factmill.tasks.models.embed import CHAR_NGRAMS, find_embedder, share_embedder

            name = embedder_name(self.world, self.home)
            # counting n-grams takes less time than a request to the cluster
            if self.cluster is None or name == CHAR_NGRAMS:
                return share_embedder(name, self.home)
            from factmill.tasks.engine.cluster.remote import open_remote_embedder

            return open_remote_embedder(find_embedder(name, self.home), self.cluster)

        return self._once("embedder", open_it)

    def cross_encoder(self, name: str) -> "PairScorer":
        """Return a cross-encoder of this home, opened once."""

        def open_it() -> "PairScorer":
            from factmill.tasks.models.cross_encoder import CrossEncoder, find_cross_encoder

            found = find_cross_encoder(name, self.home)
            if self.cluster is None:
                return CrossEncoder(found)
            from factmill.tasks.engine.cluster.remote import open_remote_cross_encoder

            return open_remote_cross_encoder(found, self.cluster)

        return self._once(f"cross-encoder {name}", open_it)

    def translator(self) -> Service:
        """Return the translator of this world."""
        return self._once("translator", self._open_translator)

    def _open_translator(self) -> Service:
        settings, identity = translator_model(self.world), translator_identity(self.world, self.home)
        if self.cluster:
            return _open_remote("translator", identity, self.cluster)
        from factmill.tasks.models.services import serve_translator
        from factmill.tasks.models.translate import Translator, find_translator

        local = serve_translator(
            identity, lambda: Translator(find_translator(settings.name, self.home), compute_type=settings.compute_type)
        )
        return LazyService(identity, True, lambda: local, computes=True)

    def perplexity(self) -> Service:
        """Return this world's language model that scores the perplexity of texts."""
        return self._once("perplexity", self._open_perplexity)

    def _open_perplexity(self) -> Service:
        settings, identity = perplexity_model(self.world), perplexity_identity(self.world, self.home)
        if settings.kind == "openai":
            from factmill.tasks.clients.perplexity import Scorer

            user_agent = self.world.user_agent
            return LazyService(
                identity, True, lambda: Scorer(identity, settings, lambda: api_key(settings), user_agent)
            )
        if self.cluster:
            return _open_remote("perplexity", identity, self.cluster)
        from factmill.tasks.models.perplexity import LanguageModel, find_perplexity
        from factmill.tasks.models.services import serve_perplexity

        found = find_perplexity(settings.name, self.home)
        local = serve_perplexity(identity, lambda: LanguageModel(found, compute_type=settings.compute_type))
        return LazyService(identity, True, lambda: local, computes=True)

    def _once(self, name: str, open_it: Callable[[], T]) -> T:
        """Return the object of this name, opened at the first call."""
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._charge(open_it())
            opened: T = self._opened[name]
            return opened

    def _charge(self, opened: T) -> T:
        if isinstance(opened, LazyService):
            opened.budget = self.budget
        return opened

    def notes(self) -> list[str]:
        """Return notes on the models used, as lines of text."""
        told = (each.notes() for each in self._opened.values() if isinstance(each, LazyService))
        return list(dict.fromkeys(note for notes in told for note in notes))

    def close(self) -> None:
        """Close what was opened and stop what was started."""
        self._stack.close()


def embedded_graph(home: Path) -> "Graph":
    """Return the embedded world's facts as a local graph, built on first use and stored under the world's digest."""
    from factmill.tasks.graph.folders import FORMAT_VERSION
    from factmill.tasks.graph.lookup import open_graph
    from factmill.tasks.world.data import WORLD_FOLDER
    from factmill.tasks.world.serving import digest_store

    folder, name = home / "world-graphs", f"{digest_store(WORLD_FOLDER)}-{FORMAT_VERSION}"
    with one_at_a_time(home / "world-cache" / "graph.lock", say):
        if not (folder / name).is_dir():
            from factmill.tasks.graph.load import load_graph
            from factmill.tasks.world.files import load_world_data
            from factmill.tasks.world.rdf import write_rdf

            shutil.rmtree(folder, ignore_errors=True)
            # next to the graph: remains of a killed process are deleted when the graph is built
            folder.mkdir(parents=True)
            triples = folder / "world.nt"
            with triples.open("w", encoding="utf-8") as file:
                write_rdf(load_world_data(WORLD_FOLDER), file)
            load_graph([str(triples)], name, folder, WORLD_LANGUAGES)
            triples.unlink()
    return open_graph(name, folder)


def _endpoint_finder(world: World, home: Path, stack: ExitStack) -> Callable[[], dict[str, str]]:
    """Return a function that returns service → URL and starts the embedded world on its first call, if needed."""
    given = service_urls(world)
    lock = threading.Lock()
    started: dict[str, str] = {}

    def endpoints() -> dict[str, str]:
        with lock:
            if not started and world.is_embedded:
                from factmill.tasks.world.serving import running_world

                started.update(stack.enter_context(running_world(home)).endpoints)
                # the embedded store holds DBpedia's links to its items too
                started["dbpedia"] = started["wikidata"]
        return {name: started[name] if url == "embedded" else url for name, url in given.items() if url}

    return endpoints


def _open_web_service(
    name: ServiceName, settings: Endpoint, world: World, endpoints: Callable[[], dict[str, str]]
) -> Service:
    identity = identify_service(name, settings.url)
    return LazyService(identity, True, lambda: _connect(name, endpoints()[name], identity, settings, world))


def _connect(name: ServiceName, url: str, identity: str, settings: Endpoint, world: World) -> Service:
    """Return the client of a service, imported only when needed, since most runs need few.

    SettingsError if the world does not allow access to it.
    """
    world.require_access(name)
    limits, user_agent, token, shared = settings.limits, world.user_agent, read_token(name, settings), None
    if is_query_service(url):
        rules = world.wikimedia
        shared = share_limiter("query service", rules.query_parallel, work_s_per_minute=rules.query_seconds_per_minute)
    elif is_wikimedia_api(url):
        shared = share_limiter("wikimedia", world.wikimedia.parallel, per_minute=world.wikimedia_rate())
    told = (url, identity, limits, user_agent, token)
    match name:
        case "wikidata" | "dbpedia":
            from factmill.tasks.clients.sparql import SparqlClient

            return SparqlClient("Wikidata" if name == "wikidata" else "DBpedia", *told, shared)
        case "wikipedia":
            from factmill.tasks.clients.wikipedia import Wikipedia

            return Wikipedia(*told, shared)
        case "pageviews":
            from factmill.tasks.clients.pageviews import Pageviews

            return Pageviews(*told, shared)
        case "falcon":
            from factmill.tasks.clients.falcon import Falcon

            return Falcon(*told)


def _open_remote(kind: Literal["translator", "perplexity"], identity: str, cluster: Cluster) -> Service:
    from factmill.tasks.engine.cluster.remote import RemoteModel

    return LazyService(identity, True, lambda: RemoteModel(cluster, Wanted(kind, identity)), computes=True)


def check_models(world: World, roles: Collection[str]) -> None:
    """Raise SettingsError if a model of these roles cannot be used: an environment variable is not set, or a library of
    the model or the cluster is missing.
    """
    if world.compute.engine == "dask":
        import_distributed()
    for model in (model for role, model in world.models.items() if role in roles):
        if model.kind == "anthropic":
            from factmill.tasks.clients.anthropic_server import require_sdk

            require_sdk()
        require_variables(model)


def _local_graph(world: World, home: Path) -> "Graph":
    """Return the world's local graph, or the embedded world's facts as one; SettingsError if it has neither."""
    from factmill.tasks.graph.lookup import open_graph

    if world.wikidata.engine == "graph":
        return open_graph(world.wikidata.graph, graphs_folder(home))
    if world.wikidata.url == EMBEDDED:
        return embedded_graph(home)
    raise SettingsError(
        f"the labels linker reads a local graph or the embedded world, but the Wikidata of the world {world.name} is "
        f"{world.wikidata.url}; name a graph with --graph, or give --linker falcon"
    )
