"""Test the mechanistic analysis end to end, on an evaluation of a file of answers, with small random models."""

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the mechanistic analysis needs the extra `mechanism`")
for _module in ("transformers", "sklearn", "ot"):
    pytest.importorskip(_module, reason="the mechanistic analysis needs the extra `mechanism`")

from support.builds.measured import Measured  # noqa: E402
from support.builds.small_builds import SmallBuilds  # noqa: E402
from support.commands.command import Factmill, Ran  # noqa: E402
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world  # noqa: E402
from support.models.tiny_causal import write_model  # noqa: E402
from support.rows.csv_files import read_csv, write_csv  # noqa: E402

from factmill.tasks.slaq.core.mechanism.rows import SIMILARITY_MEASURES  # noqa: E402

_STOPS_AFTER = """
import sys, time
from pathlib import Path
from factmill.tasks.slaq.mechanism.ablation_service import LocalAblationService
answer, seen = LocalAblationService._answer, []
def stop(self, parts):
    if len(seen) == 5:
        Path({there!r}).touch()
        time.sleep(600)
    seen.append(parts)
    return answer(self, parts)
LocalAblationService._answer = stop
from factmill.flows.cli.main import main
main()
"""


class Looked:
    """An evaluation with every combination of right and wrong answers, and a model to analyse."""

    def __init__(self, measure: Measured, folder: Path) -> None:
        torch.set_num_threads(1)
        self.measure, self.folder = measure, folder
        topics = measure.read("slaq", measure.build_id)[:4]
        answers = [line for at, topic in enumerate(topics) for line in answer_topic(topic, at)]
        path = folder / "answers.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in answers))
        self.evaluation = measure("--answers", path)["evaluation_id"]
        self.model = write_model(folder / "tiny-llama", texts=[each["answer"] for each in answers] * 3)

    def __call__(self, *options: str | Path, code: int = 0, json_too: bool = True) -> Ran:
        result = (
            "--warehouse",
            self.measure.warehouse,
            "--reports",
            self.folder / "reports",
            *(("--json",) if json_too else ()),
        )
        ran = self.measure.factmill("mechanism", *options, *result)
        assert ran.code == code, ran.err
        return ran

    def look(self, *options: str | Path) -> Any:
        return self(self.evaluation, "--model", self.model, *options).json


def answer_topic(topic: dict[str, Any], at: int) -> list[dict[str, str]]:
    """Answer a topic's five facts: two right in both forms, one only short, one only long, one in neither."""
    name = topic["Topic"]
    said = {n: f"{name}: {topic[f'ShortA{n}']}." for n in range(1, 6)}
    wrong = f"{name}: nobody knows in {1000 + at}."
    short = {n: wrong if n in (4, 5) else said[n] for n in range(1, 6)}
    long = " ".join(wrong if n in (3, 5) else said[n] for n in range(1, 6))
    lines = [{"id": f"{topic['id']}/{n}", "setting": "short", "answer": short[n]} for n in short]
    return [*lines, {"id": f"{topic['id']}/long", "setting": "long", "answer": long}]


@pytest.fixture(scope="module")
def looked(small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Looked:
    folder = tmp_path_factory.mktemp("mechanism")
    return Looked(Measured.small(small_builds, "slaq", folder), folder)


def test_facts_of_evaluation_are_drawn_and_scored(looked: Looked) -> None:
    result = looked.look("--per-kind", "4", "--folds", "3")
    assert result["model"] == "tiny-llama"
    # facts that are drawn and not scored are replaced by further draws
    assert all(4 <= each["drawn"] <= 8 for each in result["kinds"].values())
    assert all(each["drawn"] - each["unscored"] == 4 or each["drawn"] == 8 for each in result["kinds"].values())
    counts = result["facts"]["tiny-llama"]
    assert (counts["aligned"], counts["misaligned"], counts["wrong_in_both"]) == (8, 8, 4)
    rows = looked.measure.read("slaq_mechanism", result["mechanism_id"])
    scored = [row for row in rows if not row["unscored"]]
    assert len(scored) == sum(each["drawn"] - each["unscored"] for each in result["kinds"].values()) >= 8
    for row in scored:
        assert row["paired_by"] == "alignment"
        assert row["long_answer"][row["long_start"] :].startswith(row["long_text"])
        assert all(-1 <= row[each] <= 1 for each in SIMILARITY_MEASURES)
        if row["short_tokens"] == row["long_tokens"]:
            assert all(row[each] == pytest.approx(row["hungarian"][each], abs=2e-6) for each in SIMILARITY_MEASURES)
    tokens = looked.measure.read("slaq_mechanism_tokens", result["mechanism_id"])
    assert len(tokens) == sum(row["short_tokens"] + row["long_tokens"] for row in rows)
    of_scored = {row["id"] for row in scored}
    assert all(len(each["importances"]) == 10 for each in tokens if each["fact"] in of_scored)
    found = {(each["setting"], each["metric"]): each for each in result["metrics"]}
    assert found["aligned", "iou"]["n"] + found["misaligned", "iou"]["n"] == len(scored)
    assert found["all six", "roc_auc"]["n"] == found["all six", "roc_auc_by_fact"]["n"] == len(scored)
    page = Path(result["reports"][0]).read_text("utf-8")
    assert page.count("<svg") == 3
    assert "llama, 2 layers of 4 heads" in page
    assert "Figure 4" in page

    told_again = looked.folder / "again.html"
    place = ("--warehouse", looked.measure.warehouse)
    assert looked.measure.factmill("report", result["mechanism_id"], "--to", told_again, *place).code == 0
    assert told_again.read_text("utf-8") == page
    two = looked.measure.factmill("report", result["mechanism_id"], looked.evaluation, "--to", told_again, *place)
    assert (two.code, "factmill mechanism EVALUATION EVALUATION" in two.err) == (2, True)

    again = looked.look("--per-kind", "4", "--folds", "3")
    assert (again["up_to_date"], again["ablated"]) == (True, 0)
    # a larger draw ablates only its additional facts
    more = looked.look("--per-kind", "7")
    assert (more["rows"] > result["rows"], more["ablated_before"]) == (True, result["ablated"])

    shown = looked.measure.factmill("show", "slaq_mechanism", "--warehouse", looked.measure.warehouse)
    assert (shown.code, "aligned" in shown.out) == (0, True)
    explained = looked.measure.factmill(
        "explain", "slaq_mechanism", scored[0]["id"], "--warehouse", looked.measure.warehouse
    )
    assert explained.code == 0, explained.err
    assert "components recover" in explained.out
    verified = looked.measure.factmill(
        "verify", result["mechanism_id"], "--warehouse", looked.measure.warehouse, "--json"
    )
    assert verified.code == 0, verified.err
    assert verified.json["agrees"]


def test_killed_run_resumes_without_repeated_ablation(looked: Looked, tmp_path: Path) -> None:
    there, other = tmp_path / "there", write_model(tmp_path / "killed", texts=["Ada was born in London."], seed=1)
    killed = Factmill(
        looked.measure.factmill.home, looked.measure.factmill.prefect_api, _STOPS_AFTER.format(there=str(there))
    )
    options = (looked.evaluation, "--model", other, "--per-kind", "3", "--warehouse", looked.measure.warehouse)
    process = killed.start("mechanism", *options)
    deadline = time.monotonic() + 300
    while not there.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    result = looked(*options[:5]).json
    rows = looked.measure.read("slaq_mechanism", result["mechanism_id"])
    assert result["ablated_before"] == 5
    assert result["ablated"] == 2 * sum(bool(row["paired_by"]) for row in rows) - 5


def test_two_models_are_reported_together(looked: Looked, tmp_path: Path) -> None:
    gpt2 = write_model(tmp_path / "tiny-gpt2", "gpt2", texts=["Ada was born in London."], lifted=False)
    result = looked(
        *(looked.evaluation, looked.evaluation),
        *("--model", looked.model),
        *("--model", gpt2),
        *("--per-kind", "3"),
        "--centre",
    ).json
    assert result["model"] == "tiny-llama, tiny-gpt2"
    assert {row["model"] for row in looked.measure.read("slaq_mechanism", result["mechanism_id"])} == {
        "tiny-llama",
        "tiny-gpt2",
    }


def measure_lost(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Map each kind to its facts whose answer is not found in the long answer."""
    return {
        kind: sum(row["unscored"] == "not_in_long_answer" for row in rows if row["kind"] == kind)
        for kind in ("aligned", "misaligned")
    }


def test_judge_pairs_facts_without_word_match_and_kinds_are_balanced(looked: Looked, tmp_path: Path) -> None:
    def answer(messages: Sequence[Message]) -> tuple[int, str]:
        said = messages[-1]["content"].partition(" begins]\n")[2].partition("\n[")[0]
        return 200, f"Part: {said.split('. ')[0]}"

    chat = ScriptedChat(answer)
    world = write_chat_world(tmp_path, chat.url, ["judge"])
    options = ("--model", looked.model, "--warehouse", looked.measure.warehouse, "--reports", tmp_path, "--json")
    judged, by_words = (
        looked.measure.factmill("mechanism", looked.evaluation, "--per-kind", "5", *options, *more, TEST_KEY="x")
        for more in (("--world", world), ("--least-matched", "1"))
    )
    chat.close()
    assert judged.code == by_words.code == 0, judged.err + by_words.err
    # a random model may give its own answer no probability; another fact replaces each such fact
    assert [each["drawn"] - each["unscored"] for each in judged.json["kinds"].values()] == [5, 5]
    rows = looked.measure.read("slaq_mechanism", judged.json["mechanism_id"])
    assert {row["paired_by"] for row in rows} == {"judge"}
    assert {row["unscored"] for row in rows} <= {"", "base_not_positive"}
    assert all(row["long_text"] == row["long_answer"].split(". ")[0] for row in rows)
    page = Path(judged.json["reports"][0]).read_text("utf-8")
    assert "by a judge" in page
    # without a judge, misaligned facts with few common words are lost, so all of them are drawn
    assert by_words.json["kinds"]["misaligned"]["drawn"] == 8
    lost = measure_lost(looked.measure.read("slaq_mechanism", by_words.json["mechanism_id"]))
    assert lost["misaligned"] > 0 == lost["aligned"]
    replayed = looked.measure.factmill(
        "verify", judged.json["mechanism_id"], "--warehouse", looked.measure.warehouse, "--json", TEST_KEY="x"
    )
    assert replayed.code == 0, replayed.err


def test_gold_answer_tokens_are_examined_in_both_answers(looked: Looked) -> None:
    result = looked.look("--per-kind", "2", "--tokens", "gold")
    rows = {row["id"]: row for row in looked.measure.read("slaq_mechanism", result["mechanism_id"])}
    tokens: dict[tuple[str, str], str] = {}
    for each in looked.measure.read("slaq_mechanism_tokens", result["mechanism_id"]):
        place = each["fact"], each["side"]
        tokens[place] = tokens.get(place, "") + each["token"]
    paired = [row for row in rows.values() if row["paired_by"]]
    assert paired
    for row in paired:
        assert tokens[row["id"], "short"].strip() == tokens[row["id"], "long"].strip() == row["gold"]


def test_model_with_negative_logits_is_rejected_at_first_fact(looked: Looked, tmp_path: Path) -> None:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(str(looked.model))
    with torch.no_grad():
        model.lm_head.weight.neg_()
    for path in looked.model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    model.save_pretrained(str(tmp_path))
    ran = looked(looked.evaluation, "--model", tmp_path, code=2)
    assert "tokens have a logit that is not above 0" in ran.err
    assert "run it again with --centre" in ran.err
    assert looked(looked.evaluation, "--model", tmp_path, "--per-kind", "1", "--centre").json["rows"] >= 2


def test_pairs_file_is_written_edited_and_read(looked: Looked, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    wrote = looked.look("--per-kind", "2", "--write-pairs", path)
    assert (wrote["facts"], wrote["pairs"]) == (4, str(path))
    pairs = read_csv(path)
    mended, missed = pairs[0], pairs[1]
    mended["long_text"] = mended["long_answer"].split()[0]
    missed["long_text"] = "not in the answer"
    write_csv(path, [mended, missed, {**missed, "id": "nothing/here/1"}])
    result = looked.look("--per-kind", "2", "--pairs", path)
    rows = {row["id"]: row for row in looked.measure.read("slaq_mechanism", result["mechanism_id"])}
    assert (rows[mended["id"]]["paired_by"], rows[mended["id"]]["long_text"]) == ("file", mended["long_text"])
    assert (rows[missed["id"]]["unscored"], rows[missed["id"]]["iou"]) == ("text_not_found", None)
    assert "1 pairs of the file belong to no drawn fact" in Path(result["reports"][0]).read_text("utf-8")


def test_invalid_usage_of_mechanism_is_reported(looked: Looked, tmp_path: Path) -> None:
    assert "0 models: give one --model DIR per evaluation" in looked(looked.evaluation, code=2).err
    assert "config.json not found" in looked(looked.evaluation, "--model", tmp_path, code=2).err
    build = looked.measure.build_id
    assert f"{build} is a build of slaq; expected an evaluation" in looked(build, "--model", looked.model, code=2).err
    twice = looked(looked.evaluation, looked.evaluation, "--model", looked.model, "--model", looked.model, code=2)
    assert "two model folders are called tiny-llama" in twice.err
    silent = looked.measure("--model", "silent")["evaluation_id"]
    ran = looked(silent, "--model", looked.model, code=1)
    assert "no fact is right in either answer" in ran.err
    short = looked.measure("--model", "oracle", "--setting", "short")["evaluation_id"]
    assert "has only short answers; long answers are needed too" in looked(short, "--model", looked.model, code=2).err
    assert (
        "none.csv: file of pairs not found"
        in looked(looked.evaluation, "--model", looked.model, "--pairs", "none.csv", code=2).err
    )
