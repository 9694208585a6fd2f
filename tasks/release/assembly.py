"""Assembly of a release from the warehouse: its rows, what is left out of them, and its attachments.

A changelog omits rows that the release leaves out, and rows that a release of the earlier build would leave out
(`restrict_diff_and_list_left_out_sources`).
"""

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from factmill.tasks.core.measures.audits import draw_audit_sample_ids
from factmill.tasks.core.publishing.release_index import ReleasedTable
from factmill.tasks.core.publishing.release_spec import (
    CANARY_COLUMN,
    REJECT_DETAILS_OMISSION,
    BenchmarkReleaseSpec,
    DatasetConfigSpec,
    ParentRowLink,
    SourceArticleRevision,
    get_wikipedia_url_or_embedded_marker,
)
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE, NO_LICENCE_STATED, column_docs
from factmill.tasks.diff.core.changes import BuildDiff
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import BuildFormatTooOld, UsageError
from factmill.tasks.release.attachments import (
    iterate_review_items_blank_if_held_out,
    load_build_prompts,
    load_build_rejects_evaluations_and_audit,
)
from factmill.tasks.release.contents import (
    Release,
    ReleaseDatasetConfig,
    ReleaseOmission,
    ReleaseOptions,
    ReleaseSplit,
    SourceRowCount,
)
from factmill.tasks.release.core.licences import (
    choose_whole_release_licences,
    get_known_or_make_refused_licence,
    list_licences_refused_unless_allowed,
    split_licence_expression,
)
from factmill.tasks.release.core.selection_and_gates import (
    SourceAndLicence,
    align_split_columns,
    drop_companion_rows,
    make_dataset_config_name,
    mark_released_rows,
    split_by_column,
    split_by_mask,
)
from factmill.tasks.reports.page_frame import format_build_command
from factmill.tasks.storage.builds import BuildRecord, load_published_table, load_table_digests
from factmill.tasks.storage.export import load_verified_tables
from factmill.tasks.storage.shards import digest_table_as_parquet
from factmill.tasks.storage.user_tables import find_licence_problem, list_nearest_licences
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.text.sanitize import format_did_you_mean

_CANARY_DOC = "The same text in every row; makers of training sets can find these rows by it and exclude them."
_EXAMPLE_ROWS = 3
_REVIEW_PARENT_LINK = ParentRowLink(column="row_id")


def verify_and_assemble_release(
    warehouse: Path, benchmark: Benchmark, spec: BenchmarkReleaseSpec, build: BuildRecord, options: ReleaseOptions
) -> Release:
    """Assemble the release of a build.

    UsageError for unknown names to exclude and for licences that forbid it; WarehouseError if a table differs from what
    was published; BuildFormatTooOld if the build lacks a table.
    """
    held_out = () if options.includes_hidden_answers else benchmark.held_out_tables
    with open_warehouse(warehouse) as db:
        tables = load_verified_tables(db, warehouse, build)
        published = load_table_digests(db, build.build_id)
    attachments = load_build_rejects_evaluations_and_audit(warehouse, benchmark, build)
    rejects, withheld = attachments.redact_rejects(options, held_out)
    sources = list_source_and_licence_of_each_row(tables[benchmark.main_table], spec, build)
    keep = mark_released_rows(sources, options.excluded)
    check_exclusions_and_licences(sources, keep, options, build, benchmark)
    shown = dict(_drop_excluded_rows(tables, benchmark, spec, keep))
    open_configs = [each for each in spec.configs if not {*each.splits.values()} & {*held_out}]
    configs = tuple(
        config for each in open_configs for config in _make_configs(each, shown, benchmark, spec.canary_line)
    )
    left_out = (
        *_list_excluded_source_omissions(sources, options),
        *_list_held_out_table_omissions(tables, held_out),
        *withheld,
    )
    is_whole = all(each.what == REJECT_DETAILS_OMISSION for each in left_out)
    there = tables if is_whole else {split.table for config in configs for split in config.splits}
    counted = Counter(each for each, is_kept in zip(sources, keep, strict=True) if is_kept)
    wiki = get_wikipedia_url_or_embedded_marker(build.lock)
    return Release(
        benchmark=benchmark,
        forms=spec,
        build=build,
        configs=configs,
        sources=tuple(SourceRowCount(source, licence, rows) for (source, licence), rows in sorted(counted.items())),
        licences=choose_whole_release_licences(licence for _, licence in counted),
        pages=_count_rows_by_page(shown[spec.pages_table or benchmark.main_table], spec, wiki),
        pages_licence=get_known_or_make_refused_licence(
            EMBEDDED_WORLD_LICENCE if wiki == "embedded" else "CC-BY-SA-4.0"
        ),
        embedded_services=tuple(
            name for name, identity in sorted(build.lock["services"].items()) if identity.startswith("embedded-")
        ),
        left_out=left_out,
        tables={
            name: ReleasedTable(
                rows=rows.num_rows, sha256=published[name] if is_whole else digest_table_as_parquet(rows)
            )
            for name, rows in sorted(shown.items())
            if name in there
        },
        prompts=tuple(load_build_prompts(build)),
        examples=_sample_example_rows_of_first_split(configs),
        decisions=tuple(iterate_review_items_blank_if_held_out(shown, benchmark, held_out)),
        rejects=rejects,
        judge_cards=attachments.judge_cards,
        audit=attachments.audit,
        evaluations=attachments.evaluations,
        options=options,
    )


def list_source_and_licence_of_each_row(
    main: pa.Table, spec: BenchmarkReleaseSpec, build: BuildRecord
) -> list[SourceAndLicence]:
    """Return the source and licence of each row of the main table."""
    lock, origin = build.lock, build.origin
    return [
        (
            row[spec.source_column] if spec.source_column else spec.get_source(lock, origin, row),
            row[spec.licence_column] if spec.licence_column else spec.get_licence(lock, origin, row),
        )
        for row in main.to_pylist()
    ]


def check_exclusions_and_licences(
    sources: Sequence[SourceAndLicence],
    keep: Sequence[bool],
    options: ReleaseOptions,
    build: BuildRecord,
    benchmark: Benchmark,
) -> None:
    """UsageError for unknown names to exclude, if remaining rows are under a refused licence, and if no row remains."""
    known = {source for source, _ in sources} | {
        part for _, licence in sources for part in split_licence_expression(licence)
    }
    if wrong := [name for name in options.excluded if name not in known]:
        raise UsageError(
            f"--without {wrong[0]}: {build.build_id} has no such source or licence; it has: "
            f"{', '.join(sorted(known)) or 'none'}{format_did_you_mean(wrong[0], known)}"
        )
    staying = [each for each, is_kept in zip(sources, keep, strict=True) if is_kept]
    refused = list_licences_refused_unless_allowed((licence for _, licence in staying), options.allowed_licences)
    lines = []
    for licence in refused:
        under = Counter(source for source, each in staying if licence.id in split_licence_expression(each))
        where = ", ".join(f"{source} ({rows} row{'s' * (rows != 1)})" for source, rows in sorted(under.items()))
        lines.append(
            (
                f"{where}: no licence is stated, so "
                if licence.id == NO_LICENCE_STATED
                else f"Licence {licence.id} of {where}: "
            )
            + licence.refusal_reason
            + _format_advice_to_restate_licence(licence.id, build, benchmark)
        )
    if lines:
        without = " ".join(f"--without {shlex.quote(licence.id)}" for licence in refused)
        allow = " ".join(f"--allow-licence {shlex.quote(licence.id)}" for licence in refused)
        ids = {licence.id for licence in refused}
        has_others = any(ids.isdisjoint(split_licence_expression(licence)) for _, licence in staying)
        exclude = f"Exclude these rows with {without} (or --without SOURCE). " if has_others else ""
        raise UsageError(
            f"{build.build_id} cannot be released. {'; '.join(lines)}. "
            f"{exclude}If you may redistribute these rows, repeat this command with {allow}"
        )
    if not staying:
        raise UsageError(f"{build.build_id}: no row is left to release; exclude fewer sources and licences (--without)")


def _format_advice_to_restate_licence(licence_id: str, build: BuildRecord, benchmark: Benchmark) -> str:
    """Return how to state the licence of an own source that has none, or one in other words than SPDX's; else nothing."""
    if licence_id == NO_LICENCE_STATED and build.origin.get("flow", {}).get("source"):
        command = format_build_command(["build", benchmark.name], benchmark.params, build)
        return (
            f". If you know the licence, build again with its SPDX id (such as CC-BY-4.0) for LICENCE: `{command} --source-licence LICENCE`; "
            "then release the new build"
        )
    is_own = licence_id == (build.lock["params"].get("own_source") or {}).get("licence")
    nearest = list_nearest_licences(licence_id) if is_own and find_licence_problem(licence_id) else []
    return f". If it is {nearest[0]}, build again with --source-licence {nearest[0]}" if nearest else ""


def _drop_excluded_rows(
    tables: Mapping[str, pa.Table], benchmark: Benchmark, spec: BenchmarkReleaseSpec, keep: Sequence[bool]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables without excluded rows and what belongs only to them."""
    kept, gone = split_by_mask(tables[benchmark.main_table], keep)
    ties = {table: each.parent_link for each in spec.configs for table in each.splits.values()}
    for name, table in tables.items():
        tie = ties.get(name) or (_REVIEW_PARENT_LINK if name == f"{benchmark.name}_review" else None)
        if name == benchmark.main_table:
            yield name, kept
        else:
            yield name, drop_companion_rows(table, tie, kept, gone) if tie else table


def _make_configs(
    spec: DatasetConfigSpec, tables: Mapping[str, pa.Table], benchmark: Benchmark, canary: str
) -> Iterator[ReleaseDatasetConfig]:
    """Yield the config, or one config per value of `forms.by`; BuildFormatTooOld for a table that the build lacks."""
    if lacking := [table for table in spec.splits.values() if table not in tables]:
        raise BuildFormatTooOld(
            f"this build has no table {lacking[0]}: an earlier version of factmill made it; rebuild it with the same command "
            "(recorded replies are reused)"
        )
    if spec.config_column:
        ((split, table),) = spec.splits.items()
        parts = {
            make_dataset_config_name(value): ({split: rows}, f"{spec.title}: {value}")
            for value, rows in split_by_column(tables[table], spec.config_column, spec.first_value)
        }
    else:
        parts = {spec.name: ({split: tables[table] for split, table in spec.splits.items()}, spec.title)}
    docs = {
        column: doc for table in spec.splits.values() for column, doc in column_docs(benchmark.tables[table]).items()
    }
    for name, (splits, title) in parts.items():
        wide = align_split_columns(splits)
        yield ReleaseDatasetConfig(
            name,
            title,
            tuple(
                ReleaseSplit(
                    split,
                    spec.splits[split],
                    tuple(splits[split].column_names),
                    rows.append_column(CANARY_COLUMN, pa.array([canary] * rows.num_rows, pa.string())),
                )
                for split, rows in wide.items()
            ),
            {**docs, CANARY_COLUMN: _CANARY_DOC},
        )


def _count_rows_by_page(table: pa.Table, spec: BenchmarkReleaseSpec, wiki: str) -> dict[SourceArticleRevision, int]:
    """Return page → number of rows that carry its text or facts, sorted by title."""
    counted = Counter(page for row in table.to_pylist() for page in {*spec.list_pages(row, wiki)})
    return dict(sorted(counted.items(), key=lambda each: (each[0].title, each[0].revision, each[0].url)))


def _list_excluded_source_omissions(
    sources: Sequence[SourceAndLicence], options: ReleaseOptions
) -> Iterator[ReleaseOmission]:
    for name in options.excluded:
        rows = sum(name == source or name in split_licence_expression(licence) for source, licence in sources)
        yield ReleaseOmission(name, "the publisher excluded it", rows)


def _list_held_out_table_omissions(
    tables: Mapping[str, pa.Table], held_out: Collection[str]
) -> Iterator[ReleaseOmission]:
    for name in held_out:
        if name in tables:
            yield ReleaseOmission(name, "it contains answers of the test part", tables[name].num_rows)


def _sample_example_rows_of_first_split(configs: Sequence[ReleaseDatasetConfig]) -> tuple[Mapping[str, Any], ...]:
    rows = configs[0].splits[0].rows.drop_columns([CANARY_COLUMN]).to_pylist()
    drawn = {*draw_audit_sample_ids((row["id"] for row in rows), _EXAMPLE_ROWS, 0)}
    return tuple(row for row in rows if row["id"] in drawn)


def restrict_diff_and_list_left_out_sources(
    warehouse: Path, release: Release, earlier: BuildRecord, diff: BuildDiff
) -> tuple[BuildDiff, list[str]]:
    """Return `diff`, the changes since an earlier build, without rows that a release of either build leaves out; and
    the sources and licences of these rows."""
    kept: list[frozenset[str]] = []
    names: dict[str, None] = {}
    for build in (earlier, release.build):
        with open_warehouse(warehouse) as db:
            main = load_published_table(db, build.build_id, release.benchmark.main_table)
        sources = list_source_and_licence_of_each_row(main, release.forms, build)
        refused = list_licences_refused_unless_allowed(
            (licence for _, licence in sources), release.options.allowed_licences
        )
        without = dict.fromkeys([*release.options.excluded, *(each.id for each in refused)])
        there = {name for source, licence in sources for name in (source, *split_licence_expression(licence))}
        names |= {name: None for name in without if name in there}
        keep = mark_released_rows(sources, without)
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
