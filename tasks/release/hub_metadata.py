"""The YAML head of a dataset card, in the vocabulary of the Hugging Face Hub, from which the Hub and `datasets` read
licences, makers, sources, tasks, configs and columns."""

import math
import re
from typing import Any

import pyarrow as pa

from factmill.tasks.release.contents import Release, ReleaseDatasetConfig
from factmill.tasks.release.licence_tables import list_licence_lines
from factmill.tasks.reports.formatting import MAX_NAME_CHARACTERS, shorten_line
from factmill.tasks.text.sanitize import escape_markdown

_SIZE_CATEGORIES: tuple[tuple[float, str], ...] = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
    (math.inf, "1B<n<10B"),
)
"""Number of rows below which a size category of the Hub holds."""
_MAX_NAMED_SOURCES = 12
"""Maximum sources that the head names for a licence."""


def make_card_metadata(release: Release) -> dict[str, Any]:
    """Return the YAML metadata of the card: licences, makers, languages, sources, configs with files, columns and sizes."""
    hub = list(dict.fromkeys(licence.hub_id for licence in release.licences))
    return {
        "pretty_name": release.title,
        "license": hub if len(hub) > 1 else hub[0],
        **(_name_other_licence(release) if hub == ["other"] else {}),
        "license_details": format_licences_by_part(release),
        "annotations_creators": list_annotations_creators(release),
        "language_creators": list_language_creators(release),
        "language": list(release.languages),
        "multilinguality": "translation" if len(release.languages) > 1 else "monolingual",
        "task_categories": [release.forms.card.hub_task],
        "task_ids": list(release.forms.card.hub_task_ids),
        "size_categories": [next(name for most, name in _SIZE_CATEGORIES if release.rows < most)],
        "source_datasets": list_source_datasets(release),
        "tags": ["factuality", "hallucination", "wikidata", "wikipedia", "factmill"],
        "configs": release.hub_configs,
        "dataset_info": [
            _make_dataset_info(config)
            for config in (*release.configs, *release.united_configs)
            if any(split.rows.num_rows for split in config.splits)
        ],
    }


def make_hub_features(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return columns and types in the format of a dataset card's metadata."""
    return [{"name": field.name, **_make_hub_type(field.type)} for field in schema]


def _make_hub_type(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        inner = _make_hub_type(kind.value_type)
        return {"list": inner.get("dtype") or inner.get("struct") or inner}
    if pa.types.is_struct(kind):
        return {"struct": make_hub_features(pa.schema(list(kind)))}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind))}


def _make_dataset_info(config: ReleaseDatasetConfig) -> dict[str, Any]:
    # `datasets` expects only splits that have rows
    filled = [split for split in config.splits if split.rows.num_rows]
    sizes = {split.name: sum(file.size for file in split.files if file.format == "parquet") for split in filled}
    return {
        "config_name": config.name,
        "features": make_hub_features(config.schema),
        "splits": [
            {"name": split.name, "num_bytes": split.rows.nbytes, "num_examples": split.rows.num_rows}
            for split in filled
        ],
        "download_size": sum(sizes.values()),
        "dataset_size": sum(split.rows.nbytes for split in filled),
    }


def _name_other_licence(release: Release) -> dict[str, str]:
    """Return name and place of a licence that the Hub does not know."""
    names = [re.sub(r"[^a-z0-9.]+", "-", licence.id.lower()).strip("-") for licence in release.licences]
    return {"license_name": "-and-".join(filter(None, names)) or "other", "license_link": "LICENSES.csv"}


def list_annotations_creators(release: Release) -> list[str]:
    """Return who made answers, links to items and verdicts: programs and models; the source too if rows come from its
    files."""
    return [*(["found"] if _has_rows_from_non_embedded_files(release) else []), "machine-generated"]


def list_language_creators(release: Release) -> list[str]:
    """Return who wrote the texts: the authors of the source's files, or a model or a template."""
    build = release.build
    is_generated = bool(
        build.report["author"] or build.lock["sources"]["wikidata"] or build.lock["models"].get("translator")
    )
    found = ["found"] if _has_rows_from_non_embedded_files(release) else []
    return [*found, *(["machine-generated"] if is_generated or not found else [])]


def _has_rows_from_non_embedded_files(release: Release) -> bool:
    return bool(release.build.lock["sources"]["files"]) and not release.is_from_embedded_files


def list_source_datasets(release: Release) -> list[str]:
    """Return what the rows come from: data sets that they extend, or `original` where they come from none."""
    if not _has_rows_from_non_embedded_files(release):
        return ["original"]
    known = release.forms.card.hub_sources
    return sorted({known.get(line.source, "extended") for line in release.sources})


def format_licences_by_part(release: Release) -> str:
    """Format which part of the rows has which licence, in one line."""
    parts: dict[tuple[str, str], list[str]] = {}
    for line in list_licence_lines(release):
        parts.setdefault((line.what, line.licence.id), []).append(
            f"{escape_markdown(shorten_line(line.source, MAX_NAME_CHARACTERS))} ({line.rows:,} rows)"
        )
    lines = []
    for (what, licence), sources in parts.items():
        more = len(sources) - _MAX_NAMED_SOURCES
        named = ", ".join(sources[:_MAX_NAMED_SOURCES]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(f"{what} of {named}: {licence}")
    return f"{'; '.join(lines)}. LICENSES.csv has all of it."
