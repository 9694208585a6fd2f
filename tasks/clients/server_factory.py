"""Factories for the client of a chat model's server and for its batch jobs, by the model's kind."""

from collections.abc import Callable

from factmill.tasks.clients.anthropic_server import AnthropicServer
from factmill.tasks.clients.batch_jobs.anthropic_batches import AnthropicBatches
from factmill.tasks.clients.batch_jobs.openai_batches import OpenAiBatches
from factmill.tasks.clients.openai_server import OpenAiServer
from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.core.service_settings import ModelSettings


def make_chat_server(model: ModelSettings, read_key: Callable[[], str], user_agent: str) -> OpenAiServer:
    """Make the client of a chat model's server; SettingsError where its SDK is not installed."""
    kind = AnthropicServer if model.kind == "anthropic" else OpenAiServer
    return kind(model, read_key, user_agent)


def make_batch_client(server: OpenAiServer, jobs: BatchJobSettings, attempts: int, **more: int) -> OpenAiBatches:
    """Make the client of a server's batch jobs; `attempts` and `more`: as Remote takes them."""
    if isinstance(server, AnthropicServer):
        return AnthropicBatches(server, jobs, attempts, **more)
    return OpenAiBatches(server, jobs, attempts, **more)
