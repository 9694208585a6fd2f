"""Makes and verifies builds for commands: resolves the lock first, and starts Prefect and the flow only if needed.

A build whose lock is already published is returned as it is, without starting anything. Prefect is imported only after
its settings are in the environment.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, TypeVar

from pydantic import ValidationError

from factmill.flows.prefect_server import (
    MOST_ENDINGS,
    OwnServer,
    apply_prefect_settings,
    prefect_server,
    telling_lost_server,
)
from factmill.tasks.engine.benchmark import Benchmark, load_place
from factmill.tasks.engine.naming.identities import find_oldest_moments
from factmill.tasks.engine.naming.locks import make_lock
from factmill.tasks.engine.runs import find_run_ages, forget_finished, refuse_held, run_folder
from factmill.tasks.engine.services import check_models
from factmill.tasks.engine.since import find_earlier
from factmill.tasks.engine.spending.bounds import Purse, check_prices
from factmill.tasks.errors import OldBuild, PrefectLost
from factmill.tasks.evaluation.record import Evaluation
from factmill.tasks.options import BuildReport, Params, RunOptions, warehouse_of
from factmill.tasks.processes import require_temporary_folder
from factmill.tasks.progress import mention, say
from factmill.tasks.settings import home, load_world, require_home
from factmill.tasks.storage.builds import BuildRecord, build_of_lock, describe_caution, published_names
from factmill.tasks.storage.recording.records import rests_on_older
from factmill.tasks.storage.warehouse import open_warehouse, require_writable

Recipe = Callable[[Params, RunOptions], BuildReport]
R = TypeVar("R")


def make_build(
    benchmark: Benchmark, params: Params, run: RunOptions, force: bool = False, recipe: Recipe | None = None
) -> BuildReport:
    """Make a build, or return the one with exactly the same lock and no expired reply (unless forced or refreshed).

    `recipe`: makes the build in place of a flow run of its own. NothingPublished if no row was read, or none remained.
    """
    started = time.perf_counter()
    inputs = benchmark.lock_inputs(params, run)
    lock = make_lock(benchmark, inputs, run)
    for note in inputs.notes:
        say(f"note: {note}")
    if run.since is not None:
        # name the earlier build, whose replies are revalidated, by its id
        earlier = find_earlier(benchmark.name, lock, run)
        if earlier is None:
            say(
                f"note: no build of {benchmark.name} in this world is there yet, so nothing is looked through: all that is too old is asked"
            )
        run = run.model_copy(update={"since": earlier.build_id if earlier else None})
    if run.mode == "record" and not force:
        present = build_of_lock(warehouse_of(run), lock)
        if present is not None and not present.report["unsettled"] and not _has_aged(present, run):
            forget_finished(run_folder(benchmark.name, lock, run))
            report = _read_report(present, run)
            replayed, seconds = report.calls_sent + report.calls_replayed, round(time.perf_counter() - started, 2)
            told = {"calls_sent": 0, "calls_replayed": replayed, "up_to_date": True, "seconds": seconds}
            return report.model_copy(update=told)
    if run.mode != "replay":
        require_home()
        world, roles = load_world(run.world, run.graph), benchmark.roles(params)
        check_models(world, roles)
        world.require_access(*benchmark.needs(params))
        if run.max_cost is not None:
            check_prices(world, roles)
        require_writable(warehouse_of(run))
    refuse_held(run_folder(benchmark.name, lock, run))
    if caution := describe_caution(lock):
        say(f"note: {caution}")
    begun = datetime.now(UTC)

    def find_made() -> BuildReport | None:
        present = build_of_lock(warehouse_of(run), lock)
        is_made = present is not None and present.published_at >= begun
        return _read_report(present, run) if present and is_made else None

    with nullcontext(recipe) if recipe else opened_recipe(benchmark, run, find_made) as make:
        return make(params, run)


def verify_build(benchmark: Benchmark, record: BuildRecord, run: RunOptions) -> dict[str, dict[str, Any]]:
    """Rebuild from the recorded calls alone; return table → expected and found SHA-256, rows and agreement.

    No service is called: a call that was not recorded raises ReplayMiss. Nothing is published. OldBuild if the build's
    parameters no longer validate.
    """
    origin = record.origin
    told = {"world": origin["world"], "graph": origin["graph"], "mode": "replay", "pinned_build": record.build_id}
    try:
        params = benchmark.params.model_validate(origin["flow"])
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise OldBuild(
            f"{record.build_id} was made by {record.made_by} with parameters that this one does not read "
            f"({where}: {error.errors()[0]['msg']}); build it again with `factmill build {benchmark.name}` and verify that"
        ) from error
    replay = run.model_copy(update=told)
    with opened_recipe(benchmark, replay) as recipe:
        report = recipe(params, replay)
    with open_warehouse(warehouse_of(run)) as db:
        expected = published_names(db, record.build_id)
    tables = {}
    for name in sorted({*expected, *report.tables}):
        found = report.tables.get(name, {"sha256": None, "rows": None})
        pair = {"expected": expected.get(name), "found": found["sha256"]}
        tables[name] = {**pair, "rows": found["rows"], "agrees": pair["expected"] == pair["found"]}
    return tables


def load_flow(benchmark: Benchmark) -> Any:
    """Return a benchmark's Prefect flow with tracked runs; Prefect is imported only here."""
    from factmill.flows.watching.artifacts import leave_evaluation
    from factmill.flows.watching.runs import watched

    found = load_place(benchmark.recipe)
    return watched(found.make_flow(leave_evaluation) if isinstance(found, Evaluation) else found)


@contextmanager
def opened_recipe(
    benchmark: Benchmark, run: RunOptions, find_made: Callable[[], BuildReport | None] = lambda: None
) -> Iterator[Recipe]:
    """Yield a benchmark's flow as a function, with a running Prefect server.

    `find_made`: returns the build if it was published before Prefect was lost.
    """
    apply_prefect_settings(require_home())
    require_temporary_folder()
    with prefect_server(home()) as server:
        if server and server.is_starting:
            mention("starting Prefect …")
        flow = load_flow(benchmark)
        # import the modules of the stages while the Prefect server starts on the other core; an evaluation's record has
        # no `evaluation`, and evaluations mostly call models only
        if benchmark.evaluation:
            for module in ("clients.pageviews", "clients.sparql", "world.replies"):
                import_module(f"factmill.tasks.{module}")
            if load_world(run.world).is_embedded:
                import_module("factmill.tasks.world.app")
        if server:
            server.wait_ready()

        def make(params: Params, run: RunOptions) -> BuildReport:
            purse = Purse(run)
            return keep_making(lambda: flow(params, purse.left), server, find_made)

        yield make


def keep_making(make: Callable[[], R], server: OwnServer | None, find_made: Callable[[], R | None]) -> R:
    """Run a flow; restart it if our own server is lost, reusing finished batches and recorded calls.

    PrefectLost if a standing server is lost, or our own too often.
    """
    makings = 0
    while True:
        makings += 1
        try:
            with telling_lost_server():
                return make()
        except PrefectLost as lost:
            # a published build stays published, even if Prefect does not know
            if made := find_made():
                say(f"note: {lost}")
                return made
            if server is None or makings == MOST_ENDINGS:
                raise
            from factmill.flows.watching.runs import drop_runs

            server.recover()
            drop_runs()
            say("note: the flow begins again; what was done is found again")


def prepare() -> None:
    """Prepare the home for builds: Prefect's database, embedded world (store, graph, encoder), compiled kernels."""
    folder = require_home()
    apply_prefect_settings(folder)
    with prefect_server(folder) as server:
        say("preparing the embedded world …")
        from factmill.tasks.engine.services import embedded_graph
        from factmill.tasks.graph.paths import prepare_kernels
        from factmill.tasks.models.embed import PACKAGED, choose_embedder, find_embedder
        from factmill.tasks.world.serving import running_world

        with running_world(folder), embedded_graph(folder):
            prepare_kernels()
            if choose_embedder(folder) == PACKAGED:
                find_embedder(PACKAGED, folder)
            say("preparing Prefect's database …")
            if server:
                server.wait_ready()


def _has_aged(record: BuildRecord, run: RunOptions) -> bool:
    """Return True if a build rests on replies older than the world or the options allow."""
    ages = find_run_ages(run)
    return bool(ages) and rests_on_older(
        warehouse_of(run), record.build_id, find_oldest_moments(ages, datetime.now(UTC))
    )


def _read_report(record: BuildRecord, run: RunOptions) -> BuildReport:
    with open_warehouse(warehouse_of(run)) as db:
        digests = published_names(db, record.build_id)
        counts = dict(
            db.execute("SELECT table_name, rows FROM build_tables WHERE build_id = ?", [record.build_id]).fetchall()
        )
    return BuildReport.model_validate(
        {**record.report, "tables": {name: {"rows": counts[name], "sha256": digests[name]} for name in digests}}
    )
