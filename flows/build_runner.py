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
    MAX_SERVER_EXITS,
    OwnServer,
    apply_prefect_settings,
    raising_prefect_lost,
    standing_or_own_prefect_server,
)
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.engine.incremental import resolve_since_build
from factmill.tasks.engine.naming.identities import compute_oldest_valid_reply_times
from factmill.tasks.engine.naming.manifests import digest_assets, make_build_manifest, resolve_own_prompt_texts
from factmill.tasks.engine.runs import (
    check_run_unlocked,
    get_run_folder_path,
    remove_finished_run_folder,
    resolve_run_reply_max_ages,
)
from factmill.tasks.engine.services import check_model_variables_and_libraries
from factmill.tasks.engine.spending.budgets import MultiBuildBudget, check_models_have_prices
from factmill.tasks.errors import BuildFormatTooOld, PrefectServerLost, ReplayMiss
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.options import BenchmarkParams, BuildReport, RunOptions, UserTableParams, resolve_warehouse_path
from factmill.tasks.processes import get_temporary_folder
from factmill.tasks.progress import print_and_log, print_progress_line
from factmill.tasks.settings import ensure_writable_home, factmill_home, load_world
from factmill.tasks.storage.builds import (
    BuildRecord,
    find_build_by_manifest,
    format_scripted_rows_use_restriction,
    load_table_digests,
)
from factmill.tasks.storage.recording.call_records import uses_expired_replies
from factmill.tasks.storage.user_tables import find_licence_problem
from factmill.tasks.storage.warehouse import check_warehouse_writable, open_warehouse

Recipe = Callable[[BenchmarkParams, RunOptions], BuildReport]
R = TypeVar("R")


def make_or_reuse_build(
    benchmark: Benchmark, params: BenchmarkParams, run: RunOptions, force: bool = False, recipe: Recipe | None = None
) -> BuildReport:
    """Make a build, or return the one with exactly the same lock and no expired reply (unless forced or refreshed).

    `recipe`: makes the build in place of a flow run of its own. NoRowsPublished if no row was read, or none remained.
    """
    started = time.perf_counter()
    inputs = benchmark.resolve_inputs(params, run)
    lock = make_build_manifest(benchmark, inputs, run)
    for note in (*_list_non_spdx_licence_notes(params), *inputs.notes, *_list_unused_own_prompt_notes(benchmark, run)):
        print_and_log(f"note: {note}")
    if run.since is not None:
        # name the earlier build, whose replies are revalidated, by its id
        earlier = resolve_since_build(benchmark.name, lock, run)
        if earlier is None:
            print_and_log(
                f"note: this world has no earlier build of {benchmark.name} to compare with, so all expired replies are requested again"
            )
        run = run.model_copy(update={"since": earlier.build_id if earlier else None})
    if run.mode == "record" and not force:
        present = find_build_by_manifest(resolve_warehouse_path(run), lock)
        if present is not None and not present.report["unsettled"] and not _has_expired_replies(present, run):
            remove_finished_run_folder(get_run_folder_path(benchmark.name, lock, run))
            report = _load_build_report(present, run)
            replayed, seconds = report.calls_sent + report.calls_replayed, round(time.perf_counter() - started, 2)
            result = {"calls_sent": 0, "calls_replayed": replayed, "up_to_date": True, "seconds": seconds}
            return report.model_copy(update=result)
    if run.mode != "replay":
        ensure_writable_home()
        world, roles = load_world(run.world, run.graph), benchmark.model_roles(params)
        check_model_variables_and_libraries(world, roles)
        world.require_service_access(*benchmark.required_services(params))
        if run.max_cost is not None:
            check_models_have_prices(world, roles)
        check_warehouse_writable(resolve_warehouse_path(run))
    check_run_unlocked(get_run_folder_path(benchmark.name, lock, run))
    if caution := format_scripted_rows_use_restriction(lock):
        print_and_log(f"note: {caution}")
    begun = datetime.now(UTC)

    def find_made() -> BuildReport | None:
        present = find_build_by_manifest(resolve_warehouse_path(run), lock)
        is_made = present is not None and present.published_at >= begun
        return _load_build_report(present, run) if present and is_made else None

    with nullcontext(recipe) if recipe else benchmark_flow_with_prefect_server(benchmark, run, find_made) as make:
        return make(params, run)


def _list_non_spdx_licence_notes(params: BenchmarkParams) -> list[str]:
    """Return a note on a stated licence of a user's source that is no SPDX id; empty without one."""
    licence = params.source_licence if isinstance(params, UserTableParams) else None
    return [problem] if licence and (problem := find_licence_problem(licence)) else []


def _list_unused_own_prompt_notes(benchmark: Benchmark, run: RunOptions) -> Iterator[str]:
    """Yield a note on own prompts that have no effect on a build: the folder holds none of its prompts with another text."""
    folder = run.prompts or load_world(run.world, run.graph).prompts
    if folder and not resolve_own_prompt_texts(benchmark.assets, run):
        used = ", ".join(benchmark.assets.prompts) or "none"
        yield f"no prompt in {folder} changes {benchmark.name}: it uses {used}, and all of these are the packaged texts"


def verify_build_by_replay(benchmark: Benchmark, record: BuildRecord, run: RunOptions) -> dict[str, dict[str, Any]]:
    """Rebuild from the recorded calls alone; return table → expected and found SHA-256, rows and agreement.

    No service is called: a call that was not recorded raises ReplayMiss. Nothing is published. BuildFormatTooOld if the build's
    parameters no longer validate.
    """
    origin = record.origin
    result = {"world": origin["world"], "graph": origin["graph"], "mode": "replay", "pinned_build": record.build_id}
    try:
        params = benchmark.params.model_validate(origin["flow"])
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise BuildFormatTooOld(
            f"{record.build_id} was made by {record.code_version} with parameters that this one does not read "
            f"({where}: {error.errors()[0]['msg']}); build it again with `factmill build {benchmark.name}` and verify that"
        ) from error
    replay = run.model_copy(update=result)
    with benchmark_flow_with_prefect_server(benchmark, replay) as recipe:
        try:
            report = recipe(params, replay)
        except ReplayMiss as error:
            digests = digest_assets(benchmark.assets, record.own_prompts)["prompts"]
            if changed := [name for name, digest in digests.items() if record.lock["prompts"].get(name) != digest]:
                raise ReplayMiss(
                    f"{error}. Packaged prompts have changed since this build: {', '.join(changed)}. Verify it with the version "
                    f"that made it ({record.code_version}), or make it again"
                ) from error
            raise
    with open_warehouse(resolve_warehouse_path(run)) as db:
        expected = load_table_digests(db, record.build_id)
    tables = {}
    for name in sorted({*expected, *report.tables}):
        found = report.tables.get(name, {"sha256": None, "rows": None})
        pair = {"expected": expected.get(name), "found": found["sha256"]}
        tables[name] = {**pair, "rows": found["rows"], "agrees": pair["expected"] == pair["found"]}
    return tables


def load_tracked_flow(benchmark: Benchmark) -> Any:
    """Return a benchmark's Prefect flow with tracked runs; Prefect is imported only here."""
    from factmill.flows.watching.artifacts import create_evaluation_artifacts
    from factmill.flows.watching.flow_runs import track_flow_runs

    found = load_named_object(benchmark.recipe)
    return track_flow_runs(found.make_flow(create_evaluation_artifacts) if isinstance(found, Evaluation) else found)


@contextmanager
def benchmark_flow_with_prefect_server(
    benchmark: Benchmark, run: RunOptions, find_published: Callable[[], BuildReport | None] = lambda: None
) -> Iterator[Recipe]:
    """Yield a benchmark's flow as a function, with a running Prefect server.

    `find_published`: returns the build if it was published before Prefect was lost.
    """
    apply_prefect_settings(ensure_writable_home())
    get_temporary_folder()
    with standing_or_own_prefect_server(factmill_home()) as server:
        if server and server.is_starting:
            print_progress_line("starting Prefect …")
        flow = load_tracked_flow(benchmark)
        # import the modules of the stages while the Prefect server starts on the other core; an evaluation's record has
        # no `evaluation`, and evaluations mostly call models only
        if benchmark.evaluation:
            for module in ("clients.pageviews", "clients.sparql", "world.scripted_replies"):
                import_module(f"factmill.tasks.{module}")
            if load_world(run.world).uses_embedded_services:
                import_module("factmill.tasks.world.app")
        if server:
            server.wait_ready()

        def make(params: BenchmarkParams, run: RunOptions) -> BuildReport:
            shared_budget = MultiBuildBudget(run)
            return retry_on_lost_server(lambda: flow(params, shared_budget.remaining_options), server, find_published)

        yield make


def retry_on_lost_server(make: Callable[[], R], server: OwnServer | None, find_published: Callable[[], R | None]) -> R:
    """Run a flow; restart it if our own server is lost, reusing finished batches and recorded calls.

    PrefectServerLost if a standing server is lost, or our own too often.
    """
    makings = 0
    while True:
        makings += 1
        try:
            with raising_prefect_lost():
                return make()
        except PrefectServerLost as lost:
            # a published build stays published, even if Prefect does not know
            if made := find_published():
                print_and_log(f"note: {lost}")
                return made
            if server is None or makings == MAX_SERVER_EXITS:
                raise
            from factmill.flows.watching.flow_runs import drop_flow_run_locks_keeping_markers

            server.recover()
            drop_flow_run_locks_keeping_markers()
            print_and_log("note: the flow begins again; what was done is found again")


def prebuild_prefect_db_and_embedded_world() -> None:
    """Prepare the home for builds: Prefect's database, embedded world (store, graph, encoder), compiled kernels."""
    folder = ensure_writable_home()
    apply_prefect_settings(folder)
    with standing_or_own_prefect_server(folder) as server:
        print_and_log("preparing the embedded world …")
        from factmill.tasks.engine.services import open_or_build_embedded_graph
        from factmill.tasks.graph.paths import compile_path_kernels
        from factmill.tasks.models.embedders import (
            PACKAGED_EMBEDDER,
            choose_minilm_or_ngram_embedder,
            resolve_embedder_folder_converting_packaged,
        )
        from factmill.tasks.world.serving import running_world

        with running_world(folder), open_or_build_embedded_graph(folder):
            compile_path_kernels()
            if choose_minilm_or_ngram_embedder(folder) == PACKAGED_EMBEDDER:
                resolve_embedder_folder_converting_packaged(PACKAGED_EMBEDDER, folder)
            print_and_log("preparing Prefect's database …")
            if server:
                server.wait_ready()


def _has_expired_replies(record: BuildRecord, run: RunOptions) -> bool:
    """Return True if a build rests on replies older than the world or the options allow."""
    ages = resolve_run_reply_max_ages(run)
    return bool(ages) and uses_expired_replies(
        resolve_warehouse_path(run), record.build_id, compute_oldest_valid_reply_times(ages, datetime.now(UTC))
    )


def _load_build_report(record: BuildRecord, run: RunOptions) -> BuildReport:
    with open_warehouse(resolve_warehouse_path(run)) as db:
        digests = load_table_digests(db, record.build_id)
        counts = dict(
            db.execute("SELECT table_name, rows FROM build_tables WHERE build_id = ?", [record.build_id]).fetchall()
        )
    return BuildReport.model_validate(
        {**record.report, "tables": {name: {"rows": counts[name], "sha256": digests[name]} for name in digests}}
    )
