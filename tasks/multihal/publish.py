"""Publishing MultiHal, and what its report says: a funnel by stage and source, and statistics by domain (paper, Table 5)."""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.counting import count_values
from tasks.core.rows import arrow_schema, rows_from_arrow
from tasks.engine.building import Build
from tasks.engine.datasets import Dataset
from tasks.multihal.core.pairing import pair_up
from tasks.multihal.core.rows import (
    DroppedPath,
    FoundationQuestion,
    LinkedQuestion,
    MinedQuestion,
    MultiHalRow,
    ScoredPath,
    SelectedQuestion,
    TypedQuestion,
)
from tasks.options import BuildReport


def publish_multihal(
    build: Build,
    read: Dataset,
    unique: Dataset,
    typed: Dataset,
    linked: Dataset,
    mined: Dataset,
    labelled: Dataset,
    selected: Dataset,
    scored: Dataset,
    translated: Dataset,
) -> BuildReport:
    """Publish the benchmark, one row a path and language, and the table of the paths left out before scoring."""
    rows, paths, found = translated.table(MultiHalRow), scored.table(ScoredPath), mined.table(MinedQuestion)
    united = unique.table(FoundationQuestion)
    schema = arrow_schema(DroppedPath)
    dropped = pa.concat_tables([stage.extras(schema) for stage in (mined, labelled, selected)])
    questions = {
        "questions_read": read.table(FoundationQuestion),
        "questions_united": united,
        "questions_typed": typed.table(TypedQuestion),
        "questions_linked": linked.table(LinkedQuestion),
        "questions_with_paths": found,
        "questions_with_labelled_paths": labelled.table(MinedQuestion),
    }
    facts = {
        **{name: _by_source(table) for name, table in questions.items()},
        "questions_disputed": _by_source(
            united.filter(pc.greater(pc.list_value_length(united["disputed_answers"]), 0))
        ),
        "paths_mined": _count_paths(found),
        "paths_labelled": _count_paths(questions["questions_with_labelled_paths"]),
        "paths_selected": _count_paths(selected.table(SelectedQuestion)),
        "paths_scored_high": _by_source(paths),
        "questions_published": _by_source(_first_of_each(paths, "question_id")),
        "rows": _by_source(rows),
        "domains": describe_domains(
            zip(*(paths[name].to_pylist() for name in ("source_dataset", "domain", "question_id")), strict=True)
        ),
        "pairs": sum(len(pair_up(row)) for row in rows_from_arrow(LinkedQuestion, questions["questions_linked"])),
        "paths_in_all": pc.sum(found["paths_in_all"]).as_py() or 0,
        "paths_left_out": count_values(dropped["reason"].to_pylist()),
        "answer_types": count_values(paths["answer_type"].to_pylist()),
        "languages": count_values(rows["language"].to_pylist()),
        "licences": count_values(rows["licence"].to_pylist()),
        "chosen_by": count_values(paths["chosen_by"].to_pylist()),
    }
    return build.publish({"multihal": rows, "multihal_dropped_paths": dropped}, facts)


def describe_domains(paths: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, int]]:
    """Return "source: domain" → published questions and their paths, most paths first; paths are (source, domain, question)."""
    of_each = Counter(paths)
    told: dict[str, dict[str, int]] = {}
    for (source, domain, _), count in of_each.items():
        line = told.setdefault(f"{source}: {domain}", {"questions": 0, "paths": 0})
        line["questions"] += 1
        line["paths"] += count
    return dict(sorted(told.items(), key=lambda each: (-each[1]["paths"], each[0])))


def _by_source(rows: pa.Table) -> dict[str, int]:
    return count_values(rows["source_dataset"].to_pylist())


def _count_paths(questions: pa.Table) -> dict[str, int]:
    """Return source → paths of its questions."""
    counts: Counter[str] = Counter()
    for source, paths in zip(questions["source_dataset"].to_pylist(), questions["paths"].to_pylist(), strict=True):
        counts[source] += len(paths)
    return dict(sorted(counts.items()))


def _first_of_each(rows: pa.Table, column: str) -> pa.Table:
    """Return the rows with each value of a column once."""
    places = {value: place for place, value in reversed(list(enumerate(rows[column].to_pylist())))}
    return rows.take(pa.array(sorted(places.values()), pa.int64()))
