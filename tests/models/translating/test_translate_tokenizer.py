"""Test that SentencePiece alone tokenizes as Hugging Face's tokenizer does, so that it is not needed."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from translator_corpus import draw_taught, read_corpus

from factmill.tasks.models.translator import EMBEDDED_TRANSLATOR_FOLDER, END_TOKEN, NLLB_SENTENCEPIECE_FILE, Translator
from factmill.tasks.text.translating.placeholders import mask_untranslated_spans
from factmill.tasks.text.translating.translation import NLLB_LANGUAGE_CODES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files from which NLLB's tokenizer is read."""
    for module in ("transformers", "google.protobuf"):
        pytest.importorskip(module, reason="comparing with transformers needs the extra `convert`")
    made = tmp_path_factory.mktemp("tokenizer")
    shutil.copyfile(EMBEDDED_TRANSLATOR_FOLDER / NLLB_SENTENCEPIECE_FILE, made / NLLB_SENTENCEPIECE_FILE)
    return made


def open_tokenizer(folder: Path, **options: Any) -> Any:
    from transformers import NllbTokenizer

    return NllbTokenizer.from_pretrained(folder, src_lang="eng_Latn", **options)


def test_tokens_match_hugging_face_tokenizer(folder: Path) -> None:
    tokenizer = open_tokenizer(folder, extra_special_tokens=list(NLLB_LANGUAGE_CODES.values()))
    translator = Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu", threads=1)
    examples = draw_taught(read_corpus(), seed=5)
    texts = [text for _ in range(1_000) for example in [next(examples)] for text in (example.source, example.target)]
    texts += ["Plimsollwerke, Ωmega and 東京!", "", "a", "2001"]
    chance = random.Random(5)
    texts += ["".join(chance.choices("aeBn ;,.?'«»12é", k=30)).strip() for _ in range(200)]
    for text in (" ".join(text.split()) for text in texts):
        found = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
        pieces = [piece if translator.is_known(piece) else "<unk>" for piece in translator.tokenize(text)]
        assert found == ["eng_Latn", *pieces, END_TOKEN], text
        assert mask_untranslated_spans(text) is None or translator.tokenize(text) == translator.tokenize(f" {text} ")


def test_every_language_is_unknown_to_hugging_face_without_language_codes(folder: Path) -> None:
    tokenizer = open_tokenizer(folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer("Berlin")["input_ids"])[0] == "<unk>"
