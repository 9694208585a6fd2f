"""Settings and worlds: the only module that reads the environment and settings files.

A world is a TOML file that names every endpoint and model that a run calls. `embedded` and `live` are shipped in
data/worlds/; any other name is a path. A world names API keys by environment variable; they are read when a model
is first called. No settings object holds them, so they cannot be stored, logged or digested.
"""

import errno
import os
import re
import tempfile
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.compute_settings import CLUSTER_VARIABLE, ComputeSettings, make_cluster_settings
from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.epochs import EARLIEST_DAY, LATEST_DAY
from factmill.tasks.core.rows import MAX_WAIT_S, StrictModel
from factmill.tasks.core.service_settings import (
    CHAT_MODEL_KINDS,
    CONNECTION_SETTINGS,
    EMBEDDED_SERVICE,
    EnvironmentReference,
    ModelSettings,
    ServiceEndpoint,
    ServiceLimits,
    ShortName,
    WikidataSettings,
    WikimediaLimits,
    WikipediaSettings,
    check_header_text,
    is_loopback_url,
    is_wikimedia_url_except_query_service,
)
from factmill.tasks.errors import SettingsError
from factmill.tasks.files import load_toml, resolve_absolute_path
from factmill.tasks.text.sanitize import format_did_you_mean
from factmill.tasks.zim_archive import ZimArchive, open_zim_archive

MIN_FREE_BYTES = 64_000_000
"""Free bytes that the home needs before a run begins: Prefect's history and a small build take about half of that."""
MIN_FREE_INODES = 1_000
"""Free inodes that the home needs; a run makes a few files for each batch."""
WRITE_PROBE_BYTES = 1_000_000
_FREE_SPACE_ADVICE = "free some space; `factmill gc` lists what can be removed"
SHIPPED_WORLDS = ("embedded", "live")
"""Worlds known by name; any other world is the path of a file."""
MODEL_KINDS_BY_ROLE: dict[str, tuple[str, ...]] = {
    "embedder": ("local",),
    "translator": ("local",),
    "perplexity": ("local", "openai"),
}
"""Role → kinds of models that can fill it; `scripted` and CHAT_MODEL_KINDS for authors and judges."""
BUILD_MODEL_ROLES = ("author", "judge", *MODEL_KINDS_BY_ROLE)
"""Roles of models in builds; every other name in a world's `models` is a model under test."""
_WORD_SEPARATORS = re.compile(r"[\s;,()<>]+")
_PLACEHOLDER_DOMAIN = re.compile(r"\bexample\.(org|com|net)\b|\.(example|invalid|test)\b", re.IGNORECASE)
"""Reserved domains (RFC 2606), such as that of the user agent in data/worlds/live.toml."""
_ANONYMOUS_RATE, _SIGNED_IN_RATE = 200.0, 2000.0
"""Requests per minute to Wikimedia's APIs for a client with a contact address and for an established account, as published on
3 June 2026 at https://www.mediawiki.org/wiki/Wikimedia_APIs/Rate_limits, which asks for at most three requests at a time."""
_MAX_QUOTED_CHARACTERS = 200
"""Maximum number of characters of user input that an error message quotes."""
SERVICE_SECTIONS = ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")
"""Services of a world; a build needs those that its benchmark calls."""


_SETTINGS_BY_KEY: dict[str, type[StrictModel]] = {
    "models": ModelSettings,
    "limits": ServiceLimits,
    "jobs": BatchJobSettings,
    "compute": ComputeSettings,
    "wikimedia": WikimediaLimits,
    "wikidata": WikidataSettings,
    "wikipedia": WikipediaSettings,
    **dict.fromkeys(SERVICE_SECTIONS[2:], ServiceEndpoint),
}
"""Key of a world's file → class of the settings below it."""


class World(StrictModel):
    """The endpoints and models that a run calls."""

    name: ShortName
    user_agent: Annotated[str, AfterValidator(check_header_text)]
    """Sent with every request. It must hold your web page or mail address if a service is not on this machine: Wikimedia
    refuses clients without a contact address."""
    epoch: Annotated[date, Field(ge=EARLIEST_DAY, le=LATEST_DAY)] | None = None
    """Cut-off day of the world (end of page views); None: the first day of the current month."""
    wikidata: WikidataSettings = WikidataSettings()
    wikipedia: WikipediaSettings = WikipediaSettings()
    pageviews: ServiceEndpoint = ServiceEndpoint()
    falcon: ServiceEndpoint = ServiceEndpoint()
    dbpedia: ServiceEndpoint = ServiceEndpoint()
    """SPARQL endpoint that knows which Wikidata item a DBpedia resource is."""
    wikimedia: WikimediaLimits = WikimediaLimits()
    compute: ComputeSettings = ComputeSettings()
    prompts: str = ""
    """Folder of your own prompts, relative to this file; each replaces the packaged prompt of the same id. Empty: none."""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """By role; under any other name, such as `answerer`, a model that can be measured, or judge others."""

    @model_validator(mode="after")
    def _check_kinds(self) -> "World":
        for role, model in self.models.items():
            others = ("scripted", *CHAT_MODEL_KINDS) if role in BUILD_MODEL_ROLES else CHAT_MODEL_KINDS
            if model.kind not in (wanted := MODEL_KINDS_BY_ROLE.get(role, others)):
                allowed = " or ".join(f"`{kind}`" for kind in wanted)
                raise ValueError(f"models.{role}.kind is `{model.kind}`; expected {allowed} in this role")
            if model.compute_type and (model.kind != "local" or role == "embedder"):
                raise ValueError(
                    f"models.{role}.compute_type: only a translator or a perplexity model of kind `local` has this setting"
                )
            if model.request_profile() and (model.kind not in CHAT_MODEL_KINDS or role == "perplexity"):
                raise ValueError(
                    f"models.{role}.{next(iter(model.request_profile()))}: only a chat model behind a server has this setting"
                )
            if (idle_settings := model.connection_settings()) and model.kind in ("scripted", "local"):
                raise ValueError(
                    f"models.{role}.{next(iter(idle_settings))}: only a model behind a server has this setting"
                )
            if model.stream and role == "perplexity":
                raise ValueError(f"models.{role}.stream: only chat models can stream replies")
            if model.mode == "batch" and (model.kind not in CHAT_MODEL_KINDS or role == "perplexity"):
                raise ValueError(f"models.{role}.mode: only a chat model behind a server supports batch jobs")
            if model.mode != "batch" and (idle := sorted({"batch_price", "jobs"} & model.model_fields_set)):
                raise ValueError(f'models.{role}.{idle[0]} requires mode = "batch"; add that line, or remove {idle[0]}')
        self._check_ages()
        if empty := [name for name in SERVICE_SECTIONS if name in self.model_fields_set and not self.has_service(name)]:
            raise ValueError(f"{empty[0]}.url: expected an address")
        return self

    def _check_ages(self) -> None:
        """Raise ValueError for a max_age on a model without one, or several for models of one address."""
        by_address: dict[str, tuple[str, str | None]] = {}
        for role, model in self.models.items():
            if model.max_age and model.kind not in CHAT_MODEL_KINDS:
                raise ValueError(
                    f"models.{role}.max_age: replies of a model of kind `{model.kind}` never expire; remove this setting"
                )
            other, age = by_address.setdefault(model.url, (role, model.max_age))
            if model.kind in CHAT_MODEL_KINDS and age != model.max_age:
                raise ValueError(f"models.{role}.max_age: models.{other} has the same address but another max_age")

    def has_service(self, section: str) -> bool:
        """True when this world names a service; a local graph counts as its Wikidata, a file as its Wikipedia."""
        return bool(getattr(self, section).url) or self.is_local(section)

    def is_local(self, section: str) -> bool:
        """True when a service is a local graph or a file, which has no address."""
        is_graph, is_file = self.wikidata.engine == "graph", self.wikipedia.engine == "zim"
        return (section == "wikidata" and is_graph) or (section == "wikipedia" and is_file)

    def require_services(self, *sections: str) -> None:
        """Raise SettingsError when this world does not name one of these services."""
        if missing := [section for section in sections if not self.has_service(section)]:
            raise SettingsError(
                f"the world {self.name} has no service {missing[0]}, which this command needs; add [{missing[0]}] with its url to "
                "the world's file (data/worlds/live.toml is an example)"
            )

    def require_service_access(self, *sections: str) -> None:
        """Raise SettingsError when one of these services may not be called: `token_env` names a variable that is not set, or
        the service is not on this machine and `user_agent` holds no contact address."""
        for section in sections:
            service: ServiceEndpoint = getattr(self, section)
            if self.is_local(section):
                continue
            read_service_token(section, service)
            if (
                service.url not in ("", EMBEDDED_SERVICE)
                and not is_loopback_url(service.url)
                and not self.has_contact_address
            ):
                raise SettingsError(
                    f"the world {self.name}: [{section}] at {service.url} requires a user_agent with your web page or mail "
                    f"address; found {self.user_agent!r}. Add a line like this, with your own address, to the world's file "
                    '(for `live`, to a copy whose path you pass to --world): user_agent = "factmill/0.1 (you@example.org)"'
                )

    @property
    def has_contact_address(self) -> bool:
        """True when `user_agent` holds a web page or mail address that is not a placeholder."""
        words = _WORD_SEPARATORS.split(self.user_agent)
        pages = [word.partition("://")[2].partition("/")[0] for word in words if "://" in word]
        domains = [*pages, *(word.partition("@")[2] for word in words if "@" in word and "://" not in word)]
        return any("." in domain.strip(".") for domain in domains) and not _PLACEHOLDER_DOMAIN.search(self.user_agent)

    def wikimedia_requests_per_minute(self) -> float:
        """Return the maximum number of requests per minute to Wikimedia's APIs."""
        asked = [
            getattr(self, name)
            for name in SERVICE_SECTIONS
            if is_wikimedia_url_except_query_service(getattr(self, name).url)
        ]
        default = _SIGNED_IN_RATE if all(service.token_env for service in asked) else _ANONYMOUS_RATE
        return self.wikimedia.requests_per_minute or default

    def require_model_credentials(self, roles: Collection[str]) -> None:
        """Raise SettingsError when a model in one of these roles needs an environment variable that is not set."""
        for role in sorted(self.models.keys() & roles):
            require_model_environment_variables(self.models[role])

    def with_local_graph(self, graph: str) -> "World":
        """Return this world with a local graph as its Wikidata."""
        return self.model_copy(
            update={"wikidata": WikidataSettings(engine="graph", graph=graph, limits=self.wikidata.limits)}
        )

    @property
    def uses_embedded_services(self) -> bool:
        """True when any endpoint belongs to the embedded world."""
        return any(getattr(self, name).url == EMBEDDED_SERVICE for name in SERVICE_SECTIONS)

    def epoch_day(self) -> date:
        """Return the cut-off day of the world: the day of its Wikipedia's file, else `epoch`, else the first day of the
        current month. SettingsError if the first two differ."""
        if self.wikipedia.engine != "zim":
            return self.epoch or datetime.now(UTC).date().replace(day=1)
        archive = self.open_wikipedia_file()
        if self.epoch not in (None, archive.date):
            raise SettingsError(
                f"the world {self.name} has epoch = {self.epoch}, but its Wikipedia is a ZIM file of {archive.date} ({archive.path}): "
                "other days' revisions are not there; remove epoch, or name a file of that day"
            )
        return archive.date

    def open_wikipedia_file(self) -> ZimArchive:
        """Return the file that serves as this world's Wikipedia, with engine `zim`; errors as of `ZimArchive`."""
        return open_zim_archive(Path(self.wikipedia.path))

    def digest_answer_settings(self, roles: Collection[str]) -> str:
        """Return the digest of all settings that can change a response, with the models in these roles; without limits, ages,
        prices, batch jobs, connections (CONNECTION), tokens, compute, prompts (the manifest has their texts' digests) and the user agent."""
        settings = self.model_dump(
            mode="json",
            exclude={
                **dict.fromkeys(("user_agent", "epoch", "compute", "prompts", "wikimedia"), True),
                "models": {"__all__": CONNECTION_SETTINGS},
            },
        )
        settings["models"] = {role: model for role, model in settings["models"].items() if role in roles}
        return digest_json(_drop_undigested_settings(settings))


def load_world(name: str, graph: str | None = None) -> World:
    """Load a shipped world by name or any other by path, with the local graph `graph` as its Wikidata, if given, and the
    cluster that FACTMILL_CLUSTER names, if set.

    SettingsError names the file, the key and what was expected.
    """
    path = ASSETS_ROOT / "data" / "worlds" / f"{name}.toml" if name in SHIPPED_WORLDS else Path(name)
    try:
        world = World.model_validate(load_toml(path))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        given = Path(os.path.realpath(path))
        why = f"{given} is a folder" if given.is_dir() else f"no such file in {given.parent}"
        raise SettingsError(
            f"no world {name!r}: {why}; expected `embedded`, `live` or the path of a TOML file; to write one, copy "
            f"{ASSETS_ROOT / 'data' / 'worlds' / 'live.toml'} and follow its comments"
        ) from error
    except OSError as error:
        raise SettingsError(f"the world {name[:_MAX_QUOTED_CHARACTERS]!r} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise SettingsError(
            f"{path}: {'; '.join(_format_validation_error(fault) for fault in error.errors())}"
        ) from error
    except ValueError as error:
        raise SettingsError(f"{path}: not a valid TOML file: {error}") from error
    if world.wikipedia.path:
        file = resolve_absolute_path(path.parent / Path(world.wikipedia.path).expanduser())
        world = world.model_copy(update={"wikipedia": world.wikipedia.model_copy(update={"path": str(file)})})
    if world.prompts:
        folder = path.absolute().parent / Path(world.prompts).expanduser()
        world = world.model_copy(update={"prompts": str(folder)})
    if cluster := get_environment_variable(CLUSTER_VARIABLE):
        world = world.model_copy(update={"compute": make_cluster_settings(cluster, world.compute)})
    return world if graph is None else world.with_local_graph(graph)


def _format_validation_error(fault: Any) -> str:
    """Format an error in a world's file: its place, and the key that was probably meant."""
    place = [str(part) for part in fault["loc"]]
    if fault["type"] != "extra_forbidden":
        return ": ".join(filter(None, [".".join(place), fault["msg"].removeprefix("Value error, ")]))
    owner: type[StrictModel] = World
    for part in place[:-1]:
        owner = _SETTINGS_BY_KEY.get(part, owner)
    names = owner.model_fields
    meant = format_did_you_mean(place[-1], names) or f"; expected one of {', '.join(names)}"
    return f"{'.'.join(place)}: unknown setting{meant}"


def factmill_home() -> Path:
    """Return the folder of the warehouse, graphs and run files.

    FACTMILL_HOME if set; else data/ of the checkout the code runs from; else ~/.local/share/factmill.
    """
    if given := os.environ.get("FACTMILL_HOME"):
        return resolve_absolute_path(given)
    if (ASSETS_ROOT / "pyproject.toml").is_file():
        return ASSETS_ROOT / "data"
    return resolve_absolute_path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "factmill"


def ensure_writable_home() -> Path:
    """Return the home, created if missing; SettingsError when it cannot be created or written, or its disk is full."""
    folder = factmill_home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = find_disk_problem(folder)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise SettingsError(
            f"factmill's home {folder} cannot be written ({why}); set FACTMILL_HOME to a writable folder"
        )
    return folder


def find_disk_problem(folder: Path) -> str:
    """Return why a run cannot write to an existing folder; empty when it can.

    Writes and removes a file of WRITE_PROBE_BYTES bytes, since the system reports no quota.
    """
    there = os.statvfs(folder)
    free = there.f_bavail * there.f_frsize
    if free < MIN_FREE_BYTES:
        return f"{free:,} bytes are free on its disk, {MIN_FREE_BYTES:,} are needed: {_FREE_SPACE_ADVICE}"
    if there.f_files and there.f_favail < MIN_FREE_INODES:
        return f"{there.f_favail:,} inodes are free on its disk, {MIN_FREE_INODES:,} are needed: {_FREE_SPACE_ADVICE}"
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(WRITE_PROBE_BYTES))
            probe.flush()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return error.strerror or str(error)
        return f"{error.strerror} before {WRITE_PROBE_BYTES:,} bytes were written, though {free:,} are free: {_FREE_SPACE_ADVICE}"
    return ""


def default_warehouse_path() -> Path:
    """Return the path of the default DuckDB file."""
    return factmill_home() / "factmill.duckdb"


def warehouse_wait_seconds() -> float:
    """Return the seconds to wait for another process to release the warehouse (FACTMILL_WAIT_S, default 30)."""
    given = os.environ.get("FACTMILL_WAIT_S", "30")
    try:
        wait_s = float(given)
    except ValueError:
        wait_s = -1
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise SettingsError(
            f"FACTMILL_WAIT_S is {given[:_MAX_QUOTED_CHARACTERS]!r}; expected seconds from 0 to {MAX_WAIT_S:.0f}"
        )
    return wait_s


def graphs_folder(home_folder: Path) -> Path:
    """Return the folder of local graphs below a home."""
    return home_folder / "graphs"


def read_api_key(model: ModelSettings) -> str:
    """Return a model's API key from the environment, "none" where it has none; SettingsError when its variable is not set."""
    if not model.key_env:
        return "none"
    key = os.environ.get(model.key_env, "")
    if not key:
        raise SettingsError(
            f"model {model.name}: the environment variable {model.key_env} (key_env) is not set; set it to the API key"
        )
    return key


def read_service_token(section: str, service: ServiceEndpoint) -> str:
    """Return a service's token from the environment, empty where it has none; SettingsError when its variable is not usable."""
    if not service.token_env:
        return ""
    token = os.environ.get(service.token_env, "")
    what = f"[{section}]: the environment variable {service.token_env} (token_env)"
    if not token:
        raise SettingsError(f"{what} is not set; set it to an OAuth 2 token, or remove token_env")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise SettingsError(f"{what} holds characters that no token contains; set it to the token only")
    return token


def read_model_headers(model: ModelSettings) -> dict[str, str]:
    """Return a model's extra headers with their values; SettingsError when an environment variable is not set."""
    return _read_environment_values(model, "headers", model.headers)


def read_model_query_params(model: ModelSettings) -> dict[str, str]:
    """Return a model's query parameters with their values; SettingsError when an environment variable is not set."""
    return _read_environment_values(model, "query", model.query)


def require_model_environment_variables(model: ModelSettings) -> None:
    """Raise SettingsError when a model's settings name an environment variable that is not set."""
    read_api_key(model)
    read_model_headers(model)
    read_model_query_params(model)


def _read_environment_values(
    model: ModelSettings, setting: str, values: Mapping[str, str | EnvironmentReference]
) -> dict[str, str]:
    found = {name: each if isinstance(each, str) else os.environ.get(each.env, "") for name, each in values.items()}
    if missing := [name for name, each in values.items() if not isinstance(each, str) and not found[name]]:
        raise SettingsError(
            f"model {model.name}: the environment variable named by env in {setting}.{missing[0]} is not set; set it to"
            " the value"
        )
    return found


def get_environment_variable(name: str) -> str | None:
    """Return an environment variable, for the few places that pass settings on to other programs."""
    return os.environ.get(name)


def _drop_undigested_settings(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: _drop_undigested_settings(v)
            for k, v in value.items()
            # a file counts by its content, among the identities of services
            if k not in ("limits", "max_age", "token_env", "mode", "batch_price", "jobs", "path")
            and not k.startswith("usd_")
            and (k, v) != ("engine", "mediawiki")
        }
    return value
