"""Test labels and judge cards for grades (FanOutQA) and ratings (BioKaLMA)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.rows.csv_files import read_csv, write_csv

from factmill.tasks.core.evaluation.judge_cards import JudgeCard, JudgeIdentity, format_card_summary

KEY = {"TEST_KEY": "k"}
SETTING = {"fanoutqa": "closed_book", "biokalma": "given_graph"}
LABELS = {"fanoutqa": "BA", "biokalma": "53"}
"""People's labels of the first half of the answers, and of the second."""


def judge(name: str, said: str) -> str:
    """Return the grade or rating of a text; some of BioKaLMA's texts get a better rating."""
    return "C" if name == "fanoutqa" else "5" if "No. 1" in said else "4"


def replace_prompts(judge: JudgeIdentity) -> JudgeIdentity:
    return judge.model_copy(update={"prompt_digest": "0" * 64})


@pytest.mark.parametrize("name", list(SETTING))
def test_grades_and_ratings_are_labelled_and_checked(
    factmill: Factmill, small_builds: SmallBuilds, tmp_path: Path, name: str
) -> None:
    from sklearn.metrics import cohen_kappa_score

    place = ("--warehouse", tmp_path / "w.duckdb")

    def run(*arguments: str | Path) -> Any:
        return factmill.get_json(*arguments, *place, **KEY)

    small_builds.copy(name, tmp_path / "w.duckdb")

    def answer(messages: Sequence[Message]) -> tuple[int, str]:
        return 200, f"{'Verdict' if name == 'fanoutqa' else 'Rating'}: {judge(name, messages[-1]['content'])}"

    chat = ScriptedChat(answer)
    try:
        world = write_chat_world(tmp_path, chat.url, ["judge"], "mild-1")
        asked = tmp_path / "asked.jsonl"
        factmill("evaluate", name, "--setting", SETTING[name], "--questions", asked, *place)
        lines = [json.loads(line) for line in asked.read_text("utf-8").splitlines()]
        answers = tmp_path / "somebody.jsonl"
        answers.write_text("".join(json.dumps({"id": each["id"], "answer": f"No. {at}"}) + "\n" for at, each in enumerate(lines)), "utf-8")  # fmt: skip
        result = run("evaluate", name, "--answers", answers, "--world", world)
        run("label", result["evaluation_id"], "--to", tmp_path / "l.csv", "--n", "20")
        rows = read_csv(tmp_path / "l.csv")
        half = len(rows) // 2
        for at, row in enumerate(rows):
            row["label"] = LABELS[name][at >= half]
        write_csv((tmp_path / "l.csv"), rows)
        (card,) = run("judge-card", "--judge", "mild-1", "--labels", tmp_path / "l.csv")["cards"]
        assert (card["identity"]["judge"], card["overall"]["n"]) == ("mild-1", len(rows))
        if name == "fanoutqa":  # people give B, then A; the judge always gives C, and B and C both count as right
            assert (card["overall"]["accuracy"], card["is_ordinal"]) == (0, False)
            assert card["as_right"]["accuracy"] == pytest.approx(half / len(rows), abs=1e-6)
        else:
            assert (card["as_right"], card["is_ordinal"]) == (None, True)
            pair = [row["label"] for row in rows], [judge(name, row["answer"]) for row in rows]
            for kappa, weights in (("kappa", None), ("weighted_kappa", "quadratic")):
                expected = cohen_kappa_score(*pair, labels=list("12345"), weights=weights)
                assert card["overall"][kappa] == pytest.approx(expected, abs=1e-6)
        kept = JudgeCard.model_validate({field: result for field, result in card.items() if field != "id"})
        assert "other prompts" in format_card_summary(kept, replace_prompts(kept.identity))
        again = run("evaluate", name, "--answers", answers, "--world", world)
        assert "mild-1 agrees with human labels" in again["judge_card"]

        # another judge's verdicts on the same answers are compared with the same labels
        other = write_chat_world(tmp_path, chat.url, ["judge"], "mild-2")
        unchecked = run("evaluate", name, "--answers", answers, "--world", other)
        assert unchecked["judge_card"].endswith(": not checked against human labels")
        (theirs,) = run("judge-card", "--judge", "mild-2", "--labels", tmp_path / "l.csv")["cards"]
        assert theirs["confusion"] == card["confusion"]
    finally:
        chat.close()
