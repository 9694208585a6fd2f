"""MultiHal: questions of seven benchmarks with judged paths from Wikidata, in six languages."""

from prefect import flow

from flows.artifacts import leave_artifacts
from tasks.building import open_build
from tasks.core.multihal_rows import MultiHalRow
from tasks.foundations import read_foundation, type_answers, unite_duplicates
from tasks.judge_paths import score_paths, select_paths
from tasks.link import link_entities
from tasks.mine import label_paths, mine_paths
from tasks.multihal_benchmark import MULTIHAL
from tasks.multihal_params import MultiHalParams, lock_inputs
from tasks.options import BuildReport, RunOptions
from tasks.publish_multihal import publish_multihal
from tasks.translate import translate_paths


@flow(name="multihal", validate_parameters=True, persist_result=False)
def multihal(params: MultiHalParams = MultiHalParams(), run: RunOptions = RunOptions()) -> BuildReport:  # noqa: B008 - frozen
    """MultiHal: questions of seven benchmarks with judged paths from Wikidata (paper §2)."""
    locked = lock_inputs(params, run)
    with open_build(MULTIHAL, locked, run) as build:
        read = build.load(read_foundation, locked.files)  # §2, Table 1
        unique = build.stage(unite_duplicates, read, whole=True)  # §2.1
        typed = build.stage(type_answers, unique)  # §2.1, Appendix B
        linked = build.stage(link_entities, typed)  # §2.2, "Entity Matching"
        mined = build.stage(mine_paths, linked)  # §2.2, "Knowledge Graph Querying"
        labelled = build.stage(label_paths, mined)  # §2.2, Appendix C, Listing 5
        selected = build.stage(select_paths, labelled)  # §2.3, "Selection Step"
        scored = build.stage(score_paths, selected, opens=True)  # §2.3, "Scoring Step"
        translated = build.stage(translate_paths, scored, opens=True)  # §2.4
        report = publish_multihal(build, linked, mined, labelled, selected, scored, translated)
        leave_artifacts(report, translated.table(MultiHalRow))
    return report
