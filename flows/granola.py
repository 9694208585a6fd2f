"""GRANOLA-EQ: entity questions with answers from fine to coarse."""

from prefect import flow

from flows.reviewing import ask_for_decisions
from flows.watching.artifacts import leave_artifacts
from tasks.engine.building import open_build
from tasks.granola.benchmark import GRANOLA
from tasks.granola.check import remove_trivial_answers
from tasks.granola.core.rows import GranolaRow
from tasks.granola.disambiguate import describe_entities, find_qids, measure_popularity
from tasks.granola.generate import generate_granular_answers
from tasks.granola.judge import score_description_consistency
from tasks.granola.params import GranolaParams, lock_inputs
from tasks.granola.publish import publish_granola
from tasks.granola.read import cut_question_entities, draw_questions, read_entity_questions
from tasks.options import BuildReport, RunOptions


@flow(name="granola", validate_parameters=True, persist_result=False)
def granola(params: GranolaParams = GranolaParams(), run: RunOptions = RunOptions()) -> BuildReport:  # noqa: B008 - frozen
    """GRANOLA-EQ: entity questions with answers from fine to coarse (paper §3)."""
    locked = lock_inputs(params, run)
    read = draw_questions if locked.inputs.from_wikidata else read_entity_questions
    with open_build(GRANOLA, locked, run) as build:
        questions = build.load(read, locked.inputs.limits)  # §3.2
        named = build.stage(cut_question_entities, questions)  # §3.1
        linked = build.stage(find_qids, named)  # Appendix B, "QID disambiguation"
        described = build.stage(describe_entities, linked)  # §3.1
        popular = build.stage(measure_popularity, described)
        answered = build.stage(generate_granular_answers, popular)  # §3.1, Table 8
        scored = build.stage(score_description_consistency, answered)  # Appendix B, "Data cleaning"
        cleaned = build.stage(remove_trivial_answers, scored)
        report = publish_granola(build, linked, described, cleaned)
        leave_artifacts(GRANOLA, report, cleaned.table(GranolaRow))
    if params.review == "ask" and ask_for_decisions(report, run):
        # once more with the decisions; what is still open is left out
        return granola.fn(params.model_copy(update={"review": "manual"}), run)
    return report
