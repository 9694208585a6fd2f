"""The rules author's wording of generated fan-out questions: a sentence from the pieces that the prompt gives (FanOutQA).

Each kind of question has a few sentence forms; which one is taken follows from the pieces, so that a build is repeated
word for word.
"""

import re
from collections.abc import Mapping, Sequence

from tasks.core.authoring.fanout_wording import EACH
from tasks.core.calls.knowledge import Knowledge
from tasks.core.fingerprints import seed_from

_CHOSEN = re.compile(r"(?:the (?P<count>\w+)|those) that (?P<phrase>.+)")
_ALL_OF_GROUP = ("{asked_of_each_of_group}?",)
_ALL_OF_NAMES = (
    "{asked_of_each_of_these}: {names}?",
    "{asked_of_each_of_following}: {names}?",
    "Consider these {group}: {names}. {asked_alone}?",
)
_SOME_OF_GROUP = (
    "Which {count}of {group} {phrase}, and {asked_of_chosen}?",
    "Of {group}, which {count}{phrase}, and {asked_of_chosen}?",
)
_SOME_OF_NAMES = ("Consider these {group}: {names}. Which {count}of them {phrase}, and {asked_of_chosen}?",)


def word_questions(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str]:
    """Return the question that each of the given pieces (group, names, choice, asked) make."""
    return [word_question(**asked) for asked in batch]


def word_question(group: str, names: str, choice: str, asked: str) -> str:
    """Return one question made of its pieces, in the form of the prompt fanoutqa/word_question."""
    chosen = _CHOSEN.fullmatch(choice)
    forms = (_SOME_OF_NAMES if names else _SOME_OF_GROUP) if chosen else (_ALL_OF_NAMES if names else _ALL_OF_GROUP)
    form = forms[seed_from(group, names, choice, asked) % len(forms)]
    count = chosen["count"] if chosen else None
    question = form.format(
        group=group,
        names=_enumerate(names.split("; ")),
        count=f"{count} " if count else "",
        phrase=chosen["phrase"] if chosen else "",
        asked=asked,
        asked_alone=_capitalise(asked),
        asked_of_each_of_group=asked.replace(EACH, f"each of {group}"),
        asked_of_each_of_these=asked.replace(EACH, f"each of these {group}"),
        asked_of_each_of_following=asked.replace(EACH, f"each of the following {group}"),
        asked_of_chosen=asked.replace(EACH, "each of those"),
    )
    return _capitalise(question)


def _capitalise(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _enumerate(names: Sequence[str]) -> str:
    """Return names as a list in words; semicolons part names that hold a comma or an "and" themselves."""
    if len(names) < 2:
        return "".join(names)
    mark = ";" if any("," in name or " and " in name for name in names) else ","
    return f"{f'{mark} '.join(names[:-1])}{mark if mark == ';' else ''} and {names[-1]}"
