"""Our replies beside recorded ones of the real services: the same requests give the same shapes."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

# recorded file, parameters put in place of those recorded, whether we give every key that was recorded
REQUESTS = [
    ("TestVcrPageExistence.test_exists_true", {"titles": "spree_Athens"}, False),
    ("TestVcrWikiCategories.test_categories", {"titles": "spree_Athens"}, True),
    ("TestVcrPageRelationProps.test_links", {"titles": "spree_Athens", "pllimit": "1"}, True),
    ("TestVcrWikiSearch.test_sort[none]", {"srsearch": "Berlin", "srlimit": "1"}, True),
    ("TestVcrWikiSearch.test_prop[size]", {"srsearch": "Berlin", "srlimit": "1"}, True),
    ("TestVcrWikiImageinfoRaw.test_missing_file", {}, False),
]


@pytest.mark.parametrize(("name", "instead", "is_whole"), REQUESTS)
def test_replies_have_the_shape_of_recorded_ones(
    ask: Any, shared_data: Path, name: str, instead: dict[str, str], is_whole: bool
) -> None:
    file = shared_data / "api" / "mediawiki_api" / f"{name}.json"
    recorded = json.loads(file.read_text("utf-8"))["interactions"][0]
    params = dict(parse_qsl(urlsplit(recorded["request"]["uri"]).query)) | instead
    theirs = describe_shape(json.loads(recorded["response"]["body"]["string"]))
    ours = describe_shape(ask.session.get(f"{ask.world.app_url}/w/api.php", params=params, timeout=10).json())
    ours = {path for path in ours if not path.startswith(("query.redirects", "warnings"))}
    assert ours - theirs == set()
    if is_whole:
        # whether a reply is the last one depends on the limit
        varying = ("warnings", "batchcomplete", "continue")
        assert {path for path in theirs - ours if not path.startswith(varying)} == set()


def test_page_views_have_the_shape_of_recorded_ones(ask: Any, shared_data: Path) -> None:
    path = "/api/rest_v1/metrics/pageviews/per-article/en.wikipedia/all-access/user/Berlin/daily/20230101/20230103"
    for file in (shared_data / "api" / "pageviews_recorded").glob("*.json"):
        assert describe_shape(ask.get(path).json()) == describe_shape(json.loads(file.read_text("utf-8")))


def describe_shape(reply: Any, path: str = "") -> set[str]:
    """Return the paths of a reply with the type at their ends; page ids and places in lists are one path."""
    if isinstance(reply, dict):
        found: set[str] = set()
        for key, value in reply.items():
            part = "ID" if key.lstrip("-").isdigit() else key
            found |= describe_shape(value, f"{path}.{part}" if path else part)
        return found
    if isinstance(reply, list):
        return {one for value in reply for one in describe_shape(value, f"{path}[]")} or {f"{path}[]"}
    return {f"{path}: {type(reply).__name__}"}
