"""How bodies of replies lie in the warehouse: as JSON, the long ones packed.

DuckDB reads some two thousand texts of a column at a time. Pages of a large wiki, of hundreds of kilobytes each, would
need more memory than that one column is worth; packed they take a sixth of it, in the file too.
"""

import base64
import json
import zlib
from typing import Any

LONG = 4096
"""Characters from which a body is packed."""
_MARK = "zlib:"
"""No JSON begins so."""


def pack_body(body: str) -> str:
    """Return a body as it is stored."""
    if len(body) < LONG:
        return body
    return _MARK + base64.b64encode(zlib.compress(body.encode("utf-8"))).decode("ascii")


def unpack_body(stored: str) -> str:
    """Return a stored body as JSON; one that is damaged as it is stored, which is no JSON."""
    if not stored.startswith(_MARK):
        return stored
    try:
        return zlib.decompress(base64.b64decode(stored.removeprefix(_MARK))).decode("utf-8")
    except (ValueError, zlib.error):
        return stored


def read_rejected(row: str) -> Any:
    """Return what a rejected row says: any JSON, as its source had it, or the title or name that a stage keeps, which is none."""
    try:
        return json.loads(row)
    except (ValueError, RecursionError):
        return row
