"""Question, answers and path labels in the other languages (MultiHal, paper §2.4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from prefect import task

from tasks.core.calls.call import Call
from tasks.core.calls.translation import call_translate_path, call_translate_text, read_parts
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import Outcome, Reject
from tasks.engine.batches import Work, batch_key, work_on
from tasks.lookups.labels import look_up_labels
from tasks.multihal.core.path_words import is_id
from tasks.multihal.core.rows import TAGS, MultiHalRow, ScoredPath
from tasks.multihal.params import MultiHalInputs
from tasks.storage.recording.journal import Record


@task(cache_key_fn=batch_key, persist_result=True)
def translate_paths(batch: Batch) -> Receipt:
    """Make one row a language: English as it is, the others by the translator (§2.4)."""
    work = work_on(batch)
    rows = work.rows_to_open(ScoredPath)
    languages = work.inputs(MultiHalInputs).languages
    for language in languages:
        for row in rows:
            work.take(f"{row.id}_{language}", row.model_dump_json())
    outcomes = _make_english(rows) if "eng" in languages else []
    if others := [language for language in languages if language != "eng"]:
        outcomes += _translate(work, rows, others)
    return work.finish(outcomes, MultiHalRow)


def _make_english(rows: Iterable[ScoredPath]) -> list[Outcome]:
    return [
        _publish(
            row,
            "eng",
            translated_by=None,
            trip_labels=row.path_labels,
            part_sources=["wikidata" if is_id(each) else "kept" for each in row.responses_formatted],
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for the rows in one language."""

    language: str
    texts: dict[str, Call]
    """Text → its call."""
    paths: dict[str, Call]
    """Row id → the call of its path."""
    failed: dict[str, Reject]
    """Row id → why it cannot be had in the language."""


def _translate(work: Work, rows: list[ScoredPath], languages: Iterable[str]) -> list[Outcome]:
    """Translate rows, all languages in one go: a model's batches are of texts of one length, whatever their language."""
    service = work.run.services.translator()
    asked = [_ask(work, rows, language, service.identity) for language in languages]
    records = work.call(
        service,
        (
            (f"{row.id}_{each.language}", call)
            for each in asked
            for row in rows
            for call in _calls_of(row, each.texts, each.paths[row.id])
        ),
    )
    return [
        replace(each.failed[row.id], row_id=f"{row.id}_{each.language}")
        if row.id in each.failed
        else _translate_row(row, each.language, each.texts, each.paths[row.id], records, service.identity)
        for each in asked
        for row in rows
    ]


def _ask(work: Work, rows: list[ScoredPath], language: str, translator: str) -> _Asked:
    tag = TAGS[language]
    labels, failed = _own_labels(work, rows, language)
    paths = {
        row.id: call_translate_path(
            translator, row.path_labels, [labels.get(each) for each in row.responses_formatted], tag
        )
        for row in rows
    }
    texts = {text: call_translate_text(translator, text, tag) for row in rows for text in _texts_of(row)}
    return _Asked(language, texts, paths, failed)


def _own_labels(work: Work, rows: list[ScoredPath], language: str) -> tuple[dict[str, str], dict[str, Reject]]:
    """Return id → Wikidata's label in the language, where such labels are wanted, and row id → Reject where they cannot be had."""
    if work.inputs(MultiHalInputs).params.label_source != "wikidata":
        return {}, {}
    asked = [(row.id, each) for row in rows for each in row.responses_formatted if is_id(each)]
    return look_up_labels(work, asked, TAGS[language])


def _calls_of(row: ScoredPath, texts: Mapping[str, Call], path: Call) -> list[Call]:
    return [path, *(texts[text] for text in _texts_of(row))]


def _texts_of(row: ScoredPath) -> list[str]:
    return [row.input, row.output, *row.optional_output, *row.incorrect_answers, *row.disputed_answers]


def _translate_row(
    row: ScoredPath,
    language: str,
    texts: Mapping[str, Call],
    path: Call,
    records: Mapping[str, Record],
    translator: str,
) -> Outcome:
    row_id = f"{row.id}_{language}"

    def translate(wanted: Iterable[str]) -> list[str]:
        """Return translations, without the texts that have none."""
        replies = (records[texts[text].key].reply() for text in wanted)
        return [str(reply.body) for reply in replies if reply.status == "ok"]

    for call in (texts[row.input], texts[row.output], path):
        reply = records[call.key].reply()
        if reply.status != "ok":
            return Reject(row_id, "untranslatable", f"{call.parts.get('text', row.path_labels)}: {reply.error}")
    parts = read_parts(records[path.key].reply().body)
    if problem := _find_moved(row, [part.text for part in parts]):
        return Reject(row_id, "value_moved", problem)
    return _publish(
        row,
        language,
        input=translate([row.input])[0],
        output=translate([row.output])[0],
        optional_output=translate(row.optional_output),
        incorrect_answers=translate(row.incorrect_answers),
        disputed_answers=translate(row.disputed_answers),
        translated_by=translator,
        trip_labels=[part.text for part in parts],
        part_sources=[part.origin for part in parts],
    )


def _find_moved(row: ScoredPath, parts: Sequence[str]) -> str | None:
    """Return what is wrong where a path in another language has other parts, or not the value that ends it in its place."""
    told, last = row.path_labels, row.responses_formatted[-1]
    is_whole = len(parts) == len(told) and (is_id(last) or parts[-1].split(" ")[0] == told[-1].split(" ")[0])
    return None if is_whole else f"expected the value of {'; '.join(told)} at the end, found {'; '.join(parts)}"


def _publish(row: ScoredPath, language: str, **changed: object) -> MultiHalRow:
    return row.narrow(MultiHalRow, id=f"{row.id}_{language}", path_id=row.id, language=language, **changed)
