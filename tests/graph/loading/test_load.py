"""Test loading a dump into a graph: what is stored, what is refused, and what a failed load leaves."""

import gzip
import os
import random
import threading
from pathlib import Path

import pytest
from support.graphs.rdf_lines import spell_out

from factmill.tasks.errors import LocalGraphError, SourceError, UsageError
from factmill.tasks.graph.folders import GraphManifest, list_graph_statuses
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.loading.staging import LoadProgress
from factmill.tasks.graph.lookup import open_graph

SMALL = """
    wd:Q1 wdt:P31 wd:Q5
    wd:Q1 wdt:P19 wd:Q64
    wd:Q64 wdt:P17 wd:Q183
    wd:Q1 rdfs:label "Ada"@en
    wd:Q1 skos:altLabel "A. \\"the first\\""@en
    wd:Q64 rdfs:label "Berlin"@en
    wd:Q64 schema:description "capital – of Germany"@en
    wd:P19 rdfs:label "place of birth"@en
    enwiki:Berlin schema:about wd:Q64
    enwiki:Berlin schema:isPartOf <https://en.wikipedia.org/>
    enwiki:Berlin schema:name "Berlin"@en
    wd:Q64 schema:dateModified "2024-05-06T07:08:09Z"^^xsd:dateTime
    wd:Q1 p:P31 wds:q1-a
"""


def write(path: Path, text: str) -> Path:
    path.write_text(spell_out(text), "utf-8", newline="")
    return path


def load(tmp_path: Path, text: str = SMALL, name: str = "small", **options: object) -> GraphManifest:
    source = write(tmp_path / "a.nt", text)
    return load_graph([source], name, tmp_path / "graphs", **options)  # type: ignore[arg-type]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def whole_graphs(tmp_path: Path) -> list[GraphManifest | None]:
    return [found.manifest for found in list_graph_statuses(tmp_path / "graphs")]


def test_load_accounts_for_every_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.nt", SMALL)
    source.write_text(source.read_text("utf-8") * 2 + "\n# end\nno triple\n", "utf-8")
    made = load_graph([source], "small", tmp_path / "graphs")
    assert made.lines == 29 == made.blank + made.malformed + sum(made.not_kept.values()) + sum(made.read.values())
    assert (made.blank, made.malformed, made.not_kept) == (2, 1, {"page": 2})
    assert made.read["statements"] == 2
    assert made.read["edges"] == 6
    assert made.stored == {
        "edges": 3,
        "labels": 2,
        "descriptions": 1,
        "aliases": 1,
        "property_labels": 1,
        "titles": 1,
        "redirects": 0,
        "modified": 1,
        "literals": 0,
        "claims": 0,
    }
    assert made.sources[0].size_bytes == source.stat().st_size
    assert made.sources[0].lines == 29
    assert whole_graphs(tmp_path) == [made]
    assert names_in(tmp_path / "graphs" / "small") == sorted([*made.files, "checked.json", "manifest.json"])
    assert names_in(tmp_path / "graphs") == ["small"]


def test_file_listed_twice_is_read_once(tmp_path: Path) -> None:
    source = write(tmp_path / "a.nt", SMALL)
    made = load_graph([source, str(source)], "small", tmp_path / "graphs")
    assert [(each.path, each.lines) for each in made.sources] == [(str(source), 13)]
    assert made.lines == 13


def test_malformed_lines_are_stored_separately_in_graph(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.nt", SMALL), write(tmp_path / "b.nt", SMALL)
    second.write_bytes(second.read_bytes() + b"caf\xe9\n" + b"x" * 20_000 + b"\n")
    assert load_graph([first, second], "small", tmp_path / "graphs").malformed == 2
    with open_graph("small", tmp_path / "graphs") as graph:
        kept = graph.list_malformed(10)
    assert [(line.file, line.line_no, line.reason) for line in kept] == [
        (str(second), 14, "not UTF-8"),
        (str(second), 15, "not a triple"),
    ]
    assert kept[0].text == "caf\\xe9"
    assert kept[1].text == "x" * 10_000


def test_same_triples_have_same_digest_in_any_order_and_format(tmp_path: Path) -> None:
    lines = spell_out(SMALL).splitlines(keepends=True)
    digests = {load(tmp_path).digest}
    for seed in range(3):
        random.Random(seed).shuffle(lines)
        (tmp_path / "b.nt").write_text("".join(lines[:5] + lines[:3]), "utf-8", newline="\r\n")
        (tmp_path / "c.nt.gz").write_bytes(gzip.compress("".join(lines[5:]).replace("–", "\\u2013").encode()))
        made = load_graph([tmp_path / "c.nt.gz", tmp_path / "b.nt"], f"other{seed}", tmp_path / "graphs")
        digests.add(made.digest)
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wdt:P31 wd:Q5", "wdt:P31 wd:Q6"),
        ('"Ada"', '"Adb"'),
        ('wd:Q64 rdfs:label "Berlin"', 'wd:Q65 rdfs:label "Berlin"'),
        ('schema:name "Berlin"', 'schema:name "Berlin!"'),
        ("2024-05-06", "2024-05-07"),
        ("wd:P19 rdfs:label", "wd:P20 rdfs:label"),
        ("skos:altLabel", "schema:description"),
    ],
)
def test_different_triple_changes_digest(tmp_path: Path, old: str, new: str) -> None:
    assert old in SMALL
    assert load(tmp_path).digest != load(tmp_path, SMALL.replace(old, new), "other").digest


def test_smaller_of_two_labels_in_language_is_kept_in_any_order(tmp_path: Path) -> None:
    lines = ['wd:Q1 rdfs:label "b"@en', 'wd:Q1 rdfs:label "a"@en', 'wd:Q1 rdfs:label "Ä"@en', 'wd:Q1 rdfs:label "0"@de']
    for name, text in (("one", "\n".join(lines)), ("two", "\n".join(reversed(lines)))):
        assert load(tmp_path, text, name).stored["labels"] == 1
        with open_graph(name, tmp_path / "graphs") as graph:
            assert graph.find_labels(["Q1"]) == {"Q1": "a"}


@pytest.mark.parametrize(
    ("more", "given", "expected"),
    [
        ("", None, "2024-05-06T07:08:09Z"),
        ('data:Q5 schema:dateModified "2025-01-01T00:00:00Z"^^xsd:dateTime', None, "2025-01-01T00:00:00Z"),
        ('wikibase:Dump schema:dateModified "2023-01-01T00:00:00Z"^^xsd:dateTime', None, "2023-01-01T00:00:00Z"),
        ('wikibase:Dump schema:dateModified "2023-01-01T00:00:00Z"^^xsd:dateTime', "2022-02-02", "2022-02-02"),
    ],
)
def test_dump_date_is_option_or_stated_date_or_latest_change(
    tmp_path: Path, more: str, given: str | None, expected: str
) -> None:
    made = load(tmp_path, SMALL.rstrip() + ("\n" + more if more else ""), dump_date=given)
    assert made.dump_date == expected


def test_progress_is_reported_to_end_of_load(tmp_path: Path) -> None:
    results: list[LoadProgress] = []
    load(tmp_path, progress=results.append)
    assert results[-1].lines == 13
    assert results[-1].bytes_read == results[-1].bytes_total == (tmp_path / "a.nt").stat().st_size
    assert list(dict.fromkeys(news.phase for news in results)) == ["reading", "sorting", "writing", "digesting"]
    assert [news.seconds for news in results] == sorted(news.seconds for news in results)
    assert {news.source for news in results[1:]} == {str(tmp_path / "a.nt")}
    read = [news for news in results if news.phase == "reading"][-1]
    assert read.eta_s == 0
    assert read.text_bytes_per_s / read.lines_per_s == pytest.approx((tmp_path / "a.nt").stat().st_size / 13)


def test_progress_has_no_estimate_if_source_size_is_unknown(tmp_path: Path) -> None:
    results: list[LoadProgress] = []
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(spell_out(SMALL),))
    writer.start()
    load_graph([tmp_path / "pipe"], "piped", tmp_path / "graphs", progress=results.append)
    writer.join()
    assert {(news.bytes_total, news.eta_s) for news in results} == {(None, None)}
    assert results[-1].lines == 13


def test_existing_graph_is_overwritten_only_on_request(tmp_path: Path) -> None:
    first = load(tmp_path)
    with pytest.raises(LocalGraphError, match=r"graph small already exists.*--replace"):
        load(tmp_path, "wd:Q1 wdt:P31 wd:Q7")
    assert whole_graphs(tmp_path) == [first]


def test_replaced_graph_is_visible_to_next_reader(tmp_path: Path) -> None:
    load(tmp_path)
    before = open_graph("small", tmp_path / "graphs")
    load(tmp_path, 'wd:Q1 rdfs:label "Eve"@en', replace=True)
    with before, open_graph("small", tmp_path / "graphs") as after:
        assert before.find_labels(["Q1"]) == {"Q1": "Ada"}
        assert after.find_labels(["Q1"]) == {"Q1": "Eve"}
    assert names_in(tmp_path / "graphs") == ["small"]


def test_failed_replacement_keeps_old_graph(tmp_path: Path) -> None:
    first = load(tmp_path)
    (tmp_path / "bad.nt").write_text("nothing of use\n", "utf-8")
    with pytest.raises(SourceError):
        load_graph([tmp_path / "a.nt", tmp_path / "bad.nt"], "small", tmp_path / "graphs", replace=True)
    assert whole_graphs(tmp_path) == [first]
    assert names_in(tmp_path / "graphs") == ["small"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\n# only words\n\n", "has no triples"),
        (b"a,b,c\n1,2,3\n", "none of its first lines is a triple"),
        (bytes(range(256)) * 40, "none of its first lines is a triple"),
        (b"<a:s> <a:p> <a:o> .\n", "uses none of its triples"),
        (b"<!DOCTYPE html>\n<html></html>\n", "none of its first lines is a triple .*DOCTYPE"),
        (b'[\n{"id": "Q1"},\n]\n', "none of its first lines is a triple"),
        (b"@prefix a: <http://a/> .\na:s a:p", "invalid Turtle at line 2"),
    ],
    ids=["empty", "comments", "csv", "binary", "other rdf", "html", "json", "cut turtle"],
)
def test_non_dump_file_is_named_and_leaves_no_graph(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "odd.nt"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=what) as raised:
        load_graph([path], "small", tmp_path / "graphs")
    assert str(path) in str(raised.value)
    assert names_in(tmp_path / "graphs") == []


def test_file_without_usable_triples_is_named_among_other_files(tmp_path: Path) -> None:
    good, odd = write(tmp_path / "a.nt", SMALL), tmp_path / "odd.nt"
    odd.write_text("<a:s> <a:p> <a:o> .\n")
    for files in ([good, odd], [odd, good]):
        with pytest.raises(SourceError, match=r"odd\.nt: a graph uses none of its triples"):
            load_graph(files, "small", tmp_path / "graphs")


def test_invalid_load_options_are_rejected_before_reading(tmp_path: Path) -> None:
    source, folder = write(tmp_path / "a.nt", SMALL), tmp_path / "graphs"
    with pytest.raises(SourceError, match=r"none\.nt: no such file"):
        load_graph([source, tmp_path / "none.nt"], "small", folder)
    for name in ("", ".hidden", "a/b", "..", "a b"):
        with pytest.raises(UsageError, match="not a valid name of a graph"):
            load_graph([source], name, folder)
    with pytest.raises(UsageError, match="no file to load"):
        load_graph([], "small", folder)
    with pytest.raises(UsageError, match="language"):
        load_graph([source], "small", folder, languages=[])
    with pytest.raises(UsageError, match="language"):
        load_graph([source], "small", folder, languages=["en|de"])
    with pytest.raises(UsageError, match="dump date 'May 2024'"):
        load_graph([source], "small", folder, dump_date="May 2024")
    with pytest.raises(SourceError, match="is a folder"):
        load_graph([source, tmp_path], "small", folder)
    assert not folder.exists()


def test_missing_graph_error_lists_existing_graphs(tmp_path: Path) -> None:
    with pytest.raises(LocalGraphError, match=r"no graph small .*\(there: none\)"):
        open_graph("small", tmp_path / "graphs")
    load(tmp_path)
    with pytest.raises(
        LocalGraphError, match=r"no graph big .*\(there: small\); to load it: `factmill graph load FILE... --name big`"
    ):
        open_graph("big", tmp_path / "graphs")
    assert list_graph_statuses(tmp_path / "nowhere") == []


def test_a_damaged_graph_can_be_replaced(tmp_path: Path) -> None:
    load(tmp_path)
    (tmp_path / "graphs" / "small" / "manifest.json").unlink()
    load(tmp_path, replace=True)
    open_graph("small", tmp_path / "graphs").close()
