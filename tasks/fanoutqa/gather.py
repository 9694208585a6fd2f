"""The first step of FanOutQA: questions that people wrote, that were released, or that are made from a graph (paper §3.1)."""

from collections.abc import Iterator

from prefect import task

from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Merged, Outcome, Reject
from tasks.engine.batches import Work, batch_key, work_on
from tasks.fanoutqa.core.rows import FanOutRow
from tasks.fanoutqa.params import FILES
from tasks.fanoutqa.sets import generate_questions
from tasks.fanoutqa.sources.files import read_question_file


@task(cache_key_fn=batch_key, persist_result=True)
def gather_questions(batch: Batch) -> Receipt:
    """Read all files, or make the questions about one kind of sets."""
    work = work_on(batch)
    made = _read_files(work) if batch.unit == FILES else generate_questions(work, batch.unit)
    return work.finish(made, FanOutRow)


def _read_files(work: Work) -> Iterator[Outcome]:
    """Yield what becomes of each question of the files; one that comes again, with the same answer, is united with the first."""
    kept: dict[str, FanOutRow] = {}
    for source in work.files(FILES):
        for read in read_question_file(source):
            work.take(read.row_id, read.as_it_came)
            if not isinstance(read.outcome, FanOutRow):
                yield read.outcome
                continue
            first = kept.setdefault(read.outcome.id, read.outcome)
            if first is read.outcome:
                yield first
            elif (first.answer, first.decomposition) == (read.outcome.answer, read.outcome.decomposition):
                yield Merged(read.row_id, first.id)
            else:
                told = f"{first.source_name}, row {first.source_row} asks the same with another answer or decomposition"
                yield Reject(read.row_id, "contradicts", told)
