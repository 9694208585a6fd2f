"""Annotation, evolution and questions over the real steps and a chat server: every misbehaviour of an author, one by one."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from biographies import counted_pair, evolving_pair, make_piece
from loopback import Loopback, Seen
from scripted_author import REFUSAL, Asked, Manners, Said, ScriptedAuthor, always, extend, once_corrected
from steps import Left, run_step

from tasks.clients.chat import Chat
from tasks.clients.perplexity import Scorer
from tasks.core.biokalma_rows import EvolvingPair, Piece
from tasks.core.calls import Call, Deliver, Reply
from tasks.core.perplexity_calls import Unweighable, Weighed, tell_outcome
from tasks.core.rows import Row
from tasks.evolve import ANNOTATE, EXTEND, GENERAL, SPECIFIC, annotate_paragraph, ask_questions, evolve_paragraph
from tasks.settings import Limits, Model

LIMITS = Limits(parallel=4, timeout_s=5, attempts=2, backoff_s=0.01)
WRITER = make_piece("Q1", "P106", "writer", "Q36180")
LONDON = make_piece("Q1", "P19", "London", "Q84")
BORN = make_piece("Q1", "P569", "1815-12-10", precision=11)
MEDAL = make_piece("Q1", "P166", "Copley Medal", "Q7")
POET = make_piece("Q2", "P106", "poet", "Q49757")
DOVER = make_piece("Q2", "P20", "Dover", "Q179224")
DIED = make_piece("Q2", "P570", "44 BC", precision=9)
ADA, BOB = [WRITER, LONDON, BORN, MEDAL], [POET, DOVER, DIED]
BOTH = [WRITER, POET]
PERPLEXITIES = {"writer": 9.0, "London": 3.0, "1815": 4.0, "Medal": 5.0, "poet": 6.0, "Dover": 7.0, "44 BC": 8.0}
"""Value → how perplexing the text is that ends with it."""


class Weigher:
    """A language model that goes by the end of a text: value → perplexity, or its reply."""

    identity = "weigher"
    is_outside = True

    def __init__(self, weights: Mapping[str, float | Reply]) -> None:
        self.weights = {**PERPLEXITIES, **weights}
        self.texts: list[str] = []

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        for call in calls:
            text = str(call.parts["text"])
            self.texts.append(text)
            (found,) = [weight for value, weight in self.weights.items() if value in text[-25:]]
            deliver(call, found if isinstance(found, Reply) else tell_outcome(Weighed(-7 * math.log(found), 7)))


IMPOSSIBLE = tell_outcome(Weighed(-math.inf, 3))
UNWEIGHABLE = tell_outcome(Unweighable("too_long", "2000 tokens; at most 1024 are read"))
DOWN = Reply(None, "failed", "http_503: overloaded", transient=True)


@pytest.fixture
def author() -> Iterator[ScriptedAuthor]:
    author = ScriptedAuthor({})
    yield author
    author.close()


Run = Callable[..., Left]


@pytest.fixture
def run(author: ScriptedAuthor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a step with the author; another client each time, as each build has."""
    model = Model(kind="openai", name="tester", url=author.url, limits=LIMITS)

    def run(step: Any, rows: Sequence[Row], scorer: Any = None, **params: Any) -> Left:
        chat = Chat(author.url, model, lambda: "key", "factmill tests")
        weigher = scorer or Weigher({})
        services = SimpleNamespace(model=lambda _role: (chat, model), perplexity=lambda: weigher)
        return run_step(step, rows, services, tmp_path / "run", monkeypatch, **{"rounds": 2, "alpha": 0.5, **params})

    return run


def evolving(name: str, known: Sequence[Piece] = BOTH, **changed: Any) -> EvolvingPair:
    """Return a pair whose text begins with a word that sets the author's manners."""
    return evolving_pair(name, f"{name} met Bob.", known, ADA, BOB, **changed)


def chosen(left: Left, row_id: str) -> list[str]:
    """Return the values that rounds 2 and on brought in."""
    return [piece["value"] for each in left.rows[row_id]["rounds"][1:] for piece in each["chosen"]]


def values(candidates: Sequence[Any]) -> list[str]:
    return [each["value"] for each in candidates]


TEXT = "{} writer, born in London on 10 December 1815, met Bob."
CITED = "{} writer [qid: Q1, name: Ada B, P106: writer], born in London {} on 10 December 1815, met Bob."
WRITES = "[qid: Q1, name: Ada B, P106: writer]"
ANNOTATIONS: dict[str, tuple[str, list[str], int]] = {
    "one": (f"writer {WRITES}, born in London on 10 December 1815, met Bob.", ["writer"], 0),
    "all": (
        f"writer{WRITES}, born in London on 10 December 1815 [qid: Q1, name: Ada, P19: London, P569: 10 December 1815], met "
        "Bob [qid: Q2, P106: poet].",
        ["writer", "London", "1815-12-10", "poet"],
        0,
    ),
    "twice": (f"writer {WRITES}, born in London on 10 December 1815 {WRITES}, met Bob.", ["writer"], 0),
    "more": (
        f"writer {WRITES}[qid: Q1, name: Ada, P106: painter], born in London [qid: Q3, name: Ada, P106: writer] on 10 "
        "December 1815 [qid: Q2, name: Bob, P19: London, P106: poet], met Bob.",
        ["writer", "poet"],
        3,
    ),
    "broken": (
        f"writer {WRITES}, born in London [qid: Q1, P999: London] on 10 December 1815 [name: Ada, P106: writer], met "
        "Bob [qid: Q2, name: Bob]. [qid: Q1, P106: writer",
        ["writer"],
        3,
    ),
}  # fmt: skip
"""Name → how the author marks the text, the pieces that it cites, and how many citations are removed."""


def test_citations_that_are_in_no_pool_are_removed_and_counted(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {name: always(f"Paragraph: {name} {marked}") for name, (marked, _, _) in ANNOTATIONS.items()}
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in ANNOTATIONS])
    assert left.rejects == {}
    for name, (marked, cited, removed) in ANNOTATIONS.items():
        row = left.rows[name]
        (first,) = row["rounds"]
        assert (values(row["minimum_knowledge"]), first["removed_citations"]) == (cited, removed), name
        assert (first["number"], first["chosen"], first["candidates"]) == (1, row["minimum_knowledge"], [])
        assert (first["sentence"], row["paragraph_now"]) == (f"{name} {marked}", TEXT.format(name))
        assert author.asked[ANNOTATE, name] == 1


def test_a_text_without_a_citation_of_the_pool_goes_no_further(author: ScriptedAuthor, run: Run) -> None:
    marked = {
        "bare": "writer, born in London on 10 December 1815, met Bob.",
        "missing": "writer, born in London on 10 December 1815, met Bob [NA].",
        "invented": "writer [qid: Q1, P106: painter], born in London [qid: Q9, P19: London] on 10 December 1815, met Bob.",
    }
    author.manners = {name: always(f"Paragraph: {name} {text}") for name, text in marked.items()}
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in marked])
    assert left.rejects == {
        name: ("no_citation", f"{removed} citations, none of them in a pool: {name} {marked[name]}")
        for name, removed in (("bare", 0), ("missing", 0), ("invented", 2))
    }
    assert left.receipt.unsettled == 0


def test_the_text_itself_must_stay_as_it_is_and_the_author_is_told_once(author: ScriptedAuthor, run: Run) -> None:
    good, shorter = f"writer {WRITES}, born in London on 10 December 1815, met Bob.", f"writer {WRITES} met Bob."
    author.manners = {
        "heeds": lambda asked: f"Paragraph: heeds {good if asked.correction else shorter}",
        "shortens": always(f"Paragraph: shortens {shorter}"),
        "corrects": always(f"Paragraph: corrects {good.replace('1815', '1816')}"),
        "goes-on": always(f"Paragraph: goes-on {good} They married."),
        "chats": always("Gladly!"),
        "refuses": always(REFUSAL),
        "fails": always(500),
        "silent": always(""),
    }
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in author.manners])
    assert left.rows.keys() == {"heeds"}
    reasons = {name: (reason, detail.partition(":")[0]) for name, (reason, detail) in left.rejects.items()}
    form = '0 lines of the form "Paragraph'
    assert reasons == {
        **dict.fromkeys(("shortens", "corrects", "goes-on"), ("reply_not_in_format", "text_changed")),
        **dict.fromkeys(("chats", "refuses"), ("reply_not_in_format", form)),
        "fails": ("model_failed", "http_500"),
        "silent": ("model_failed", "empty_reply"),
    }
    assert {author.asked[ANNOTATE, name] for name in ("heeds", "shortens", "corrects", "goes-on", "chats")} == {2}
    assert sum("text_changed" in correction for correction in author.corrections) == 4
    assert "They married." in left.rejects["goes-on"][1], "what was said is kept"
    assert left.receipt.unsettled == 2


def test_a_later_run_asks_again_for_what_failed_in_passing(author: ScriptedAuthor, run: Run) -> None:
    rows = [counted_pair("Ada", TEXT.format("Ada"), ADA, BOB)]
    author.manners = {"Ada": always(503)}
    assert run(annotate_paragraph, rows).receipt.unsettled == 1
    author.manners = {"Ada": always(f"Paragraph: Ada {ANNOTATIONS['one'][0]}")}
    assert run(annotate_paragraph, rows).rows.keys() == {"Ada"}


def test_the_best_piece_becomes_the_next_sentence_and_all_scores_are_kept(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    scorer = Weigher({})
    left = run(evolve_paragraph, [evolving("Ada", counts={"P20": 2})], scorer, rounds=3)
    row = left.rows["Ada"]
    # all but P20 are in one graph of two, so coherence decides: the least perplexing first
    assert chosen(left, "Ada") == ["London", "1815-12-10"]
    first, second = row["rounds"][1:]
    assert values(first["candidates"]) == ["London", "1815-12-10", "Copley Medal", "44 BC", "Dover"]
    assert values(second["candidates"]) == ["1815-12-10", "Copley Medal", "44 BC", "Dover"]
    best, last = first["candidates"][0], first["candidates"][-1]
    assert best["perplexity"] == pytest.approx(3.0)
    assert (best["specificity"], last["specificity"]) == (pytest.approx(math.log(2)), 0)
    assert math.fsum(each["coherence"] for each in first["candidates"]) == pytest.approx(1)
    assert all(
        each["score"] == pytest.approx((each["specificity"] + each["coherence"]) / 2) for each in first["candidates"]
    )
    assert (first["number"], first["sentence"]) == (2, "It is said that London came into it.")
    assert row["paragraph_now"] == (
        "Ada met Bob. It is said that London came into it. It is said that 1815-12-10 came into it."
    )
    assert values(row["minimum_knowledge"]) == ["writer", "poet", "London", "1815-12-10"]
    assert [(each["id"], each["row_id"], each["number"]) for each in left.extras] == [
        (f"Ada_{number}", "Ada", number) for number in (1, 2, 3)
    ]
    assert scorer.texts[0].startswith("Ada met Bob. ")
    assert all(text.startswith(row["paragraph_now"].rpartition(" It is said")[0]) for text in scorer.texts[5:])
    assert "Ada met Bob. Person Q2's place of death is Dover." in scorer.texts, "as the person is named"


@pytest.mark.parametrize("rounds", [1, 2, 4, 6])
def test_there_are_as_many_rounds_as_were_asked_for(author: ScriptedAuthor, run: Run, rounds: int) -> None:
    author.manners = {"Ada": extend}
    left = run(evolve_paragraph, [evolving("Ada")], rounds=rounds)
    assert [each["number"] for each in left.rows["Ada"]["rounds"]] == list(range(1, rounds + 1))
    assert author.asked[EXTEND, "Ada"] == rounds - 1


def test_alpha_weighs_specificity_against_coherence(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    counts = {"P19": 30, "P569": 40, "P166": 2, "P106": 40, "P20": 30, "P570": 9}
    rows = [evolving("Ada", counts=counts, graphs=40)]
    orders = {}
    for alpha in (0.0, 0.02, 1.0):
        left = run(evolve_paragraph, rows, alpha=alpha)
        orders[alpha] = values(left.rows["Ada"]["rounds"][1]["candidates"])
        assert chosen(left, "Ada") == orders[alpha][:1]
    assert orders[0.0] == ["London", "1815-12-10", "Copley Medal", "Dover", "44 BC"], "by perplexity alone"
    # equal counts go by the number of the person
    assert orders[1.0] == ["Copley Medal", "44 BC", "London", "Dover", "1815-12-10"], "by rarity alone"
    # 0.02 · 2.996 + 0.98 · 0.197 = 0.253; 0.02 · 0.288 + 0.98 · 0.226 = 0.227; 0.02 · 1.492 + 0.98 · 0.183 = 0.209; 0.203; 0.188
    assert orders[0.02] == ["Copley Medal", "London", "44 BC", "1815-12-10", "Dover"]


def two_more(asked: Asked) -> Said:
    return f"{extend(asked)} It is also said that {asked.value} went."


def add(sentence: str) -> Manners:
    return lambda asked: f"Paragraph: {asked.paragraph} {sentence}"


WRONG: dict[str, tuple[Manners, str]] = {
    "ignores": (add("They were happy."), "value_missing"),
    "nears": (lambda asked: f"Paragraph: {asked.paragraph} It was {asked.value}ish.", "value_missing"),
    "repeats": (lambda asked: f"Paragraph: {asked.paragraph}", "nothing_added"),
    "repeats-itself": (lambda asked: f"Paragraph: {asked.paragraph} {asked.paragraph}", "repeated"),
    "changes": (lambda asked: str(extend(asked)).replace("met Bob", "met Rob"), "text_changed"),
    "drops": (lambda asked: f"Paragraph: It is said that {asked.value} came into it.", "text_changed"),
    "puts-before": (lambda asked: f"Paragraph: There was {asked.value}. {asked.paragraph}", "text_changed"),
    "adds-two": (two_more, "several_sentences"),
    "breaks-off": (lambda asked: str(extend(asked)).removesuffix(" came into it."), "unfinished"),
    "chats": (always("What a nice text."), '0 lines of the form "Paragraph'),
    "refuses": (always(REFUSAL), '0 lines of the form "Paragraph'),
}
"""Name → manners of an author that never does as it is told, and the code of what is wrong."""


def test_an_author_that_brings_no_piece_in_is_asked_for_three_twice_each(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {name: manners for name, (manners, _) in WRONG.items()}
    left = run(evolve_paragraph, [evolving(name) for name in WRONG])
    assert (left.rows, left.receipt.unsettled) == ({}, 0)
    for name, (_, code) in WRONG.items():
        reason, detail = left.rejects[name]
        assert reason == "no_piece_brought_in"
        for tried in ("Q1 P19 London", "Q1 P569 1815-12-10", "Q1 P166 Copley Medal"):
            assert f"{tried}: {code}" in detail, name
        assert detail.startswith("round 2: Q1 P19 London: "), name
        assert author.asked[EXTEND, name] == 6
    said = [code for _, code in WRONG.values()]
    for code in set(said):
        assert sum(code in correction for correction in author.corrections) == 3 * said.count(code), code
    assert {(each["row_id"], each["number"]) for each in left.extras} == {(name, 1) for name in WRONG}


def test_an_author_that_heeds_the_correction_keeps_its_piece(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {name: once_corrected(manners, extend) for name, (manners, _) in WRONG.items()}
    left = run(evolve_paragraph, [evolving(name) for name in WRONG])
    assert left.rejects == {}
    for name in WRONG:
        assert (chosen(left, name), left.rows[name]["rounds"][1]["refused"]) == (["London"], [])
        assert left.rows[name]["paragraph_now"] == f"{name} met Bob. It is said that London came into it."
        assert author.asked[EXTEND, name] == 2


def test_a_piece_that_is_not_brought_in_gives_way_to_the_next_best(author: ScriptedAuthor, run: Run) -> None:
    def will_not_say(*refused: str) -> Manners:
        return lambda asked: REFUSAL if asked.value in refused else extend(asked)

    author.manners = {"one": will_not_say("London"), "two": will_not_say("London", "1815-12-10")}
    left = run(evolve_paragraph, [evolving("one"), evolving("two")], rounds=3)
    assert left.rejects == {}
    # what was refused in a round is a candidate in the next
    assert (chosen(left, "one"), chosen(left, "two")) == (["1815-12-10", "Copley Medal"], ["Copley Medal", "Dover"])
    told = [[line.partition(": ")[0] for line in each["refused"]] for each in left.rows["two"]["rounds"]]
    assert told == [[], ["Q1 P19 London", "Q1 P569 1815-12-10"], ["Q1 P19 London", "Q1 P569 1815-12-10"]]
    assert all(REFUSAL in line for each in left.rows["two"]["rounds"] for line in each["refused"])
    assert values(left.rows["two"]["rounds"][2]["candidates"])[:2] == ["London", "1815-12-10"]


def test_an_author_that_cannot_be_asked_costs_the_pair_until_it_can(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {
        "down": always(500),
        "silent": always(""),
        "down-when-told": once_corrected(add("They were happy."), always(503)),
        "well": extend,
    }
    rows = [evolving(name) for name in author.manners]
    left = run(evolve_paragraph, rows)
    assert {name: (reason, detail.partition(":")[0]) for name, (reason, detail) in left.rejects.items()} == {
        "down": ("model_failed", "http_500"),
        "silent": ("model_failed", "empty_reply"),
        "down-when-told": ("model_failed", "http_503"),
    }
    assert (left.rows.keys(), left.receipt.unsettled) == ({"well"}, 3)

    before = author.asked[EXTEND, "well"]
    author.manners = dict.fromkeys(author.manners, extend)
    left = run(evolve_paragraph, rows)
    assert (left.rejects, left.receipt.unsettled, author.asked[EXTEND, "well"]) == ({}, 0, before)


def test_the_last_round_is_left_to_a_person_of_whom_nothing_was_told(author: ScriptedAuthor, run: Run) -> None:
    author.manners = dict.fromkeys(("Ada", "Bob", "both"), extend)
    rows = [
        evolving("Ada", [WRITER], counts={"P106": 4, "P20": 4, "P570": 4}, graphs=4),
        evolving("Bob", [POET], counts=dict.fromkeys(("P106", "P19", "P569", "P166"), 4), graphs=4),
        evolving("both"),
    ]
    left = run(evolve_paragraph, rows, rounds=3)
    assert chosen(left, "Ada") == ["London", "poet"]
    assert values(left.rows["Ada"]["rounds"][2]["candidates"]) == ["poet", "Dover", "44 BC"]
    assert chosen(left, "Bob") == ["Dover", "London"]
    assert {each["qid"] for each in left.rows["Bob"]["rounds"][2]["candidates"]} == {"Q1"}
    assert {each["qid"] for each in left.rows["both"]["rounds"][2]["candidates"]} == {"Q1", "Q2"}
    for row in left.rows.values():
        assert {piece["qid"] for piece in row["minimum_knowledge"]} == {"Q1", "Q2"}


def test_with_no_round_but_the_first_both_people_must_be_in_it(author: ScriptedAuthor, run: Run) -> None:
    left = run(evolve_paragraph, [evolving("Ada", [WRITER]), evolving("both")], rounds=1)
    assert left.rejects == {"Ada": ("person_missing", "no piece of knowledge is about Q2")}
    assert left.rows.keys() == {"both"}


def test_a_pool_that_is_used_up_ends_the_pair(author: ScriptedAuthor, run: Run) -> None:
    author.manners = dict.fromkeys(("small", "single"), extend)
    rows = [
        evolving_pair("small", "small met Bob.", [WRITER], [WRITER], [POET, DOVER]),
        evolving_pair("single", "single met Bob.", [WRITER], [WRITER], [POET]),
    ]
    left = run(evolve_paragraph, rows, rounds=4)
    assert left.rejects == {
        "small": ("pool_exhausted", "round 4: no piece is left to add"),
        "single": ("pool_exhausted", "round 3: no piece is left to add"),
    }
    assert Counter(each["row_id"] for each in left.extras) == {"small": 3, "single": 2}
    assert run(evolve_paragraph, rows[:1], rounds=3).rows.keys() == {"small"}


def test_fewer_pieces_than_three_are_tried_where_there_are_no_more(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"small": always(REFUSAL)}
    left = run(evolve_paragraph, [evolving_pair("small", "small met Bob.", [WRITER], [WRITER], [POET, DOVER])])
    assert left.rejects["small"][0] == "no_piece_brought_in"
    assert author.asked[EXTEND, "small"] == 4


def test_texts_that_cannot_be_weighed_or_are_held_impossible_are_the_least_coherent(
    author: ScriptedAuthor, run: Run
) -> None:
    author.manners = {"Ada": extend}
    weights = {"London": UNWEIGHABLE, "1815": IMPOSSIBLE, "Medal": 1.0, "Dover": 1e300}
    left = run(evolve_paragraph, [evolving("Ada")], Weigher(weights), alpha=0)
    candidates = left.rows["Ada"]["rounds"][1]["candidates"]
    assert candidates[0]["value"] == "Copley Medal"
    perplexities = {each["value"]: each["perplexity"] for each in candidates}
    assert (perplexities["London"], perplexities["1815-12-10"]) == (None, None)
    shares = {each["value"]: each["coherence"] for each in candidates}
    assert shares["London"] == shares["1815-12-10"] == pytest.approx(min(shares.values()))
    assert math.fsum(shares.values()) == pytest.approx(1)


def test_equal_perplexities_leave_the_choice_to_ids(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    for alike in (5.0, IMPOSSIBLE):
        left = run(evolve_paragraph, [evolving("Ada")], Weigher(dict.fromkeys(PERPLEXITIES, alike)), alpha=0)
        candidates = left.rows["Ada"]["rounds"][1]["candidates"]
        assert values(candidates) == ["London", "Copley Medal", "1815-12-10", "Dover", "44 BC"]
        assert [each["coherence"] for each in candidates] == [pytest.approx(1 / 5)] * 5


def test_a_pair_of_which_no_text_can_be_weighed_goes_no_further(author: ScriptedAuthor, run: Run) -> None:
    left = run(evolve_paragraph, [evolving("Ada")], Weigher(dict.fromkeys(PERPLEXITIES, UNWEIGHABLE)))
    assert left.rejects == {"Ada": ("perplexity_failed", "unweighable: too_long: 2000 tokens; at most 1024 are read")}
    assert (left.receipt.unsettled, author.asked) == (0, Counter())


def test_one_text_that_fails_in_passing_leaves_the_pair_for_a_later_run(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    left = run(evolve_paragraph, [evolving("Ada")], Weigher({"Dover": DOWN}))
    assert left.rejects == {"Ada": ("perplexity_failed", "http_503: overloaded")}
    assert (left.receipt.unsettled, author.asked) == (1, Counter()), "nothing is chosen with a score missing"

    scorer = Weigher({})
    left = run(evolve_paragraph, [evolving("Ada")], scorer)
    assert (chosen(left, "Ada"), [text[-6:] for text in scorer.texts]) == (["London"], ["Dover."])


def test_a_server_that_weighs_texts_may_be_down_for_one_pair(author: ScriptedAuthor, run: Run) -> None:
    author.manners = dict.fromkeys(("Ada", "Eve"), extend)
    web = Loopback()

    def weigh(seen: Seen) -> dict[str, Any]:
        text = seen.json()["prompt"]
        if text.startswith("Eve"):
            return {"status": 503, "text": "overloaded"}
        logs = {"token_logprobs": [None, -len(text) / 50, -1.0], "text_offset": [0, 3, len(text)]}
        choice = {"index": 0, "text": f"{text} x", "logprobs": logs}
        return {"json": {"choices": [choice], "usage": {"prompt_tokens": 2, "completion_tokens": 1}}}

    web.handle = weigh
    model = Model(kind="openai", name="lm", url=web.url, limits=LIMITS.model_copy(update={"parallel": 8}))
    try:
        scorer = Scorer(f"{web.url}#lm", model, lambda: "key", "factmill tests")
        left = run(evolve_paragraph, [evolving("Ada"), evolving("Eve")], scorer, alpha=0)
    finally:
        web.close()
    reason, detail = left.rejects["Eve"]
    assert (reason, detail.partition(":")[0], left.receipt.unsettled) == ("perplexity_failed", "http_503", 1)
    # one token of which the logarithm is minus the length of the text: the shortest text is the least perplexing
    candidates = left.rows["Ada"]["rounds"][1]["candidates"]
    assert [each["perplexity"] for each in candidates] == sorted(each["perplexity"] for each in candidates)


QUESTIONS: dict[str, tuple[Said, Said, str, str]] = {
    "well": ("Question: Who was Ada?", "Question: When was Ada born, and where?", "", ""),
    "same": ("Question: Who was Ada?", "Question: who was  ADA?", "same_questions", "Who was Ada?"),
    "tells": ("Question: Tell me about Ada.", "Question: Who was Ada?", "reply_not_in_format", "what follows"),
    "tells-too": ("Question: Who was Ada?", "Question: Tell me about Ada.", "reply_not_in_format", "what follows"),
    "empty": ("Question: ?", "Question: Who was Ada?", "reply_not_in_format", "nothing stands behind"),
    "chats": ("Who was Ada?", "Question: Who was Ada?", "reply_not_in_format", "0 lines"),
    "refuses": ("Question: Who was Ada?", REFUSAL, "reply_not_in_format", "0 lines"),
    "fails": ("Question: Who was Ada?", 500, "model_failed", "http_500"),
}
"""Name → general and specific question, and what becomes of them."""


def test_two_different_questions_are_published_and_all_else_says_why(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {
        f"{prompt_id} {name}": always(said)
        for name, both in QUESTIONS.items()
        for prompt_id, said in zip((GENERAL, SPECIFIC), both[:2], strict=True)
    }
    left = run(ask_questions, [evolving(name) for name in QUESTIONS])
    assert left.rows.keys() == {"well"}
    for name, (_, _, reason, detail) in QUESTIONS.items():
        if reason:
            assert left.rejects[name][0] == reason
            assert left.rejects[name][1].startswith(detail), name
    assert left.receipt.unsettled == 1
    assert (author.asked[GENERAL, "tells"], author.asked[SPECIFIC, "tells"]) == (2, 1)

    row = left.rows["well"]
    assert (row["general_question"], row["specific_question"]) == ("Who was Ada?", "When was Ada born, and where?")
    assert (row["paragraph"], row["people"], row["names"]) == (
        "well met Bob.",
        ["Q1", "Q2"],
        ["Person Q1", "Person Q2"],
    )
    assert values(row["minimum_knowledge"]) == ["writer", "poet"]
    assert values(row["knowledge_graph"]) == values([piece.model_dump() for piece in (*ADA, *BOB)])
    assert (row["author"], row["scorer"], row["text_source"]) == ("tester", "weigher", "file")


def test_a_question_that_is_one_when_asked_again_is_taken(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {
        f"{GENERAL} Ada": once_corrected(always("Who was Ada?"), always("Question: Who was Ada?")),
        f"{SPECIFIC} Ada": always("Question: Where was Ada born?"),
    }
    left = run(ask_questions, [evolving("Ada")])
    assert left.rows["Ada"]["general_question"] == "Who was Ada?"
    assert (author.asked[GENERAL, "Ada"], author.asked[SPECIFIC, "Ada"]) == (2, 1)
