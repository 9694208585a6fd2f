"""How far a stage has come, in per cent."""

import pytest

from tasks.progress import StageBar


@pytest.mark.parametrize(
    ("batches", "done", "replies", "expected", "percent"),
    [
        (1, 0, 0, 0, 0),
        (1, 0, 3, 6, 50),
        (1, 0, 6, 6, 90),  # what is made of the replies takes its time too
        (1, 1, 6, 6, 100),
        (4, 0, 10, 20, 22.5),  # of batches that have not begun no reply is expected yet
        (4, 2, 10, 20, 50),
        (0, 0, 0, 0, 100),
    ],
)
def test_a_stage_is_as_far_as_its_batches_and_the_replies_of_the_next(
    batches: int, done: int, replies: int, expected: int, percent: float
) -> None:
    bar = StageBar("find_qids", batches, None)
    bar.done, bar.replies, bar.expected = done, replies, expected
    assert bar.percent() == percent
