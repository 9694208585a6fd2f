"""Test paths as text, and how a judge chooses among them and scores each."""

import pytest
from support.rows.questions import path_of
from support.steps.replies import make_reader

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.multihal.core.path_selection import (
    MAX_SCORED_PATHS,
    MAX_SELECTION_ROUNDS,
    SCORE_REPLY_FORM,
    SELECTION_REPLY_FORM,
    PathSelectionState,
    count_distinct_paths_capped_for_scoring,
    list_path_labels,
    list_path_parts_not_words_number_or_date,
    make_score_prompt,
    make_selection_prompt,
    read_path_score,
    read_selected_paths,
    start_path_selection,
)

hear_selection = make_reader(SELECTION_REPLY_FORM, read_selected_paths)
hear_score = make_reader(SCORE_REPLY_FORM, read_path_score)

PATHS = [f"A; r{number}; B" for number in range(14)]


def test_at_most_ten_paths_are_scored_and_identical_wordings_once():
    assert count_distinct_paths_capped_for_scoring([["A", "r 1", "B"], ["A", "r  1", "B"], ["A", "r2", "B"]]) == 2
    assert (
        count_distinct_paths_capped_for_scoring([["A", f"r{number}", "B"] for number in range(14)]) == MAX_SCORED_PATHS
    )


def play(choice: PathSelectionState, *rounds: tuple[list[str], list[str]]) -> PathSelectionState:
    for first, second in rounds:
        choice.add_round(first, second)
    return choice


def test_ten_or_fewer_paths_are_all_selected_without_judge() -> None:
    choice = start_path_selection("q1", PATHS[:10])
    assert not choice.needs_another_round
    assert choice.list_selected() == dict.fromkeys(PATHS[:10], "all")


def test_both_passes_see_all_paths_in_different_reproducible_orders() -> None:
    choice = start_path_selection("q1", PATHS)
    first, second = choice.shuffle_candidates(1), choice.shuffle_candidates(2)
    assert sorted(first) == sorted(second) == sorted(PATHS)
    assert len({tuple(first), tuple(second), tuple(PATHS)}) == 3
    assert start_path_selection("q1", PATHS).shuffle_candidates(1) == first
    choice.add_round([], [])
    assert choice.shuffle_candidates(1) != first


def test_paths_picked_in_both_passes_are_selected_and_rest_is_drawn() -> None:
    choice = play(start_path_selection("q1", PATHS), *[(PATHS[:6], PATHS[4:9])] * MAX_SELECTION_ROUNDS)
    assert not choice.needs_another_round
    chosen = choice.list_selected()
    assert len(chosen) == MAX_SCORED_PATHS
    assert [path for path, how in chosen.items() if how == "judge"] == PATHS[4:6]
    again = play(start_path_selection("q1", PATHS), *[(PATHS[:6], PATHS[4:9])] * MAX_SELECTION_ROUNDS)
    assert chosen == again.list_selected()
    assert list(chosen) == [path for path in PATHS if path in chosen]


def test_different_questions_draw_different_paths() -> None:
    draws = {tuple(play(start_path_selection(f"q{number}", PATHS), ([], [])).list_selected()) for number in range(20)}
    assert len(draws) > 5


def test_rounds_continue_until_ten_paths_are_picked() -> None:
    choice = start_path_selection("q1", PATHS)
    choice.add_round(PATHS[:5], PATHS[:5])
    assert choice.needs_another_round
    choice.add_round(PATHS[5:10], PATHS[5:10])
    assert not choice.needs_another_round
    assert choice.list_selected() == dict.fromkeys(PATHS[:10], "judge")


def test_invented_path_is_counted_and_never_selected() -> None:
    choice = play(
        start_path_selection("q1", PATHS), *[(["A; r1; C", PATHS[0]], ["A; r1; C", PATHS[0]])] * MAX_SELECTION_ROUNDS
    )
    assert choice.invented == 2 * MAX_SELECTION_ROUNDS
    assert "A; r1; C" not in choice.list_selected()
    assert choice.list_selected()[PATHS[0]] == "judge"


def test_paths_with_same_wording_count_once() -> None:
    assert start_path_selection("q1", [PATHS[0], PATHS[1], PATHS[0]]).candidate_paths == (PATHS[0], PATHS[1])


@pytest.mark.parametrize(
    ("text", "picks"),
    [
        ("Path: A; r1; B", ["A; r1; B"]),
        ("```yml\nPath: A; r1; B\nPath: A; r2; B \n```", ["A; r1; B", "A; r2; B"]),
        ("Path: none", []),
        ("Path: A; r1; B\r\nPath: A; r2; B\r\n", ["A; r1; B", "A; r2; B"]),
        ("Path: A; r1; B\nI cannot help with the others.", ["A; r1; B"]),
        ("- Path: A; r1; B\n2. path:  A; r1; B", ["A; r1; B"]),
        ("\n".join(f"Path: A; r{n}; B" for n in range(30)), [f"A; r{n}; B" for n in range(10)]),
    ],
)
def test_picks_are_read_once_each_and_at_most_ten(text: str, picks: list[str]) -> None:
    assert hear_selection(text) == picks


@pytest.mark.parametrize("text", ["", "I cannot help with that.", "A; r1; B", "Path:", "The best path: A"])
def test_selection_in_other_format_is_unreadable(text: str) -> None:
    assert isinstance(hear_selection(text), UnreadableCompletion)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("Score: 5", 5),
        ("score = 1", 1),
        ("**Score:** 4", 4),
        ("Score: 2\nOn reflection, Score: 3", 3),
        ("```yaml\nScore: 4\n```", 4),
        ("Score: 4/5", 4),
        ("Score: 3 out of 5.", 3),
        ("Score: 4, since it names the city", 4),
        ("Score: 2\n- 1 of its parts is wrong", 2),
        ("5", 5),
        ("**4**", 4),
        ("4/5", 4),
        ("Score：３", 3),
        ("<think>Score: 1, or is it 2?</think>Score: 4", 4),
    ],
)
def test_last_score_in_reply_counts(text: str, score: int) -> None:
    assert hear_score(text) == score


NO_SCORES = """
6 | 45 | 4-5 | 4 or 5 | five | Score: 6 | Score: 0 | Score: -3 | Score: 4.5 | Score: high | Score: 10 | Score: 4,5 |
Score: 4-5 | Score: 3 – 4 | Score: 4 or 5 | Score: 3 to 4 | Score: 5/10 | Score: 4 out of 10 | I cannot help with that. |
I cannot give a score. | Score: | Score: n | Score: I cannot say, 4 or so
"""


@pytest.mark.parametrize("text", ["", *" ".join(NO_SCORES.split()).split(" | ")])
def test_score_outside_1_to_5_is_unreadable(text: str) -> None:
    assert isinstance(hear_score(text), UnreadableCompletion)


def test_prompts_contain_question_answers_and_paths() -> None:
    selection = make_selection_prompt(load_prompt("multihal/select_paths"), "Who?", ["Ann", "Anne"], PATHS[:2])
    result = selection.build_messages()[-1]["content"]
    assert (result.count("A; r"), "Ann; Anne" in result) == (2, True)
    score = make_score_prompt(load_prompt("multihal/score_path"), "Who?", ["Ann"], PATHS[0])
    assert PATHS[0] in score.build_messages()[-1]["content"]


LABELS = {"Q41421": "Michael Jordan", "P2048": "height", "Q11573": "metre"}


def test_unit_of_value_is_plural() -> None:
    path = path_of("Q41421", "P2048", "1.98", unit="Q11573")
    assert list_path_labels(path, LABELS) == ["Michael Jordan", "height", "1.98 metres"]


def test_id_in_place_of_label_counts_as_missing_label() -> None:
    assert list_path_parts_not_words_number_or_date(
        path_of("Q1", "P2", "Q3"), {"Q1": "K2", "P2": "elevation", "Q3": "Q3"}
    ) == ["Q3"]
