"""What a model that knows nothing guesses on MultiHal, and how answers are taken out of replies."""

import pytest

from tasks.core.replies import Said, read_said
from tasks.multihal.core.evaluation.answers import ANSWER, guess_answers
from tasks.multihal.core.rows import MultiHalRow


def _row(question: str, language: str, output: str, source: str = "defan", path: int = 0) -> MultiHalRow:
    told = {"question_id": question, "language": language, "output": output, "source_dataset": source}
    return MultiHalRow.model_construct(id=f"{question}_{path}_{language}", **told)


def test_the_guess_is_the_commonest_answer_to_other_questions_of_the_foundation_in_the_language() -> None:
    rows = [
        _row("a", "eng", "1946"),
        _row("b", "eng", "1946"),
        _row("b", "eng", "1946", path=1),
        _row("c", "eng", "1950"),
        _row("d", "eng", "1950"),
        _row("a", "deu", "1946"),
        _row("e", "eng", "Bonn", source="simpleqa"),
    ]
    guesses = guess_answers(rows)
    # two questions each: for a question of 1946 there is one of 1946 left, and two of 1950
    assert (guesses["a", "eng"], guesses["b", "eng"]) == ("1950", "1950")
    assert (guesses["c", "eng"], guesses["d", "eng"]) == ("1946", "1946")
    # nothing else was asked in German, or by that foundation
    assert (guesses["a", "deu"], guesses["e", "eng"]) == ("", "")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Answer: She was born in London.", "She was born in London."),
        ("**Antwort:** London", "London"),
        ("<think>London or Paris?</think>Réponse : Londres", "Londres"),
        ("Londres", "Londres"),
    ],
)
def test_the_word_for_an_answer_is_none_of_it(reply: str, answer: str) -> None:
    said = read_said(reply, "stop", ANSWER)
    assert isinstance(said, Said)
    assert said.text == answer
