"""Halves of surrogate pairs, which JSON can spell, become characters that can be stored."""

import json

from tasks.text.whole import whole_json


def test_halves_are_replaced_everywhere_and_whole_pairs_kept() -> None:
    read = json.loads('{"a\\ud800": ["\\udc00x", {"b": "\\ud83d\\ude00"}], "c": 1, "d": null}')
    assert whole_json(read) == {"a?": ["?x", {"b": "😀"}], "c": 1, "d": None}
