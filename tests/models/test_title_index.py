"""Test the title index: reading title lists, resuming an interrupted index, and search results."""

import errno
import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import OutputError, SourceError
from factmill.tasks.models import title_index
from factmill.tasks.models.embedders import CharNgramEmbedder
from factmill.tasks.models.title_index import (
    TitleEmbeddingIndex,
    find_nearest_titles,
    iterate_dump_titles,
    open_or_build_title_index,
)

TITLES = ["Danube", "Danube Delta", "Drava", "Jazz", "Łódź", "New York City", "New York", "York"]


class Counting(CharNgramEmbedder):
    """An embedder that counts its texts and can stop early."""

    def __init__(self, breaks_after: int = 1_000_000) -> None:
        self.embedded: list[str] = []
        self._breaks_after = breaks_after

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if len(self.embedded) >= self._breaks_after:
            raise KeyboardInterrupt
        self.embedded += texts
        return super().encode(texts)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "titles.txt"
    path.write_text("".join(f"{title.replace(' ', '_')}\n" for title in TITLES), "utf-8")
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(title_index, "_TITLES_PER_BLOCK", 3)


def open_index(source: Path, home: Path, embedder: CharNgramEmbedder | None = None) -> TitleEmbeddingIndex:
    return open_or_build_title_index(source, digest_bytes(source.read_bytes()), embedder or CharNgramEmbedder(), home)


@pytest.mark.parametrize(
    ("written", "titles"),
    [
        ("Danube\nDanube_Delta\n", ["Danube", "Danube Delta"]),
        ("New York City\r\n\r\n Jazz \nŁódź", ["New York City", "Jazz", "Łódź"]),
        ("page_title\n!\n\"Weird_Al\"_Yankovic\n", ["!", '"Weird Al" Yankovic']),
        ("page_namespace\tpage_title\n0\tDanube\n1\tDanube\n0\tDrava_(river)\n14\tRivers\n", ["Danube", "Drava (river)"]),
        ("\ufeffpage_title\nJazz\n", ["Jazz"]),
        ("Jazz\npage_title\n", ["Jazz", "page title"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_gzipped", [False, True])
def test_titles_are_parsed_as_in_wikimedia_dumps(
    tmp_path: Path, written: str, titles: Sequence[str], is_gzipped: bool
) -> None:
    path = tmp_path / "list"
    path.write_bytes(gzip.compress(written.encode()) if is_gzipped else written.encode())
    assert list(iterate_dump_titles(path)) == titles


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"Danube\n\xff\xfe\n", "line 2: not UTF-8"),
        (b"Danube\tDrava\n", "line 1: 'Danube.tDrava'; expected a title, or the number of a namespace"),
        (gzip.compress(b"Danube\n" * 9000, mtime=0)[:60], "cannot be read"),
        (gzip.compress(b"Danube\n" * 9, mtime=0)[:-12] + b"\0" * 20, "cannot be read"),
    ],
)
def test_invalid_title_list_is_rejected(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "list"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=text):
        list(iterate_dump_titles(path))


def test_empty_missing_and_changed_title_lists_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("page_title\n\n")
    with pytest.raises(SourceError, match="no titles in it"):
        open_index(path, tmp_path)
    with pytest.raises(SourceError, match="no such file"):
        open_or_build_title_index(tmp_path / "nowhere", "0" * 64, CharNgramEmbedder(), tmp_path)
    with pytest.raises(SourceError, match="has changed"):
        open_or_build_title_index(path, "0" * 64, CharNgramEmbedder(), tmp_path)


def test_nearest_titles_match_exhaustive_search(source: Path, tmp_path: Path) -> None:
    queries = CharNgramEmbedder().encode(["the Danube", "city of New York", "", "Łódź"])
    found = open_index(source, tmp_path).nearest(queries, 3)
    assert found == find_nearest_titles(TITLES, queries, 3, CharNgramEmbedder())
    assert [titles[0] for titles in found] == ["Danube", "New York City", "Danube", "Łódź"]
    assert found[2] == TITLES[:3]  # an empty question is near nothing: ties, in list order


def test_asking_for_more_titles_than_exist_returns_all(source: Path, tmp_path: Path) -> None:
    (found,) = open_index(source, tmp_path).nearest(CharNgramEmbedder().encode(["Jazz"]), 30)
    assert sorted(found) == sorted(TITLES)


def test_index_is_built_once(source: Path, tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    made = open_index(source, tmp_path, first)
    again = open_index(source, tmp_path, second)
    assert (first.embedded, second.embedded) == (TITLES, [])
    assert np.array_equal(made.vectors, again.vectors)
    # the index no longer needs the list
    digest = digest_bytes(source.read_bytes())
    source.unlink()
    assert open_or_build_title_index(source, digest, second, tmp_path).folder == made.folder


@pytest.mark.parametrize("torn", [0, 1, 4097])
def test_interrupted_index_build_resumes_after_last_complete_block(source: Path, tmp_path: Path, torn: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        open_index(source, tmp_path / "a", Counting(breaks_after=6))
    (draft,) = (tmp_path / "a").glob("titles/*/vectors.draft")
    with draft.open("ab") as file:
        file.write(b"\1" * torn)
    rest = Counting()
    index = open_index(source, tmp_path / "a", rest)
    assert rest.embedded == TITLES[6:]
    whole = open_index(source, tmp_path / "b")
    assert (index.folder / "vectors.npy").read_bytes() == (whole.folder / "vectors.npy").read_bytes()
    assert sorted(path.name for path in index.folder.iterdir()) == ["starts.npy", "titles.txt", "vectors.npy"]


def test_partially_copied_title_list_is_copied_again(source: Path, tmp_path: Path) -> None:
    whole = open_index(source, tmp_path)
    for name in ("starts.npy", "vectors.npy"):
        (whole.folder / name).unlink()
    (whole.folder / "titles.txt").write_text("Dan")
    assert open_index(source, tmp_path).nearest(CharNgramEmbedder().encode(["Jazz"]), 1) == [["Jazz"]]


def test_damaged_index_error_names_its_folder(source: Path, tmp_path: Path) -> None:
    folder = open_index(source, tmp_path).folder
    np.save(folder / "vectors.npy", np.zeros((2, 4), np.float32))
    with pytest.raises(OutputError, match=r"vectors.npy: .*\(2, 4\).*remove the folder"):
        open_index(source, tmp_path)
    (folder / "vectors.npy").write_bytes(b"nothing")
    with pytest.raises(OutputError, match="is damaged"):
        open_index(source, tmp_path)


def test_insufficient_disk_space_is_reported_before_embedding(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = title_index.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(title_index.shutil, "disk_usage", lambda _: used._replace(free=1000))
    embedder = Counting()
    with pytest.raises(OutputError, match=r"8 titles need .* GB more"):
        open_index(source, tmp_path, embedder)
    assert embedder.embedded == []


def test_disk_filling_up_is_reported_and_rebuild_succeeds(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(title_index.os, "fsync", fill_up)
        with pytest.raises(OutputError, match="cannot write the index of titles: No space left on device"):
            open_index(source, tmp_path)
    assert open_index(source, tmp_path).vectors.shape == (8, 1024)
