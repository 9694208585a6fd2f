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

from factmill.flows.benchmarks import BENCHMARKS, BROKEN, PACKAGES
from factmill.flows.cli.options import AsJson, NewWarehouse, print_result
from factmill.flows.commands.digests import read_digests
from factmill.flows.evaluate.evaluations import BROKEN_EVALUATIONS
from factmill.tasks.assets import load_prompt
from factmill.tasks.clients.chat import Chat
from factmill.tasks.clients.openai_server import OpenAiServer
from factmill.tasks.clients.refusals import describe_learnt
from factmill.tasks.clients.sending.answers import shorten
from factmill.tasks.clients.sending.connections import describe_proxy, find_proxy
from factmill.tasks.clients.sending.sender import Retry, run_in_thread
from factmill.tasks.clients.sending.web_sessions import open_session, raise_retry
from factmill.tasks.clients.servers import open_server
from factmill.tasks.core.calls.call import Call, Reply, Service
from factmill.tasks.core.calls.chat import call_chat, read_chat
from factmill.tasks.core.calls.knowledge import call_label
from factmill.tasks.core.calls.linkers import call_link, call_same_as
from factmill.tasks.core.calls.local_models import call_perplexity
from factmill.tasks.core.calls.pageviews import call_pageviews
from factmill.tasks.core.calls.wikipedia import call_resolve_title
from factmill.tasks.core.prompts import Ask, Prompt
from factmill.tasks.core.service_settings import CHAT_KINDS, Endpoint, Limits, Model, is_this_machine
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.engine.naming.identities import service_urls
from factmill.tasks.engine.naming.locks import digest_assets, make_lock
from factmill.tasks.engine.services import Services
from factmill.tasks.errors import FactmillError, ServiceError
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.settings import (
    SECTIONS,
    World,
    api_key,
    environment,
    find_lack_of_room,
    graphs_folder,
    home,
    load_world,
    read_token,
)
from factmill.tasks.storage.builds import build_of_lock, published_names
from factmill.tasks.storage.housekeeping.prefect_history import find_damage, history_of
from factmill.tasks.storage.warehouse import open_warehouse


def doctor(
    world: str = typer.Option("embedded", help="World to look at."),
    ask: bool = typer.Option(False, "--ask", help="Ask each model and service once; models may cost a little."),
    warehouse: NewWarehouse = None,
    as_json: AsJson = False,
) -> None:
    """Say what is configured, reachable or missing, and what to do about it."""
    findings = examine(world, warehouse_of(RunOptions(warehouse=warehouse)), ask)
    ok, lines = all(f["ok"] for f in findings), []
    for f in findings:
        lines.append(f"{'ok     ' if f['ok'] else 'MISSING'} {f['what']:22} {f['found']}")
        lines += [] if f["ok"] else [f"        → {f['advice']}"]
    print_result(as_json, {"ok": ok, "findings": findings}, lines)
    if not ok:
        raise typer.Exit(1)


_LEAST_FREE_GB = 1.0
_REACH_TIMEOUT_S = 8.0
EMBEDDED = "embedded"
Finding = dict[str, Any]


def examine(world_name: str, warehouse: Path, ask: bool = False) -> list[Finding]:
    """Return the findings {what, ok, found, advice}; `ask`: send one real call to each model and service."""
    world = load_world(world_name)
    return [
        *_examine_machine(warehouse),
        *_examine_packages(),
        *_examine_graphs(world),
        *_examine_compute(world),
        *map(_examine_assets, BENCHMARKS.values()),
        *(_examine_embedded() if world.is_embedded else ()),
        *(_compare_builds(warehouse) if world_name == EMBEDDED else ()),
        *map(partial(_examine_needs, world), BENCHMARKS.values()),
        *_examine_endpoints(world),
        *_examine_models(world),
        *(ask_world(world_name) if ask else ()),
    ]


def _examine_packages() -> Iterator[Finding]:
    for package, names in groupby(sorted(PACKAGES, key=lambda name: str(PACKAGES[name])), key=PACKAGES.__getitem__):
        yield _finding(f"package {package.name}", True, f"{package.version}; benchmarks: {', '.join(names)}")
    for name, reason in {**BROKEN, **BROKEN_EVALUATIONS}.items():
        yield _finding(
            f"benchmark {name}", False, f"cannot be loaded from {reason}", "mend that package, or uninstall it"
        )


def _examine_machine(warehouse: Path) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield _finding("python", sys.version_info >= (3, 11), version, "use Python 3.11 or newer")
    for package in ("prefect", "duckdb", "oxigraph", "fastapi", "openai"):
        found = importlib.metadata.version(package)
        yield _finding(package, True, found)
    yield _finding("home", True, str(home()))
    # if the home does not exist yet, the folder in which it would be created
    folder = next(each for each in (home(), *home().parents) if each.is_dir())
    free_gb = shutil.disk_usage(folder).free / 1e9
    lack = find_lack_of_room(folder)
    yield _finding(
        "disk",
        free_gb >= _LEAST_FREE_GB and not lack,
        f"{free_gb:.1f} GB free{f'; {folder} cannot be written: {lack}' if lack else ''}",
        "make room, or point FACTMILL_HOME elsewhere",
    )
    yield _try(
        "warehouse", lambda: _count_builds(warehouse), "see the message; another file can be named with --warehouse"
    )
    history = history_of(home())
    damage = find_damage(history)
    size = f"{history}: {history.stat().st_size / 1e6:.1f} MB" if history.exists() else f"{history} (none yet)"
    yield _finding(
        "prefect history",
        not damage,
        f"{history} cannot be used: {damage}" if damage else size,
        "nothing needs to be done: the next build puts it aside and makes a new one; builds are not in it",
    )
    api = environment("PREFECT_API_URL")
    yield _finding(
        "prefect api", True, api or "a server of our own for each run (set PREFECT_API_URL to use a running one)", ""
    )


def _examine_assets(benchmark: Benchmark) -> Finding:
    def read() -> str:
        digests = digest_assets(benchmark.assets)
        return ", ".join(f"{len(found)} {kind}" for kind, found in digests.items() if found)

    return _try(f"assets {benchmark.name}", read, "mend the file that the message names, or install factmill anew")


def _examine_needs(world: World, benchmark: Benchmark) -> Finding:
    """List the sections that a benchmark lacks in this world; never a failure, since a world need not serve all."""
    lacking = [f"[{name}]" for name in benchmark.needs(benchmark.params()) if not world.has(name)]
    roles = dict.fromkeys(load_prompt(name).role for name in benchmark.assets.prompts)
    lacking += [f"[models.{role}]" for role in roles if role not in world.models]
    found = f"not in this world: it names no {', '.join(lacking)}" if lacking else "this world names what it asks"
    return _finding(f"build {benchmark.name}", True, found)


def _examine_graphs(world: World) -> Iterator[Finding]:
    from factmill.flows.commands.graphs import listing

    if world.wikidata.engine == "graph":
        from factmill.tasks.graph.lookup import open_graph

        name = world.wikidata.graph
        yield _try(
            f"graph {name}",
            lambda: open_graph(name, graphs_folder(home())).identity,
            f"factmill graph load FILE --name {name}",
        )
    yield _try(
        "local graphs",
        lambda: ", ".join(graph["name"] for graph in listing()) or "none loaded",
        "reload the damaged graph",
    )


def _examine_compute(world: World) -> Iterator[Finding]:
    """Report where models and paths are computed, and whether a cluster worker serves each one that the world names."""
    if world.compute.engine == "local":
        yield _finding("compute", True, "this machine")
        return
    from factmill.tasks.engine.cluster.asking import Cluster, explain_lack
    from factmill.tasks.engine.cluster.wire import list_wanted

    cluster, address = Cluster(world.compute), world.compute.address
    try:
        workers = cluster.list_workers()
        yield _finding(
            "compute", bool(workers), f"{address}; workers: {len(workers)}", f"factmill worker --address {address}"
        )
        for wanted in list_wanted(world, home()):
            count = len(cluster.list_holders(wanted))
            lack = "" if count else explain_lack(wanted, workers, address)
            told = lack or f"{wanted.identity} on {count} of its workers"
            yield _finding(f"cluster {wanted.kind}", bool(count), told, f"factmill worker --address {address}")
    except FactmillError as error:
        yield _finding("compute", False, str(error), "check [compute] of the world's file, or FACTMILL_CLUSTER")
    finally:
        cluster.close()


def _examine_embedded() -> Iterator[Finding]:
    def start() -> str:
        from factmill.tasks.world.serving import running_world

        with running_world(home()) as world:
            return f"starts; digest {world.digest[:12]}"

    yield _try("embedded world", start, "mend the file that the message names, or install factmill anew")


def _compare_builds(warehouse: Path) -> Iterator[Finding]:
    """Compare the existing embedded builds of today's code and default parameters with the published digests."""
    published = read_digests()
    if not warehouse.exists() or not published:
        return
    run = RunOptions(world=EMBEDDED, warehouse=warehouse)
    agreeing, others = [], []
    for name, benchmark in BENCHMARKS.items():
        if name not in published:
            continue
        lock = make_lock(benchmark, benchmark.lock_inputs(benchmark.params(), run), run)
        if (build := build_of_lock(warehouse, lock)) is None:
            continue
        with open_warehouse(warehouse, wait_s=2) as db:
            found = published_names(db, build.build_id)
        expected = {table: each["sha256"] for table, each in published[name].items()}
        agreeing += [name] if found == expected else []
        others += sorted(f"{build.build_id}: {table}" for table in expected if found.get(table) != expected[table])
    if agreeing or others:
        agrees = f"{', '.join(agreeing)}: your build agrees with the published one"
        advice = "compare CPU, pyarrow and the embedder (`factmill models list`) with README's `On any machine`"
        yield _finding("same bytes", not others, f"other bytes in {', '.join(others)}" if others else agrees, advice)


def _examine_endpoints(world: World) -> Iterator[Finding]:
    outside = {name: url for name, url in service_urls(world).items() if url and url != "embedded"}
    if outside:
        contact = world.names_contact or all(map(is_this_machine, outside.values()))
        advice = (
            "write a web page or a mail address of your own into the world's file, such as user_agent = "
            '"factmill/0.1 (you@example.org)"; builds refuse to ask services that are not on this machine without one'
        )
        yield _finding("user agent", contact, world.user_agent, advice)
    for name in outside:
        yield _try(
            name,
            partial(_reach, name, world),
            f"check the network, and the address and token of [{name}] in the world's file",
        )


def _examine_models(world: World) -> Iterator[Finding]:
    for role, model in sorted(world.models.items()):
        what = f"model {role}"
        if model.kind == "scripted":
            yield _finding(what, True, f"{model.name} (from files, no language model)")
        elif model.kind == "local":
            yield _try(what, partial(_describe_local, role, model.name), f"factmill models add {role} PATH")
        else:
            yield _try(
                what,
                partial(_describe_model, model, world.user_agent),
                f"check url (with /v1), key, headers and query of [models.{role}] in the world's file, and the environment "
                "variables that they name",
            )


def _describe_local(role: str, name: str) -> str:
    from factmill.tasks.models.embed import identify_embedder
    from factmill.tasks.models.perplexity import identify_perplexity
    from factmill.tasks.models.translate import identify_translator

    identify: Callable[[str, Path], str] = {
        "embedder": identify_embedder,
        "translator": identify_translator,
        "perplexity": identify_perplexity,
    }[role]
    identify(name, home())
    return f"{name} (on this machine)"


def _describe_model(model: Model, user_agent: str) -> str:
    limits = model.limits.model_copy(update={"timeout_s": _REACH_TIMEOUT_S})
    server = open_server(model.model_copy(update={"limits": limits}), lambda: api_key(model), user_agent)
    reached = asyncio.run(_reach_model(server))
    key = "is set" if model.key_env else "comes from key_command" if model.key_command else "not needed"
    proxy = describe_proxy(find_proxy(model.url))
    return f"{model.name}: {reached}, key {key}{f', through the proxy {proxy}' if proxy else ''}"


async def _reach_model(server: OpenAiServer) -> str:
    """Return a line that a model's server answers, asked as builds ask it; ServiceError if it does not."""
    url = server.model.url.rstrip("/")
    is_native = server.model.kind == "anthropic"
    models, chat = ("/v1/models", "/v1/messages") if is_native else ("/models", "/chat/completions")
    try:
        path, answer = models, await server.get(models)
        if answer.status == 404:
            # servers need not list their models; an empty request costs nothing, and only a right address rejects it
            path, answer = chat, await server.post(chat, {})
    except Retry as error:
        raise ServiceError(f"{url} is not reachable: {error}") from None
    if answer.status < 300 or (path != models and answer.status in (400, 422)):
        return f"{url}{path} answers ({answer.status})"
    raise ServiceError(f"{url}{path} answers HTTP {answer.status}: {shorten(answer.text)}")


def _count_builds(warehouse: Path) -> str:
    if not warehouse.exists():
        return f"{warehouse} (none yet; the first build makes it)"
    with open_warehouse(warehouse, wait_s=2) as db:
        row = db.execute("SELECT (SELECT count(*) FROM builds), (SELECT count(*) FROM calls)").fetchone() or (0, 0)
    is_open = warehouse.stat().st_mode & 0o044
    who = f"; other users may read it (`chmod go= {warehouse}` keeps it to yourself)" if is_open else ""
    return f"{warehouse}: {row[0]} builds, {row[1]} recorded calls{who}"


def _address(name: str, url: str) -> str:
    """Return the URL of a cheap request that a service answers if its address is right."""
    base = url.rstrip("/")
    if name == "wikipedia":
        path = base.removesuffix("/api.php") if urlsplit(base).path else f"{base}/w"
        return f"{path}/api.php?action=query&meta=siteinfo&format=json"
    if name == "pageviews":
        return f"{base}/metrics/pageviews/per-article/en.wikipedia/all-access/user/Earth/daily/20240101/20240102"
    return f"{base}?query=ASK%7B%7D" if name in ("wikidata", "dbpedia") else base


def _reach(name: str, world: World) -> str:
    """Return a line that a service answers; SettingsError if its token is not set, ServiceError if it does not."""
    service: Endpoint = getattr(world, name)
    url, token = _address(name, service.url), read_token(name, service)
    session = open_session(url, world.user_agent, Limits(), token)

    async def ask() -> int:
        async with asyncio.timeout(_REACH_TIMEOUT_S):
            return (await run_in_thread(partial(session.get, url, timeout=_REACH_TIMEOUT_S))).status_code

    try:
        with session, raise_retry():
            status = asyncio.run(ask())
    except TimeoutError:
        raise ServiceError(f"{url} does not answer within {_REACH_TIMEOUT_S:g} s") from None
    except Retry as error:
        raise ServiceError(f"{url} is not reachable: {error}") from None
    if status >= 400:
        raise ServiceError(f"{url} answers HTTP {status}")
    return f"{url} answers ({status})" + (", signed in by a token" if token else "")


def _try(what: str, look: Callable[[], str], advice: str) -> Finding:
    try:
        return _finding(what, True, look())
    except FactmillError as error:
        return _finding(what, False, str(error), advice)
    except OSError as error:
        return _finding(what, False, f"not reachable: {getattr(error, 'reason', error)}", advice)


def _finding(what: str, ok: bool, found: str, advice: str = "") -> Finding:
    return {"what": what, "ok": ok, "found": found, "advice": advice}


_TOKENS = 64
_PROMPT = Prompt(
    id="doctor",
    digest="",
    role="author",
    inputs=(),
    parts=(("system", "Answer in one word."), ("user", "Name a colour.")),
    temperature=0.5,
    max_tokens=_TOKENS,
    schema={
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)
"""Does not ask for JSON, so that a JSON response shows that the server enforces the schema."""


def ask_world(world_name: str) -> Iterator[dict[str, Any]]:
    """Yield a finding ({what, ok, found, advice}) for each model behind a server and each service."""
    with closing(Services.open(world_name, None, home())) as services:
        world = services.world
        for name in filter(world.has, SECTIONS):
            service = getattr(services, name)
            advice = f"check the address of [{name}] in the world's file"
            yield _put(f"ask {name}", service, _QUESTIONS[name](service.identity), advice)
        for role, model in sorted(world.models.items()):
            if model.kind == "openai" and role == "perplexity":
                scorer = services.perplexity()
                question = call_perplexity(scorer.identity, "The sky is blue.")
                yield _put(f"ask {role}", scorer, question, "name a server that tells log-probabilities of prompts")
            elif model.kind in CHAT_KINDS:
                yield _ask_chat(role, model, world)


_QUESTIONS: dict[str, Callable[[str], Call]] = {
    "wikidata": lambda identity: call_label(identity, "Q2"),
    "wikipedia": lambda identity: call_resolve_title(identity, "Earth"),
    "pageviews": lambda identity: call_pageviews(identity, "Earth", "20240101", "20240102"),
    "falcon": lambda identity: call_link(identity, "Who founded Berlin?"),
    "dbpedia": lambda identity: call_same_as(identity, "http://dbpedia.org/resource/Berlin"),
}


def _put(what: str, service: Service, call: Call, advice: str) -> dict[str, Any]:
    reply = _answer(service, call)
    ok = reply.status == "ok"
    found = f"answers; {_spent(reply)}" if ok else str(reply.error)
    return _finding(what, ok, found, "" if ok else advice)


def _ask_chat(role: str, model: Model, world: World) -> dict[str, Any]:
    """Request two samples with a schema; what the server rejects or ignores shows which features it supports."""
    limits = model.limits.model_copy(update={"attempts": 1})
    # the Messages API has no `n`
    asked = {"json_schema": model.json_schema or True, "choices": model.kind == "openai", "limits": limits}
    all_asked = model.model_copy(update=asked)
    chat = Chat(model.url, all_asked, lambda: api_key(model), world.user_agent)
    reply = _answer(chat, call_chat(model.url, model.name, Ask(_PROMPT, {}, samples=2)))
    if reply.status != "ok":
        cut = "'length'" in str(reply.error)
        advice = "; ".join(chat.notes()) or "check url, name and key in the world's file"
        if cut:
            advice = "it thinks before it answers: set thinking_tokens"
        return _finding(f"ask {role}", False, str(reply.error), advice)
    found = chat.model
    try:
        is_held = all(isinstance(json.loads(text)["colour"], str) for text in read_chat(reply.body).texts)
    except (ValueError, TypeError, KeyError):
        is_held = False
    found = found if is_held else found.model_copy(update={"json_schema": False})
    takes = {
        "schema": {True: "yes", "json_object": "the older form", False: "no"}[found.json_schema],
        "n": "yes" if found.choices else "no",
        "temperature": "no" if found.temperature == "none" else "yes",
        "system role": "yes" if found.system == "own" else "no",
        "token limit": found.token_limit,
    }
    profile = describe_learnt(model, found.model_copy(update={"limits": model.limits}))
    told = "; ".join(f"{name} {value}" for name, value in takes.items())
    put = f"; put under [models.{role}]: {', '.join(profile)}" if profile else "; the world's file fits"
    return _finding(f"ask {role}", True, f"{told}; {_spent(reply, model)}{put}")


def _answer(service: Service, call: Call) -> Reply:
    """Send a call and return its reply; if the call cannot be sent, a failed reply."""
    replies: list[Reply] = []
    try:
        service.send([call], lambda _, reply: replies.append(reply))
    except FactmillError as error:
        return Reply(None, "failed", error=str(error))
    return replies[0]


def _spent(reply: Reply, model: Model | None = None) -> str:
    cost = f"US$ {reply.cost_usd:.6f}"
    if model is not None and not model.has_price:
        cost = "no price is given"
    elif model is not None and not reply.tokens_in:
        cost = "cost unknown, since the server tells no usage"
    return f"{reply.latency_s:.1f} s, {reply.tokens_in} + {reply.tokens_out} tokens, {cost}"
