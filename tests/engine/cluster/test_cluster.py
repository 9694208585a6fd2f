"""Test two worker processes: they give this process's responses, even when some are killed and others join."""

import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs.rdf_lines import spell_out
from support.models.tiny_encoder import make_head, make_weights, write_checkpoint
from support.processes.cluster import LoopbackCluster, loopback_cluster

from factmill.tasks.compute_settings import ComputeSettings
from factmill.tasks.core.calls.call import Call, CallResponse, CallService
from factmill.tasks.core.calls.translation_and_perplexity import (
    make_log_probability_call,
    make_translate_path_call,
    make_translate_text_call,
)
from factmill.tasks.core.wikidata_paths import PathFinder, PathSearchOptions, PathsFoundForPairs
from factmill.tasks.engine.cluster import capabilities, driver, remote_models
from factmill.tasks.engine.cluster.capabilities import RequestGroupAnsweredByUnpickling
from factmill.tasks.engine.cluster.driver import DaskClusterClient
from factmill.tasks.engine.cluster.protocol import RequiredModelOrGraph
from factmill.tasks.engine.cluster.remote_models import (
    LocalModelOnClusterService,
    RemoteGraphPathFinder,
    open_remote_cross_encoder,
    open_remote_embedder,
)
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import open_graph
from factmill.tasks.models import perplexity, translator
from factmill.tasks.models.converting.encoder import make_cross_encoder_folder, make_embedder_folder
from factmill.tasks.models.cross_encoder import CrossEncoder, resolve_cross_encoder_folder
from factmill.tasks.models.embedders import SentenceEncoder, resolve_embedder_folder_converting_packaged
from factmill.tasks.models.model_folder import get_models_folder
from factmill.tasks.models.model_services import make_language_model_service, make_translator_service
from factmill.tasks.processes import find_free_port
from factmill.tasks.settings import graphs_folder
from factmill.tasks.text.values.wikidata_literals import PartialDate

pytestmark = pytest.mark.slow

LINES = """
    wd:Q1 wdt:P1 wd:Q2
    wd:Q2 wdt:P2 wd:Q3
    wd:Q3 wdt:P3 wd:Q1
    wd:Q1 wdt:P569 "1815-12-10T00:00:00Z"^^xsd:dateTime
"""
TEXTS = ["Who was born in Paris?", "a river flows", "", "river " * 40, "the river", "who"]
SENTENCES = [
    f"{name} was born in {place}." for name in ("Ada Lovelace", "Lord Byron") for place in ("London", "Rome", "")
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    make_embedder_folder(write_checkpoint(folder / "tiny", make_weights()), get_models_folder(folder))
    weights = make_weights(prefix="bert.") | make_head(3)
    labels = {"0": "CONTRADICTION", "1": "neutral", "2": "Entailment"}
    make_cross_encoder_folder(write_checkpoint(folder / "nli", weights, id2label=labels), get_models_folder(folder))
    (folder / "small.nt").write_text(spell_out(LINES), "utf-8")
    load_graph([folder / "small.nt"], "small", graphs_folder(folder))
    return folder


@pytest.fixture(scope="module")
def loopback(home: Path) -> Iterator[LoopbackCluster]:
    with loopback_cluster(home) as cluster:
        for worker in [cluster.start(), cluster.start()]:
            assert "serves small: graph " in cluster.wait_joined(worker)
        yield cluster


@pytest.fixture
def cluster(loopback: LoopbackCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskClusterClient]:
    monkeypatch.setattr(remote_models, "_MIN_GROUP_CHARS", 60)
    monkeypatch.setattr(remote_models, "_MIN_GROUP_PAIRS", 2)
    with closing(DaskClusterClient(ComputeSettings(engine="dask", address=loopback.address, wait_s=300))) as connected:
        yield connected


def ask(service: CallService, calls: list[Call]) -> tuple[dict[str, CallResponse], Counter[str]]:
    """Return the replies by key, and how often each was delivered."""
    replies: dict[str, CallResponse] = {}
    delivered: Counter[str] = Counter()

    def take(call: Call, reply: CallResponse) -> None:
        replies[call.key] = reply
        delivered[call.key] += 1

    service.send(calls, take)
    return replies, delivered


def test_cluster_translations_and_perplexities_equal_local_ones(cluster: DaskClusterClient, home: Path) -> None:
    identity = translator.get_translator_identity(translator.EMBEDDED_TRANSLATOR, home)
    local: CallService = make_translator_service(
        identity, lambda: translator.Translator(translator.EMBEDDED_TRANSLATOR_FOLDER, threads=1)
    )
    calls = [make_translate_text_call(identity, text, tag) for text in SENTENCES for tag in ("de", "fr")]
    calls += [
        make_translate_path_call(identity, ["London", "born in"], [None, "né à"], "fr"),
        Call(identity, "sing", {}),
    ]
    replies, delivered = ask(LocalModelOnClusterService(cluster, RequiredModelOrGraph("translator", identity)), calls)
    assert (replies, delivered) == ask(local, calls)
    assert set(delivered.values()) == {1} and {reply.status for reply in replies.values()} == {"ok", "failed"}

    identity = perplexity.get_language_model_identity(perplexity.EMBEDDED_LANGUAGE_MODEL, home)
    local = make_language_model_service(
        identity, lambda: perplexity.LanguageModel(perplexity.EMBEDDED_LANGUAGE_MODEL_FOLDER, threads=1)
    )
    calls = [make_log_probability_call(identity, text) for text in SENTENCES]
    assert ask(LocalModelOnClusterService(cluster, RequiredModelOrGraph("perplexity", identity)), calls) == ask(
        local, calls
    )


def test_cluster_vectors_and_scores_equal_local_ones(cluster: DaskClusterClient, home: Path) -> None:
    folder = resolve_embedder_folder_converting_packaged("tiny", home)
    here, there = SentenceEncoder(folder, threads=1), open_remote_embedder(folder, cluster)
    assert (there.name, there.digest, there.dimensions) == (here.name, here.digest, here.dimensions)
    texts = [*TEXTS, TEXTS[0]]
    assert there.encode(texts).tobytes() == here.encode(texts).tobytes()
    assert there.encode([]).shape == (0, here.dimensions)

    folder = resolve_cross_encoder_folder("nli", home)
    scorer, remote_scorer = CrossEncoder(folder, threads=1), open_remote_cross_encoder(folder, cluster)
    pairs = [(first, second) for first in TEXTS for second in TEXTS[:3]]
    for wanted in (None, [{"entailment"}, {"contradiction"}]):
        np.testing.assert_array_equal(remote_scorer.score(pairs, wanted), scorer.score(pairs, wanted))


def test_cluster_paths_equal_local_ones(cluster: DaskClusterClient, home: Path) -> None:
    subjects, objects = np.array([1, 1, 2, 3, 9, 1, 3]), np.array([2, 3, 1, 2, 1, 1, 1])
    dates = [PartialDate(1815, 12, 10), PartialDate(1815), PartialDate(1900)] + [PartialDate(1815)] * 4
    options = PathSearchOptions(always_two_hops=True, ignored_properties=frozenset({3}), max_paths=5)
    with open_graph("small", graphs_folder(home)) as graph:
        finders: list[PathFinder] = [graph, RemoteGraphPathFinder(graph.manifest.digest, cluster)]

        def find(finder: PathFinder) -> list[PathsFoundForPairs]:
            return [
                finder.find_item_paths(subjects, objects, options),
                finder.find_literal_paths(subjects, dates, frozenset({569}), options),
                finder.find_item_paths(subjects[:0], objects[:0], options),
            ]

        here, there = map(find, finders)
    for one, other in zip(here, there, strict=True):
        assert one.paths.equals(other.paths) and one.pairs.equals(other.pairs) and one.failures == other.failures
    assert len(here[0].paths) and len(here[1].paths)


def test_malformed_answer_names_its_worker(
    cluster: DaskClusterClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(message: str) -> AbstractContextManager[object]:
        return pytest.raises(
            ServiceUnreachable, match=rf"^the worker tcp://\S+ of \S+ returned a malformed answer .*: .*{message};"
        )

    def ask_of_fewer(
        kind: Any, identity: str, code: str, operation: str, asked: Any
    ) -> RequestGroupAnsweredByUnpickling:
        fewer = (
            asked[:-1]
            if operation == "calls"
            else tuple(each[:-1] if isinstance(each, np.ndarray) else each for each in asked)
        )
        return RequestGroupAnsweredByUnpickling(kind, identity, code, operation, fewer)

    # the worker never receives the last call
    monkeypatch.setattr(capabilities, "RequestGroupAnsweredByUnpickling", ask_of_fewer)
    identity = translator.get_translator_identity(translator.EMBEDDED_TRANSLATOR, home)
    calls = [make_translate_text_call(identity, text, "de") for text in SENTENCES[:2]]
    delivered: list[Call] = []
    with refused("0 answers to 1 questions"):
        LocalModelOnClusterService(cluster, RequiredModelOrGraph("translator", identity)).send(
            calls, lambda call, reply: delivered.append(call)
        )
    assert not delivered
    with open_graph("small", graphs_folder(home)) as graph, refused("1 answers to 2 questions"):
        ends = np.array([1, 2])
        RemoteGraphPathFinder(graph.manifest.digest, cluster).find_item_paths(ends, ends, PathSearchOptions())
    monkeypatch.undo()
    there = open_remote_embedder(resolve_embedder_folder_converting_packaged("tiny", home), cluster)
    there.dimensions += 1
    with refused(r"rows .*\(\d+,\); expected \(\d+,\)"):
        there.encode(TEXTS)


def test_missing_resource_error_says_to_start_worker(cluster: DaskClusterClient) -> None:
    cluster.compute = cluster.compute.model_copy(update={"wait_s": 0.1})
    with pytest.raises(
        ServiceUnreachable, match=r"no worker at tcp.* \(2 workers\) holds the graph f+; .*: \w+; start one"
    ):
        cluster.run_groups(RequiredModelOrGraph("graph", "f" * 64), [("item_paths", [])], lambda number, answer: None)


def test_no_work_is_lost_or_repeated_when_all_workers_die_and_new_one_joins(
    cluster: DaskClusterClient, loopback: LoopbackCluster, home: Path
) -> None:
    identity = perplexity.get_language_model_identity(perplexity.EMBEDDED_LANGUAGE_MODEL, home)
    calls = [make_log_probability_call(identity, f"Rome is a city of {number} people.") for number in range(150)]
    expected, _ = ask(
        make_language_model_service(
            identity, lambda: perplexity.LanguageModel(perplexity.EMBEDDED_LANGUAGE_MODEL_FOLDER, threads=1)
        ),
        calls,
    )
    seen: Counter[str] = Counter()
    replies: dict[str, CallResponse] = {}

    def take(call: Call, reply: CallResponse) -> None:
        if not seen:
            # a new worker joins while the others die, and their work waits for it
            loopback.start("--model", perplexity.EMBEDDED_LANGUAGE_MODEL)
            for worker in loopback.workers[:2]:
                loopback.kill(worker)
        seen[call.key] += 1
        replies[call.key] = reply

    LocalModelOnClusterService(cluster, RequiredModelOrGraph("perplexity", identity)).send(calls, take)
    assert replies == expected
    assert set(seen.values()) == {1} and len(seen) == len(calls)
    for worker in loopback.workers[:2]:
        # the name has the process id, so that `factmill gc` finds what a killed worker left
        assert len(loopback.find_left(worker)) == 1


def test_work_of_stopped_worker_moves_to_another(
    cluster: DaskClusterClient, loopback: LoopbackCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(driver, "print_and_log", said.append)
    monkeypatch.setattr(driver, "_READ_S", 3.0)
    monkeypatch.setattr(driver, "_SILENT_AFTER_S", 1.5)
    monkeypatch.setattr(driver, "_REMOVE_AFTER_S", 12.0)
    stopped = loopback.start("--model", perplexity.EMBEDDED_LANGUAGE_MODEL)
    address = loopback.wait_joined(stopped).rpartition(" as ")[2].strip()
    loopback.wait_joined(loopback.start("--model", perplexity.EMBEDDED_LANGUAGE_MODEL))
    identity = perplexity.get_language_model_identity(perplexity.EMBEDDED_LANGUAGE_MODEL, home)
    calls = [make_log_probability_call(identity, f"Paris is a city of {number} people.") for number in range(150)]
    seen: Counter[str] = Counter()

    def take(call: Call, _: CallResponse) -> None:
        if not seen:
            stopped.send_signal(signal.SIGSTOP)
        seen[call.key] += 1

    LocalModelOnClusterService(cluster, RequiredModelOrGraph("perplexity", identity)).send(calls, take)
    assert set(seen.values()) == {1} and len(seen) == len(calls)
    assert any(f"the worker {address} does not respond" in each for each in said)
    assert any(re.search(rf"the worker {address} was silent for \d+ s and is removed", each) for each in said)
    assert address not in [worker.address for worker in cluster.list_workers()]
    stopped.send_signal(signal.SIGCONT)
    assert stopped.wait(60) == 1
    assert stopped.stderr is not None
    assert "restart the worker" in stopped.stderr.read()


def test_killed_scheduler_ends_work_and_next_run_does_only_the_rest(home: Path) -> None:
    port = find_free_port()
    address, identity = (
        f"tcp://127.0.0.1:{port}",
        perplexity.get_language_model_identity(perplexity.EMBEDDED_LANGUAGE_MODEL, home),
    )
    calls = [make_log_probability_call(identity, f"Oslo is a city of {number} people.") for number in range(150)]
    seen: Counter[str] = Counter()
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]

    def work() -> None:
        with subprocess.Popen([*command, "--no-dashboard"], stderr=subprocess.DEVNULL) as scheduler:

            def take(call: Call, _: CallResponse) -> None:
                seen[call.key] += 1
                if len(seen) == 1:
                    scheduler.kill()

            there = LoopbackCluster(address, home)
            worker = there.start("--model", perplexity.EMBEDDED_LANGUAGE_MODEL)
            try:
                there.wait_joined(worker)
                with closing(
                    DaskClusterClient(ComputeSettings(engine="dask", address=address, wait_s=300))
                ) as connected:
                    left = [call for call in calls if call.key not in seen]
                    LocalModelOnClusterService(connected, RequiredModelOrGraph("perplexity", identity)).send(left, take)
            finally:
                there.kill(worker)
                scheduler.kill()

    with pytest.raises(
        ServiceUnreachable, match=f"the Dask scheduler at {address} is gone; answers so far are recorded"
    ):
        work()
    assert 0 < len(seen) < len(calls)
    work()
    assert set(seen.values()) == {1} and len(seen) == len(calls)


def test_unreachable_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.tasks.engine.cluster.driver._CONNECT_S", 0.2)
    with (
        closing(DaskClusterClient(ComputeSettings(engine="dask", address="tcp://127.0.0.1:9"))) as lonely,
        pytest.raises(ServiceUnreachable, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 .*`dask scheduler`"),
    ):
        lonely.list_workers()


def test_listener_that_is_not_dask_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmill.tasks.engine.cluster.driver._CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with (
            closing(DaskClusterClient(ComputeSettings(engine="dask", address=address))) as lonely,
            pytest.raises(ServiceUnreachable, match=f"no Dask scheduler answers at {address} .*listens there"),
        ):
            lonely.list_workers()
