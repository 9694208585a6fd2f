"""Make small causal language models in Hugging Face's form with random weights, and ablate them plainly.

Needs the extra `mechanism`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from support.models.random_decoder import SENTENCES, START, train_tokenizer

Family = Literal["llama", "gpt2", "qwen3"]
POSITIONS = 512


def make_model(
    family: Family, layers: int = 2, heads: int = 4, width: int = 32, vocabulary: int = 340, seed: int = 0
) -> Any:
    """Return a model; heads share keys and values if the family does so."""
    import torch
    import transformers

    torch.manual_seed(seed)
    shape: dict[str, Any] = {"vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.2}
    if family == "gpt2":
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=width, n_layer=layers, n_head=heads, n_positions=POSITIONS, **shape)
        )
    else:
        kind = {"llama": "Llama", "qwen3": "Qwen3"}[family]
        more = {"head_dim": width // heads} if family == "qwen3" else {}
        config = getattr(transformers, f"{kind}Config")(
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=max(1, heads // 2),
            max_position_embeddings=POSITIONS,
            **more,
            **shape,
        )
        model = getattr(transformers, f"{kind}ForCausalLM")(config)
    return model.eval()


def lift_logits(model: Any) -> Any:
    """Shift the embedding and unembedding of all tokens in one direction, so that all logits are above 0."""
    import torch

    with torch.no_grad():
        model.get_input_embeddings().weight.add_(0.6)
        if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
            model.get_output_embeddings().weight.add_(0.6)
    return model


def write_model(
    folder: Path,
    family: Family = "llama",
    texts: Sequence[str] = SENTENCES,
    seed: int = 0,
    lifted: bool = True,
    **shape: Any,
) -> Path:
    """Write a model into a folder, with a tokenizer of the words of texts, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(texts)
    model = make_model(family, vocabulary=len(tokenizer), seed=seed, **shape)
    (lift_logits(model) if lifted else model).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder


def make_tokenizer(texts: Sequence[str]) -> Any:
    """Return a GPT-2-style tokenizer that knows pieces of the texts' words."""
    import transformers

    tokenizer = train_tokenizer(texts, 2000)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=START, eos_token=START)


def ablate_one(model: Any, ids: list[int], place: int, layer: int, head: int | None) -> float:
    """Return the logit of a token at a place after one run with one head ablated (None: the layer's MLP)."""
    import torch

    body = model.base_model
    block = (body.h if hasattr(body, "h") else body.layers)[layer]
    width = (
        0
        if head is None
        else _projection(block).weight.shape[0 if hasattr(body, "h") else 1] // model.config.num_attention_heads
    )

    def silence_head(_: Any, arguments: tuple[Any, ...]) -> Any:
        joined = arguments[0].clone()
        joined[..., head * width : (head + 1) * width] = 0.0
        return (joined, *arguments[1:])

    hook = (
        block.mlp.register_forward_hook(lambda *expected: torch.zeros_like(expected[2]))
        if head is None
        else _projection(block).register_forward_pre_hook(silence_head)
    )
    try:
        with torch.inference_mode():
            logits = model(torch.tensor([ids[:place]]), use_cache=False).logits
    finally:
        hook.remove()
    return float(logits[0, -1, ids[place]])


def _projection(block: Any) -> Any:
    return block.attn.c_proj if hasattr(block, "attn") else block.self_attn.o_proj
