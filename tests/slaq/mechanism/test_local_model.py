"""Test a causal language model's folder as a service: its files, the tokens of an answer that count, and its limits."""

import json
from pathlib import Path
from typing import Any

import pytest

from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.engine.naming.code_versions import find_imports, load_source_code
from factmill.tasks.errors import UsageError
from factmill.tasks.slaq.mechanism.ablation import MECHANISM_MODULES, import_mechanism_extra, require_mechanism_extra
from factmill.tasks.slaq.mechanism.ablation_service import (
    LocalAblationService,
    choose_torch_device,
    digest_causal_model,
    list_causal_model_files,
    make_answer_part_ablation_call,
    parse_head_count_and_importances,
)

TEXTS = [
    "London was the birthplace of Ada Lovelace.",
    "Ada Lovelace was born in London, in 1815.",
    "Who was born where?",
]
LONG = "Ada Lovelace was born in London, in 1815."


def test_folder_without_model_raises_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.json .*expected the folder of a causal language model"):
        list_causal_model_files(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"\*\.safetensors or pytorch_model\.bin"):
        list_causal_model_files(tmp_path)


def test_model_digest_covers_only_its_model_files(tmp_path: Path) -> None:
    for name, text in (("config.json", "{}"), ("model.safetensors", "a"), ("README.md", "…")):
        (tmp_path / name).write_text(text)
    before = digest_causal_model(list_causal_model_files(tmp_path))
    (tmp_path / "README.md").write_text("other")
    assert digest_causal_model(list_causal_model_files(tmp_path)) == before
    (tmp_path / "model.safetensors").write_text("b")
    assert digest_causal_model(list_causal_model_files(tmp_path)) != before


def test_missing_extra_raises_usage_error_with_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(UsageError, match=r"needs torch, which is not installed: pip install 'factmill\[mechanism\]'"):
        import_mechanism_extra("torch")
    with pytest.raises(UsageError, match="needs torch"):
        require_mechanism_extra()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch", reason="models are opened with the extra `mechanism`")
    pytest.importorskip("transformers", reason="models are opened with the extra `mechanism`")
    from support.models.tiny_causal import write_model

    torch.set_num_threads(1)
    return write_model(tmp_path_factory.mktemp("models") / "tiny", texts=TEXTS * 20)


def ask(folder: Path, answer: str, text: str, **options: Any) -> CallResponse:
    messages = [{"role": "user", "content": "Who was born where?"}]
    result: dict[str, Any] = {"recover": 0.9, "largest_set": 1.0, "centre": False, **options}
    call = make_answer_part_ablation_call("s", messages, answer, answer.index(text), text, **result)
    found: list[tuple[Call, CallResponse]] = []
    LocalAblationService("s", folder, "cpu", "float32").send([call], lambda *each: found.append(each))
    ((_, reply),) = found
    return reply


def test_all_tokens_of_part_count_even_when_answers_tokenize_differently(folder: Path) -> None:
    heads, short = parse_head_count_and_importances(ask(folder, "Lovelace: London", "Lovelace").body)
    _, long = parse_head_count_and_importances(ask(folder, LONG, "Lovelace").body)
    assert heads == 4
    assert [each.token for each in long] == [" Lovelace"]  # one token, including the space before it
    assert len(short) > 1
    assert "".join(each.token for each in short) == "Lovelace"
    assert all(len(each.importances) == 10 for each in (*short, *long))


def test_token_that_extends_beyond_part_counts(folder: Path) -> None:
    _, tokens = parse_head_count_and_importances(ask(folder, LONG, "ondo").body)
    assert [each.token for each in tokens] == [" London"]


def test_prompt_longer_than_model_context_fails(folder: Path) -> None:
    reply = ask(folder, "London " * 600, "London")
    assert reply.status == "failed"
    assert reply.error is not None
    assert reply.error.startswith("too_long: ")
    assert reply.error.endswith("the model reads 512")


def test_nan_logits_give_failed_response(folder: Path, tmp_path: Path) -> None:
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder))
    with torch.no_grad():
        model.lm_head.weight.mul_(float("nan"))
    model.save_pretrained(str(tmp_path))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    reply = ask(tmp_path, LONG, "London")
    assert (reply.status, reply.error, reply.transient) == (
        "failed",
        "nan_logits: a logit is NaN or infinite with nothing ablated",
        False,
    )


def test_out_of_memory_is_transient_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from factmill.tasks.slaq.mechanism import ablation

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(ablation.ComponentAblator, "_run_layers", refuse)
    reply = ask(folder, LONG, "London")
    assert (reply.status, reply.error, reply.transient) == ("failed", "out_of_memory: no room", True)


def test_chat_template_is_used_when_available(folder: Path, tmp_path: Path) -> None:
    import transformers

    from factmill.tasks.slaq.mechanism.ablation import tokenize_prompt_and_answer

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    asked = [{"role": "user", "content": "Who?"}]
    plain, ids, offsets = tokenize_prompt_and_answer(tokenizer, asked, "Ada, London")
    assert tokenizer.decode(plain) == "Who?\n"
    assert tokenizer.decode(ids) == "Ada, London"
    assert offsets[0][0] == 0
    assert offsets[-1][1] == len("Ada, London")
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<answer>"
    assert tokenizer.decode(tokenize_prompt_and_answer(tokenizer, asked, "Ada")[0]) == "<user>Who?<answer>"


def test_non_causal_model_raises_usage_error(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "no_such_kind"}))
    with pytest.raises(UsageError, match="cannot open it as a causal language model"):
        ask(tmp_path, LONG, "London")


def test_tokenizer_of_different_model_raises_usage_error(folder: Path, tmp_path: Path) -> None:
    from support.models.tiny_causal import make_tokenizer

    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    make_tokenizer(
        [*TEXTS * 20, *["Charles Babbage's Analytical Engine was never built at all."] * 20]
    ).save_pretrained(str(tmp_path))
    with pytest.raises(UsageError, match="they do not belong together"):
        ask(tmp_path, LONG, "London")


def test_missing_gpu_raises_usage_error_when_cuda_is_requested(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_torch_device("auto") == "cpu"
    with pytest.raises(UsageError, match="torch finds no GPU on this machine; give auto or cpu"):
        choose_torch_device("cuda")


def test_no_module_statically_imports_optional_mechanism_packages() -> None:
    """The packages are imported by name, at the point of use."""
    found = {
        (module, imported)
        for module, text in load_source_code().items()
        for imported in find_imports(module, text)
        if imported.partition(".")[0] in MECHANISM_MODULES
    }
    assert found == set()
    assert "factmill.flows.evaluate.slaq_mechanism" in load_source_code()
