"""Probes: what a server refuses without saying what is found by leaving out one optional parameter after another.

Each parameter is left out once a run at most, and all of them together once, so a run has a few probes and not a few for each
row. A parameter that the server has answered in another request is not to blame, so a request that is refused for its content
is not probed once others like it were answered. When no probe passes, the run has no further ones.
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
    """A parameter that a probe leaves out, or sends otherwise."""

    name: str
    value: str
    """What of it an answer to another request shows to be taken: a server may take one schema or temperature and not another."""
    settings: Mapping[str, Any]
    """By which the model is asked without it."""


@dataclass(slots=True)
class Probes:
    """The probes of one model in one run; used in the sending loop alone."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while one request is probed, so that others that are refused meanwhile wait for what comes of it."""
    found: dict[str, Any] = field(default_factory=dict)
    """Settings by which a request passed."""
    reason: str = ""
    """What the server said of the request that no probe made pass; empty: there is none."""
    _tried: dict[str, None] = field(default_factory=dict)
    _taken: set[tuple[str, str]] = field(default_factory=set)

    def note_answered(self, model: Model, sent: Mapping[str, Any]) -> None:
        """Note that the server takes all parameters of a request."""
        self._taken.update((each.name, each.value) for each in list_omissions(model, sent))

    def iterate_omissions(self, model: Model, sent: Mapping[str, Any], *, repeats: bool = False) -> Iterator[Omission]:
        """Yield what to leave out of a request, the cheapest to lose first, all together last. An omission counts as tried once
        the next one is asked for.

        `repeats`: nothing is left out at first, since the refusal may have been a passing one.
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
        """Have no further probes in this run, unless all that a request holds was answered in others meanwhile."""
        if self._list_suspected(model, sent):
            self.reason = reason

    def _list_suspected(self, model: Model, sent: Mapping[str, Any]) -> list[Omission]:
        """Return what of a request no answer has shown to be taken."""
        return [each for each in list_omissions(model, sent) if (each.name, each.value) not in self._taken]

    def describe_tried(self) -> str:
        """Return the names of what was left out, such as `n, seed, all of them`."""
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
