"""List the habits by name: how each server changes a well-formed reply, and what it refuses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from support.habits import dresses
from support.habits.dresses import Dress, say_plainly
from support.habits.wrong_contents import WRONG_CONTENTS


@dataclass(frozen=True)
class Habit:
    """One server behaviour."""

    dress: Dress = say_plainly
    kind: Literal["well meant", "no answer", "wrong"] = "well meant"
    """Correct contents in a wrapper; nothing readable; wrong contents."""
    mends: bool = False
    """True: the model answers a correction in the agreed form."""
    refuses: tuple[str, ...] = ()
    """Parameters that the server refuses."""
    fixed_temperature: bool = False
    """True: the server refuses a temperature other than 1."""
    strict_roles: bool = False
    """True: roles must alternate."""
    ignores_n: bool = False
    most_storms: int = 0
    """Maximum number of 429 responses to a request before its answer."""
    word_s: float = 0.0
    """Seconds per word."""
    model: Mapping[str, bool] = field(default_factory=dict)
    """The model's settings in the world's file."""


_SCHEMA = {"json_schema": True}
HABITS: dict[str, Habit] = {
    "well-formed": Habit(),
    "fenced": Habit(dresses.fence),
    "preamble": Habit(dresses.lead_in, mends=True),
    "thinking aloud": Habit(dresses.think_aloud),
    "numbered otherwise": Habit(dresses.number_otherwise),
    "bold": Habit(dresses.embolden),
    "trailing remark": Habit(dresses.remark, mends=True),
    "full-width marks": Habit(dresses.widen),
    "gloss": Habit(dresses.gloss, mends=True),
    "table": Habit(dresses.tabulate, mends=True),
    "heading": Habit(dresses.head, mends=True),
    "tags": Habit(dresses.tag, mends=True),
    "other digits": Habit(dresses.number_in_script, mends=True),
    "marks of sources": Habit(dresses.mark_sources, mends=True),
    "explanation": Habit(dresses.explain, mends=True),
    "next turn": Habit(dresses.go_on, mends=True),
    "JSON5": Habit(dresses.write_json5, mends=True),
    "emoji": Habit(dresses.decorate, mends=True),
    "all at once": Habit(dresses.do_all, mends=True),
    "any dress": Habit(dresses.dress_anyhow, mends=True),
    "takes n": Habit(model={"choices": True}),
    "ignores n": Habit(ignores_n=True, model={"choices": True}),
    "takes a schema": Habit(model=_SCHEMA),
    "ignores the schema": Habit(dresses.lead_in_and_fence, mends=True, model=_SCHEMA),
    "refuses the schema": Habit(refuses=("response_format",), model=_SCHEMA),
    "refuses tools": Habit(refuses=("tools",)),
    "refuses max_tokens": Habit(refuses=("max_tokens",)),
    "refuses temperature": Habit(refuses=("temperature",)),
    "fixed temperature": Habit(fixed_temperature=True),
    "heeds corrections": Habit(dresses.miss_the_form, mends=True),
    "strict roles": Habit(dresses.miss_the_form, mends=True, strict_roles=True),
    "reasoning model": Habit(
        dresses.think_and_dress, mends=True, refuses=("max_tokens", "temperature"), strict_roles=True
    ),
    "storms of 429": Habit(most_storms=2),
    "slow tokens": Habit(word_s=0.002),
    "refusing": Habit(dresses.refuse, "no answer"),
    "cut off": Habit(dresses.cut_off, "no answer"),
    "empty": Habit(dresses.say_nothing, "no answer"),
    "JSON 10,000 deep": Habit(dresses.nest, "no answer"),
    **{name: Habit(dress, "wrong") for name, dress in WRONG_CONTENTS.items()},
}
