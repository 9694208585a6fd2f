"""`factmill explain`: where a published row comes from, step by step."""

import json
from typing import Any

import duckdb

from flows.benchmarks import Benchmark, find_benchmark
from tasks.errors import UnknownBuild
from tasks.storage.bodies import unpack_body
from tasks.storage.builds import BuildRecord


def trace_row(db: duckdb.DuckDBPyConnection, build: BuildRecord, row_id: str) -> dict[str, Any]:
    """Return everything that is known of a row: the row or its reject, its candidates, the calls it rests on.

    `row_id` may be the beginning of an id when only one fits; UnknownBuild when none or several do. A row that was made
    of another (a translation of a path, a path of a question) rests on the calls of those too.
    """
    known = find_benchmark(build.benchmark)
    row_id = _find_row(db, build, known, row_id)
    published = _records(
        db,
        f"SELECT * EXCLUDE (build_id) FROM {known.main_table} WHERE build_id = ? AND id = ?",
        build.build_id,
        row_id,
    )
    row = published[0] if published else None
    ids = list(dict.fromkeys(row[name] for name in known.trace)) if row else [row_id]
    rejected = _records(
        db, "SELECT stage, reason, detail, row FROM rejects WHERE build_id = ? AND id = ?", build.build_id, row_id
    )
    return {
        "build": build.build_id,
        "benchmark": build.benchmark,
        "id": row_id,
        "row": row,
        "reject": rejected[0] if rejected else None,
        "candidates": _find_candidates(db, build, row_id),
        "references": _find_references(db, build, row_id),
        "wikidata": build.lock["services"]["wikidata"],
        "calls": [call for each in reversed(ids) for call in _find_calls(db, build, each)],
    }


def _find_candidates(db: duckdb.DuckDBPyConnection, build: BuildRecord, row_id: str) -> list[dict[str, Any]]:
    """Return the items that bear the names of a row of GRANOLA-EQ."""
    if build.benchmark != "granola":
        return []
    return _records(
        db,
        "SELECT role, name, qid, via, chosen, linked FROM granola_candidates WHERE build_id = ? AND row_id = ? "
        "ORDER BY role DESC, CAST(substr(qid, 2) AS BIGINT)",
        build.build_id,
        row_id,
    )


def _find_references(db: duckdb.DuckDBPyConnection, build: BuildRecord, row_id: str) -> list[dict[str, Any]]:
    """Return the articles that the sub-questions of a row of FanOutQA rest on."""
    if build.benchmark != "fanoutqa":
        return []
    return _records(
        db,
        "SELECT path, sub_question, answer, title_asked, title, revid, timestamp, problem, found, missing "
        "FROM fanoutqa_references WHERE build_id = ? AND question_id = ? ORDER BY id",
        build.build_id,
        row_id,
    )


def _find_calls(db: duckdb.DuckDBPyConnection, build: BuildRecord, row_id: str) -> list[dict[str, Any]]:
    calls = _records(
        db,
        "SELECT b.stage, c.operation, c.service, c.parts, c.status, c.error, c.body, c.asked_at, c.latency_s, c.tokens_in, "
        "c.tokens_out, c.cost_usd, c.key FROM build_calls b JOIN calls c USING (record_id) "
        "JOIN build_stages s ON s.build_id = b.build_id AND s.stage = b.stage "
        "WHERE b.build_id = ? AND b.id = ? ORDER BY s.position, c.record_id",
        build.build_id,
        row_id,
    )
    for call in calls:
        call["parts"], call["body"] = json.loads(call["parts"]), json.loads(unpack_body(call["body"]))
        call["asked_at"] = call["asked_at"].isoformat()
    return calls


def tell_trace(trace: dict[str, Any]) -> list[str]:
    """Return a trace as lines to read."""
    lines = [f"{trace['id']} in {trace['build']}"]
    row, reject = trace["row"], trace["reject"]
    if row:
        lines += _TELL_ROW[trace["benchmark"]](row)
    if reject:
        lines += [
            f"  rejected at {reject['stage']}: {reject['reason']}",
            f"              {reject['detail']}",
            f"  row then    {reject['row']}",
        ]
    if trace["candidates"]:
        lines.append(f"  items of {trace['wikidata']} with these names:")
    lines += [
        f"    {c['role']:8} {c['name']!r}: {c['qid']} by {c['via']}{' (chosen)' if c['chosen'] else ''}{' (holds the relation)' if c['linked'] else ''}"
        for c in trace["candidates"]
    ]
    lines += [line for reference in trace["references"] for line in _tell_reference(reference)]
    lines.append("  calls:" if trace["calls"] else "  calls: none")
    for call in trace["calls"]:
        lines += _tell_call(call)
    return lines


def _tell_granola_row(row: dict[str, Any]) -> list[str]:
    return [
        f"  source      {row['source_name']}, row {row['source_row']}, relation {row['relation']}",
        f"  question    {row['question']}",
        f"  about       {row['question_entity']} = {row['question_entity_qid']}: {row['question_entity_description']}",
        f"  answer      {row['answer']} = {row['answer_entity_qid']}: {row['answer_entity_description']}",
        f"  answers     {' → '.join(row['granola_answers'])}   (author {row['author']})",
        f"  error score question entity {row['question_description_score']:.2f}, answer {row['answer_description_score']:.2f} (judge {row['judge']})",
    ]


def _tell_multihal_row(row: dict[str, Any]) -> list[str]:
    translated = f"   (translated by {row['translated_by']})" if row["translated_by"] else ""
    return [
        f"  source      {row['source_name']}, row {row['source_row']}, of {row['source_dataset']} ({row['licence']})",
        f"  question    {row['input']}{translated}",
        f"  answer      {row['output']}   ({row['answer_type']})",
        f"  items       of the question {', '.join(row['subjects'])}; of the answer {', '.join(row['objects'])}",
        f"  path        {'; '.join(row['trip_labels'])}",
        f"  as ids      {' '.join(row['responses'])}",
        f"  its words   {', '.join(row['part_sources'])}",
        f"  score       {row['judged_score']} of 5 (judge {row['judged_by']}; chosen by {row['chosen_by']})",
    ]


def _tell_biokalma_row(row: dict[str, Any]) -> list[str]:
    pages = f": {', '.join(row['text_pages'])}" if row["text_pages"] else ""
    return [
        f"  source      {row['source_name']}, row {row['source_row']}; its text from {row['text_source']}{pages} ({row['licence']})",
        f"  people      {row['names'][0]} ({row['people'][0]}), {row['relation_label']} {row['names'][1]} ({row['people'][1]})",
        f"  general     {row['general_question']}",
        f"  specific    {row['specific_question']}",
        f"  paragraph   {row['paragraph']}",
        "  knowledge   in the order in which it was added (biokalma_rounds has all candidates with their scores):",
        *(
            f"              {piece['qid']} {piece['property']} ({piece['pid']}): {piece['value']}"
            + (f" ({piece['value_qid']})" if piece["value_qid"] else "")
            for piece in row["minimum_knowledge"]
        ),
        f"  made by     author {row['author']}, scorer {row['scorer']}",
    ]


def _tell_slaq_row(row: dict[str, Any]) -> list[str]:
    reviewed = f"; reviewed by {', '.join(row['reviewed_by'])}" if row["reviewed_by"] else ""
    return [
        f"  source      {row['URL']}, revision {row['revid']}, of {row['Category']} ({row['licence']})",
        f"  page views  {row['Pageviews']:,} ({row['half']} viewed of its category)",
        *(
            f"  {number}. {row['fact_types'][number - 1]:8} {row[f'ShortQ{number}']} — {row[f'ShortA{number}']}"
            for number in range(1, 6)
        ),
        f"  long        {row['LongQ']}",
        f"              {row['LongA']}",
        f"  made by     author {row['author']}, judge {row['judge']}, fact types {row['fact_types_by']}{reviewed}",
    ]


def _tell_fanoutqa_row(row: dict[str, Any]) -> list[str]:
    return [
        f"  source      {row['source_name']}, row {row['source_row']} ({row['source']}; {row['licence']})",
        f"  question    {row['question']}",
        f"  part        {row['split']}; {row['sub_questions']} sub-questions (fanoutqa_references has them with revisions)",
        f"  articles    as of {row['epoch']}: {', '.join(row['articles'])}",
        *([f"  statements  {', '.join(row['statements'])}"] if row["statements"] else []),
        *(f"  flag        {flag}" for flag in row["flags"]),
        f"  made by     {_tell_makers(row)}",
    ]


def _tell_makers(row: dict[str, Any]) -> str:
    """Return who worded, judged and reviewed a question."""
    makers = {"worded by": row["author"], "judged by": row["judge"], "reviewed by": ", ".join(row["reviewed_by"])}
    return "; ".join(f"{what} {who}" for what, who in makers.items() if who) or "a person"


_TELL_ROW = {
    "fanoutqa": _tell_fanoutqa_row,
    "granola": _tell_granola_row,
    "multihal": _tell_multihal_row,
    "biokalma": _tell_biokalma_row,
    "slaq": _tell_slaq_row,
}


def _tell_reference(reference: dict[str, Any]) -> list[str]:
    found = {True: "found", False: "not found", None: "not to be told from a text"}[reference["found"]]
    where = f"{reference['title']}, revision {reference['revid']} of {reference['timestamp'] or 'the release'}: {found}"
    trouble = f"{reference['title_asked']}: {reference['problem']}"
    return [
        f"  {reference['path']:11} {reference['sub_question']} — {reference['answer']}",
        f"              {trouble if reference['problem'] else where}",
    ]


def _tell_call(call: dict[str, Any]) -> list[str]:
    parts = call["parts"]
    what = {k: v for k, v in parts.items() if k not in ("variables", "prompt_digest", "correction", "language")}
    asked = parts.get("variables", {})
    answer = call["error"] if call["status"] != "ok" else json.dumps(call["body"], ensure_ascii=False)
    return [
        f"    {call['stage']}: {call['operation']} of {call['service']} at {call['asked_at']} (call {call['key'][:12]})",
        f"      asked   {json.dumps(what, ensure_ascii=False)}",
        *(f"              {name}: {value}" for name, value in asked.items()),
        f"      replied {answer[:400]}",
    ]


def _find_row(db: duckdb.DuckDBPyConnection, build: BuildRecord, known: Benchmark, row_id: str) -> str:
    found = db.execute(
        f"SELECT DISTINCT id FROM (SELECT id FROM {known.main_table} WHERE build_id = $1 UNION ALL SELECT id FROM rejects WHERE build_id = $1) "
        "WHERE id = $2 OR starts_with(id, $2) ORDER BY id = $2 DESC, id LIMIT 3",
        [build.build_id, row_id],
    ).fetchall()
    if len(found) == 1 or (found and found[0][0] == row_id):
        return str(found[0][0])
    several = (
        f"several rows begin with {row_id!r}: {', '.join(row[0] for row in found)} …" if found else f"no row {row_id!r}"
    )
    raise UnknownBuild(
        f"{several} in {build.build_id}; ids stand in the first column of `factmill show {build.benchmark}`"
    )


def _records(db: duckdb.DuckDBPyConnection, query: str, *values: str) -> list[dict[str, Any]]:
    return list(db.sql(query, params=list(values)).to_arrow_table().to_pylist())
