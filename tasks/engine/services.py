"""The services of a world, opened when they are first asked (naming/identities.py knows them before)."""

import shutil
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tasks.assets import load_query
from tasks.clients.batch_jobs.job_files import JobsPlace
from tasks.clients.batch_jobs.request_files import RequestFiles
from tasks.clients.sending.budget import Budget
from tasks.clients.sending.lazy import LazyService
from tasks.clients.sending.limiter import share_limiter
from tasks.core.addresses import is_query_service, is_wikimedia_api
from tasks.core.calls.call import Service
from tasks.core.calls.paths import Ask, PathsByCalls
from tasks.core.fingerprints import digest_json
from tasks.core.paths import PathFinder
from tasks.core.service_settings import EMBEDDED, SCRIPTED, Endpoint, Model
from tasks.engine.cluster.asking import Cluster
from tasks.engine.cluster.library import import_distributed
from tasks.engine.cluster.wanted import Wanted
from tasks.engine.naming.identities import (
    embedder_name,
    identify_service,
    perplexity_identity,
    perplexity_model,
    service_urls,
    translator_identity,
    translator_model,
)
from tasks.errors import SettingsError
from tasks.processes import one_at_a_time
from tasks.progress import say
from tasks.settings import World, api_key, graphs_folder, load_world, read_token, require_variables
from tasks.text.suggestions import suggest_name

if TYPE_CHECKING:
    from tasks.graph.lookup import Graph
    from tasks.models.cross_encoder import PairScorer
    from tasks.models.embed import Embedder

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
    """Where it is kept what is known of batch jobs; None: models are asked singly, whatever the world says."""
    files: RequestFiles | None
    """What the run reads of replies and writes of requests to chat models of the OpenAI protocol; None: they are sent."""
    cluster: Cluster | None
    """Where models and graphs are asked; None: in this process."""
    _stack: ExitStack
    budget: Budget = field(default_factory=Budget)
    """What all of them spend from."""
    _opened: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Have the services spend from one budget."""
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

        `jobs`: where what is known of batch jobs outlives this process; `files`: of requests and replies, closed with the
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
        return cls(
            world=world,
            home=home,
            wikidata=_open_wikidata(world, home, endpoints, stack),
            wikipedia=_open_web_service("wikipedia", world.wikipedia, world, endpoints),
            pageviews=_open_web_service("pageviews", world.pageviews, world, endpoints),
            falcon=_open_web_service("falcon", world.falcon, world, endpoints),
            dbpedia=_open_web_service("dbpedia", world.dbpedia, world, endpoints),
            jobs=jobs,
            files=files,
            cluster=cluster,
            _stack=stack,
        )

    def model(self, role: str) -> tuple[Service, Model]:
        """Return the model of a role and its settings; SettingsError when the world names none."""
        settings = self.world.models.get(role)
        if settings is None:
            raise SettingsError(
                f"the world {self.world.name} names no model in the role {role}; add [models.{role}] to its file"
                f"{suggest_name(role, self.world.models)}"
            )
        return self._once(f"model {role}", lambda: self._open_model(settings)), settings

    def _open_model(self, settings: Model) -> Service:
        if settings.kind == "scripted":
            return _open_scripted()
        return _open_chat(settings, self.world.user_agent, self.jobs, self.files if settings.kind == "openai" else None)

    def graph(self) -> "Graph":
        """Return the local graph of this world, for what needs all labels at hand; SettingsError when there is none."""
        from tasks.graph.lookup import Graph

        if isinstance(self.wikidata, Graph):
            return self.wikidata
        return self._once("graph", lambda: self._stack.enter_context(_local_graph(self.world, self.home)))

    def paths(self, ask: Ask) -> PathFinder:
        """Return what finds paths in this world's Wikidata: a local graph, here or on a cluster, or calls through `ask`."""
        from tasks.graph.lookup import Graph

        service, cluster = self.wikidata, self.cluster
        if not isinstance(service, Graph):
            return PathsByCalls(ask, service.identity)
        if cluster is None:
            return service
        from tasks.engine.cluster.remote import RemotePaths

        return RemotePaths(service.manifest.digest, cluster)

    def embedder(self) -> "Embedder":
        """Return the sentence encoder of this world, opened once a process."""
        return self._once("embedder", self._open_embedder)

    def _open_embedder(self) -> "Embedder":
        from tasks.models.char_ngrams import CHAR_NGRAMS
        from tasks.models.embed import find_embedder, share_embedder

        name = embedder_name(self.world, self.home)
        # n-grams are counted in less time than it takes to ask for them
        if self.cluster is None or name == CHAR_NGRAMS:
            return share_embedder(name, self.home)
        from tasks.engine.cluster.remote import open_remote_embedder

        return open_remote_embedder(find_embedder(name, self.home), self.cluster)

    def cross_encoder(self, name: str) -> "PairScorer":
        """Return a cross-encoder of this home, opened once."""
        return self._once(f"cross-encoder {name}", lambda: self._open_cross_encoder(name))

    def _open_cross_encoder(self, name: str) -> "PairScorer":
        from tasks.models.cross_encoder import CrossEncoder, find_cross_encoder

        if self.cluster is None:
            return CrossEncoder(find_cross_encoder(name, self.home))
        from tasks.engine.cluster.remote import open_remote_cross_encoder

        return open_remote_cross_encoder(find_cross_encoder(name, self.home), self.cluster)

    def translator(self) -> Service:
        """Return the translator of this world."""
        return self._once("translator", lambda: _open_translator(self.world, self.home, self.cluster))

    def perplexity(self) -> Service:
        """Return the language model of this world that weighs texts."""
        return self._once("perplexity", lambda: _open_perplexity(self.world, self.home, self.cluster))

    def _once(self, name: str, open_it: Callable[[], T]) -> T:
        """Return what is opened at the first call of that name."""
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
        """Return what was learnt of the models that were asked, as lines to read."""
        told = (each.notes() for each in self._opened.values() if isinstance(each, LazyService))
        return list(dict.fromkeys(note for notes in told for note in notes))

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()


def embedded_graph(home: Path) -> "Graph":
    """Return the embedded world's facts as a local graph, made on first use and kept under the world's digest."""
    from tasks.graph.lookup import open_graph
    from tasks.graph.manifest import FORMAT_VERSION
    from tasks.world.data import WORLD_FOLDER
    from tasks.world.store import digest_store

    folder, name = home / "world-graphs", f"{digest_store(WORLD_FOLDER)}-{FORMAT_VERSION}"
    with one_at_a_time(home / "world-cache" / "graph.lock", say):
        if not (folder / name).is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            _load_world_graph(folder, name)
    return open_graph(name, folder)


def _load_world_graph(folder: Path, name: str) -> None:
    from tasks.graph.load import load_graph
    from tasks.world.data import WORLD_FOLDER
    from tasks.world.files.reading import load_world_data
    from tasks.world.rdf import write_rdf

    # beside the graph: what a killed process leaves goes when the graph is made after all
    folder.mkdir(parents=True)
    triples = folder / "world.nt"
    with triples.open("w", encoding="utf-8") as file:
        write_rdf(load_world_data(WORLD_FOLDER), file)
    load_graph([str(triples)], name, folder, WORLD_LANGUAGES)
    triples.unlink()


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
    return _open_web_service("wikidata", world.wikidata, world, endpoints)


def _open_web_service(
    name: ServiceName, settings: Endpoint, world: World, endpoints: Callable[[], dict[str, str]]
) -> Service:
    identity = identify_service(name, settings.url)
    return LazyService(identity, True, lambda: _connect(name, endpoints()[name], identity, settings, world))


def _connect(name: ServiceName, url: str, identity: str, settings: Endpoint, world: World) -> Service:
    """Return the client of a service; each is imported where it is needed, since most runs need few.

    SettingsError when the world may not ask it.
    """
    world.require_access(name)
    limits, user_agent, token, shared = settings.limits, world.user_agent, read_token(name, settings), None
    if is_query_service(url):
        rules = world.wikimedia
        shared = share_limiter("query service", rules.query_parallel, work_s_per_minute=rules.query_seconds_per_minute)
    elif is_wikimedia_api(url):
        shared = share_limiter("wikimedia", world.wikimedia.parallel, per_minute=world.wikimedia_rate())
    match name:
        case "wikidata":
            from tasks.clients.wikidata.client import WikidataSparql
            from tasks.clients.wikidata.queries import QUERY_IDS

            queries = {each: load_query(query_id) for each, query_id in QUERY_IDS.items()}
            return WikidataSparql(url, identity, limits, user_agent, queries, token, shared)
        case "wikipedia":
            from tasks.clients.wikipedia import Wikipedia

            return Wikipedia(url, identity, limits, user_agent, token, shared)
        case "pageviews":
            from tasks.clients.pageviews import Pageviews

            return Pageviews(url, identity, limits, user_agent, token, shared)
        case "falcon":
            from tasks.clients.falcon import Falcon

            return Falcon(url, identity, limits, user_agent, token)
        case "dbpedia":
            from tasks.clients.dbpedia import Dbpedia

            return Dbpedia(url, identity, limits, user_agent, load_query("dbpedia/same_as"), token)


def _open_scripted() -> Service:
    def read() -> Service:
        from tasks.world.replies import ScriptedReplies

        return ScriptedReplies()

    return LazyService(SCRIPTED, True, read)


def _open_chat(settings: Model, user_agent: str, jobs: JobsPlace | None, files: RequestFiles | None) -> Service:
    identity = settings.url
    own_jobs = replace(jobs, folder=jobs.folder / digest_json([identity, settings.name])[:16]) if jobs else None

    def connect() -> Service:
        from tasks.clients.chat import Chat

        return Chat(identity, settings, lambda: api_key(settings), user_agent, own_jobs, files)

    return LazyService(identity, True, connect)


def _open_perplexity(world: World, home: Path, cluster: Cluster | None) -> Service:
    settings, identity = perplexity_model(world), perplexity_identity(world, home)
    if settings.kind == "openai":
        from tasks.clients.perplexity import Scorer

        return LazyService(
            identity, True, lambda: Scorer(identity, settings, lambda: api_key(settings), world.user_agent)
        )
    if cluster:
        from tasks.engine.cluster.remote import RemoteModel

        return LazyService(identity, True, lambda: RemoteModel(cluster, Wanted("perplexity", identity)), computes=True)
    from tasks.models.perplexity import LanguageModel, find_perplexity
    from tasks.models.services import serve_perplexity

    local = serve_perplexity(
        identity, lambda: LanguageModel(find_perplexity(settings.name, home), compute_type=settings.compute_type)
    )
    return LazyService(identity, True, lambda: local, computes=True)


def _open_translator(world: World, home: Path, cluster: Cluster | None) -> Service:
    settings, identity = translator_model(world), translator_identity(world, home)
    if cluster:
        from tasks.engine.cluster.remote import RemoteModel

        return LazyService(identity, True, lambda: RemoteModel(cluster, Wanted("translator", identity)), computes=True)
    from tasks.models.services import serve_translator
    from tasks.models.translate import Translator, find_translator

    local = serve_translator(
        identity, lambda: Translator(find_translator(settings.name, home), compute_type=settings.compute_type)
    )
    return LazyService(identity, True, lambda: local, computes=True)


def check_models(world: World, roles: Collection[str]) -> None:
    """Raise SettingsError when a model of these roles cannot be asked: an environment variable is not set, or
    a cluster's library is missing.
    """
    if world.compute.engine == "dask":
        import_distributed()
    for model in (model for role, model in world.models.items() if role in roles):
        if model.kind == "anthropic":
            from tasks.clients.anthropic_server import require_sdk

            require_sdk()
        require_variables(model)


def _local_graph(world: World, home: Path) -> "Graph":
    """Return the world's local graph, or the embedded world's facts as one; SettingsError when it has neither."""
    from tasks.graph.lookup import open_graph

    if world.wikidata.engine == "graph":
        return open_graph(world.wikidata.graph, graphs_folder(home))
    if world.wikidata.url == EMBEDDED:
        return embedded_graph(home)
    raise SettingsError(
        f"the labels linker reads a local graph or the embedded world, but the Wikidata of the world {world.name} is "
        f"{world.wikidata.url}; name a graph with --graph, or give --linker falcon"
    )
