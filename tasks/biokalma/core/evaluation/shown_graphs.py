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
from dataclasses import dataclass, field, replace
from functools import cached_property

from factmill.tasks.biokalma.core.evaluation.rows import BiokalmaQuestion, BiokalmaQuestionForm
from factmill.tasks.biokalma.core.rows import BiokalmaRow
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece, replace_square_brackets_if_unpaired
from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.wikidata import ItemMatchedByName, Qid
from factmill.tasks.core.digests import derive_seed, digest_json
from factmill.tasks.text.text_normalization import contains_whole_words, fold_case_accents_and_punctuation
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

GIVEN_SETTING, RETRIEVED_SETTING = "given_graph", "retrieved"
REMOVED_PREFIX, ABLATED_PREFIX = "removed_", "ablated_"
QUESTION_FORMS: tuple[BiokalmaQuestionForm, ...] = ("general", "specific")


@dataclass(frozen=True, slots=True)
class ItemGraph:
    """One item's one-hop knowledge, as the model is shown it."""

    qid: str
    name: str
    pieces: tuple[PersonKnowledgePiece, ...]


@dataclass(frozen=True)
class SettingGraphSelector:
    """All rows of the measured build, from which a row's graphs may be replaced."""

    rows: Sequence[BiokalmaRow]

    def list_shown_graphs(self, row: BiokalmaRow, setting: str) -> list[ItemGraph]:
        """Return a row's graphs in a setting; for `retrieved` none, since they are looked up later."""
        if setting == RETRIEVED_SETTING:
            return []
        graphs = list_person_graphs(row)
        if setting.startswith(REMOVED_PREFIX):
            removed = choose_removed_pieces(row, int(setting.removeprefix(REMOVED_PREFIX)))
            missing = set(map(get_piece_identity, removed))
            kept = (
                replace(graph, pieces=tuple(each for each in graph.pieces if get_piece_identity(each) not in missing))
                for graph in graphs
            )
            return [graph for graph in kept if graph.pieces]
        if setting.startswith(ABLATED_PREFIX):
            count = round(len(self._replacement_order) * (100 - int(setting.removeprefix(ABLATED_PREFIX))) / 100)
            replaced = set(self._replacement_order[:count])
            return [self._find_replacement(row, each) if (row.id, each.qid) in replaced else each for each in graphs]
        return graphs

    @cached_property
    def _replacement_order(self) -> list[tuple[str, str]]:
        """(row, person) of every graph, in the order of replacement."""
        pairs = [(row.id, qid) for row in self.rows for qid in row.people]
        return sorted(pairs, key=lambda pair: digest_json(["ablated", *pair]))

    @cached_property
    def _people_graphs(self) -> list[ItemGraph]:
        """The graph of each person of the build, by QID number."""
        graphs = {graph.qid: graph for row in reversed(self.rows) for graph in list_person_graphs(row)}
        return [graphs[qid] for qid in sorted(graphs, key=get_wikidata_id_number)]

    def _find_replacement(self, row: BiokalmaRow, graph: ItemGraph) -> ItemGraph:
        """Return the graph of a person whom this row's graphs do not name; the row's own graph where there is none."""
        known = {*row.people, *(piece.value_qid for piece in row.knowledge_graph)}
        first = derive_seed("instead", row.id, graph.qid) % len(self._people_graphs)
        others = (*self._people_graphs[first:], *self._people_graphs[:first])
        return next((each for each in others if each.qid not in known), graph)


def list_person_graphs(row: BiokalmaRow) -> list[ItemGraph]:
    """Return the graphs of a row's two people."""
    return [
        ItemGraph(qid, name, tuple(piece for piece in row.knowledge_graph if piece.qid == qid))
        for qid, name in zip(row.people, row.names, strict=True)
    ]


def choose_removed_pieces(row: BiokalmaRow, number: int) -> list[PersonKnowledgePiece]:
    """Return the first pieces of the minimum set to remove: `number` of them, or all."""
    return sorted(
        row.minimum_knowledge, key=lambda piece: digest_json(["removed", row.id, *get_piece_identity(piece)])
    )[:number]


def get_piece_identity(piece: PersonKnowledgePiece) -> tuple[str, str, str]:
    """Return a piece's identity, whatever statement it comes from."""
    return piece.qid, piece.pid, piece.value_qid or piece.value


def cluster_rows_by_pair_of_people(rows: Iterable[BiokalmaRow]) -> dict[str, str]:
    """Return row id → its cluster: rows about the same two people, named by the first of their ids."""
    first: dict[frozenset[str], str] = {}
    return {row.id: first.setdefault(frozenset(row.people), row.id) for row in sorted(rows, key=lambda row: row.id)}


def make_row_questions(
    row: BiokalmaRow, setting: str, graphs: Sequence[ItemGraph], forms: Iterable[BiokalmaQuestionForm]
) -> Iterator[BiokalmaQuestion]:
    """Yield a row's questions with these graphs."""
    for form in forms:
        yield attach_graphs_and_removed_pieces(
            BiokalmaQuestion(
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


def attach_graphs_and_removed_pieces(asked: BiokalmaQuestion, graphs: Sequence[ItemGraph]) -> BiokalmaQuestion:
    """Return a question with these graphs; the pieces of the minimum set that they lack become `removed`."""
    given = [piece for graph in graphs for piece in graph.pieces]
    there = set(map(get_piece_identity, given))
    return asked.replace(
        retrieved=[graph.qid for graph in graphs],
        retrieved_names=[graph.name for graph in graphs],
        given=given,
        removed=[piece for piece in asked.minimum if get_piece_identity(piece) not in there],
    )


PieceVerbaliser = Callable[[PersonKnowledgePiece, str], str]
GUESSES_PER_PERSON = 4
"""Pieces guessed per person: together about as many as a minimum set has."""


def make_oracle_answer_of_minimum_set(asked: BiokalmaQuestion, verbalise: PieceVerbaliser) -> str:
    """Return the minimum set, one sentence per piece: cited where the graph has it, else marked [NA]."""
    names = dict(zip(asked.people, asked.names, strict=True))
    given = set(map(get_piece_identity, asked.given))
    citations = (format_citation(piece) if get_piece_identity(piece) in given else "[NA]" for piece in asked.minimum)
    sentences = (verbalise(piece, names[piece.qid]) for piece in asked.minimum)
    return " ".join(map(_insert_citation, sentences, citations))


@dataclass
class FrequentPieceGuesser:
    """Guesses the most frequent pieces of minimum sets, counted once over all rows of a build."""

    rows: Sequence[BiokalmaRow]
    _counts: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Relation label (empty: all rows) → (PID, value) → number of rows."""
    _counts_by_row: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Row id → the same counts for that row alone."""
    _pieces: dict[tuple[str, str], PersonKnowledgePiece] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Count the pieces of all rows."""
        for row in self.rows:
            pieces = {(piece.pid, piece.value_qid or piece.value): piece for piece in row.minimum_knowledge}
            self._pieces = pieces | self._pieces
            self._counts_by_row[row.id] = Counter(pieces.keys())
            for group in (row.relation_label, ""):
                self._counts.setdefault(group, Counter()).update(pieces.keys())

    def make_answer(self, asked: BiokalmaQuestion, verbalise: PieceVerbaliser) -> str:
        """State and cite for both people the most frequent pieces of other rows with the relation, else of any."""
        own = self._counts_by_row[asked.item]
        found = (self._counts[asked.relation] - own) or (self._counts[""] - own)
        ranked = sorted(found, key=lambda each: (-found[each], each))[:GUESSES_PER_PERSON]
        people = zip(asked.people, asked.names, strict=True)
        guessed = (
            (self._pieces[each].model_copy(update={"qid": qid}), name) for qid, name in people for each in ranked
        )
        return " ".join(_insert_citation(verbalise(piece, name), format_citation(piece)) for piece, name in guessed)


def format_citation(piece: PersonKnowledgePiece) -> str:
    """Return `[Q1, place of birth: London]` (§3.3)."""
    return f"[{piece.qid}, {replace_square_brackets_if_unpaired(piece.property)}: {replace_square_brackets_if_unpaired(piece.value)}]"


def _insert_citation(sentence: str, citation: str) -> str:
    return f"{sentence[:-1]} {citation}{sentence[-1]}"


MAX_NAME_WORDS = 6
"""Maximum words of a name."""
_NAME_PUNCTUATION = "\"'“”‘’«»„()[]{}¿¡,;:!?…"
_POSSESSIVE = re.compile(r"(?<=[\w.])(?:['’]s|(?<=s)['’])$")


@dataclass(frozen=True, slots=True)
class PossibleNameSpan:
    """A run of words that may be a name."""

    start: int
    """Index of the first word."""
    stop: int
    spellings: tuple[str, ...]
    """As written, then without a sentence's additions: a possessive, a full stop."""


@dataclass(frozen=True, slots=True)
class NameInQuestionWithItems:
    """A name in a question, and the items of the class that bear it."""

    text: str
    candidates: tuple[ItemMatchedByName, ...]


def list_name_spans(question: str, min_words: int, function_words: Set[str]) -> list[PossibleNameSpan]:
    """Return the runs of at least `min_words` words that begin and end with a capitalised word.

    A function word alone is not a run. Words in scripts without case count as capitalised.
    """
    words = question.split()
    marked = [at for at, word in enumerate(words) if any(each.isalpha() and not each.islower() for each in word)]
    spans = []
    for start in marked:
        for stop in (end + 1 for end in marked if min_words <= end + 1 - start <= MAX_NAME_WORDS):
            name = " ".join(words[start:stop]).strip(_NAME_PUNCTUATION)
            bare = name.rstrip("." + _NAME_PUNCTUATION)
            spellings = tuple(filter(None, dict.fromkeys([name, bare, _POSSESSIVE.sub("", bare)])))
            if spellings and spellings[0].lower() not in function_words:
                spans.append(PossibleNameSpan(start, stop, spellings))
    return spans


def choose_longest_names(
    spans: Sequence[PossibleNameSpan], bearers: Mapping[str, Sequence[ItemMatchedByName]]
) -> list[NameInQuestionWithItems]:
    """Return the names among spans in text order; longer names take precedence and never overlap.

    `bearers`: spelling → items of the class that bear it.
    """
    taken: set[int] = set()
    chosen: list[tuple[int, NameInQuestionWithItems]] = []
    for span in sorted(spans, key=lambda span: (span.start - span.stop, span.start)):
        text = next((each for each in span.spellings if bearers.get(each)), None)
        if text is not None and taken.isdisjoint(range(span.start, span.stop)):
            taken.update(range(span.start, span.stop))
            chosen.append((span.start, NameInQuestionWithItems(text, tuple(bearers[text]))))
    return [name for _, name in sorted(chosen, key=lambda pair: pair[0])]


def choose_item_by_named_neighbours(
    question: str, name: NameInQuestionWithItems, facts: Mapping[str, Sequence[ItemFact]]
) -> Qid:
    """Return the bearer of a name that a question means (§3.2, exact match of neighbours)."""
    folded, own = fold_case_accents_and_punctuation(question), fold_case_accents_and_punctuation(name.text)

    def rank(candidate: ItemMatchedByName) -> tuple[int, bool, int]:
        labels = {
            fold_case_accents_and_punctuation(fact.value) for fact in facts[candidate.qid] if fact.qid and fact.value
        } - {own}
        matched = sum(contains_whole_words(folded, label) for label in labels)
        return -matched, candidate.matched_by != "label", get_wikidata_id_number(candidate.qid)

    return min(name.candidates, key=rank).qid
