"""What a model reads: what it was asked, and what it answered, as tokens that know where they stand in the answer."""

from collections.abc import Mapping, Sequence
from typing import Any


def encode(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], answer: str
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return the tokens of what was asked and of an answer, and where the answer's stand in it (characters)."""
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        text = "\n\n".join(str(each["content"]) for each in messages) + "\n"
        prompt = tokenizer(text)["input_ids"]
        end = tokenizer.eos_token_id
        # a tokenizer that ends texts, too, would end the prompt before the answer
        prompt = prompt[:-1] if len(prompt) > 1 and prompt[-1] == end != prompt[0] else prompt
    told = tokenizer(answer, add_special_tokens=False, return_offsets_mapping=True)
    return list(prompt), list(told["input_ids"]), [(int(begin), int(end)) for begin, end in told["offset_mapping"]]
