"""Fixtures with a real MediaWiki and the embedded one, started once for all tests of this folder.

Tests are skipped without MediaWiki, and the reason says what to install (tests/support/webs/real_mediawiki.py).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.webs.both_wikis import Both, running_both
from support.webs.real_mediawiki import NotInstalledError, find_programs


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    try:
        find_programs()
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    with running_both(tmp_path_factory.mktemp("both"), Path(__file__).parent / "pages") as running:
        yield running
