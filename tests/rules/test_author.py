"""The author of the embedded world, asked as a chat model is."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from tasks.assets import load_prompt
from tasks.core.authoring.granularity import ask_consistency, ask_levels, read_levels
from tasks.core.calls.call import Call, Reply
from tasks.core.calls.knowledge import Candidate, Description, Neighbour, Pid, Qid
from tasks.core.prompts import Ask
from tasks.rules.author import RulesAuthor
from tasks.text.ids import id_number


class SmallWikidata:
    """A handful of items, looked up as in a local graph; counts the look-ups."""

    def __init__(self, items: Mapping[str, tuple[str, str]], edges: Iterable[tuple[str, str, str]]) -> None:
        self.items = items
        self.edges = list(edges)
        self.lookups = 0

    def find(self, names: Iterable[str]) -> dict[str, list[Candidate]]:
        self.lookups += 1
        ordered = sorted(self.items, key=id_number)
        found = {name: [Candidate(Qid(q), "label") for q in ordered if self.items[q][0] == name] for name in names}
        return {name: candidates for name, candidates in found.items() if candidates}

    def describe(self, qids: Iterable[str]) -> dict[Qid, Description]:
        self.lookups += 1
        return {Qid(q): Description(*self.items[q], None, None) for q in qids if q in self.items}

    def neighbours(self, qids: Iterable[str], pids: Sequence[str]) -> dict[Qid, list[Neighbour]]:
        self.lookups += 1
        wanted = set(qids)
        found: dict[Qid, list[Neighbour]] = {}
        for subject, pid, value in self.edges:
            if subject in wanted and pid in pids:
                label = self.items[value][0] if value in self.items else None
                found.setdefault(Qid(subject), []).append(Neighbour(Pid(pid), Qid(value), label))
        return found


ITEMS = {
    "Q1": ("Elmham", "town"),
    "Q2": ("Elm County", "county in Ohio"),
    "Q3": ("Ohio", "state of the United States"),
    "Q4": ("United States of America", "country in North America"),
    "Q5": ("Elmham", "village in Bavaria, Germany"),
    "Q6": ("Prussian Elm", "city"),
    "Q7": ("Kingdom of Prussia", "former state"),
    "Q8": ("Elm Records", "record label"),
    "Q9": ("Ada Elm", "painter"),
    "Q10": ("Sweden", "country in Northern Europe"),
    "Q11": ("Loop", "town"),
    "Q12": ("Elmland", "kingdom"),
    "Q13": ("Africa", "continent"),
    "Q14": ("Oak Records", "record label"),
    "Q15": ("Elm City", "county seat of Elm County, United States"),
    "Q16": ("Elm Academy", "drama school"),
    "Q17": ("Nowhere", ""),
}
EDGES = [
    ("Q1", "P131", "Q2"),
    ("Q2", "P131", "Q3"),
    ("Q3", "P17", "Q4"),
    ("Q6", "P131", "Q7"),
    ("Q8", "P17", "Q4"),
    ("Q9", "P27", "Q10"),
    ("Q11", "P131", "Q11"),
    ("Q12", "P30", "Q13"),
    ("Q14", "P159", "Q1"),
    ("Q15", "P131", "Q2"),
    ("Q16", "P131", "Q2"),
    ("Q17", "P131", "Q3"),
]
LEVELS = load_prompt("granola/granular_answers")
CONSISTENCY = load_prompt("granola/description_consistency")


def send(asks: Sequence[Ask], wikidata: SmallWikidata | None = None) -> list[Reply]:
    author = RulesAuthor("rules-1@test", wikidata or SmallWikidata(ITEMS, EDGES))
    calls = [Call(author.identity, "chat", {**ask.parts(), "number": number}) for number, ask in enumerate(asks)]
    replies: dict[str, Reply] = {}
    author.send(calls, lambda call, reply: replies.__setitem__(call.key, reply))
    return [replies[call.key] for call in calls]


def levels_of(question: str, answer: str, description: str) -> str:
    body = send([ask_levels(LEVELS, question, answer, "", description)])[0].body
    read = read_levels(body["texts"][0], answer)
    assert isinstance(read, tuple), read
    return "; ".join(read)


@pytest.mark.parametrize(
    ("question", "answer", "description", "expected"),
    [
        ("Where was X born?", "Fürth", "city in Bavaria, Germany", "Fürth; Bavaria; Germany"),
        ("Where was X born?", "Elmham", "town", "Elmham; Elm County, Ohio; Ohio; United States"),
        ("Where was X born?", "Elmham", "village in Bavaria, Germany", "Elmham; Bavaria; Germany"),
        (
            "Where was X born?",
            "Elm City",
            "county seat of Elm County, United States",
            "Elm City; Elm County, Ohio; Ohio; United States",
        ),
        ("Where was X born?", "Prussian Elm", "city", "Prussian Elm"),
        ("Where was X born?", "Loop", "town", "Loop"),
        ("Where was X born?", "Elmland", "kingdom", "Elmland; Africa"),
        ("Where was X born?", "Nowhere", "", "Nowhere; Ohio; United States"),
        ("Where was X born?", "Unheard-of", "town", "Unheard-of"),
        ("Where was X born?", "Ada Elm", "painter", "Ada Elm"),
        (
            "Where was X educated?",
            "Elm Academy",
            "drama school",
            "Elm Academy; a drama school in Elm County, Ohio; a drama school in Ohio; a drama school in the United States",
        ),
        ("Where is X located?", "Elm Museum", "art museum in Turin, Italy", "Elm Museum; Turin; Italy"),
        ("Who is X married to?", "Ada Elm", "painter", "Ada Elm; a Swedish painter; a Swedish artist; an artist"),
        ("Who founded X?", "Elm Records", "record label", "Elm Records; an American record label"),
        (
            "What music label is X represented by?",
            "Oak Records",
            "record label",
            "Oak Records; a record label in Elmham, Elm County; a record label in Elm County; a record label in Ohio; a record label in the United States",
        ),
        ("Who owns X?", "Ohio", "state of the United States", "Ohio"),
        (
            "Who is the author of X?",
            "Emma Elm",
            "English novelist",
            "Emma Elm; an English novelist; an English writer; a writer",
        ),
        ("Who performed X?", "Q", "", "Q"),
    ],
)
def test_levels_come_from_the_description_and_the_graph(
    question: str, answer: str, description: str, expected: str
) -> None:
    assert levels_of(question, answer, description) == expected


def test_a_batch_costs_a_few_lookups_whatever_its_size() -> None:
    wikidata = SmallWikidata(ITEMS, EDGES)
    asks = [ask_levels(LEVELS, "Where was X born?", ITEMS[q][0], "", ITEMS[q][1]) for q in ITEMS] * 5
    replies = send(asks, wikidata)
    assert {reply.status for reply in replies} == {"ok"}
    assert wikidata.lookups <= 12


def test_every_sample_asked_for_is_given() -> None:
    ask = ask_consistency(
        CONSISTENCY, "Who is the author of Emma?", "Jane Austen", "Emma", "female given name", samples=8
    )
    body = send([ask])[0].body
    assert body == {"texts": ["No"] * 8, "finish": ["stop"] * 8, "fingerprint": "rules-1"}


def test_prompts_of_both_kinds_are_answered_in_one_batch() -> None:
    asks = [
        ask_consistency(CONSISTENCY, "Where was X born?", "Fürth", "X", "English poet", samples=1),
        ask_levels(LEVELS, "Where was X born?", "Fürth", "", "city in Bavaria, Germany"),
    ]
    assert [reply.body["texts"][0][:3] for reply in send(asks)] == ["Yes", "1::"]


def test_a_prompt_or_operation_without_rules_is_refused_by_name() -> None:
    author = RulesAuthor("rules-1@test", SmallWikidata({}, []))
    replies: list[Reply] = []
    calls = [
        Call(author.identity, "chat", {"prompt": "slaq/answer", "variables": {}}),
        Call(author.identity, "embed", {}),
    ]
    author.send(calls, lambda _, reply: replies.append(reply))
    assert [reply.status for reply in replies] == ["failed", "failed"]
    assert "slaq/answer" in str(replies[0].error)
    assert "embed" in str(replies[1].error)
