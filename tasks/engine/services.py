"""Open a world's services on first use; naming/identities.py knows their identities without opening them."""

import shutil
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from factmill.tasks.clients.batch_jobs.job_files import BatchJobsFolderAndRun
from factmill.tasks.clients.batch_jobs.offline_batches import OfflineRequestAndReplyFilesOfRun
from factmill.tasks.clients.sending.budget import Budget, LazyBudgetedService
from factmill.tasks.clients.sending.limiter import get_or_create_shared_limiter
from factmill.tasks.core.calls.call import CallService
from factmill.tasks.core.calls.path_calls import CallSender, WikidataCallPathFinder
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.service_settings import (
    EMBEDDED_SERVICE,
    SCRIPTED_MODEL_NAME,
    ModelSettings,
    ServiceEndpoint,
    is_wikidata_query_service,
    is_wikimedia_url_except_query_service,
)
from factmill.tasks.core.wikidata_paths import PathFinder
from factmill.tasks.engine.cluster.driver import DaskClusterClient
from factmill.tasks.engine.cluster.protocol import RequiredModelOrGraph, import_dask_distributed_without_logs
from factmill.tasks.engine.naming.identities import (
    embedder_name,
    get_model_settings,
    make_service_identity,
    perplexity_identity,
    service_urls,
    translator_identity,
)
from factmill.tasks.errors import SettingsError
from factmill.tasks.processes import exclusive_file_lock
from factmill.tasks.progress import print_and_log
from factmill.tasks.settings import (
    World,
    graphs_folder,
    load_world,
    read_api_key,
    read_service_token,
    require_model_environment_variables,
)
from factmill.tasks.text.sanitize import format_did_you_mean

if TYPE_CHECKING:
    from factmill.tasks.graph.lookup import WikidataGraph
    from factmill.tasks.models.cross_encoder import PairScorer
    from factmill.tasks.models.embedders import Embedder

T = TypeVar("T")
ServiceName = Literal["wikidata", "wikipedia", "pageviews", "falcon", "dbpedia"]


@dataclass(slots=True)
class WorldServices:
    """All services of one run's world."""

    world: World
    home: Path
    wikidata: CallService
    wikipedia: CallService
    pageviews: CallService
    falcon: CallService
    dbpedia: CallService
    jobs: BatchJobsFolderAndRun | None
    """Where the state of batch jobs is stored; None: models get single requests, whatever the world says."""
    request_files: OfflineRequestAndReplyFilesOfRun | None
    """Files of replies to read and requests to write, for chat models of the OpenAI protocol; None: requests are sent."""
    cluster: DaskClusterClient | None
    """Cluster that runs models and graphs; None: they run in this process."""
    _stack: ExitStack
    budget: Budget = field(default_factory=Budget)
    """Budget that all services share."""
    _opened: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Give the services one shared budget."""
        for service in (self.wikidata, self.wikipedia, self.pageviews, self.falcon, self.dbpedia):
            self._attach_budget(service)

    @classmethod
    def open(
        cls,
        world_name: str,
        graph: str | None,
        home: Path,
        jobs: BatchJobsFolderAndRun | None = None,
        files: OfflineRequestAndReplyFilesOfRun | None = None,
    ) -> "WorldServices":
        """Open the services of a world by name, with a local graph as its Wikidata if one is named.

        `jobs`: where the state of batch jobs outlives this process; `files`: of requests and replies, closed with the
        services.
        """
        world = load_world(world_name, graph)
        stack = ExitStack()
        if files:
            stack.callback(files.close)
        endpoints = _make_endpoint_resolver_starting_world(world, home, stack)
        cluster = DaskClusterClient(world.compute) if world.compute.engine == "dask" else None
        if cluster:
            stack.callback(cluster.close)
        names: tuple[ServiceName, ...] = ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")
        opened: dict[str, Any] = {
            name: _make_lazy_web_service(name, getattr(world, name), world, endpoints) for name in names
        }
        if world.wikidata.engine == "graph":
            from factmill.tasks.graph.lookup import open_graph

            opened["wikidata"] = stack.enter_context(open_graph(world.wikidata.graph, graphs_folder(home)))
        if world.is_local("wikipedia"):
            from factmill.tasks.clients.wikipedia_file import WikipediaFileClient

            archive = world.open_wikipedia_file()
            opened["wikipedia"] = LazyBudgetedService(archive.identity, True, lambda: WikipediaFileClient(archive))
        return cls(
            world=world,
            home=home,
            **opened,
            jobs=jobs,
            request_files=files,
            cluster=cluster,
            _stack=stack,
        )

    def model(self, role: str) -> tuple[CallService, ModelSettings]:
        """Return a role's model and its settings; SettingsError if the world names none."""
        settings = self.world.models.get(role)
        if settings is None:
            raise SettingsError(
                f"the world {self.world.name} has no model in the role {role}; add [models.{role}] to its file"
                f"{format_did_you_mean(role, self.world.models)}"
            )
        return self._open_once(f"model {role}", lambda: self._open_chat(settings)), settings

    def _open_chat(self, settings: ModelSettings) -> CallService:
        identity = SCRIPTED_MODEL_NAME if settings.kind == "scripted" else settings.url

        def connect() -> CallService:
            if settings.kind == "scripted":
                from factmill.tasks.world.scripted_replies import ScriptedChatService

                return ScriptedChatService()
            from factmill.tasks.clients.chat import ChatClient

            jobs, files = self.jobs, self.request_files if settings.kind == "openai" else None
            own = replace(jobs, folder=jobs.folder / digest_json([identity, settings.name])[:16]) if jobs else None
            return ChatClient(identity, settings, lambda: read_api_key(settings), self.world.user_agent, own, files)

        return LazyBudgetedService(identity, True, connect)

    def graph(self) -> "WikidataGraph":
        """Return this world's local graph, for code that needs all labels; SettingsError if there is none."""
        from factmill.tasks.graph.lookup import WikidataGraph

        if isinstance(self.wikidata, WikidataGraph):
            return self.wikidata
        return self._open_once(
            "graph", lambda: self._stack.enter_context(_open_local_or_embedded_graph(self.world, self.home))
        )

    def make_path_finder(self, ask: CallSender) -> PathFinder:
        """Return a path finder for this world's Wikidata: the local graph, here or on a cluster, or calls through `ask`."""
        from factmill.tasks.graph.lookup import WikidataGraph

        service, cluster = self.wikidata, self.cluster
        if not isinstance(service, WikidataGraph):
            return WikidataCallPathFinder(ask, service.identity)
        if cluster is None:
            return service
        from factmill.tasks.engine.cluster.remote_models import RemoteGraphPathFinder

        return RemoteGraphPathFinder(service.manifest.digest, cluster)

    def embedder(self) -> "Embedder":
        """Return this world's sentence encoder, opened once per process."""

        def open_it() -> "Embedder":
            from factmill.tasks.models.embedders import (
                CHAR_NGRAMS,
                open_shared_embedder,
                resolve_embedder_folder_converting_packaged,
            )

            name = embedder_name(self.world, self.home)
            # counting n-grams takes less time than a request to the cluster
            if self.cluster is None or name == CHAR_NGRAMS:
                return open_shared_embedder(name, self.home)
            from factmill.tasks.engine.cluster.remote_models import open_remote_embedder

            return open_remote_embedder(resolve_embedder_folder_converting_packaged(name, self.home), self.cluster)

        return self._open_once("embedder", open_it)

    def cross_encoder(self, name: str) -> "PairScorer":
        """Return a cross-encoder of this home, opened once."""

        def open_it() -> "PairScorer":
            from factmill.tasks.models.cross_encoder import CrossEncoder, resolve_cross_encoder_folder

            found = resolve_cross_encoder_folder(name, self.home)
            if self.cluster is None:
                return CrossEncoder(found)
            from factmill.tasks.engine.cluster.remote_models import open_remote_cross_encoder

            return open_remote_cross_encoder(found, self.cluster)

        return self._open_once(f"cross-encoder {name}", open_it)

    def translator(self) -> CallService:
        """Return the translator of this world."""
        return self._open_once("translator", self._open_translator)

    def _open_translator(self) -> CallService:
        settings, identity = get_model_settings(self.world, "translator"), translator_identity(self.world, self.home)
        if self.cluster:
            return _make_lazy_cluster_model("translator", identity, self.cluster)
        from factmill.tasks.models.model_services import make_translator_service
        from factmill.tasks.models.translator import Translator, resolve_translator_folder

        local = make_translator_service(
            identity,
            lambda: Translator(resolve_translator_folder(settings.name, self.home), compute_type=settings.compute_type),
        )
        return LazyBudgetedService(identity, True, lambda: local, computes=True)

    def perplexity(self) -> CallService:
        """Return this world's language model that scores the perplexity of texts."""
        return self._open_once("perplexity", self._open_perplexity)

    def _open_perplexity(self) -> CallService:
        settings, identity = get_model_settings(self.world, "perplexity"), perplexity_identity(self.world, self.home)
        if settings.kind == "openai":
            from factmill.tasks.clients.perplexity import TextPerplexityClient

            user_agent = self.world.user_agent
            return LazyBudgetedService(
                identity,
                True,
                lambda: TextPerplexityClient(identity, settings, lambda: read_api_key(settings), user_agent),
            )
        if self.cluster:
            return _make_lazy_cluster_model("perplexity", identity, self.cluster)
        from factmill.tasks.models.model_services import make_language_model_service
        from factmill.tasks.models.perplexity import LanguageModel, resolve_language_model_folder

        found = resolve_language_model_folder(settings.name, self.home)
        local = make_language_model_service(identity, lambda: LanguageModel(found, compute_type=settings.compute_type))
        return LazyBudgetedService(identity, True, lambda: local, computes=True)

    def _open_once(self, name: str, open_it: Callable[[], T]) -> T:
        """Return the object of this name, opened at the first call."""
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._attach_budget(open_it())
            opened: T = self._opened[name]
            return opened

    def _attach_budget(self, opened: T) -> T:
        if isinstance(opened, LazyBudgetedService):
            opened.budget = self.budget
        return opened

    def notes(self) -> list[str]:
        """Return notes on the models used, as lines of text."""
        per_service = (each.notes() for each in self._opened.values() if isinstance(each, LazyBudgetedService))
        return list(dict.fromkeys(note for notes in per_service for note in notes))

    def close(self) -> None:
        """Close what was opened and stop what was started."""
        self._stack.close()


def open_or_build_embedded_graph(home: Path) -> "WikidataGraph":
    """Return the embedded world's facts as a local graph, built on first use and stored under the world's digest."""
    from factmill.tasks.graph.folders import FORMAT_VERSION
    from factmill.tasks.graph.lookup import open_graph
    from factmill.tasks.world.data import WORLD_FOLDER, WORLD_LABEL_LANGUAGES
    from factmill.tasks.world.serving import digest_world_store_inputs

    folder, name = home / "world-graphs", f"{digest_world_store_inputs(WORLD_FOLDER)}-{FORMAT_VERSION}"
    with exclusive_file_lock(home / "world-cache" / "graph.lock", print_and_log):
        if not (folder / name).is_dir():
            from factmill.tasks.graph.load import load_graph
            from factmill.tasks.world.files import load_world_data
            from factmill.tasks.world.rdf import write_world_ntriples

            shutil.rmtree(folder, ignore_errors=True)
            # next to the graph: remains of a killed process are deleted when the graph is built
            folder.mkdir(parents=True)
            triples = folder / "world.nt"
            with triples.open("w", encoding="utf-8") as file:
                write_world_ntriples(load_world_data(WORLD_FOLDER), file)
            load_graph([str(triples)], name, folder, WORLD_LABEL_LANGUAGES)
            triples.unlink()
    return open_graph(name, folder)


def _make_endpoint_resolver_starting_world(world: World, home: Path, stack: ExitStack) -> Callable[[], dict[str, str]]:
    """Return a function that returns service → URL and starts the embedded world on its first call, if needed."""
    given = service_urls(world)
    lock = threading.Lock()
    started: dict[str, str] = {}

    def endpoints() -> dict[str, str]:
        with lock:
            if not started and world.uses_embedded_services:
                from factmill.tasks.world.serving import running_world

                started.update(stack.enter_context(running_world(home)).endpoints)
                # the embedded store holds DBpedia's links to its items too
                started["dbpedia"] = started["wikidata"]
        return {name: started[name] if url == "embedded" else url for name, url in given.items() if url}

    return endpoints


def _make_lazy_web_service(
    name: ServiceName, settings: ServiceEndpoint, world: World, endpoints: Callable[[], dict[str, str]]
) -> CallService:
    identity = make_service_identity(name, settings.url)
    return LazyBudgetedService(identity, True, lambda: _make_client(name, endpoints()[name], identity, settings, world))


def _make_client(name: ServiceName, url: str, identity: str, settings: ServiceEndpoint, world: World) -> CallService:
    """Return the client of a service, imported only when needed, since most runs need few.

    SettingsError if the world does not allow access to it.
    """
    world.require_service_access(name)
    limits, user_agent, token, shared = settings.limits, world.user_agent, read_service_token(name, settings), None
    if is_wikidata_query_service(url):
        rules = world.wikimedia
        shared = get_or_create_shared_limiter(
            "query service", rules.query_parallel, work_s_per_minute=rules.query_seconds_per_minute
        )
    elif is_wikimedia_url_except_query_service(url):
        shared = get_or_create_shared_limiter(
            "wikimedia", world.wikimedia.parallel, per_minute=world.wikimedia_requests_per_minute()
        )
    arguments = (url, identity, limits, user_agent, token)
    match name:
        case "wikidata" | "dbpedia":
            from factmill.tasks.clients.sparql import SparqlClient

            return SparqlClient("Wikidata" if name == "wikidata" else "DBpedia", *arguments, shared)
        case "wikipedia":
            from factmill.tasks.clients.wikipedia import WikipediaClient

            return WikipediaClient(*arguments, shared)
        case "pageviews":
            from factmill.tasks.clients.pageviews import PageviewsClient

            return PageviewsClient(*arguments, shared)
        case "falcon":
            from factmill.tasks.clients.falcon import FalconEntityLinkingClient

            return FalconEntityLinkingClient(*arguments)


def _make_lazy_cluster_model(
    kind: Literal["translator", "perplexity"], identity: str, cluster: DaskClusterClient
) -> CallService:
    from factmill.tasks.engine.cluster.remote_models import LocalModelOnClusterService

    return LazyBudgetedService(
        identity, True, lambda: LocalModelOnClusterService(cluster, RequiredModelOrGraph(kind, identity)), computes=True
    )


def check_model_variables_and_libraries(world: World, roles: Collection[str]) -> None:
    """Raise SettingsError if a model of these roles cannot be used: an environment variable is not set, or a library of
    the model or the cluster is missing.
    """
    if world.compute.engine == "dask":
        import_dask_distributed_without_logs()
    for model in (model for role, model in world.models.items() if role in roles):
        if model.kind == "anthropic":
            from factmill.tasks.clients.anthropic_server import require_anthropic_sdk

            require_anthropic_sdk()
        require_model_environment_variables(model)


def _open_local_or_embedded_graph(world: World, home: Path) -> "WikidataGraph":
    """Return the world's local graph, or the embedded world's facts as one; SettingsError if it has neither."""
    from factmill.tasks.graph.lookup import open_graph

    if world.wikidata.engine == "graph":
        return open_graph(world.wikidata.graph, graphs_folder(home))
    if world.wikidata.url == EMBEDDED_SERVICE:
        return open_or_build_embedded_graph(home)
    raise SettingsError(
        f"the labels linker needs a local graph or the embedded world, but the Wikidata of the world {world.name} is "
        f"{world.wikidata.url}; name a graph with --graph, or use --linker falcon"
    )
