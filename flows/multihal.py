"""MultiHal: questions of seven benchmarks with judged paths from Wikidata, in six languages."""

from prefect import flow

from flows.watching.artifacts import leave_artifacts
from tasks.engine.building import open_build
from tasks.multihal.benchmark import MULTIHAL
from tasks.multihal.core.rows import MultiHalRow
from tasks.multihal.foundations import read_foundation, type_answers, unite_duplicates
from tasks.multihal.judge import score_paths, select_paths
from tasks.multihal.link import link_entities
from tasks.multihal.mine import label_paths, mine_paths
from tasks.multihal.params import MultiHalParams, lock_inputs
from tasks.multihal.publish import publish_multihal
from tasks.multihal.translate import translate_paths
from tasks.options import BuildReport, RunOptions


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
        report = publish_multihal(build, read, unique, typed, linked, mined, labelled, selected, scored, translated)
        leave_artifacts(MULTIHAL, report, translated.table(MultiHalRow))
    return report
