"""Define a sixth benchmark as docs/develop/benchmark.md describes: each country's number in Wikidata."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from prefect import task
from pydantic import Field

from factmill.flows.recipes import make_recipe
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.measures.audits import AuditCriterion, AuditProtocol
from factmill.tasks.core.rows import Reject, Row, RowOutcome
from factmill.tasks.engine.batches import make_batch_cache_key, open_batch
from factmill.tasks.engine.benchmark import (
    Benchmark,
    BenchmarkAssetNames,
    BuildInputs,
    BuildInputsAndSourceFiles,
    make_sources_absolute,
)
from factmill.tasks.lookups.labels import look_up_item_candidates_by_name
from factmill.tasks.options import BenchmarkParams, CliOption, RunOptions
from factmill.tasks.storage.source_files import SourceFile


class Country(Row):
    """A country's name from a file."""

    name: str


class CountryQuestion(Row):
    """A published question."""

    question: str
    """What is asked."""
    letter: str
    qid: str
    """The answer."""
    others: list[str]
    """Other items of the name."""


class CountryParams(BenchmarkParams):
    source: Annotated[tuple[str, ...], CliOption("--file", "PATH")] = ()
    """File of names, one a line (repeatable)."""
    most_others: int = Field(default=3, ge=0, le=9)
    """Other items of the name that are listed."""


class CountryInputs(BuildInputs):
    resolved: ClassVar = frozenset({"source"})
    params: CountryParams


def lock_inputs(params: CountryParams, run: RunOptions) -> BuildInputsAndSourceFiles[CountryInputs]:
    paths = [Path(each) for each in make_sources_absolute(params.source)]
    files = {path.name: [SourceFile(path, path.name, digest_bytes(path.read_bytes()))] for path in paths}
    return BuildInputsAndSourceFiles(
        CountryInputs(params=params.model_copy(update={"source": tuple(map(str, paths))})), files
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def read_countries(batch: StageBatch) -> BatchReceipt:
    work = open_batch(batch)
    names = [name for file in work.source_files(batch.unit) for name in file.path.read_text("utf-8").splitlines()]
    for name in names:
        work.add_input_row(f"c-{name}", name)
    return work.finish((Country(id=f"c-{name}", name=name) for name in names), Country)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def ask_countries(batch: StageBatch) -> BatchReceipt:
    work = open_batch(batch)
    rows = work.rows(Country)
    found, failed = look_up_item_candidates_by_name(work, ((row.id, row.name) for row in rows))
    most = work.inputs(CountryInputs).params.most_others

    def decide(row: Country) -> RowOutcome:
        if row.id in failed or not found[row.name]:
            return failed.get(row.id) or Reject(row.id, "no_such_item", f"no item is called {row.name!r}")
        first, *others = (each.qid for each in found[row.name])
        question = f"Which number has {row.name}?"
        return CountryQuestion(id=row.id, question=question, letter=row.name[0], qid=first, others=others[:most])

    return work.finish(map(decide, rows), CountryQuestion)


def explain_row(row: CountryQuestion) -> Iterator[str]:
    yield f"  question    {row.question}"
    yield f"  answer      {row.qid}"


COUNTRIES = Benchmark(
    name="countries",
    title="Countries: which number has each in Wikidata",
    examples=("factmill build countries --file names.txt",),
    params=CountryParams,
    resolve_inputs=lock_inputs,
    recipe="toy_benchmark:countries",
    tables={"countries": CountryQuestion},
    main_table="countries",
    group_column="letter",
    display_columns={"id": "id", "question": "question", "qid": "answer"},
    trace_id_columns=("id",),
    explain=explain_row,
    audit=AuditProtocol((AuditCriterion("wrong_number", "Is the number another country's?"),), "a test's own"),
    assets=BenchmarkAssetNames(queries=("wikidata/find_items",)),
    model_roles=lambda _: (),
)

countries = make_recipe(COUNTRIES, read_countries, ask_countries)
