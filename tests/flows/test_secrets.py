"""Test that a key appears nowhere: warehouse, logs, exports, output.

Verifying or releasing a build runs no command and reads no variable of its world's file.
"""

import itertools
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.models.scripted_chat import ScriptedChat, write_chat_world
from support.secrets.spelled_keys import KEY, SPELLINGS, find_key
from support.webs.loopback import Loopback, Seen

from factmill.tasks.storage.recording.call_records import decompress_body
from factmill.tasks.storage.warehouse import open_warehouse


@pytest.fixture
def parrot():
    """A server that puts the key into every reply, error and header, in all spellings in turn."""
    web = Loopback()
    result = {"refusals": 2}
    spellings = itertools.cycle(SPELLINGS.values())

    def answer(seen: Seen) -> dict[str, Any]:
        key = seen.headers["authorization"]
        headers = {"X-Echo": key}
        if result["refusals"]:
            result["refusals"] -= 1
            return {"status": 500, "json": {"error": {"message": f"invalid {key}"}}, "headers": headers}
        message = {"role": "assistant", "content": "KEY\n1:: KEY town\n2:: Europe", "reasoning_content": "KEY"}
        reply = {"id": "KEY", "model": "KEY", "system_fingerprint": "KEY", "usage": {"prompt_tokens": 1, "KEY": 1}}
        body = {**reply, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
        return {"text": json.dumps(body).replace("KEY", next(spellings)), "type": "application/json"}

    web.handle = answer
    yield web
    web.close()


def dump_warehouse(path: Path) -> str:
    """Return all of a warehouse as text, since its file is compressed."""
    with open_warehouse(path) as db:
        tables = [name for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        rows = [row for name in tables for row in db.execute(f'SELECT * FROM "{name}"').fetchall()]
    return "\n".join(decompress_body(value) if isinstance(value, str) else str(value) for row in rows for value in row)


def test_api_key_appears_in_no_output_or_file(factmill: Factmill, parrot: Loopback, tmp_path: Path) -> None:
    world = write_chat_world(tmp_path, f"{parrot.url}/v1", ("author", "judge"))
    options = ["granola", "--world", world, "--relations", "P19", "--limit", "6", "--samples", "1"]
    built = Factmill(factmill.home).run_process("build", *options, TEST_KEY=KEY)
    assert "Traceback" not in built.err
    warehouse = factmill.home / "factmill.duckdb"
    result = [factmill("show", "granola"), factmill("show", "granola", "--rejects"), factmill("builds", "--json")]
    result += [factmill("export", "latest:granola", "--to", tmp_path / "out"), factmill("doctor", "--world", world)]
    printed = "".join(f"{ran.out}{ran.err}" for ran in (built, *result))
    dumped = dump_warehouse(warehouse)
    assert "***" in dumped, "the warehouse holds none of the server's replies"
    assert find_key(printed + dumped) == ""
    files = [path for folder in (factmill.home, tmp_path) for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "prefect.db" for path in files)
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []
    ours = [path for path in files if not path.parent.parent.name.startswith("world-")]
    assert [str(path) for path in ours if find_key(path.read_text("latin-1"))] == []
    for path in (warehouse, factmill.home / "prefect", factmill.home / "runs"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


SECRET = "cf-secret-0123456789"
PLANTED = 'headers = { "X-Sig" = { env = "CF_TOKEN" } }\nkey_command = ["touch", "STRANGER"]\n'


@pytest.fixture
def chat():
    levels = "1:: Warsaw\n2:: somewhere in Europe"
    served = ScriptedChat(lambda messages: (200, "Yes." if "<description>" in messages[-1]["content"] else levels))
    yield served
    served.close()


def test_command_of_world_file_runs_for_build_but_never_for_stored_build(
    factmill: Factmill, chat: ScriptedChat, tmp_path: Path
) -> None:
    ran, stranger, released = tmp_path / "ran", tmp_path / "stranger", tmp_path / "released"
    world = write_chat_world(tmp_path, chat.url, ("author", "judge"))
    plain = world.read_text()
    script = tmp_path / "token.py"
    script.write_text(f"open({str(ran)!r}, 'a').write('ran ')\nprint('token-0123456789')\n")
    command = json.dumps([sys.executable, str(script)])
    own = f'key_command = {command}\nheaders = {{ "X-Sig" = {{ env = "CF_TOKEN" }} }}\n'
    world.write_text(plain.replace('key_env = "TEST_KEY"\n', own))
    source = tmp_path / "P19.people.json"
    source.write_text(json.dumps([{"question": "Where was Marie Curie born?", "answers": ["Warsaw"]}]))
    options = ["granola", "--world", world, "--source", source, "--samples", "1"]
    built = Factmill(factmill.home).run_process("build", *options, "--json", CF_TOKEN=SECRET)
    assert built.code == 0, built.err
    seen = [each.headers for each in chat.web.seen]
    assert {each["authorization"] for each in seen} == {"Bearer token-0123456789"}
    assert {each["x-sig"] for each in seen} == {SECRET}
    assert ran.read_text() == "ran ran ", "once for the author, once for the judge"

    # from here on the build's world file belongs to somebody else, and no variable is set
    world.write_text(plain.replace('key_env = "TEST_KEY"\n', PLANTED.replace("STRANGER", str(stranger))))
    verified = Factmill(factmill.home).run_process("verify", built.json["build_id"])
    assert verified.code == 0, verified.err
    made = factmill("release", built.json["build_id"], "--allow-licence", "none stated", "--to", released)
    assert made.code == 0, made.err
    texts = b"".join(path.read_bytes() for path in released.rglob("*") if path.is_file())
    assert not [result for result in (b"key_command", b"CF_TOKEN", b"token.py", SECRET.encode()) if result in texts]

    (released / "world.toml").write_text(world.read_text())
    (released / "factmill.toml").write_text(world.read_text())
    looked = [
        factmill("validate", released),
        factmill("evaluate", "granola", "--release", released, "--model", "silent"),
        factmill("show", "granola"),
        factmill("report", built.json["build_id"]),
    ]
    assert [each.code for each in looked[1:3]] == [2, 0], looked[1].err
    assert "files that SHA256SUMS does not list: 'factmill.toml', 'world.toml'" in looked[1].err
    assert not stranger.exists() and ran.read_text() == "ran ran "
    assert len(chat.web.seen) == len(seen)
