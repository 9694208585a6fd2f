"""croissant.json of a release: machine-readable metadata of the dataset (Croissant 1.1 with RAI 1.0, JSON-LD).

A record set describes the rows of one split of one config, in its Parquet file.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from factmill.tasks.release.contents import Release, ReleaseDataFile, ReleaseDatasetConfig, ReleaseSplit
from factmill.tasks.release.dataset_card import format_paper_and_release_bibtex
from factmill.tasks.release.licence_tables import list_licence_lines

_CONFORMS_TO = "http://mlcommons.org/croissant/1.1"
_RAI_CONFORMS_TO = "http://mlcommons.org/croissant/RAI/1.0"
_JSON_LD_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
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
    metadata: dict[str, Any] = {
        "@context": _JSON_LD_CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [_CONFORMS_TO, _RAI_CONFORMS_TO],
        "name": f"{release.benchmark.name}-factmill",
        "description": " ".join(
            filter(
                None,
                [
                    release.notice,
                    release.content if release.user_source_name else f"{release.benchmark.title}.",
                    release.forms.canary_line,
                ],
            )
        ),
        "license": [licence.url or licence.name for licence in release.licences],
        "url": _PROJECT_URL,
        "citeAs": format_paper_and_release_bibtex(release),
        "creator": [
            {"@type": "sc:Person" if author.family else "sc:Organization", "name": author.name}
            for author in release.options.authors
        ]
        or {"@type": "sc:Organization", "name": "factmill"},
        **({"sameAs": f"https://doi.org/{release.options.doi}"} if release.options.doi else {}),
        "inLanguage": list(release.languages),
        "keywords": ["factuality", "benchmark", "language models"],
        "datePublished": f"{build.published_at:%Y-%m-%d}",
        "version": f"1.0.0+{build.build_id}",
        "isLiveDataset": False,
        **_make_responsible_ai_fields(release),
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
    is_array = pa.types.is_list(field.type)
    kind = field.type.value_type if is_array else field.type
    source = {"fileObject": {"@id": file.path}, "extract": {"column": field.name}}
    described = {
        "@type": "cr:Field",
        "@id": f"{record_set}/{field.name}",
        "name": field.name,
        "description": description,
        **({"isArray": True, "arrayShape": "-1"} if is_array else {}),
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


def _make_responsible_ai_fields(release: Release) -> dict[str, Any]:
    """Return the fields of Croissant RAI 1.0: field → text or list of texts, derived from the build and the card.

    A field without a known answer is absent: social impact is never stated, nor the time frame, whose name differs between
    specification and mlcroissant.
    """
    build, card, report = release.build, release.forms.card, release.build.report
    services = build.lock["services"].values()
    read = max((each.rows for each in release.audit), default=0)
    fields: dict[str, Any] = {
        "dataCollection": " ".join(
            filter(None, [release.notice, release.about, f"Made by factmill as build {build.build_id}."])
        ),
        "dataCollectionType": [
            "Secondary Data analysis",
            *(["Web API"] if any(str(each).startswith("http") for each in services) else []),
        ],
        "dataCollectionRawData": "; ".join(
            f"{line.source}: {line.what} ({line.licence.id})" for line in list_licence_lines(release)
        ),
        "dataCollectionMissingData": (
            f"{report['rejects']:,} rows were dropped on the way; rejects.parquet has each with its stage and reason. Values "
            "that the sources lack are null."
        ),
        "dataPreprocessingProtocol": [
            f"{stage['stage']}: {card.steps.get(stage['stage'], '')} {stage['rows_in']:,} rows in, {stage['rows_out']:,} out."
            for stage in release.stages
        ],
        "dataAnnotationProtocol": _describe_annotation(release),
        "machineAnnotationTools": [
            "factmill",
            *(f"{model} ({role})" for role, model in sorted(build.lock["models"].items())),
        ],
        "annotationsPerItem": (
            f"No label was made by a person; people read {read:,} rows to check them." if read else "None by people."
        ),
        "dataLimitations": list(card.limits),
        "dataBiases": [
            "What Wikidata, Wikipedia and the sources lack is not asked about, and what they cover best is asked about most."
        ],
        "dataUseCases": [
            "Testing: measuring what a language model knows, as the card describes.",
            f"Not for training: {release.forms.canary_line}",
        ],
        "personalSensitiveInformation": [card.personal_information] if card.personal_information else [],
        "dataReleaseMaintenancePlan": (
            "A rebuild from newer sources is a new build with another id; CHANGELOG.md lists what changed where the earlier one "
            "was named. Nobody promises when the next one is made."
        ),
    }
    return {f"rai:{name}": value for name, value in fields.items() if value}


def _describe_annotation(release: Release) -> str:
    judge, decided = release.build.lock["models"].get("judge", ""), len(release.decisions)
    lines = ["Answers are those of the sources, or made by the steps of dataPreprocessingProtocol."]
    if judge:
        checked = "was compared with people" if release.judge_cards else "has not been compared with people"
        lines.append(f"Verdicts are by the judge {judge}, which {checked}.")
    if decided:
        lines.append(f"{decided:,} flagged items went through review; decisions.csv has who decided what.")
    return " ".join(lines)
