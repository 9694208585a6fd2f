"""Test the questions about a topic, and the guesser's answers."""

import pytest
from support.rows.slaq_answers import answer_row

from factmill.tasks.slaq.core.evaluation.answers import (
    guess_commonest_answers,
    list_topic_questions,
    make_fact_type_answer_guesser,
)
from factmill.tasks.slaq.core.rows import SlaqTopicRow


def topic(topic_id: str, *answers: str) -> SlaqTopicRow:
    """Return a topic whose five answers have the types PERSON, PERSON, DATE, none, none."""
    types = ["PERSON", "PERSON", "DATE", "none", "none"]
    columns = {"id": topic_id, "Category": "Bridges", "Topic": f"Bridge {topic_id}", "URL": "https://x", "revid": 1}
    for number, (answer, kind) in enumerate(zip(answers, types, strict=True), 1):
        columns |= {f"ShortQ{number}": f"Question {number}?", f"ShortA{number}": answer}
        columns[f"ShortQ{number}_Entity"] = int(kind != "none")
    result = {"LongQ": "All five?", "LongA": "All five.", "Pageviews": 1, "half": "most", "fact_types": types}
    by = {"fact_types_by": "j", "author": "a", "judge": "j", "reviewed_by": [], "licence": "CC0-1.0"}
    source = {"source_name": "wiki", "source_row": 1, "source_licence": "CC0-1.0"}
    return SlaqTopicRow.model_validate(columns | result | by | source)


TOPICS = [topic("a", "Ada", "Bo", "1985", "red", "stone"), topic("b", "Ada", "Cy", "1990", "red", "wood")]


def test_topic_yields_five_short_questions_and_one_long_question() -> None:
    short = list(list_topic_questions(TOPICS[0], "short"))
    assert [each.id for each in short] == [f"short/a/{number}" for number in range(1, 6)]
    assert [each.question_id for each in short] == [f"a/{number}" for number in range(1, 6)]
    assert [(each.question, each.gold, each.golds, each.fact_types, each.position) for each in short][2] == (
        "Question 3?", "1985", ["1985"], ["DATE"], 3
    )  # fmt: skip
    (long,) = list_topic_questions(TOPICS[0], "long")
    assert (long.id, long.question_id, long.position) == ("long/a/long", "a/long", 0)
    assert (long.question, long.gold) == ("All five?", "All five.")
    assert long.golds == ["Ada", "Bo", "1985", "red", "stone"]
    assert {each.cluster for each in (*short, long)} == {"a"}


@pytest.mark.parametrize(
    ("kinds", "golds", "said"),
    [
        (["PERSON"], ["Bo"], "Ada"),  # Ada twice
        (["PERSON"], ["Ada"], "Ada"),  # one more elsewhere, and alphabetically before Bo and Cy
        (["DATE"], ["1985"], "1990"),
        (["none"], ["red"], "red"),
        (["none"], ["stone"], "red"),
        (["PERSON", "DATE"], ["Bo", "1985"], "Ada\n1990"),
    ],
)
def test_guess_is_most_common_answer_among_other_facts_of_same_type(
    kinds: list[str], golds: list[str], said: str
) -> None:
    asked = answer_row("", fact_types=kinds, golds=golds)
    assert guess_commonest_answers(asked, make_fact_type_answer_guesser(TOPICS)) == said


def test_guesser_gives_no_answer_without_other_facts_of_same_type() -> None:
    asked = answer_row("", fact_types=["DATE"], golds=["1985"])
    assert guess_commonest_answers(asked, make_fact_type_answer_guesser(TOPICS[:1])) == ""
