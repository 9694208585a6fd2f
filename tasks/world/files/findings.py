"""Violations found in the world's files, collected so that one reading shows all of them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with the files."""

    file: str
    """Path below the world's folder."""
    key: str
    """Where in the file: an id, `Q64.P19`, a title."""
    problem: str
    """What was found and what was expected."""

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.problem}"


@dataclass(slots=True)
class Findings:
    """The violations found so far, the file being read, and where each thing was described."""

    file: str = ""
    found: list[Violation] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """`item Q64`, `article Algebra`, `redirect Algebraic theory` … → file it was read from."""

    def add(self, key: str, problem: str) -> None:
        """Note a violation in the file being read."""
        self.found.append(Violation(self.file, key, problem))

    def add_about(self, owner: str, key: str, problem: str) -> None:
        """Note a violation in the file that `owner` was read from."""
        self.found.append(Violation(self.files[owner], key, problem))

    def claim(self, owner: str) -> bool:
        """Note that this file describes `owner`; False, and a violation, when another did before."""
        if owner in self.files:
            self.add(owner, f"described twice; it stands in {self.files[owner]} already")
            return False
        self.files[owner] = self.file
        return True


def parse_mapping(text: str, findings: Findings) -> list[tuple[str, Any]]:
    """Read YAML text as key → value pairs, every scalar as text; a key that stands twice comes twice."""
    try:
        node = yaml.compose(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError as error:
        hint = "; a lone ? must be written in quotes" if "mapping keys are not allowed" in str(error) else ""
        findings.add("YAML", " ".join(str(error).split()) + hint)
        return []
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        findings.add("YAML", "expected a mapping at the top")
        return []
    return [(str(key.value), _plain(value, str(key.value), findings)) for key, value in node.value]


def read_texts(key: str, given: Any, findings: Findings) -> list[str]:
    """Return one text or a list of texts as a list; anything else in it is a violation and left out."""
    entries = given if isinstance(given, list) else [given]
    texts = [entry for entry in entries if isinstance(entry, str) and entry]
    if len(texts) != len(entries):
        findings.add(key, "expected a text or a list of texts")
    return texts


def _plain(node: yaml.Node, key: str, findings: Findings) -> Any:
    if isinstance(node, yaml.MappingNode):
        counts = Counter(str(name.value) for name, _ in node.value)
        for name, count in counts.items():
            if count > 1:
                findings.add(f"{key}.{name}", f"stands {count} times; expected once")
        return {str(name.value): _plain(value, f"{key}.{name.value}", findings) for name, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(value, key, findings) for value in node.value]
    return str(node.value)
