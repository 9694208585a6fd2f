"""What is asked of a worker, by digest, and how the scheduler is told: as the name of a resource, which only those have
that hold the very model or graph and answer with the very code. So nothing is sent anywhere else, whoever joins or dies.
"""

import importlib.metadata
import json
from dataclasses import dataclass
from functools import cache
from typing import Literal

from tasks.engine.naming.import_closure import digest_closure
from tasks.engine.naming.own_code import read_code

Kind = Literal["translator", "perplexity", "embedder", "cross-encoder", "graph"]

ANSWERING = "tasks.engine.cluster.answering"
"""Module of what workers run."""
_LIBRARIES = ("ctranslate2", "numpy", "sentencepiece", "tokenizers")
"""Whose versions may turn a bit of what a model says."""
_MARK = "factmill"


@dataclass(frozen=True, order=True, slots=True)
class Wanted:
    """A model or graph."""

    kind: Kind
    identity: str
    """Of a translator or language model, name, digest and numbers it computes in; else the digest."""

    def __str__(self) -> str:
        return f"{self.kind} {self.identity}"


@dataclass(frozen=True, order=True, slots=True)
class Held:
    """A model or graph as a worker holds it."""

    wanted: Wanted
    code: str
    """What the worker answers with (`name_code`)."""


def name_resource(held: Held) -> str:
    """Return the name by which the scheduler knows what a worker holds."""
    return json.dumps([_MARK, held.wanted.kind, held.wanted.identity, held.code])


def read_resource(name: str) -> Held | None:
    """Return what a resource's name says; None for one that is not ours."""
    try:
        mark, kind, identity, code = json.loads(name)
    except (ValueError, TypeError):
        return None
    return Held(Wanted(kind, identity), code) if mark == _MARK else None


@cache
def name_code() -> str:
    """Return what replies are computed with: our version, the code that answers, and the libraries it rests on."""
    versions = " ".join(f"{each} {importlib.metadata.version(each)}" for each in _LIBRARIES)
    return f"factmill {digest_closure([ANSWERING], read_code())[:12]} {versions}"
