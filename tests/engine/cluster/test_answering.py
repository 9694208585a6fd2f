"""Test what a worker refuses, and the driver's errors when a cluster lacks a capability."""

import logging
import pickle
import sys

import pytest

from factmill.tasks.engine.cluster.capabilities import (
    RequestGroupAnsweredByUnpickling,
    ServableModelOrGraph,
    ServedResources,
    answer_or_refuse_driver_request,
    set_resources_of_this_worker,
)
from factmill.tasks.engine.cluster.driver import WorkerInfo, format_missing_capability
from factmill.tasks.engine.cluster.protocol import (
    RequiredModelOrGraph,
    WorkerCapability,
    format_dask_resource_name,
    format_worker_code_version,
    import_dask_distributed_without_logs,
    parse_dask_resource_name,
)
from factmill.tasks.engine.services import check_model_variables_and_libraries
from factmill.tasks.errors import SettingsError, UsageError
from factmill.tasks.settings import load_world

ADDRESS = "tcp://10.0.0.5:8786"
NOTHING = pickle.dumps([])
NLLB = RequiredModelOrGraph("translator", "nllb@1234-float32-cpu")


def fail(_operation: str, _asked: object) -> object:
    raise UsageError("the folder is damaged")


def test_worker_answers_only_for_its_resources_and_matching_code_version() -> None:
    opened = []

    def open_model() -> object:
        opened.append(1)
        return lambda operation, asked: [operation, asked]

    set_resources_of_this_worker(
        ServedResources(
            [
                ServableModelOrGraph(NLLB, "nllb", open_model),
                ServableModelOrGraph(RequiredModelOrGraph("graph", "1"), "small", lambda: fail),
            ]
        )
    )  # type: ignore[arg-type, return-value]
    question = pickle.dumps(
        RequestGroupAnsweredByUnpickling(NLLB.kind, NLLB.identity, format_worker_code_version(), "calls", ["text"])
    )
    assert [pickle.loads(question), pickle.loads(question)] == [["answered", ["calls", ["text"]]]] * 2
    assert opened == [1]
    assert answer_or_refuse_driver_request("graph", "1", format_worker_code_version(), "item_paths", NOTHING) == [
        "refused",
        "the folder is damaged",
    ]
    assert answer_or_refuse_driver_request("graph", "2", format_worker_code_version(), "item_paths", NOTHING) == [
        "refused",
        "this worker does not hold the graph 2",
    ]
    refused = answer_or_refuse_driver_request(NLLB.kind, NLLB.identity, "factmill 0", "calls", NOTHING)
    assert refused == ["refused", f"this worker runs {format_worker_code_version()}; the request needs factmill 0"]
    set_resources_of_this_worker(ServedResources([]))


def test_worker_prints_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(_operation: str, _asked: object) -> object:
        raise MemoryError("no room for 8 GB")

    said: list[str] = []
    monkeypatch.setattr("factmill.tasks.engine.cluster.capabilities.print_and_log", said.append)
    set_resources_of_this_worker(
        ServedResources(
            [
                ServableModelOrGraph(NLLB, "nllb", lambda: run_out),
                ServableModelOrGraph(RequiredModelOrGraph("graph", "1"), "small", lambda: fail),
            ]
        )
    )
    with pytest.raises(MemoryError):  # makes Dask try another worker
        answer_or_refuse_driver_request(NLLB.kind, NLLB.identity, format_worker_code_version(), "calls", NOTHING)
    answer_or_refuse_driver_request("graph", "1", format_worker_code_version(), "item_paths", NOTHING)
    assert said == [
        f"note: the {NLLB} failed at calls: MemoryError: no room for 8 GB",
        "note: the graph 1 refused item_paths: the folder is damaged",
    ]
    set_resources_of_this_worker(ServedResources([]))


def test_dask_log_messages_are_suppressed() -> None:
    import_dask_distributed_without_logs()
    loggers = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    assert "distributed.client" in loggers
    assert not [name for name in loggers if logging.getLogger(name).isEnabledFor(logging.CRITICAL)]


def test_dask_resource_name_round_trips_worker_capability() -> None:
    held = WorkerCapability(NLLB, "factmill 0")
    assert parse_dask_resource_name(format_dask_resource_name(held)) == held
    assert [parse_dask_resource_name(name) for name in ("GPU", '["other", 1, 2, 3]', "3", '{"a": 1}')] == [None] * 4


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ([], f"no worker has joined {ADDRESS}.*: `factmill worker --address {ADDRESS}"),
        (
            [WorkerCapability(NLLB, "factmill 0")],
            r"runs other code \(factmill 0; here: .*install the same versions",
        ),
        (
            [WorkerCapability(RequiredModelOrGraph("translator", "nllb@1234-float16-cuda"), "factmill 0")],
            "they hold: nllb@1234-float16-cuda; .*: set compute_type",
        ),
        (
            [WorkerCapability(RequiredModelOrGraph("translator", "nllb@9876-float32-cpu"), "factmill 0")],
            "they hold: nllb@9876.*; start one on a machine",
        ),
        (
            [WorkerCapability(RequiredModelOrGraph("graph", "1"), "factmill 0")],
            "they hold no translator; start one on a machine that has it",
        ),
    ],
)
def test_missing_capability_message_says_what_to_do(held: list[WorkerCapability], text: str) -> None:
    workers = [WorkerInfo("tcp://10.0.0.6:1", tuple(held))] if held else []
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(format_missing_capability(NLLB, workers, ADDRESS))


def test_missing_dask_library_is_reported_before_build_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMILL_CLUSTER", ADDRESS)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SettingsError, match=r"not installed: pip install 'factmill\[dask\]'"):
        check_model_variables_and_libraries(load_world("embedded"), [])
