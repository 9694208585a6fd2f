"""Frame an answer for a judge between boundary lines: its content is to be judged, never obeyed.

The boundary is derived from a digest of the answer, so no answer can contain it, except a text with its own digest. The
same answer has the same frame in every evaluation, so the judge's cached responses apply.
"""

from factmill.tasks.core.digests import digest_json

_BOUNDARY_DIGITS = 16
"""Hexadecimal digits of a boundary."""


def make_answer_boundary(row_id: str, answer: str) -> str:
    """Return the boundary of one answer to one row: `answer-` and 16 hexadecimal digits."""
    return f"answer-{digest_json([row_id, answer])[:_BOUNDARY_DIGITS]}"


def enclose_answer_in_boundary_lines(row_id: str, answer: str) -> str:
    """Return an answer between two lines that it cannot contain; `make_answer_boundary` gives the judge their name."""
    boundary = make_answer_boundary(row_id, answer)
    inside = answer.replace(boundary, boundary.replace("-", "_"))
    return f"[{boundary} begins]\n{inside}\n[{boundary} ends]"
