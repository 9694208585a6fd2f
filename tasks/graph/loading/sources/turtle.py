"""Convert Turtle to N-Triples, some ten thousand triples at a time, in bounded memory.

The parser does not check IRIs and language tags: Wikidata holds some invalid ones, and one of them must not stop a dump
of a billion triples. Their lines are then invalid N-Triples and are set aside like all malformed ones. Invalid Turtle
stops the load: the parser would skip everything between the error and the next full stop.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, cast

from factmill.tasks.errors import SourceError

if TYPE_CHECKING:
    from pyoxigraph import Quad

TURTLE_BATCH_TRIPLES = 50_000


def convert_turtle_to_ntriples(
    read: Callable[[int], bytes], source: str, skipped_triples: int = 0
) -> Iterator[tuple[bytes, int]]:
    """Yield batches of N-Triples lines, one per triple, with their number, after the first `skipped_triples` triples.

    `read` returns at most the given number of next bytes, none at the end. Blank nodes keep their labels or get random
    ones. Raises SourceError with line and column for invalid Turtle.
    """
    # imported here: it takes 17 MB of memory, and only Turtle needs it
    import pyoxigraph

    triples = pyoxigraph.parse(
        cast(IO[bytes], SimpleNamespace(read=read)), format=pyoxigraph.RdfFormat.TURTLE, lenient=True
    )
    try:
        for _ in islice(triples, skipped_triples):
            pass
        while some := list(islice(triples, TURTLE_BATCH_TRIPLES)):
            data = _format_ntriples(some)
            if data.count(b"\n") != len(some):
                # an IRI contains a newline: keep it malformed, but on one line
                data = b"".join(_format_ntriples([triple])[:-1].replace(b"\n", rb"\n") + b"\n" for triple in some)
            yield data, len(some)
    except SyntaxError as error:
        expected = error.msg.partition(": ")[2] or error.msg
        raise SourceError(
            f"{source}: invalid Turtle at line {error.lineno}, column {error.offset}: {expected}"
        ) from error


def _format_ntriples(triples: "list[Quad]") -> bytes:
    import pyoxigraph

    return pyoxigraph.serialize(triples, format=pyoxigraph.RdfFormat.N_TRIPLES) or b""
