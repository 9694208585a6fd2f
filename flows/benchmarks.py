"""The benchmarks that can be built: what each is called, what it publishes, and how it is locked and made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tasks.biokalma_inputs import lock_inputs as lock_biokalma
from tasks.core.biokalma_rows import BiographyRow
from tasks.core.fanout_rows import FanOutQuestionRow
from tasks.core.granola_rows import GranolaRow
from tasks.core.multihal_rows import MultiHalRow
from tasks.core.rows import Row
from tasks.core.slaq_rows import SlaqRow
from tasks.errors import UsageError
from tasks.fanoutqa_inputs import lock_inputs as lock_fanoutqa
from tasks.granola_inputs import lock_inputs as lock_granola
from tasks.locks import Inputs
from tasks.multihal_inputs import lock_inputs as lock_multihal
from tasks.slaq_inputs import lock_inputs as lock_slaq


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark."""

    title: str
    """A line that says what it is."""
    main_table: str
    """Its main published table."""
    row: type[Row]
    """Model of that table's rows."""
    part: str
    """Column by which rows fall into parts: `show` spreads what it prints over them."""
    shown: Mapping[str, str]
    """Columns that `show` prints, with their headings."""
    trace: tuple[str, ...]
    """Columns whose values are ids of the row at earlier stages, under which its calls are filed."""
    lock_inputs: Callable[..., Inputs]
    held_out: tuple[str, ...] = ()
    """Tables with answers of a test part, which exports leave out unless they are asked for."""


BENCHMARKS: Mapping[str, Benchmark] = {
    "granola": Benchmark(
        title="GRANOLA-EQ: entity questions with answers from fine to coarse",
        main_table="granola_eq",
        row=GranolaRow,
        part="relation",
        shown={
            "id": "id",
            "question": "question",
            "granola_answers": "answers, fine to coarse",
            "score_for_potential_error": "error score",
        },
        trace=("id",),
        lock_inputs=lock_granola,
    ),
    "multihal": Benchmark(
        title="MultiHal: questions of seven benchmarks with judged Wikidata paths, in six languages",
        main_table="multihal",
        row=MultiHalRow,
        part="source_dataset",
        shown={"id": "id", "input": "question", "output": "answer", "trip_labels": "path", "judged_score": "score"},
        trace=("id", "path_id", "question_id"),
        lock_inputs=lock_multihal,
    ),
    "biokalma": Benchmark(
        title="BioKaLMA: questions about two people, with the smallest set of knowledge that answers them",
        main_table="biokalma",
        row=BiographyRow,
        part="relation",
        shown={"id": "id", "general_question": "question", "paragraph": "answer", "minimum_knowledge": "knowledge"},
        trace=("id",),
        lock_inputs=lock_biokalma,
    ),
    "slaq": Benchmark(
        title="SLAQ: the same facts asked short and long, from articles of fifteen categories",
        main_table="slaq",
        row=SlaqRow,
        part="Category",
        shown={"id": "id", "Topic": "topic", "half": "viewed", "ShortQ1": "first question", "ShortA1": "answer"},
        trace=("id", "Category"),
        lock_inputs=lock_slaq,
    ),
    "fanoutqa": Benchmark(
        title="FanOutQA: questions that need many articles, with decompositions and dated evidence",
        main_table="fanoutqa",
        row=FanOutQuestionRow,
        part="source",
        shown={"id": "id", "split": "split", "source": "source", "question": "question", "articles": "articles"},
        trace=("id",),
        lock_inputs=lock_fanoutqa,
        held_out=("fanoutqa_test_answers", "fanoutqa_references", "fanoutqa_review"),
    ),
}
"""Name → benchmark; the name is also that of the flow and its module."""


def find_benchmark(name: str) -> Benchmark:
    """Return a benchmark by name; UsageError when there is none."""
    if name not in BENCHMARKS:
        raise UsageError(f"no benchmark {name!r}; there are: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def load_flow(name: str) -> Any:
    """Return a benchmark's Prefect flow; Prefect is imported only here."""
    find_benchmark(name)
    return getattr(import_module(f"flows.{name}"), name)
