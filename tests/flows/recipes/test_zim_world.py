"""A Wikidata whose items get new numbers; it waits while `free` is cleared, and fails while `down` is true."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from support.commands.command import FEW_QUESTIONS, Factmill
from support.worlds.zim_files import ZimFile, ZimPage, write_embedded_topics, write_embedded_zim

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.clients.wikipedia_file import WikipediaFileClient

DAY = "2026-01-01"
CATEGORIES = ("Algebra", "Astronomy")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded world, with a ZIM file as its Wikipedia and no page views."""
    return write_world(tmp_path_factory.mktemp("zim"), write_embedded_zim)


def write_world(folder: Path, write_zim: Callable[[Path, str], Path], **settings: str) -> Path:
    write_zim(folder / "wiki.zim", DAY)
    write_embedded_topics(folder / "topics.csv", CATEGORIES)
    text = (ASSETS_ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
    tables = text.split("\n\n")
    kept = [table for table in tables if not table.startswith(("[wikipedia]", "[pageviews]"))]
    kept[0] = kept[0].replace("epoch = 2026-01-01", settings.get("epoch", ""))
    kept.append('[wikipedia]\nengine = "zim"\npath = "wiki.zim"\n')
    (folder / "zim.toml").write_text("\n\n".join(kept), "utf-8")
    return folder / "zim.toml"


def build(factmill: Factmill, world: Path, home: Path) -> Iterator[dict[str, Any]]:
    """Build both benchmarks in their own home; yield their reports."""
    for arguments in (("slaq", "--source", world.parent / "topics.csv"), ("fanoutqa", *FEW_QUESTIONS)):
        result = factmill.get_json("build", *arguments, "--world", world, FACTMILL_HOME=str(home))
        yield result


@pytest.fixture(scope="module")
def built(
    factmill: Factmill, world: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """The builds' home, and their reports."""
    home = tmp_path_factory.mktemp("home")
    slaq, fanoutqa = build(factmill, world, home)
    return home, slaq, fanoutqa


def test_copied_zim_file_and_empty_home_yield_same_bytes_for_both_benchmarks(
    factmill: Factmill, world: Path, built: tuple[Path, dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    shutil.copytree(world.parent, tmp_path / "copy")
    _, *first = built
    again = list(build(factmill, tmp_path / "copy" / world.name, tmp_path / "home"))
    for one, other in zip(first, again, strict=True):
        assert one["rows"] >= 4
        assert one["build_id"] == other["build_id"]
        assert one["tables"] == other["tables"]


def test_slaq_topics_and_views_come_from_table(
    factmill: Factmill, world: Path, built: tuple[Path, dict[str, Any], dict[str, Any]]
) -> None:
    home, *_ = built
    rows = factmill("show", "slaq", "--limit", "9", "--json", FACTMILL_HOME=str(home)).json["rows"]
    listed = (world.parent / "topics.csv").read_text()
    assert {row["Category"] for row in rows} == set(CATEGORIES)
    assert all(
        f"{row['Category']},{row['Topic']},{row['id'].rpartition('-')[2]},{row['Pageviews']}\n" in listed
        for row in rows
    )
    assert all(row["licence"] == "Apache-2.0" for row in rows), "the file states it"


def test_table_needs_no_page_ids(
    factmill: Factmill, world: Path, built: tuple[Path, dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    result = ("--source", world.parent / "topics.csv", "--map", "pageid=", "--json")
    ran = factmill("build", "slaq", *result, "--world", world, FACTMILL_HOME=str(tmp_path))
    assert ran.code == 0, ran.err
    rows = [
        factmill("show", "slaq", "--limit", "99", "--json", FACTMILL_HOME=str(home)).json["rows"]
        for home in (tmp_path, built[0])
    ]
    assert {row["id"] for row in rows[0]} == {f"{row['Category']}-{row['Topic']}" for row in rows[0]}
    kept = [{row["Topic"]: row["Pageviews"] for row in found} for found in rows]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("benchmark", ["slaq", "fanoutqa"])
def test_explain_names_zim_file_date_and_entry(
    factmill: Factmill, built: tuple[Path, dict[str, Any], dict[str, Any]], benchmark: str
) -> None:
    home = str(built[0])
    row = factmill("show", benchmark, "--limit", "1", "--json", FACTMILL_HOME=home).json["rows"][0]
    result = factmill("explain", benchmark, row["id"], FACTMILL_HOME=home).out
    title = row["Topic"] if benchmark == "slaq" else row["articles"][0]
    assert f'replied {{"entry": "{title.replace(" ", "_")}", "file": "wiki.zim", "pageid": null, "revid": ' in result
    assert f"page_text of zim-{DAY}-" in result
    assert "service   wikipedia" in factmill("explain", benchmark, FACTMILL_HOME=home).out


@pytest.mark.parametrize("place", [1, 2])
def test_recorded_calls_alone_rebuild_build(
    factmill: Factmill, built: tuple[Path, dict[str, Any], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a replay asked the file")

    monkeypatch.setattr(WikipediaFileClient, "send", refuse)
    ran = factmill("verify", built[place]["build_id"], FACTMILL_HOME=str(built[0]))
    assert ran.code == 0, ran.err
    assert "rebuilt byte for byte from recorded calls" in ran.out


def test_other_zim_file_yields_other_build(
    factmill: Factmill, built: tuple[Path, dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    other = write_world(tmp_path, write_embedded_zim)
    slaq, _ = build(factmill, other, built[0])
    assert slaq["build_id"] != built[1]["build_id"]
    assert slaq["tables"] == built[1]["tables"], "the articles are the same"


def test_replacing_zim_file_during_build_stops_it(
    factmill: Factmill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = write_world(tmp_path, write_embedded_zim)
    send, lock = WikipediaFileClient.send, Lock()

    def replace_and_send(client: WikipediaFileClient, *arguments: Any) -> None:
        with lock:  # categories are read concurrently
            new = ZimFile([ZimPage("Algebra", "<p>Another.</p>", 1)]).write(tmp_path / "new.zim")
            new.replace(tmp_path / "wiki.zim")
        send(client, *arguments)

    monkeypatch.setattr(WikipediaFileClient, "send", replace_and_send)
    topics = ("--source", tmp_path / "topics.csv")
    ran = factmill("build", "slaq", "--world", world, *topics, FACTMILL_HOME=str(tmp_path / "home"))
    assert ran.code == 1
    assert "wiki.zim: the file was changed or replaced while it was in use" in ran.err
    assert "[wikipedia-file]" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("slaq",), "is a ZIM file, which lists no members of categories; name a table of topics with --source"),
        (("slaq", "--source", "{topics}", "--categories", "Algebr"), "are Algebra, Astronomy; did you mean Algebra?"),
        (
            ("slaq", "--source", "{topics}", "--map", "views="),
            "is a ZIM file, which has no page views; add a column views",
        ),
        (("slaq", "--source", "{topics}.none"), "no such file"),
        (("fanoutqa", "--epoch", "2024-05-01"), f"is a ZIM file of {DAY}; other days' revisions are not there"),
        (("multihal",), "multihal asks for items of articles, which the world's Wikipedia, a ZIM file, does not hold"),
    ],
)
def test_options_not_supported_by_zim_file_are_rejected_before_any_request(
    factmill: Factmill, world: Path, arguments: tuple[str, ...], message: str
) -> None:
    named = [each.format(topics=world.parent / "topics.csv") for each in arguments]
    ran = factmill("build", *named, "--world", world)
    assert ran.code == 2
    assert message in ran.err


def test_epoch_differing_from_zim_file_date_is_rejected(factmill: Factmill, tmp_path: Path) -> None:
    world = write_world(
        tmp_path, lambda path, day: ZimFile(metadata={"Date": day}).write(path), epoch="epoch = 2025-12-01"
    )
    ran = factmill("build", "slaq", "--source", tmp_path / "topics.csv", "--world", world)
    assert ran.code == 2
    assert f"has epoch = 2025-12-01, but its Wikipedia is a ZIM file of {DAY}" in ran.err


def test_doctor_names_zim_file_and_date(factmill: Factmill, world: Path) -> None:
    findings = {each["what"]: each for each in factmill("doctor", "--world", world, "--json").json["findings"]}
    assert findings["wikipedia"]["ok"]
    assert f"ZIM file {world.parent / 'wiki.zim'} of {DAY}: " in findings["wikipedia"]["found"]
    assert "a full-text index" in findings["wikipedia"]["found"]
    assert "not possible in this world: multihal asks for items" in findings["build multihal"]["found"]


def test_doctor_names_missing_zim_file(factmill: Factmill, world: Path, tmp_path: Path) -> None:
    shutil.copy(world, tmp_path)
    ran = factmill("doctor", "--world", tmp_path / world.name, "--json")
    (finding,) = [each for each in ran.json["findings"] if each["what"] == "wikipedia"]
    assert not finding["ok"]
    assert f"{tmp_path / 'wiki.zim'} cannot be read" in finding["found"]
