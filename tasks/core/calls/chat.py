"""What is asked of a chat model, and the form of its answer.

`chat`: parts are those of the Ask (prompt, digest, variables, samples, sampling) and the model's name; the body is
`{"texts": [str], "finish": [str], "fingerprint": str or null}`, one text and one finish reason a sample.

The messages and the schema follow from the parts and are sent beside them (`Call.wire`).
"""

from collections.abc import Mapping
from typing import Any

from tasks.core.calls.call import Call
from tasks.core.prompts import Ask


def call_chat(service: str, model_name: str, ask: Ask, profile: Mapping[str, Any] | None = None) -> Call:
    """Ask a model a filled-in prompt; `profile`: by what settings requests to this model are not as to most."""
    schema = None if ask.prompt.schema is None else dict(ask.prompt.schema)
    return Call(
        service,
        "chat",
        {**ask.parts(), "model": model_name},
        {"messages": ask.messages(), "schema": schema, **({"profile": dict(profile)} if profile else {})},
    )
