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

from factmill.tasks.clients.unsupported_parameters import (
    LIMIT_NAMES,
    SETTING_WITHOUT_PARAMETER,
    has_tool_messages,
    needs_role_merging,
)
from factmill.tasks.core.service_settings import ModelSettings


@dataclass(frozen=True, slots=True)
class PossibleParameterOmission:
    """A parameter that a probe leaves out or changes."""

    name: str
    value: str
    """Value that another answered request proves acceptable: a server may accept one schema or temperature and not
    another."""
    settings: Mapping[str, Any]
    """Model settings that leave the parameter out."""


@dataclass(slots=True)
class ModelParameterProbes:
    """Probes of one model in one run; used in the sending loop only."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while one request is probed; other refused requests wait for the result."""
    found_settings: dict[str, Any] = field(default_factory=dict)
    """Settings with which a request passed."""
    unexplained_refusal: str = ""
    """The server's refusal of a request that no probe made pass; empty: there is none."""
    _tried_names: dict[str, None] = field(default_factory=dict)
    _accepted_values: set[tuple[str, str]] = field(default_factory=set)

    def note_accepted(self, model: ModelSettings, sent: Mapping[str, Any]) -> None:
        """Record that the server accepted all parameters of a request."""
        self._accepted_values.update((each.name, each.value) for each in list_omittable_parameters(model, sent))

    def iterate_omissions(
        self, model: ModelSettings, sent: Mapping[str, Any], *, repeats: bool = False
    ) -> Iterator[PossibleParameterOmission]:
        """Yield what to leave out of a request, the cheapest to lose first, all together last.

        An omission counts as tried once the next one is requested. `repeats`: first yield an empty omission, since the
        refusal may have been transient.
        """
        if self.unexplained_refusal:
            return
        suspected = self._list_suspected_omissions(model, sent)
        together = [each for each in suspected if each.name != "tools"]
        if len(together) > 1:
            settings = {name: value for each in together for name, value in each.settings.items()}
            suspected.append(PossibleParameterOmission("all of them", "", settings))
        if suspected and repeats:
            yield PossibleParameterOmission("nothing", "", {})
        for each in suspected:
            if each.name not in self._tried_names and self._list_suspected_omissions(model, sent):
                yield each
                self._tried_names[each.name] = None

    def give_up(self, model: ModelSettings, sent: Mapping[str, Any], reason: str) -> None:
        """Stop probing in this run, unless other requests have meanwhile proven all parameters acceptable."""
        if self._list_suspected_omissions(model, sent):
            self.unexplained_refusal = reason

    def _list_suspected_omissions(
        self, model: ModelSettings, sent: Mapping[str, Any]
    ) -> list[PossibleParameterOmission]:
        """Return the omissions of a request whose parameters no answer has proven acceptable."""
        return [
            each
            for each in list_omittable_parameters(model, sent)
            if (each.name, each.value) not in self._accepted_values
        ]

    def format_tried(self) -> str:
        """Return the names of the parameters left out so far, such as `n, seed, all of them`."""
        return ", ".join(self._tried_names)


def list_omittable_parameters(model: ModelSettings, sent: Mapping[str, Any]) -> list[PossibleParameterOmission]:
    """Return what can be left out of a request, the cheapest to lose first."""
    by_value = ("response_format", "reasoning_effort", "temperature", "tools")
    limits = {name: name in sent and name == model.token_limit for name in LIMIT_NAMES}
    is_in = {name: name in sent for name in SETTING_WITHOUT_PARAMETER} | limits
    is_in |= {
        "system": model.system == "own" and needs_role_merging(sent["messages"]),
        "tools": "tools" in sent and not has_tool_messages(sent["messages"]),
    }
    return [
        PossibleParameterOmission(name, json.dumps(sent[name]) if name in by_value else "", change)
        for name, change in SETTING_WITHOUT_PARAMETER.items()
        if is_in[name]
    ]
