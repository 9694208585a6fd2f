"""What a model is shown in each setting: the graphs of the two people, some pieces short, or others in their place (paper §4.4, §5.3).

What is taken out or replaced follows from the ids of rows and people alone, so a row is the same test in every evaluation,
and each step takes out or replaces more than the one before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tasks.biokalma.core.evaluation.rows import BioAsked, Form
from tasks.biokalma.core.rows import BiographyRow
from tasks.core.authoring.pieces import Piece
from tasks.core.fingerprints import digest_json, seed_from
from tasks.text.ids import id_number

GIVEN, RETRIEVED = "given_graph", "retrieved"
REMOVED, ABLATED = "removed_", "ablated_"
FORMS: tuple[Form, ...] = ("general", "specific")


@dataclass(frozen=True, slots=True)
class Graph:
    """What is known of one item in one hop, as the model is shown it."""

    qid: str
    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Measured:
    """All rows of the measured build, of which a row's graphs may be replaced."""

    rows: Sequence[BiographyRow]

    def show(self, row: BiographyRow, setting: str) -> list[Graph]:
        """Return the graphs of a row in a setting; `retrieved` has none before they are looked up."""
        if setting == RETRIEVED:
            return []
        graphs = list_graphs(row)
        if setting.startswith(REMOVED):
            missing = {identify(piece) for piece in draw_removed(row, int(setting.removeprefix(REMOVED)))}
            kept = ((graph, [each for each in graph.pieces if identify(each) not in missing]) for graph in graphs)
            return [Graph(graph.qid, graph.name, tuple(pieces)) for graph, pieces in kept if pieces]
        if setting.startswith(ABLATED):
            count = round(len(self._order) * (100 - int(setting.removeprefix(ABLATED))) / 100)
            replaced = set(self._order[:count])
            return [self._find_other(row, each) if (row.id, each.qid) in replaced else each for each in graphs]
        return graphs

    @cached_property
    def _order(self) -> list[tuple[str, str]]:
        """(row, person) of every graph, in the order in which they are replaced."""
        pairs = [(row.id, qid) for row in self.rows for qid in row.people]
        return sorted(pairs, key=lambda pair: digest_json(["ablated", *pair]))

    @cached_property
    def _people(self) -> list[Graph]:
        """Everybody of the build, once, by number."""
        graphs = {graph.qid: graph for row in reversed(self.rows) for graph in list_graphs(row)}
        return [graphs[qid] for qid in sorted(graphs, key=id_number)]

    def _find_other(self, row: BiographyRow, graph: Graph) -> Graph:
        """Return somebody of another row, whom this row's graphs do not name; the right graph where there is nobody."""
        known = {*row.people, *(piece.value_qid for piece in row.knowledge_graph)}
        first = seed_from("instead", row.id, graph.qid) % len(self._people)
        others = (*self._people[first:], *self._people[:first])
        return next((each for each in others if each.qid not in known), graph)


def list_graphs(row: BiographyRow) -> list[Graph]:
    """Return the graphs of a row's two people."""
    return [
        Graph(qid, name, tuple(piece for piece in row.knowledge_graph if piece.qid == qid))
        for qid, name in zip(row.people, row.names, strict=True)
    ]


def draw_removed(row: BiographyRow, number: int) -> list[Piece]:
    """Return the pieces of the minimum set that are taken out first, so many or all there are."""
    return sorted(row.minimum_knowledge, key=lambda piece: digest_json(["removed", row.id, *identify(piece)]))[:number]


def identify(piece: Piece) -> tuple[str, str, str]:
    """Return what makes two pieces the same, whatever statement says it."""
    return piece.qid, piece.pid, piece.value_qid or piece.value


def ask_row(row: BiographyRow, setting: str, graphs: Sequence[Graph], forms: Iterable[Form]) -> Iterator[BioAsked]:
    """Yield the questions of a row with these graphs."""
    for form in forms:
        yield show_graphs(
            BioAsked(
                id=f"{setting}/{row.id}/{form}",
                question_id=f"{row.id}/{form}",
                item=row.id,
                cluster=row.id,
                setting=setting,
                question=row.general_question if form == "general" else row.specific_question,
                form=form,
                people=row.people,
                names=row.names,
                relation=row.relation_label,
                retrieved=[],
                retrieved_names=[],
                given=[],
                minimum=row.minimum_knowledge,
                removed=[],
                lookup_failure="",
            ),
            graphs,
        )


def show_graphs(asked: BioAsked, graphs: Sequence[Graph]) -> BioAsked:
    """Return a question with these graphs to be shown; what of the minimum set they lack is `removed`."""
    given = [piece for graph in graphs for piece in graph.pieces]
    there = set(map(identify, given))
    return asked.replace(
        retrieved=[graph.qid for graph in graphs],
        retrieved_names=[graph.name for graph in graphs],
        given=given,
        removed=[piece for piece in asked.minimum if identify(piece) not in there],
    )
