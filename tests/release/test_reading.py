"""Test a release's content, from builds whose rows this module writes."""

import json
from pathlib import Path

import pytest
from support.builds.published import publish_rows
from support.builds.released import fanout_tables, multihal_row, multihal_tables

from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import BuildFormatTooOld, UsageError, WarehouseError
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.release import FANOUTQA_RELEASE
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import Release, ReleaseOptions
from factmill.tasks.storage.warehouse import open_warehouse

OPEN = ReleaseOptions(excluded=("CC-BY-NC-2.0", "felm"))
_ALL = ReleaseOptions()
FORMS = {"multihal": MULTIHAL_RELEASE, "fanoutqa": FANOUTQA_RELEASE}


def read(warehouse: Path, benchmark: Benchmark, choices: ReleaseOptions = _ALL, **published: object) -> Release:
    tables = multihal_tables() if benchmark is MULTIHAL else fanout_tables()
    build = publish_rows(warehouse, benchmark, tables, **published)  # type: ignore[arg-type]
    return verify_and_assemble_release(warehouse, benchmark, FORMS[benchmark.name], build, choices)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "factmill.duckdb"


def shape(release: Release) -> dict[str, dict[str, int]]:
    return {each.name: {split.name: split.rows.num_rows for split in each.splits} for each in release.configs}


def test_rows_form_one_config_per_language_with_english_first(warehouse: Path) -> None:
    release = read(warehouse, MULTIHAL, OPEN)
    assert shape(release) == {"eng": {"test": 1}, "deu": {"test": 1}, "dropped_paths": {"test": 2}}
    assert next(iter(shape(release))) == "eng"
    assert release.rows == 2
    assert [(each.source, each.licence, each.rows) for each in release.sources] == [("simpleqa", "MIT", 2)]
    assert [each.id for each in release.licences] == ["MIT"]


def test_side_rows_follow_only_rows_of_build(warehouse: Path) -> None:
    release = read(warehouse, MULTIHAL, OPEN)
    (dropped,) = (each for each in release.configs if each.name == "dropped_paths")
    # felm_9 has no row in the build, so its dropped path stays
    assert dropped.splits[0].rows["question_id"].to_pylist() == ["felm_9", "simpleqa_1"]


def test_splits_of_one_config_have_same_columns(warehouse: Path) -> None:
    release = read(warehouse, FANOUTQA)
    dev, test = release.configs[0].splits
    assert dev.rows.schema == test.rows.schema
    assert dev.rows.column_names[-1] == CANARY_COLUMN
    assert set(dev.rows[CANARY_COLUMN].to_pylist()) == {FANOUTQA_RELEASE.canary_line}
    assert test.rows["answer"].null_count == 2
    assert "answer" not in test.own_columns
    assert list(release.configs[0].docs) == dev.rows.column_names


def test_tables_revealing_hidden_answers_are_omitted_and_listed(warehouse: Path) -> None:
    release = read(warehouse, FANOUTQA)
    assert list(shape(release)) == ["fanoutqa", "provenance", "articles"]
    assert {each.what: each.rows for each in release.left_out} == {
        "fanoutqa_test_answers": 2,
        "fanoutqa_references": 3,
        "fanoutqa_review": 3,
        "details of rejects": 1,
    }
    shown = [release.configs[0].splits[1], *(split for config in release.configs[1:] for split in config.splits)]
    assert "secret" not in str([split.rows.to_pylist() for split in shown])
    assert "secret" not in str(release.decisions)
    assert [each.decision for each in release.decisions] == ["keep"] * 3


def test_hidden_answers_become_configs_on_request(warehouse: Path) -> None:
    release = read(warehouse, FANOUTQA, ReleaseOptions(includes_hidden_answers=True))
    assert list(shape(release))[-2:] == ["test_answers", "references"]
    assert not release.left_out
    assert release.rejects["detail"].to_pylist() == ["nothing in it"]
    assert "secret 1" in str(release.decisions)


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        (ReleaseOptions(), "CC-BY-NC-2.0 of halueval (2 rows): it forbids commercial use"),
        (ReleaseOptions(), "CC-BY-NC-SA-4.0 of felm (2 rows)"),
        (ReleaseOptions(), "--without CC-BY-NC-2.0 --without CC-BY-NC-SA-4.0 (or --without SOURCE)"),
        (ReleaseOptions(excluded=("felm",)), "--allow-licence CC-BY-NC-2.0"),
        (ReleaseOptions(excluded=("felmm",)), "--without felmm"),
        (ReleaseOptions(excluded=("felmm",)), "did you mean felm?"),
        (ReleaseOptions(excluded=("MIT", "felm")), "no row is left"),
    ],
)
def test_rejected_release_names_next_step(warehouse: Path, choices: ReleaseOptions, text: str) -> None:
    with pytest.raises(UsageError) as error:
        read(warehouse, MULTIHAL, choices)
    assert text in str(error.value)


def test_allowed_licences_are_released(warehouse: Path) -> None:
    release = read(warehouse, MULTIHAL, ReleaseOptions(allowed_licences=("CC-BY-NC-2.0", "CC-BY-NC-SA-4.0")))
    assert release.rows == 6
    assert [each.id for each in release.licences] == ["CC-BY-NC-2.0", "CC-BY-NC-SA-4.0"]


def test_pages_are_attributed_by_revision(warehouse: Path) -> None:
    release = read(warehouse, FANOUTQA)
    first = next(iter(release.pages))
    assert (first.title, first.revision, len(release.pages)) == ("Range 0", "70", 3)
    assert first.url == "https://en.wikipedia.org/w/index.php?title=Range_0&oldid=70"
    assert release.pages_licence.id == "CC-BY-SA-4.0"


def test_prompt_changed_since_build_has_no_text(warehouse: Path) -> None:
    release = read(warehouse, MULTIHAL, OPEN, prompts={"multihal/score_path": "0", "multihal/gone": "1"})
    assert [(each.id, each.text) for each in release.prompts] == [
        ("multihal/gone", None),
        ("multihal/score_path", None),
    ]


def test_table_differing_from_published_one_is_rejected(warehouse: Path) -> None:
    build = publish_rows(warehouse, MULTIHAL, multihal_tables())
    with open_warehouse(warehouse) as db:
        db.execute("UPDATE multihal SET output = 'Prague' WHERE language = 'eng'")
    with pytest.raises(WarehouseError, match="differs from what was published"):
        verify_and_assemble_release(warehouse, MULTIHAL, MULTIHAL_RELEASE, build, OPEN)


def test_build_without_required_table_must_be_rebuilt(warehouse: Path) -> None:
    build = publish_rows(warehouse, MULTIHAL, multihal_tables())
    with open_warehouse(warehouse) as db:
        db.execute("DELETE FROM build_tables WHERE table_name = 'multihal_dropped_paths'")
    with pytest.raises(BuildFormatTooOld, match="no table multihal_dropped_paths"):
        verify_and_assemble_release(warehouse, MULTIHAL, MULTIHAL_RELEASE, build, OPEN)


@pytest.mark.parametrize(
    ("licence", "choices", "detail"),
    [
        ("MIT", ReleaseOptions(), "nothing in it"),
        ("CC-BY-NC-2.0", ReleaseOptions(), ""),
        ("CC-BY-NC-2.0", ReleaseOptions(allowed_licences=("CC-BY-NC-2.0",)), "nothing in it"),
        ("MIT", ReleaseOptions(excluded=("halueval",)), ""),
    ],
)
def test_reject_details_are_omitted_when_they_may_quote_excluded_rows(
    warehouse: Path, licence: str, choices: ReleaseOptions, detail: str
) -> None:
    rows = [multihal_row("simpleqa_1"), multihal_row("halueval_1")]
    build = publish_rows(warehouse, MULTIHAL, {"multihal": rows})
    with open_warehouse(warehouse) as db:
        db.execute("UPDATE rejects SET row = ?", [json.dumps({"id": "r-1", "licence": licence})])
    release = verify_and_assemble_release(warehouse, MULTIHAL, MULTIHAL_RELEASE, build, choices)
    assert release.rejects["detail"].to_pylist() == [detail]
