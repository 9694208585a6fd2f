"""Graphs that a model is shown in each setting, and answers of the built-in models (paper §4.4, Figure 4).

Which pieces or graphs are removed or replaced depends only on the ids of rows and people, so a row is the same test in
every evaluation, and each step removes or replaces more than the one before.

In the setting `retrieved`, the question's names select the items: the baseline's retrieval and re-ranking (§3.1, §3.2).
No model recognises named entities. Any run of words that begins and ends with a capitalised word may be a name, and is
one if an item of the class bears it as label or alias; the longest run wins. Of several bearers, the one counts whose
neighbours the question names most often, word for word; ties go to the bearer by label, then to the smaller QID number.

`tell`: makes a sentence, with its full stop, of a piece and its person's name.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from factmill.tasks.biokalma.core.evaluation.rows import BioAsked, Form
from factmill.tasks.biokalma.core.rows import BiographyRow
from factmill.tasks.core.authoring.citations import Piece, format_label
from factmill.tasks.core.calls.item_facts import Fact
from factmill.tasks.core.calls.knowledge import Candidate, Qid
from factmill.tasks.core.fingerprints import digest_json, seed_from
from factmill.tasks.text.ids import id_number
from factmill.tasks.text.matching import fold_text, has_words

GIVEN, RETRIEVED = "given_graph", "retrieved"
REMOVED, ABLATED = "removed_", "ablated_"
FORMS: tuple[Form, ...] = ("general", "specific")


@dataclass(frozen=True, slots=True)
class Graph:
    """One item's one-hop knowledge, as the model is shown it."""

    qid: str
    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Measured:
    """All rows of the measured build, from which a row's graphs may be replaced."""

    rows: Sequence[BiographyRow]

    def show(self, row: BiographyRow, setting: str) -> list[Graph]:
        """Return a row's graphs in a setting; for `retrieved` none, since they are looked up later."""
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
        """(row, person) of every graph, in the order of replacement."""
        pairs = [(row.id, qid) for row in self.rows for qid in row.people]
        return sorted(pairs, key=lambda pair: digest_json(["ablated", *pair]))

    @cached_property
    def _people(self) -> list[Graph]:
        """The graph of each person of the build, by QID number."""
        graphs = {graph.qid: graph for row in reversed(self.rows) for graph in list_graphs(row)}
        return [graphs[qid] for qid in sorted(graphs, key=id_number)]

    def _find_other(self, row: BiographyRow, graph: Graph) -> Graph:
        """Return the graph of a person whom this row's graphs do not name; the row's own graph where there is none."""
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
    """Return the first pieces of the minimum set to remove: `number` of them, or all."""
    return sorted(row.minimum_knowledge, key=lambda piece: digest_json(["removed", row.id, *identify(piece)]))[:number]


def identify(piece: Piece) -> tuple[str, str, str]:
    """Return a piece's identity, whatever statement it comes from."""
    return piece.qid, piece.pid, piece.value_qid or piece.value


def ask_row(row: BiographyRow, setting: str, graphs: Sequence[Graph], forms: Iterable[Form]) -> Iterator[BioAsked]:
    """Yield a row's questions with these graphs."""
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
    """Return a question with these graphs; the pieces of the minimum set that they lack become `removed`."""
    given = [piece for graph in graphs for piece in graph.pieces]
    there = set(map(identify, given))
    return asked.replace(
        retrieved=[graph.qid for graph in graphs],
        retrieved_names=[graph.name for graph in graphs],
        given=given,
        removed=[piece for piece in asked.minimum if identify(piece) not in there],
    )


Tell = Callable[[Piece, str], str]
GUESSES = 4
"""Pieces guessed per person: together about as many as a minimum set has."""


def say_right(asked: BioAsked, tell: Tell) -> str:
    """Return the minimum set, one sentence per piece: cited where the graph has it, else marked [NA]."""
    names = dict(zip(asked.people, asked.names, strict=True))
    given = set(map(identify, asked.given))
    return " ".join(
        _mark(tell(piece, names[piece.qid]), cite(piece) if identify(piece) in given else "[NA]")
        for piece in asked.minimum
    )


@dataclass
class Guesser:
    """Guesses the most frequent pieces of minimum sets, counted once over all rows of a build."""

    rows: Sequence[BiographyRow]
    _counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Relation label (empty: all rows) → (PID, value) → number of rows."""
    _own: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Row id → the same counts for that row alone."""
    _pieces: dict[tuple[str, str], Piece] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Count the pieces of all rows."""
        for row in self.rows:
            told = {(piece.pid, piece.value_qid or piece.value): piece for piece in row.minimum_knowledge}
            self._pieces = told | self._pieces
            self._own[row.id] = Counter(told.keys())
            for group in (row.relation_label, ""):
                self._counts.setdefault(group, Counter()).update(told.keys())

    def say(self, asked: BioAsked, tell: Tell) -> str:
        """State and cite for both people the most frequent pieces of other rows with the relation, else of any."""
        own = self._own[asked.item]
        found = (self._counts[asked.relation] - own) or (self._counts[""] - own)
        ranked = sorted(found, key=lambda each: (-found[each], each))[:GUESSES]
        people = zip(asked.people, asked.names, strict=True)
        return " ".join(self._claim(each, *person, tell) for person in people for each in ranked)

    def _claim(self, each: tuple[str, str], qid: str, name: str, tell: Tell) -> str:
        piece = self._pieces[each].model_copy(update={"qid": qid})
        return _mark(tell(piece, name), cite(piece))


def cite(piece: Piece) -> str:
    """Return `[Q1, place of birth: London]` (§3.3)."""
    return f"[{piece.qid}, {format_label(piece.property)}: {format_label(piece.value)}]"


def _mark(sentence: str, citation: str) -> str:
    return f"{sentence[:-1]} {citation}{sentence[-1]}"


LONGEST = 6
"""Maximum words of a name."""
_AROUND = "\"'“”‘’«»„()[]{}¿¡,;:!?…"
_POSSESSIVE = re.compile(r"(?<=[\w.])(?:['’]s|(?<=s)['’])$")


@dataclass(frozen=True, slots=True)
class Span:
    """A run of words that may be a name."""

    start: int
    """Index of the first word."""
    stop: int
    spellings: tuple[str, ...]
    """As written, then without a sentence's additions: a possessive, a full stop."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a question, and the items of the class that bear it."""

    text: str
    candidates: tuple[Candidate, ...]


def list_spans(question: str, shortest: int, function_words: Set[str]) -> list[Span]:
    """Return the runs of at least `shortest` words that begin and end with a capitalised word.

    A function word alone is not a run. Words in scripts without case count as capitalised.
    """
    words = question.split()
    marked = [at for at, word in enumerate(words) if any(each.isalpha() and not each.islower() for each in word)]
    spans = []
    for start in marked:
        for stop in (end + 1 for end in marked if shortest <= end + 1 - start <= LONGEST):
            spellings = _spell(" ".join(words[start:stop]))
            if spellings and spellings[0].lower() not in function_words:
                spans.append(Span(start, stop, spellings))
    return spans


def _spell(written: str) -> tuple[str, ...]:
    name = written.strip(_AROUND)
    bare = name.rstrip("." + _AROUND)
    return tuple(filter(None, dict.fromkeys([name, bare, _POSSESSIVE.sub("", bare)])))


def choose_names(spans: Sequence[Span], bearers: Mapping[str, Sequence[Candidate]]) -> list[Name]:
    """Return the names among spans in text order; longer names take precedence and never overlap.

    `bearers`: spelling → items of the class that bear it.
    """
    taken: set[int] = set()
    chosen: list[tuple[int, Name]] = []
    for span in sorted(spans, key=lambda span: (span.start - span.stop, span.start)):
        text = next((each for each in span.spellings if bearers.get(each)), None)
        if text is not None and taken.isdisjoint(range(span.start, span.stop)):
            taken.update(range(span.start, span.stop))
            chosen.append((span.start, Name(text, tuple(bearers[text]))))
    return [name for _, name in sorted(chosen, key=lambda pair: pair[0])]


def choose_item(question: str, name: Name, facts: Mapping[str, Sequence[Fact]]) -> Qid:
    """Return the bearer of a name that a question means (§3.2, exact match of neighbours)."""
    folded, own = fold_text(question), fold_text(name.text)

    def rank(candidate: Candidate) -> tuple[int, bool, int]:
        labels = {fold_text(fact.value) for fact in facts[candidate.qid] if fact.qid and fact.value} - {own}
        matched = sum(has_words(folded, label) for label in labels)
        return -matched, candidate.via != "label", id_number(candidate.qid)

    return min(name.candidates, key=rank).qid
