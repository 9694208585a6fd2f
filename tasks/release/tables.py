"""The data files of a release: Parquet for programs that load it, JSON Lines and CSV with the columns of the paper's files.

Parquet has the columns of its config in every split; JSON Lines and CSV have those of the split's own table. Bytes follow
from the rows alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tasks.core.fingerprints import digest_bytes
from tasks.core.publishing.release_forms import CANARY
from tasks.release.contents import Config, DataFile, Release, Split
from tasks.release.files import write_file
from tasks.storage.export import csv_bytes, jsonl_bytes
from tasks.storage.shards import parquet_bytes


def write_data(release: Release, folder: Path) -> Release:
    """Write the rows of every split below a folder, and return the release with the files' names and digests."""
    told = describe_tables(release)
    configs = [
        replace(
            config,
            splits=tuple(
                replace(split, files=_write_split(release, config, split, folder, told)) for split in config.splits
            ),
        )
        for config in release.configs
    ]
    return replace(release, configs=tuple(configs))


def describe_tables(release: Release) -> dict[str, str]:
    """Return what each Parquet file says of itself beside its rows."""
    told = {
        "build": release.build.build_id,
        "licence": " AND ".join(licence.id for licence in release.licences),
        "canary": release.forms.canary_line,
        "notice": release.notice,
    }
    return {f"factmill.{name}": text for name, text in told.items() if text}


def _write_split(
    release: Release, config: Config, split: Split, folder: Path, told: Mapping[str, str]
) -> tuple[DataFile, ...]:
    forms, own = release.benchmark.forms, split.rows.select([*split.own_columns, CANARY])

    def make() -> Iterator[tuple[str, str, bytes]]:
        yield "data", "parquet", parquet_bytes(split.rows, told)
        yield "jsonl", "jsonl", jsonl_bytes(own, forms.json_columns.get(split.table, ()))
        yield "csv", "csv", csv_bytes(own, forms)

    files = []
    for place, form, data in make():
        path = f"{place}/{config.name}/{split.name}.{form}"
        write_file(folder / path, data)
        files.append(DataFile(path, form, len(data), digest_bytes(data)))
    return tuple(files)


def make_rejects(release: Release) -> bytes:
    """Return the rejects as Parquet."""
    rows = release.rejects
    canary = pa.array([release.forms.canary_line] * rows.num_rows, pa.string())
    return parquet_bytes(rows.append_column(CANARY, canary), describe_tables(release))
