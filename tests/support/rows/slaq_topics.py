"""Make a SLAQ topic with its article and five facts, after each of the later steps."""

import json
from typing import Any

from factmill.tasks.slaq.core.rows import CheckedTopic, QuestionedTopic, TopicInPopularityHalf

TEXT = (
    "The Pont du Gard is a bridge in France that carried water to the city of Nîmes. It crosses the river Gardon.\n\n"
    "Its three rows of arches reach a height of 49 metres. UNESCO listed it in 1985. Some say that Agrippa built it."
)
PAIRS = [
    {"question": "Which river does the Pont du Gard cross?", "answer": "The Gardon"},
    {"question": "How high is the Pont du Gard?", "answer": "49 metres"},
    {"question": "In which year did UNESCO list the Pont du Gard?", "answer": "1985"},
    {"question": "To which city did the Pont du Gard carry water?", "answer": "Nîmes"},
    {"question": "How many rows of arches has the Pont du Gard?", "answer": "Three"},
]
LONG_QUESTION = (
    "Describe the Pont du Gard by telling (1) which river it crosses, (2) how high it is, (3) in which year UNESCO listed "
    "it, (4) to which city it carried water, and (5) how many rows of arches it has."
)
LONG_ANSWER = (
    "The Pont du Gard, which carried water to Nîmes, crosses the Gardon on three rows of arches; it is 49 metres high, "
    "and UNESCO listed it in 1985."
)
WELL = {"short": PAIRS, "long_question": LONG_QUESTION, "long_answer": LONG_ANSWER}
GOOD = json.dumps(WELL, ensure_ascii=False)


def chosen(pageid: int = 1, title: str = "Pont du Gard", **changed: Any) -> TopicInPopularityHalf:
    columns = {
        "id": f"Bridges-{pageid}", "category": "Bridges", "subcategory": "Bridges", "pageid": pageid, "title": title,
        "url": f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}", "revid": 10 * pageid, "text": TEXT,
        "views": 100 * pageid, "views_from": "20201120", "views_to": "20231119", "half": "most",
        "source_name": "wiki", "source_row": pageid, "source_licence": "CC-BY-SA-4.0",
    }  # fmt: skip
    return TopicInPopularityHalf.model_validate(columns | changed)


def questioned(pageid: int = 1, **changed: Any) -> QuestionedTopic:
    return chosen(pageid, **changed).extend_to(
        QuestionedTopic,
        questions=[pair["question"] for pair in PAIRS],
        answers=[pair["answer"] for pair in PAIRS],
        long_question=LONG_QUESTION,
        long_answer=LONG_ANSWER,
        author="writer",
        author_call="k",
    )


def checked(pageid: int, half: str = "most", views: int | None = None, category: str = "Bridges") -> CheckedTopic:
    row = questioned(pageid, half=half, category=category, views=pageid if views is None else views)
    return row.extend_to(CheckedTopic, judge="tester", judge_call="k", flags=[], reviewed_by=[])
