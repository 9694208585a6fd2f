"""Print the calls and tokens per row and stage, from a build's rendered prompts and their completions.

    python bench speed.prompt_costs [--warehouse FILE] [--usd-in 1.1 --usd-out 4.4]

Estimates tokens as a quarter of the characters, which fits English; the thoughts of reasoning models cost extra. Counts
the calls of each benchmark's latest build per published row, so published rows carry the cost of rejects. Prints a
Markdown table.
"""

import json

import duckdb
from scripts import read_options

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.engine.spending.forecasting import ENGLISH_CHARACTERS_PER_TOKEN, count_rendered_prompt_characters
from factmill.tasks.settings import factmill_home

_CALLS = """
    SELECT u.stage, c.operation, c.parts, sum(length(c.body)) AS said, count(DISTINCT c.key) AS calls
    FROM build_calls u JOIN calls c USING (record_id) WHERE u.build_id = ? GROUP BY u.stage, c.operation, c.parts
"""


def main() -> None:
    result = read_options(
        __doc__,
        warehouse=factmill_home() / "factmill.duckdb",
        usd_in=(1.1, "US$ a million tokens of prompts"),
        usd_out=(4.4, "US$ a million tokens of replies"),
    )
    db = duckdb.connect(str(result.warehouse), read_only=True)
    print(
        "| benchmark | stage | asks | calls a row | tokens in | tokens out | US$ a 1,000 rows |\n|---|---|---|--:|--:|--:|--:|"
    )
    for name in BENCHMARKS:
        newest = db.execute(
            "SELECT build_id, report->>'rows' FROM builds WHERE benchmark = ? ORDER BY published_at DESC LIMIT 1",
            [name],
        ).fetchone()
        if newest is None:
            continue
        build_id, rows = newest[0], int(newest[1])
        for stage, operation, calls, tokens_in, tokens_out in _add_up(db, build_id):
            usd = (tokens_in * result.usd_in + tokens_out * result.usd_out) / rows / 1000
            cost = f"{tokens_in / calls:,.0f} | {tokens_out / calls:,.0f} | {usd:.2f}" if tokens_in else "– | – | –"
            print(f"| {name} | {stage} | {operation} | {calls / rows:.2f} | {cost} |")


def _add_up(db: duckdb.DuckDBPyConnection, build_id: str) -> list[tuple[str, str, int, float, float]]:
    """Return (stage, operation, calls, tokens in, tokens out) of a build."""
    found: dict[tuple[str, str], list[float]] = {}
    for stage, operation, parts, said, calls in db.execute(_CALLS, [build_id]).fetchall():
        sums = found.setdefault((stage, operation), [0, 0.0, 0.0])
        sums[0] += calls
        if operation == "chat":
            sums[1] += calls * count_rendered_prompt_characters(json.loads(parts)) / ENGLISH_CHARACTERS_PER_TOKEN
            sums[2] += said / ENGLISH_CHARACTERS_PER_TOKEN
    return [(*place, int(calls), sent, said) for place, (calls, sent, said) in sorted(found.items())]
