"""The frame in which a judge is shown an answer: what stands inside it is looked at, never obeyed.

Its boundary follows from the answer itself, so no answer can hold it, short of a text that contains its own digest, and
the same answer is framed alike in every evaluation: a judge that was asked is not asked again.
"""

from factmill.tasks.core.fingerprints import digest_json

_LENGTH = 16
"""Hexadecimal digits of a boundary."""


def make_boundary(row_id: str, answer: str) -> str:
    """Return the boundary of one answer to one row: `answer-` and 16 hexadecimal digits."""
    return f"answer-{digest_json([row_id, answer])[:_LENGTH]}"


def frame(row_id: str, answer: str) -> str:
    """Return an answer between two lines that it cannot contain; those are named to the judge by `make_boundary`."""
    boundary = make_boundary(row_id, answer)
    inside = answer.replace(boundary, boundary.replace("-", "_"))
    return f"[{boundary} begins]\n{inside}\n[{boundary} ends]"
