"""`factmill doctor`: report what is configured, reachable or missing, with advice; `--ask` sends real calls."""

import asyncio
import importlib.metadata
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from factmill.flows.benchmarks import BENCHMARKS, BROKEN_BENCHMARKS, PACKAGES
from factmill.flows.build_runner import prebuild_prefect_db_and_embedded_world
from factmill.flows.cli.options import JsonOption, NewWarehouseOption, print_result
from factmill.flows.evaluate.evaluations import BROKEN_EVALUATIONS
from factmill.flows.published_digests import load_published_digests
from factmill.tasks import progress
from factmill.tasks.assets import load_prompt
from factmill.tasks.clients.anthropic_server import make_server_client_of_model_kind
from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.openai_server import OpenAiServerClient
from factmill.tasks.clients.sending.http_responses import shorten_to_line
from factmill.tasks.clients.sending.model_transport import find_environment_proxy, strip_proxy_credentials
from factmill.tasks.clients.sending.sender import UNREACHABLE_ADVICE, Retry, run_blocking_in_thread
from factmill.tasks.clients.sending.web_sessions import connection_errors_as_retry, make_http_session
from factmill.tasks.clients.unsupported_parameters import format_changed_settings_as_toml
from factmill.tasks.core.calls.call import Call, CallResponse, CallService
from factmill.tasks.core.calls.chat import make_chat_call, parse_chat_response
from factmill.tasks.core.calls.entity_linking import (
    make_entity_and_relation_linking_call,
    make_same_wikidata_items_call,
)
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.translation_and_perplexity import make_log_probability_call
from factmill.tasks.core.calls.wikidata import make_label_call
from factmill.tasks.core.calls.wikipedia import make_resolve_title_call
from factmill.tasks.core.prompts import FilledPrompt, PromptTemplate
from factmill.tasks.core.service_settings import (
    CHAT_MODEL_KINDS,
    ModelSettings,
    ServiceEndpoint,
    ServiceLimits,
    is_loopback_url,
)
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.naming.identities import service_urls
from factmill.tasks.engine.naming.manifests import (
    digest_assets,
    find_problem_of_using_wikipedia_file,
    make_build_manifest,
)
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import FactmillError, ServiceError, WikipediaFileError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.own_prompts import load_own_prompts
from factmill.tasks.settings import (
    SERVICE_SECTIONS,
    World,
    factmill_home,
    find_disk_problem,
    get_environment_variable,
    graphs_folder,
    load_world,
    read_api_key,
    read_service_token,
)
from factmill.tasks.storage.builds import find_build_by_manifest, load_table_digests
from factmill.tasks.storage.housekeeping.prefect_history import find_prefect_database_problem, prefect_database_path
from factmill.tasks.storage.warehouse import open_warehouse


def doctor(
    world: str = typer.Option("embedded", help="World to check: embedded, live, or the path of a world's TOML file."),
    ask: bool = typer.Option(
        False, "--ask", help="Also send one request to each model and service; models may charge for it."
    ),
    prepare: bool = typer.Option(
        False,
        "--prepare",
        help="Create Prefect's database and the embedded world now, and check nothing. Otherwise the first build creates them, and takes longer.",
    ),
    warehouse: NewWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check configuration, services and models, with advice.

    Each line says `ok`, or `MISSING` with advice. `–` marks a benchmark that cannot be built with the chosen world.
    The exit code is 1 if anything is missing.

    \b
    Examples:
      factmill doctor
      factmill doctor --world my-world.toml --ask
      factmill doctor --prepare
    """
    if prepare:
        progress.set_progress_style()
        prebuild_prefect_db_and_embedded_world()
        return
    findings = run_diagnostics(world, resolve_warehouse_path(RunOptions(warehouse=warehouse)), ask)
    ok, lines = all(f["ok"] for f in findings), []
    for f in findings:
        mark = "–" if f["found"].startswith(_NOT_POSSIBLE) else "ok" if f["ok"] else "MISSING"
        lines.append(f"{mark:7} {f['what']:22} {f['found']}")
        lines += [] if f["ok"] else [f"        → {f['advice']}"]
    print_result(as_json, {"ok": ok, "findings": findings}, lines)
    if not ok:
        raise typer.Exit(1)


_NOT_POSSIBLE = "not possible in this world"
_MIN_FREE_GB = 1.0
_REACH_TIMEOUT_S = 8.0
EMBEDDED_WORLD_NAME = "embedded"
DoctorFinding = dict[str, Any]


def run_diagnostics(world_name: str, warehouse: Path, ask: bool = False) -> list[DoctorFinding]:
    """Return the findings {what, ok, found, advice}; `ask`: send one real call to each model and service."""
    world = load_world(world_name)
    return [
        *_examine_machine_and_warehouse(warehouse),
        *_examine_benchmark_packages(),
        *_examine_graphs(world),
        *_examine_wikipedia_file(world, ask),
        *_examine_compute_cluster(world),
        *_examine_own_prompts(world),
        *map(_examine_benchmark_assets, BENCHMARKS.values()),
        *(_examine_embedded_world_start() if world.uses_embedded_services else ()),
        *(_compare_builds_with_published_digests(warehouse) if world_name == EMBEDDED_WORLD_NAME else ()),
        *map(partial(_examine_benchmark_world_sections, world), BENCHMARKS.values()),
        *_examine_endpoints(world),
        *_examine_models(world),
        *(ask_models_and_services(world_name) if ask else ()),
    ]


def _examine_benchmark_packages() -> Iterator[DoctorFinding]:
    for package, names in groupby(sorted(PACKAGES, key=lambda name: str(PACKAGES[name])), key=PACKAGES.__getitem__):
        yield _make_finding(f"package {package.name}", True, f"{package.version}; benchmarks: {', '.join(names)}")
    for name, reason in {**BROKEN_BENCHMARKS, **BROKEN_EVALUATIONS}.items():
        yield _make_finding(
            f"benchmark {name}", False, f"cannot be loaded from {reason}", "fix or uninstall that package"
        )


def _examine_machine_and_warehouse(warehouse: Path) -> Iterator[DoctorFinding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield _make_finding("python", sys.version_info >= (3, 11), version, "use Python 3.11 or newer")
    for package in ("prefect", "duckdb", "oxigraph", "fastapi", "openai"):
        found = importlib.metadata.version(package)
        yield _make_finding(package, True, found)
    yield _make_finding("home", True, str(factmill_home()))
    # if the home does not exist yet, the folder in which it would be created
    folder = next(each for each in (factmill_home(), *factmill_home().parents) if each.is_dir())
    free_gb = shutil.disk_usage(folder).free / 1e9
    lack = find_disk_problem(folder)
    yield _make_finding(
        "disk",
        free_gb >= _MIN_FREE_GB and not lack,
        f"{free_gb:.1f} GB free{f'; {folder} cannot be written: {lack}' if lack else ''}",
        "free disk space, or set FACTMILL_HOME to a folder on another disk",
    )
    yield _probe_as_finding(
        "warehouse", lambda: _describe_warehouse(warehouse), "see the message, or give another file with --warehouse"
    )
    history = prefect_database_path(factmill_home())
    damage = find_prefect_database_problem(history)
    size = f"{history}: {history.stat().st_size / 1e6:.1f} MB" if history.exists() else f"{history} (none yet)"
    yield _make_finding(
        "prefect history",
        not damage,
        f"{history} cannot be used: {damage}" if damage else size,
        "nothing to do: the next build sets it aside and creates a new one; it holds no builds",
    )
    api = get_environment_variable("PREFECT_API_URL")
    yield _make_finding(
        "prefect api", True, api or "each run starts its own server (set PREFECT_API_URL to use a running one)", ""
    )


def _examine_benchmark_assets(benchmark: Benchmark) -> DoctorFinding:
    def read() -> str:
        digests = digest_assets(benchmark.assets, {})
        return ", ".join(f"{len(found)} {kind}" for kind, found in digests.items() if found)

    return _probe_as_finding(
        f"assets {benchmark.name}", read, "fix the file that the message names, or reinstall factmill"
    )


def _examine_own_prompts(world: World) -> Iterator[DoctorFinding]:
    if world.prompts:
        yield _probe_as_finding(
            "own prompts",
            lambda: f"{', '.join(load_own_prompts(Path(world.prompts)))}, of {world.prompts}",
            "mend the file that the message names; `factmill prompts ID` prints the packaged prompt",
        )


def _examine_benchmark_world_sections(world: World, benchmark: Benchmark) -> DoctorFinding:
    """List the sections that a benchmark lacks in this world; never a failure, since a world need not serve all."""
    lacking = [f"[{name}]" for name in benchmark.required_services(benchmark.params()) if not world.has_service(name)]
    roles = dict.fromkeys(load_prompt(name).role for name in benchmark.assets.prompts)
    lacking += [f"[models.{role}]" for role in (*roles, *benchmark.required_models) if role not in world.models]
    found = f"{_NOT_POSSIBLE}, which lacks {', '.join(lacking)}" if lacking else "this world has all it needs"
    if (problem := find_problem_of_using_wikipedia_file(world, benchmark, benchmark.params())) and not lacking:
        found = f"{_NOT_POSSIBLE}: {problem}"
    return _make_finding(f"build {benchmark.name}", True, found)


def _examine_graphs(world: World) -> Iterator[DoctorFinding]:
    from factmill.flows.commands.local_data import list_graph_states

    if world.wikidata.engine == "graph":
        from factmill.tasks.graph.lookup import open_graph

        name = world.wikidata.graph
        yield _probe_as_finding(
            f"graph {name}",
            lambda: open_graph(name, graphs_folder(factmill_home())).identity,
            f"factmill graph load FILE --name {name}",
        )
    yield _probe_as_finding(
        "local graphs",
        lambda: ", ".join(graph["name"] for graph in list_graph_states()) or "none loaded",
        "load the damaged graph again: `factmill graph load FILE --name NAME --replace`",
    )


def _examine_wikipedia_file(world: World, ask: bool) -> Iterator[DoctorFinding]:
    """Report the file that serves as the world's Wikipedia; `ask`: read all of it, to compare its content with its checksum."""

    def describe() -> str:
        archive = world.open_wikipedia_file()
        day = world.epoch_day()
        if ask and (damage := archive.find_damage()):
            raise WikipediaFileError(damage)
        index = (
            "a full-text index" if archive.has_search else "no full-text index, so a search in open book finds nothing"
        )
        checked = ", checksum compared" if ask else ""
        return f"ZIM file {archive.path} of {day}: {archive.article_count:,} articles, {index}{checked}; {archive.identity}"

    if world.is_local("wikipedia"):
        yield _probe_as_finding(
            "wikipedia", describe, "see the message; [wikipedia] of the world's file names the file"
        )


def _examine_compute_cluster(world: World) -> Iterator[DoctorFinding]:
    """Report where models and paths are computed, and whether a cluster worker serves each one that the world names."""
    if world.compute.engine == "local":
        yield _make_finding("compute", True, "this machine")
        return
    from factmill.tasks.engine.cluster.driver import DaskClusterClient, format_missing_capability
    from factmill.tasks.engine.cluster.protocol import list_required_cluster_resources

    cluster, address = DaskClusterClient(world.compute), world.compute.address
    try:
        workers = cluster.list_workers()
        yield _make_finding(
            "compute", bool(workers), f"{address}; workers: {len(workers)}", f"factmill worker --address {address}"
        )
        for wanted in list_required_cluster_resources(world, factmill_home()):
            count = len(cluster.list_capable_workers(wanted))
            lack = "" if count else format_missing_capability(wanted, workers, address)
            found = lack or f"{wanted.identity} on {count} of its workers"
            yield _make_finding(f"cluster {wanted.kind}", bool(count), found, f"factmill worker --address {address}")
    except FactmillError as error:
        yield _make_finding("compute", False, str(error), "check [compute] of the world's file, or FACTMILL_CLUSTER")
    finally:
        cluster.close()


def _examine_embedded_world_start() -> Iterator[DoctorFinding]:
    def start() -> str:
        from factmill.tasks.world.serving import running_world

        with running_world(factmill_home()) as world:
            return f"starts; digest {world.digest[:12]}"

    yield _probe_as_finding("embedded world", start, "fix the file that the message names, or reinstall factmill")


def _compare_builds_with_published_digests(warehouse: Path) -> Iterator[DoctorFinding]:
    """Compare the existing embedded builds of today's code and default parameters with the published digests."""
    published = load_published_digests()
    if not warehouse.exists() or not published:
        return
    run = RunOptions(world=EMBEDDED_WORLD_NAME, warehouse=warehouse)
    agreeing, others = [], []
    for name, benchmark in BENCHMARKS.items():
        if name not in published:
            continue
        lock = make_build_manifest(benchmark, benchmark.resolve_inputs(benchmark.params(), run), run)
        if (build := find_build_by_manifest(warehouse, lock)) is None:
            continue
        with open_warehouse(warehouse, wait_s=2) as db:
            found = load_table_digests(db, build.build_id)
        expected = {table: each["sha256"] for table, each in published[name].items()}
        agreeing += [name] if found == expected else []
        others += sorted(f"{build.build_id}: {table}" for table in expected if found.get(table) != expected[table])
    if agreeing or others:
        agrees = f"{', '.join(agreeing)}: your build equals the published one"
        advice = (
            "compare CPU, pyarrow and the embedder (`factmill models`) with docs/rebuild/guarantees.md, `Same bytes`"
        )
        yield _make_finding(
            "same bytes", not others, f"bytes differ in {', '.join(others)}" if others else agrees, advice
        )


def _examine_endpoints(world: World) -> Iterator[DoctorFinding]:
    outside = {name: url for name, url in service_urls(world).items() if url and url != "embedded"}
    if outside:
        contact = world.has_contact_address or all(map(is_loopback_url, outside.values()))
        advice = (
            "put your own web page or email address into the world's file, in place of you@example.org: user_agent = "
            '"factmill/0.1 (you@example.org)"; without it, builds send nothing to services on other machines'
        )
        yield _make_finding("user agent", contact, world.user_agent, advice)
    for name in outside:
        yield _probe_as_finding(
            name,
            partial(_probe_service, name, world),
            f"check the network, and url and token of [{name}] in the world's file",
        )


def _examine_models(world: World) -> Iterator[DoctorFinding]:
    for role, model in sorted(world.models.items()):
        what = f"model {role}"
        if model.kind == "scripted":
            yield _make_finding(what, True, f"{model.name} (from files, no language model)")
        elif model.kind == "local":
            yield _probe_as_finding(
                what, partial(_describe_local_model, role, model.name), f"factmill models add {role} PATH"
            )
        else:
            yield _probe_as_finding(
                what,
                partial(_probe_and_describe_model_server, model, world.user_agent),
                f"check that the server runs, and url (with /v1), key, headers and query of [models.{role}] in the world's file, "
                "and the environment variables that they name",
            )


def _describe_local_model(role: str, name: str) -> str:
    from factmill.tasks.models.embedders import get_embedder_digest
    from factmill.tasks.models.perplexity import get_language_model_identity
    from factmill.tasks.models.translator import get_translator_identity

    identify: Callable[[str, Path], str] = {
        "embedder": get_embedder_digest,
        "translator": get_translator_identity,
        "perplexity": get_language_model_identity,
    }[role]
    identify(name, factmill_home())
    return f"{name} (on this machine)"


def _probe_and_describe_model_server(model: ModelSettings, user_agent: str) -> str:
    limits = model.limits.model_copy(update={"timeout_s": _REACH_TIMEOUT_S})
    server = make_server_client_of_model_kind(
        model.model_copy(update={"limits": limits}), lambda: read_api_key(model), user_agent
    )
    reached = asyncio.run(_probe_model_server(server))
    key = "is set" if model.key_env else "comes from key_command" if model.key_command else "not needed"
    proxy = strip_proxy_credentials(find_environment_proxy(model.url))
    return f"{model.name}: {reached}, key {key}{f', through the proxy {proxy}' if proxy else ''}"


async def _probe_model_server(server: OpenAiServerClient) -> str:
    """Return a line that says that a model's server answers, with a request like those of builds; ServiceError if it does not."""
    url = server.model.url.rstrip("/")
    is_native = server.model.kind == "anthropic"
    models, chat = ("/v1/models", "/v1/messages") if is_native else ("/models", "/chat/completions")
    try:
        path, answer = models, await server.get(models)
        if answer.status == 404:
            # servers need not list their models; an empty request costs nothing, and only a right address rejects it
            path, answer = chat, await server.post(chat, {})
    except Retry as error:
        raise ServiceError(f"{url} is not reachable: {str(error).removeprefix('unreachable: ')}") from None
    if answer.status < 300 or (path != models and answer.status in (400, 422)):
        return f"{url}{path} answers ({answer.status})"
    raise ServiceError(f"{url}{path} answers HTTP {answer.status}: {shorten_to_line(answer.text)}")


def _describe_warehouse(warehouse: Path) -> str:
    if not warehouse.exists():
        return f"{warehouse} (none yet; the first build creates it)"
    with open_warehouse(warehouse, wait_s=2) as db:
        row = db.execute("SELECT (SELECT count(*) FROM builds), (SELECT count(*) FROM calls)").fetchone() or (0, 0)
    is_open = warehouse.stat().st_mode & 0o044
    who = f"; other users can read it (to prevent this: `chmod go= {warehouse}`)" if is_open else ""
    return f"{warehouse}: {row[0]} builds, {row[1]} recorded calls{who}"


def _make_probe_url(name: str, url: str) -> str:
    """Return the URL of a cheap request that a service answers if its address is right."""
    base = url.rstrip("/")
    if name == "wikipedia":
        path = base.removesuffix("/api.php") if urlsplit(base).path else f"{base}/w"
        return f"{path}/api.php?action=query&meta=siteinfo&format=json"
    if name == "pageviews":
        return f"{base}/metrics/pageviews/per-article/en.wikipedia/all-access/user/Earth/daily/20240101/20240102"
    return f"{base}?query=ASK%7B%7D" if name in ("wikidata", "dbpedia") else base


def _probe_service(name: str, world: World) -> str:
    """Return a line that a service answers; SettingsError if its token is not set, ServiceError if it does not."""
    service: ServiceEndpoint = getattr(world, name)
    url, token = _make_probe_url(name, service.url), read_service_token(name, service)
    session = make_http_session(url, world.user_agent, ServiceLimits(), token)

    async def ask() -> int:
        async with asyncio.timeout(_REACH_TIMEOUT_S):
            return (await run_blocking_in_thread(partial(session.get, url, timeout=_REACH_TIMEOUT_S))).status_code

    try:
        with session, connection_errors_as_retry():
            status = asyncio.run(ask())
    except TimeoutError:
        raise ServiceError(f"{url} does not answer within {_REACH_TIMEOUT_S:g} s") from None
    except Retry as error:
        raise ServiceError(f"{url} is not reachable: {str(error).removeprefix('unreachable: ')}") from None
    if status >= 400:
        raise ServiceError(f"{url} answers HTTP {status}")
    return f"{url} answers ({status})" + (", authenticated by a token" if token else "")


def _probe_as_finding(what: str, look: Callable[[], str], advice: str) -> DoctorFinding:
    try:
        return _make_finding(what, True, look())
    except FactmillError as error:
        return _make_finding(what, False, str(error), advice)
    except OSError as error:
        return _make_finding(what, False, f"not reachable: {getattr(error, 'reason', error)}", advice)


def _make_finding(what: str, ok: bool, found: str, advice: str = "") -> DoctorFinding:
    return {"what": what, "ok": ok, "found": found, "advice": advice}


_PROBE_MAX_TOKENS = 64
_PROBE_PROMPT = PromptTemplate(
    id="doctor",
    digest="",
    role="author",
    inputs=(),
    parts=(("system", "Answer in one word."), ("user", "Name a colour.")),
    temperature=0.5,
    max_tokens=_PROBE_MAX_TOKENS,
    schema={
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)
"""Does not ask for JSON, so that a JSON response shows that the server enforces the schema."""


def ask_models_and_services(world_name: str) -> Iterator[dict[str, Any]]:
    """Yield a finding ({what, ok, found, advice}) for each model behind a server and each service."""
    with closing(WorldServices.open(world_name, None, factmill_home())) as services:
        world = services.world
        for name in filter(world.has_service, SERVICE_SECTIONS):
            service = getattr(services, name)
            advice = f"check url of [{name}] in the world's file"
            yield _ask_service_as_finding(f"ask {name}", service, _PROBE_CALLS[name](service.identity), advice)
        for role, model in sorted(world.models.items()):
            if model.kind == "openai" and role == "perplexity":
                scorer = services.perplexity()
                question = make_log_probability_call(scorer.identity, "The sky is blue.")
                yield _ask_service_as_finding(
                    f"ask {role}", scorer, question, "set url to a server that returns log-probabilities of prompts"
                )
            elif model.kind in CHAT_MODEL_KINDS:
                yield _probe_chat_features_as_finding(role, model, world)


_PROBE_CALLS: dict[str, Callable[[str], Call]] = {
    "wikidata": lambda identity: make_label_call(identity, "Q2"),
    "wikipedia": lambda identity: make_resolve_title_call(identity, "Earth"),
    "pageviews": lambda identity: make_pageviews_call(identity, "Earth", "20240101", "20240102"),
    "falcon": lambda identity: make_entity_and_relation_linking_call(identity, "Who founded Berlin?"),
    "dbpedia": lambda identity: make_same_wikidata_items_call(identity, "http://dbpedia.org/resource/Berlin"),
}


def _ask_service_as_finding(what: str, service: CallService, call: Call, advice: str) -> dict[str, Any]:
    reply = _send_probe_call(service, call)
    ok = reply.status == "ok"
    found = f"answers; {_format_reply_latency_tokens_and_cost(reply)}" if ok else str(reply.error)
    return _make_finding(what, ok, found, "" if ok else advice)


def _probe_chat_features_as_finding(role: str, model: ModelSettings, world: World) -> dict[str, Any]:
    """Request two samples with a schema; what the server rejects or ignores shows which features it supports."""
    limits = model.limits.model_copy(update={"attempts": 1})
    # the Messages API has no `n`
    asked = {"json_schema": model.json_schema or True, "choices": model.kind == "openai", "limits": limits}
    all_asked = model.model_copy(update=asked)
    chat = ChatClient(model.url, all_asked, lambda: read_api_key(model), world.user_agent)
    reply = _send_probe_call(chat, make_chat_call(model.url, model.name, FilledPrompt(_PROBE_PROMPT, {}, samples=2)))
    if reply.status != "ok":
        cut = "'length'" in str(reply.error)
        error = str(reply.error).removesuffix(UNREACHABLE_ADVICE)
        advice = "; ".join(chat.notes()) or "check url, name and key in the world's file"
        if error.startswith("html_instead_of_json"):
            advice = (
                "the address answers with a web page; check url, which ends with /v1 for most OpenAI-compatible servers"
            )
        elif "http_429" in error:
            advice = "the server limits requests: wait, or check the quota of your account with the provider"
        if cut:
            advice = "the model reasons before it answers: set thinking_tokens"
        return _make_finding(f"ask {role}", False, error, advice)
    found = chat.model
    try:
        is_held = all(isinstance(json.loads(text)["colour"], str) for text in parse_chat_response(reply.body).texts)
    except (ValueError, TypeError, KeyError):
        is_held = False
    found = found if is_held else found.model_copy(update={"json_schema": False})
    takes = {
        "schema": {True: "yes", "json_object": "only json_object", False: "no"}[found.json_schema],
        "n": "yes" if found.choices else "no",
        "temperature": "no" if found.temperature == "none" else "yes",
        "system role": "yes" if found.system == "own" else "no",
        "token limit": found.token_limit,
    }
    profile = format_changed_settings_as_toml(model, found.model_copy(update={"limits": model.limits}))
    features = "; ".join(f"{name} {value}" for name, value in takes.items())
    put = f"; put under [models.{role}]: {', '.join(profile)}" if profile else "; the world's file needs no change"
    return _make_finding(f"ask {role}", True, f"{features}; {_format_reply_latency_tokens_and_cost(reply, model)}{put}")


def _send_probe_call(service: CallService, call: Call) -> CallResponse:
    """Send a call and return its reply; if the call cannot be sent, a failed reply."""
    replies: list[CallResponse] = []
    try:
        service.send([call], lambda _, reply: replies.append(reply))
    except FactmillError as error:
        return CallResponse(None, "failed", error=str(error))
    return replies[0]


def _format_reply_latency_tokens_and_cost(reply: CallResponse, model: ModelSettings | None = None) -> str:
    cost = f"US$ {reply.cost_usd:.6f}"
    if model is not None and not model.has_price:
        cost = "no price set"
    elif model is not None and not reply.tokens_in:
        cost = "cost unknown: the server reports no usage"
    return f"{reply.latency_s:.1f} s, {reply.tokens_in} + {reply.tokens_out} tokens, {cost}"
