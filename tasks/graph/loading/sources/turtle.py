"""Turtle written as N-Triples, some ten thousand triples at a time, in bounded memory.

The parser is asked not to check IRIs and language tags: Wikidata holds some that are none, and one of them must not
stop a dump of a billion triples. Their lines are then no N-Triples and are set aside like all malformed ones. What is
no Turtle stops the load: the parser would leave out what stands between the error and the next full stop.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, cast

from factmill.tasks.errors import SourceError

if TYPE_CHECKING:
    from pyoxigraph import Quad

TRIPLES_AT_ONCE = 50_000


def read_turtle(read: Callable[[int], bytes], source: str, passed_over: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield lines of N-Triples and how many there are, one a triple, behind the first `passed_over` triples.

    `read` returns at most so many next bytes, none at the end. Blank nodes keep their labels or get one at random.
    Raises SourceError with line and column for what is no Turtle.
    """
    # 17 MB of memory, for what only loads of Turtle need
    import pyoxigraph

    triples = pyoxigraph.parse(
        cast(IO[bytes], SimpleNamespace(read=read)), format=pyoxigraph.RdfFormat.TURTLE, lenient=True
    )
    try:
        for _ in islice(triples, passed_over):
            pass
        while some := list(islice(triples, TRIPLES_AT_ONCE)):
            data = _serialize(some)
            if data.count(b"\n") != len(some):
                # an IRI with a newline in it, which stays malformed but on one line
                data = b"".join(_serialize([triple])[:-1].replace(b"\n", rb"\n") + b"\n" for triple in some)
            yield data, len(some)
    except SyntaxError as error:
        expected = error.msg.partition(": ")[2] or error.msg
        raise SourceError(f"{source}: no Turtle at line {error.lineno}, column {error.offset}: {expected}") from error


def _serialize(triples: "list[Quad]") -> bytes:
    import pyoxigraph

    return pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES) or b""
