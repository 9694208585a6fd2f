"""Credentials of a model's requests: the key, headers and query parameters of the world's file.

Secrets are read when the first request goes out. Every response text is redacted of all secrets used so far, since a
server may repeat a key that has been replaced.
"""

import asyncio
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from factmill.tasks.clients.sending.http_responses import format_library_error, shorten_to_line
from factmill.tasks.clients.sending.secret_redaction import SecretRedactor
from factmill.tasks.clients.sending.sender import run_blocking_in_thread
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.service_settings import EnvironmentReference, ModelSettings
from factmill.tasks.errors import ServiceUnreachable, SettingsError
from factmill.tasks.settings import read_model_headers, read_model_query_params

_COMMAND_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """Key, headers and query parameters of every request to a model."""

    key: str
    headers: Mapping[str, str]
    """By name, including that of the key."""
    query: Mapping[str, str]


class ModelCredentials(SecretRedactor):
    """Key, headers and query parameters of one model; redacts the secret ones."""

    def __init__(self, model: ModelSettings, read_key: Callable[[], str]) -> None:
        """Read nothing yet; `read_key` returns the key of a model without `key_command`."""
        super().__init__()
        self._name = f"model {model.name} at {model.url}"
        self._model = model
        self._read_key = read_key
        self._access: RequestCredentials | None = None
        self._fetching: asyncio.Task[RequestCredentials] | None = None

    async def get(self) -> RequestCredentials:
        """Return the credentials of requests, read at the first call.

        SettingsError when a variable is not set or `key_command` fails, ServiceUnreachable when it gives no usable key.
        """
        return self._access or await self._fetch()

    async def renew(self, used: RequestCredentials) -> RequestCredentials | None:
        """Return new credentials after a server refused `used` with HTTP 401; None where the key is the same.

        However many requests are refused at once, `key_command` runs once. Errors as of `get`.
        """
        if not self._model.key_command:
            return None
        if self._access is used:
            await self._fetch()
        return self._access if self._access and self._access.key != used.key else None

    async def digest(self) -> str:
        """Return a digest that stays the same for later runs with the same credentials; of a command it covers only its
        words."""
        access, model = await self.get(), self._model
        key = list(model.key_command) or access.key
        secret = [
            values[name]
            for given, values in ((model.headers, access.headers), (model.query, access.query))
            for name, value in sorted(given.items())
            if isinstance(value, EnvironmentReference)
        ]
        return digest_json([model.url, key, *secret])[:16]

    async def _fetch(self) -> RequestCredentials:
        """Read the credentials once for all waiting requests; one that times out leaves the read running for the
        others."""
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._read())
            self._fetching.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._fetching)

    async def _read(self) -> RequestCredentials:
        model = self._model
        headers, query = read_model_headers(model), read_model_query_params(model)
        for given, values in ((model.headers, headers), (model.query, query)):
            for name, value in given.items():
                if isinstance(value, EnvironmentReference):
                    self.add_secret(values[name])
        key = await run_blocking_in_thread(self._run_command) if model.key_command else self._read_key()
        self.add_secret(key)
        for name, value in {"the API key": key, **headers}.items():
            if not (value.isascii() and value.isprintable()):
                raise ServiceUnreachable(
                    f"{self._name}: {name} contains characters that an HTTP header cannot hold; expected printable ASCII"
                )
        of_key = {model.key_header: key} if model.key_header else {"Authorization": f"Bearer {key}"}
        own = {name.lower() for name in headers}
        headers = {**{name: value for name, value in of_key.items() if name.lower() not in own}, **headers}
        self._access = RequestCredentials(key, headers, query)
        return self._access

    def _run_command(self) -> str:
        command = self._model.key_command
        what = f"model {self._model.name}: key_command ({command[0]} …)"
        try:
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ServiceUnreachable(
                f"{what} gave no key within {_COMMAND_TIMEOUT_S:.0f} s; run it in a terminal to see what it waits for"
            ) from None
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{what} cannot run: {format_library_error(error)}; check the program's name and path"
            ) from None
        key = ran.stdout.decode(errors="replace").strip()
        if ran.returncode:
            self.add_secret(key)
            output = shorten_to_line(self.redact(ran.stderr.decode(errors="replace"))) or "nothing on stderr"
            raise SettingsError(
                f"{what} failed with exit code {ran.returncode}: {output}. Run it in a terminal to see why"
            )
        if not key:
            raise SettingsError(f"{what} printed nothing; expected the key on its standard output")
        return key
