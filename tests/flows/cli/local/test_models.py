"""Test `factmill models`: add, list, remove, and refuse models with advice."""

import json
from pathlib import Path

import pytest
from support.models.random_decoder import write_random_decoder
from support.models.tiny_encoder import make_head, make_weights, write_checkpoint
from typer.testing import CliRunner

from factmill.flows.commands.local_data import models_app
from factmill.tasks.errors import UsageError


def run_models(*arguments: str) -> str:
    """Run a command and return its output, or raise its error."""
    result = CliRunner().invoke(models_app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "tiny", make_weights())


def test_model_is_added_listed_and_removed(checkpoint: Path, own_home: Path) -> None:
    added = json.loads(run_models("add", "embedder", str(checkpoint), "--json"))
    assert added["name"] == "tiny" and added["state"] == "whole" and added["settings"]["dimensions"] == 24
    assert (own_home / "local-models" / "tiny").is_dir()
    assert run_models("add", "embedder", str(checkpoint), "--name", "again").startswith("again ")
    listed = json.loads(run_models("--json"))
    assert [(model["name"], model["kind"], model["digest"]) for model in listed] == [
        ("again", "embedder", added["digest"]),
        ("tiny", "embedder", added["digest"]),
    ]
    assert added["digest"][:16] in run_models()
    assert run_models("remove", "again") == "removed the model again\n"
    assert [model["name"] for model in json.loads(run_models("--json"))] == ["tiny"]


def test_cross_encoder_is_added_and_listed_with_labels(tmp_path: Path) -> None:
    weights = make_weights(prefix="bert.") | make_head(2)
    labels = {"0": "not_entailment", "1": "entailment"}
    checkpoint = write_checkpoint(tmp_path / "nli", weights, id2label=labels)
    added = json.loads(run_models("add", "cross-encoder", str(checkpoint), "--json"))
    assert added["kind"] == "cross-encoder" and added["settings"]["labels"] == list(labels.values())
    assert run_models().startswith("nli                      cross-encoder ")


def test_empty_model_list_explains_how_to_add_model() -> None:
    assert run_models() == "" and json.loads(run_models("--json")) == []


def test_existing_model_name_requires_replace_option(checkpoint: Path) -> None:
    run_models("add", "embedder", str(checkpoint))
    with pytest.raises(UsageError, match="give --replace"):
        run_models("add", "embedder", str(checkpoint))
    run_models("add", "embedder", str(checkpoint), "--replace")


def test_damaged_and_outdated_models_are_listed_with_remedy(checkpoint: Path, own_home: Path) -> None:
    run_models("add", "embedder", str(checkpoint))
    run_models("add", "embedder", str(checkpoint), "--name", "old")
    (own_home / "local-models" / "tiny" / "model.bin").write_bytes(b"")
    manifest = own_home / "local-models" / "old" / "factmill-model.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format_version": 0}))
    old, tiny = json.loads(run_models("--json"))
    assert tiny["state"] == "damaged" and "model.bin has 0 bytes" in tiny["advice"]
    assert old["state"] == "damaged" and "--name old --replace" in old["advice"]
    assert "converted by another version of factmill" in run_models()


def test_directory_without_checkpoint_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        run_models("add", "embedder", str(tmp_path))
    with pytest.raises(UsageError, match="no such directory"):
        run_models("add", "embedder", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"no model nothing .*there: none"):
        run_models("remove", "nothing")


def test_language_model_is_added_and_listed(tmp_path: Path, own_home: Path) -> None:
    made = write_random_decoder(tmp_path / "tiny")
    added = json.loads(run_models("add", "perplexity", str(made), "--json"))
    assert (added["name"], added["kind"], added["state"]) == ("tiny", "perplexity", "whole")
    assert (own_home / "local-models" / "tiny").is_dir()
    assert run_models("add", "perplexity", str(made), "--name", "again").startswith("again ")
    assert [model["kind"] for model in json.loads(run_models("--json"))] == ["perplexity", "perplexity"]
    with pytest.raises(UsageError, match="give --replace"):
        run_models("add", "perplexity", str(made))
    run_models("add", "perplexity", str(made), "--replace", "--quantization", "int8")


def test_directory_without_tokenizer_names_required_files(tmp_path: Path) -> None:
    made = write_random_decoder(tmp_path / "tiny")
    (made / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"neither tokenizer\.json nor tokenizer\.model"):
        run_models("add", "perplexity", str(made))


def test_help_shows_example() -> None:
    assert "factmill models add perplexity ./gpt2" in " ".join(run_models("add", "perplexity", "--help").split())


@pytest.mark.parametrize("kind", ["embedder", "cross-encoder"])
def test_option_not_supported_by_kind_is_rejected_by_name(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"--quantization does not apply to the kind {kind}"):
        run_models("add", kind, str(tmp_path), "--quantization", "int8")
