"""What the rules author answers to the four prompts of BioKaLMA, as a whole."""

from collections.abc import Iterable, Sequence

import pytest

from tasks.assets import load_prompt, load_properties
from tasks.biokalma.core.added_sentences import check_added
from tasks.biokalma.core.paragraph_replies import read_paragraph, read_question
from tasks.core.authoring.citations import format_knowledge, match_citations, parse_citations
from tasks.core.authoring.pieces import Piece
from tasks.core.calls.call import Call, Reply
from tasks.core.calls.knowledge import Candidate, Description, Neighbour, Pid, Qid
from tasks.core.prompts import fill_in
from tasks.rules.author import RulesAuthor
from tasks.rules.biographies.answers import ask_general_questions, ask_specific_questions, extend_paragraphs
from tasks.rules.tables import load_biography_sentences
from tasks.world.files.reading import load_world_data
from tasks.world.files.values import ItemValue

HUMAN, MALE, FEMALE = "Q5", "Q6581097", "Q6581072"
CLAIMS = {
    "Q1": ("Ada Lovelace", {"P31": HUMAN, "P21": FEMALE}),
    "Q2": ("Lord Byron", {"P31": HUMAN, "P21": MALE}),
    "Q3": ("London", {"P31": "Q515"}),
    "Q4": ("Mary Somerville", {"P31": HUMAN, "P21": FEMALE}),
    "Q15": ("Gerard 't Hooft", {"P21": MALE}),
    "Q6": ("毛泽东", {"P106": "Q82955"}),
    "Q7": ("University of Oxford", {"P31": "Q3918"}),
    "Q8": ("Balliol College", {"P31": "Q189004"}),
    "Q9": ("English", {"P31": "Q34770"}),
    "Q10": ('Maria "Nannerl" Mozart, the elder', {"P31": HUMAN}),
}
ALIASES = {"Augusta Ada King": "Q1", "Ada": "Q1"}
ADA = [
    Piece(
        qid="Q1", pid="P19", property="place of birth", value_qid="Q3", value="London", precision=None, statement=None
    ),
    Piece(qid="Q1", pid="P22", property="father", value_qid="Q2", value="Lord Byron", precision=None, statement=None),
    Piece(
        qid="Q1", pid="P569", property="date of birth", value_qid=None, value="1815-12-10", precision=11, statement=None
    ),
]
BYRON = [
    Piece(qid="Q2", pid="P106", property="occupation", value_qid="Q9", value="poet", precision=None, statement=None)
]
PARAGRAPH = "Ada Lovelace was born in London on 10 December 1815. She was the only child of the poet Lord Byron."


class SmallWikidata:
    """The items above, looked up as in a local graph."""

    def find(self, names: Iterable[str]) -> dict[str, list[Candidate]]:
        labels = {label: qid for qid, (label, _) in CLAIMS.items()}
        found = {name: [Candidate(Qid(labels[name]), "label")] for name in names if name in labels}
        return found | {name: [Candidate(Qid(ALIASES[name]), "alias")] for name in names if name in ALIASES}

    def describe(self, qids: Iterable[str]) -> dict[Qid, Description]:
        return {Qid(qid): Description(CLAIMS[qid][0], None, None, None) for qid in qids}

    def neighbours(self, qids: Iterable[str], pids: Sequence[str]) -> dict[Qid, list[Neighbour]]:
        return {
            Qid(qid): [Neighbour(Pid(pid), Qid(value), None) for pid, value in CLAIMS[qid][1].items() if pid in pids]
            for qid in qids
            if qid in CLAIMS
        }


def send(prompt: str, **variables: str) -> str:
    author = RulesAuthor("rules-1@test", SmallWikidata())
    replies: list[Reply] = []
    call = Call(author.identity, "chat", fill_in(load_prompt(f"biokalma/{prompt}"), **variables).parts())
    author.send([call], lambda _, reply: replies.append(reply))
    assert replies[0].status == "ok", replies[0].error
    return str(replies[0].body["texts"][0])


def test_annotation_is_read_back_with_every_piece_and_the_text_as_it_was() -> None:
    knowledge = f"{format_knowledge('Ada Lovelace', ADA)}\n{format_knowledge('Lord Byron', BYRON)}"
    annotated = read_paragraph(send("annotate", paragraph=PARAGRAPH, knowledge=knowledge))
    assert isinstance(annotated, str)
    read = parse_citations(annotated, {piece.property for piece in [*ADA, *BYRON]})
    cited = match_citations(read.citations, [*ADA, *BYRON])
    assert (read.text, cited.removed) == (PARAGRAPH, 0)
    assert set(cited.pieces) == {*ADA, *BYRON}


def test_somebody_who_is_related_to_himself_is_cited_once() -> None:
    knowledge = "\n".join([format_knowledge("Ada Lovelace", ADA)] * 2)
    assert send("annotate", paragraph="Ada Lovelace was born in London.", knowledge=knowledge) == (
        "Paragraph: Ada Lovelace was born in London [qid: Q1, name: Ada Lovelace, place of birth: London]."
    )


@pytest.mark.parametrize("piece", [*ADA, *BYRON])
def test_an_extension_keeps_the_text_and_says_the_piece(piece: Piece) -> None:
    name = CLAIMS[piece.qid][0]
    extended = read_paragraph(send("extend", paragraph="She liked horses.", piece=format_knowledge(name, [piece])))
    assert isinstance(extended, str)
    added = check_added("She liked horses.", extended, [piece], [], {"Q1": "Ada Lovelace", "Q2": "Lord Byron"})
    assert isinstance(added, str), added
    assert name in added


def extend(paragraph: str, piece: str) -> str:
    return extend_paragraphs([{"paragraph": paragraph, "piece": piece}], SmallWikidata())[0].removeprefix("Paragraph: ")


def test_a_property_that_was_told_before_is_told_with_also() -> None:
    first = extend("Ada Lovelace lived.", "{qid: Q1, name: Ada Lovelace, occupation: writer}")
    second = extend(first, "{qid: Q1, name: Ada Lovelace, occupation: mathematician}")
    assert " also " not in first
    assert " also " in second
    assert " also " not in extend(first, "{qid: Q2, name: Lord Byron, occupation: poet}")


def test_an_annotated_paragraph_stays_annotated_and_its_citations_are_not_read_as_text() -> None:
    paragraph = "Ada Lovelace [qid: Q1, name: Ada Lovelace, occupation: writer] lived."
    extended = extend(paragraph, "{qid: Q1, name: Ada Lovelace, occupation: mathematician}")
    assert extended.startswith(f"{paragraph} Ada Lovelace ")
    assert " also " not in extended


def test_the_gender_decides_the_word_for_kin() -> None:
    assert extend("X.", "{qid: Q2, name: Lord Byron, child: Ada Lovelace}").endswith(
        ("Lord Byron was the father of Ada Lovelace.", "Lord Byron had a child named Ada Lovelace.")
    )
    assert extend("X.", "{qid: Q1, name: Ada Lovelace, sibling: Allegra}") == "X. Ada Lovelace was a sister of Allegra."
    assert extend("X.", "{qid: Q6, name: 毛泽东, sibling: 毛泽民}") == "X. 毛泽东 was a sibling of 毛泽民."


def ask(*people: tuple[str, list[Piece]]) -> tuple[str, str]:
    told = {"paragraph": PARAGRAPH, "knowledge": "\n".join(format_knowledge(*each) for each in people)}
    return ask_general_questions([told], SmallWikidata())[0], ask_specific_questions([told], SmallWikidata())[0]


@pytest.mark.parametrize(
    ("people", "named"),
    [
        ([("Ada Lovelace", ADA), ("Lord Byron", BYRON)], ["Ada Lovelace", "Lord Byron"]),
        ([("Augusta Ada King", ADA), ("Lord Byron", BYRON)], ["Augusta Ada King", "Lord Byron"]),
        (
            [(CLAIMS[qid][0], [piece.model_copy(update={"qid": qid}) for piece in ADA[:1]]) for qid in ("Q7", "Q8")],
            ["the University of Oxford", "Balliol College"],
        ),
        ([("毛泽东", [BYRON[0].model_copy(update={"qid": "Q6"})]), ("Lord Byron", BYRON)], ["毛泽东", "Lord Byron"]),
    ],
)
def test_both_questions_name_the_two_and_no_value(people: list[tuple[str, list[Piece]]], named: list[str]) -> None:
    general, specific = ask(*people)
    assert general != specific
    for question in (general, specific):
        assert isinstance(read_question(question), str), question
        assert all(name in question for name in named), question
        assert "London" not in question


def test_answers_do_not_depend_on_the_batch() -> None:
    knowledge = f"{format_knowledge('Ada Lovelace', ADA)}\n{format_knowledge('Lord Byron', BYRON)}"
    asked = [{"paragraph": text, "knowledge": knowledge} for text in (PARAGRAPH, "Lord Byron knew Mary Somerville.")]
    together = ask_specific_questions(asked, SmallWikidata())
    assert together == [ask_specific_questions([each], SmallWikidata())[0] for each in asked]


def test_every_property_that_people_of_the_embedded_world_have_has_a_wording() -> None:
    left_out = {f"P{number}" for number in load_properties("pool_left_out")}
    world = load_world_data()
    dates = {"P569", "P570"}
    used = {
        statement.pid
        for item in world.items.values()
        if ItemValue(HUMAN) in (statement.value for statement in item.statements_of("P31"))
        for statement in item.statements
        if world.properties[statement.pid].data_type == "item" or statement.pid in dates
    }
    labels = {world.properties[pid].labels["en"] for pid in used - left_out}
    assert len(labels) > 20
    assert labels <= load_biography_sentences().keys()
