"""Translate questions, answers and path labels into the other languages (MultiHal, paper §2.4)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from prefect import task

from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.calls.translation_and_perplexity import (
    make_translate_path_call,
    make_translate_text_call,
    parse_translated_path,
)
from factmill.tasks.core.rows import Reject, RowOutcome
from factmill.tasks.engine.batches import BatchInProgress, make_batch_cache_key, open_batch
from factmill.tasks.lookups.labels import look_up_labels_by_entity_id
from factmill.tasks.multihal.core.path_selection import is_item_or_property_id
from factmill.tasks.multihal.core.rows import LANGUAGE_TAGS, MultiHalRow, ScoredPath
from factmill.tasks.multihal.params import MultiHalInputs
from factmill.tasks.storage.recording.journal import CallRecord

_TRANSLATED_LISTS = ("optional_output", "incorrect_answers", "disputed_answers")


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def translate_paths(batch: StageBatch) -> BatchReceipt:
    """Make one row per path and language: English unchanged, the others translated (§2.4)."""
    work = open_batch(batch)
    rows = work.rows_to_expand(ScoredPath)
    languages = work.inputs(MultiHalInputs).languages
    for language in languages:
        for row in rows:
            work.add_input_row(f"{row.id}_{language}", row.model_dump_json())
    outcomes: list[RowOutcome] = []
    if "eng" in languages:
        for row in rows:
            sources = ["wikidata" if is_item_or_property_id(each) else "kept" for each in row.responses_formatted]
            outcomes.append(
                _make_published_row(row, "eng", translated_by=None, trip_labels=row.path_labels, part_sources=sources)
            )
    if others := [language for language in languages if language != "eng"]:
        outcomes += _translate_rows(work, rows, others)
    return work.finish(outcomes, MultiHalRow)


def _translate_rows(work: BatchInProgress, rows: list[ScoredPath], languages: Iterable[str]) -> list[RowOutcome]:
    """Translate rows into all languages in one call: the model batches texts by length, across languages."""
    service = work.run.services.translator()
    wants_labels = work.inputs(MultiHalInputs).params.label_source == "wikidata"
    asked: dict[tuple[str, str], tuple[Call, dict[str, Call]]] = {}
    failed: dict[tuple[str, str], Reject] = {}
    for language in languages:
        tag = LANGUAGE_TAGS[language]
        # Wikidata's own labels, if requested
        ids = [(row.id, each) for row in rows for each in row.responses_formatted if is_item_or_property_id(each)]
        labels, lost = look_up_labels_by_entity_id(work, ids, tag) if wants_labels else ({}, {})
        failed |= {(language, row_id): replace(why, row_id=f"{row_id}_{language}") for row_id, why in lost.items()}
        for row in rows:
            own = [labels.get(each) for each in row.responses_formatted]
            path = make_translate_path_call(service.identity, row.path_labels, own, tag)
            wanted = [row.input, row.output, *(text for name in _TRANSLATED_LISTS for text in getattr(row, name))]
            texts = {text: make_translate_text_call(service.identity, text, tag) for text in wanted}
            asked[language, row.id] = path, texts
    calls = (
        (f"{row_id}_{language}", call)
        for (language, row_id), (path, texts) in asked.items()
        for call in (path, *texts.values())
    )
    records = work.get_call_records(service, calls)
    return [
        failed.get((language, row.id))
        or _make_translated_row(row, language, *asked[language, row.id], records, service.identity)
        for language in languages
        for row in rows
    ]


def _make_translated_row(
    row: ScoredPath,
    language: str,
    path: Call,
    texts: Mapping[str, Call],
    records: Mapping[str, CallRecord],
    translator: str,
) -> RowOutcome:
    row_id = f"{row.id}_{language}"

    def translate(wanted: Iterable[str]) -> list[str]:
        """Return the translations; texts without one are left out."""
        replies = (records[texts[text].key].reply() for text in wanted)
        return [str(reply.body) for reply in replies if reply.status == "ok"]

    for call in (texts[row.input], texts[row.output], path):
        reply = records[call.key].reply()
        if reply.status != "ok":
            return Reject(row_id, "untranslatable", f"{call.parts.get('text', row.path_labels)}: {reply.error}")
    parts = parse_translated_path(records[path.key].reply().body)
    labels, value = row.path_labels, row.responses_formatted[-1]
    if len(parts) != len(labels) or not (
        is_item_or_property_id(value) or parts[-1].text.split(" ")[0] == labels[-1].split(" ")[0]
    ):
        found = "; ".join(part.text for part in parts)
        problem = f"expected {len(labels)} parts that end with the value of {'; '.join(labels)}, found {found}"
        return Reject(row_id, "value_moved", problem)
    return _make_published_row(
        row,
        language,
        input=translate([row.input])[0],
        output=translate([row.output])[0],
        **{name: translate(getattr(row, name)) for name in _TRANSLATED_LISTS},
        translated_by=translator,
        trip_labels=[part.text for part in parts],
        part_sources=[part.origin for part in parts],
    )


def _make_published_row(row: ScoredPath, language: str, **changed: object) -> MultiHalRow:
    return row.narrow_to(MultiHalRow, id=f"{row.id}_{language}", path_id=row.id, language=language, **changed)
