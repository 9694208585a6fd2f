"""Factories for the client of a chat model's server and for its batch jobs, by the model's kind."""

from collections.abc import Callable

from factmill.tasks.clients.anthropic_server import AnthropicServerClient
from factmill.tasks.clients.batch_jobs.anthropic_batches import AnthropicBatchClient
from factmill.tasks.clients.batch_jobs.openai_batches import OpenAiBatchClient
from factmill.tasks.clients.openai_server import OpenAiServerClient
from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.core.service_settings import ModelSettings


def make_chat_server_client(model: ModelSettings, read_key: Callable[[], str], user_agent: str) -> OpenAiServerClient:
    """Make the client of a chat model's server; SettingsError where its SDK is not installed."""
    kind = AnthropicServerClient if model.kind == "anthropic" else OpenAiServerClient
    return kind(model, read_key, user_agent)


def make_batch_client(
    server: OpenAiServerClient, jobs: BatchJobSettings, attempts: int, **more: int
) -> OpenAiBatchClient:
    """Make the client of a server's batch jobs; `attempts` and `more`: as Remote takes them."""
    if isinstance(server, AnthropicServerClient):
        return AnthropicBatchClient(server, jobs, attempts, **more)
    return OpenAiBatchClient(server, jobs, attempts, **more)
