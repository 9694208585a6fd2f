"""Digests that identify inputs, calls and rows: SHA-256 over canonical JSON or raw bytes."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

_encode_canonical_json = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode
"""Made once: with these settings json.dumps makes an encoder per call, which takes as long as the encoding."""

JsonValue = None | bool | int | float | str | list[Any] | dict[str, Any]


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of a value: sorted keys, no spaces, unescaped Unicode characters."""
    return _encode_canonical_json(value)


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 of raw bytes in hex (64 characters)."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON in hex (64 characters)."""
    return digest_text(canonical_json(value))


def digest_text(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 in hex; half a surrogate pair is digested unchanged."""
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def combine_digests(digests: Iterable[str]) -> str:
    """Return one digest of an ordered series of digests."""
    return digest_bytes("\n".join(digests).encode())


def derive_seed(*parts: str) -> int:
    """Return a 64-bit seed for a random generator, derived from ids alone."""
    return int.from_bytes(hashlib.sha256("\x1f".join(parts).encode()).digest()[:8], "big")
