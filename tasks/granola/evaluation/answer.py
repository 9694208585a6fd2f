"""Steps of an evaluation on GRANOLA-EQ: the questions in each setting, a model's answers, what they are worth (paper §2.2, §4, §5.1)."""

from tasks.evaluation.steps import make_answering, make_asking, make_scoring
from tasks.granola.evaluation.record import GRANOLA_EVALUATION

ask_granola_questions = make_asking(GRANOLA_EVALUATION)
answer_granola_questions = make_answering(GRANOLA_EVALUATION)
score_granola_answers = make_scoring(GRANOLA_EVALUATION)
