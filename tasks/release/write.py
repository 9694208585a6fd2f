"""Writing of a release folder: a renderer for each file, written in a draft folder that is then moved to its target."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from factmill.tasks.core.publishing.release_index import RELEASE_FORMAT_VERSION
from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN
from factmill.tasks.core.review import format_review_queue_csv
from factmill.tasks.release.contents import Release
from factmill.tasks.release.croissant import render_croissant
from factmill.tasks.release.dataset_card import render_citation_cff, render_dataset_card
from factmill.tasks.release.files import (
    encode_rejects_as_parquet,
    list_release_files,
    make_checksums_file_content,
    open_release_draft,
    write_data_files,
    write_release_file,
)
from factmill.tasks.release.licence_tables import render_licences_csv, render_page_attribution_csv
from factmill.tasks.storage.released_folders import CHECKSUMS_FILE, INDEX_FILE, MANIFEST_FILE, REJECTS_FILE

RELEASE_FILE_RENDERERS: Mapping[str, Callable[[Release], str]] = {
    "README.md": render_dataset_card,
    "croissant.json": render_croissant,
    "CITATION.cff": render_citation_cff,
    "LICENSES.csv": render_licences_csv,
    "ATTRIBUTION.csv": render_page_attribution_csv,
    "decisions.csv": lambda release: format_review_queue_csv(release.decisions, release.forms.canary_line),
    MANIFEST_FILE: lambda release: _format_json(make_manifest_without_withheld_texts(release)),
    INDEX_FILE: lambda release: _format_json(make_release_index(release)),
}
"""File name → renderer of its text (UTF-8), called when the data files are written (`ReleaseSplit.files`)."""
REPORT_PAGE_FILE = "report.html"
"""The build's report page, restricted to contents of the release."""
_WITHHELD_DECISION_FIELDS = ("detail", "context", "proposed", "edited", "note")


@dataclass(frozen=True, slots=True)
class WrittenRelease:
    """A release that was written to its folder."""

    folder: Path
    files: list[str]
    """Paths below the folder, with slashes, sorted; the checksum file is last."""
    release: Release


def write_release(
    release: Release, folder: Path, *, force: bool = False, write_more: Callable[[Path], object] = lambda _: None
) -> WrittenRelease:
    """Write a release to a folder; `write_more` writes further files below the draft folder that it receives.

    OutputError if the folder exists and is no release, or is one and `force` is false, or if a file cannot be written.
    Existing contents stay untouched until the complete release is written.
    """
    with open_release_draft(folder, force) as draft:
        release = write_data_files(release, draft)
        write_release_file(draft / REJECTS_FILE, encode_rejects_as_parquet(release))
        write_more(draft)
        for name, render in RELEASE_FILE_RENDERERS.items():
            write_release_file(draft / name, render(release).encode("utf-8"))
        write_release_file(draft / CHECKSUMS_FILE, make_checksums_file_content(draft, release.forms.canary_line))
        files = [*list_release_files(draft), CHECKSUMS_FILE]
    return WrittenRelease(folder, files, release)


def make_manifest_without_withheld_texts(release: Release) -> dict[str, Any]:
    """Return the build and its manifest as JSON; review decisions lose texts on hidden or excluded rows."""
    build, lock = release.build, dict(release.build.lock)
    reviewing = lock["params"].get("reviewing")
    leaves_out = release.options.excluded or any(each.what.endswith("_review") for each in release.left_out)
    withheld = bool(leaves_out and reviewing and reviewing["decisions"])
    if withheld:
        decisions = [
            {name: value for name, value in each.items() if name not in _WITHHELD_DECISION_FIELDS}
            for each in reviewing["decisions"]
        ]
        lock["params"] = {**lock["params"], "reviewing": {**reviewing, "decisions": decisions}}
    return {
        "notice": release.notice,
        "build_id": build.build_id,
        "benchmark": build.benchmark,
        "published_at": build.published_at.isoformat(),
        "lock_digest": build.lock_digest,
        "content_digest": build.content_digest,
        "withheld": "texts of review decisions that reveal hidden answers or excluded rows; lock_digest is the digest of the lock "
        "with them"
        if withheld
        else "",
        CANARY_COLUMN: release.forms.canary_line,
        "lock": lock,
    }


def make_release_index(release: Release) -> dict[str, Any]:
    """Return the machine-readable index of the folder: configs, splits with their published tables, files."""
    return {
        "factmill_release": RELEASE_FORMAT_VERSION,
        "notice": release.notice,
        "build_id": release.build.build_id,
        "benchmark": release.build.benchmark,
        "published_at": release.build.published_at.isoformat(),
        "content_digest": release.build.content_digest,
        "rows": release.rows,
        CANARY_COLUMN: release.forms.canary_line,
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
        "allowed_licences": list(release.options.allowed_licences),
    }


def _format_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=False) + "\n"
