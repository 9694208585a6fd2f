"""Test the embedded world's rows for MultiHal: which are kept, and the sentence forms that they follow."""

import re
from collections import Counter, defaultdict
from functools import cache
from typing import Any

import pytest
import yaml

from factmill.tasks.assets import ASSETS_ROOT, load_list_entries, load_unit_qid_numbers_by_name
from factmill.tasks.core.rows import Reject
from factmill.tasks.multihal.core.preprocessing import classify_answer, is_refusal, normalise_refusals
from factmill.tasks.multihal.core.rows import FoundationQuestion
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS, FoundationFiles, find_foundation_files
from factmill.tasks.storage.source_files import make_source_file_without_digest
from factmill.tasks.world.files import load_world_data

LANGUAGES = {"en", "de", "fr", "it", "es", "pt"}
SLOT = re.compile(r"\[(?:the )?(\w+)\]")
NOT_FORMED = {
    "halueval_10": "asks for names that nobody bears",
    "halueval_22": "finds no path that helps",
    "halueval_23": "is answered with a film that is no item",
    "halueval_28": "cannot be translated",
    "tqa_gen_5": "is answered with a refusal",
    "tqa_gen_14": "cannot be translated",
    "tqa_gen_18": "finds only paths whose ends are alike",
    "tqa_gen_23": "asks for a number that no property on the list of MultiHal's paper has",
    "felm_12": "asks about an empire that is no item",
    "halubench_18": "finds no path",
    "shroom2024_trial-v1_6": "asks for the meaning of a word that is no item",
    "shroom2024_trial-v1_7": "cannot be translated",
    "simpleqa_27": "is answered in cubits",
    "simpleqa_43": "asks what halueval_0 asks, written a little differently",
}
"""Rows whose questions have no form: a step drops them, or the embedded translator refuses them."""


def find_samples() -> FoundationFiles:
    return find_foundation_files([ASSETS_ROOT / "data" / "world" / "sources"], list(FOUNDATIONS))


@cache
def read_samples() -> dict[str, FoundationQuestion | Reject]:
    return {
        row.row_id: row.outcome
        for name, paths in find_samples().files.items()
        for path in paths
        for row in FOUNDATIONS[name].read(make_source_file_without_digest(path))
    }


@cache
def kept_samples() -> tuple[FoundationQuestion, ...]:
    return tuple(row for row in read_samples().values() if isinstance(row, FoundationQuestion))


@cache
def load_forms() -> dict[str, Any]:
    forms: dict[str, Any] = yaml.safe_load((ASSETS_ROOT / "data/world/sources/multihal_forms.yaml").read_text("utf-8"))
    return forms


@cache
def labels_by_class() -> dict[str, set[str]]:
    labels: dict[str, set[str]] = defaultdict(set)
    for item in load_world_data().items.values():
        for statement in item.list_statements_of("P31"):
            labels[getattr(statement.value, "qid", "")].add(item.labels["en"])
        labels["any"].add(item.labels["en"])
    return labels


def find_form(text: str, kind: str) -> str | None:
    """Return the form that a text is an instance of, its slots filled with labels of their classes."""
    for name, form in load_forms()[kind].items():
        seen: set[str] = set()
        pattern = ""
        for position, part in enumerate(SLOT.split(form["en"])):
            if position % 2:
                pattern += f"(?P={part})" if part in seen else f"(?P<{part}>.+)"
                seen.add(part)
            else:
                pattern += re.escape(part)
        found = re.fullmatch(pattern, text)
        if found and all(_fills(slot, text) for slot, text in found.groupdict().items()):
            return str(name)
    return None


def _fills(slot: str, text: str) -> bool:
    if slot == "year":
        return re.fullmatch("[12][0-9]{3}", text) is not None
    return any(text in labels_by_class()[qid] for qid in load_forms()["slots"][slot])


def test_each_source_dataset_has_samples_and_each_reject_reason_occurs() -> None:
    outcomes = read_samples().values()
    assert Counter("kept" if isinstance(row, FoundationQuestion) else row.reason for row in outcomes) == {
        "kept": 133,
        "paraphrase": 28,
        "false_segment": 1,
        "other_domain": 1,
        "hallucinated": 1,
        "part_of_halueval": 1,
        "other_task": 2,
    }
    assert {row.source_dataset for row in kept_samples()} == set(FOUNDATIONS)
    refusals = normalise_refusals(load_list_entries("refusals"))
    assert [row.id for row in kept_samples() if is_refusal(row.output, refusals)] == ["tqa_gen_5"]
    assert [message.split(": ")[1] for message in find_samples().left_out] == [
        "left out; DefAn's domain math is not a list of questions with 14 paraphrases each"
    ]


def test_every_answer_type_occurs() -> None:
    settled = [
        classify_answer(row.output, row.answer_type, load_unit_qid_numbers_by_name(), row.input)
        for row in kept_samples()
    ]
    assert Counter(found.answer_type for found in settled) == {"other": 89, "date": 23, "numerical": 20, "rank": 1}
    stated = [(row, found) for row, found in zip(kept_samples(), settled, strict=True) if row.answer_type]
    assert all(row.answer_type == found.answer_type for row, found in stated)
    assert [row.output for row, found in stated if found.answer_type != "other" and not found.value] == ["16 cubits"]


@pytest.mark.parametrize("row", kept_samples(), ids=lambda row: row.id)
def test_sample_texts_match_templates(row: FoundationQuestion) -> None:
    form = find_form(row.input, "questions")
    if row.id in NOT_FORMED:
        assert form is None
        return
    assert form is not None, row.input
    if classify_answer(row.output, row.answer_type, load_unit_qid_numbers_by_name(), row.input).answer_type != "other":
        return
    for answer in (row.output, *row.optional_output, *row.incorrect_answers):
        assert find_form(answer, "answers") or answer in labels_by_class()["any"], answer


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("questions", "answers") for name in load_forms()[kind]]
)
def test_template_has_same_slots_in_every_language_and_is_used(kind: str, name: str) -> None:
    form = load_forms()[kind][name]
    assert set(form) == LANGUAGES
    slots = {language: set(SLOT.findall(text)) for language, text in form.items()}
    assert all(found == slots["en"] for found in slots.values()), slots
    assert slots["en"] <= set(load_forms()["slots"])
    texts = [row.input if kind == "questions" else row.output for row in kept_samples()]
    assert any(find_form(text, kind) == name for text in texts)
