"""What a release may tell of what changed since an earlier one: nothing of rows that it leaves out.

Of the earlier build, too: what a release must not hand on, its changelog must not quote.
"""

from dataclasses import replace
from pathlib import Path

from tasks.diff.core.changes import Diff
from tasks.release.contents import Release
from tasks.release.core.choosing import pick_rows
from tasks.release.core.licences import find_refused, split_licences
from tasks.release.reading import tell_sources
from tasks.storage.builds import BuildRecord, published_table
from tasks.storage.warehouse import open_warehouse


def withhold_changes(warehouse: Path, release: Release, earlier: BuildRecord, diff: Diff) -> tuple[Diff, list[str]]:
    """Return what changed since an earlier build (`diff`) without the rows that a release of either leaves out, and the sources
    and licences of these."""
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
    # of tables beside, and of rows that were made anew, the numbers of the whole builds alone are known
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
