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
        # the year is lost
        ("How many people lived in Berlin in 2022?", "3,755,251", "Berlin; population; 3755251", 4),
        ("Who was President of France in 1950?", "Vincent Auriol", "France; head of state; Vincent Auriol", 4),
        ('Who wrote "1984"?', "George Orwell", "1984; author; George Orwell", 5),
        ("Who founded IBM?", "Thomas J. Watson", "IBM; chief executive officer; Thomas J. Watson", 3),
        # part of a longer name
        ("When was the University of Oxford founded?", "1096", "Oxford; inception; 1096", 2),
        ("When was Atlantic Records founded?", "1947", "Atlantic; inception; 1947", 2),
        ("When did Apollo 11 begin?", "1969", "Apollo; start time; 1969", 2),
        ("When was the Bank of England founded?", "1694", "Bank; inception; 1694", 2),
        ('Who wrote "Emma and Harriet"?', "Jane Austen", "Emma; author; Jane Austen", 2),
        ("Where was Ada Lovelace born?", "New York City", "Ada Lovelace; place of birth; York", 2),
        ("Where was Ada Lovelace born?", "London, England", "Ada Lovelace; place of birth; London", 5),
        ("Who was President of France?", "Vincent Auriol", "France; head of state; Vincent Auriol", 5),
        # another property than the one that is asked
        ("Where was the wife of Karl Marx born?", "Trier", "Karl Marx; place of birth; Trier", 3),
        ("Where was Karl Marx's wife born?", "Trier", "Karl Marx; place of birth; Trier", 3),
        (
            "In which year did Marie Curie receive the Nobel Prize in Chemistry?",
            "1911",
            "Marie Curie; award received; Davy Medal; point in time; 1911",
            3,
        ),
        ("How tall is Mary?", "1.96 apples", "Mary; height; 1.96 metre", 2),
        ("How tall is Mary?", "1.96 m", "Mary; height; 1.96 foot", 2),
        ("How many pages has Emma?", "474", "Emma; number of pages; 474", 5),
        # possessives, and where somebody is from
        ("What is Ada Lovelace's profession?", "mathematician", "Ada Lovelace; occupation; mathematician", 5),
        ("What was James' profession?", "baker", "James; occupation; baker", 5),
        ("What is Ada Lovelace's date of birth?", "10 December 1815", "Ada Lovelace; date of birth; 1815-12-10", 5),
        ("What country is Emmy Noether from?", "Germany", "Emmy Noether; country of citizenship; Germany", 5),
        (
            "From 1900 to 1910, where did Emmy Noether live?",
            "Germany",
            "Emmy Noether; country of citizenship; Germany",
            3,
        ),
        (
            "When did she die (month, day, year): Emmy Noether?",
            "04/05/1935",
            "Emmy Noether; date of death; 1935-04-05",
            5,
        ),
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
