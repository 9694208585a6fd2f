"""Steps of an evaluation on SLAQ: the questions short and long, a model's answers, and their verdicts (paper §4.1, Appendix A.2)."""

from tasks.evaluation.steps import make_answering, make_asking, make_judging
from tasks.slaq.evaluation.record import SLAQ_EVALUATION

ask_slaq_questions = make_asking(SLAQ_EVALUATION)
answer_slaq_questions = make_answering(SLAQ_EVALUATION)
judge_slaq_answers = make_judging(SLAQ_EVALUATION)
