"""Make a manifest of a small benchmark and the diff of two builds of it, with values that try to be more than text."""

from typing import Any

from factmill.tasks.diff.core.changes import (
    BuildDiff,
    ChangeCause,
    ColumnValueChange,
    ComparedBuild,
    InputChange,
    RowChange,
    RowDropInOneBuild,
)

LOCK: dict[str, Any] = {
    "author": "mine",
    "code": "c1",
    "world": {"name": "w", "digest": "d", "epoch": "2026-01-01"},
    "services": {"wikidata": "https://wd", "wikipedia": "https://wp"},
    "models": {"author": "mine", "judge": "mine"},
    "scripted": None,
    "sources": {"files": {"a": [["a.json", "1"]]}, "wikidata": None},
    "prompts": {"x/write": "p1"},
    "lists": {"l.txt": "1"},
    "queries": {"wikidata/item_facts": "1"},
    "params": {"params": {"least": 2}},
}

HOSTILE = "<script>alert(1)</script>\n</textarea> [x](../../etc) | `y` \u202eabc\x1b[31m\x00"
PROMPT = ChangeCause("prompt", "x/write", "edited (p1 → p2)", "write")
WORLD = ChangeCause("world", "wikidata", f"item_facts of {HOSTILE} returned something else", "look_up")


def make_diff(**changed: Any) -> BuildDiff:
    """Return a diff with one row of each kind, whose values try to be more than text."""
    rows = [
        RowChange(
            "added",
            "x-1",
            "",
            (ChangeCause("source", "a.json", "row 9: new"),),
            shown={"id": "x-1", "question": HOSTILE},
        ),
        RowChange(
            "removed",
            f"x-2{HOSTILE}",
            "x-2",
            (WORLD,),
            shown={"question": "Why?"},
            fate=RowDropInOneBuild("after", "check", "too_short", HOSTILE),
        ),
        RowChange(
            "changed",
            "x-4",
            "x-3",
            (PROMPT, WORLD),
            (
                ColumnValueChange("answers", ["one", HOSTILE], ["two"]),
                ColumnValueChange("text", "a" * 1_000_000 + "old" + "b" * 50, "a" * 1_000_000 + "new" + "b" * 50),
                ColumnValueChange("answer", None, None, "x_test_answers", withheld=True),
            ),
            {"id": "x-4", "question": "How?"},
        ),
    ]
    result: dict[str, Any] = {
        "benchmark": "x",
        "title": "X: a benchmark",
        "before": ComparedBuild("x-aaa", 10, "2026-01-01"),
        "after": ComparedBuild("x-bbb", 11, "2026-02-01", "not for use", scripted=True),
        "inputs": [InputChange(PROMPT, "p1", "p2")],
        "same": 8,
        "remade": 2,
        "rows": rows,
        "tables": {"x_side": {"added": 1, "removed": 0, "changed": 3}},
        "new_columns": ["fresh"],
    }
    return BuildDiff(**(result | changed))
