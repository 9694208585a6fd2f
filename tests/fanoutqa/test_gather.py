"""Test questions of several files, with repetitions."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.rows import MergedAway, Reject
from factmill.tasks.fanoutqa.core.rows import GatheredFanOutQuestion
from factmill.tasks.fanoutqa.gather import _read_question_files
from factmill.tasks.storage.source_files import SourceFile

RIVERS = ["Enns", "Mur", "Drava", "Traun", "Salzach"]


def author(question: str, first: int = 254) -> dict[str, Any]:
    """Return an authoring-form question about the lengths of rivers."""
    lengths = dict(zip(RIVERS, (first, 464, 710, 153, 225), strict=True))
    leaves = [
        {"question": f"How many kilometres long is the {name}?", "evidence": f"https://en.wikipedia.org/wiki/{name}"}
        | {"answer": length}
        for name, length in lengths.items()
    ]
    return {"question": question, "strategy": leaves, "answer": lengths}


def read(folder: Path, **files: list[dict[str, Any]]) -> list[Any]:
    taken: dict[str, str] = {}
    sources: list[SourceFile] = []
    for name, rows in files.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(rows))
        sources.append(SourceFile(path, path.name, digest_bytes(path.read_bytes())))
    inputs = SimpleNamespace(own_source=None)
    work: Any = SimpleNamespace(
        source_files=lambda _unit: sources, add_input_row=taken.__setitem__, inputs=lambda _model: inputs
    )
    outcomes = list(_read_question_files(work))
    assert len(taken) == sum(map(len, files.values()))
    return outcomes


def test_duplicate_question_is_merged_into_first(tmp_path: Path) -> None:
    lengths, others = author("How many kilometres long is each?"), author("How long is each, in kilometres?")
    first, second, third = read(tmp_path, one=[lengths, others], two=[lengths])
    assert (first.source_name, second.source_row) == ("one.json", 2)
    assert third == MergedAway("two_0", first.id)
    assert isinstance(second, GatheredFanOutQuestion)


def test_same_question_with_different_answer_is_rejected_as_contradiction(tmp_path: Path) -> None:
    question = "How many kilometres long is each?"
    first, second = read(tmp_path, one=[author(question)], two=[author(question, first=349)])
    assert isinstance(first, GatheredFanOutQuestion)
    assert isinstance(second, Reject)
    assert (second.row_id, second.reason) == ("two_0", "contradicts")
    assert "one.json, row 1" in second.detail
