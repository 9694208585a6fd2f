"""The relations that join a pair of people, and the first paragraph about them (BioKaLMA, paper Appendix A.1, A.3).

The first person of a pair is the relation's subject, the second its value: <William Shakespeare, spouse, Anne
Hathaway>. A relation's name must be unambiguous in this direction: "father of" is the relation child, "child of" could
be two and is none.

The paper starts from human-written paragraphs of one or two sentences that name both people. An article gives the same:
its first sentence, which introduces its subject, and the first sentence that names the other person.
"""

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from factmill.tasks.errors import SettingsError
from factmill.tasks.text.article_html import ArticleMainText
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.wikidata_ids import is_pid

_FILE = "pair_relations.csv"
_COLUMNS = ["pid", "label", "between", "inverse", "other_names"]


@dataclass(frozen=True, slots=True)
class PairRelationCatalog:
    """The relations that may join a pair."""

    labels: Mapping[str, str]
    """PID → English label, in the order of the list."""
    people_pids: tuple[str, ...]
    """PIDs of relations between two people; the others join organisations, or a person and an organisation."""
    inverses: Mapping[str, frozenset[str]]
    """PID → PIDs of its inverse relations (child: father, mother); empty where there are none."""
    pids: Mapping[str, str]
    """Name folded by `fold_name_case_and_apostrophes` → PID; names are ids, labels and other names."""

    def find_pid(self, text: str) -> str | None:
        """Return the PID that a text names by id, label or other name, in any case; None when it names none."""
        return self.pids.get(fold_name_case_and_apostrophes(text))


_NO_RELATIONS = PairRelationCatalog({}, (), {}, {})


def parse_pair_relations_csv(
    text: str, file: str = _FILE, known: PairRelationCatalog = _NO_RELATIONS
) -> PairRelationCatalog:
    """Parse a list of relations (CSV), which adds to the `known` ones; SettingsError names the file and the malformed line."""
    reader = csv.DictReader(io.StringIO(text))
    if reader.fieldnames != _COLUMNS:
        raise SettingsError(f"{file}: expected the columns {_COLUMNS}, found {reader.fieldnames}")
    labels, default = {**known.labels}, [*known.people_pids]
    inverses, pids = {**known.inverses}, {**known.pids}
    for line in reader:
        place = f"{file}, line {reader.line_num}"
        if line["pid"] in known.labels:
            label = known.labels[line["pid"]]
            raise SettingsError(f"{place}: {line['pid']} ({label}) is known without it; leave the line out")
        if len(line) != len(_COLUMNS) or None in line.values() or not is_pid(line["pid"]) or line["pid"] in labels:
            raise SettingsError(f"{place}: expected five columns and a new PID, found {line}")
        if not line["label"].strip():
            raise SettingsError(f"{place}: expected a label for {line['pid']}")
        if line["between"] not in ("people", "others"):
            raise SettingsError(f"{place}: expected people or others in column between, found {line['between']!r}")
        inverses[line["pid"]] = frozenset(filter(None, line["inverse"].split("|")))
        if wrong := [pid for pid in inverses[line["pid"]] if not is_pid(pid)]:
            raise SettingsError(f"{place}: expected PIDs separated by | in column inverse, found {wrong[0]!r}")
        names = {
            fold_name_case_and_apostrophes(name)
            for name in (line["pid"], line["label"], *line["other_names"].split("|"))
        } - {""}
        if taken := sorted(names & pids.keys()):
            raise SettingsError(
                f"{place}: {pids[taken[0]]} already has the name {taken[0]!r}; give the name to only one relation"
            )
        pids.update(dict.fromkeys(names, line["pid"]))
        labels[line["pid"]] = line["label"].strip()
        if line["between"] == "people":
            default.append(line["pid"])
    return PairRelationCatalog(labels, tuple(default), inverses, pids)


def fold_name_case_and_apostrophes(text: str) -> str:
    """Return a name's compared form: case folded, single spaces, one form of the apostrophe."""
    return " ".join(text.split()).casefold().replace("’", "'")


_FINAL_STOP = re.compile(r"[.!?…][\"'”’»)\]]*$")


def compose_opening_about_both_people(article: ArticleMainText, name: str, other: str) -> str | None:
    """Return the article's sentences that open a paragraph about both people; None unless it names both in full."""
    paragraphs = (paragraph for section in article.sections for paragraph in section.paragraphs)
    sentences = [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]
    about = next((sentence for sentence in sentences if contains_name(sentence, other)), None)
    if about is None:
        return None
    text = about if about == sentences[0] else f"{join_lines_and_end_with_stop(sentences[0])} {about}"
    return text if contains_name(text, name) else None


def contains_name(text: str, name: str) -> bool:
    """True when a text contains a name as whole words, ignoring case."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def join_lines_and_end_with_stop(text: str) -> str:
    """Return a paragraph on one line with a final stop, so that a sentence can follow."""
    line = " ".join(text.split())
    return line if _FINAL_STOP.search(line) else f"{line}."
