"""Steps of an evaluation on FanOutQA: the questions in each setting, a model's answers with its searches, grades and scores (paper §3.2, §4.1)."""

from tasks.evaluation.steps import make_answering, make_asking, make_judging, make_scoring
from tasks.fanoutqa.evaluation.record import FANOUTQA_EVALUATION

ask_fanoutqa_questions = make_asking(FANOUTQA_EVALUATION)
answer_fanoutqa_questions = make_answering(FANOUTQA_EVALUATION)
judge_fanoutqa_answers = make_judging(FANOUTQA_EVALUATION)
score_fanoutqa_answers = make_scoring(FANOUTQA_EVALUATION)
