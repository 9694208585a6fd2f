"""croissant.json of a release: machine-readable metadata of the dataset (Croissant 1.0, JSON-LD).

A record set describes the rows of one split of one config, in its Parquet file.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from factmill.tasks.release.contents import Release, ReleaseDataFile, ReleaseDatasetConfig, ReleaseSplit

_CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
_JSON_LD_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_PROJECT_URL = "https://github.com/factmill/factmill"


def render_croissant(release: Release) -> str:
    """Return the text of croissant.json."""
    build = release.build
    name, _, about = release.benchmark.title.partition(":")
    metadata: dict[str, Any] = {
        "@context": _JSON_LD_CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _CONFORMS_TO,
        "name": f"{release.benchmark.name}-factmill",
        "description": " ".join(filter(None, [release.notice, f"{name}:{about}.", release.forms.canary_line])),
        "license": [licence.url or licence.name for licence in release.licences],
        "url": _PROJECT_URL,
        "citeAs": _format_citation(release),
        "creator": {"@type": "sc:Organization", "name": "factmill"},
        "inLanguage": list(release.forms.languages),
        "keywords": ["factuality", "benchmark", "language models"],
        "datePublished": f"{build.published_at:%Y-%m-%d}",
        "version": f"1.0.0+{build.build_id}",
        "isLiveDataset": False,
        "distribution": [_make_file_object(file) for _, _, file in _iterate_parquet_files(release)],
        "recordSet": [_make_record_set(*each) for each in _iterate_parquet_files(release)],
    }
    return json.dumps(metadata, ensure_ascii=False, indent=1) + "\n"


def _iterate_parquet_files(release: Release) -> Iterator[tuple[ReleaseDatasetConfig, ReleaseSplit, ReleaseDataFile]]:
    for config in release.configs:
        for split in config.splits:
            for file in split.files:
                if file.format == "parquet":
                    yield config, split, file


def _make_file_object(file: ReleaseDataFile) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": file.sha256,
    }


def _make_record_set(config: ReleaseDatasetConfig, split: ReleaseSplit, file: ReleaseDataFile) -> dict[str, Any]:
    name = f"{config.name}/{split.name}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"{config.title}: {split.rows.num_rows} rows.",
        "key": {"@id": f"{name}/id"},
        "field": [_make_field(name, field, config.docs.get(field.name, ""), file) for field in config.schema],
    }


def _make_field(record_set: str, field: "pa.Field[Any]", description: str, file: ReleaseDataFile) -> dict[str, Any]:
    repeated = pa.types.is_list(field.type)
    kind = field.type.value_type if repeated else field.type
    source = {"fileObject": {"@id": file.path}, "extract": {"column": field.name}}
    described = {
        "@type": "cr:Field",
        "@id": f"{record_set}/{field.name}",
        "name": field.name,
        "description": description,
        **({"repeated": True} if repeated else {}),
    }
    if pa.types.is_struct(kind):
        parts = [
            {
                "@type": "cr:Field",
                "@id": f"{record_set}/{field.name}/{part.name}",
                "name": part.name,
                "dataType": _get_croissant_type(part.type),
                "source": {**source, "transform": {"jsonPath": f"$.{part.name}"}},
            }
            for part in kind
        ]
        return {**described, "subField": parts}
    return {**described, "dataType": _get_croissant_type(kind), "source": source}


def _get_croissant_type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(kind) else "sc:Text"


def _format_citation(release: Release) -> str:
    paper = release.forms.paper
    if paper is None:
        return f"{release.benchmark.title}. Built by factmill, {release.build.build_id}."
    authors = ", ".join(f"{given} {family}" for given, family in paper.authors)
    return f"{authors}: {paper.title}, {paper.year}. {paper.url}"
