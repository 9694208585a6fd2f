"""Test the settings of the connection to a model's server: allowed values, and the digests that ignore them."""

from pathlib import Path

import pytest

from factmill.tasks.errors import SettingsError
from factmill.tasks.settings import (
    BUILD_MODEL_ROLES,
    World,
    load_world,
    read_model_headers,
    read_model_query_params,
    require_model_environment_variables,
)

SECRET = "sk-live-0123456789abcdef"
AUTHOR = 'name = "w"\nuser_agent = "a"\n[models.author]\nkind = "openai"\nname = "m"\nurl = "http://m/v1"\n'
REACHED = """key_command = ["az", "account", "get-access-token"]
key_header = "api-key"
headers = { "X-Org" = "acme", "cf-aig-authorization" = { env = "CF_TOKEN" } }
query = { "api-version" = "2024-10-21", key = { env = "CF_TOKEN" } }
stream = true
"""


def load(tmp_path: Path, more: str) -> World:
    path = tmp_path / "w.toml"
    path.write_text(AUTHOR + more, "utf-8")
    return load_world(str(path))


def test_model_settings_accept_connection_options(tmp_path, monkeypatch):
    monkeypatch.setenv("CF_TOKEN", SECRET)
    model = load(tmp_path, REACHED).models["author"]
    require_model_environment_variables(model)
    assert read_model_headers(model) == {"X-Org": "acme", "cf-aig-authorization": SECRET}
    assert read_model_query_params(model) == {"api-version": "2024-10-21", "key": SECRET}
    assert model.key_command == ("az", "account", "get-access-token")
    assert SECRET not in repr(model) + model.model_dump_json()


def test_connection_options_do_not_change_request_profile_or_world_digest(tmp_path):
    plain, reached = load(tmp_path, ""), load(tmp_path, REACHED)
    assert reached.digest_answer_settings(BUILD_MODEL_ROLES) == plain.digest_answer_settings(BUILD_MODEL_ROLES)
    assert reached.models["author"].request_profile() == {}
    assert load(tmp_path, "extra_body = { query = 1 }").digest_answer_settings(
        BUILD_MODEL_ROLES
    ) != plain.digest_answer_settings(BUILD_MODEL_ROLES)


@pytest.mark.parametrize("setting", ["headers", "query"])
def test_unset_variable_is_named(tmp_path, monkeypatch, setting):
    monkeypatch.delenv("CF_TOKEN", raising=False)
    world = load(tmp_path, f'{setting} = {{ "X-Y" = {{ env = "CF_TOKEN" }} }}')
    with pytest.raises(SettingsError, match=rf"model m: .*{setting}.X-Y is not set"):
        world.require_model_credentials(["author"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (f'headers = {{ Authorization = "{SECRET}" }}', "write Authorization = { env ="),
        (f'headers = {{ "X-Api-Key" = "{SECRET}" }}', "write X-Api-Key = { env ="),
        (f'query = {{ key = "{SECRET}" }}', "query: key: "),
        (f'query = {{ access_token = "{SECRET}" }}', "write access_token = { env ="),
        (f'headers = {{ X = {{ env = "{SECRET}" }} }}', "not the key itself"),
        ('headers = { X = { env = "" } }', "headers.X"),
        ("headers = { X = 3 }", 'expected text, or { env = "NAME" }'),
        ('headers = { "X Y" = "a" }', "expected the name of a header"),
        ('headers = { "X" = "a\\nb" }', "characters that are not allowed in a header"),
        ('headers = { "X" = "a", "x" = "b" }', "a header appears twice"),
        ('headers = { Host = "a" }', "Host: the HTTP client sets this header"),
        ('key_header = "api-key"', "key_header needs a key; add key_env or key_command"),
        ('key_header = "X"\nkey_env = "K"\nheaders = { x = "a" }', "key_header sets this header"),
        ('key_env = "K"\nkey_command = ["az"]', "key_env and key_command both"),
        ('key_command = "az account"', "expected a list of a program and its arguments"),
        ('key_command = ["", "x"]', "expected the name of a program"),
        ('stream = "always"', "models.author.stream"),
        ('[models.embedder]\nkind = "local"\nname = "e"\nkey_command = ["az"]', "embedder.key_command: only a model behind a server"),
        ('[models.perplexity]\nkind = "openai"\nname = "p"\nurl = "http://p/v1"\nstream = true', "perplexity.stream"),
    ],
)  # fmt: skip
def test_invalid_settings_are_rejected_without_repeating_secrets(tmp_path, more, message):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, more)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    ['headers = { "X-Author" = "me", "anthropic-beta" = "a" }', 'query = { "api-version" = "1", max_tokens = "9" }'],
)
def test_non_secret_names_accept_literal_values(tmp_path, line):
    assert load(tmp_path, line).models["author"].connection_settings()
