"""Steps of an evaluation on MultiHal: the questions in every language, alone and with their paths, and a model's answers (paper §3.1)."""

from tasks.evaluation.steps import make_answering, make_asking, make_scoring
from tasks.multihal.evaluation.record import MULTIHAL_EVALUATION

ask_multihal_questions = make_asking(MULTIHAL_EVALUATION)
answer_multihal_questions = make_answering(MULTIHAL_EVALUATION)
score_multihal_answers = make_scoring(MULTIHAL_EVALUATION)
