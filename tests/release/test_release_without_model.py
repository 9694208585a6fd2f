"""Test that a release does not mention models that wrote or judged nothing, and that it names the services behind it."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.builds.published import publish_rows
from support.builds.released import multihal_row, multihal_tables

from factmill.flows.commands import release
from factmill.flows.commands.release import make_release
from factmill.tasks.errors import UsageError
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.contents import ReleaseOptions


@pytest.mark.parametrize("models", [{}, {"author": "mine", "judge": "mine"}])
def test_card_mentions_models_only_when_used(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = replace(MULTIHAL_RELEASE.card, about="Rows.", steps={}, limits=())
    monkeypatch.setattr(release, "load_named_object", lambda _: replace(MULTIHAL_RELEASE, card=about))
    warehouse = tmp_path / "w.duckdb"
    author = models.get("author", "")
    build = publish_rows(warehouse, MULTIHAL, multihal_tables(), models=models, author=author, by=author)
    make_release(
        warehouse, build.build_id, tmp_path / "out", ReleaseOptions(excluded=("CC-BY-NC-2.0", "CC-BY-NC-SA-4.0"))
    )
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    said = [each for each in ("| written by |", "judged by", "its judge", "## Models and prompts") if each in card]
    assert len(said) == (4 if models else 0)


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ({"wikidata": "https://w.example", "pageviews": "https://p.example"}, ""),
        ({"wikidata": "embedded-0", "pageviews": "embedded-0"}, "It was made in factmill's **embedded world**"),
        (
            {"pageviews": "embedded-0", "wikidata": "embedded-0", "wikipedia": "https://en.wikipedia.org"},
            "Of the services behind it, pageviews and wikidata belong to factmill's **embedded world**",
        ),
    ],
)
def test_build_without_or_with_another_wikipedia_is_released(
    services: dict[str, str], said: str, tmp_path: Path
) -> None:
    warehouse = tmp_path / "w.duckdb"
    build = publish_rows(
        warehouse, MULTIHAL, multihal_tables(), scripted={"multihal/score_path": "1"}, services=services
    )
    choices = ReleaseOptions(allowed_licences=("CC-BY-NC-2.0", "CC-BY-NC-SA-4.0"))
    made = make_release(warehouse, build.build_id, tmp_path / "out", choices)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert (said in card) and ("**embedded world**" in card) == bool(said)
    assert ("not for use" in made.release.notice) == any(each.startswith("https") for each in services.values())


@pytest.mark.parametrize(
    ("stated", "advice"),
    [("CC BY 4.0", ". If it is CC-BY-4.0, build again with --source-licence CC-BY-4.0"), ("GPL-3.0-only", "")],
)
def test_refused_release_says_how_to_state_licence(stated: str, advice: str, tmp_path: Path) -> None:
    rows = [multihal_row("quiz_1", licence=stated)]
    own = {"own_source": {"name": "quiz", "licence": stated, "separator": ""}}
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, {"multihal": rows}, own)
    with pytest.raises(UsageError, match="factmill does not know") as error:
        make_release(tmp_path / "w.duckdb", build.build_id, tmp_path / "out", ReleaseOptions())
    assert advice in str(error.value) and ("build again with" in str(error.value)) == bool(advice)
