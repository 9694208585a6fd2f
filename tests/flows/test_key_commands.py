"""Commands and variables of a world's file serve the one who names the file: neither what was built with it nor what was
released runs a command, or needs or repeats a variable."""

import json
import sys
from pathlib import Path

import pytest
from support.commands.command import Factmill
from support.models.scripted_chat import ScriptedChat, write_chat_world

SECRET = "cf-secret-0123456789"
PLANTED = 'headers = { "X-Sig" = { env = "CF_TOKEN" } }\nkey_command = ["touch", "STRANGER"]\n'


@pytest.fixture
def chat():
    levels = "1:: Warsaw\n2:: somewhere in Europe"
    served = ScriptedChat(lambda messages: (200, "Yes." if "<description>" in messages[-1]["content"] else levels))
    yield served
    served.close()


def test_a_world_s_command_runs_for_a_build_and_never_for_what_was_built(
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

    # from here on the file that the build names is a stranger's, and no variable is set
    world.write_text(plain.replace('key_env = "TEST_KEY"\n', PLANTED.replace("STRANGER", str(stranger))))
    verified = Factmill(factmill.home).run_process("verify", built.json["build_id"])
    assert verified.code == 0, verified.err
    made = factmill("release", built.json["build_id"], "--allow-licence", "none stated", "--to", released)
    assert made.code == 0, made.err
    texts = b"".join(path.read_bytes() for path in released.rglob("*") if path.is_file())
    assert not [told for told in (b"key_command", b"CF_TOKEN", b"token.py", SECRET.encode()) if told in texts]

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
