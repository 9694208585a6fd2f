"""Publishing MultiHal, and what its report says beside the funnel: questions and paths per source, stage and language."""

import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.counting import count_values
from tasks.core.rows import arrow_schema, rows_from_arrow
from tasks.engine.building import Build, Dataset
from tasks.multihal.core.pairing import pair_up
from tasks.multihal.core.rows import DroppedPath, LinkedQuestion, MinedQuestion, MultiHalRow, ScoredPath
from tasks.options import BuildReport


def publish_multihal(
    build: Build,
    linked: Dataset,
    mined: Dataset,
    labelled: Dataset,
    selected: Dataset,
    scored: Dataset,
    translated: Dataset,
) -> BuildReport:
    """Publish the benchmark, one row a path and language, and the table of the paths left out before scoring."""
    rows = translated.table(MultiHalRow)
    schema = arrow_schema(DroppedPath)
    dropped = pa.concat_tables([stage.extras(schema) for stage in (mined, labelled, selected)])
    facts = {
        "linked": _by_source(linked.table(LinkedQuestion)),
        "pairs": sum(len(pair_up(row)) for row in rows_from_arrow(LinkedQuestion, linked.table(LinkedQuestion))),
        "paths_in_all": pc.sum(mined.table(MinedQuestion)["paths_in_all"]).as_py() or 0,
        "paths_left_out": count_values(dropped["reason"].to_pylist()),
        "paths_scored_high": _by_source(scored.table(ScoredPath)),
        "answer_types": count_values(scored.table(ScoredPath)["answer_type"].to_pylist()),
        "rows": _by_source(rows),
        "languages": count_values(rows["language"].to_pylist()),
        "licences": count_values(rows["licence"].to_pylist()),
        "chosen_by": count_values(scored.table(ScoredPath)["chosen_by"].to_pylist()),
    }
    return build.publish({"multihal": rows, "multihal_dropped_paths": dropped}, facts)


def _by_source(rows: pa.Table) -> dict[str, int]:
    return count_values(rows["source_dataset"].to_pylist())
