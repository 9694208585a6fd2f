"""Write a language model of some 30,000 random weights as a GGUF file, for a real chat server.

The model knows no language: it spells random printable characters. Its purpose is to test the server around it.
Tests can rely on two properties. The first dimension of the hidden state is the same for every token, so an output
weight on it is a plain bias. Control tokens, raw bytes and vowels get a strongly negative bias. Replies are
therefore never empty and contain no word that a parser of verdicts could take for Yes or No, while a grammar can
still choose any of these tokens if it permits nothing else.

Usage: python tests/llm/tiny_model.py FILE
"""

import sys
from pathlib import Path

import gguf
import numpy as np

CONTEXT_TOKENS = 16384
"""Context size in tokens, one per character; prompts with an article need the most."""
_WIDTH, _HEADS, _LAYERS, _INNER = 32, 4, 2, 64
_CONSTANT = 4.0
_UNLIKELY = -6.0
_SPACE = "\u2581"
_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def list_tokens() -> list[tuple[str, gguf.TokenType]]:
    """Return the vocabulary: three control tokens, a token for every byte, one for every printable character."""
    controls = [("<unk>", gguf.TokenType.UNKNOWN), ("<s>", gguf.TokenType.CONTROL), ("</s>", gguf.TokenType.CONTROL)]
    raw = [(f"<0x{byte:02X}>", gguf.TokenType.BYTE) for byte in range(256)]
    printable = [(_SPACE, gguf.TokenType.NORMAL), *((chr(code), gguf.TokenType.NORMAL) for code in range(33, 127))]
    return [*controls, *raw, *printable]


def draw_weights(tokens: list[tuple[str, gguf.TokenType]], seed: int) -> dict[str, np.ndarray]:
    """Return the tensors by their GGUF names, each of shape (outputs, inputs)."""
    random = np.random.default_rng(seed)

    def draw(outputs: int, inputs: int, spread: float) -> np.ndarray:
        return random.normal(0.0, spread, (outputs, inputs)).astype(np.float32)

    embedding, output = draw(len(tokens), _WIDTH, 1.0), draw(len(tokens), _WIDTH, 0.3)
    embedding[:, 0] = _CONSTANT
    output[:, 0] = [
        0.0 if kind is gguf.TokenType.NORMAL and text not in "aeiouAEIOU" else _UNLIKELY for text, kind in tokens
    ]
    ones = np.ones(_WIDTH, dtype=np.float32)
    weights = {"token_embd.weight": embedding, "output.weight": output, "output_norm.weight": ones}
    for layer in range(_LAYERS):
        shapes = {"attn_q": (_WIDTH, _WIDTH), "attn_k": (_WIDTH, _WIDTH), "attn_v": (_WIDTH, _WIDTH)}
        shapes |= {"attn_output": (_WIDTH, _WIDTH), "ffn_gate": (_INNER, _WIDTH), "ffn_up": (_INNER, _WIDTH)}
        shapes |= {"ffn_down": (_WIDTH, _INNER)}
        drawn = {name: draw(*shape, 0.15) for name, shape in shapes.items()}
        drawn["attn_output"][0] = drawn["ffn_down"][0] = 0.0  # keep the constant dimension constant
        weights |= {f"blk.{layer}.{name}.weight": matrix for name, matrix in drawn.items()}
        weights |= {f"blk.{layer}.{name}.weight": ones for name in ("attn_norm", "ffn_norm")}
    return weights


def write_model(path: Path, seed: int = 1) -> None:
    """Write the model; the same seed gives the same bytes."""
    tokens = list_tokens()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny random model")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(_TEMPLATE)
    for name, matrix in draw_weights(tokens, seed).items():
        writer.add_tensor(name, matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
