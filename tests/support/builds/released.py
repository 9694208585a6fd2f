"""Make small tables of two benchmarks for releases: several languages and licences, a dev and a test part."""

import json
from typing import Any

Rows = list[dict[str, Any]]
NASTY = (
    "a\nb\r\nc",
    "<script>alert(1)</script></textarea>",
    "\u202egnitirw\u202c \u200f",
    "../../etc/passwd",
    '"; DROP TABLE multihal; --',
    "line\u2028and\u2029paragraph\x85next",
    "=cmd|' /C calc'!A0",
    '\ttab, "quotes" and \\ backslash',
    " ",
    "x" * 1_000_000,
)
"""Texts that break careless code."""


def multihal_row(question: str, language: str = "eng", **changed: Any) -> dict[str, Any]:
    """Return a row of MultiHal for path 1 of a question, whose id begins with its source."""
    source = question.partition("_")[0]
    row = {
        "path_id": f"{question}_1",
        "question_id": question,
        "id": f"{question}_1_{language}",
        "source_dataset": source,
        "domain": "qa",
        "licence": "MIT",
        "input": "Where was Kepler born?",
        "output": "Weil der Stadt",
        "optional_output": ["Weil"],
        "incorrect_answers": [],
        "context": [],
        "answer_type": "other",
        "subjects": ["Q8963"],
        "objects": ["Q1"],
        "responses": ["Q8963", "P19", "Q1"],
        "responses_formatted": ["Q8963", "P19", "Q1"],
        "trip_labels": ["Kepler", "born in", "Weil der Stadt"],
        "part_sources": ["wikidata"] * 3,
        "chosen_by": "all",
        "judged_by": "mine",
        "judged_score": 5,
        "language": language,
        "translated_by": None if language == "eng" else "nllb",
        "source_name": "qa.json",
        "source_row": 1,
        "disputed_answers": [],
    }
    return row | changed


def multihal_tables() -> dict[str, Rows]:
    """Return rows of three foundations in two languages; two of the licences forbid commercial use."""
    licences = {"simpleqa_1": "MIT", "felm_2": "CC-BY-NC-SA-4.0", "halueval_3": "MIT AND CC-BY-NC-2.0"}
    main = [multihal_row(each, lang, licence=licences[each]) for each in licences for lang in ("eng", "deu")]
    dropped = [
        {"id": f"{each}/0", "question_id": each, "path_ids": ["Q1"], "reason": "same_words", "detail": ""}
        for each in (*licences, "felm_9")
    ]
    return {"multihal": main, "multihal_dropped_paths": dropped}


def fanout_tables(splits: tuple[str, ...] = ("dev", "test", "test")) -> dict[str, Rows]:
    """Return questions of these parts, each with an article, a reference and an item in the review queue."""
    made: dict[str, Rows] = {}

    def add(table: str, **row: Any) -> None:
        made.setdefault(table, []).append(row)

    for number, split in enumerate(splits):
        row_id, answer = f"q{number}", json.dumps(f"secret {number}")
        asked = {"id": row_id, "question": f"Which are the peaks of range {number}?"}
        lines = [{"id": "s", "question": "Which peak?", "answer": f"secret {number}"}]
        common = {"source": "authored", "source_name": "mine.json", "source_row": number, "sub_questions": 1}
        by = {"judge": "mine", "author": None, "reviewed_by": [], "licence": "CC-BY-SA-4.0"}
        place = {"articles": [f"Range {number}"], "epoch": "2026-01-01T00:00:00Z", "statements": [], "flags": []}
        add("fanoutqa", **asked, **common, **place, **by, split=split)
        if split == "dev":
            add("fanoutqa_dev", **asked, decomposition=json.dumps(lines), answer=answer, categories=["mountains"])
        else:
            add("fanoutqa_test", **asked, necessary_evidence="[]", categories=["mountains"])
            add("fanoutqa_test_answers", id=row_id, answer=answer, decomposition=json.dumps(lines))
        page = {"title": f"Range {number}", "pageid": number, "revid": 70 + number, "timestamp": None}
        url = f"https://en.wikipedia.org/w/index.php?title=Range_{number}&oldid={70 + number}"
        add("fanoutqa_articles", id=str(70 + number), **page, url=url, questions=1)
        about = {"question_id": row_id, "path": "[0]", "sub_question": "Which peak?", "answer": answer}
        found = {"title_asked": page["title"], "problem": None, "found": True, "missing": []}
        add("fanoutqa_references", id=f"{row_id}[0]", **about, **page, url=url, **found)
        item = {"benchmark": "fanoutqa", "row_id": row_id, "flag": "answer_not_found", "detail": f"secret {number}"}
        texts = {"context": answer, "proposed": [], "edited": [], "note": f"secret {number}"}
        add("fanoutqa_review", id=f"i{number}", **item, **texts, decision="keep", reviewer="Ada", file="", line=0)
    return made
