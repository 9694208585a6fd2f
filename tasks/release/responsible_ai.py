"""Responsible AI fields of a release's Croissant metadata (Croissant RAI 1.0): how the rows came about, who made the
labels, what is known to be wrong with them, and whom they name.

Every field is derived from the build and the benchmark's card. One without a known answer is absent: social impact is
never stated, nor the time frame, whose name differs between specification and mlcroissant.
"""

from typing import Any

from factmill.tasks.release.contents import Release
from factmill.tasks.release.licence_tables import list_licence_lines

RAI_CONFORMS_TO = "http://mlcommons.org/croissant/RAI/1.0"


def make_responsible_ai_fields(release: Release) -> dict[str, Any]:
    """Return field → text or list of texts; a field about which nothing is known is absent."""
    build, card, report = release.build, release.forms.card, release.build.report
    services = build.lock["services"].values()
    read = max((each.rows for each in release.audit), default=0)
    fields: dict[str, Any] = {
        "dataCollection": " ".join(
            filter(None, [release.notice, card.about, f"Made by factmill as build {build.build_id}."])
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
    told = ["Answers are those of the sources, or made by the steps of dataPreprocessingProtocol."]
    if judge:
        checked = "was compared with people" if release.judge_cards else "has not been compared with people"
        told.append(f"Verdicts are by the judge {judge}, which {checked}.")
    if decided:
        told.append(f"{decided:,} flagged items went through review; decisions.csv has who decided what.")
    return " ".join(told)
