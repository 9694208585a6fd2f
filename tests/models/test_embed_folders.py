"""Folders of models: made whole or not at all, by one process at a time, and refused when they are something else."""

import json
import multiprocessing
from pathlib import Path

import pytest

from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.models.model_folder import (
    MANIFEST,
    Origin,
    check_model,
    list_models,
    read_model,
    remove_model,
    store_model,
)

ORIGIN = Origin({"weights": "0" * 64}, {"dimensions": 3}, "a test")


def write(making: Path) -> Origin:
    (making / "sub").mkdir()
    (making / "model.bin").write_bytes(b"12345")
    (making / "sub" / "words").write_text("a b")
    return ORIGIN


def test_a_model_says_what_it_holds(tmp_path: Path) -> None:
    made = store_model("mine", tmp_path, "embedder", write)
    assert read_model(tmp_path / "mine", "embedder") == made == check_model(tmp_path / "mine", "embedder")
    assert set(made.files) == {"model.bin", "sub/words"} and made.size_bytes == 8
    assert list_models(tmp_path) == ["mine"]


def test_the_digest_is_of_content_and_settings_and_not_of_the_name(tmp_path: Path) -> None:
    one = store_model("one", tmp_path, "embedder", write)
    assert store_model("two", tmp_path, "embedder", write).digest == one.digest
    other = Origin(ORIGIN.source, {"dimensions": 4}, ORIGIN.made_with)
    assert store_model("three", tmp_path, "embedder", lambda making: write(making) and other).digest != one.digest


def test_a_name_that_is_taken_is_refused_replaced_or_kept(tmp_path: Path) -> None:
    first = store_model("mine", tmp_path, "embedder", write)

    def write_more(making: Path) -> Origin:
        (making / "more").write_text("more")
        return write(making)

    with pytest.raises(UsageError, match=r"a model mine in .* already: give --replace"):
        store_model("mine", tmp_path, "embedder", write_more)
    assert store_model("mine", tmp_path, "embedder", write_more, "keep") == first
    assert "more" in store_model("mine", tmp_path, "embedder", write_more, "replace").files
    assert (tmp_path / "mine" / "more").exists()


def test_a_conversion_that_breaks_off_leaves_the_model_of_before(tmp_path: Path) -> None:
    store_model("mine", tmp_path, "embedder", write)

    def fail(making: Path) -> Origin:
        (making / "half").write_text("half")
        raise UsageError("the checkpoint is wrong")

    def fill_disk(making: Path) -> Origin:
        raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="the checkpoint is wrong"):
        store_model("mine", tmp_path, "embedder", fail, "replace")
    with pytest.raises(OutputError, match=r"mine cannot be written into .*No space left"):
        store_model("mine", tmp_path, "embedder", fill_disk, "replace")
    assert set(check_model(tmp_path / "mine", "embedder").files) == {"model.bin", "sub/words"}
    assert not (tmp_path / ".mine.making").exists()


def test_what_a_killed_conversion_left_is_no_model_and_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / ".mine.making").mkdir()
    (tmp_path / ".mine.making" / "half").write_text("half")
    assert list_models(tmp_path) == []
    assert set(store_model("mine", tmp_path, "embedder", write).files) == {"model.bin", "sub/words"}


def store_slowly(folder: str, together: "multiprocessing.synchronize.Barrier", counts: str) -> None:
    """Store a model when all processes are ready; leave a mark for each conversion."""
    together.wait()

    def count(making: Path) -> Origin:
        with Path(counts).open("a") as file:
            file.write("x")
        return write(making)

    store_model("mine", Path(folder), "embedder", count, "keep")


def test_of_several_processes_one_converts_and_all_find_the_model(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(3)
    arguments = (str(tmp_path / "models"), together, str(tmp_path / "counts"))
    processes = [context.Process(target=store_slowly, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "counts").read_text() == "x"
    assert check_model(tmp_path / "models" / "mine", "embedder").size_bytes == 8


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("model.bin", "1234", "damaged: model.bin has 4 bytes, expected 5 bytes; convert it again"),
        ("model.bin", None, "damaged: model.bin is missing, expected 5 bytes"),
        ("model.bin", "54321", "damaged: model.bin does not hold what was written into it"),
        (MANIFEST, "{", "damaged: factmill-model.json cannot be read"),
        (MANIFEST, '{"format_version": 1, "name": 5}', "damaged: factmill-model.json: name"),
        (MANIFEST, '{"format_version": 99, "kind": "embedder"}', "another version of factmill .*format: 99, here: 1"),
        (MANIFEST, None, "no factmill-model.json in it: no converted model"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path, file: str, content: str | None, told: str) -> None:
    store_model("mine", tmp_path, "embedder", write)
    (tmp_path / "mine" / file).unlink()
    if content is not None:
        (tmp_path / "mine" / file).write_text(content)
    with pytest.raises(UsageError, match=told):
        check_model(tmp_path / "mine", "embedder")


def test_a_checkpoint_and_a_model_of_another_kind_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(UsageError, match="a checkpoint that was not converted: factmill models add embedder"):
        read_model(tmp_path / "raw", "embedder")
    store_model("mine", tmp_path, "translator", write)
    with pytest.raises(UsageError, match="mine is of kind translator, wanted is: embedder"):
        read_model(tmp_path / "mine", "embedder")
    with pytest.raises(UsageError, match="no model folder"):
        read_model(tmp_path / "nothing", "embedder")


@pytest.mark.parametrize("name", ["", "..", "../up", ".hidden", "a b", "a/b"])
def test_a_name_that_is_no_folder_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no model can be called"):
        store_model(name, tmp_path, "embedder", write)
    with pytest.raises(UsageError, match="no model can be called"):
        remove_model(name, tmp_path)


def test_a_model_is_removed_whole_or_damaged_and_an_unknown_one_is_told(tmp_path: Path) -> None:
    store_model("mine", tmp_path, "embedder", write)
    (tmp_path / "mine" / MANIFEST).unlink()
    remove_model("mine", tmp_path)
    assert list_models(tmp_path) == []
    with pytest.raises(UsageError, match=r"no model mine in .* \(there: none\)"):
        remove_model("mine", tmp_path)
