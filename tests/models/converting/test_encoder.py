"""Test encoder checkpoints that cannot be converted: the error names the fault, and nothing is left behind."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.models.tiny_encoder import VOCABULARY, make_weights, write_checkpoint, write_tensors

from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.checkpoints import SafetensorsFile
from factmill.tasks.models.converting.encoder import load_encoder_tokenizer, make_embedder_folder


def change(file: str, **values: object) -> Callable[[Path], None]:
    """Return a function that sets keys of a checkpoint's JSON file."""

    def write(checkpoint: Path) -> None:
        path = checkpoint / file
        path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))

    return write


def drop(file: str) -> Callable[[Path], None]:
    """Return a function that removes a checkpoint's file."""
    return lambda checkpoint: (checkpoint / file).unlink()


def put(file: str, content: bytes) -> Callable[[Path], None]:
    """Return a function that writes a checkpoint's file."""
    return lambda checkpoint: (checkpoint / file).write_bytes(content) and None


def without(name: str) -> Callable[[Path], None]:
    """Return a function that leaves out a tensor."""
    weights = {key: values for key, values in make_weights().items() if key != name}
    return lambda checkpoint: write_tensors(checkpoint / "model.safetensors", weights)


def cut_weights(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


QUERY = "encoder.layer.1.attention.self.query.weight"
MODULES = '[{"type": "sentence_transformers.models.Pooling"}, {"type": "sentence_transformers.models.Dense"}]'


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (change("config.json", model_type="mpnet"), "model_type is 'mpnet'; expected one of: bert, roberta"),
        (change("config.json", position_embedding_type="relative_key"), "expected: absolute"),
        (change("config.json", hidden_act="mish"), "hidden_act 'mish'"),
        (change("config.json", is_decoder=True), "is_decoder True"),
        (change("config.json", hidden_size=48), r"pooling mean of 24|tensor .* has shape \(19, 24\), expected .*config.json"),
        (put("config.json", b"{"), "config.json: not JSON"),
        (put("config.json", b'{"model_type": "bert"}'), "no 'num_hidden_layers'.* bert encoder"),
        (drop("config.json"), "no config.json"),
        (drop("model.safetensors"), "no model.safetensors"),
        (drop("vocab.txt"), "neither tokenizer.json nor vocab.txt"),
        (drop("1_Pooling/config.json"), "1_Pooling: no config.json"),
        (put("1_Pooling/config.json", b'{"pooling_mode": "max"}'), "pooling max of 24 dimensions; expected mean or cls"),
        (change("1_Pooling/config.json", pooling_mode_max_tokens=True), "pooling mean, pooling_mode_max_tokens"),
        (change("1_Pooling/config.json", word_embedding_dimension=99), "pooling mean of 99 dimensions"),
        (put("modules.json", MODULES.encode()), "modules.json: .* Dense module"),
        (put("config_sentence_transformers.json", b'{"default_prompt_name": "query"}'), "puts the prompt 'query'"),
        (put("tokenizer.json", b"{}"), "tokenizer.json: not a file of the tokenizers package"),
        (put("tokenizer_config.json", b"[]"), "holds list, expected a JSON object"),
        (put("vocab.txt", "\n".join([*VOCABULARY, "more"]).encode()), "20 tokens, the encoder 19"),
        (put("model.safetensors", b""), "empty, expected a safetensors file"),
        (put("model.safetensors", b"\xff" * 40), "not a safetensors file, or truncated"),
        (put("model.safetensors", b"\x02" + bytes(7) + b"{]"), "cannot read its header"),
        (cut_weights, "the file is truncated or damaged"),
        (without(QUERY), f"no tensor {QUERY}"),
    ],
)  # fmt: skip
def test_invalid_checkpoint_is_rejected_with_its_defect(
    tmp_path: Path, spoil: Callable[[Path], None], text: str
) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny", make_weights())
    spoil(checkpoint)
    with pytest.raises(UsageError, match=text) as raised:
        make_embedder_folder(checkpoint, tmp_path / "models")
    assert str(checkpoint) in str(raised.value)
    assert not list((tmp_path / "models").glob("*"))


def test_torch_only_weights_are_rejected_with_advice(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny", make_weights())
    (checkpoint / "model.safetensors").rename(checkpoint / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"pytorch_model\.bin.* as safetensors"):
        make_embedder_folder(checkpoint, tmp_path / "models")


def test_complete_converted_folder_is_copied_unchanged(tmp_path: Path) -> None:
    made = make_embedder_folder(write_checkpoint(tmp_path / "tiny", make_weights()), tmp_path / "models")
    taken = make_embedder_folder(tmp_path / "models" / "tiny", tmp_path / "elsewhere", "mine")
    assert taken == made.model_copy(update={"name": "mine"})
    (tmp_path / "elsewhere" / "mine" / "model.bin").write_bytes(b"")
    with pytest.raises(UsageError, match=r"damaged: model\.bin"):
        make_embedder_folder(tmp_path / "elsewhere" / "mine", tmp_path / "models")


def test_integer_tensors_are_rejected_as_weights(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", {"ids": np.arange(4, dtype=np.int32)}, "I32")
    with pytest.raises(UsageError, match="tensor ids has type I32, expected one of F64, F32, F16, BF16"):
        SafetensorsFile(tmp_path / "x").read("ids", (4,))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 16),
        ({"sentence_bert_config.json": {"max_seq_length": 12}}, 12),
        ({"sentence_bert_config.json": {"max_seq_length": 500}}, 16),
        ({"tokenizer_config.json": {"model_max_length": 9}}, 9),
        ({"tokenizer_config.json": {"model_max_length": 9}, "sentence_bert_config.json": {"max_seq_length": 12}}, 12),
        ({"tokenizer_config.json": {"model_max_length": 10**30}}, 16),
    ],
)
def test_texts_are_truncated_at_checkpoint_limit(
    tmp_path: Path, files: dict[str, dict[str, int]], expected: int
) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny", make_weights())
    for name, content in files.items():
        (checkpoint / name).write_text(json.dumps(content))
    assert load_encoder_tokenizer(checkpoint, 16, len(VOCABULARY)).max_tokens == expected


def test_tokenizer_json_overrides_vocabulary_and_its_padding_is_dropped(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    checkpoint = write_checkpoint(tmp_path / "tiny", make_weights())
    first = Tokenizer.from_str(load_encoder_tokenizer(checkpoint, 16, len(VOCABULARY)).content)
    first.enable_padding(length=16)
    first.enable_truncation(4)
    first.save(str(checkpoint / "tokenizer.json"))
    shutil.copy(checkpoint / "vocab.txt", checkpoint / "vocab.txt.old")
    (checkpoint / "vocab.txt").write_text("[UNK]")
    again = Tokenizer.from_str(load_encoder_tokenizer(checkpoint, 16, len(VOCABULARY)).content)
    assert again.encode("Who was born in Paris?").tokens == ["[CLS]", "who", "was", "born", "in", "paris", "?", "[SEP]"]


def test_same_checkpoint_yields_same_digest(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "tiny", make_weights())
    one = make_embedder_folder(checkpoint, tmp_path / "one", "a")
    other = make_embedder_folder(checkpoint, tmp_path / "other", "b")
    assert one.digest == other.digest
    assert one.files == other.files
    assert set(one.source) == {"config.json", "model.safetensors", "1_Pooling/config.json", "vocab.txt"}
