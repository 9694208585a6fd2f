"""Check published rows against the changing world: people within the responses' maximum age, pages on the exact day."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from trials.months.month_world import day_of

from factmill.tasks.storage.warehouse import open_warehouse

WINDOW = 3
"""Number of days whose state a person's row may show; Wikidata responses are valid for two and a half days."""


def find_wrong_rows(
    warehouse: Path,
    day: int,
    people: Sequence[Mapping[str, tuple[str, str]]],
    revisions: Mapping[str, Sequence[tuple[date, int]]],
) -> tuple[dict[str, int], list[str]]:
    """Return benchmark → published rows of the newest builds, and the problems with them.

    `people`: day → name → label and description; `revisions`: title → day and id of each, the oldest first.
    """
    with open_warehouse(warehouse) as db:
        newest = dict(
            db.execute("SELECT benchmark, arg_max(build_id, published_at) FROM builds GROUP BY benchmark").fetchall()
        )
        result = db.execute(
            "SELECT question_entity, question_entity_description FROM granola_eq WHERE build_id = ?",
            [newest.get("granola")],
        ).fetchall()
        pinned = db.execute("SELECT Topic, revid FROM slaq WHERE build_id = ?", [newest.get("slaq")]).fetchall()
        (fanout,) = db.execute(
            "SELECT count(*) FROM fanoutqa WHERE build_id = ?", [newest.get("fanoutqa")]
        ).fetchone() or (0,)
    counts = {"granola": len(result), "slaq": len(pinned), "fanoutqa": fanout}
    return counts, [
        *_judge_people(dict(result), people[max(0, day - WINDOW + 1) : day + 1], people[0]),
        *_judge_pages(dict(pinned), day, revisions),
    ]


def _judge_people(
    messages: Mapping[str, str], days: Sequence[Mapping[str, tuple[str, str]]], first: Mapping[str, tuple[str, str]]
) -> list[str]:
    wrong = []
    for name in first:
        named = [labels[name][0] == name for labels in days]
        if name in messages and messages[name] not in {labels[name][1] for labels in days}:
            wrong.append(f"{name} is described as {messages[name]!r}, which Wikidata has not stated lately")
        if name in messages and not any(named):
            wrong.append(f"{name} is published, though nobody bears that name any more")
        if name not in messages and all(named):
            wrong.append(f"{name} is not published")
    return wrong


def _judge_pages(pinned: Mapping[str, int], day: int, revisions: Mapping[str, Sequence[tuple[date, int]]]) -> list[str]:
    wrong = []
    for title, revid in pinned.items():
        (*_, expected) = (
            (each for at, each in revisions.get(title, ()) if at < day_of(day)) if title in revisions else (revid,)
        )
        if revid != expected:
            wrong.append(f"{title} is of revision {revid}; on that day revision {expected} was its newest")
    return wrong
