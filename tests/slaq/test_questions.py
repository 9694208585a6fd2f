"""Test the later steps of SLAQ with a scripted chat server: questions, checks, review, halves, kinds of facts."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted_chat import Message, ScriptedChat, make_chat_services
from support.rows.slaq_topics import GOOD, LONG_ANSWER, LONG_QUESTION, PAIRS, WELL, checked, chosen, questioned
from support.steps.inputs import slaq_inputs
from support.steps.steps import Left, run_step

from factmill.tasks.core.review import AUTO_POLICY_REVIEWER
from factmill.tasks.errors import SourceError
from factmill.tasks.slaq.questions import (
    SECOND_MODEL_FLAG,
    balance_halves,
    check_questions,
    classify_fact_answers,
    write_questions,
)

ONE_LINE = (
    ", ".join(f"ShortQ{n} : {pair['question']}, ShortA{n} : {pair['answer']}" for n, pair in enumerate(PAIRS, 1))
    + f", LongQ : {LONG_QUESTION}, LongA : {LONG_ANSWER}"
)
ALL_OK = "\n".join(f"{number}: ok" for number in range(1, 6))

_MATERIAL = re.compile(r"<topic>(.*?)</topic>|<question>(.*?)</question>", re.DOTALL)
Said = str | int
"""The model's completion, or the HTTP status of its failure."""


class Talker:
    """A model; `says` maps a topic or short question to its first and second reply."""

    def __init__(self) -> None:
        self.says: dict[str, Sequence[Said]] = {}
        self.otherwise: Said = GOOD
        self.asked: list[tuple[str, str]] = []
        """Topic or question, and correction, which is empty in the first request."""
        self.chat = ScriptedChat(self._answer)

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        is_again = "<" not in messages[-1]["content"].split("\n")[0]
        (found,) = _MATERIAL.findall(messages[-3 if is_again else -1]["content"])
        about = "".join(found)
        self.asked.append((about, messages[-1]["content"] if is_again else ""))
        said = self.says.get(about, [self.otherwise] * 2)[int(is_again)]
        return (200, said) if isinstance(said, str) else (said, "overloaded")


Run = Callable[..., Left]


@pytest.fixture
def talker() -> Iterator[Talker]:
    talker = Talker()
    yield talker
    talker.chat.close()


@pytest.fixture
def run(talker: Talker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a step on rows; responses are cached, so another run of the step sends nothing."""

    def run(step: Any, *rows: Any, review: str = "auto", decisions: Sequence[Any] = (), **params: Any) -> Left:
        services = make_chat_services(talker.chat.url)
        inputs = slaq_inputs(reviewing={"policy": review, "decisions": decisions}, **params)
        return run_step(step, rows, services, tmp_path / step.name, monkeypatch, inputs)

    return run


def reply_with(which: int = 0, pair: Mapping[str, str] | None = None, **changed: Any) -> str:
    """Return the good reply with one pair, or other parts, changed."""
    short = [{**each, **(pair or {})} if at == which else each for at, each in enumerate(PAIRS, 1)]
    return json.dumps(WELL | {"short": short} | changed, ensure_ascii=False)


@pytest.mark.parametrize("reply", [GOOD, ONE_LINE], ids=["object", "one line"])
def test_five_pairs_are_read_from_both_accepted_forms(run: Run, talker: Talker, reply: str) -> None:
    talker.says = {"Pont du Gard": [reply]}
    left = run(write_questions, chosen())
    (row,) = left.rows.values()
    assert [row["questions"], row["answers"]] == [[each[part] for each in PAIRS] for part in ("question", "answer")]
    assert (row["long_question"], row["long_answer"], row["author"]) == (LONG_QUESTION, LONG_ANSWER, "tester")
    assert talker.asked == [("Pont du Gard", "")]


TWELVE = "The Pont du Gard is a bridge in France that carried water"
BAD = {
    "four pairs": (json.dumps(WELL | {"short": PAIRS[:4]}), "reply_not_in_format", '"short" holds 4 pairs, expected exactly 5'),
    "broken JSON": (GOOD[:-1], "reply_not_in_format", "the JSON is broken near"),
    "twelve words": (reply_with(4, {"answer": TWELVE}), "answer_too_long", "pair 4: the answer has 12 words; expected fewer than 10"),
    "not in the text": (
        reply_with(1, {"answer": "The Rhône"}), "answer_not_in_article",
        "pair 1: the answer 'The Rhône' does not stand in the article; use the article's own words",
    ),
    "twice": (reply_with(5, PAIRS[1]), "same_question", "pair 5: the question is the same as question 2"),
    "a name more": (
        reply_with(long_answer=LONG_ANSWER.replace("; it", " of Agrippa; it")), "long_answer_adds",
        "long: the long answer says 'Agrippa'",
    ),
    "a fact less": (
        reply_with(long_answer=LONG_ANSWER.replace(", and UNESCO listed it in 1985", "")), "long_answer_lacks",
        "pair 3: the long answer does not hold the answer '1985'",
    ),
}  # fmt: skip
"""Maps a case to a reply, the reason of its refusal, and the correction sent to the author."""


@pytest.mark.parametrize(("reply", "reason", "text"), BAD.values(), ids=BAD)
def test_invalid_completion_is_requested_again_once_with_reasons(
    run: Run, talker: Talker, reply: str, reason: str, text: str
) -> None:
    talker.says = {"Pont du Gard": [reply, GOOD], "Bad bridge": [reply, reply]}
    left = run(write_questions, chosen(), chosen(2, "Bad bridge"))
    assert list(left.rows) == ["Bridges-1"], "the second reply is taken"
    assert left.rows["Bridges-1"]["answers"] == [pair["answer"] for pair in PAIRS]
    found, detail = left.rejects["Bridges-2"]
    assert (found, text in detail) == (reason, True), detail
    asked = [correction for about, correction in talker.asked if about == "Pont du Gard"]
    assert (len(asked), asked[0], text in asked[1]) == (2, "", True), asked
    assert "Reply once more, in exactly the form described" in asked[1]
    assert left.receipt.unsettled == 0


def test_corrected_pair_is_taken_and_other_pairs_are_kept(run: Run, talker: Talker) -> None:
    first = reply_with(2, {"answer": "48 metres"})
    # the second attempt corrects that pair and breaks another
    second = reply_with(4, {"answer": "Paris"})
    talker.says = {"Pont du Gard": [first, second]}
    left = run(write_questions, chosen())
    assert left.rows["Bridges-1"]["answers"] == [pair["answer"] for pair in PAIRS]
    assert "repeat the pairs that are not named here as they are" in talker.asked[1][1]


def test_pair_that_stays_invalid_rejects_topic(run: Run, talker: Talker) -> None:
    talker.says = {"Pont du Gard": [reply_with(2, {"answer": "48 metres"}), reply_with(2, {"answer": "47 metres"})]}
    assert run(write_questions, chosen()).rejects["Bridges-1"][0] == "answer_not_in_article"


def test_correction_lists_all_problems_and_reject_has_first_one(run: Run, talker: Talker) -> None:
    pair = {"question": "According to the text, how high is the Pont du Gard", "answer": "48 metres"}
    talker.says = {"Pont du Gard": [reply_with(2, pair)] * 2}
    left = run(write_questions, chosen())
    assert left.rejects["Bridges-1"][0] == "no_question_mark"
    (_, correction) = talker.asked[1]
    for said in ("does not end with a question mark", "'according to the text'", "'48 metres' does not stand"):
        assert said in correction


def test_unavailable_author_rejects_row_as_retryable(run: Run, talker: Talker) -> None:
    talker.says = {"Pont du Gard": [500]}
    left = run(write_questions, chosen(), chosen(2, "Pont du Gard too"))
    assert left.rejects["Bridges-1"][0] == "model_failed"
    assert (left.receipt.unsettled, list(left.rows)) == (1, ["Bridges-2"])


def test_pairs_approved_by_second_model_pass(run: Run, talker: Talker) -> None:
    talker.otherwise = ALL_OK
    left = run(check_questions, questioned())
    row = left.rows["Bridges-1"]
    assert (row["flags"], row["reviewed_by"], row["judge"], left.extras) == ([], [], "tester", [])


FLAGGED = ALL_OK.replace("2: ok", "2: the bridge is not named").replace("5: ok", "5: the article says four")
FLAGS = ["ShortQ2: the bridge is not named", "ShortQ5: the article says four"]


def test_auto_policy_drops_flagged_rows(run: Run, talker: Talker) -> None:
    talker.otherwise, talker.says = ALL_OK, {"Bad bridge": [FLAGGED]}
    left = run(check_questions, questioned(), questioned(2, title="Bad bridge"))
    assert list(left.rows) == ["Bridges-1"]
    assert left.rejects["Bridges-2"] == (
        "dropped_in_review",
        f"{SECOND_MODEL_FLAG}: {FLAGS[0]}; {SECOND_MODEL_FLAG}: {FLAGS[1]}; dropped by {AUTO_POLICY_REVIEWER}",
    )
    assert [(each["row_id"], each["flag"], each["detail"], each["decision"], each["reviewer"]) for each in left.extras] == [
        ("Bridges-2", SECOND_MODEL_FLAG, said, "drop", AUTO_POLICY_REVIEWER) for said in FLAGS
    ]  # fmt: skip
    context = left.extras[0]["context"]
    for part in (
        "Bad bridge (https://en.wikipedia.org/wiki/Bad_bridge, revision 20)",
        "2. How high",
        "49 metres",
        LONG_ANSWER,
    ):
        assert part in context


@pytest.fixture
def flagged(run: Run, talker: Talker) -> list[dict[str, Any]]:
    """Return the open items of a row with two flags, under the policy manual."""
    talker.otherwise = FLAGGED
    left = run(check_questions, questioned(), review="manual")
    assert left.rows == {}
    assert left.rejects["Bridges-1"] == (
        "not_reviewed",
        f"waits for a decision about {SECOND_MODEL_FLAG}, {SECOND_MODEL_FLAG}",
    )
    assert [(each["detail"], each["decision"], each["reviewer"]) for each in left.extras] == [
        (said, "open", "") for said in FLAGS
    ]
    return left.extras


def decide(item: Mapping[str, Any], decision: str, reviewer: str, **edited: str) -> dict[str, Any]:
    edits = [{"field": field, "text": text} for field, text in edited.items()]
    return {**item, "decision": decision, "reviewer": reviewer, "edited": edits}


@pytest.mark.parametrize("review", ["auto", "manual"])
def test_reviewers_can_keep_and_edit_rows_under_any_policy(
    run: Run, talker: Talker, flagged: list[dict[str, Any]], review: str
) -> None:
    new = {"ShortQ2": "How tall is the Pont du Gard?", "ShortA5": "3", "LongA": "It is 49 metres tall."}
    decisions = [decide(flagged[0], "edit", "Ann", **new), decide(flagged[1], "keep", "Bob")]
    other_batch = {**decide(flagged[0], "drop", "Eve"), "id": "0" * 16, "row_id": "Bridges-9"}
    left = run(check_questions, questioned(), review=review, decisions=[*decisions, other_batch])
    (row,) = left.rows.values()
    assert row["questions"] == [PAIRS[0]["question"], new["ShortQ2"], *(pair["question"] for pair in PAIRS[2:])]
    assert row["answers"] == [*(pair["answer"] for pair in PAIRS[:4]), "3"]
    assert (row["long_question"], row["long_answer"]) == (LONG_QUESTION, new["LongA"])
    assert (row["reviewed_by"], row["flags"]) == (["Ann", "Bob"], FLAGS)
    assert [each["decision"] for each in left.extras] == ["edit", "keep"]
    assert len(talker.asked) == 1, "the reply is recorded"


def test_reviewer_can_drop_row(run: Run, flagged: list[dict[str, Any]]) -> None:
    decisions = [decide(flagged[0], "keep", "Ann"), decide(flagged[1], "drop", "Bob") | {"note": "No such bridge"}]
    left = run(check_questions, questioned(), review="manual", decisions=decisions)
    assert left.rejects["Bridges-1"] == (
        "dropped_in_review",
        f"{SECOND_MODEL_FLAG}: {FLAGS[1]}; dropped by Bob: No such bridge; also flagged: {SECOND_MODEL_FLAG}",
    )


def test_row_awaits_decisions_on_all_its_flags(run: Run, flagged: list[dict[str, Any]]) -> None:
    decisions = [decide(flagged[0], "keep", "Ann")]
    left = run(check_questions, questioned(), review="manual", decisions=decisions)
    assert left.rejects["Bridges-1"] == ("not_reviewed", f"waits for a decision about {SECOND_MODEL_FLAG}")
    auto = run(check_questions, questioned(), review="auto", decisions=decisions)
    assert auto.rejects["Bridges-1"][0] == "dropped_in_review"


def test_editing_unknown_text_raises_source_error(run: Run, flagged: list[dict[str, Any]]) -> None:
    decisions = [decide(flagged[0], "edit", "Ann", ShortQ6="Who?")]
    with pytest.raises(SourceError, match=r"'ShortQ6' cannot be edited in slaq; expected one of \['ShortQ1'"):
        run(check_questions, questioned(), review="manual", decisions=decisions)


def test_decision_is_void_when_questions_change(run: Run, flagged: list[dict[str, Any]]) -> None:
    other = questioned().replace(answers=["The Gardon", "50 metres", "1985", "Nîmes", "Three"])
    decisions = [decide(each, "keep", "Ann") for each in flagged]
    assert run(check_questions, other, review="manual", decisions=decisions).rejects["Bridges-1"][0] == "not_reviewed"


def test_unreadable_or_unavailable_judge_rejects_row(run: Run, talker: Talker) -> None:
    talker.otherwise = ALL_OK
    talker.says = {"Mute": ["1: ok", "1: ok"], "Late": ["1: ok", ALL_OK], "Down": [503]}
    rows = [questioned(number, title=title) for number, title in enumerate(("Good", "Mute", "Late", "Down"), 1)]
    left = run(check_questions, *rows)
    assert list(left.rows) == ["Bridges-1", "Bridges-3"]
    assert left.reasons == {
        "Bridges-2": "reply_not_in_format",
        "Bridges-4": "model_failed",
    }
    assert '0 lines of the form "2: ok"' in dict(each for each in talker.asked if each[1])["Late"]
    assert left.receipt.unsettled == 1


def list_halves(left: Left) -> list[tuple[str, str, int]]:
    return [(row["category"], row["half"], row["pageid"]) for row in left.rows.values()]


def test_halves_are_balanced_from_extremes_inward(run: Run) -> None:
    rows = [checked(1, "least"), checked(2, "least"), checked(3, "least"), checked(8), checked(9)]
    art = [checked(4, "least", category="Art"), checked(5, category="Art"), checked(6, category="Art")]
    left = run(balance_halves, *rows, *art, checked(7, category="Law"), per_half=2)
    assert list_halves(left) == [
        *(("Bridges", half, number) for half, number in (("most", 9), ("most", 8), ("least", 1), ("least", 2))),
        *(("Art", "most", 6), ("Art", "least", 4)),
    ]
    assert left.rejects == {
        "Bridges-3": ("half_is_full", "Bridges: 2 most and 3 least viewed topics"),
        "Bridges-5": ("other_half_is_short", "Art: 2 most and 1 least viewed topics"),
        "Bridges-7": ("other_half_is_short", "Law: 1 most and 0 least viewed topics"),
    }


def test_longer_half_is_cut_to_shorter_and_ties_break_by_page_id(run: Run) -> None:
    rows = [checked(1, "least", 0), *(checked(number, "most", 50) for number in (7, 5, 6))]
    assert list_halves(run(balance_halves, *rows)) == [("Bridges", "most", 5), ("Bridges", "least", 1)]
    ties = [checked(number, half, 50) for number, half in ((1, "most"), (2, "most"), (3, "least"), (4, "least"))]
    assert list_halves(run(balance_halves, *ties, per_half=1)) == [("Bridges", "most", 1), ("Bridges", "least", 4)]


def test_facts_are_classified_and_row_has_published_columns(run: Run, talker: Talker) -> None:
    types = ["LOC", "QUANTITY", "DATE", "GPE", "none"]
    talker.says = {pair["question"]: [f"Type: {kind}"] for pair, kind in zip(PAIRS, types, strict=True)}
    left = run(classify_fact_answers, checked(7, views=0).replace(reviewed_by=["Ann"]))
    (row,) = left.rows.values()
    short = {f"ShortQ{n}": pair["question"] for n, pair in enumerate(PAIRS, 1)} | {
        f"ShortA{n}": pair["answer"] for n, pair in enumerate(PAIRS, 1)
    }
    assert row == {
        "id": "Bridges-7",
        "Category": "Bridges",
        "Topic": "Pont du Gard",
        "URL": "https://en.wikipedia.org/wiki/Pont_du_Gard",
        "revid": 70,
        **short,
        "LongQ": LONG_QUESTION,
        "LongA": LONG_ANSWER,
        "Pageviews": 0,
        "half": "most",
        **{f"ShortQ{n}_Entity": int(kind != "none") for n, kind in enumerate(types, 1)},
        "fact_types": types,
        "fact_types_by": "tester",
        "author": "writer",
        "judge": "tester",
        "reviewed_by": ["Ann"],
        "licence": "CC-BY-SA-4.0",
        "source_name": "wiki",
        "source_row": 7,
        "source_licence": "CC-BY-SA-4.0",
    }


def test_fact_without_valid_type_rejects_topic(run: Run, talker: Talker) -> None:
    talker.otherwise = "Type: DATE"
    talker.says = {PAIRS[2]["question"]: ["a date", "Type: YEAR"]}
    other = checked(2).replace(questions=[f"{pair['question']} " for pair in PAIRS])
    left = run(classify_fact_answers, checked(1), other)
    assert list(left.rows) == ["Bridges-2"]
    reason, detail = left.rejects["Bridges-1"]
    assert (reason, "the type 'YEAR' is none of PERSON" in detail) == ("reply_not_in_format", True)
