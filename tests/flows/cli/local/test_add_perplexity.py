"""`factmill models add perplexity`: a language model is taken in, listed, and refused with what to do."""

import json
from pathlib import Path

import pytest
from support.commands.models_command import run_models
from support.models.random_decoder import write_random_decoder

from tasks.errors import UsageError


def test_a_language_model_is_added_and_listed(tmp_path: Path, own_home: Path) -> None:
    made = write_random_decoder(tmp_path / "tiny")
    added = json.loads(run_models("add", "perplexity", str(made), "--json"))
    assert (added["name"], added["kind"], added["state"]) == ("tiny", "perplexity", "whole")
    assert (own_home / "local-models" / "tiny").is_dir()
    assert run_models("add", "perplexity", str(made), "--name", "again").startswith("again ")
    assert [model["kind"] for model in json.loads(run_models("list", "--json"))] == ["perplexity", "perplexity"]
    with pytest.raises(UsageError, match="give --replace"):
        run_models("add", "perplexity", str(made))
    run_models("add", "perplexity", str(made), "--replace", "--quantization", "int8")


def test_a_directory_without_a_tokenizer_says_what_to_put_there(tmp_path: Path) -> None:
    made = write_random_decoder(tmp_path / "tiny")
    (made / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"neither tokenizer\.json nor tokenizer\.model"):
        run_models("add", "perplexity", str(made))


def test_the_help_has_an_example() -> None:
    assert "factmill models add perplexity ./gpt2" in " ".join(run_models("add", "perplexity", "--help").split())
