"""Make our own fan-out questions: one in an author's form, and its equivalent in both released parts."""

from typing import Any

from factmill.tasks.fanoutqa.core.questions import (
    FanOutQuestion,
    format_released_decomposition,
    format_released_evidence,
)

WIKI = "https://en.wikipedia.org/wiki/"


def leaf(question: str, article: str, answer: Any, **more: Any) -> dict[str, Any]:
    """Return a sub-question in an author's form."""
    return {"question": question, "evidence": WIKI + article, "answer": answer, **more}


def author_question() -> dict[str, Any]:
    """Return a question with nested strategies, then, seven articles, and answers of all types."""
    return {
        "question": "How long are the rivers that flow through the capitals of Austria's neighbours Hungary and Slovakia?",
        "strategy": [
            leaf("Which of its neighbours have a capital on the Danube?", "Danube#Course", ["Hungary", "Slovakia"]),
            {
                "question": "What are the capitals of the two?",
                "strategy": [
                    leaf("What is the capital of Hungary?", "Hungary", "Budapest"),
                    leaf("What is the capital of Slovakia?", "Slovakia", "Bratislava"),
                ],
                "then": [leaf("Do both lie on one river?", "Bratislava", True)],
                "answer": {"Hungary": "Budapest", "Slovakia": "Bratislava"},
            },
            leaf("How many neighbours has Austria?", "Austria", 8.0),
        ],
        "then": [
            leaf("How long is that river in km?", "List_of_rivers_of_Europe", 2850),
            leaf("Which parts of Budapest does it divide?", "Budapest", ["Buda", "Pest"]),
        ],
        "answer": {"Budapest": 2850.0, "Bratislava": [2850, "km"]},
    }


def release_article(title: str, pageid: Any = 5, revid: Any = 7) -> dict[str, Any]:
    """Return an article of the released form."""
    return {"pageid": pageid, "revid": revid, "title": title, "url": WIKI + title.replace(" ", "_")}


def release_sub(name: str, answer: Any, *needs: str, **more: Any) -> dict[str, Any]:
    """Return a sub-question of the released form with an article, unless `more` differs."""
    return {
        "id": name,
        "question": f"What is {name}?",
        "decomposition": [],
        "answer": answer,
        "depends_on": list(needs),
        "evidence": release_article(f"Article {name}"),
        **more,
    }


def release_dev() -> dict[str, Any]:
    """Return a question of the dev part with a nested decomposition and an unresolved article."""
    lower = [
        release_sub("a", "x"),
        release_sub("b", 1, "a", evidence=release_article("Article b", "###TBD###", "###TBD###")),
    ]
    return {
        "id": "q-dev",
        "question": "What are all of these?",
        "decomposition": [
            release_sub("c", ["x", "y"]),
            release_sub("d", False),
            release_sub("e", {"k": [1, 2.5]}, "c", decomposition=lower, evidence=None),
        ],
        "answer": {"k": 1.0},
        "categories": ["Things"],
    }


def release_test() -> dict[str, Any]:
    """Return a question of the test part whose second article has a page, but no revision."""
    return {
        "id": "q-test",
        "question": "What are all of those?",
        "necessary_evidence": [release_article("One"), release_article("Two", 6, "###TBD###")],
        "categories": [],
    }


def write_released(question: FanOutQuestion) -> dict[str, Any]:
    """Return a question in the released form: of the dev part if it has an answer, else of the test part."""
    form: dict[str, Any] = {"id": question.id, "question": question.question}
    if question.answer is None:
        form["necessary_evidence"] = [format_released_evidence(each) for each in question.necessary_evidence]
    else:
        form |= {"decomposition": format_released_decomposition(question.decomposition), "answer": question.answer}
    return {**form, "categories": list(question.categories)}
