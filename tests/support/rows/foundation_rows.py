"""Make a valid row of each of MultiHal's foundations, and files of such rows."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

HALUEVAL = {"knowledge": " Ada. ", "question": " Who? ", "right_answer": "Ada ", "hallucinated_answer": "Bob"}
TRUTHFULQA = {
    "Type": "Adversarial", "Category": "Confusion: People", "Question": "Who?", "Best Answer": "Ada",
    "Correct Answers": "Ada; Ada L.; ; Ada L.", "Incorrect Answers": "Bob; Eve;", "Source": "https://a.org/x; remark",
}  # fmt: skip
FELM = {
    "index": 0, "domain": "wk", "prompt": "Who?", "response": "Ada. Really.", "ref": ["https://a.org/X", ""],
    "segmented_response": ["Ada.", "Really."], "labels": [True, True],
}  # fmt: skip
MIRROR = {
    "prompt": "Who?", "response": "Ada.", "claims": ["Ada."], "claim_labels": [True], "source": "felm-wk",
    "hallucination_spans": None,
}  # fmt: skip
HALUBENCH = {"id": "x", "passage": "P", "question": "Who?", "answer": "Ada", "label": "PASS", "source_ds": "DROP"}
SHROOM = {
    "hyp": "h",
    "src": "Hello <define> word </define> .",
    "tgt": "A sound .",
    "task": "DM",
    "label": "Hallucination",
}
DEFAN = {"questions": " Who? ", "answer": " Ada", "type": "name"}
SIMPLEQA = {
    "metadata": "{'topic': 'Art', 'answer_type': 'Date', 'urls': ['https://a.org/Wiki/X?Y=1', 'https://a.org/Wiki/X?Y=1']}",
    "problem": "When? ",
    "answer": " 1900",
}
GOOD = {
    "halueval": HALUEVAL, "truthfulqa": TRUTHFULQA, "felm": FELM, "halubench": HALUBENCH, "shroom2024": SHROOM,
    "defan": DEFAN, "simpleqa": SIMPLEQA,
}  # fmt: skip
NAMES = {
    "halueval": "qa_data.json", "truthfulqa": "TruthfulQA.csv", "felm": "all.jsonl", "halubench": "halubench.jsonl",
    "shroom2024": "trial.json", "defan": "QA_domain_sports_public.csv", "simpleqa": "simple_qa_test_set.csv",
}  # fmt: skip


def write(tmp_path: Path, foundation: str, rows: Sequence[Row], name: str = "") -> Path:
    """Write rows as a file of a foundation, by its usual name by default."""
    path = tmp_path / (name or NAMES[foundation])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(text.getvalue(), "utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), "utf-8")
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path
