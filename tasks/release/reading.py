"""Assembly of a release from the warehouse: its rows, what is left out of them, and its attachments.

A changelog omits rows that the release leaves out, and rows that a release of the earlier build would leave out
(`withhold_changes`).
"""

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from factmill.tasks.core.measures.audits import draw_sample
from factmill.tasks.core.publishing.release_forms import (
    CANARY,
    REJECT_DETAILS,
    Belonging,
    ConfigForms,
    Page,
    ReleaseForms,
    find_wiki,
)
from factmill.tasks.core.publishing.release_index import ReleasedTable
from factmill.tasks.core.rows import OWN_LICENCE, column_docs
from factmill.tasks.diff.core.changes import Diff
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OldBuild, UsageError
from factmill.tasks.release.beside import read_beside, read_decisions, read_prompts
from factmill.tasks.release.contents import Choices, Config, LeftOut, Release, SourceLine, Split
from factmill.tasks.release.core.choosing import (
    Told,
    divide_by,
    divide_side,
    divide_table,
    name_folder,
    pick_rows,
    unite_splits,
)
from factmill.tasks.release.core.licences import describe_licence, find_refused, split_licences, unite_licences
from factmill.tasks.storage.builds import BuildRecord, published_names, published_table
from factmill.tasks.storage.export import read_tables
from factmill.tasks.storage.shards import digest_rows
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.whole import suggest_name

_CANARY_DOC = "The same in every row: whoever makes a training set finds these rows by it and leaves them out."
_EXAMPLES = 3
_OF_REVIEW = Belonging(column="row_id")


def read_release(
    warehouse: Path, benchmark: Benchmark, forms: ReleaseForms, build: BuildRecord, choices: Choices
) -> Release:
    """Assemble the release of a build.

    UsageError for unknown names to exclude and for licences that forbid it; WarehouseError if a table differs from what
    was published; OldBuild if the build lacks a table.
    """
    held_out = () if choices.with_answers else benchmark.held_out
    with open_warehouse(warehouse) as db:
        tables = read_tables(db, warehouse, build)
        published = published_names(db, build.build_id)
    beside = read_beside(warehouse, benchmark, build)
    rejects, withheld = beside.withhold(choices, held_out)
    told = tell_sources(tables[benchmark.main_table], forms, build)
    keep = pick_rows(told, choices.without)
    refuse_rows(told, keep, choices, build)
    shown = dict(_filter_tables(tables, benchmark, forms, keep))
    open_configs = [each for each in forms.configs if not {*each.splits.values()} & {*held_out}]
    configs = tuple(
        config for each in open_configs for config in _make_configs(each, shown, benchmark, forms.canary_line)
    )
    left_out = (*_tell_left_out(told, choices), *_tell_held_out(tables, held_out), *withheld)
    is_whole = all(each.what == REJECT_DETAILS for each in left_out)
    there = tables if is_whole else {split.table for config in configs for split in config.splits}
    counted = Counter(each for each, is_kept in zip(told, keep, strict=True) if is_kept)
    is_own_world = find_wiki(build.lock) == "embedded"
    return Release(
        benchmark=benchmark,
        forms=forms,
        build=build,
        configs=configs,
        sources=tuple(SourceLine(source, licence, rows) for (source, licence), rows in sorted(counted.items())),
        licences=unite_licences(licence for _, licence in counted),
        pages=_count_pages(shown[forms.pages_table or benchmark.main_table], forms, find_wiki(build.lock)),
        pages_licence=describe_licence(OWN_LICENCE if is_own_world else "CC-BY-SA-4.0"),
        is_own_world=is_own_world,
        left_out=left_out,
        tables={
            name: ReleasedTable(rows=rows.num_rows, sha256=published[name] if is_whole else digest_rows(rows))
            for name, rows in sorted(shown.items())
            if name in there
        },
        prompts=tuple(read_prompts(build)),
        examples=_draw_examples(configs),
        decisions=tuple(read_decisions(shown, benchmark, held_out)),
        rejects=rejects,
        judge_cards=beside.judge_cards,
        audit=beside.audit,
        evaluations=beside.evaluations,
        choices=choices,
    )


def tell_sources(main: pa.Table, forms: ReleaseForms, build: BuildRecord) -> list[Told]:
    """Return the source and licence of each row of the main table."""
    lock, origin = build.lock, build.origin
    return [
        (
            row[forms.source] if forms.source else forms.source_of(lock, origin, row),
            row[forms.licence] if forms.licence else forms.licence_of(lock, origin, row),
        )
        for row in main.to_pylist()
    ]


def refuse_rows(told: Sequence[Told], keep: Sequence[bool], choices: Choices, build: BuildRecord) -> None:
    """UsageError for unknown names to exclude, if remaining rows are under a refused licence, and if no row remains."""
    known = {source for source, _ in told} | {part for _, licence in told for part in split_licences(licence)}
    if wrong := [name for name in choices.without if name not in known]:
        raise UsageError(
            f"--without {wrong[0]}: {build.build_id} has no such source or licence{suggest_name(wrong[0], known)}; there are: "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    staying = [each for each, is_kept in zip(told, keep, strict=True) if is_kept]
    refused = find_refused((licence for _, licence in staying), choices.allowed)
    lines = []
    for licence in refused:
        under = Counter(source for source, each in staying if licence.id in split_licences(each))
        where = ", ".join(f"{source} ({rows})" for source, rows in sorted(under.items()))
        lines.append(f"{licence.id} of {where}: {licence.why_not}")
    if lines:
        without = " ".join(f"--without {shlex.quote(licence.id)}" for licence in refused)
        allow = " ".join(f"--allow-licence {shlex.quote(licence.id)}" for licence in refused)
        raise UsageError(
            f"{build.build_id} cannot be released as it is, by the licences of its sources (rows): {'; '.join(lines)}. "
            f"Leave these rows out: {without} (or --without SOURCE); or, if you may hand them on: {allow}"
        )
    if not staying:
        raise UsageError(f"{build.build_id}: no row is left to release; leave less out")


def _filter_tables(
    tables: Mapping[str, pa.Table], benchmark: Benchmark, forms: ReleaseForms, keep: Sequence[bool]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables without excluded rows and what belongs only to them."""
    kept, gone = divide_table(tables[benchmark.main_table], keep)
    ties = {table: each.belongs for each in forms.configs for table in each.splits.values()}
    for name, table in tables.items():
        tie = ties.get(name) or (_OF_REVIEW if name == f"{benchmark.name}_review" else None)
        if name == benchmark.main_table:
            yield name, kept
        else:
            yield name, divide_side(table, tie, kept, gone) if tie else table


def _make_configs(
    forms: ConfigForms, tables: Mapping[str, pa.Table], benchmark: Benchmark, canary: str
) -> Iterator[Config]:
    """Yield the config, or one config per value of `forms.by`; OldBuild for a table that the build lacks."""
    if lacking := [table for table in forms.splits.values() if table not in tables]:
        raise OldBuild(
            f"this build has no table {lacking[0]}: an earlier factmill made it; make it again with the same command: recorded "
            "replies are not asked for again"
        )
    if forms.by:
        ((split, table),) = forms.splits.items()
        parts = {
            name_folder(value): ({split: rows}, f"{forms.title}: {value}")
            for value, rows in divide_by(tables[table], forms.by, forms.leads)
        }
    else:
        parts = {forms.name: ({split: tables[table] for split, table in forms.splits.items()}, forms.title)}
    docs = {
        column: doc for table in forms.splits.values() for column, doc in column_docs(benchmark.tables[table]).items()
    }
    for name, (splits, title) in parts.items():
        wide = unite_splits(splits)
        yield Config(
            name,
            title,
            tuple(
                Split(
                    split,
                    forms.splits[split],
                    tuple(splits[split].column_names),
                    rows.append_column(CANARY, pa.array([canary] * rows.num_rows, pa.string())),
                )
                for split, rows in wide.items()
            ),
            {**docs, CANARY: _CANARY_DOC},
        )


def _count_pages(table: pa.Table, forms: ReleaseForms, wiki: str) -> dict[Page, int]:
    """Return page → number of rows that carry its text or facts, sorted by title."""
    counted = Counter(page for row in table.to_pylist() for page in {*forms.pages(row, wiki)})
    return dict(sorted(counted.items(), key=lambda each: (each[0].title, each[0].revision, each[0].url)))


def _tell_left_out(told: Sequence[Told], choices: Choices) -> Iterator[LeftOut]:
    for name in choices.without:
        rows = sum(name == source or name in split_licences(licence) for source, licence in told)
        yield LeftOut(name, "as the release was asked for", rows)


def _tell_held_out(tables: Mapping[str, pa.Table], held_out: Collection[str]) -> Iterator[LeftOut]:
    for name in held_out:
        if name in tables:
            yield LeftOut(name, "it tells answers of the test part", tables[name].num_rows)


def _draw_examples(configs: Sequence[Config]) -> tuple[Mapping[str, Any], ...]:
    rows = configs[0].splits[0].rows.drop_columns([CANARY]).to_pylist()
    drawn = {*draw_sample((row["id"] for row in rows), _EXAMPLES, 0)}
    return tuple(row for row in rows if row["id"] in drawn)


def withhold_changes(warehouse: Path, release: Release, earlier: BuildRecord, diff: Diff) -> tuple[Diff, list[str]]:
    """Return `diff`, the changes since an earlier build, without rows that a release of either build leaves out; and
    the sources and licences of these rows."""
    kept: list[frozenset[str]] = []
    names: dict[str, None] = {}
    for build in (earlier, release.build):
        with open_warehouse(warehouse) as db:
            main = published_table(db, build.build_id, release.benchmark.main_table)
        told = tell_sources(main, release.forms, build)
        refused = find_refused((licence for _, licence in told), release.choices.allowed)
        without = dict.fromkeys([*release.choices.without, *(each.id for each in refused)])
        there = {name for source, licence in told for name in (source, *split_licences(licence))}
        names |= {name: None for name in without if name in there}
        keep = pick_rows(told, without)
        kept.append(frozenset(row_id for row_id, stays in zip(main["id"].to_pylist(), keep, strict=True) if stays))
    if not names:
        return diff, []
    before, after = kept
    rows = [
        row
        for row in diff.rows
        if (row.kind == "added" or row.id_before in before) and (row.kind == "removed" or row.id in after)
    ]
    same = len(after) - sum(row.kind != "removed" for row in rows)
    # for companion tables and remade rows, only the numbers of the complete builds are known
    of_release = replace(
        diff,
        before=replace(diff.before, rows=len(before)),
        after=replace(diff.after, rows=len(after)),
        rows=rows,
        same=same,
        remade=0,
        tables={},
    )
    return of_release, list(names)
