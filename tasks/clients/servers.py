"""Factories for the client of a chat model's server and for its batch jobs, by the model's kind."""

from collections.abc import Callable

from factmill.tasks.clients.anthropic_server import AnthropicServer
from factmill.tasks.clients.batch_jobs.message_batches import MessageBatches
from factmill.tasks.clients.batch_jobs.remote import Remote
from factmill.tasks.clients.openai_server import OpenAiServer
from factmill.tasks.core.calls.chat import Jobs
from factmill.tasks.core.service_settings import Model


def open_server(model: Model, read_key: Callable[[], str], user_agent: str) -> OpenAiServer:
    """Make the client of a chat model's server; SettingsError where its SDK is not installed."""
    kind = AnthropicServer if model.kind == "anthropic" else OpenAiServer
    return kind(model, read_key, user_agent)


def open_jobs(server: OpenAiServer, jobs: Jobs, attempts: int, **more: int) -> Remote:
    """Make the client of a server's batch jobs; `attempts` and `more`: as Remote takes them."""
    if isinstance(server, AnthropicServer):
        return MessageBatches(server, jobs, attempts, **more)
    return Remote(server, jobs, attempts, **more)
