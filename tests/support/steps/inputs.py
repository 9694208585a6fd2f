"""Make the inputs of each benchmark's steps: its parameters, and what a build would have found."""

from typing import Any, TypeVar

from factmill.tasks.biokalma.params import BiokalmaInputs
from factmill.tasks.core.review import ReviewPolicyAndDecisions
from factmill.tasks.engine.benchmark import BuildInputs
from factmill.tasks.fanoutqa.params import FanOutInputs
from factmill.tasks.granola.params import GranolaInputs
from factmill.tasks.multihal.params import MultiHalInputs
from factmill.tasks.slaq.params import SlaqInputs

I = TypeVar("I", bound=BuildInputs)  # noqa: E741 - inputs


def granola_inputs(**given: Any) -> GranolaInputs:
    found = {"views_from": "20250101", "views_to": "20251231", "reviewing": ReviewPolicyAndDecisions(policy="auto")}
    return _make(GranolaInputs, given, from_wikidata=False, limits={}, **found)


def multihal_inputs(**given: Any) -> MultiHalInputs:
    return _make(MultiHalInputs, given, languages=("eng",), embedder={}, translator=None)


def biokalma_inputs(**given: Any) -> BiokalmaInputs:
    found = {"epoch": "2026-01-01T00:00:00Z", "licence": "CC0-1.0", "perplexity": "lm"}
    return _make(BiokalmaInputs, given, from_wikidata=False, limits={}, **found)


def slaq_inputs(**given: Any) -> SlaqInputs:
    found = {"epoch": "2026-01-01T00:00:00Z", "views_from": "20250101", "views_to": "20251231"}
    found["articles_at"] = "https://wiki.example/wiki/"
    reviewing = ReviewPolicyAndDecisions(policy="auto")
    return _make(SlaqInputs, given, categories=(), licence="CC-BY-SA-4.0", reviewing=reviewing, **found)


def fanout_inputs(**given: Any) -> FanOutInputs:
    found = {
        "epoch": "2023-11-20T00:00:00Z",
        "licence": "CC0-1.0",
        "reviewing": ReviewPolicyAndDecisions(policy="auto"),
    }
    return _make(FanOutInputs, given, units=(), wiki="embedded", embedder={}, **found)


def _make(model: type[I], given: dict[str, Any], **found: Any) -> I:
    """Return inputs from the given values: parameters by name, and other fields that replace those of `found`."""
    params = {name: value for name, value in given.items() if name not in model.model_fields}
    others = {name: value for name, value in given.items() if name in model.model_fields}
    return model.model_validate({"params": params, **found, **others})
