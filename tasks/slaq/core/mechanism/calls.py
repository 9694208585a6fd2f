"""What is asked of a model that is taken apart, and the form of its answers; a replay needs no model.

| operation | parts | body of the reply |
|---|---|---|
| ablate | messages, answer, start, end (of the part that counts, in characters), recover, largest_set, centre | `{"heads": h, "tokens": [{"token", "base", "importances", "chosen", "recovered"}, …]}` |

One call an answer's part, so that a killed run goes on at the next one, and another draw of facts ablates nothing twice. What
a model cannot say is a failed reply `<reason>: <detail>`, reasons as in rows.Unscored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.core.calls.call import Call, Reply
from tasks.slaq.core.mechanism.rows import TokenEffect

ABLATE = "ablate"


def call_ablate(
    service: str,
    messages: Sequence[Mapping[str, Any]],
    answer: str,
    start: int,
    text: str,
    *,
    recover: float,
    largest_set: float,
    centre: bool,
) -> Call:
    """Ask what carries the tokens of a text that stands in an answer at `start`."""
    return Call(
        service,
        ABLATE,
        {
            "messages": [dict(each) for each in messages],
            "answer": answer,
            "start": start,
            "end": start + len(text),
            "recover": recover,
            "largest_set": largest_set,
            "centre": centre,
        },
    )


def read_effects(body: Any) -> tuple[int, list[TokenEffect]]:
    """Read the answer to ablate: heads a layer, and the tokens in order."""
    return int(body["heads"]), [TokenEffect.model_validate(each) for each in body["tokens"]]


def read_failure(reply: Reply) -> tuple[str, str]:
    """Return reason and detail of a failed reply."""
    reason, _, detail = (reply.error or "").partition(": ")
    return reason, detail
