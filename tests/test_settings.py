"""Test worlds and settings."""

from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from factmill.tasks import settings
from factmill.tasks.core.calls.operation import list_operations
from factmill.tasks.core.service_settings import (
    ModelSettings,
    is_wikidata_query_service,
    is_wikimedia_url_except_query_service,
)
from factmill.tasks.engine.naming.identities import resolve_reply_max_ages_by_identity
from factmill.tasks.errors import SettingsError
from factmill.tasks.settings import BUILD_MODEL_ROLES, load_world, read_api_key, read_service_token

WORLD = """
name = "mine"
user_agent = "me"
wikidata = { url = "http://a/sparql" }
wikipedia = { url = "http://b" }
pageviews = { url = "http://c" }
falcon = { url = "http://d" }
[models.author]
kind = "openai"
name = "m"
key_env = "MY_KEY"
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_shipped_worlds_load() -> None:
    assert load_world("embedded").uses_embedded_services
    live = load_world("live")
    assert not live.uses_embedded_services
    assert all(model.key_env for model in live.models.values())


def test_user_world_is_read_from_path(tmp_path: Path) -> None:
    assert load_world(write(tmp_path, WORLD)).name == "mine"


def test_zim_path_is_relative_to_world_file_and_not_in_digest(tmp_path: Path) -> None:
    worlds = []
    for folder, name in ((tmp_path / "one", "a.zim"), (tmp_path / "two", "elsewhere/b.zim")):
        folder.mkdir()
        found = load_world(write(folder, WORLD.replace('url = "http://b"', f'engine = "zim", path = "{name}"')))
        assert found.wikipedia.path == str(folder / name)
        assert found.has_service("wikipedia")
        found.require_service_access("wikipedia")
        worlds.append(found)
    assert worlds[0].digest_answer_settings(()) == worlds[1].digest_answer_settings(())
    assert worlds[0].digest_answer_settings(()) != load_world(write(tmp_path, WORLD)).digest_answer_settings(())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WORLD.replace("name =", "name ", 1), "not a valid TOML file"),
        (WORLD.replace('user_agent = "me"', ""), "user_agent: Field required"),
        (WORLD + "colour = 3\n", "models.author.colour: unknown setting"),
        (WORLD.replace("openai", "oracle"), "models.author.kind"),
        (WORLD + "[models.embedder]\nkind='openai'\nname='x'\n", r"models.embedder.kind is `openai`; expected `local`"),
        (WORLD.replace("openai", "local"), "models.author.kind is `local`"),
        (WORLD + "[models.critic]\nkind='scripted'\n", "models.critic"),
        (
            WORLD.replace('"http://b"', '"http://b", path = "a.zim"'),
            'wikipedia: path: only engine = "zim" reads a file',
        ),
        (WORLD.replace('url = "http://b"', 'engine = "zim"'), "wikipedia: path: expected the path of a ZIM file"),
        (WORLD.replace('"http://b"', '"http://b", engine = "zim", path = "a"'), "wikipedia: url: a file has no such"),
        (
            WORLD.replace('url = "http://b"', 'engine = "zim", path = "a", max_age = "3d"'),
            "max_age: a file has no such",
        ),
        (
            WORLD.replace('"http://a/sparql"', '"http://a/sparql", limits = { parallel = 0 }'),
            "wikidata.limits.parallel",
        ),
    ],
)
def test_invalid_world_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=rf"mine\.toml: .*{message}"):
        load_world(write(tmp_path, text))


def test_unknown_world_names_expected_values() -> None:
    with pytest.raises(
        SettingsError,
        match=r"no world 'marble': no such file in .*; expected `embedded`, `live` or the path .*; to write one, copy /.*live\.toml",
    ):
        load_world("marble")


PRICES = "usd_per_million_cached = 3\nusd_per_million_cache_write = 4\nusd_per_request = 0.01"
BY_JOBS = 'mode = "batch"\nbatch_price = 0.4\njobs = { poll_s = 5, requests = 10 }'


@pytest.mark.parametrize(
    ("old", "new", "is_part"),
    [
        ('"http://a/sparql"', '"http://a/sparql", limits = { parallel = 1 }, max_age = "30d"', False),
        ('"http://b"', '"http://b", token_env = "MY_TOKEN"', False),
        ('user_agent = "me"', 'user_agent = "you"\nwikimedia = { parallel = 1 }', False),
        ('name = "m"', f'name = "m"\n{PRICES}', False),
        ('name = "m"', f'name = "m"\n{BY_JOBS}', False),
        ('name = "m"', 'name = "m"\nmax_age = 90', False),
        ('name = "m"', 'name = "m"\nthinking_tokens = 3', True),
        ('name = "m"', 'name = "n"', True),
    ],
)
def test_world_digest_covers_only_settings_that_change_responses(
    tmp_path: Path, old: str, new: str, is_part: bool
) -> None:
    plain, other = (load_world(write(tmp_path, text)) for text in (WORLD, WORLD.replace(old, new)))
    assert other != plain
    assert is_part == (
        other.digest_answer_settings(BUILD_MODEL_ROLES) != plain.digest_answer_settings(BUILD_MODEL_ROLES)
    )
    assert bool(other.models["author"].request_profile()) == ("thinking" in new)


def test_api_keys_come_only_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ModelSettings(kind="openai", name="m", key_env="MY_KEY")
    with pytest.raises(SettingsError, match=r"model m: the environment variable MY_KEY \(key_env\) is not set"):
        read_api_key(model)
    monkeypatch.setenv("MY_KEY", "secret-value")
    assert read_api_key(model) == "secret-value"
    assert "secret-value" not in repr(model) + model.model_dump_json()
    assert read_api_key(ModelSettings(kind="openai", name="m")) == "none"


def test_world_without_epoch_uses_first_day_of_month(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, WORLD))
    assert world.epoch_day().day == 1
    assert load_world("embedded").epoch_day() == date(2026, 1, 1)


def test_home_comes_from_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FACTMILL_HOME", str(tmp_path / "h"))
    assert settings.default_warehouse_path() == tmp_path / "h" / "factmill.duckdb"
    assert settings.graphs_folder(settings.factmill_home()) == tmp_path / "h" / "graphs"


def test_world_may_omit_services_and_names_missing_one(tmp_path: Path) -> None:
    world = load_world(write(tmp_path, 'name = "w"\nuser_agent = "me"\nwikipedia = { url = "http://b" }\n[models]\n'))
    world.require_services("wikipedia")
    with pytest.raises(SettingsError, match=r"the world w .* falcon, .*; add \[falcon\]"):
        world.require_services("wikipedia", "falcon")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("extra_body = { max_tokens = 3 }", "max_tokens: "),
        ('token_limit = "tokens"', "models.author.token_limit"),
        ("[models.perplexity]\nkind = 'openai'\nname = 'x'\nseed = false", "only a chat model behind a server"),
        ("[pageviews]", "pageviews.url: expected an address"),
        ("usd_per_request = -0.01", "models.author.usd_per_request"),
        ("usd_per_million_out = nan", "models.author.usd_per_million_out"),
    ],
)
def test_invalid_profile_is_named(tmp_path: Path, line: str, message: str) -> None:
    text = WORLD.replace('pageviews = { url = "http://c" }\n', "") if line == "[pageviews]" else WORLD
    with pytest.raises(SettingsError, match=message):
        load_world(write(tmp_path, f"{text}{line}\n"))


def test_batch_settings_require_batch_mode_of_chat_model(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"unknown setting; did you mean requests"):
        load_world(write(tmp_path, WORLD + "jobs = { request = 10 }\n"))
    for line in ("batch_price = 0.4", "jobs = { requests = 10 }"):
        with pytest.raises(SettingsError, match=rf'models.author.{line.split()[0]} requires mode = "batch"'):
            load_world(write(tmp_path, f"{WORLD}{line}\n"))
    local = '[models.translator]\nkind = "local"\nname = "t"\nmode = "batch"\n'
    with pytest.raises(SettingsError, match=r"models.translator.mode: only a chat model behind a server"):
        load_world(write(tmp_path, f"{WORLD}\n{local}"))


def test_misspelt_setting_suggests_similar_name(tmp_path: Path) -> None:
    author = '[models.author]\nkind = "openai"\nname = "m"\nurl = "http://b"\n'
    world = write(tmp_path, f'name = "w"\nuser_agent = "me"\n{author}temprature = 1\nlimits = {{ paralel = 2 }}\n')
    with pytest.raises(SettingsError) as error:
        load_world(world)
    assert "models.author.temprature: unknown setting; did you mean temperature?" in str(error.value)
    assert "models.author.limits.paralel: unknown setting; did you mean parallel?" in str(error.value)


def test_evaluated_model_may_have_any_name_and_is_not_in_build_digest(tmp_path: Path) -> None:
    before = load_world(write(tmp_path, WORLD))
    other = load_world(write(tmp_path, WORLD + '[models.mine]\nkind = "openai"\nname = "m"\nurl = "http://x/v1"\n'))
    assert other.models["mine"].name == "m"
    assert other.digest_answer_settings(BUILD_MODEL_ROLES) == before.digest_answer_settings(BUILD_MODEL_ROLES)
    assert other.digest_answer_settings(["mine"]) != before.digest_answer_settings(["mine"])
    with pytest.raises(SettingsError, match=r"models\.mine\.kind is `scripted`; expected `openai`"):
        load_world(write(tmp_path, WORLD + '[models.mine]\nkind = "scripted"\n'))


SECRET = "sk-live-0123456789abcdef"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('key_env = "MY_KEY"', f'key_env = "{SECRET}"', "models.author.key_env: .*not the key itself"),
        ('key_env = "MY_KEY"', 'key_env = "abcdef0123456789"', "models.author.key_env: .*not the key itself"),
        ("http://a/sparql", f"http://me:{SECRET}@a/sparql", "wikidata.url: .*holds a user name or password"),
        ("http://b", f"https://{SECRET}@b", "wikipedia.url: .*holds a user name or password"),
        ("http://c", f"https://c/?key={SECRET}", r"pageviews.url: .*holds \? or #"),
        ("http://c", "file:///etc/passwd", "pageviews.url: .*begins with http"),
        ("http://c", "c.example.org/x", "pageviews.url: .*begins with http"),
        ("http://c", "http://", "pageviews.url: .*and a host"),
        ("http://c", "http://[::1", "pageviews.url: "),
        ("http://c", "http://c:99999", "pageviews.url: "),
        ('key_env = "MY_KEY"', f"parallel = {'9' * 5000}", "not a valid TOML file: .*4300 digits"),
        ('key_env = "MY_KEY"', f"extra_body = {'[' * 9000}", "not a valid TOML file: nested too deeply"),
    ],
)
def test_invalid_url_or_secret_is_rejected_without_repeating_it(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load_world(write(tmp_path, WORLD.replace(old, new)))
    assert SECRET not in str(caught.value)


AUTHOR = '[models.author]\nkind = "openai"\nname = "m"\nurl = "http://m/v1"\n'
JUDGE = '[models.judge]\nkind = "openai"\nname = "j"\nurl = "http://m/v1"\n'


def test_services_and_models_have_max_age(tmp_path: Path) -> None:
    plain, aged = tmp_path / "plain.toml", tmp_path / "aged.toml"
    text = f'name = "w"\nuser_agent = "a"\n[wikidata]\nurl = "http://w/sparql"\nAGE\n[wikipedia]\nurl = "embedded"\n{AUTHOR}'
    plain.write_text(text.replace("AGE", ""), "utf-8")
    aged.write_text(text.replace("AGE", 'max_age = "30d"') + "max_age = 90\n", "utf-8")
    world = load_world(str(aged))
    assert resolve_reply_max_ages_by_identity(world, None) == {
        "http://w/sparql": 2_592_000,
        "http://m/v1": 90,
        "http://m/v1#m": 90,
    }
    assert resolve_reply_max_ages_by_identity(world, "1h")["http://w/sparql"] == 3600
    assert resolve_reply_max_ages_by_identity(load_world(str(plain)), "1h") == {"http://w/sparql": 3600}, (
        "models do not age by the option"
    )
    assert resolve_reply_max_ages_by_identity(load_world("embedded"), "0") == {}
    assert resolve_reply_max_ages_by_identity(world.with_local_graph("g"), "0") == {
        "http://m/v1": 90,
        "http://m/v1#m": 90,
    }


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            '[pageviews]\nurl = "http://p"\nmax_age = "monthly"\n',
            "pageviews.max_age: .*'monthly' is not an age; expected one such",
        ),
        (f'{AUTHOR}max_age = "1d"\n{JUDGE}', "models.judge.max_age: models.author has the same address but another"),
        ('[models.author]\nkind = "scripted"\nmax_age = "1d"\n', "models.author.max_age: .*`scripted`"),
    ],
)
def test_invalid_max_age_is_reported(tmp_path: Path, more: str, text: str) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        f'name = "w"\nuser_agent = "a"\n[wikidata]\nurl = "http://w"\n{more if "models" in more else more + AUTHOR}',
        "utf-8",
    )
    with pytest.raises(SettingsError, match=text):
        load_world(str(path))


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("", {"page_text": 32_000_000, "files": 2_000_000_000}),
        ("max_bytes = 7", {"page_text": 7, "search": 7, "files": 2_000_000_000}),
        ("max_bytes = { page_text = 9 }", {"page_text": 9, "search": 32_000_000}),
        ("max_bytes = { all = 5, files = 6 }", {"page_text": 5, "files": 6}),
    ],
)
def test_response_byte_limit_depends_on_operation(tmp_path: Path, text: str, bounds: dict[str, int]) -> None:
    world = load_world(
        write(tmp_path, WORLD.replace('{ url = "http://b" }', f'{{ url = "http://b", limits = {{ {text} }} }}'))
    )
    assert {name: world.wikipedia.limits.get_max_response_bytes(name) for name in bounds} == bounds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "greater than or equal to 1"),
        ("{ page_text = -1 }", "greater than or equal to 1"),
        ('"32 MB"', "valid dictionary"),
        ("{ page_txt = 9 }", "unknown operation page_txt; did you mean page_text?"),
    ],
)
def test_invalid_byte_limit_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    limits = f'{{ url = "http://b", limits = {{ max_bytes = {text} }} }}'
    with pytest.raises(SettingsError, match=r"limits\.max_bytes") as caught:
        load_world(write(tmp_path, WORLD.replace('{ url = "http://b" }', limits)))
    assert message in str(caught.value)


def test_every_service_operation_accepts_byte_limit(tmp_path: Path) -> None:
    for operation in (*list_operations(), SimpleNamespace(name="files", service="model")):
        limits = f'{{ url = "http://b", limits = {{ max_bytes = {{ {operation.name} = 9 }} }} }}'
        text = WORLD.replace('{ url = "http://b" }', limits)
        if operation.service in ("translator", "world"):
            with pytest.raises(SettingsError, match=f"unknown operation {operation.name}"):
                load_world(write(tmp_path, text))
        else:
            assert load_world(write(tmp_path, text)).has_service("wikipedia")


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        ("factmill/0.1 (set a contact address here: you@example.org)", False),
        ("factmill/0.1 (you@example.com)", False),
        ("factmill/0.1 (https://www.example.org/me; me@uni.edu)", False),
        ("factmill/0.1", False),
        ("", False),
        ("factmill/0.1 (me at uni.edu)", False),
        ("factmill/0.1 (me@localhost)", False),
        ("factmill/0.1 (https://)", False),
        ("factmill/0.1 (http://.)", False),
        ("factmill/0.1 (me@uni.edu)", True),
        ("factmill/0.1 (+https://github.com/me/thing; by Me)", True),
        ("factmill/0.1 (HTTPS://meta.wikimedia.org/wiki/User:Me)", True),
        ("factmill/0.1 <me@myexample.organic>", True),
        ("factmill/0.1 (Juergen, j@uni-koeln.de)", True),
        ("a" * 8_000, False),
        ("@" * 8_000, False),
    ],
)
def test_user_agent_contact_must_not_be_placeholder(tmp_path: Path, agent: str, names: bool) -> None:
    world = load_world(write(tmp_path, WORLD.replace('"me"', f'"{agent}"')))
    assert world.has_contact_address == names
    if names:
        world.require_service_access("wikidata", "pageviews")
    else:
        with pytest.raises(SettingsError, match=r"\[pageviews\] at http://c .*user_agent"):
            world.require_service_access("pageviews")


@pytest.mark.parametrize("host", ["127.0.0.1:7", "localhost", "[::1]:80", "127.9.9.9", "wiki.localhost"])
def test_local_services_need_no_contact_address(tmp_path: Path, host: str) -> None:
    load_world(write(tmp_path, WORLD.replace("http://a/", f"http://{host}/"))).require_service_access("wikidata")
    load_world("embedded").require_service_access("wikidata", "wikipedia", "pageviews")
    load_world(write(tmp_path, WORLD), graph="g").require_service_access("wikidata", "dbpedia")


@pytest.mark.parametrize("host", ["127.0.0.1.evil.net", "10.0.0.5", "localhost.net", "0.0.0.0"])
def test_remote_hosts_need_contact_address(tmp_path: Path, host: str) -> None:
    with pytest.raises(SettingsError, match="user_agent with your web page or mail address"):
        load_world(write(tmp_path, WORLD.replace("http://a/", f"http://{host}/"))).require_service_access("wikidata")


def test_token_is_read_from_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = load_world(write(tmp_path, WORLD.replace('"http://b"', '"http://b", token_env = "MY_TOKEN"')))
    with pytest.raises(SettingsError, match=r"\[wikipedia\]: the environment variable MY_TOKEN \(token_env\) is"):
        world.require_service_access("wikipedia")
    monkeypatch.setenv("MY_TOKEN", "two words")
    with pytest.raises(SettingsError, match=r"MY_TOKEN \(token_env\) holds characters that no") as raised:
        world.require_service_access("wikipedia")
    assert "two words" not in str(raised.value)
    monkeypatch.setenv("MY_TOKEN", "abc.def")
    assert read_service_token("wikipedia", world.wikipedia) == "abc.def"
    assert read_service_token("pageviews", world.pageviews) == ""
    assert "abc.def" not in repr(world) + world.model_dump_json()


@pytest.mark.parametrize(
    ("url", "counted"),
    [
        ("https://en.wikipedia.org", "apis"),
        ("https://EN.Wikipedia.ORG./w", "apis"),
        ("https://wikimedia.org/api/rest_v1", "apis"),
        ("https://www.wikidata.org/w/api.php", "apis"),
        ("https://query.wikidata.org/sparql", "queries"),
        ("https://query-main.wikidata.org/sparql", "queries"),
        ("https://wikipedia.org.evil.net", None),
        ("https://notwikipedia.org", None),
        ("http://127.0.0.1:8080/wikipedia.org", None),
        ("https://labs.tib.eu/falcon", None),
        ("", None),
    ],
)
def test_wikimedia_hosts_are_recognised_by_name(url: str, counted: str | None) -> None:
    assert (is_wikimedia_url_except_query_service(url), is_wikidata_query_service(url)) == (
        counted == "apis",
        counted == "queries",
    )
