"""Test model folders: written completely or not at all, by one process at a time, and refused if invalid."""

import json
import multiprocessing
from pathlib import Path

import pytest

from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.models.model_folder import (
    MODEL_MANIFEST_FILE,
    ConversionManifestFields,
    list_model_names,
    load_manifest_and_check_sizes,
    load_verified_manifest,
    remove_model,
    write_model_folder,
)

ORIGIN = ConversionManifestFields({"weights": "0" * 64}, {"dimensions": 3}, "a test")


def write(making: Path) -> ConversionManifestFields:
    (making / "sub").mkdir()
    (making / "model.bin").write_bytes(b"12345")
    (making / "sub" / "words").write_text("a b")
    return ORIGIN


def test_manifest_lists_files_and_size_of_model(tmp_path: Path) -> None:
    made = write_model_folder("mine", tmp_path, "embedder", write)
    assert (
        load_manifest_and_check_sizes(tmp_path / "mine", "embedder")
        == made
        == load_verified_manifest(tmp_path / "mine", "embedder")
    )
    assert set(made.files) == {"model.bin", "sub/words"} and made.size_bytes == 8
    assert list_model_names(tmp_path) == ["mine"]


def test_digest_depends_on_content_and_settings_but_not_name(tmp_path: Path) -> None:
    one = write_model_folder("one", tmp_path, "embedder", write)
    assert write_model_folder("two", tmp_path, "embedder", write).digest == one.digest
    other = ConversionManifestFields(ORIGIN.source, {"dimensions": 4}, ORIGIN.made_with)
    assert (
        write_model_folder("three", tmp_path, "embedder", lambda making: write(making) and other).digest != one.digest
    )


def test_existing_name_is_rejected_replaced_or_kept(tmp_path: Path) -> None:
    first = write_model_folder("mine", tmp_path, "embedder", write)

    def write_more(making: Path) -> ConversionManifestFields:
        (making / "more").write_text("more")
        return write(making)

    with pytest.raises(UsageError, match=r"model mine already exists in .*--replace"):
        write_model_folder("mine", tmp_path, "embedder", write_more)
    assert write_model_folder("mine", tmp_path, "embedder", write_more, "keep") == first
    assert "more" in write_model_folder("mine", tmp_path, "embedder", write_more, "replace").files
    assert (tmp_path / "mine" / "more").exists()


def test_failed_conversion_keeps_previous_model(tmp_path: Path) -> None:
    write_model_folder("mine", tmp_path, "embedder", write)

    def fail(making: Path) -> ConversionManifestFields:
        (making / "half").write_text("half")
        raise UsageError("the checkpoint is wrong")

    def fill_disk(making: Path) -> ConversionManifestFields:
        raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="the checkpoint is wrong"):
        write_model_folder("mine", tmp_path, "embedder", fail, "replace")
    with pytest.raises(OutputError, match=r"cannot write the model mine into .*No space left"):
        write_model_folder("mine", tmp_path, "embedder", fill_disk, "replace")
    assert set(load_verified_manifest(tmp_path / "mine", "embedder").files) == {"model.bin", "sub/words"}
    assert not (tmp_path / ".mine.making").exists()


def test_leftover_of_killed_conversion_is_no_model_and_is_removed_by_next(tmp_path: Path) -> None:
    (tmp_path / ".mine.making").mkdir()
    (tmp_path / ".mine.making" / "half").write_text("half")
    assert list_model_names(tmp_path) == []
    assert set(write_model_folder("mine", tmp_path, "embedder", write).files) == {"model.bin", "sub/words"}


def store_slowly(folder: str, together: "multiprocessing.synchronize.Barrier", counts: str) -> None:
    """Store a model when all processes are ready; leave a mark for each conversion."""
    together.wait()

    def count(making: Path) -> ConversionManifestFields:
        with Path(counts).open("a") as file:
            file.write("x")
        return write(making)

    write_model_folder("mine", Path(folder), "embedder", count, "keep")


def test_one_of_several_processes_converts_and_all_find_model(tmp_path: Path) -> None:
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
    assert load_verified_manifest(tmp_path / "models" / "mine", "embedder").size_bytes == 8


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("model.bin", "1234", "damaged: model.bin has 4 bytes, expected 5 bytes; convert it again"),
        ("model.bin", None, "damaged: model.bin is missing, expected 5 bytes"),
        ("model.bin", "54321", "damaged: model.bin .*SHA-256"),
        (MODEL_MANIFEST_FILE, "{", "damaged: factmill-model.json cannot be read"),
        (MODEL_MANIFEST_FILE, '{"format_version": 1, "name": 5}', "damaged: factmill-model.json: name"),
        (
            MODEL_MANIFEST_FILE,
            '{"format_version": 99, "kind": "embedder"}',
            "another version of factmill .*format: 99, here: 1",
        ),
        (MODEL_MANIFEST_FILE, None, "no factmill-model.json"),
    ],
)
def test_incomplete_folder_is_rejected(tmp_path: Path, file: str, content: str | None, text: str) -> None:
    write_model_folder("mine", tmp_path, "embedder", write)
    (tmp_path / "mine" / file).unlink()
    if content is not None:
        (tmp_path / "mine" / file).write_text(content)
    with pytest.raises(UsageError, match=text):
        load_verified_manifest(tmp_path / "mine", "embedder")


def test_errors_distinguish_raw_checkpoint_from_model_of_wrong_kind(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(UsageError, match="checkpoint that is not converted: `factmill models add embedder"):
        load_manifest_and_check_sizes(tmp_path / "raw", "embedder")
    write_model_folder("mine", tmp_path, "translator", write)
    with pytest.raises(UsageError, match="mine is of kind translator, expected embedder"):
        load_manifest_and_check_sizes(tmp_path / "mine", "embedder")
    with pytest.raises(UsageError, match="no model folder"):
        load_manifest_and_check_sizes(tmp_path / "nothing", "embedder")


@pytest.mark.parametrize("name", ["", "..", "../up", ".hidden", "a b", "a/b"])
def test_invalid_model_name_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a valid name of a model"):
        write_model_folder(name, tmp_path, "embedder", write)
    with pytest.raises(UsageError, match="not a valid name of a model"):
        remove_model(name, tmp_path)


def test_damaged_model_can_be_removed_and_unknown_model_is_reported(tmp_path: Path) -> None:
    write_model_folder("mine", tmp_path, "embedder", write)
    (tmp_path / "mine" / MODEL_MANIFEST_FILE).unlink()
    remove_model("mine", tmp_path)
    assert list_model_names(tmp_path) == []
    with pytest.raises(UsageError, match=r"no model mine in .* \(there: none\)"):
        remove_model("mine", tmp_path)
