"""Anthropic's own API (`kind = "anthropic"`): the official SDK builds, signs and sends the requests.

Chat writes and reads bodies of the chat protocol of OpenAI; this server translates them (anthropic_messages.py). All else,
such as limits, redirects, prices and the bound of a run, is OpenAiServer's. Errors come as the API sent them.

The SDK is the extra `anthropic`, so it is imported when the first such model is asked. Requests go through its generic
`post`, as OpenAiServer's do; `messages.create` would also refuse replies of more than some 21,000 tokens without a stream,
because they may take over ten minutes: `limits.timeout_s` is what holds here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import httpx2

from tasks.clients.anthropic_messages import read_text, write_request
from tasks.clients.openai_server import FILE_DEADLINE_S, FILE_TIMEOUT_S, UNTOLD_TOKENS, Answer, OpenAiServer
from tasks.core.service_settings import Model
from tasks.errors import SettingsError

BATCHES = "/v1/messages/batches"


def require_sdk() -> None:
    """Raise SettingsError where the SDK is not installed."""
    if find_spec("anthropic") is None:
        raise SettingsError(
            'kind = "anthropic" needs the Anthropic SDK, which is not installed: pip install "factmill[anthropic]"'
        )


class AnthropicServer(OpenAiServer):
    """One model behind the Messages API."""

    def __init__(self, model: Model, read_key: Callable[[], str], user_agent: str) -> None:
        """Keep what is needed; nothing is sent. SettingsError where the SDK is not installed."""
        require_sdk()
        self._sdk = import_module("anthropic")
        super().__init__(model, read_key, user_agent)

    def _open_client(self, user_agent: str, http_client: httpx2.AsyncClient) -> Any:
        return self._sdk.AsyncAnthropic(
            api_key="none",  # the transport adds what the credentials say; without one the SDK looks for its own
            base_url=self.model.url,
            max_retries=0,
            timeout=self.model.limits.timeout_s,
            default_headers={"User-Agent": user_agent},
            http_client=http_client,
        )

    def translate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the Messages request for a body of the chat protocol."""
        return write_request(body, UNTOLD_TOKENS, self._sdk.transform_schema)

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send one request; a chat is translated, and so is its reply. Retry when the connection fails."""
        if path != "/chat/completions":
            return await super().post(path, body)
        answer = await super().post("/v1/messages", self.translate(body))
        # a secret may have been split over several blocks, which are one text now
        return replace(answer, text=self.credentials.scrub(read_text(answer.text))) if answer.status < 300 else answer

    async def create_batch(self, requests: Sequence[Mapping[str, Any]]) -> Answer:
        """Create a Message Batch of `{"custom_id", "params"}`; Retry when the connection fails."""
        creating = self._client.post(
            BATCHES, body={"requests": requests}, cast_to=httpx2.Response, options={"timeout": FILE_TIMEOUT_S}
        )
        return self._read(await self._send(creating, FILE_DEADLINE_S))
