"""Test tables of licences and attribution, and the origin of a benchmark's questions."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from support.builds.published import publish_rows
from support.builds.released import fanout_tables, multihal_row

from factmill.tasks.biokalma.release import BIOKALMA_RELEASE
from factmill.tasks.core.publishing.release_spec import (
    SourceArticleRevision,
    format_wikipedia_name,
    get_wikipedia_url_or_embedded_marker,
)
from factmill.tasks.core.rows import EMBEDDED_WORLD_SOURCE, NO_LICENCE_STATED
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.release import FANOUTQA_RELEASE
from factmill.tasks.granola.release import find_source_and_licence
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import ReleaseOptions
from factmill.tasks.release.core.licences import (
    choose_whole_release_licences,
    get_known_or_make_refused_licence,
    list_licences_refused_unless_allowed,
)
from factmill.tasks.release.licence_tables import render_licences_csv, render_page_attribution_csv
from factmill.tasks.slaq.release import SLAQ_RELEASE


def parse(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize(
    ("messages", "refused"),
    [
        (("MIT", "CC0-1.0", "CC-BY-SA-4.0", "Apache-2.0", "CC-BY"), ()),
        (("MIT AND CC-BY-NC-2.0",), ("CC-BY-NC-2.0",)),
        (("CC-BY-ND-4.0",), ("CC-BY-ND-4.0",)),
        (("S-Lab-1.0", "none stated", ""), ("S-Lab-1.0", "none stated")),
    ],
)
def test_forbidding_and_unknown_licences_are_refused(messages: tuple[str, ...], refused: tuple[str, ...]) -> None:
    assert tuple(licence.id for licence in list_licences_refused_unless_allowed(messages, ())) == refused
    assert list_licences_refused_unless_allowed(messages, refused) == ()


def test_refusal_reason_matches_licence() -> None:
    assert "commercial" in get_known_or_make_refused_licence("CC-BY-NC-4.0").refusal_reason
    assert "adaptation" in get_known_or_make_refused_licence("CC-BY-ND-4.0").refusal_reason
    assert "does not know" in get_known_or_make_refused_licence("S-Lab-1.0").refusal_reason


def test_share_alike_licence_applies_to_release() -> None:
    assert [each.id for each in choose_whole_release_licences(["MIT", "CC-BY-SA-4.0 AND CC0-1.0"])] == ["CC-BY-SA-4.0"]
    assert [each.id for each in choose_whole_release_licences(["MIT", "Apache-2.0", "MIT"])] == ["Apache-2.0", "MIT"]


def test_restrictive_licences_remain_listed_with_share_alike() -> None:
    lines = ["MIT", "CC-BY-SA-4.0", "CC-BY-NC-2.0", "none stated"]
    assert [each.id for each in choose_whole_release_licences(lines)] == ["CC-BY-NC-2.0", "CC-BY-SA-4.0", "none stated"]


@pytest.mark.parametrize(
    ("service", "source", "before"),
    [
        ("embedded-da45/wikipedia", EMBEDDED_WORLD_SOURCE, "https://en.wikipedia.org/w/index.php"),
        ("https://en.wikipedia.org", "English Wikipedia", "https://en.wikipedia.org/w/index.php"),
        ("https://de.wikipedia.org", "de.wikipedia.org", "https://de.wikipedia.org/w/index.php"),
        ("http://localhost:8080/mediawiki", "localhost", "http://localhost:8080/mediawiki/index.php"),
    ],
)
def test_pages_link_to_wiki_read_by_build(service: str, source: str, before: str) -> None:
    lock = {"services": {"wikipedia": service}}
    assert format_wikipedia_name(lock) == source
    (page,) = SLAQ_RELEASE.list_pages({"Topic": "Wien", "revid": 7}, get_wikipedia_url_or_embedded_marker(lock))
    assert page == SourceArticleRevision("Wien", "7", f"{before}?title=Wien&oldid=7")
    (page,) = BIOKALMA_RELEASE.list_pages(
        {"text_pages": ["Wien, revision 7"]}, get_wikipedia_url_or_embedded_marker(lock)
    )
    assert page.url == f"{before}?title=Wien&oldid=7"


def test_pages_have_title_revision_url_and_licence(tmp_path: Path) -> None:
    build = publish_rows(tmp_path / "factmill.duckdb", FANOUTQA, fanout_tables())
    release = verify_and_assemble_release(
        tmp_path / "factmill.duckdb", FANOUTQA, FANOUTQA_RELEASE, build, ReleaseOptions()
    )
    first = parse(render_page_attribution_csv(release))[0]
    assert (first["title"], first["revision"], first["licence"]) == ("Range 0", "70", "CC-BY-SA-4.0")
    assert (first["url"], first["rows"]) == ("https://en.wikipedia.org/w/index.php?title=Range_0&oldid=70", "1")
    assert first["licence_url"] == "https://creativecommons.org/licenses/by-sa/4.0/"
    assert first["canary"] == FANOUTQA_RELEASE.canary_line
    lines = {(each["source"], each["licence"], each["rows"]) for each in parse(render_licences_csv(release))}
    assert lines == {
        ("authored", "CC-BY-SA-4.0", "3"),
        ("Wikidata", "CC0-1.0", "3"),
        ("English Wikipedia", "CC-BY-SA-4.0", "3"),
    }


def test_rows_merged_from_two_sources_have_both_licences(tmp_path: Path) -> None:
    rows = [multihal_row("halueval_1", licence="MIT AND Apache-2.0"), multihal_row("halueval_2")]
    build = publish_rows(tmp_path / "factmill.duckdb", MULTIHAL, {"multihal": rows})
    release = verify_and_assemble_release(
        tmp_path / "factmill.duckdb", MULTIHAL, MULTIHAL_RELEASE, build, ReleaseOptions()
    )
    found = [
        (each["licence"], each["rows"]) for each in parse(render_licences_csv(release)) if each["source"] == "halueval"
    ]
    assert sorted(found) == [("Apache-2.0", "1"), ("MIT", "1"), ("MIT", "1")]


P19_DEV = "728c222fb4ceac64a52c3de94c54b68a55ccde4db10b58de0cc66ae357113a6a"


@pytest.mark.parametrize(
    ("from_wikidata", "source", "digest", "expected"),
    [
        (True, ["wikidata"], "", ("Wikidata", "CC0-1.0")),
        (False, ["/data/P19.dev.json"], P19_DEV, ("EntityQuestions", "MIT")),
        (False, ["/data/P19.dev.json"], "0" * 64, ("P19.dev.json", NO_LICENCE_STATED)),
        (False, [], "0" * 64, (EMBEDDED_WORLD_SOURCE, "Apache-2.0")),
    ],
)
def test_entity_questions_name_source_read_by_build(
    from_wikidata: bool, source: Any, digest: str, expected: Any
) -> None:
    lock = {
        "params": {"from_wikidata": from_wikidata},
        "sources": {"files": {"P19": [["P19.dev.json", digest]], "P26": [["P19.dev.json", "1" * 64]]}},
    }
    row = {"relation": "P19", "source_name": "P19.dev.json"}
    assert find_source_and_licence(lock, {"flow": {"source": source}}, row) == expected
