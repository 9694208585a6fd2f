"""Settings and worlds: the only reader of the environment and of settings files.

A world is a TOML file that names every endpoint and model a run talks to. `embedded` and `live` are shipped in
data/worlds/; any other name is a path. API keys are named by environment variable in the world and read when a model
is first asked; they are in no settings object, so they cannot be stored, logged or keyed.
"""

import errno
import json
import os
import re
import tempfile
from collections.abc import Collection
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from tasks.assets import ROOT
from tasks.compute import CLUSTER, Compute, read_cluster
from tasks.core.addresses import check_service, is_this_machine, is_wikimedia_api
from tasks.core.calls.jobs import Jobs
from tasks.core.epochs import EARLIEST, LATEST
from tasks.core.fingerprints import digest_json
from tasks.core.rows import LONGEST_S, MOST, StrictModel
from tasks.errors import SettingsError
from tasks.files import absolute_path, read_toml
from tasks.text.ages import PATTERN, check_age
from tasks.text.suggestions import suggest_name

LEAST_FREE = 64_000_000
"""Bytes that are free in the home before a run begins: Prefect's history and a small build take about half of that."""
LEAST_FILES = 1_000
"""Files that can still be made there; a run makes a few for each batch."""
LEAST_WRITTEN = 1_000_000
_MAKE_ROOM = "make room, `factmill gc` lists what can go"
SHIPPED_WORLDS = ("embedded", "live")
"""Worlds that go by name; any other is the path of a file."""
ComputeType = Literal["int8", "float32", "float16"]
KINDS: dict[str, tuple[str, ...]] = {
    "embedder": ("local",),
    "translator": ("local",),
    "perplexity": ("local", "openai"),
}
"""Role → what kinds of models there are for it; `rules` and CHAT_KINDS for authors and judges."""
CHAT_KINDS = ("openai", "anthropic")
"""Kinds of chat models behind a server."""
ANTHROPIC_URL = "https://api.anthropic.com"
ROLES = ("author", "judge", *KINDS)
"""What builds ask of models; every other name in a world's `models` is a model to be measured."""
PROFILE = {"token_limit", "thinking_tokens", "temperature", "seed", "system", "reasoning_effort", "extra_body"}
"""Settings of a chat model that change what is sent to it."""
OURS = {"model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "temperature", "seed"} | {
    "response_format",
    "reasoning_effort",
}
"""What a chat request holds anyhow."""
CONNECTION = {"headers", "query", "key_header", "key_command", "stream"}
"""Settings of a model that say how its server is reached, and nothing of what the model answers. They are in no key of a
recorded call and in no digest of a world: a build stays the same build when a gateway, a tenant or an API version changes."""
PRICES = ("usd_per_million_in", "usd_per_million_out")
"""Settings of a model without which nobody can say what it costs."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_OWN_HEADERS = {"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"}
"""Headers that the HTTP client sets."""
_SECRET_NAME = re.compile(
    r"authoriz|authent|(^|[^a-z])auth([^a-z]|$)|cookie|password|secret|token(?!s)|(^|[^a-z])key$|apikey$|signature",
    re.IGNORECASE,
)
"""Names of headers and query parameters whose values are secrets."""
EMBEDDED = "embedded"
_BETWEEN_WORDS = re.compile(r"[\s;,()<>]+")
_PLACEHOLDER = re.compile(r"\bexample\.(org|com|net)\b|\.(example|invalid|test)\b", re.IGNORECASE)
"""Domains that are nobody's (RFC 2606), such as that of the user agent in data/worlds/live.toml."""
_ANONYMOUS_RATE, _SIGNED_IN_RATE = 200.0, 2000.0
"""Requests a minute to Wikimedia's APIs: of a client with a contact address, and of an established account, as published on 3 June
2026 at https://www.mediawiki.org/wiki/Wikimedia_APIs/Rate_limits, which asks for three requests at a time at most."""
_LONGEST_HEADER = 8000
"""Characters of a header: common servers take no more."""
_LONGEST_NAMED = 200
"""Characters of a world's name that are repeated."""
SECTIONS = ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")
"""Services of a world; a build needs those that its benchmark asks."""


def _check_address(url: str) -> str:
    if url not in ("", EMBEDDED):
        check_service(url)
    return url


Name = Annotated[str, Field(max_length=500)]
Address = Annotated[str, AfterValidator(_check_address)]
Usd = Annotated[float, Field(ge=0, le=1_000_000)]
Age = Annotated[str, BeforeValidator(check_age), WithJsonSchema({"type": "string", "pattern": f"^{PATTERN}$"})]
"""Such as 90m, 12h, 30d, or seconds (text/ages.py)."""


def _check_variable(name: str) -> str:
    if name and not _VARIABLE.fullmatch(name):
        raise ValueError(
            "expected the name of an environment variable in capitals, such as OPENAI_API_KEY, not the key itself"
        )
    return name


FILES = "files"
"""Downloads of the files of batch jobs, as an operation."""
OPERATIONS = (
    *("find_items", "describe_items", "label", "resolve_item", "neighbours", "list_facts", "item_facts", "item_states"),
    *("item_paths", "date_paths", "number_paths", "same_as", "pageviews", "link"),
    *("page_revision_at", "page_text", "category_members", "resolve_title", "search", "page_states"),
    *("chat", "perplexity", FILES),
)
"""What services are asked over the network."""
_MAX_BYTES, _MAX_FILE_BYTES = 32_000_000, 2_000_000_000
"""The HTML of the longest articles has some ten million; a batch job has 50,000 answers."""


Variable = Annotated[str, AfterValidator(_check_variable)]


class FromEnvironment(StrictModel):
    """A value that stands in an environment variable."""

    env: Annotated[Variable, Field(min_length=1)]
    """Name of the environment variable."""


class Limits(StrictModel):
    """How a service is treated."""

    parallel: int = Field(default=4, ge=1, le=1024)
    """Requests under way at once, at most; the limiter goes below it after 429s and time-outs."""
    timeout_s: float = Field(default=60.0, gt=0, le=LONGEST_S)
    """Seconds one request may take."""
    attempts: int = Field(default=5, ge=1, le=1000)
    """Tries of one request in all."""
    backoff_s: float = Field(default=1.0, ge=0, le=3600)
    """First pause before a retry; doubled each time, with jitter, never over 60 s unless Retry-After says so."""
    batch: int = Field(default=100, ge=1, le=10_000)
    """Logical calls bundled into one request, where the service can (VALUES, titles)."""
    redirects: tuple[str, ...] = ()
    """Hosts that the service may redirect to beside its own, such as "query.example.org" or "127.0.0.1:9999"."""
    max_bytes: dict[str, Annotated[int, Field(ge=1)]] = Field(default={})
    """Bytes of one reply, uncompressed, at most: a number, or a table by operation, such as `{ page_text = 64_000_000 }`, in
    which `all` stands for the operations that it does not name. Default: 32,000,000; for the `files` of batch jobs
    2,000,000,000, unless the table names them."""

    @field_validator("max_bytes", mode="before")
    @classmethod
    def _read_max_bytes(cls, given: Any) -> Any:
        return {"all": given} if isinstance(given, int) else given

    @field_validator("max_bytes")
    @classmethod
    def _check_operations(cls, table: dict[str, int]) -> dict[str, int]:
        for name in table:
            if name != "all" and name not in OPERATIONS:
                raise ValueError(f"there is no operation {name}{suggest_name(name, ('all', *OPERATIONS))}")
        return table

    def find_max_bytes(self, operation: str) -> int:
        """Return how many bytes a reply to an operation may have."""
        default = _MAX_FILE_BYTES if operation == FILES else self.max_bytes.get("all", _MAX_BYTES)
        return self.max_bytes.get(operation, default)


class Endpoint(StrictModel):
    """One web service."""

    url: Address = ""
    """Base URL, or `embedded` for the service that the embedded world starts on loopback; empty: the world has none."""
    token_env: Variable = ""
    """Environment variable that holds an OAuth 2 token (`Authorization: Bearer TOKEN`), sent to the host of `url` alone; empty:
    requests are anonymous."""
    max_age: Age | None = None
    """A recorded reply that is older is asked for again; None: replies serve for ever. Nothing of the embedded world ages."""
    limits: Limits = Limits()


class Wikidata(StrictModel):
    """Where items are looked up: a SPARQL endpoint or a local graph."""

    engine: Literal["sparql", "graph"] = "sparql"
    url: Address = ""
    """SPARQL endpoint, or `embedded`; unused with engine `graph`."""
    token_env: Variable = ""
    """As of any service."""
    graph: Name = ""
    """Name of a graph loaded with `factmill graph load`, with engine `graph`."""
    max_age: Age | None = None
    """As of any service; what a local graph says does not age."""
    limits: Limits = Limits()


class Wikimedia(StrictModel):
    """How the hosts of Wikimedia are treated, together: their limits are a client's, not a host's."""

    parallel: int = Field(default=3, ge=1, le=1024)
    """Requests under way at once to all of Wikimedia's APIs but the Query Service."""
    requests_per_minute: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Requests to these APIs, evenly spread; None: 200, or 2000 where each of these services has a `token_env`. An account with
    few edits may send 200 with a token too."""
    query_parallel: int = Field(default=5, ge=1, le=1024)
    """Queries under way at once in the Wikidata Query Service."""
    query_seconds_per_minute: float = Field(default=60, gt=0, allow_inf_nan=False)
    """Seconds that the Query Service may work for us in a minute on average, and twice as many in any one minute."""


class Model(StrictModel):
    """One model in a role."""

    kind: Literal["rules", "openai", "anthropic", "local"]
    """`rules`: the embedded world's author (no language model); `openai`: any server of the OpenAI chat protocol;
    `anthropic`: Anthropic's Messages API, with the extra `anthropic`;
    `local`: a model on this machine (`factmill models list`), for the roles embedder, translator and
    perplexity."""
    name: Name
    """Model name as the server knows it, or `rules-1`."""
    url: Address = ""
    """Base URL with /v1 for kind `openai`; without it for kind `anthropic`, where empty is https://api.anthropic.com."""
    key_env: Variable = ""
    """Environment variable that holds the API key; empty when the server wants none."""
    key_command: tuple[str, ...] = ()
    """Program with its arguments whose output is the key, such as `["az", "account", "get-access-token", …]`, instead of
    `key_env`. No shell reads it. It runs before the first request, and once more when the server answers 401."""
    key_header: str = ""
    """Header that holds the key as it is, such as `api-key`; empty: `Authorization: Bearer KEY`."""
    headers: dict[str, str | FromEnvironment] = Field(default={})
    """Headers of every request: a text each, or `{ env = "NAME" }` for a secret in the environment variable NAME."""
    query: dict[str, str | FromEnvironment] = Field(default={})
    """Query parameters of every request, such as `{ "api-version" = "2024-10-21" }`; values as of `headers`."""
    stream: bool | Literal["no_usage"] = False
    """True: replies are requested as server-sent events, for servers that give no others; `no_usage`: and the server takes
    no `stream_options`, so that it may report no tokens. Requests of batch jobs never stream."""
    json_schema: bool | Literal["json_object"] = False
    """True when the server can be held to a JSON schema; `json_object` for the older form (llama-cpp-python)."""
    choices: bool = False
    """True when the server honours `n` for several samples in one request."""
    token_limit: Literal["max_tokens", "max_completion_tokens", "none"] = "max_tokens"
    """What the server calls the most tokens of a reply; `none`: it is not told."""
    thinking_tokens: int = Field(default=0, ge=0, le=MOST)
    """Added to the limit of each prompt: what a model that reasons may spend before it answers."""
    temperature: Annotated[float, Field(ge=0, le=100)] | Literal["asked", "none"] = "asked"
    """`asked`: what the prompt says; a number: always that; `none`: it is not told."""
    seed: bool = True
    """False when the server takes no `seed`."""
    tools: bool = True
    """False when the server takes no `tools`: what needs some is then asked for in plain text."""
    context_tokens: int = Field(default=0, ge=0, le=MOST)
    """Tokens that the model can be shown at once; 0: not told."""
    system: Literal["own", "merge"] = "own"
    """`merge`: the system message stands before the first user message, and roles alternate."""
    reasoning_effort: Name = ""
    """Sent as it stands; empty: not at all."""
    extra_body: dict[str, Any] = Field(default={})
    """What the request holds beside, for this server alone."""
    compute_type: ComputeType | None = None
    """What a translator or a perplexity model of kind `local` computes in; None: int8 where its weights are stored so,
    else float32. float32: the same bytes on any CPU; int8: on CPUs of one class of instructions; float16: GPUs."""
    usd_per_million_in: Usd = 0.0
    usd_per_million_out: Usd = 0.0
    usd_per_million_cached: Usd | None = None
    """Of input tokens that the server had cached; None: as other input."""
    usd_per_million_cache_write: Usd | None = None
    """Of input tokens that the server wrote to its cache; None: as other input."""
    usd_per_million_reasoning: Usd | None = None
    """Of output tokens spent on reasoning; None: as other output."""
    usd_per_request: Usd = 0.0
    """Fee for each request that the server answers, added to the price of its tokens."""
    max_age: Age | None = None
    """Of kinds `openai` and `anthropic`: a recorded reply that is older is asked for again; None: replies serve for ever."""
    mode: Literal["single", "batch"] = "single"
    """`batch`: builds and evaluations ask by batch jobs of the server (`/v1/files`, `/v1/batches`; Message Batches of kind
    `anthropic`), for less and within a day."""
    batch_price: float = Field(default=0.5, ge=0, le=100)
    """What a batch job costs of the prices above; 1 where these are those of batch jobs."""
    jobs: Jobs = Jobs()
    limits: Limits = Limits()

    @model_validator(mode="before")
    @classmethod
    def _complete_url(cls, given: Any) -> Any:
        is_anthropic = isinstance(given, dict) and given.get("kind") == "anthropic"
        return {**given, "url": given.get("url") or ANTHROPIC_URL} if is_anthropic else given

    @model_validator(mode="after")
    def _check_anthropic(self) -> "Model":
        if self.kind == "anthropic" and self.url.rstrip("/").endswith("/v1"):
            raise ValueError(f"url: for kind `anthropic` it stands without /v1, such as {ANTHROPIC_URL}")
        if self.kind == "anthropic" and self.choices:
            raise ValueError("choices: the Messages API gives one reply a request; leave it out")
        if self.kind == "anthropic" and self.stream:
            raise ValueError("stream: replies of the Messages API are requested whole; leave it out")
        return self

    @field_validator("key_command", mode="before")
    @classmethod
    def _check_key_command(cls, command: Any) -> Any:
        if not isinstance(command, list | tuple) or not all(isinstance(part, str) for part in command):
            raise ValueError(
                'expected a list of a program and its arguments, such as ["gcloud", "auth", "print-access-token"], since no '
                "shell reads it"
            )
        if command and not command[0].strip():
            raise ValueError("expected the name of a program first")
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
            if not isinstance(value, str | dict | FromEnvironment):
                raise ValueError(
                    f'{name}: expected text, or {{ env = "NAME" }} for a secret in the environment variable NAME'
                )
        return values

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str | FromEnvironment]) -> dict[str, str | FromEnvironment]:
        for name, value in headers.items():
            _check_header_name(name)
            _check_secret(name, value)
            if isinstance(value, str):
                _check_header_text(value, f"{name}: ")
        if len({name.lower() for name in headers}) < len(headers):
            raise ValueError("one header stands here twice; capitals do not tell headers apart")
        return headers

    @field_validator("query")
    @classmethod
    def _check_query(cls, query: dict[str, str | FromEnvironment]) -> dict[str, str | FromEnvironment]:
        for name, value in query.items():
            _check_secret(name, value)
        return query

    @model_validator(mode="after")
    def _check_one_key(self) -> "Model":
        if self.key_env and self.key_command:
            raise ValueError("key_env and key_command both say where the key is; keep one of them")
        if self.key_header and not (self.key_env or self.key_command):
            raise ValueError("key_header names the header of a key; add key_env or key_command, or leave it out")
        if self.key_header.lower() in {name.lower() for name in self.headers}:
            raise ValueError(f"headers.{self.key_header}: key_header sets this header; keep one of them")
        return self

    @field_validator("extra_body")
    @classmethod
    def _check_extra(cls, extra: dict[str, Any]) -> dict[str, Any]:
        if ours := sorted(OURS & extra.keys()):
            raise ValueError(f"{', '.join(ours)}: told by prompts and by this model's other settings")
        try:
            json.dumps(extra, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"holds what JSON cannot: {error}; dates stand in quotation marks") from None
        return extra

    @property
    def has_price(self) -> bool:
        """True when its settings tell a price of its tokens, be it 0.0."""
        return bool(self.model_fields_set & set(PRICES))

    def connection(self) -> dict[str, Any]:
        """Return the settings that say how the server is reached, where they are not the default, JSON-able."""
        return self.model_dump(mode="json", include=CONNECTION, exclude_defaults=True)

    def profile(self) -> dict[str, Any]:
        """Return what of this model's settings changes requests, where it is not the default; recorded calls are keyed
        by it. `json_schema` and `choices` are no part of it: replies are checked alike with and without them."""
        profile = self.model_dump(mode="json", include=PROFILE, exclude_defaults=True)
        return {**profile, "kind": self.kind} if self.kind == "anthropic" else profile


def _check_header_text(text: str, name: str = "") -> str:
    if not (text.isascii() and text.isprintable() and len(text) <= _LONGEST_HEADER):
        raise ValueError(
            f"{name}holds characters that no header can carry, or more than {_LONGEST_HEADER:,}; expected printable ASCII"
        )
    return text


def _check_header_name(name: str) -> None:
    if not _HEADER.fullmatch(name):
        raise ValueError("expected the name of a header, such as api-key")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"{name}: the HTTP client sets this header; leave it out")


def _check_secret(name: str, value: str | FromEnvironment) -> None:
    if isinstance(value, str) and _SECRET_NAME.search(name):
        raise ValueError(
            f'{name}: a secret stands in no file; write {name} = {{ env = "NAME" }} and set the environment variable NAME to it'
        )


_PARTS: dict[str, type[StrictModel]] = {
    "models": Model,
    "limits": Limits,
    "jobs": Jobs,
    "compute": Compute,
    "wikimedia": Wikimedia,
    "wikidata": Wikidata,
    **dict.fromkeys(SECTIONS[1:], Endpoint),
}
"""Key of a world's file → what stands below it."""


class World(StrictModel):
    """The endpoints and models a run talks to."""

    name: Name
    user_agent: Annotated[str, AfterValidator(_check_header_text)]
    """Sent with every request. It holds your web page or mail address where a service is not on this machine: Wikimedia refuses
    clients whom it cannot reach."""
    epoch: Annotated[date, Field(ge=EARLIEST, le=LATEST)] | None = None
    """Day the world is seen at (cut-off of page views); None: the first day of the current month."""
    wikidata: Wikidata = Wikidata()
    wikipedia: Endpoint = Endpoint()
    pageviews: Endpoint = Endpoint()
    falcon: Endpoint = Endpoint()
    dbpedia: Endpoint = Endpoint()
    """SPARQL endpoint that knows which Wikidata item a DBpedia resource is."""
    wikimedia: Wikimedia = Wikimedia()
    compute: Compute = Compute()
    models: dict[str, Model]
    """By role; under any other name, such as `answerer`, a model that can be measured, or judge others."""

    @model_validator(mode="after")
    def _check_kinds(self) -> "World":
        for role, model in self.models.items():
            others = ("rules", *CHAT_KINDS) if role in ROLES else CHAT_KINDS
            if model.kind not in (wanted := KINDS.get(role, others)):
                told = " or ".join(f"`{kind}`" for kind in wanted)
                raise ValueError(f"models.{role}.kind is `{model.kind}`; a model in this role is {told}")
            if model.compute_type and (model.kind != "local" or role == "embedder"):
                raise ValueError(
                    f"models.{role}.compute_type: only a translator or a perplexity model of kind `local` has one"
                )
            if model.profile() and (model.kind not in CHAT_KINDS or role == "perplexity"):
                raise ValueError(
                    f"models.{role}.{next(iter(model.profile()))}: only a chat model behind a server has one"
                )
            if (idle_settings := model.connection()) and model.kind in ("rules", "local"):
                raise ValueError(f"models.{role}.{next(iter(idle_settings))}: only a model behind a server has one")
            if model.stream and role == "perplexity":
                raise ValueError(f"models.{role}.stream: only replies of a chat model come as a stream")
            if model.mode == "batch" and (model.kind not in CHAT_KINDS or role == "perplexity"):
                raise ValueError(f"models.{role}.mode: only a chat model behind a server is asked by batch jobs")
            if model.mode != "batch" and (idle := sorted({"batch_price", "jobs"} & model.model_fields_set)):
                raise ValueError(
                    f'models.{role}.{idle[0]} is for mode = "batch"; add that line, or leave {idle[0]} out'
                )
        self._check_ages()
        if empty := [name for name in SECTIONS if name in self.model_fields_set and not self.has(name)]:
            raise ValueError(f"{empty[0]}.url: expected an address")
        return self

    def _check_ages(self) -> None:
        """ValueError for an age that nothing has, or that replies of one address would have several of."""
        by_address: dict[str, tuple[str, str | None]] = {}
        for role, model in self.models.items():
            if model.max_age and model.kind not in CHAT_KINDS:
                raise ValueError(f"models.{role}.max_age: what a model of kind `{model.kind}` says does not age")
            other, age = by_address.setdefault(model.url, (role, model.max_age))
            if model.kind in CHAT_KINDS and age != model.max_age:
                raise ValueError(f"models.{role}.max_age: models.{other} has the same address and another max_age")

    def has(self, section: str) -> bool:
        """True when this world names a service, a local graph for its Wikidata among them."""
        return bool(getattr(self, section).url) or (section == "wikidata" and self.wikidata.engine == "graph")

    def require(self, *sections: str) -> None:
        """Raise SettingsError when one of these services is not named."""
        if missing := [section for section in sections if not self.has(section)]:
            raise SettingsError(
                f"the world {self.name} names no {missing[0]}, which is asked here; add [{missing[0]}] with its url to "
                "its file (data/worlds/live.toml shows how)"
            )

    def require_access(self, *sections: str) -> None:
        """Raise SettingsError when one of these services may not be asked: `token_env` names a variable that is not set, or
        the service is not on this machine and `user_agent` does not say how to reach us."""
        for section in sections:
            service: Endpoint | Wikidata = getattr(self, section)
            if section == "wikidata" and self.wikidata.engine == "graph":
                continue
            read_token(section, service)
            if service.url not in ("", EMBEDDED) and not is_this_machine(service.url) and not self.names_contact:
                raise SettingsError(
                    f"the world {self.name}: [{section}] is asked at {service.url}, and user_agent holds no web page or mail "
                    f"address of yours, but {self.user_agent!r}. Write such a line with your own address into the world's file "
                    '(for `live`, into a copy whose path --world gives): user_agent = "factmill/0.1 (you@example.org)"'
                )

    @property
    def names_contact(self) -> bool:
        """True when `user_agent` holds a web page or mail address, and none that is a placeholder."""
        words = _BETWEEN_WORDS.split(self.user_agent)
        pages = [word.partition("://")[2].partition("/")[0] for word in words if "://" in word]
        domains = [*pages, *(word.partition("@")[2] for word in words if "@" in word and "://" not in word)]
        return any("." in domain.strip(".") for domain in domains) and not _PLACEHOLDER.search(self.user_agent)

    def wikimedia_rate(self) -> float:
        """Return how many requests a minute Wikimedia's APIs are sent at most."""
        asked = [getattr(self, name) for name in SECTIONS if is_wikimedia_api(getattr(self, name).url)]
        default = _SIGNED_IN_RATE if all(service.token_env for service in asked) else _ANONYMOUS_RATE
        return self.wikimedia.requests_per_minute or default

    def require_keys(self, roles: Collection[str]) -> None:
        """Raise SettingsError when a model in one of these roles needs an environment variable that is not set."""
        for role in sorted(self.models.keys() & roles):
            require_variables(self.models[role])

    def with_graph(self, graph: str) -> "World":
        """Return this world with a local graph as its Wikidata."""
        return self.model_copy(update={"wikidata": Wikidata(engine="graph", graph=graph, limits=self.wikidata.limits)})

    @property
    def is_embedded(self) -> bool:
        """True when any endpoint is the embedded world's own."""
        return any(getattr(self, name).url == EMBEDDED for name in SECTIONS)

    def epoch_day(self) -> date:
        """Return the day the world is seen at."""
        return self.epoch or datetime.now(UTC).date().replace(day=1)

    def digest(self, roles: Collection[str]) -> str:
        """Return the digest of what can change an answer of these models: without limits, ages, prices, batch jobs, connections (CONNECTION), tokens, compute and the user agent."""
        told = self.model_dump(
            mode="json",
            exclude={
                **dict.fromkeys(("user_agent", "epoch", "compute", "wikimedia"), True),
                "models": {"__all__": CONNECTION},
            },
        )
        told["models"] = {role: model for role, model in told["models"].items() if role in roles}
        return digest_json(_without_limits(told))


def load_world(name: str, graph: str | None = None) -> World:
    """Read a shipped world by name or any by path, with a local graph as its Wikidata if one is named, and the cluster
    that FACTMILL_CLUSTER names, if it is set.

    SettingsError names file, key and what was expected.
    """
    path = ROOT / "data" / "worlds" / f"{name}.toml" if name in SHIPPED_WORLDS else Path(name)
    try:
        world = World.model_validate(read_toml(path))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise SettingsError(f"no world {name!r}: give `embedded`, `live` or the path of a TOML file") from error
    except OSError as error:
        raise SettingsError(f"the world {name[:_LONGEST_NAMED]!r} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise SettingsError(f"{path}: {'; '.join(_describe_fault(fault) for fault in error.errors())}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: not a TOML file that can be read: {error}") from error
    if cluster := environment(CLUSTER):
        world = world.model_copy(update={"compute": read_cluster(cluster, world.compute)})
    return world if graph is None else world.with_graph(graph)


def _describe_fault(fault: Any) -> str:
    """Return what is wrong with a world's file: its place, and the key that may have been meant."""
    place = [str(part) for part in fault["loc"]]
    if fault["type"] != "extra_forbidden":
        return f"{'.'.join(place)}: {fault['msg'].removeprefix('Value error, ')}"
    owner: type[StrictModel] = World
    for part in place[:-1]:
        owner = _PARTS.get(part, owner)
    return f"{'.'.join(place)}: there is no such setting{suggest_name(place[-1], owner.model_fields)}"


def home() -> Path:
    """Return the folder of the warehouse, graphs and run files.

    FACTMILL_HOME if set; else data/ of the checkout the code runs from; else ~/.local/share/factmill.
    """
    if given := os.environ.get("FACTMILL_HOME"):
        return absolute_path(given)
    if (ROOT / "pyproject.toml").is_file():
        return ROOT / "data"
    return absolute_path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "factmill"


def require_home() -> Path:
    """Return the home, made where it is missing; SettingsError when it cannot be made or written, or its disk is full."""
    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = find_lack_of_room(folder)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise SettingsError(
            f"factmill's home {folder} cannot be written ({why}); set FACTMILL_HOME to a folder of your own that can"
        )
    return folder


def find_lack_of_room(folder: Path) -> str:
    """Return why a run cannot write to a folder that is there; nothing where it can.

    A file of LEAST_WRITTEN bytes is written and removed, since no number says what a quota leaves.
    """
    there = os.statvfs(folder)
    free = there.f_bavail * there.f_frsize
    if free < LEAST_FREE:
        return f"{free:,} bytes are free on its disk, {LEAST_FREE:,} are needed: {_MAKE_ROOM}"
    if there.f_files and there.f_favail < LEAST_FILES:
        return f"{there.f_favail:,} inodes are free on its disk, {LEAST_FILES:,} are needed: {_MAKE_ROOM}"
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(LEAST_WRITTEN))
            probe.flush()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return error.strerror or str(error)
        return f"{error.strerror} before {LEAST_WRITTEN:,} bytes were written, though {free:,} are free: {_MAKE_ROOM}"
    return ""


def default_warehouse() -> Path:
    """Return the DuckDB file used when none is named."""
    return home() / "factmill.duckdb"


def warehouse_wait_s() -> float:
    """Return how many seconds to wait for another process to let go of the warehouse (FACTMILL_WAIT_S, default 30)."""
    given = os.environ.get("FACTMILL_WAIT_S", "30")
    try:
        wait_s = float(given)
    except ValueError:
        wait_s = -1
    if not 0 <= wait_s <= LONGEST_S:
        raise SettingsError(
            f"FACTMILL_WAIT_S is {given[:_LONGEST_NAMED]!r}; expected seconds from 0 to {LONGEST_S:.0f}"
        )
    return wait_s


def graphs_folder(home_folder: Path) -> Path:
    """Return the folder of local graphs below a home."""
    return home_folder / "graphs"


def api_key(model: Model) -> str:
    """Return a model's key from the environment; SettingsError when it is named but not set."""
    if not model.key_env:
        return "none"
    key = os.environ.get(model.key_env, "")
    if not key:
        raise SettingsError(
            f"model {model.name}: the environment variable that its key_env names is not set; set it to the API key"
        )
    return key


def read_token(section: str, service: Endpoint | Wikidata) -> str:
    """Return a service's token from the environment, empty where it has none; SettingsError when it is named but not usable."""
    token = os.environ.get(service.token_env, "") if service.token_env else ""
    if service.token_env and not token:
        raise SettingsError(
            f"[{section}]: the environment variable {service.token_env}, which token_env names, is not set; set it to an OAuth 2 "
            "token, or leave token_env out"
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise SettingsError(
            f"[{section}]: the environment variable {service.token_env}, which token_env names, holds characters that no "
            "token has; set it to the token alone"
        )
    return token


def read_headers(model: Model) -> dict[str, str]:
    """Return a model's own headers with their values; SettingsError when an environment variable is not set."""
    return {name: _read_value(model, f"headers.{name}", value) for name, value in model.headers.items()}


def read_query(model: Model) -> dict[str, str]:
    """Return a model's query parameters with their values; SettingsError when an environment variable is not set."""
    return {name: _read_value(model, f"query.{name}", value) for name, value in model.query.items()}


def require_variables(model: Model) -> None:
    """Raise SettingsError when an environment variable that a model's settings name is not set."""
    api_key(model)
    read_headers(model)
    read_query(model)


def _read_value(model: Model, setting: str, value: str | FromEnvironment) -> str:
    if isinstance(value, str):
        return value
    found = os.environ.get(value.env, "")
    if not found:
        raise SettingsError(
            f"model {model.name}: the environment variable that {setting} names by env is not set; set it to the value"
        )
    return found


def environment(name: str) -> str | None:
    """Return one environment variable, for the few places that pass settings on to other programs."""
    return os.environ.get(name)


def _without_limits(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: _without_limits(v)
            for k, v in value.items()
            if k not in ("limits", "max_age", "token_env", "mode", "batch_price", "jobs") and not k.startswith("usd_")
        }
    return value
