"""Find the paths between many pairs with plain numpy, DuckDB, and SPARQL on Oxigraph, each as fast as we know how.

All find the result of `PathSearchOptions(always_two_hops=True, max_paths=None)` on a local graph: every path of one or
two hops in both directions. A peer returns its paths as `ROWS`: a sorted int64 array of six columns, with -1 for null.
Its time includes converting its answers to rows (parsing, sorting), as factmill's does.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyoxigraph
from speed.mining.graph_maker import PROPERTIES, Edges, Ints

ROWS = ("pair", "hops", "backward", "middle", "property_1", "property_2")
ENTITY, DIRECT = "http://www.wikidata.org/entity/Q", "http://www.wikidata.org/prop/direct/P"

Labels = npt.NDArray[np.uint16]
Find = Callable[[Ints, Ints], Ints]
"""QID numbers of subjects and of objects → ROWS."""


def sort_rows(columns: Sequence[npt.ArrayLike]) -> Ints:
    """Return the columns of ROWS as one sorted array; a scalar fills its column."""
    table = np.stack(np.broadcast_arrays(*[np.asarray(column, np.int64) for column in columns]), axis=1)
    return table[np.lexsort(table.T[::-1])]


def open_numpy(edges: Edges) -> Find:
    """Return a finder over sorted arrays: edges by subject, edges by object, and each edge's key (subject, object).

    For two hops it follows the edges of the end that has fewer, and looks each up among the keys with the other end.
    """
    items, count = np.asarray(edges.items), len(edges.items)
    keys = (edges.subjects.astype(np.int64) * count + edges.objects) * PROPERTIES + edges.labels
    keys.sort()
    keys, labels = keys // PROPERTIES, (keys % PROPERTIES).astype(np.uint16)
    outward = edges.offsets, np.asarray(edges.objects), np.asarray(edges.labels)
    order = np.argsort(edges.objects, kind="stable")
    inward_offsets = np.append(0, np.cumsum(edges.count_in_degrees()))
    inward = inward_offsets, edges.subjects[order], edges.labels[order]

    def look_up(starts: Ints, ends: Ints) -> tuple[Ints, Labels]:
        """Return the rows that have an edge, each with its property; a row repeats for each property."""
        wanted = starts * count + ends
        order = np.argsort(wanted)  # sorted neighbours share the cache
        wanted = wanted[order]
        low = np.searchsorted(keys, wanted)
        hit = np.flatnonzero(keys[np.minimum(low, len(keys) - 1)] == wanted)
        own, places = _spread(hit, low[hit], np.searchsorted(keys, wanted[hit], "right"))
        return order[own], labels[places]

    def follow(side: tuple[Ints, npt.NDArray[np.uint32], Labels], at: Ints) -> tuple[Ints, Ints, Labels]:
        """Return for each edge of the items at `at`: the item's index, the other end, and the property."""
        offsets, others, kinds = side
        own, places = _spread(np.arange(len(at)), offsets[at], offsets[at + 1])
        return own, others[places].astype(np.int64), kinds[places]

    def find_directed(pairs: Ints, starts: Ints, ends: Ints, backward: int) -> Iterator[list[Ints]]:
        rows, first = look_up(starts, ends)
        yield _columns(pairs[rows], 1, backward, -1, first, -1)
        out_degrees = outward[0][starts + 1] - outward[0][starts]
        from_start = out_degrees <= inward[0][ends + 1] - inward[0][ends]
        for chosen, side in ((np.flatnonzero(from_start), outward), (np.flatnonzero(~from_start), inward)):
            own, middles, near = follow(side, (starts if side is outward else ends)[chosen])
            own = chosen[own]
            rows, far = look_up(*((middles, ends[own]) if side is outward else (starts[own], middles)))
            first, second = (near[rows], far) if side is outward else (far, near[rows])
            yield _columns(pairs[own[rows]], 2, backward, items[middles[rows]], first, second)

    def find(subjects: Ints, targets: Ints) -> Ints:
        starts, ends = (np.minimum(np.searchsorted(items, each), count - 1) for each in (subjects, targets))
        pairs = np.flatnonzero((items[starts] == subjects) & (items[ends] == targets))
        starts, ends = starts[pairs], ends[pairs]
        found = [*find_directed(pairs, starts, ends, 0), *find_directed(pairs, ends, starts, 1)]
        rows = [np.concatenate(column) for column in zip(*found, strict=True)]
        rows[4] = edges.properties[rows[4]]
        rows[5] = np.where(rows[5] < 0, -1, edges.properties[rows[5]])
        return sort_rows(rows)

    return find


def _spread(rows: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return the positions from low to high of each row, concatenated, each with its row."""
    lengths = high - low
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(rows, lengths), np.repeat(low, lengths) + steps


def _columns(*columns: npt.ArrayLike) -> list[Ints]:
    return list(np.broadcast_arrays(*[np.asarray(column, np.int64) for column in columns]))


_DIRECTED = """
    directed AS MATERIALIZED (
        SELECT pair, 0 AS backward, subject, object FROM asked
        UNION ALL SELECT pair, 1, object, subject FROM asked
    )
"""
_ONE_HOP = "SELECT pair, 1 AS hops, backward, -1 AS middle, property AS property_1, -1 AS property_2"
_TWO_HOPS = "SELECT pair, 2, backward, middle, property_1, e.property"
_FIRST = """
    first AS MATERIALIZED (
        SELECT d.*, e.property AS property_1, e.object AS middle FROM directed d JOIN edges e ON e.subject = d.subject
    )
"""
DUCKDB_FORMS = {
    "first hops kept": f"""
        WITH {_DIRECTED}, {_FIRST}
        {_ONE_HOP.replace("property AS property_1", "property_1")} FROM first WHERE middle = object
        UNION ALL {_TWO_HOPS} FROM first f JOIN edges e ON e.subject = f.middle AND e.object = f.object
    """,
    "semi-joins first": f"""
        WITH {_DIRECTED}, {_FIRST},
        near AS MATERIALIZED (
            FROM edges e SEMI JOIN (SELECT DISTINCT middle, object FROM first) f
            ON e.subject = f.middle AND e.object = f.object
        )
        {_ONE_HOP.replace("property AS property_1", "property_1")} FROM first WHERE middle = object
        UNION ALL {_TWO_HOPS} FROM first f JOIN near e ON e.subject = f.middle AND e.object = f.object
    """,
    "plain joins": f"""
        WITH {_DIRECTED}
        {_ONE_HOP} FROM directed d JOIN edges e ON e.subject = d.subject AND e.object = d.object
        UNION ALL
        SELECT pair, 2, backward, a.object, a.property, b.property
        FROM directed d JOIN edges a ON a.subject = d.subject
        JOIN edges b ON b.subject = a.object AND b.object = d.object
    """,
}


def open_duckdb(edges: Edges, path: Path, form: str) -> Find:
    """Return a finder by SQL over the table `edges`, sorted by subject; create the table if the file is missing."""
    is_new = not path.exists()
    db = duckdb.connect(str(path))
    if is_new:
        db.execute("CREATE TABLE edges (subject INTEGER, property INTEGER, object INTEGER)")
        for start in range(0, len(edges), 1 << 22):
            rows = slice(start, start + (1 << 22))
            part = pa.table(  # noqa: F841  DuckDB reads it by name
                {
                    "subject": edges.items[edges.subjects[rows]].astype(np.int32),
                    "property": edges.properties[edges.labels[rows]],
                    "object": edges.items[edges.objects[rows]].astype(np.int32),
                }
            )
            db.execute("INSERT INTO edges FROM part")
        db.execute("CHECKPOINT")

    def find(subjects: Ints, targets: Ints) -> Ints:
        asked = {"pair": np.arange(len(subjects)), "subject": subjects, "object": targets}
        db.register("asked", pa.table({name: column.astype(np.int32) for name, column in asked.items()}))
        return _to_rows(db.sql(DUCKDB_FORMS[form]).to_arrow_table())

    return find


def _to_rows(table: pa.Table) -> Ints:
    return sort_rows([column.to_numpy() for column in table.columns])


_SELECT = f"PREFIX wd: <{ENTITY[:-1]}> SELECT ?pair ?hops ?back ?m ?p1 ?p2 {{ "
_VALUES = "VALUES (?pair ?s ?o) { %s } "
_DIRECTIONS = "VALUES (?pair ?back ?s ?o) { %s } "
_HOPS = [
    "{ ?s ?p1 ?o BIND(1 AS ?hops) BIND(0 AS ?back) }",
    "{ ?o ?p1 ?s BIND(1 AS ?hops) BIND(1 AS ?back) }",
    "{ ?s ?p1 ?m . ?m ?p2 ?o BIND(2 AS ?hops) BIND(0 AS ?back) }",
    "{ ?o ?p1 ?m . ?m ?p2 ?s BIND(2 AS ?hops) BIND(1 AS ?back) }",
]
SPARQL_FORMS = {
    "one query, union": [_SELECT + _VALUES + " UNION ".join(_HOPS) + "}"],
    "four queries": [_SELECT + _VALUES + hops + "}" for hops in _HOPS],
    "one query, both directions as values": [
        _SELECT + _DIRECTIONS + "{ ?s ?p1 ?o BIND(1 AS ?hops) } UNION { ?s ?p1 ?m . ?m ?p2 ?o BIND(2 AS ?hops) } }"
    ],
    "two lateral queries": [
        _SELECT + _DIRECTIONS + "LATERAL { ?s ?p1 ?o } BIND(1 AS ?hops) }",
        _SELECT + _DIRECTIONS + "LATERAL { ?s ?p1 ?m . ?m ?p2 ?o } BIND(2 AS ?hops) }",
    ],
}


SPARQL_BATCHES = (10, 100, 1_000)


def load_oxigraph(triples: Path, path: Path) -> None:
    """Load N-Triples into a store on disk, and compact it."""
    store = pyoxigraph.Store(str(path))
    store.bulk_load(path=str(triples), format=pyoxigraph.RdfFormat.N_TRIPLES)
    store.optimize()
    store.flush()


def open_oxigraph(path: Path, form: str, pairs_a_query: int) -> Find:
    """Return a finder by SPARQL with the pairs as values; results are read as CSV, the fastest format.

    It runs on one core: a second thread gains nothing, since the store keeps Python's lock while it answers.
    """
    store = pyoxigraph.Store.read_only(str(path))
    templates = SPARQL_FORMS[form]

    def ask(query: str) -> bytes:
        answer = store.query(query)
        if not isinstance(answer, pyoxigraph.QuerySolutions):
            raise AssertionError("a SELECT query gave no solutions")
        return answer.serialize(format=pyoxigraph.QueryResultsFormat.CSV) or b""

    def make_queries(subjects: Ints, targets: Ints) -> Iterator[str]:
        both_ways = "?back ?s" in templates[0]
        for start in range(0, len(subjects), pairs_a_query):
            asked = [
                (number, f"wd:Q{subject}", f"wd:Q{target}")
                for number, (subject, target) in enumerate(
                    zip(
                        subjects[start:][:pairs_a_query].tolist(), targets[start:][:pairs_a_query].tolist(), strict=True
                    ),
                    start,
                )
            ]
            values = " ".join(
                f"({number} 0 {s} {o}) ({number} 1 {o} {s})" if both_ways else f"({number} {s} {o})"
                for number, s, o in asked
            )
            for template in templates:
                yield template % values

    def find(subjects: Ints, targets: Ints) -> Ints:
        answers = [ask(query) for query in make_queries(subjects, targets)]
        header = answers[0].split(b"\r\n", 1)[0] + b"\r\n"
        return _read_csv(header + b"".join(answer.removeprefix(header) for answer in answers))

    return find


def _read_csv(text: bytes) -> Ints:
    types = {"pair": pa.int64(), "hops": pa.int64(), "back": pa.int64()} | dict.fromkeys(("m", "p1", "p2"), pa.string())
    options = pyarrow.csv.ConvertOptions(column_types=types)
    table = pyarrow.csv.read_csv(pa.py_buffer(text), convert_options=options)
    numbers = [
        pc.cast(
            pc.if_else(pc.equal(table[name], ""), "-1", pc.utf8_slice_codeunits(table[name], len(start))), pa.int64()
        )
        for name, start in (("m", ENTITY), ("p1", DIRECT), ("p2", DIRECT))
    ]
    return sort_rows([column.to_numpy() for column in (table["pair"], table["hops"], table["back"], *numbers)])
