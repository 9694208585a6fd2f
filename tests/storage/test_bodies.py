"""Bodies of replies as they lie in the warehouse."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tasks.storage.bodies import LONG, pack_body, unpack_body


@given(st.text(max_size=200), st.integers(1, 60))
def test_a_body_comes_back_as_it_was(text: str, times: int) -> None:
    body = json.dumps({"text": text * times}, ensure_ascii=False)
    assert unpack_body(pack_body(body)) == body


def test_long_bodies_are_packed_and_short_ones_can_be_read_as_they_lie() -> None:
    page = json.dumps({"text": "<p>Graz lies on the Mur.</p>" * 1000})
    assert len(pack_body(page)) < len(page) / 6
    short = json.dumps({"text": "x" * (LONG // 2)})
    assert pack_body(short) == short
