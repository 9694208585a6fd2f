"""Test a release's card: the header that the Hub reads, and the text for people."""

import html
import json
import re
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import datasets
import jsonschema
import markdown
import pyarrow as pa
import pytest
import yaml
from support.builds.published import publish_rows
from support.builds.released import multihal_tables

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import BuildEvaluation, Release, ReleaseOptions
from factmill.tasks.release.core.authorship import parse_authors
from factmill.tasks.release.croissant import render_croissant
from factmill.tasks.release.dataset_card import NO_AUTHOR_GIVEN, render_citation_cff, render_dataset_card
from factmill.tasks.release.files import write_data_files
from factmill.tasks.release.hub_metadata import make_card_metadata, make_hub_features

NASTY = "</details><script>alert(1)</script>\n# Top\n```\n| a | b |\n../../x \u202e"


def make(tmp_path: Path, tables: dict[str, Any], **published: Any) -> Release:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, tables, **published)
    choices = ReleaseOptions(excluded=("CC-BY-NC-2.0", "felm"))
    return write_data_files(
        verify_and_assemble_release(tmp_path / "w.duckdb", MULTIHAL, MULTIHAL_RELEASE, build, choices), tmp_path / "out"
    )


def split_card(text: str) -> tuple[dict[str, Any], str]:
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def test_card_head_lists_configs_files_columns_and_sizes(tmp_path: Path) -> None:
    release = make(tmp_path, multihal_tables())
    head, _ = split_card(render_dataset_card(release))
    assert head["license"] == "mit"
    assert [each["config_name"] for each in head["configs"]] == ["eng", "deu", "dropped_paths", "multihal"]
    assert [each.get("default") for each in head["configs"]] == [True, None, None, None]
    for config in head["configs"][:3]:
        for split in config["data_files"]:
            assert (tmp_path / "out" / split["path"]).is_file()
    (united,) = head["configs"][3]["data_files"]
    assert united["path"] == ["data/eng/test.parquet", "data/deu/test.parquet"]
    assert head["dataset_info"][3]["splits"][0]["num_examples"] == 2
    assert head["dataset_info"][0]["splits"][0]["num_examples"] == 1


def test_card_head_names_creators_sources_and_licences(tmp_path: Path) -> None:
    files = {"simpleqa": [["qa.json", "0" * 64]]}
    release = make(tmp_path, multihal_tables(), sources={"files": files, "wikidata": None})
    head, body = split_card(render_dataset_card(release))
    vocabulary = json.loads((Path(datasets.__file__).parent / "utils/resources/creators.json").read_text("utf-8"))
    assert head["annotations_creators"] == ["found", "machine-generated"]
    assert {*head["annotations_creators"]} <= {*vocabulary["annotations"]}
    assert {*head["language_creators"]} <= {*vocabulary["language"]}
    assert (head["source_datasets"], head["task_ids"]) == (["extended|other-simpleqa"], ["open-domain-qa"])
    assert (head["language"], head["multilinguality"]) == (["en", "de"], "translation")
    assert head["license_details"].startswith("questions and answers of simpleqa (2 rows): MIT; facts, labels")
    assert "| questions and answers | simpleqa | [MIT](https://opensource.org/license/mit) | 2 |" in body


@pytest.mark.parametrize("rows", [0, 999, 1_000, 10**6, 10**7, 10**9])
def test_every_size_has_hub_category(rows: int, tmp_path: Path) -> None:
    class Sized(Release):
        rows = 0

    known = json.loads((Path(datasets.__file__).parent / "utils/resources/size_categories.json").read_text("utf-8"))
    sized = Sized(
        **{
            field.name: getattr(made, field.name)
            for made in [make(tmp_path, multihal_tables())]
            for field in fields(made)
        }
    )
    Sized.rows = rows
    (category,) = make_card_metadata(sized)["size_categories"]
    assert category in known


def test_figures_of_card_say_their_n_and_come_from_the_evaluation_with_most_items(tmp_path: Path) -> None:
    release = make(tmp_path, multihal_tables())
    whole, limited = (make_evaluation(release, value, n) for value, n in ((0.5, 40), (0.9, 5)))
    for order in ((whole, limited), (limited, whole)):
        _, body = split_card(render_dataset_card(replace(release, evaluations=order)))
        (line,) = [each for each in body.splitlines() if each.startswith("| figures so far |")]
        assert "m 0.5 (n = 40)" in line and "0.9" not in line
        assert "Measured on this build: m" in body
    facts = {**release.build.report["facts"], "measured": "multihal-2"}
    elsewhere = replace(whole, record=replace(release.build, report={**release.build.report, "facts": facts}))
    assert "Measured on a build with the same rows (multihal-2): m" in render_dataset_card(
        replace(release, evaluations=(elsewhere,))
    )


def make_evaluation(release: Release, value: float, n: int) -> BuildEvaluation:
    metric = EvaluationMetric(
        id="qa/x", benchmark="multihal", model="m", judge="", setting="qa", metric=release.forms.card.headline_metric,
        group_by="", group="", n=n, n_unscored=0, value=value, clusters=n, coverage=1.0, bound_low=value,
        bound_high=value, ci_low=None, ci_high=None, interval="", unit="share", note="",
    )  # fmt: skip
    return BuildEvaluation(release.build, [metric])


def test_authors_and_doi_appear_in_citation_only_when_set(tmp_path: Path) -> None:
    release = make(tmp_path, multihal_tables())
    named = replace(
        release,
        options=replace(
            release.options, authors=parse_authors(["Lovelace,  Ada", "R & D {Group}"]), doi="10.5281/zenodo.1"
        ),
    )
    _, body = split_card(render_dataset_card(named))
    assert "author = {Lovelace, Ada and {R \\& D Group}},\n" in body
    assert "doi = {10.5281/zenodo.1}" in body and "| authors | Ada Lovelace; R &amp; D {Group} |" in body
    cff = yaml.safe_load(render_citation_cff(named))
    assert cff["authors"] == [{"family-names": "Lovelace", "given-names": "Ada"}, {"name": "R & D {Group}"}]
    schema = files("check_jsonschema") / "builtin_schemas/vendor/citation-file-format.json"
    jsonschema.validate(cff, json.loads(schema.read_text("utf-8")))
    croissant = json.loads(render_croissant(named))
    assert [each["@type"] for each in croissant["creator"]] == ["sc:Person", "sc:Organization"]
    assert croissant["sameAs"] == "https://doi.org/10.5281/zenodo.1"

    _, body = split_card(render_dataset_card(release))
    own = body[body.index("@misc{multihal_factmill") :]
    assert "author =" not in own and "doi =" not in own and NO_AUTHOR_GIVEN in markdown_text(own)
    assert (render_citation_cff(release).count(NO_AUTHOR_GIVEN), "sameAs" in render_croissant(release)) == (1, False)


def markdown_text(body: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", markdown.markdown(body, extensions=["fenced_code"])))


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.list_(pa.string()),
        pa.list_(pa.list_(pa.int64())),
        pa.list_(pa.struct([("qid", pa.string()), ("scores", pa.list_(pa.float64()))])),
        pa.struct([("field", pa.string())]),
    ],
    ids=str,
)
def test_types_use_names_of_datasets_library(kind: pa.DataType) -> None:
    schema = pa.schema([("column", kind)])
    assert make_hub_features(schema) == datasets.Features.from_arrow_schema(schema)._to_yaml_list()


def test_card_body_lists_built_dropped_and_excluded_rows(tmp_path: Path) -> None:
    _, body = split_card(render_dataset_card(make(tmp_path, multihal_tables())))
    assert body.startswith("# MultiHal, rebuilt by factmill")
    for result in (
        "`too_short` 1",
        "Left out: ",
        "Its judge is unchecked",
        MULTIHAL_RELEASE.canary_line,
        "@misc{multihal2025",
    ):
        assert result in body, result


def test_card_first_line_names_scripted_replies(tmp_path: Path) -> None:
    scripted = {
        "author": "scripted replies",
        "models": {"author": "scripted replies"},
        "scripted": {"multihal/score_path": "1"},
    }
    services = {"wikidata": "embedded-0/wikidata", "wikipedia": "embedded-0/wikipedia"}
    _, body = split_card(render_dataset_card(make(tmp_path, multihal_tables(), **scripted, services=services)))
    assert body.startswith("> **No language model wrote these rows: scripted replies")


def test_row_and_prompt_text_cannot_become_card_markup(tmp_path: Path) -> None:
    tables = multihal_tables()
    rows = [{**row, "input": NASTY} for row in tables["multihal"]]
    _, body = split_card(render_dataset_card(make(tmp_path, {**tables, "multihal": rows})))
    page = markdown.markdown(body, extensions=["fenced_code", "tables"])
    assert "<script" not in page
    assert "<h1>Top</h1>" not in page
    assert page.count("<summary>") == page.count("</details>") == 1
