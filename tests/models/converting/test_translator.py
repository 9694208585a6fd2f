"""Test conversion of NLLB checkpoints into translators, or the error that names the reason."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.models.random_translator import make_random_translator

from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.translator import (
    MASK_TOKEN,
    SPECIAL_TOKENS,
    list_nllb_tokens,
    load_non_special_sentencepiece_pieces,
    make_translator_folder,
)
from factmill.tasks.models.model_folder import MODEL_MANIFEST_FILE, load_manifest_and_check_sizes
from factmill.tasks.models.translator import (
    EMBEDDED_TRANSLATOR_FOLDER,
    NLLB_SENTENCEPIECE_FILE,
    BeamSearchOptions,
    Translator,
)
from factmill.tasks.text.translating.translation import NLLB_LANGUAGE_CODES, TARGET_LANGUAGES

CODES = ["ace_Latn", *NLLB_LANGUAGE_CODES.values(), "zul_Latn"]
QUESTIONS = ["Where was Marie Curie born?", "Who founded Microsoft?", "What is the capital of Australia?", "Berlin"]
SHORT = BeamSearchOptions(max_tokens=16)
Make = Callable[..., Path]


@pytest.fixture
def make_checkpoint(tmp_path: Path) -> Make:
    """Write a checkpoint's small files as NLLB-200 has them."""

    def make(codes: list[str] | None = None, size: int = 7_000, **config: Any) -> Path:
        folder = tmp_path / "checkpoint"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(EMBEDDED_TRANSLATOR_FOLDER / NLLB_SENTENCEPIECE_FILE, folder / NLLB_SENTENCEPIECE_FILE)
        content = {"model_type": "m2m_100", "vocab_size": size, "max_position_embeddings": 64, **config}
        (folder / "config.json").write_text(json.dumps(content), "utf-8")
        (folder / "special_tokens_map.json").write_text(
            json.dumps({"additional_special_tokens": codes or CODES}), "utf-8"
        )
        return folder

    return make


@pytest.fixture
def make_whole_checkpoint(make_checkpoint: Make) -> Make:
    """Write a checkpoint with widely spread random weights, so that no two translations have nearly equal scores."""
    torch = pytest.importorskip("torch", reason="converting needs the extra `convert`")
    transformers = pytest.importorskip("transformers", reason="converting needs the extra `convert`")

    def make(codes: list[str] | None = None) -> Path:
        folder = make_checkpoint(codes)
        torch.manual_seed(1)
        config = transformers.M2M100Config(
            vocab_size=len(load_non_special_sentencepiece_pieces(folder))
            + len(SPECIAL_TOKENS)
            + len(codes or CODES)
            + 1,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_position_embeddings=64,
            init_std=0.4,
        )
        transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
        return folder

    return make


def say_with_transformers(folder: Path, tokens: list[str], text: str, language: str) -> tuple[str, ...]:
    """Return the tokens from Hugging Face's own search, without its differing no-repeat rule."""
    import torch
    import transformers

    model = transformers.M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    numbers = {token: number for number, token in enumerate(tokens)}
    pieces = Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu", threads=1).tokenize(text)
    found = model.generate(
        input_ids=torch.tensor([[numbers["eng_Latn"], *(numbers[piece] for piece in pieces), 2]]),
        decoder_input_ids=torch.tensor([[2, numbers[NLLB_LANGUAGE_CODES[language]]]]),
        num_beams=5,
        length_penalty=1.1,
        early_stopping=True,
        max_new_tokens=14,
        do_sample=False,
    )
    return tuple(tokens[number] for number in found[0].tolist()[2:])


def test_converted_checkpoint_translates_like_transformers(make_whole_checkpoint: Make, tmp_path: Path) -> None:
    checkpoint = make_whole_checkpoint()
    manifest = make_translator_folder(checkpoint, tmp_path / "models", "nllb", quantization="float32")
    tokens = json.loads((tmp_path / "models" / "nllb" / "shared_vocabulary.json").read_text("utf-8"))
    translator = Translator(
        tmp_path / "models" / "nllb", "cpu", "float32", decoding=BeamSearchOptions(max_tokens=15, no_repeat_ngram=0)
    )
    asked = [(text, language) for text in QUESTIONS for language in TARGET_LANGUAGES]
    said = [found.tokens for found in translator.find_best_translations(asked)]
    expected = [say_with_transformers(checkpoint, tokens, *pair) for pair in asked]
    same = sum(one == other for one, other in zip(said, expected, strict=True))
    print(f"{same} of {len(asked)} the same")
    assert same >= 0.9 * len(asked)
    assert len(set(said)) > len(asked) / 2
    assert manifest.settings["code_first"]
    assert set(manifest.source) == {"config.json", "generation_config.json", "special_tokens_map.json", NLLB_SENTENCEPIECE_FILE,
                                    "model.safetensors"}  # fmt: skip


def test_legacy_behaviour_puts_language_code_last(make_whole_checkpoint: Make, tmp_path: Path) -> None:
    checkpoint = make_whole_checkpoint()
    (checkpoint / "tokenizer_config.json").write_text('{"legacy_behaviour": true}', "utf-8")
    settings = make_translator_folder(checkpoint, tmp_path / "models", "legacy").settings
    assert settings["code_first"] is False
    translator = Translator(tmp_path / "models" / "legacy", "cpu", decoding=SHORT)
    assert translator.find_best_translations([("Berlin", "de")])[0].tokens


def test_token_numbers_match_nllb(make_checkpoint: Make) -> None:
    checkpoint = make_checkpoint()
    tokens, pieces = list_nllb_tokens(checkpoint, 7_000), load_non_special_sentencepiece_pieces(checkpoint)
    assert tuple(tokens[:4]) == SPECIAL_TOKENS
    assert tokens[4 : 4 + len(pieces)] == pieces
    assert tokens[4 + len(pieces) :][: len(CODES) + 1] == [*CODES, MASK_TOKEN]
    assert tokens[-1] == "madeupword6999"


def test_token_numbers_match_tokenizer_json(make_checkpoint: Make) -> None:
    checkpoint = make_checkpoint()
    pieces = load_non_special_sentencepiece_pieces(checkpoint)
    order = [*SPECIAL_TOKENS, *pieces, MASK_TOKEN, *CODES]
    vocabulary = {token: number for number, token in enumerate(order[: 4 + len(pieces)])}
    added = [{"id": order.index(token), "content": token} for token in (*SPECIAL_TOKENS, MASK_TOKEN, *CODES)]
    (checkpoint / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": vocabulary}, "added_tokens": added}), "utf-8"
    )
    assert list_nllb_tokens(checkpoint, len(order)) == order


def refuse(make: Callable[[], Path], tmp_path: Path, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        make_translator_folder(make(), tmp_path / "models", "nllb")
    assert not (tmp_path / "models" / "nllb").exists()
    assert not (tmp_path / "models" / ".nllb.making").exists()


def test_unusable_checkpoint_is_rejected_by_name(make_checkpoint: Make, tmp_path: Path) -> None:
    refuse(lambda: tmp_path / "nothing", tmp_path, "no such directory")
    refuse(lambda: make_checkpoint(model_type="marian"), tmp_path, "model_type is 'marian'")
    refuse(lambda: make_checkpoint(["eng_Latn", "deu_Latn"]), tmp_path, "fra_Latn, ita_Latn, por_Latn")
    refuse(lambda: make_checkpoint(size=5_000), tmp_path, "highest token id .* the model has 5000")

    def spoil(name: str, content: str) -> Path:
        folder = make_checkpoint()
        (folder / name).write_text(content, "utf-8")
        return folder

    refuse(lambda: spoil("config.json", "{"), tmp_path, r"config\.json: not JSON")
    refuse(lambda: spoil(NLLB_SENTENCEPIECE_FILE, "x"), tmp_path, "not a SentencePiece model")
    added = [{"id": number, "content": code} for number, code in enumerate(CODES, start=1)]
    other = json.dumps({"model": {"vocab": {"<s>": 0}}, "added_tokens": added})
    refuse(lambda: spoil("tokenizer.json", other), tmp_path, "do not belong together")
    (make_checkpoint() / NLLB_SENTENCEPIECE_FILE).unlink()
    refuse(lambda: tmp_path / "checkpoint", tmp_path, rf"no {NLLB_SENTENCEPIECE_FILE}")


def test_factmill_folder_is_imported_unchanged(tmp_path: Path) -> None:
    manifest = make_translator_folder(EMBEDDED_TRANSLATOR_FOLDER, tmp_path / "models", "copy")
    assert manifest.digest == load_manifest_and_check_sizes(EMBEDDED_TRANSLATOR_FOLDER).digest
    assert Translator(tmp_path / "models" / "copy", "cpu").translate([("Germany", "de")]) == ["Deutschland"]


def test_ctranslate2_folder_is_imported(tmp_path: Path) -> None:
    made = make_random_translator(tmp_path, width=32, heads=2, inner_width=64, layers=1)
    expected = Translator(made, "cpu", decoding=SHORT).find_best_translations([("Berlin", "de")])
    (made / MODEL_MANIFEST_FILE).unlink()
    make_translator_folder(made, tmp_path / "models", "taken", quantization="float32")
    assert (
        Translator(tmp_path / "models" / "taken", "cpu", decoding=SHORT).find_best_translations([("Berlin", "de")])
        == expected
    )
    tokens = (made / "shared_vocabulary.json").read_text("utf-8")
    (made / "shared_vocabulary.json").write_text(tokens.replace("fra_Latn", "madeupword1"), "utf-8")
    refuse(lambda: made, tmp_path, "no fra_Latn.*<unk>")
    (made / "shared_vocabulary.json").write_text(json.dumps(["x", *json.loads(tokens)]), "utf-8")
    refuse(lambda: made, tmp_path, "do not belong together")
    (made / "shared_vocabulary.json").unlink()
    refuse(lambda: made, tmp_path, r"no shared_vocabulary\.json")
