"""Writing of a release folder: a renderer for each file, written in a draft folder that is then moved to its target."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from factmill.tasks.core.publishing.release_forms import CANARY
from factmill.tasks.core.publishing.release_index import FORM
from factmill.tasks.core.review import write_queue
from factmill.tasks.release.card import render_card, render_citation
from factmill.tasks.release.contents import Release
from factmill.tasks.release.croissant import render_croissant
from factmill.tasks.release.files import list_files, make_rejects, make_sums, open_draft, write_data, write_file
from factmill.tasks.release.licences import render_attribution, render_licences
from factmill.tasks.storage.released_folders import INDEX, LOCK, REJECTS, SUMS

RENDERERS: Mapping[str, Callable[[Release], str]] = {
    "README.md": render_card,
    "croissant.json": render_croissant,
    "CITATION.cff": render_citation,
    "LICENSES.csv": render_licences,
    "ATTRIBUTION.csv": render_attribution,
    "decisions.csv": lambda release: write_queue(release.decisions, release.forms.canary_line),
    LOCK: lambda release: _dump(describe_build(release)),
    INDEX: lambda release: _dump(describe_files(release)),
}
"""File name → renderer of its text (UTF-8), called when the data files are written (`Split.files`)."""
PAGE = "report.html"
"""The build's report page, restricted to contents of the release."""
_WITHHELD = ("detail", "context", "proposed", "edited", "note")


@dataclass(frozen=True, slots=True)
class Written:
    """A release that was written to its folder."""

    folder: Path
    files: list[str]
    """Paths below the folder, with slashes, sorted; the checksum file is last."""
    release: Release


def write_release(
    release: Release, folder: Path, *, force: bool = False, more: Callable[[Path], object] = lambda _: None
) -> Written:
    """Write a release to a folder; `more` writes further files below the draft folder that it receives.

    OutputError if the folder exists and is no release, or is one and `force` is false, or if a file cannot be written.
    Existing contents stay untouched until the whole release is written.
    """
    with open_draft(folder, force) as draft:
        release = write_data(release, draft)
        write_file(draft / REJECTS, make_rejects(release))
        more(draft)
        for name, render in RENDERERS.items():
            write_file(draft / name, render(release).encode("utf-8"))
        write_file(draft / SUMS, make_sums(draft, release.forms.canary_line))
        files = [*list_files(draft), SUMS]
    return Written(folder, files, release)


def describe_build(release: Release) -> dict[str, Any]:
    """Return the build and its manifest as JSON; review decisions lose texts on hidden or excluded rows."""
    build, lock = release.build, dict(release.build.lock)
    reviewing = lock["params"].get("reviewing")
    leaves_out = release.choices.without or any(each.what.endswith("_review") for each in release.left_out)
    withheld = bool(leaves_out and reviewing and reviewing["decisions"])
    if withheld:
        decisions = [
            {name: told for name, told in each.items() if name not in _WITHHELD} for each in reviewing["decisions"]
        ]
        lock["params"] = {**lock["params"], "reviewing": {**reviewing, "decisions": decisions}}
    return {
        "notice": release.notice,
        "build_id": build.build_id,
        "benchmark": build.benchmark,
        "published_at": build.published_at.isoformat(),
        "lock_digest": build.lock_digest,
        "content_digest": build.content_digest,
        "withheld": "texts of review decisions, which tell hidden answers or rows that are left out: the digest is of the lock with "
        "them"
        if withheld
        else "",
        CANARY: release.forms.canary_line,
        "lock": lock,
    }


def describe_files(release: Release) -> dict[str, Any]:
    """Return the machine-readable index of the folder: configs, splits with their published tables, files."""
    return {
        "factmill_release": FORM,
        "notice": release.notice,
        "build_id": release.build.build_id,
        "benchmark": release.build.benchmark,
        "published_at": release.build.published_at.isoformat(),
        "content_digest": release.build.content_digest,
        "rows": release.rows,
        CANARY: release.forms.canary_line,
        "tables": {name: table.model_dump() for name, table in release.tables.items()},
        "configs": [
            {
                "name": config.name,
                "title": config.title,
                "splits": [
                    {
                        "name": split.name,
                        "table": split.table,
                        "columns": list(split.own_columns),
                        "rows": split.rows.num_rows,
                        "files": [asdict(file) for file in split.files],
                    }
                    for split in config.splits
                ],
            }
            for config in release.configs
        ],
        "left_out": [asdict(each) for each in release.left_out],
        "allowed_licences": list(release.choices.allowed),
    }


def _dump(told: Mapping[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False, indent=1, sort_keys=False) + "\n"
