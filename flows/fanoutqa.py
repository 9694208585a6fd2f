"""FanOutQA: questions that need many articles, with their decompositions, on evidence of one moment."""

from prefect import flow

from flows.reviewing import ask_for_decisions
from flows.watching.artifacts import leave_artifacts
from tasks.engine.building import open_build
from tasks.fanoutqa.benchmark import FANOUTQA
from tasks.fanoutqa.core.rows import FlaggedQuestion
from tasks.fanoutqa.gather import gather_questions
from tasks.fanoutqa.judge import judge_questions
from tasks.fanoutqa.near import check_near_articles, find_near_articles
from tasks.fanoutqa.params import FanOutParams, lock_inputs
from tasks.fanoutqa.pin import flag_answers, pin_evidence
from tasks.fanoutqa.publish import publish_fanoutqa
from tasks.fanoutqa.review import flag_duplicates, review_questions
from tasks.fanoutqa.word import word_questions
from tasks.options import BuildReport, RunOptions
from tasks.progress import say

ROWS_WITH_TEXTS, ROWS_WITH_NEAR_TEXTS = 100, 25
"""Questions of a batch that holds their articles, some seven or thirty a question, so that it stays below a gigabyte."""


@flow(name="fanoutqa", validate_parameters=True, persist_result=False)
def fanoutqa(params: FanOutParams = FanOutParams(), run: RunOptions = RunOptions()) -> BuildReport:  # noqa: B008 - frozen
    """FanOutQA: questions that need many articles (paper §3.1, Appendix B)."""
    locked = lock_inputs(params, run)
    if not params.titles and run.world != "embedded":
        say("no --titles: the retrieval check looks among the articles of these questions alone")
    with open_build(FANOUTQA, locked, run) as build:
        gathered = build.load(gather_questions, locked.inputs.units)  # §3.1, Appendix E
        worded = build.stage(word_questions, gathered)
        pinned = build.stage(pin_evidence, worded, most_rows=ROWS_WITH_TEXTS)  # §3.1, the snapshot
        flagged = build.stage(flag_answers, pinned, most_rows=ROWS_WITH_TEXTS)  # Appendix B, heuristics and evidence
        near = build.stage(find_near_articles, flagged, whole=True)  # Appendix B, retrieval check
        retrieved = build.stage(check_near_articles, near, most_rows=ROWS_WITH_NEAR_TEXTS)
        judged = build.stage(judge_questions, retrieved, most_rows=ROWS_WITH_TEXTS)  # Appendix F.1, F.2
        compared = build.stage(flag_duplicates, judged, whole=True)  # Appendix B, duplicates
        reviewed = build.stage(review_questions, compared)
        report = publish_fanoutqa(build, locked.inputs, pinned, flagged, retrieved, compared, reviewed)
        leave_artifacts(FANOUTQA, report, reviewed.table(FlaggedQuestion))
    if params.review == "ask" and ask_for_decisions(report, run):
        # once more with the decisions; what is still open is left out
        return fanoutqa.fn(params.model_copy(update={"review": "manual"}), run)
    return report
