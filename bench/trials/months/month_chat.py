"""A model behind a real HTTP server that answers every prompt of the month's builds as expected."""

import json
import re
from collections.abc import Sequence
from functools import cache

from support.models.scripted_chat import Message, ScriptedChat
from trials.months.month_world import SOURCE

from factmill.tasks.assets import load_prompt
from factmill.tasks.world.data import WORLD_FOLDER, ItemValue
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.scripted_replies import load_scripted_replies

_PLAIN = {
    "granola/description_consistency": "Yes",
    "slaq/check": "\n".join(f"{number}: ok" for number in range(1, 6)),
    "slaq/fact_type": "Type: none",
    "fanoutqa/objective": "What a gauge reads can be looked up.\nY\nY",
    "fanoutqa/wording": "No change.",
}


class MonthChat:
    """The server; `asked` counts its requests."""

    def __init__(self) -> None:
        self.asked = 0
        self._answers = read_answers()
        self._prompts = {
            load_prompt(name).parts[0][1]: name for name in (*_PLAIN, "granola/granular_answers", "slaq/generate")
        }
        self._chat = ScriptedChat(self._say)
        self.url = self._chat.url

    def close(self) -> None:
        """Stop the server."""
        self._chat.close()

    def _say(self, messages: Sequence[Message]) -> tuple[int, str]:
        self.asked += 1
        prompt, said = self._prompts[messages[0]["content"]], messages[-1]["content"]
        if prompt in _PLAIN:
            return 200, _PLAIN[prompt]
        if prompt == "slaq/generate":
            return 200, _write_questions(re.findall("<topic>(.*?)</topic>", said)[-1])
        place, country = next(levels for question, levels in self._answers.items() if question in said)
        return 200, f"1:: {place}\n2:: {country}"


def read_answers() -> dict[str, tuple[str, str]]:
    """Return question → its answer and that place's country, from the initial embedded world."""
    items = load_world_data(WORLD_FOLDER).items
    countries = {
        item.labels["en"]: items[statement.value.qid].labels["en"]
        for item in items.values()
        for statement in item.list_statements_of("P17")
        if isinstance(statement.value, ItemValue)
    }
    asked = json.loads(SOURCE.read_text("utf-8"))
    return {each["question"]: (each["answers"][0], countries.get(each["answers"][0], "Earth")) for each in asked}


def _write_questions(topic: str) -> str:
    """Return the questions for an article; text that the trial adds to the article has no effect."""
    return read_questions().get(topic, "I do not know this topic.")


@cache
def read_questions() -> dict[str, str]:
    """Return article title → the scripted completion without faults."""
    replies = load_scripted_replies("slaq/generate").replies
    return {dict(key)["topic"]: reply.text for key, reply in replies.items() if not reply.fault}
