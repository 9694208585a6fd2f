"""BioKaLMA: questions about two people, with the smallest set of knowledge that answers them."""

from prefect import flow

from flows.watching.artifacts import leave_artifacts
from tasks.biokalma.benchmark import BIOKALMA
from tasks.biokalma.core.rows import BiographyRow
from tasks.biokalma.evolve import annotate_paragraph, ask_questions, evolve_paragraph
from tasks.biokalma.params import BiokalmaParams, lock_inputs
from tasks.biokalma.people import check_class, draw_person_pairs, read_person_pairs, resolve_people, unite_pairs
from tasks.biokalma.pools import count_relations_of_all, describe_pairs, pool_knowledge
from tasks.biokalma.publish import publish_biokalma
from tasks.core.calls.knowledge import HUMAN
from tasks.engine.building import open_build
from tasks.options import BuildReport, RunOptions


@flow(name="biokalma", validate_parameters=True, persist_result=False)
def biokalma(params: BiokalmaParams = BiokalmaParams(), run: RunOptions = RunOptions()) -> BuildReport:  # noqa: B008 - frozen
    """BioKaLMA: questions about two people with their minimum knowledge sets (paper §2.2, Appendix A)."""
    locked = lock_inputs(params, run)
    first = draw_person_pairs if locked.inputs.from_wikidata else read_person_pairs
    with open_build(BIOKALMA, locked, run) as build:
        if locked.inputs.from_wikidata and params.class_qid != HUMAN:
            check_class(build.run, params.class_qid)
        pairs = build.load(first, locked.inputs.limits)  # A.1 "Person Selection"
        resolved = build.stage(resolve_people, pairs)  # A.2 "Name Disambiguation"
        united = build.stage(unite_pairs, resolved, whole=True)
        pooled = build.stage(pool_knowledge, united)  # A.2, "knowledge pool"
        described = build.stage(describe_pairs, pooled)  # A.1
        counted = build.stage(count_relations_of_all, described, whole=True)  # Equation 1, Count_r
        annotated = build.stage(annotate_paragraph, counted)  # A.3, round 1
        evolved = build.stage(evolve_paragraph, annotated)  # A.3, rounds 2 to 5
        asked = build.stage(ask_questions, evolved)  # A.3, Tables 11 and 12
        report = publish_biokalma(build, resolved, counted, evolved, asked)
        leave_artifacts(BIOKALMA, report, asked.table(BiographyRow))
    return report
