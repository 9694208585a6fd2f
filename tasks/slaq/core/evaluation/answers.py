"""Rows of SLAQ's evaluation: a short question or the long one, the model's answer, and the verdicts."""

from collections.abc import Iterable, Iterator

from factmill.tasks.core.evaluation.answers import CommonestAnswerGuesser
from factmill.tasks.core.evaluation.rows import EvaluationPrediction, EvaluationQuestion
from factmill.tasks.slaq.core.pair_replies import PAIRS_PER_TOPIC
from factmill.tasks.slaq.core.rows import PopularityHalf, SlaqTopicRow

SHORT_SETTING, LONG_SETTING = "short", "long"


class SlaqQuestion(EvaluationQuestion):
    """A question about a topic: one of its short questions (setting short), or the long one (setting long)."""

    topic: str
    """Title of the article that the facts are from."""
    category: str
    """Category that the article was drawn from."""
    half: PopularityHalf
    """Half of the category by page views: most or least viewed."""
    position: int
    """Place of the short question in the long one, 1 to 5; 0 for the long one itself."""
    questions: list[str]
    """The short question; for the long one all five, in order."""
    golds: list[str]
    """Their gold answers."""
    fact_types: list[str]
    """OntoNotes classes of the gold answers; `none` if not an entity."""
    gold: str
    """Gold answer to the question asked."""


class SlaqPrediction(SlaqQuestion, EvaluationPrediction):
    """A question with the model's answer."""


class ScoredSlaqPrediction(SlaqPrediction):
    """A model's answer to a short question (one fact) or a long one (five facts) of SLAQ, with the judge's verdicts."""

    verdicts: list[int]
    """1 right, 0 wrong: one for a short answer, five for a long one; empty if unjudged."""
    judge: str
    """The judge; `exact` is a program, not a model."""
    judge_call: str
    """Key of the judge's recorded call; empty if it was not asked."""


def list_topic_questions(row: SlaqTopicRow, setting: str) -> Iterator[SlaqQuestion]:
    """Yield a topic's questions in a setting: five short ones, or the long one."""
    numbers = range(1, PAIRS_PER_TOPIC + 1)
    questions, golds = ([getattr(row, f"Short{kind}{number}") for number in numbers] for kind in "QA")
    for position in (0,) if setting == LONG_SETTING else numbers:
        facts = slice(position - 1, position) if position else slice(None)
        part = str(position or LONG_SETTING)
        yield SlaqQuestion(
            id=f"{setting}/{row.id}/{part}",
            question_id=f"{row.id}/{part}",
            setting=setting,
            position=position,
            question=questions[position - 1] if position else row.LongQ,
            gold=golds[position - 1] if position else row.LongA,
            questions=questions[facts],
            golds=golds[facts],
            fact_types=row.fact_types[facts],
            item=row.id,
            cluster=row.id,
            topic=row.Topic,
            category=row.Category,
            half=row.half,
        )


def make_fact_type_answer_guesser(rows: Iterable[SlaqTopicRow]) -> CommonestAnswerGuesser[str]:
    """Count the gold answers of each fact type, to guess the commonest."""
    return CommonestAnswerGuesser(
        (kind, getattr(row, f"ShortA{number}")) for row in rows for number, kind in enumerate(row.fact_types, 1)
    )


def guess_commonest_answers(asked: SlaqQuestion, guesser: CommonestAnswerGuesser[str]) -> str:
    """Return, a line for each fact asked, the commonest gold answer of other facts of its type, or an empty line."""
    return "\n".join(map(guesser.guess, asked.fact_types, asked.golds))
