"""Test annotation, evolution and questions with the real steps and a chat server.

Cases cover the author's permitted replies, and pieces that cannot be scored.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted_author import Asked, Manners, ScriptedAuthor, always, extend, once_corrected
from support.models.scripted_chat import REFUSAL, Said
from support.rows.biographies import counted_pair, evolving_pair, make_piece
from support.steps.author_steps import (
    ADA,
    BOB,
    DOVER,
    LIMITS,
    PERPLEXITIES,
    POET,
    WRITER,
    Run,
    Weigher,
    evolving,
    step_runner,
    values,
)
from support.steps.steps import Left
from support.webs.loopback import Loopback, Seen

from factmill.tasks.biokalma.evolve import (
    ANNOTATE_PROMPT,
    EXTEND_PROMPT,
    GENERAL_QUESTION_PROMPT,
    SPECIFIC_QUESTION_PROMPT,
    annotate_paragraph,
    evolve_paragraph,
    write_biography_questions,
)
from factmill.tasks.clients.perplexity import TextPerplexityClient
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.translation_and_perplexity import (
    NoPerplexity,
    TextLogProbability,
    make_log_probability_response,
)
from factmill.tasks.core.service_settings import ModelSettings

IMPOSSIBLE = make_log_probability_response(TextLogProbability(-math.inf, 3))
UNWEIGHABLE = make_log_probability_response(NoPerplexity("too_long", "2000 tokens; at most 1024 are read"))
DOWN = CallResponse(None, "failed", "http_503: overloaded", transient=True)


@pytest.fixture
def author() -> Iterator[ScriptedAuthor]:
    author = ScriptedAuthor({})
    yield author
    author.close()


@pytest.fixture
def run(author: ScriptedAuthor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return step_runner(author, tmp_path / "run", monkeypatch)


def chosen(left: Left, row_id: str) -> list[str]:
    """Return the values that rounds 2 and later added."""
    return [piece["value"] for each in left.rows[row_id]["rounds"][1:] for piece in each["chosen"]]


def test_best_piece_becomes_next_sentence_and_all_scores_are_stored(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    scorer = Weigher({})
    left = run(evolve_paragraph, [evolving("Ada", counts={"P20": 2})], scorer, rounds=3)
    row = left.rows["Ada"]
    # all but P20 are in one graph of two, so coherence decides: lowest perplexity first
    assert chosen(left, "Ada") == ["London", "1815-12-10"]
    first, second = row["rounds"][1:]
    # Dover is unreachable, so it has no score
    assert values(first["candidates"]) == ["London", "Copley Medal", "1815-12-10", "44 BC", "Dover"]
    assert values(second["candidates"]) == ["1815-12-10", "Copley Medal", "44 BC", "Dover"]
    best, last = first["candidates"][0], first["candidates"][-1]
    assert (best["perplexity"], last["perplexity"]) == (pytest.approx(3.0), None)
    assert (best["specificity"], last["specificity"]) == (pytest.approx(math.log(2)), 0)
    assert [each["is_weighed"] for each in first["candidates"]] == [True] * 4 + [False]
    assert {(each["coherence"], each["score"]) for each in first["candidates"]} == {(None, None)}
    assert len(scorer.texts) == 4 + 3
    assert (first["number"], first["sentence"]) == (2, "It is said that London came into it.")
    assert row["paragraph_now"] == (
        "Ada met Bob. It is said that London came into it. It is said that 1815-12-10 came into it."
    )
    assert values(row["minimum_knowledge"]) == ["writer", "poet", "London", "1815-12-10"]
    assert [(each["id"], each["row_id"], each["number"]) for each in left.extras] == [
        (f"Ada_{number}", "Ada", number) for number in (1, 2, 3)
    ]
    assert scorer.texts[0].startswith("Ada met Bob. ")
    assert all(text.startswith(row["paragraph_now"].rpartition(" It is said")[0]) for text in scorer.texts[4:])
    assert "Ada met Bob. Person Q2's date of death is 44 BC." in scorer.texts, "under the person's name"


def test_all_scores_are_stored_when_every_candidate_is_scored(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    left = run(evolve_paragraph, [evolving("Ada")])
    result = left.rows["Ada"]["rounds"][1]["candidates"]
    assert math.fsum(each["coherence"] for each in result) == pytest.approx(1)
    assert all(each["score"] == pytest.approx((each["specificity"] + each["coherence"]) / 2) for each in result)


@pytest.mark.parametrize("rounds", [1, 2, 4, 6])
def test_number_of_rounds_matches_setting(author: ScriptedAuthor, run: Run, rounds: int) -> None:
    author.manners = {"Ada": extend}
    left = run(evolve_paragraph, [evolving("Ada")], rounds=rounds)
    assert [each["number"] for each in left.rows["Ada"]["rounds"]] == list(range(1, rounds + 1))
    assert author.asked[EXTEND_PROMPT, "Ada"] == rounds - 1


def test_alpha_balances_specificity_against_coherence(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    counts = {"P19": 30, "P569": 40, "P166": 2, "P106": 40, "P20": 30, "P570": 9}
    rows = [evolving("Ada", counts=counts, graphs=40)]
    orders = {}
    for alpha in (0.0, 0.02, 1.0):
        left = run(evolve_paragraph, rows, alpha=alpha)
        orders[alpha] = values(left.rows["Ada"]["rounds"][1]["candidates"])
        assert chosen(left, "Ada") == orders[alpha][:1]
    assert orders[0.0] == ["London", "1815-12-10", "Copley Medal", "Dover", "44 BC"], "only perplexity decides"
    # ties go by the person's number
    assert orders[1.0] == ["Copley Medal", "44 BC", "London", "Dover", "1815-12-10"], "only rarity decides"
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
}
"""Maps a name to the manners of an author that never follows the prompt, and the error code."""


def test_author_that_adds_no_piece_is_asked_for_three_pieces_twice_each(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {name: manners for name, (manners, _) in WRONG.items()}
    left = run(evolve_paragraph, [evolving(name) for name in WRONG])
    assert (left.rows, left.receipt.unsettled) == ({}, 0)
    for name, (_, code) in WRONG.items():
        reason, detail = left.rejects[name]
        assert reason == "no_piece_brought_in"
        for tried in ("Q1 P19 London", "Q1 P569 1815-12-10", "Q1 P166 Copley Medal"):
            assert f"{tried}: {code}" in detail, name
        assert detail.startswith("round 2: Q1 P19 London: "), name
        assert author.asked[EXTEND_PROMPT, name] == 6
    said = [code for _, code in WRONG.values()]
    for code in set(said):
        assert sum(code in correction for correction in author.corrections) == 3 * said.count(code), code
    assert {(each["row_id"], each["number"]) for each in left.extras} == {(name, 1) for name in WRONG}


def test_author_that_refuses_three_pieces_is_asked_once_for_each(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"refuses": always(REFUSAL)}
    left = run(evolve_paragraph, [evolving("refuses")])
    reason, detail = left.rejects["refuses"]
    assert (reason, detail.count("the model refuses"), author.asked[EXTEND_PROMPT, "refuses"]) == ("refused", 3, 3)


def test_author_that_follows_correction_keeps_its_piece(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {name: once_corrected(manners, extend) for name, (manners, _) in WRONG.items()}
    left = run(evolve_paragraph, [evolving(name) for name in WRONG])
    assert left.rejects == {}
    for name in WRONG:
        assert (chosen(left, name), left.rows[name]["rounds"][1]["refused"]) == (["London"], [])
        assert left.rows[name]["paragraph_now"] == f"{name} met Bob. It is said that London came into it."
        assert author.asked[EXTEND_PROMPT, name] == 2


def test_piece_that_author_fails_to_add_is_replaced_by_next_best(author: ScriptedAuthor, run: Run) -> None:
    def will_not_say(*refused: str) -> Manners:
        return lambda asked: REFUSAL if asked.value in refused else extend(asked)

    author.manners = {"one": will_not_say("London"), "two": will_not_say("London", "1815-12-10")}
    left = run(evolve_paragraph, [evolving("one"), evolving("two")], rounds=3)
    assert left.rejects == {}
    # a piece refused in one round is a candidate in the next
    assert (chosen(left, "one"), chosen(left, "two")) == (["1815-12-10", "Copley Medal"], ["Copley Medal", "Dover"])
    lines = [[line.partition(": ")[0] for line in each["refused"]] for each in left.rows["two"]["rounds"]]
    assert lines == [[], ["Q1 P19 London", "Q1 P569 1815-12-10"], ["Q1 P19 London", "Q1 P569 1815-12-10"]]
    assert all(REFUSAL in line for each in left.rows["two"]["rounds"] for line in each["refused"])
    assert values(left.rows["two"]["rounds"][2]["candidates"])[:2] == ["London", "1815-12-10"]


def test_unavailable_author_rejects_pair_only_until_later_run(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {
        "down": always(500),
        "silent": always(""),
        "down-at-correction": once_corrected(add("They were happy."), always(503)),
        "well": extend,
    }
    rows = [evolving(name) for name in author.manners]
    left = run(evolve_paragraph, rows)
    assert {name: (reason, detail.partition(":")[0]) for name, (reason, detail) in left.rejects.items()} == {
        "down": ("model_failed", "http_500"),
        "silent": ("empty_reply", "empty_reply"),
        "down-at-correction": ("model_failed", "http_503"),
    }
    assert (left.rows.keys(), left.receipt.unsettled) == ({"well"}, 3)

    before = author.asked[EXTEND_PROMPT, "well"]
    author.manners = dict.fromkeys(author.manners, extend)
    left = run(evolve_paragraph, rows)
    assert (left.rejects, left.receipt.unsettled, author.asked[EXTEND_PROMPT, "well"]) == ({}, 0, before)


def test_relation_is_added_with_all_values_and_incomplete_one_is_left_out(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend, "Half": lambda asked: str(extend(asked)).replace(" and Rome", "")}
    lived = [make_piece("Q1", "P551", place, f"Q{at}") for at, place in enumerate(("London", "Dover", "Rome"), 10)]
    jobs = [make_piece("Q1", "P106", job, f"Q{at}") for at, job in enumerate("abcdef", 20)]
    counts = {"P106": 2, "P551": 1}
    # the text begins with homes and jobs; two homes are missing, and five jobs are too many
    rows = [
        evolving_pair(name, f"{name} met Bob.", [lived[0], jobs[0], POET], [*lived, *jobs], [POET], counts=counts)
        for name in author.manners
    ]
    left = run(evolve_paragraph, rows)
    row = left.rows["Ada"]
    assert values(row["rounds"][1]["candidates"]) == ["Dover; Rome"]
    assert values(row["rounds"][1]["chosen"]) == ["Dover", "Rome"]
    assert row["paragraph_now"] == "Ada met Bob. It is said that Dover and Rome came into it."
    assert values(row["minimum_knowledge"]) == ["London", "poet", "Dover", "Rome"]
    reason, detail = left.rejects["Half"]
    assert reason == "no_piece_brought_in"
    assert "Q1 P551 Dover; Rome: value_missing: the added sentence does not say 'Rome'" in detail


def test_last_round_is_reserved_for_person_without_pieces(author: ScriptedAuthor, run: Run) -> None:
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


def test_inverse_of_used_piece_is_added_only_for_person_without_other_pieces(author: ScriptedAuthor, run: Run) -> None:
    author.manners = dict.fromkeys(("child", "father", "used"), extend)
    child, father = make_piece("Q1", "P40", "Bob", "Q2"), make_piece("Q2", "P22", "Ada", "Q1")
    rows = [
        evolving_pair("child", "child met Bob.", [child], [child, WRITER], [father, POET]),
        evolving_pair("father", "father met Bob.", [child], [child, WRITER], [father]),
        evolving_pair("used", "used met Bob.", [child, POET], [child], [father, POET]),
    ]
    scorer = Weigher({"Ada": 1.5})
    left = run(evolve_paragraph, rows, scorer)
    assert (chosen(left, "child"), chosen(left, "father")) == (["poet"], ["Ada"])
    ((row_id, (reason, detail)),) = left.rejects.items()
    assert (row_id, reason, detail.startswith("round 2: ")) == ("used", "pool_exhausted", True)


def test_with_single_round_both_people_must_be_in_first_sentence(author: ScriptedAuthor, run: Run) -> None:
    left = run(evolve_paragraph, [evolving("Ada", [WRITER]), evolving("both")], rounds=1)
    ((row_id, (reason, detail)),) = left.rejects.items()
    assert (row_id, reason, "Q2" in detail) == ("Ada", "person_missing", True)
    assert left.rows.keys() == {"both"}


def test_exhausted_pool_ends_pair(author: ScriptedAuthor, run: Run) -> None:
    author.manners = dict.fromkeys(("small", "single"), extend)
    rows = [
        evolving_pair("small", "small met Bob.", [WRITER], [WRITER], [POET, DOVER]),
        evolving_pair("single", "single met Bob.", [WRITER], [WRITER], [POET]),
    ]
    left = run(evolve_paragraph, rows, rounds=4)
    assert {row_id: (reason, detail.partition(":")[0]) for row_id, (reason, detail) in left.rejects.items()} == {
        "small": ("pool_exhausted", "round 4"),
        "single": ("pool_exhausted", "round 3"),
    }
    assert Counter(each["row_id"] for each in left.extras) == {"small": 3, "single": 2}
    assert run(evolve_paragraph, rows[:1], rounds=3).rows.keys() == {"small"}


def test_fewer_than_three_pieces_are_tried_when_no_more_exist(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"small": always("What a nice text.")}
    left = run(evolve_paragraph, [evolving_pair("small", "small met Bob.", [WRITER], [WRITER], [POET, DOVER])])
    assert left.rejects["small"][0] == "no_piece_brought_in"
    assert author.asked[EXTEND_PROMPT, "small"] == 4


def test_texts_without_finite_perplexity_are_least_coherent(author: ScriptedAuthor, run: Run) -> None:
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


def test_pair_without_any_perplexity_is_rejected(author: ScriptedAuthor, run: Run) -> None:
    left = run(evolve_paragraph, [evolving("Ada")], Weigher(dict.fromkeys(PERPLEXITIES, UNWEIGHABLE)))
    assert left.rejects == {"Ada": ("perplexity_failed", "unweighable: too_long: 2000 tokens; at most 1024 are read")}
    assert (left.receipt.unsettled, author.asked) == (0, Counter())


def test_one_transient_perplexity_failure_leaves_pair_for_later_run(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {"Ada": extend}
    left = run(evolve_paragraph, [evolving("Ada")], Weigher({"Dover": DOWN}))
    assert left.rejects == {"Ada": ("perplexity_failed", "http_503: overloaded")}
    assert (left.receipt.unsettled, author.asked) == (1, Counter()), "no fact is chosen while a score is missing"

    scorer = Weigher({})
    left = run(evolve_paragraph, [evolving("Ada")], scorer)
    assert (chosen(left, "Ada"), [text[-6:] for text in scorer.texts]) == (["London"], ["Dover."])


def test_perplexity_server_failure_affects_one_pair_only(author: ScriptedAuthor, run: Run) -> None:
    author.manners = dict.fromkeys(("Ada", "Eve"), extend)
    web = Loopback()

    def serve_perplexity(seen: Seen) -> dict[str, Any]:
        text = seen.json()["prompt"]
        if text.startswith("Eve"):
            return {"status": 503, "text": "overloaded"}
        logs = {"token_logprobs": [None, -len(text) / 50, -1.0], "text_offset": [0, 3, len(text)]}
        choice = {"index": 0, "text": f"{text} x", "logprobs": logs}
        return {"json": {"choices": [choice], "usage": {"prompt_tokens": 2, "completion_tokens": 1}}}

    web.handle = serve_perplexity
    model = ModelSettings(kind="openai", name="lm", url=web.url, limits=LIMITS.model_copy(update={"parallel": 8}))
    try:
        scorer = TextPerplexityClient(f"{web.url}#lm", model, lambda: "key", "factmill tests")
        left = run(evolve_paragraph, [evolving("Ada"), evolving("Eve")], scorer, alpha=0)
    finally:
        web.close()
    reason, detail = left.rejects["Eve"]
    assert (reason, detail.partition(":")[0], left.receipt.unsettled) == ("perplexity_failed", "http_503", 1)
    # one token whose logarithm is minus the text's length: the shortest text has the lowest perplexity
    candidates = left.rows["Ada"]["rounds"][1]["candidates"]
    assert [each["perplexity"] for each in candidates] == sorted(each["perplexity"] for each in candidates)


TEXT = "{} writer, born in London on 10 December 1815, met Bob."
WRITES = "[qid: Q1, name: Ada B, P106: writer]"
ANNOTATIONS: dict[str, tuple[str, list[str], int, int]] = {
    "one": (f"writer {WRITES}, born in London on 10 December 1815, met Bob.", ["writer"], 0, 0),
    "all": (
        f"writer{WRITES}, born in London on 10 December 1815 [qid: Q1, name: Ada, P19: London, P569: 10 December 1815], met "
        "Bob [qid: Q2, P106: poet].",
        ["writer", "London", "1815-12-10"],
        0,
        1,
    ),
    "twice": (f"writer {WRITES}, born in London on 10 December 1815 {WRITES}, met Bob.", ["writer"], 0, 0),
    "more": (
        f"writer {WRITES}[qid: Q1, name: Ada, P106: painter], born in London [qid: Q3, name: Ada, P106: writer] on 10 "
        "December 1815 [qid: Q2, name: Bob, P19: London, P106: poet], met Bob.",
        ["writer"],
        3,
        1,
    ),
    "broken": (
        f"writer {WRITES}, born in London [qid: Q1, P999: London] on 10 December 1815 [name: Ada, P106: writer], met "
        "Bob [qid: Q2, name: Bob]. [qid: Q1, P106: writer",
        ["writer"],
        3,
        0,
    ),
}  # fmt: skip
"""Maps a name to the author's marked text and its outcome.

The outcome is the stated pieces, the number of citations outside the pool, and the number of unstated citations.
"""


def test_citations_outside_pool_are_removed_and_counted(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {name: always(f"Paragraph: {name} {marked}") for name, (marked, *_) in ANNOTATIONS.items()}
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in ANNOTATIONS])
    assert left.rejects == {}
    for name, (marked, cited, removed, unstated) in ANNOTATIONS.items():
        row = left.rows[name]
        (first,) = row["rounds"]
        assert (values(row["minimum_knowledge"]), first["removed_citations"]) == (cited, removed), name
        assert first["unstated_citations"] == unstated, name
        assert (first["number"], first["chosen"], first["candidates"]) == (1, row["minimum_knowledge"], [])
        assert (first["sentence"], row["paragraph_now"]) == (f"{name} {marked}", TEXT.format(name))
        assert author.asked[ANNOTATE_PROMPT, name] == 1


def test_text_without_pool_citation_is_rejected(author: ScriptedAuthor, run: Run) -> None:
    marked = {
        "bare": "writer, born in London on 10 December 1815, met Bob.",
        "missing": "writer, born in London on 10 December 1815, met Bob [NA].",
        "unstated": "writer, born in London on 10 December 1815 [qid: Q2, P20: Dover], met Bob.",
        "invented": "writer [qid: Q1, P106: painter], born in London [qid: Q9, P19: London] on 10 December 1815, met Bob.",
    }
    author.manners = {name: always(f"Paragraph: {name} {text}") for name, text in marked.items()}
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in marked])
    counts = {"bare": ["0", "0"], "missing": ["0", "0"], "invented": ["2", "0"], "unstated": ["0", "1"]}
    assert left.rejects.keys() == counts.keys()
    for name, (reason, detail) in left.rejects.items():
        head, text = detail.split(": ", 1)
        assert (reason, re.findall(r"\d+", head), text) == ("no_citation", counts[name], f"{name} {marked[name]}")
    assert left.receipt.unsettled == 0


def test_cited_pool_pieces_that_text_does_not_state_are_rejected(author: ScriptedAuthor, run: Run) -> None:
    everything = "[qid: Q2, P106: poet, P20: Dover, P570: 44 BC][qid: Q1, P166: Copley Medal, P106: writer]"
    author.manners = {"Ada": always(f"Paragraph: Ada {TEXT.format('')[1:-1]} {everything}.")}
    left = run(annotate_paragraph, [counted_pair("Ada", TEXT.format("Ada"), ADA, BOB)])
    reason, detail = left.rejects["Ada"]
    assert reason == "cites_unstated"
    assert detail.startswith("4 of 5 cited pieces ")
    assert ": Q2 P106: poet; Q2 P20: Dover; " in detail


def test_annotation_must_not_change_text_and_author_gets_one_correction(author: ScriptedAuthor, run: Run) -> None:
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
        "chats": ("reply_not_in_format", form),
        "refuses": ("refused", "the model refuses"),
        "fails": ("model_failed", "http_500"),
        "silent": ("empty_reply", "empty_reply"),
    }
    twice = ("heeds", "shortens", "corrects", "goes-on", "chats")
    assert {author.asked[ANNOTATE_PROMPT, name] for name in twice} == {2}
    assert author.asked[ANNOTATE_PROMPT, "refuses"] == 1
    assert sum("text_changed" in correction for correction in author.corrections) == 4
    assert "They married." in left.rejects["goes-on"][1], "the statement stays"
    assert left.receipt.unsettled == 2


def test_later_run_retries_transient_annotation_failures(author: ScriptedAuthor, run: Run) -> None:
    rows = [counted_pair("Ada", TEXT.format("Ada"), ADA, BOB)]
    author.manners = {"Ada": always(503)}
    assert run(annotate_paragraph, rows).receipt.unsettled == 1
    author.manners = {"Ada": always(f"Paragraph: Ada {ANNOTATIONS['one'][0]}")}
    assert run(annotate_paragraph, rows).rows.keys() == {"Ada"}


def test_statement_cited_in_both_directions_counts_once(author: ScriptedAuthor, run: Run) -> None:
    child, father = make_piece("Q1", "P40", "Bob", "Q2"), make_piece("Q2", "P22", "Ada", "Q1")
    author.manners = {
        "Ada": always("Paragraph: Ada [qid: Q1, P40: Bob] was the poet Bob's [qid: Q2, P22: Ada, P106: poet].")
    }
    left = run(annotate_paragraph, [counted_pair("Ada", "Ada was the poet Bob's.", [child], [father, POET])])
    assert [values(each["chosen"]) for each in left.rows["Ada"]["rounds"]] == [["Bob", "poet"]]
    assert left.rows["Ada"]["rounds"][0]["removed_citations"] == 0


WHO, WHAT = "Question: Who were Person Q1 and Person Q2?", "Question: What is the P106 of Person Q1 and of Person Q2?"
QUESTIONS: dict[str, tuple[Said, Said, str, str]] = {
    "well": (WHO, WHAT, "", ""),
    "same": (WHAT, WHAT.replace("What is", "what  is"), "same_questions", WHAT.removeprefix("Question: ")),
    "tells": ("Question: Tell me about Ada.", WHAT, "reply_not_in_format", "what follows"),
    "tells-too": (WHO, "Question: Tell me about Ada.", "reply_not_in_format", "what follows"),
    "empty": ("Question: ?", WHAT, "reply_not_in_format", "nothing stands behind"),
    "chats": ("Who was Ada?", WHAT, "reply_not_in_format", "0 lines"),
    "of-one": ("Question: Who was Person Q1?", WHAT, "reply_not_in_format", "person_missing"),
    "little": (WHO, WHO.replace("Who", "How"), "reply_not_in_format", "asks_too_little"),
    "refuses": (WHO, REFUSAL, "refused", "the model refuses"),
    "fails": (WHO, 500, "model_failed", "http_500"),
}
"""Maps a name to the general and the specific question, and their outcome."""


def test_two_different_questions_are_published_and_other_replies_report_reason(
    author: ScriptedAuthor, run: Run
) -> None:
    author.manners = {
        f"{prompt_id} {name}": always(said)
        for name, both in QUESTIONS.items()
        for prompt_id, said in zip((GENERAL_QUESTION_PROMPT, SPECIFIC_QUESTION_PROMPT), both[:2], strict=True)
    }
    left = run(write_biography_questions, [evolving(name) for name in QUESTIONS])
    assert left.rows.keys() == {"well"}
    for name, (_, _, reason, detail) in QUESTIONS.items():
        if reason:
            assert left.rejects[name][0] == reason
            assert left.rejects[name][1].startswith(detail), name
    assert left.receipt.unsettled == 1
    assert (author.asked[GENERAL_QUESTION_PROMPT, "tells"], author.asked[SPECIFIC_QUESTION_PROMPT, "tells"]) == (2, 1)

    row = left.rows["well"]
    assert [f"Question: {row[kind]}" for kind in ("general_question", "specific_question")] == [WHO, WHAT]
    assert (row["asked_share"], row["paragraph"]) == (1, "well met Bob.")
    assert (row["people"], row["names"]) == (["Q1", "Q2"], ["Person Q1", "Person Q2"])
    assert values(row["minimum_knowledge"]) == ["writer", "poet"]
    assert values(row["knowledge_graph"]) == values([piece.model_dump() for piece in (*ADA, *BOB)])
    assert (row["author"], row["scorer"], row["text_source"]) == ("tester", "weigher", "file")


def test_question_corrected_on_second_request_is_accepted(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {
        f"{GENERAL_QUESTION_PROMPT} Ada": once_corrected(always("Who were they?"), always(WHO)),
        f"{SPECIFIC_QUESTION_PROMPT} Ada": once_corrected(always("Question: Who was Person Q1?"), always(WHAT)),
    }
    left = run(write_biography_questions, [evolving("Ada")])
    assert left.rows["Ada"]["general_question"] == WHO.removeprefix("Question: ")
    assert (author.asked[GENERAL_QUESTION_PROMPT, "Ada"], author.asked[SPECIFIC_QUESTION_PROMPT, "Ada"]) == (2, 2)
    assert "does not name Person Q2" in author.corrections[1]
