"""A key is nowhere: not in the warehouse, Prefect's database, logs, exports, nor in anything printed, even where a server repeats it.
What a build leaves is its user's alone."""

import itertools
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.models.scripted_chat import write_chat_world
from support.secrets.spelled_keys import KEY, SPELLINGS, find_key
from support.webs.loopback import Loopback, Seen

from tasks.storage.bodies import unpack_body
from tasks.storage.warehouse import open_warehouse


@pytest.fixture
def parrot():
    """A server that says the key in every reply, every error and every header it can, in one spelling after the other."""
    web = Loopback()
    told = {"refusals": 2}
    spellings = itertools.cycle(SPELLINGS.values())

    def answer(seen: Seen) -> dict[str, Any]:
        key = seen.headers["authorization"]
        headers = {"X-Echo": key}
        if told["refusals"]:
            told["refusals"] -= 1
            return {"status": 500, "json": {"error": {"message": f"invalid {key}"}}, "headers": headers}
        message = {"role": "assistant", "content": "KEY\n1:: KEY town\n2:: Europe", "reasoning_content": "KEY"}
        reply = {"id": "KEY", "model": "KEY", "system_fingerprint": "KEY", "usage": {"prompt_tokens": 1, "KEY": 1}}
        body = {**reply, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
        return {"text": json.dumps(body).replace("KEY", next(spellings)), "type": "application/json"}

    web.handle = answer
    yield web
    web.close()


def dump_warehouse(path: Path) -> str:
    """Return all that a warehouse holds, as text: its file is compressed."""
    with open_warehouse(path) as db:
        tables = [name for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        rows = [row for name in tables for row in db.execute(f'SELECT * FROM "{name}"').fetchall()]
    return "\n".join(unpack_body(value) if isinstance(value, str) else str(value) for row in rows for value in row)


def test_a_key_is_nowhere(factmill: Factmill, parrot: Loopback, tmp_path: Path) -> None:
    world = write_chat_world(tmp_path, f"{parrot.url}/v1", ("author", "judge"))
    options = ["granola", "--world", world, "--relation", "P19", "--limit", "6", "--samples", "1"]
    built = Factmill(factmill.home).run_process("build", *options, TEST_KEY=KEY)
    assert "Traceback" not in built.err
    warehouse = factmill.home / "factmill.duckdb"
    told = [factmill("show", "granola"), factmill("show", "granola", "--rejects"), factmill("builds", "--json")]
    told += [factmill("export", "latest:granola", "--to", tmp_path / "out"), factmill("doctor", "--world", world)]
    printed = "".join(f"{ran.out}{ran.err}" for ran in (built, *told))
    dumped = dump_warehouse(warehouse)
    assert "***" in dumped, "the server's replies are not in the warehouse at all"
    assert find_key(printed + dumped) == ""
    files = [path for folder in (factmill.home, tmp_path) for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "prefect.db" for path in files)
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []
    ours = [path for path in files if not path.parent.parent.name.startswith("world-")]
    assert [str(path) for path in ours if find_key(path.read_text("latin-1"))] == []
    for path in (warehouse, factmill.home / "prefect", factmill.home / "runs"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
