"""The build of FanOutQA: decomposed questions that need many articles, with evidence of one moment (§3.1, App. B)."""

from factmill.flows.recipes import Stage, make_recipe
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.gather import gather_questions, phrase_generated_questions
from factmill.tasks.fanoutqa.judge import judge_questions
from factmill.tasks.fanoutqa.pin import flag_answers, pin_evidence
from factmill.tasks.fanoutqa.publish import publish_fanoutqa
from factmill.tasks.fanoutqa.retrieval_check import find_near_articles, flag_answers_in_one_near_article
from factmill.tasks.fanoutqa.review import flag_duplicates, review_questions

ROWS_PER_BATCH_WITH_TEXTS, ROWS_PER_BATCH_WITH_NEAR_TEXTS = 100, 25
"""Questions in a batch that also holds their articles, about 7 or 30 a question; a batch stays below a gigabyte."""
fanoutqa = make_recipe(
    FANOUTQA,
    gather_questions,  # §3.1, Appendix E
    phrase_generated_questions,
    Stage(pin_evidence, most_rows=ROWS_PER_BATCH_WITH_TEXTS),  # §3.1, the snapshot
    Stage(flag_answers, most_rows=ROWS_PER_BATCH_WITH_TEXTS),  # Appendix B, heuristics and evidence
    Stage(find_near_articles, single_batch=True),  # Appendix B, retrieval check
    Stage(flag_answers_in_one_near_article, most_rows=ROWS_PER_BATCH_WITH_NEAR_TEXTS),
    Stage(judge_questions, most_rows=ROWS_PER_BATCH_WITH_TEXTS),  # Appendix F.1, F.2
    Stage(flag_duplicates, single_batch=True),  # Appendix B, duplicates
    review_questions,
    units=lambda locked: locked.inputs.units,
    publish=lambda build, left: publish_fanoutqa(
        build,
        left[pin_evidence],
        left[flag_answers],
        left[flag_answers_in_one_near_article],
        left[flag_duplicates],
        left[review_questions],
    ),
)
