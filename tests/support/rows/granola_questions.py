"""Make a GRANOLA-EQ question after each step, and models that answer about it as a test says."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

from support.models.scripted_chat import Message, ScriptedChat

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.core.rows import Row
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits

LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=2, backoff_s=0.01)
COLUMNS = {
    "relation": "P19", "question": "Where was Ada Lovelace born?", "answer": "London", "source_name": "P19.json",
    "source_row": 1, "source_licence": "MIT", "question_entity": "Ada Lovelace", "question_entity_qid": "Q7259", "answer_entity_qid": "Q84",
    "question_entity_candidates": 1, "answer_entity_candidates": 2,
    "fact_in_graph": None, "answer_rivals": [], "other_values": [], "reviewed_by": [],
    "question_entity_description_made": False, "answer_entity_description_made": False,
    "question_entity_description": "English mathematician", "answer_entity_description": "capital of England",
    "question_entity_title": "Ada Lovelace", "answer_entity_title": "London", "question_entity_modified": None,
    "answer_entity_modified": "2023-01-01T00:00:00Z", "question_entity_popularity": 10, "answer_entity_popularity": 20,
    "levels": ["London", "England", "Europe"], "author": "tester", "author_call": "k",
    "question_description_score": 0.125, "answer_description_score": 0.25, "judge": "tester",
}  # fmt: skip
"""All columns that any step adds."""


R = TypeVar("R", bound=Row)


def make_row(model: type[R], row_id: str, **changed: Any) -> R:
    """Return the question after a step, with some columns changed."""
    columns = {name: value for name, value in COLUMNS.items() if name in model.model_fields}
    return model.model_validate({"id": row_id, **columns, **changed})


Said = str | int
"""The model's text, or the HTTP status of its error."""


@contextmanager
def serve_model(say: Callable[[Sequence[Message]], Said]) -> Iterator[Any]:
    """Serve a chat model that replies so to the messages of a request; yield services in which it plays every role."""
    chat = ScriptedChat(say)
    model = ModelSettings(kind="openai", name="tester", url=chat.url, limits=LIMITS)
    yield SimpleNamespace(model=lambda _role: (ChatClient(chat.url, model, lambda: "key", "factmill tests"), model))
    chat.close()
