"""Texts that can be stored: JSON can spell half a surrogate pair, which is no character, and which neither UTF-8 nor Arrow can hold."""

from typing import Any


def whole_text(text: str) -> str:
    """Return a text with halves of surrogate pairs replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def whole_json(value: Any) -> Any:
    """Return a value of JSON with all its texts, keys too, made whole."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [whole_json(each) for each in value]
    if isinstance(value, dict):
        return {whole_text(key): whole_json(each) for key, each in value.items()}
    return value
