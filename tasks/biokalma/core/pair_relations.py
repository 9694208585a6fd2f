"""The relations that join a pair of people, and the paragraph about them to begin with (BioKaLMA, paper Appendix A.1, A.3).

A relation is told of the first of the pair; the second is its value: <William Shakespeare, spouse, Anne Hathaway>. A
name must therefore say which of the two is meant: "father of" is the relation child, "child of" could be two and is none.

The paper begins with human-written paragraphs of one or two sentences that name both people. An article gives the same:
its first sentence, which says who its subject is, and the first sentence that names the other.
"""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from factmill.tasks.errors import SettingsError
from factmill.tasks.text.article import Article
from factmill.tasks.text.ids import is_pid
from factmill.tasks.text.sentences import split_sentences

_FILE = "pair_relations.csv"
_COLUMNS = ["pid", "label", "between", "inverse", "other_names"]


@dataclass(frozen=True, slots=True)
class PairRelations:
    """The relations that pairs may have."""

    labels: Mapping[str, str]
    """PID → English label, in the order of the list."""
    default: tuple[str, ...]
    """PIDs of those between two people; the others join organisations, or a person and one."""
    inverses: Mapping[str, frozenset[str]]
    """PID → PIDs that say the same the other way round (child: father, mother); none for a relation that has no such."""
    pids: Mapping[str, str]
    """Name, as `fold_name` writes it, → PID: ids, labels and other names."""

    def find(self, text: str) -> str | None:
        """Return the PID that a text names by id, label or other name, whatever its case; None when it names none."""
        return self.pids.get(fold_name(text))

    def label(self, pid: str) -> str:
        """Return the label of a relation of the list."""
        return self.labels[pid]


def read_pair_relations(text: str) -> PairRelations:
    """Read the list of relations (CSV); SettingsError names the line that is wrong."""
    reader = csv.DictReader(io.StringIO(text))
    if reader.fieldnames != _COLUMNS:
        raise SettingsError(f"{_FILE}: expected the columns {_COLUMNS}, found {reader.fieldnames}")
    labels: dict[str, str] = {}
    default: list[str] = []
    inverses: dict[str, frozenset[str]] = {}
    pids: dict[str, str] = {}
    for line in reader:
        place = f"{_FILE}, line {reader.line_num}"
        if len(line) != len(_COLUMNS) or None in line.values() or not is_pid(line["pid"]) or line["pid"] in labels:
            raise SettingsError(f"{place}: expected five columns and a new PID, found {line}")
        if not line["label"].strip():
            raise SettingsError(f"{place}: expected a label for {line['pid']}")
        if line["between"] not in ("people", "others"):
            raise SettingsError(f"{place}: expected people or others in column between, found {line['between']!r}")
        inverses[line["pid"]] = frozenset(filter(None, line["inverse"].split("|")))
        if wrong := [pid for pid in inverses[line["pid"]] if not is_pid(pid)]:
            raise SettingsError(f"{place}: expected PIDs with | between in column inverse, found {wrong[0]!r}")
        names = {fold_name(name) for name in (line["pid"], line["label"], *line["other_names"].split("|"))} - {""}
        if taken := sorted(names & pids.keys()):
            raise SettingsError(f"{place}: the name {taken[0]!r} stands for {pids[taken[0]]} already; give it to one")
        pids.update(dict.fromkeys(names, line["pid"]))
        labels[line["pid"]] = line["label"].strip()
        if line["between"] == "people":
            default.append(line["pid"])
    return PairRelations(labels, tuple(default), inverses, pids)


def fold_name(text: str) -> str:
    """Return a name as it is compared: small letters, plain spaces, and one form of the apostrophe."""
    return " ".join(text.split()).casefold().replace("’", "'")


_END = re.compile(r"[.!?…][\"'”’»)\]]*$")


def find_opening(article: Article, name: str, other: str) -> str | None:
    """Return the sentences that open a paragraph about both; None unless the article names both in full."""
    sentences = [
        sentence
        for section in article.sections
        for paragraph in section.paragraphs
        for sentence in split_sentences(paragraph)
    ]
    if not sentences:
        return None
    about = next((sentence for sentence in sentences if names(sentence, other)), None)
    if about is None:
        return None
    text = about if about == sentences[0] else f"{finish_paragraph(sentences[0])} {about}"
    return text if names(text, name) else None


def names(text: str, name: str) -> bool:
    """True when a name stands in a text as a whole, ignoring case."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def finish_paragraph(text: str) -> str:
    """Return a paragraph on one line and with an end, so that a sentence can follow."""
    line = " ".join(text.split())
    return line if _END.search(line) else f"{line}."
