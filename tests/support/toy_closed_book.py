"""Define the closed-book evaluation of the sixth benchmark (toy_benchmark.py): only its own parts."""

from toy_benchmark import COUNTRIES, CountryQuestion

from factmill.tasks.core.prompts import parse_prompt_file
from factmill.tasks.evaluation.closed_book import make_closed_book_evaluation

ANSWER = parse_prompt_file(
    "toy/answer", b'+++\nrole = "answerer"\ninputs = ["question"]\nmax_tokens = 50\n+++\n# user\n$question\n'
)


def list_golds(row: CountryQuestion) -> list[str]:
    """Return the number, with its letter and without."""
    return [row.qid, row.qid.removeprefix("Q")]


COUNTRIES_CLOSED_BOOK = make_closed_book_evaluation(
    benchmark=COUNTRIES,
    recipe="toy_closed_book:COUNTRIES_CLOSED_BOOK",
    prompt=ANSWER,
    list_gold_answers=list_golds,
    group_columns=("letter",),
    cluster_column="letter",
)
