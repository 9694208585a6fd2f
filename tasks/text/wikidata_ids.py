"""Ids of Wikidata items and properties: validation and numbers."""

import re

# no item has a longer number, and 64 bits may not hold one
_QID = re.compile(r"Q[1-9][0-9]{0,17}")
_PID = re.compile(r"P[1-9][0-9]{0,17}")


def is_qid(text: str) -> bool:
    """True for the id of an item, like Q64."""
    return _QID.fullmatch(text) is not None


def is_pid(text: str) -> bool:
    """True for the id of a property, like P19."""
    return _PID.fullmatch(text) is not None


def get_wikidata_id_number(entity_id: str) -> int:
    """Return the number of a QID or PID, the sort key of ids (Q64 before Q142659)."""
    return int(entity_id[1:])
