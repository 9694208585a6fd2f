"""Settings of services and models in a world's file: addresses, limits, prices, contents of requests; checks of hosts.

Keys and tokens are named by environment variable only, so they cannot be stored, logged or digested.

Addresses appear in messages, logs and recorded calls, so none may hold a password, and error messages do not quote parts
that may hold one.
"""

import json
import re
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.core.calls.operation import list_operations
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, MAX_WAIT_S, StrictModel
from factmill.tasks.text.durations import DURATION_PATTERN, validate_duration
from factmill.tasks.text.sanitize import format_did_you_mean

ENGLISH_WIKIPEDIA_URL = "https://en.wikipedia.org"
_SECRET_URL_PARTS = re.compile(r"\A.*@|[?#].*", re.DOTALL)
"""Parts of an address that may hold a password or a token."""
_WIKIMEDIA_DOMAINS = (
    *(".wikipedia.org", ".wikimedia.org", ".wikidata.org", ".mediawiki.org", ".wikifunctions.org", ".wiktionary.org"),
    *(".wikibooks.org", ".wikinews.org", ".wikiquote.org", ".wikisource.org", ".wikiversity.org", ".wikivoyage.org"),
)
_QUERY_SERVICE_HOSTS = ("query.wikidata.org", "query-main.wikidata.org", "query-scholarly.wikidata.org")
_MAX_URL_CHARACTERS = 2000
"""Maximum number of characters of an address."""


def check_service_url(url: str) -> None:
    """Raise ValueError, which does not quote the URL, for an invalid service address in a world's file."""
    if len(url) > _MAX_URL_CHARACTERS or not url.isprintable() or " " in url:
        raise ValueError(
            f"holds spaces or control characters, or has more than {_MAX_URL_CHARACTERS:,} characters; expected an address that begins "
            "with http:// or https://"
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError as error:
        raise ValueError(f"not a service address: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "holds a user name or password, which would appear in messages and recorded calls; remove them from the address, "
            "and name the key of a model by key_env"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("expected an address that begins with http:// or https:// and a host, or `embedded`")
    if parts.query or parts.fragment:
        raise ValueError("holds ? or #; expected an address to which paths can be appended")


def check_dask_scheduler_address(address: str) -> None:
    """Raise ValueError for an invalid address of a Dask scheduler."""
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port) and address.isprintable()
    except ValueError:
        fits = False
    if not fits or parts.path or parts.query or parts.fragment or parts.username is not None:
        shown = _SECRET_URL_PARTS.sub("…", address)
        raise ValueError(f"{shown!r} is not a scheduler address; expected one such as tcp://10.0.0.5:8786")


def is_loopback_url(url: str) -> bool:
    """True when the host of a URL is a loopback address or `localhost`."""
    host = _get_url_host(url)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_wikimedia_url_except_query_service(url: str) -> bool:
    """True when the host of a URL counts towards Wikimedia's common rate limit: all its hosts but the Query Service."""
    return f".{_get_url_host(url)}".endswith(_WIKIMEDIA_DOMAINS) and not is_wikidata_query_service(url)


def is_wikidata_query_service(url: str) -> bool:
    """True when the host of a URL is the Wikidata Query Service."""
    return _get_url_host(url) in _QUERY_SERVICE_HOSTS


def _get_url_host(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


ComputeType = Literal["int8", "float32", "float16"]
CHAT_MODEL_KINDS = ("openai", "anthropic")
"""Kinds of chat models behind a server."""
ANTHROPIC_URL = "https://api.anthropic.com"
REQUEST_PROFILE_SETTINGS = {
    *("token_limit", "thinking_tokens", "temperature", "seed", "system", "reasoning_effort", "extra_body"),
}
"""Settings of a chat model that change its requests."""
RESERVED_REQUEST_FIELDS = {
    *("model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "temperature", "seed"),
    *("response_format", "reasoning_effort"),
}
"""Fields that factmill itself sets in a chat request."""
CONNECTION_SETTINGS = {"headers", "query", "key_header", "key_command", "stream"}
"""Settings of the connection to a model's server, which do not change its completions. They are in no key of a recorded
call and in no digest of a world: a build stays the same when a gateway, a tenant or an API version changes."""
TOKEN_PRICE_SETTINGS = ("usd_per_million_in", "usd_per_million_out")
"""Settings of a model that determine its cost."""
_VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_CLIENT_SET_HEADERS = {"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"}
"""Headers that the HTTP client sets."""
_SECRET_NAME = re.compile(
    r"authoriz|authent|(^|[^a-z])auth([^a-z]|$)|cookie|password|secret|token(?!s)|(^|[^a-z])key$|apikey$|signature",
    re.IGNORECASE,
)
"""Names of headers and query parameters whose values are secrets."""
EMBEDDED_SERVICE = "embedded"
SCRIPTED_MODEL_NAME = "scripted replies"
"""Name, in rows and reports, of the file-based replacement for a model."""
_MAX_HEADER_CHARACTERS = 8000
"""Maximum number of characters of a header that common servers accept."""


def _check_service_or_embedded(url: str) -> str:
    if url not in ("", EMBEDDED_SERVICE):
        check_service_url(url)
    return url


ShortName = Annotated[str, Field(max_length=500)]
ServiceAddress = Annotated[str, AfterValidator(_check_service_or_embedded)]
UsdPrice = Annotated[float, Field(ge=0, le=1_000_000)]
MaxAge = Annotated[
    str, BeforeValidator(validate_duration), WithJsonSchema({"type": "string", "pattern": f"^{DURATION_PATTERN}$"})
]
"""Such as 90m, 12h, 30d, or seconds (text/durations.py)."""


def _check_environment_variable_name(name: str) -> str:
    if name and not _VARIABLE_NAME.fullmatch(name):
        raise ValueError(
            "expected the name of an environment variable in capitals, such as OPENAI_API_KEY, not the key itself"
        )
    return name


BATCH_FILES_OPERATION = "files"
"""The operation that downloads files of batch jobs."""
_MAX_RESPONSE_BYTES, _MAX_FILE_BYTES = 32_000_000, 2_000_000_000
"""Default limits. The HTML of the longest articles has about ten million bytes; a batch job has 50,000 responses."""
EnvironmentVariableName = Annotated[str, AfterValidator(_check_environment_variable_name)]


class EnvironmentReference(StrictModel):
    """A value read from an environment variable."""

    env: Annotated[EnvironmentVariableName, Field(min_length=1)]
    """Name of the environment variable."""


class ServiceLimits(StrictModel):
    """Limits of requests to a service."""

    parallel: int = Field(default=4, ge=1, le=1024)
    """Maximum number of concurrent requests; the limiter goes below it after 429s and time-outs."""
    timeout_s: float = Field(default=60.0, gt=0, le=MAX_WAIT_S)
    """Seconds one request may take."""
    attempts: int = Field(default=5, ge=1, le=1000)
    """Maximum number of attempts per request."""
    backoff_s: float = Field(default=1.0, ge=0, le=3600)
    """First pause before a retry; doubled each time, with jitter, at most 60 s unless Retry-After asks for more."""
    batch: int = Field(default=100, ge=1, le=10_000)
    """Maximum number of calls in one request, if the service supports several (VALUES, titles)."""
    redirects: tuple[str, ...] = ()
    """Hosts other than its own that the service may redirect to, such as "query.example.org" or "127.0.0.1:9999"."""
    max_bytes: dict[str, Annotated[int, Field(ge=1)]] = Field(default={})
    """Maximum size of an uncompressed reply in bytes: a number, or a table by operation, such as `{ page_text = 64_000_000 }`,
    in which `all` applies to the operations that the table does not name. Default: 32,000,000; for `files` (of batch jobs)
    2,000,000,000, unless the table names it."""

    @field_validator("max_bytes", mode="before")
    @classmethod
    def _read_max_bytes(cls, given: Any) -> Any:
        return {"all": given} if isinstance(given, int) else given

    @field_validator("max_bytes")
    @classmethod
    def _check_operations(cls, table: dict[str, int]) -> dict[str, int]:
        operations = [each.name for each in list_operations() if each.service not in ("translator", "world")]
        there = ["all", BATCH_FILES_OPERATION, *operations]
        if unknown := [name for name in table if name not in there]:
            raise ValueError(f"unknown operation {unknown[0]}{format_did_you_mean(unknown[0], there)}")
        return table

    def get_max_response_bytes(self, operation: str) -> int:
        """Return the maximum size of a response to an operation, in bytes."""
        others = (
            _MAX_FILE_BYTES if operation == BATCH_FILES_OPERATION else self.max_bytes.get("all", _MAX_RESPONSE_BYTES)
        )
        return self.max_bytes.get(operation, others)


class ServiceEndpoint(StrictModel):
    """One web service."""

    url: ServiceAddress = ""
    """Base URL, or `embedded` for the service that the embedded world starts on loopback; empty: the world has none."""
    token_env: EnvironmentVariableName = ""
    """Environment variable that holds an OAuth 2 token (`Authorization: Bearer TOKEN`), sent to the host of `url` alone; empty:
    requests are anonymous."""
    max_age: MaxAge | None = None
    """Maximum age of a recorded reply; older ones are requested again. None: replies never expire. Replies of the embedded world
    never expire."""
    limits: ServiceLimits = ServiceLimits()


class WikidataSettings(ServiceEndpoint):
    """Where items are looked up: a SPARQL endpoint, or a local graph, which needs no address and whose replies never expire."""

    engine: Literal["sparql", "graph"] = "sparql"
    graph: ShortName = ""
    """Name of a graph loaded with `factmill graph load`, with engine `graph`."""


class WikipediaSettings(ServiceEndpoint):
    """Where articles are read: a wiki's API, or a file, which needs no address and whose replies never expire."""

    engine: Literal["mediawiki", "zim"] = "mediawiki"
    path: Annotated[str, Field(max_length=4096)] = ""
    """With engine `zim`: a ZIM file of the English Wikipedia, relative to the folder of the world's file. Its metadata say its
    day, which is the world's epoch. Needs the extra `zim`."""

    @model_validator(mode="after")
    def _check_engine(self) -> "WikipediaSettings":
        idle = sorted(self.model_fields_set & {"url", "token_env", "max_age", "limits"})
        if self.engine == "mediawiki" and self.path:
            raise ValueError('path: only engine = "zim" reads a file; add that line, or remove path')
        if self.engine == "zim" and not self.path:
            raise ValueError('path: expected the path of a ZIM file, since engine is "zim"')
        if self.engine == "zim" and idle:
            raise ValueError(f"{idle[0]}: a file has no such setting; remove it")
        return self

    @property
    def article_site(self) -> str:
        """URL of the wiki whose articles these are, or `embedded`; a file's are those of the English Wikipedia."""
        return ENGLISH_WIKIPEDIA_URL if self.engine == "zim" else self.url


class WikimediaLimits(StrictModel):
    """Common limits of requests to all Wikimedia hosts: Wikimedia limits each client over all its hosts."""

    parallel: int = Field(default=3, ge=1, le=1024)
    """Maximum number of concurrent requests to all Wikimedia APIs except the Query Service."""
    requests_per_minute: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Requests to these APIs, evenly spread; None: 200, or 2000 where each of these services has a `token_env`. An account with
    few edits may send only 200."""
    query_parallel: int = Field(default=5, ge=1, le=1024)
    """Maximum number of concurrent queries of the Wikidata Query Service."""
    query_seconds_per_minute: float = Field(default=60, gt=0, allow_inf_nan=False)
    """Seconds of work per minute that queries may cause in the Query Service on average; twice as many in any single minute."""


class ModelSettings(StrictModel):
    """One model in a role."""

    kind: Literal["scripted", "openai", "anthropic", "local"]
    """`scripted`: replies from files, written beforehand for the embedded world (no language model); `openai`: any server of the OpenAI chat protocol;
    `anthropic`: Anthropic's Messages API, with the extra `anthropic`;
    `local`: a model on this machine (`factmill models list`), for the roles embedder, translator and
    perplexity."""
    name: ShortName
    """Model name as the server knows it; optional for kind `scripted`, where it begins with `scripted replies`."""
    url: ServiceAddress = ""
    """Base URL with /v1 for kind `openai`; without /v1 for kind `anthropic`, where empty means https://api.anthropic.com."""
    key_env: EnvironmentVariableName = ""
    """Environment variable that holds the API key; empty when the server wants none."""
    key_command: tuple[str, ...] = ()
    """Program with its arguments whose output is the key, such as `["az", "account", "get-access-token", …]`, instead of
    `key_env`. No shell interprets it. It runs before the first request, and again when the server answers 401."""
    key_header: str = ""
    """Header that holds the key as it is, such as `api-key`; empty: `Authorization: Bearer KEY`."""
    headers: dict[str, str | EnvironmentReference] = Field(default={})
    """Headers of every request: a text, or `{ env = "NAME" }` for a secret in the environment variable NAME."""
    query: dict[str, str | EnvironmentReference] = Field(default={})
    """Query parameters of every request, such as `{ "api-version" = "2024-10-21" }`; values as in `headers`."""
    stream: bool | Literal["no_usage"] = False
    """True: request replies as server-sent events, for servers that offer nothing else; `no_usage`: the same, for a server that
    accepts no `stream_options` and so may report no tokens. Requests of batch jobs never stream."""
    json_schema: bool | Literal["json_object"] = False
    """True if the server can enforce a JSON schema; `json_object` for the older form (llama-cpp-python)."""
    choices: bool = False
    """True if the server supports `n` for several samples in one request."""
    token_limit: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    """Name of the request field for the maximum tokens of a reply; `none`: send no limit."""
    thinking_tokens: int = Field(default=0, ge=0, le=MAX_SETTING_NUMBER)
    """Added to the token limit of each prompt: tokens that a reasoning model may spend before it answers."""
    temperature: Annotated[float, Field(ge=0, le=100)] | Literal["asked", "none"] = "asked"
    """`asked`: the temperature of the prompt; a number: always this one; `none`: send no temperature."""
    seed: bool = True
    """False if the server accepts no `seed`."""
    tools: bool = True
    """False if the server accepts no `tools`: prompts that need tools then ask for them in plain text."""
    context_tokens: int = Field(default=0, ge=0, le=MAX_SETTING_NUMBER)
    """Size of the context window in tokens; 0: unknown."""
    system: Literal["own", "merge"] = "own"
    """`merge`: prepend the system message to the first user message, so that roles alternate."""
    reasoning_effort: ShortName = ""
    """Sent unchanged; empty: not sent."""
    extra_body: dict[str, Any] = Field(default={})
    """Further fields of each request to this server."""
    compute_type: ComputeType | None = None
    """Number format in which a translator or a perplexity model of kind `local` computes; None: int8 if its weights are stored
    so, else float32. float32 gives the same bytes on any CPU; int8 on CPUs with the same instruction set; float16 is for
    GPUs."""
    usd_per_million_in: UsdPrice = 0.0
    usd_per_million_out: UsdPrice = 0.0
    usd_per_million_cached: UsdPrice | None = None
    """Price of cached input tokens; None: as other input."""
    usd_per_million_cache_write: UsdPrice | None = None
    """Price of input tokens that the server wrote to its cache; None: as other input."""
    usd_per_million_reasoning: UsdPrice | None = None
    """Price of output tokens spent on reasoning; None: as other output."""
    usd_per_request: UsdPrice = 0.0
    """Fee for each request that the server answers, added to the price of its tokens."""
    max_age: MaxAge | None = None
    """For kinds `openai` and `anthropic`: maximum age of a recorded reply; older ones are requested again. None: replies never
    expire."""
    mode: Literal["single", "batch"] = "single"
    """`batch`: builds and evaluations send their requests in batch jobs of the server (`/v1/files`, `/v1/batches`; Message Batches
    for kind `anthropic`), which cost less and take up to a day."""
    batch_price: float = Field(default=0.5, ge=0, le=100)
    """Price of a batch job as a share of the prices above; 1 if these are already prices of batch jobs."""
    jobs: BatchJobSettings = BatchJobSettings()
    limits: ServiceLimits = ServiceLimits()

    @model_validator(mode="before")
    @classmethod
    def _fill_in_defaults_of_kind(cls, given: Any) -> Any:
        match given:
            case {"kind": "anthropic"}:
                return {**given, "url": given.get("url") or ANTHROPIC_URL}
            case {"kind": "scripted"}:
                return {"name": SCRIPTED_MODEL_NAME, **given}
        return given

    @model_validator(mode="after")
    def _check_kind_and_key(self) -> "ModelSettings":
        is_anthropic, has_key = self.kind == "anthropic", bool(self.key_env or self.key_command)
        problems = {
            f"name: for kind `scripted` it must begin with `{SCRIPTED_MODEL_NAME}`, so that no row appears to be written by a model": (
                self.kind == "scripted" and not self.name.startswith(SCRIPTED_MODEL_NAME)
            ),
            f"url: for kind `anthropic` the address has no /v1, such as {ANTHROPIC_URL}": (
                is_anthropic and self.url.rstrip("/").endswith("/v1")
            ),
            "choices: the Messages API returns one reply per request; remove this setting": is_anthropic
            and self.choices,
            "stream: factmill does not stream replies of the Messages API; remove this setting": is_anthropic
            and self.stream,
            "key_env and key_command both name the source of the key; keep one of them": (
                self.key_env and self.key_command
            ),
            "key_header needs a key; add key_env or key_command, or remove key_header": self.key_header and not has_key,
            f"headers.{self.key_header}: key_header sets this header; keep one of them": (
                self.key_header.lower() in {name.lower() for name in self.headers}
            ),
        }
        for message, is_wrong in problems.items():
            if is_wrong:
                raise ValueError(message)
        return self

    @field_validator("key_command", mode="before")
    @classmethod
    def _check_key_command(cls, command: Any) -> Any:
        if not isinstance(command, list | tuple) or not all(isinstance(part, str) for part in command):
            raise ValueError(
                'expected a list of a program and its arguments, such as ["gcloud", "auth", "print-access-token"]; '
                "no shell interprets it"
            )
        if command and not command[0].strip():
            raise ValueError("expected the name of a program as the first element")
        return command

    @field_validator("key_header")
    @classmethod
    def _check_key_header(cls, name: str) -> str:
        if name:
            _check_header_name(name)
        return name

    @field_validator("headers", "query", mode="before")
    @classmethod
    def _check_values(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, dict) else ():
            if not isinstance(value, str | dict | EnvironmentReference):
                raise ValueError(
                    f'{name}: expected text, or {{ env = "NAME" }} for a secret in the environment variable NAME'
                )
        return values

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str | EnvironmentReference]) -> dict[str, str | EnvironmentReference]:
        for name, value in headers.items():
            _check_header_name(name)
            _check_no_literal_secret(name, value)
            check_header_text(value if isinstance(value, str) else "", f"{name}: ")
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("a header appears twice; header names are case-insensitive")
        return headers

    @field_validator("query")
    @classmethod
    def _check_query(cls, query: dict[str, str | EnvironmentReference]) -> dict[str, str | EnvironmentReference]:
        for name, value in query.items():
            _check_no_literal_secret(name, value)
        return query

    @field_validator("extra_body")
    @classmethod
    def _check_extra(cls, extra: dict[str, Any]) -> dict[str, Any]:
        if ours := sorted(RESERVED_REQUEST_FIELDS & extra.keys()):
            raise ValueError(
                f"{', '.join(ours)}: prompts and other settings of this model set this; remove it from extra_body"
            )
        try:
            json.dumps(extra, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"holds a value that JSON cannot represent: {error}; put dates in quotation marks"
            ) from None
        return extra

    @property
    def has_price(self) -> bool:
        """True when its settings give a price of its tokens, even 0.0."""
        return bool(self.model_fields_set & set(TOKEN_PRICE_SETTINGS))

    def connection_settings(self) -> dict[str, Any]:
        """Return the connection settings that differ from the default, JSON-able."""
        return self.model_dump(mode="json", include=CONNECTION_SETTINGS, exclude_defaults=True)

    def request_profile(self) -> dict[str, Any]:
        """Return the settings that change requests and differ from the default; keys of recorded calls contain them.
        `json_schema` and `choices` are excluded: completions are checked in the same way with and without them."""
        profile = self.model_dump(mode="json", include=REQUEST_PROFILE_SETTINGS, exclude_defaults=True)
        return {**profile, "kind": self.kind} if self.kind == "anthropic" else profile


def check_header_text(text: str, name: str = "") -> str:
    """Return a text unchanged; ValueError, which begins with `name`, when it is not allowed in a header."""
    if not (text.isascii() and text.isprintable() and len(text) <= _MAX_HEADER_CHARACTERS):
        raise ValueError(
            f"{name}holds characters that are not allowed in a header, or more than {_MAX_HEADER_CHARACTERS:,}; expected printable ASCII"
        )
    return text


def _check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError("expected the name of a header, such as api-key")
    if name.lower() in _CLIENT_SET_HEADERS:
        raise ValueError(f"{name}: the HTTP client sets this header; remove it")


def _check_no_literal_secret(name: str, value: str | EnvironmentReference) -> None:
    if isinstance(value, str) and _SECRET_NAME.search(name):
        raise ValueError(
            f'{name}: a file must not hold secrets; write {name} = {{ env = "NAME" }} and set the environment variable NAME to it'
        )
