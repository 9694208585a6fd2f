"""Test the seven foundations: file placement, kept rows, their fields, and the content of the real files."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.rows.foundation_rows import (
    DEFAN,
    FELM,
    GOOD,
    HALUBENCH,
    HALUEVAL,
    MIRROR,
    NAMES,
    SIMPLEQA,
    TRUTHFULQA,
    Row,
    write,
)

from factmill.tasks.core.rows import Reject
from factmill.tasks.errors import SourceError
from factmill.tasks.multihal.core.rows import FoundationQuestion
from factmill.tasks.multihal.sources.foundations import (
    FOUNDATIONS,
    append_question_on_marked_word_meaning,
    find_foundation_files,
    parse_simpleqa_metadata,
)
from factmill.tasks.storage.source_files import ParsedSourceRow, SourceFile, make_source_file_without_digest


def test_source_files_are_identified_by_their_columns(tmp_path: Path) -> None:
    for foundation, row in GOOD.items():
        write(tmp_path / foundation, foundation, [row] * 15)
    (tmp_path / "notes.txt").write_text("no rows")
    write(tmp_path, "halueval", [{"a": 1}], "other.json")
    found = find_foundation_files([tmp_path])
    assert {name: [path.name for path in paths] for name, paths in found.files.items()} == {
        name: [NAMES[name]] for name in FOUNDATIONS
    }
    renamed = write(tmp_path, "simpleqa", [SIMPLEQA], "questions.csv")
    assert find_foundation_files([renamed]).files == {"simpleqa": [renamed]}
    assert list(find_foundation_files([tmp_path / "felm", renamed], ["simpleqa", "felm"]).files) == ["felm", "simpleqa"]
    assert list(find_foundation_files([tmp_path / "felm", tmp_path / "felm" / "all.jsonl"]).files) == ["felm"]


def test_defan_math_is_left_out_with_message(tmp_path: Path) -> None:
    math = write(tmp_path, "defan", [DEFAN] * 2, "QA_domain_math_public.csv")
    sports = write(tmp_path, "defan", [DEFAN] * 15)
    for paths in ([tmp_path], [math, sports]):
        found = find_foundation_files(paths)
        assert found.files == {"defan": [sports]}
        (note,) = found.left_out
        assert note.startswith(f"{math}: left out; DefAn's domain math ")


def test_defan_is_read_under_original_file_names_of_its_authors(tmp_path: Path) -> None:
    rows = [{"Unnamed: 0": str(at), **DEFAN} for at in range(15)]
    files = [write(tmp_path, "defan", rows, f"QA_domain_{number}_public.csv") for number in range(1, 9)]
    (tmp_path / "QA_domain_1_public.json").write_text(json.dumps(rows))
    found = find_foundation_files([tmp_path])
    assert found.files == {"defan": files[:-1]}
    domains = [read_file("defan", file)[0].outcome.domain for file in files[:-1]]  # type: ignore[union-attr]
    assert domains == ["sports", "census", "nobleprize", "entertainment", "worldorg", "qsranking", "conferences"]
    copy, math = found.left_out
    assert copy.startswith(f"{tmp_path / 'QA_domain_1_public.json'}: left out; QA_domain_1_public.csv ")
    assert math.startswith(f"{files[-1]}: left out; DefAn's domain math ")


def test_unidentified_files_report_what_is_expected(tmp_path: Path) -> None:
    odd = write(tmp_path, "halueval", [{"a": 1}], "rows.json")
    broken = tmp_path / "TruthfulQA.csv"
    broken.write_text("Type,Category\n")
    nameless = write(tmp_path, "defan", [DEFAN] * 15, "sports.csv")
    one = write(tmp_path / "one", "felm", [FELM])
    two = write(tmp_path / "two", "felm", [FELM])
    cases = [
        ([tmp_path / "absent"], None, "absent: no such file or folder"),
        ([odd], None, r"rows\.json: .*expected one of halueval: qa_data\.json"),
        ([broken], None, r"TruthfulQA\.csv: row 1: .*truthfulqa, but its columns are Category, Type"),
        ([nameless], None, r"sports\.csv: .*defan.*; expected QA_domain_"),
        ([one, two], None, r"two/all\.jsonl: felm .*one/all\.jsonl"),
        ([one], ["simpleqa"], r"file of felm, expected files of simpleqa"),
        (
            [tmp_path / "one"],
            ["simpleqa"],
            r"no file of simpleqa in .*; expected simpleqa: simple_qa_test_set\.csv with",
        ),
    ]
    for paths, foundations, message in cases:
        with pytest.raises(SourceError, match=message):
            find_foundation_files(paths, foundations)


REAL = {
    "halueval": {"kept": 250},
    "truthfulqa": {"kept": 300},
    "felm": {"kept": 46, "false_segment": 45, "malformed_row": 1},
    "shroom2024": {"kept": 224, "other_task": 357},
    "defan": {"kept": 148, "paraphrase": 2072},
    "simpleqa": {"kept": 400},
}


def test_real_files_are_read_completely(shared_data: Path) -> None:
    found = find_foundation_files([shared_data], list(REAL))
    ids: set[str] = set()
    for name, paths in found.files.items():
        rows = [row for path in paths for row in read_file(name, path)]
        counts = Counter("kept" if isinstance(row.outcome, FoundationQuestion) else row.outcome.reason for row in rows)
        assert counts == REAL[name], name
        assert len({row.row_id for row in rows} | ids) == len(rows) + len(ids)
        ids |= {row.row_id for row in rows}
    assert found.left_out == []


def test_ids_match_those_of_paper(shared_data: Path) -> None:
    path = shared_data / "truthfulqa" / "TruthfulQA.csv"
    questions = {row.row_id: row.outcome for row in read_file("truthfulqa", path)}
    known = questions["tqa_gen_38"]
    assert isinstance(known, FoundationQuestion)
    assert known.input == "In what country was Barack Obama born?"
    assert known.domain == "conspiracies"


def test_urls_of_simpleqa_keep_their_case(shared_data: Path) -> None:
    path = shared_data / "simpleqa" / "simple_qa_test_set.csv"
    first = read_file("simpleqa", path)[0].outcome
    assert isinstance(first, FoundationQuestion)
    assert first.context[0] == "https://en.wikipedia.org/wiki/IEEE_Frank_Rosenblatt_Award"
    assert len(first.context) == 3


def read(tmp_path: Path, foundation: str, rows: Sequence[Row], name: str = "") -> list[ParsedSourceRow]:
    """Read rows; each of DefAn's becomes a group of 15 equal ones."""
    if foundation == "defan":
        rows = [row for row in rows for _ in range(15)]
    read_rows = read_file(foundation, write(tmp_path, foundation, rows, name))
    return read_rows[::15] if foundation == "defan" else read_rows


def read_file(foundation: str, path: Path) -> list[ParsedSourceRow]:
    return list(FOUNDATIONS[foundation].read(make_source_file_without_digest(path)))


def outcome(tmp_path: Path, foundation: str, row: Row, name: str = "") -> FoundationQuestion | Reject:
    """Return the outcome of a row that follows a good one."""
    return read(tmp_path, foundation, [GOOD[foundation], row], name)[1].outcome


def kept(tmp_path: Path, foundation: str, row: Row, name: str = "") -> FoundationQuestion:
    found = outcome(tmp_path, foundation, row, name)
    assert isinstance(found, FoundationQuestion)
    return found


@pytest.mark.parametrize(
    ("foundation", "expected"),
    [
        ("halueval", {"id": "halueval_1", "domain": "qa", "output": "Ada", "context": ["Ada."], "licence": "none stated"}),
        ("truthfulqa", {
            "id": "tqa_gen_1", "domain": "confusion: people", "optional_output": ["Ada L."],
            "incorrect_answers": ["Bob", "Eve"], "context": ["https://a.org/x", "remark"],
        }),
        ("felm", {
            "id": "felm_1", "domain": "wk", "output": "Ada. Really.", "context": ["https://a.org/X"],
        }),
        ("halubench", {"id": "halubench_1", "domain": "general", "context": ["P"]}),
        ("shroom2024", {
            "id": "shroom2024_trial_1", "domain": "N/A", "input": "Hello word . What is the meaning of word ?",
            "output": "A sound .",
        }),
        ("defan", {"id": "defan_sports_15", "domain": "sports", "input": "Who?", "output": "Ada", "answer_type": "other"}),
        ("simpleqa", {
            "id": "simpleqa_1", "domain": "art", "input": "When?", "output": "1900", "answer_type": "date",
            "context": ["https://a.org/Wiki/X?Y=1"],
        }),
    ],
)  # fmt: skip
def test_accepted_row_keeps_fields_that_multihal_uses(tmp_path: Path, foundation: str, expected: Row) -> None:
    found = kept(tmp_path, foundation, GOOD[foundation])
    assert found.model_dump(include=set(expected)) == expected
    assert found.source_dataset == foundation
    assert found.source_name == NAMES[foundation]
    assert found.source_row == (16 if foundation == "defan" else 2)


@pytest.mark.parametrize("foundation", list(GOOD))
def test_row_has_licence_of_its_file_and_none_if_file_states_none(tmp_path: Path, foundation: str) -> None:
    rows = [GOOD[foundation]] * 15
    path = write(tmp_path, foundation, rows)
    first = next(iter(FOUNDATIONS[foundation].read(SourceFile(path, "rows", licence="CC0-1.0")))).outcome
    assert isinstance(first, FoundationQuestion)
    assert (first.licence, first.source_name) == ("CC0-1.0", "rows")
    unstated = first.replace(licence="none stated", source_name=path.name)
    assert read_file(foundation, path)[0].outcome == unstated


@pytest.mark.parametrize(
    ("foundation", "change", "reason", "detail"),
    [
        ("halueval", {"right_answer": None}, "malformed_row", "the column right_answer is no text"),
        ("halueval", {"question": " "}, "malformed_row", "the column question is no text"),
        ("halueval", {"knowledge": "\ud800"}, "malformed_row", "half a surrogate pair"),
        ("truthfulqa", {"Best Answer": ""}, "malformed_row", "the column Best Answer is no text"),
        ("felm", {"labels": [True, False]}, "false_segment", "1 of 2 segments"),
        ("felm", {"labels": [True]}, "malformed_row", "1 entries for 2 segments"),
        ("felm", {"labels": ["True", "True"]}, "malformed_row", "the column labels (or claim_labels)"),
        ("felm", {"labels": []}, "malformed_row", "the column labels (or claim_labels)"),
        ("felm", {"domain": "math"}, "other_domain", "the domain is math"),
        ("felm", {"domain": None}, "malformed_row", "the column domain is missing"),
        ("felm", {"response": None}, "malformed_row", "the column response is no text"),
        ("halubench", {"label": "FAIL"}, "hallucinated", "FAIL"),
        ("halubench", {"label": "perhaps"}, "malformed_row", "the column label is 'perhaps'"),
        ("halubench", {"source_ds": "halueval"}, "part_of_halueval", "from HaluEval"),
        ("halubench", {"source_ds": "wiki"}, "malformed_row", "the column source_ds: 'wiki'"),
        ("halubench", {"answer": ["Ada"]}, "malformed_row", "the column answer is no text"),
        ("shroom2024", {"task": "MT"}, "other_task", "the task is MT"),
        ("shroom2024", {"tgt": ""}, "malformed_row", "the column tgt is no text"),
        ("shroom2024", {"src": "Hello word ."}, "malformed_row", "neither marks a word"),
        ("defan", {"answer": " "}, "malformed_row", "the column answer is no text"),
        ("simpleqa", {"answer": ""}, "malformed_row", "the column answer is no text"),
        ("simpleqa", {"metadata": "{'topic': 'Art'}"}, "malformed_row", "the column answer_type is missing"),
    ],
)
def test_rejected_row_reports_reason(tmp_path: Path, foundation: str, change: Row, reason: str, detail: str) -> None:
    found = outcome(tmp_path, foundation, {**GOOD[foundation], **change})
    assert isinstance(found, Reject)
    assert found.reason == reason
    assert detail in found.detail


def test_reject_keeps_original_row(tmp_path: Path) -> None:
    good, odd = read(tmp_path, "halueval", [HALUEVAL, {"question": "é \ud800"}])
    assert json.loads(good.raw_json) == HALUEVAL
    assert odd.raw_json == '{"question": "é \\ud800"}'
    assert odd.row_id == "halueval_1"


@pytest.mark.parametrize(
    ("foundation", "row", "message"),
    [
        ("halueval", TRUTHFULQA, r"qa_data\.json: row 1: the column question is missing"),
        ("felm", HALUEVAL, r"all\.jsonl: row 1: the column prompt is missing"),
        ("halubench", FELM, r"halubench\.jsonl: row 1: the column question is missing"),
        ("shroom2024", {"src": "x"}, r"trial\.json: row 1: the column task is missing \(found: src\)"),
        ("truthfulqa", SIMPLEQA, r"TruthfulQA\.csv: row 1: the column Type is missing"),
        ("simpleqa", TRUTHFULQA, r"simple_qa_test_set\.csv: row 1: the column metadata is missing"),
    ],
)
def test_file_of_another_source_is_refused(tmp_path: Path, foundation: str, row: Row, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path, foundation, [row, row])


def test_file_without_valid_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"row 1: the column answer is no text, and no other row is better"):
        read(tmp_path, "simpleqa", [{**SIMPLEQA, "answer": ""}] * 3)
    with pytest.raises(SourceError, match=r"qa_data\.json: no rows"):
        read(tmp_path, "halueval", [])


def test_felm_is_read_from_mirror_and_from_single_domain_file(tmp_path: Path) -> None:
    assert kept(tmp_path, "felm", MIRROR).domain == "wk"
    bare = {key: value for key, value in FELM.items() if key != "domain"}
    assert kept(tmp_path, "felm", bare, "felm_wk.jsonl").output == "Ada. Really."
    other = outcome(tmp_path, "felm", {**MIRROR, "source": "felm-science"})
    assert isinstance(other, Reject)
    assert other.reason == "other_domain"


def test_halubench_domain_comes_from_its_source_dataset(tmp_path: Path) -> None:
    parts = ("DROP", "covidQA", "pubmedQA", "FinanceBench", "RAGTruth")
    domains = [kept(tmp_path, "halubench", {**HALUBENCH, "source_ds": each}).domain for each in parts]
    assert domains == ["general", "covid", "pubmed", "finance", "ragtruth"]


def test_halubench_rows_from_parquet_equal_those_from_jsonl(tmp_path: Path) -> None:
    rows = [HALUBENCH, {**HALUBENCH, "label": "FAIL"}, {**HALUBENCH, "passage": None}]
    path = tmp_path / "test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    from_parquet = [row.outcome for row in FOUNDATIONS["halubench"].read(SourceFile(path, "rows"))]
    lines = write(tmp_path, "halubench", rows)
    assert from_parquet == [row.outcome for row in FOUNDATIONS["halubench"].read(SourceFile(lines, "rows"))]
    assert find_foundation_files([path]).files == {"halubench": [path]}


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("It is <define>blue</define> .", "It is blue . What is the meaning of blue ?"),
        ("a <define> sky blue </define> sea", "a sky blue sea What is the meaning of sky blue ?"),
        ("It is blue . What is the meaning of blue ?", "It is blue . What is the meaning of blue ?"),
        ("What is the meaning of life ? Nobody knows .", None),
        ("It is blue .", None),
    ],
)
def test_definition_sentence_becomes_meaning_question(sentence: str, question: str | None) -> None:
    assert append_question_on_marked_word_meaning(sentence) == question


def defan_group(answer: str, kind: str, size: int = 15) -> list[Row]:
    return [{"questions": f"Question {number}?", "answer": answer, "type": kind} for number in range(size)]


def test_defan_keeps_first_question_of_each_group(tmp_path: Path) -> None:
    rows = [*defan_group("Ada", "name"), *defan_group("Bob", "name")]
    found = read_file("defan", write(tmp_path, "defan", rows))
    kept_ids = [row.row_id for row in found if isinstance(row.outcome, FoundationQuestion)]
    assert kept_ids == ["defan_sports_0", "defan_sports_15"]
    rejects = [row.outcome for row in found if isinstance(row.outcome, Reject)]
    assert len(rejects) == 28
    assert rejects[-1] == Reject("defan_sports_29", "paraphrase", "paraphrase of the question in row 16")


@pytest.mark.parametrize(
    ("domain", "answer", "kind", "output", "answer_type"),
    [
        ("sports", "45,000", "numeric", "45,000", "numerical"),
        ("worldorg", " 24 October 1945 ", "date", "24 October 1945", "date"),
        ("conferences", "Paris", "city", "Paris", "other"),
        ("QSRanking", "  7 ", "rank", "7", "rank"),
        ("QSRanking", "\xa0=12", "rank", "12", "rank"),
        ("QSRanking", "007", "numeric", "7", "rank"),
        ("QSRanking", "601-610", "rank", "601-610", "rank"),
    ],
)
def test_defan_answer_type_follows_its_type_and_domain(
    tmp_path: Path, domain: str, answer: str, kind: str, output: str, answer_type: str
) -> None:
    path = write(tmp_path, "defan", defan_group(answer, kind), f"QA_domain_{domain}_public.csv")
    first = read_file("defan", path)[0].outcome
    assert isinstance(first, FoundationQuestion)
    assert (first.domain, first.output, first.answer_type) == (domain.lower(), output, answer_type)


def test_truncated_or_mixed_defan_group_is_reported(tmp_path: Path) -> None:
    cut = write(tmp_path, "defan", [*defan_group("Ada", "name"), *defan_group("Bob", "name", 14)])
    with pytest.raises(SourceError, match=r"the last group, from row 16 on, has 14 rows instead of 15"):
        read_file("defan", cut)
    mixed = [*defan_group("Ada", "name"), *defan_group("Bob", "name", 14), *defan_group("Eve", "name", 1)]
    found = read_file("defan", write(tmp_path, "defan", mixed))
    assert Counter(row.outcome.reason for row in found if isinstance(row.outcome, Reject)) == {
        "paraphrase": 14, "malformed_row": 15,
    }  # fmt: skip
    shifted = [*defan_group("Ada", "name", 7), *defan_group("Bob", "name", 8)]
    with pytest.raises(SourceError, match=r"row 1: rows 1 to 15 .*15"):
        read_file("defan", write(tmp_path, "defan", shifted))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("__import__('os').system('true')", "dict of plain values (ValueError)"),
        ("{'topic': open('/etc/passwd').read(), 'answer_type': 'x', 'urls': []}", "dict of plain values"),
        ("{'topic': f'{1}', 'answer_type': 'x', 'urls': []}", "dict of plain values"),
        ("(" * 5000 + ")" * 5000, "dict of plain values"),
        ("-" * 15_000 + "1", "dict of plain values"),
        ("9" * 6000, "dict of plain values"),
        ("{[]: 1}", "dict of plain values (TypeError)"),
        ("{'topic': 'Art'", "dict of plain values (SyntaxError)"),
        ("{'topic': '" + "x" * 30_000 + "'}", "is longer than 20000 characters"),
        ("['topic']", "object"),
        ("{'topic': 3, 'answer_type': 'x', 'urls': []}", "the column topic is no text"),
        ("{'topic': 'Art', 'answer_type': 'x', 'urls': 'https://a.org'}", "has no list of urls"),
        ("{'topic': 'Art', 'answer_type': 'x', 'urls': [1]}", "has no list of urls"),
        ("{'topic': '\\ud800', 'answer_type': 'x', 'urls': []}", "half a surrogate pair"),
    ],
)  # fmt: skip
def test_malicious_metadata_is_refused_and_never_executed(text: str, problem: str) -> None:
    found = parse_simpleqa_metadata(text)
    assert isinstance(found, str)
    assert problem in found
