"""Test the knowledge shown in each setting, the items a question names, and the built-in models' answers."""

import pytest
from support.rows.biographies import make_piece

from factmill.tasks.biokalma.core.evaluation.rows import BiokalmaQuestion
from factmill.tasks.biokalma.core.evaluation.shown_graphs import (
    QUESTION_FORMS,
    FrequentPieceGuesser,
    NameInQuestionWithItems,
    SettingGraphSelector,
    choose_item_by_named_neighbours,
    choose_longest_names,
    choose_removed_pieces,
    cluster_rows_by_pair_of_people,
    list_name_spans,
    make_oracle_answer_of_minimum_set,
    make_row_questions,
)
from factmill.tasks.biokalma.core.rows import BiokalmaRow
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.wikidata import ItemMatchedByName, Pid, Qid


def make_row(number: int, needed: int = 4) -> BiokalmaRow:
    """Return a row about two unique people, with ten pieces each."""
    people = [f"Q{number}0", f"Q{number}1"]
    graph = [make_piece(qid, f"P{at}", f"v{at}", f"Q{at}9") for qid in people for at in range(10)]
    texts = dict.fromkeys(("paragraph", "licence", "author", "scorer", "source_name"), "x")
    return BiokalmaRow(
        id=f"r{number}",
        people=people,
        names=[f"Ann {number}", f"Bob {number}"],
        relation="P26",
        relation_label="spouse",
        general_question="General?",
        specific_question="Specific?",
        minimum_knowledge=[graph[at * 5] for at in range(needed)],
        knowledge_graph=graph,
        text_source="fact",
        text_pages=[],
        source_row=number,
        asked_share=None,
        **texts,
    )


ROWS = [make_row(number) for number in range(1, 26)]
MEASURED = SettingGraphSelector(ROWS)


def ask(row: BiokalmaRow, setting: str, measured: SettingGraphSelector = MEASURED) -> BiokalmaQuestion:
    return next(make_row_questions(row, setting, measured.list_shown_graphs(row, setting), QUESTION_FORMS))


def tell(piece: PersonKnowledgePiece, name: str) -> str:
    return f"{name}: {piece.pid} {piece.value}."


def test_given_graph_setting_shows_complete_graph() -> None:
    graphs = MEASURED.list_shown_graphs(ROWS[0], "given_graph")
    asked = list(make_row_questions(ROWS[0], "given_graph", graphs, QUESTION_FORMS))
    assert [(each.id, each.question) for each in asked] == [
        ("given_graph/r1/general", "General?"),
        ("given_graph/r1/specific", "Specific?"),
    ]
    assert (asked[0].given, asked[0].removed) == (ROWS[0].knowledge_graph, [])
    assert (asked[0].retrieved, asked[0].retrieved_names) == (["Q10", "Q11"], ["Ann 1", "Bob 1"])


def test_each_removal_setting_removes_one_more_piece_of_minimum_set() -> None:
    before: list[PersonKnowledgePiece] = []
    for number in (1, 2, 3):
        asked = ask(ROWS[0], f"removed_{number}")
        assert len(asked.removed) == number and all(piece in asked.removed for piece in before)
        assert not set(asked.given) & set(asked.removed)
        assert len(asked.given) == 20 - number and asked.minimum == ROWS[0].minimum_knowledge
        before = asked.removed
    # the places differ between rows
    assert len({tuple(row.minimum_knowledge.index(each) for each in choose_removed_pieces(row, 1)) for row in ROWS}) > 1


def test_removal_is_limited_to_size_of_minimum_set() -> None:
    row = make_row(1, needed=2)
    assert len(ask(row, "removed_3", SettingGraphSelector([row])).removed) == 2


@pytest.mark.parametrize("share", [100, 80, 60, 40, 20])
def test_ablation_setting_shows_exact_share_of_correct_graphs(share: int) -> None:
    shown = [ask(row, f"ablated_{share}") for row in ROWS]
    right = [qid for row, asked in zip(ROWS, shown, strict=True) for qid in asked.retrieved if qid in row.people]
    assert len(right) == share * 50 // 100
    # each step removes the same pieces and more
    if share > 20:
        next_right = {qid for row in ROWS for qid in ask(row, f"ablated_{share - 20}").retrieved if qid in row.people}
        assert next_right < set(right)
    assert all(len(set(asked.retrieved)) == 2 for asked in shown)


def test_ablation_keeps_correct_graph_when_no_other_row_exists() -> None:
    assert ask(ROWS[0], "ablated_20", SettingGraphSelector(ROWS[:1])).retrieved == ["Q10", "Q11"]


def test_oracle_cites_shown_pieces_and_marks_removed_ones() -> None:
    row = make_row(1, needed=2)
    removed = choose_removed_pieces(row, 1)[0]
    said = make_oracle_answer_of_minimum_set(ask(row, "removed_1", SettingGraphSelector([row])), tell)
    cited = {row.minimum_knowledge[0]: "[Q10, P0: v0]", row.minimum_knowledge[1]: "[Q10, P5: v5]"} | {removed: "[NA]"}
    assert said == f"Ann 1: P0 v0 {cited[row.minimum_knowledge[0]]}. Ann 1: P5 v5 {cited[row.minimum_knowledge[1]]}."


def test_frequency_guesser_cites_what_other_rows_cite_and_ignores_own_row() -> None:
    own = make_row(1, needed=1)
    others = [make_row(number, needed=2) for number in (2, 3)]
    asked = ask(own, "given_graph", SettingGraphSelector([own, *others]))
    said = FrequentPieceGuesser([own, *others]).make_answer(asked, tell)
    assert said == (
        "Ann 1: P0 v0 [Q10, P0: v0]. Ann 1: P5 v5 [Q10, P5: v5]. Bob 1: P0 v0 [Q11, P0: v0]. Bob 1: P5 v5 [Q11, P5: v5]."
    )
    assert FrequentPieceGuesser([own]).make_answer(ask(own, "given_graph", SettingGraphSelector([own])), tell) == ""


FUNCTION_WORDS = frozenset({"what", "who", "and", "of"})


def bear(*qids: str, via: str = "label") -> list[ItemMatchedByName]:
    return [ItemMatchedByName(Qid(qid), "label" if via == "label" else "alias") for qid in qids]


def know(*labels: str) -> list[ItemFact]:
    return [ItemFact(Pid("P1"), "x", Qid(f"Q{at}"), label, None, None, None) for at, label in enumerate(labels, 1)]


@pytest.mark.parametrize(
    ("question", "bearers", "found"),
    [
        ("Who were Oscar and Richard Hertwig?", ["Richard Hertwig"], ["Richard Hertwig"]),
        ("What of Niels Bohr's teachers?", ["Niels Bohr"], ["Niels Bohr"]),
        ("What of Sammy Davis, Jr.'s grave?", ["Sammy Davis, Jr."], ["Sammy Davis, Jr."]),
        ("What of Johannes Brahms’ home?", ["Johannes Brahms"], ["Johannes Brahms"]),
        ("Who was (Leonardo da Vinci)?", ["Leonardo da Vinci"], ["Leonardo da Vinci"]),
        ("Who was al-Khwarizmi Muhammad?", ["al-Khwarizmi Muhammad"], ["al-Khwarizmi Muhammad"]),
        # the longest name counts, and nothing inside or across it
        ("Was it John Quincy Adams?", ["John Quincy", "Quincy Adams", "John Quincy Adams"], ["John Quincy Adams"]),
        ("Who was O'Neill?", ["O'Neill"], []),
        ("", [], []),
    ],
)
def test_names_are_found_in_questions(question: str, bearers: list[str], found: list[str]) -> None:
    spans = list_name_spans(question, 2, FUNCTION_WORDS)
    assert [name.text for name in choose_longest_names(spans, {each: bear("Q1") for each in bearers})] == found


def test_single_word_name_is_found_unless_it_is_function_word() -> None:
    spans = list_name_spans("What made Siemens?", 1, FUNCTION_WORDS)
    (name,) = choose_longest_names(spans, {"What": bear("Q1"), "Siemens": bear("Q2")})
    assert name.text == "Siemens"


@pytest.mark.parametrize(
    ("candidates", "facts", "meant"),
    [
        # the question names this item's neighbours
        (bear("Q1", "Q2"), {"Q1": know("Rome"), "Q2": know("Mary Shelley", "Rome")}, "Q2"),
        # his own name, which a namesake's son has too, is not a named neighbour
        (bear("Q1", "Q2"), {"Q1": know(), "Q2": know("Percy Shelley")}, "Q1"),
        # only whole words match
        (bear("Q1", "Q2"), {"Q1": know(), "Q2": know("Mary Shell")}, "Q1"),
        (bear("Q10", "Q9"), {"Q10": know(), "Q9": know()}, "Q9"),
        ([*bear("Q9"), *bear("Q1", via="alias")], {"Q9": know(), "Q1": know()}, "Q9"),
    ],
)
def test_ambiguous_name_resolves_to_item_with_named_neighbours(
    candidates: list[ItemMatchedByName], facts: dict[Qid, list[ItemFact]], meant: str
) -> None:
    name = NameInQuestionWithItems("Percy Shelley", tuple(candidates))
    assert choose_item_by_named_neighbours("What joined Percy Shelley and Mary Shelley?", name, facts) == meant


def test_rows_about_same_two_people_form_one_cluster() -> None:
    one, two, other = make_row(1), make_row(1), make_row(2)
    turned = two.model_copy(update={"id": "r0", "people": two.people[::-1]})
    assert cluster_rows_by_pair_of_people([one, turned, other]) == {"r0": "r0", "r1": "r0", "r2": "r2"}
