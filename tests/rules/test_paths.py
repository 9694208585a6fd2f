"""How the rules author scores paths: by their ends and by what their relations speak of."""

import pytest

from tasks.multihal.core.path_choice import read_score, read_selection
from tasks.rules.paths import choose_paths, score_path
from tasks.rules.tables import load_cues


@pytest.mark.parametrize(
    ("question", "answer", "path", "score"),
    [
        ("Where was Albert Einstein born?", "Ulm", "Albert Einstein; place of birth; Ulm", 5),
        ("Where was Albert Einstein born?", "Ulm", "Albert Einstein; residence; Ulm", 3),
        ("Where was Albert Einstein born?", "Ulm", "Albert Einstein; place of birth; Munich", 2),
        ("Where was Albert Einstein born?", "Ulm", "Ulm; country; Germany", 2),
        ("Where was Albert Einstein born?", "Ulm", "Berlin; country; Germany", 1),
        ("Who wrote Emma?", "Jane Austen", "Jane Austen; notable work; Emma", 4),
        ("Who wrote Emma?", "Jane Austen wrote Emma.", "Jane Austen; notable work; Emma", 4),
        ("Who wrote Emma?", "Jane Austen wrote Emma.", "Emma; author; Jane Austen", 5),
        (
            "What is the capital of Australia?",
            "Canberra is the capital of Australia.",
            "Canberra; capital of; Australia",
            4,
        ),
        ("Where was Ada Lovelace born?", "London", "Ada Lovelace; place of death; London", 3),
        ("Who wrote Emma?", "Jane Austen", "Emma; author; Jane Austen", 5),
        ("Where was the author of Emma born?", "Steventon", "Emma; author; Jane Austen; place of birth; Steventon", 5),
        (
            "Where was the author of Emma born?",
            "Steventon",
            "Emma; publisher; John Murray; place of birth; Steventon",
            3,
        ),
        ("On what date was Albert Einstein born?", "14 March 1879", "Albert Einstein; date of birth; 1879-03-14", 5),
        ("In which year did Ada Lovelace die?", "1852", "Ada Lovelace; date of death; 1852-11-27", 5),
        ("How long is the river Rhine?", "1,233 km", "Rhine; length; 1233 kilometre", 5),
        ("How many people lived in Berlin in 2022?", "3,755,251", "Berlin; population; 3755251", 5),
        ("Who founded IBM?", "Thomas J. Watson", "IBM; chief executive officer; Thomas J. Watson", 3),
    ],
)
def test_a_path_is_scored_by_its_ends_and_its_relations(question: str, answer: str, path: str, score: int) -> None:
    assert score_path(question, [answer], path) == score


def test_the_choice_does_not_depend_on_the_order() -> None:
    paths = [f"Emma; {relation}; Jane Austen" for relation in ("author", "publisher", "creator", "editor")]
    chosen = choose_paths("Who wrote Emma?", ["Jane Austen"], paths, 2)
    assert chosen == choose_paths("Who wrote Emma?", ["Jane Austen"], paths[::-1], 2)
    assert chosen[0] == "Emma; author; Jane Austen"


def test_what_the_rules_write_is_read_like_any_reply() -> None:
    assert read_score("Score: 3") == 3
    assert read_selection("Path: none") == []


def test_every_cue_is_one_small_word() -> None:
    assert all(cue == cue.lower() for cues in load_cues().values() for cue in cues)
    assert len(load_cues()) > 80
