"""Serve a judge model over HTTP whose manners a test sets for each question, and which records prompts and replies."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from support.models.scripted_chat import Message, Said, ScriptedChat

_QUESTION = re.compile(r"<question>(.*?)</question>", re.DOTALL)
_PATHS = re.compile(r"<paths>\n(.*)\n</paths>", re.DOTALL)
_PATH = re.compile(r"<path>(.*)</path>", re.DOTALL)


@dataclass(frozen=True)
class Manners:
    """How a judge answers about one question; the flag is true for the correction of an unreadable reply."""

    select: Callable[[Sequence[str], bool], Said]
    """Argument: the paths as shown."""
    score: Callable[[str, bool], Said]
    """Argument: one path."""


class ScriptedJudge(ScriptedChat):
    """The judge; `manners`: question → how it answers."""

    def __init__(self, manners: Mapping[str, Manners]) -> None:
        self.manners = dict(manners)
        self.shown: dict[str, set[str]] = defaultdict(set)
        """Question → paths that the judge could select."""
        self.selections: Counter[str] = Counter()
        """Question → number of requests to select."""
        self.scored: dict[tuple[str, str], list[Said]] = defaultdict(list)
        """Question, path → the judge's replies about the path, in order."""
        super().__init__(self._judge)

    @property
    def asked(self) -> int:
        """Return the number of requests."""
        return self.selections.total() + sum(map(len, self.scored.values()))

    def _judge(self, messages: Sequence[Message]) -> Said:
        is_again = "<question>" not in messages[-1]["content"]
        text = messages[-3 if is_again else -1]["content"]
        (question,) = _QUESTION.findall(text)
        if found := _PATHS.search(text):
            paths = found[1].split("\n")
            self.shown[question].update(paths)
            self.selections[question] += 1
            said = self.manners[question].select(paths, is_again)
        else:
            (path,) = _PATH.findall(text)
            said = self.manners[question].score(path, is_again)
            self.scored[question, path].append(said)
        return said


def pick(*paths: str) -> str:
    """Return a reply that selects paths, in the agreed form."""
    return "\n".join(f"Path: {path}" for path in paths)


def pick_first_ten(paths: Sequence[str], _is_again: bool) -> Said:
    """Select the first ten in alphabetical order, so that both passes agree."""
    return pick(*sorted(paths)[:10])


def always(said: Said) -> Callable[[object, bool], Said]:
    """Return manners that give one answer to everything."""
    return lambda _shown, _is_again: said
