"""Probes that find a refused parameter which the server does not name, by leaving out optional parameters in turn.

Each parameter is left out at most once a run, and all together once, so a run has few probes, not some per row. A
parameter that the server accepted in another request is not suspected, so a request refused for its content is not
probed once similar ones were answered. When no probe passes, the run makes no more of them.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from factmill.tasks.clients.refusals import has_tool_turns, is_changed_by_merging
from factmill.tasks.core.service_settings import Model


@dataclass(frozen=True, slots=True)
class Omission:
    """A parameter that a probe leaves out or changes."""

    name: str
    value: str
    """Value that another answered request proves acceptable: a server may accept one schema or temperature and not
    another."""
    settings: Mapping[str, Any]
    """Model settings that leave the parameter out."""


@dataclass(slots=True)
class Probes:
    """Probes of one model in one run; used in the sending loop only."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while one request is probed; other refused requests wait for the result."""
    found: dict[str, Any] = field(default_factory=dict)
    """Settings with which a request passed."""
    reason: str = ""
    """The server's refusal of a request that no probe made pass; empty: there is none."""
    _tried: dict[str, None] = field(default_factory=dict)
    _taken: set[tuple[str, str]] = field(default_factory=set)

    def note_answered(self, model: Model, sent: Mapping[str, Any]) -> None:
        """Record that the server accepted all parameters of a request."""
        self._taken.update((each.name, each.value) for each in list_omissions(model, sent))

    def iterate_omissions(self, model: Model, sent: Mapping[str, Any], *, repeats: bool = False) -> Iterator[Omission]:
        """Yield what to leave out of a request, the cheapest to lose first, all together last.

        An omission counts as tried once the next one is requested. `repeats`: first yield an empty omission, since the
        refusal may have been transient.
        """
        if self.reason:
            return
        suspected = self._list_suspected(model, sent)
        together = [each for each in suspected if each.name != "tools"]
        if len(together) > 1:
            settings = {name: value for each in together for name, value in each.settings.items()}
            suspected.append(Omission("all of them", "", settings))
        if suspected and repeats:
            yield Omission("nothing", "", {})
        for each in suspected:
            if each.name not in self._tried and self._list_suspected(model, sent):
                yield each
                self._tried[each.name] = None

    def give_up(self, model: Model, sent: Mapping[str, Any], reason: str) -> None:
        """Stop probing in this run, unless other requests have meanwhile proven all parameters acceptable."""
        if self._list_suspected(model, sent):
            self.reason = reason

    def _list_suspected(self, model: Model, sent: Mapping[str, Any]) -> list[Omission]:
        """Return the omissions of a request whose parameters no answer has proven acceptable."""
        return [each for each in list_omissions(model, sent) if (each.name, each.value) not in self._taken]

    def describe_tried(self) -> str:
        """Return the names of the parameters left out so far, such as `n, seed, all of them`."""
        return ", ".join(self._tried)


def list_omissions(model: Model, sent: Mapping[str, Any]) -> list[Omission]:
    """Return what can be left out of a request, the cheapest to lose first."""
    other_limit = "max_tokens" if model.token_limit == "max_completion_tokens" else "max_completion_tokens"
    settings: dict[str, dict[str, Any]] = {
        "n": {"choices": False},
        "seed": {"seed": False},
        "response_format": {"json_schema": False},
        "reasoning_effort": {"reasoning_effort": ""},
        "temperature": {"temperature": "none"},
        model.token_limit: {"token_limit": other_limit},
        "system": {"system": "merge"},
        "tools": {"tools": False},
    }
    by_value = ("response_format", "reasoning_effort", "temperature", "tools")
    is_in = {name: name in sent for name in settings} | {
        "system": model.system == "own" and is_changed_by_merging(sent["messages"]),
        "tools": "tools" in sent and not has_tool_turns(sent["messages"]),
    }
    return [
        Omission(name, json.dumps(sent[name]) if name in by_value else "", change)
        for name, change in settings.items()
        if is_in[name]
    ]
