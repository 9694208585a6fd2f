"""Test scripted replies: reading and writing files, how prompts find replies, and the fallback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.worlds.replies import find_written

from factmill.tasks import progress
from factmill.tasks.assets import load_prompt
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.core.calls.chat import make_chat_call, parse_chat_response
from factmill.tasks.core.digests import digest_text
from factmill.tasks.core.prompts import fill_prompt_template
from factmill.tasks.core.service_settings import SCRIPTED_MODEL_NAME
from factmill.tasks.errors import EmbeddedWorldError
from factmill.tasks.world import scripted_replies
from factmill.tasks.world.scripted_replies import (
    ScriptedChatService,
    clear_scripted_reply_caches,
    digest_reply_scripted_for_prompt,
    digest_scripted_replies,
    find_scripted_reply,
    format_scripted_replies_file,
    get_scripted_replies_path,
    list_scripted_prompts,
    load_scripted_replies,
    make_scripted_reply_key,
)

PROMPT = "granola/description_consistency"
ASKED = {"question": "Who?", "answer": "Ada", "entity": "Ada", "description": "a mathematician"}
ENTRY = """- question: Who?
  answer: Ada
  entity: Ada
  description: a mathematician
  reply: 'Yes'
"""


@pytest.fixture(autouse=True)
def written_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer from the files alone, even if other tests of the process complete them."""
    monkeypatch.setattr(scripted_replies, "find_scripted_reply", find_written)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(scripted_replies, "SCRIPTED_REPLIES_FOLDER", tmp_path)
    clear_scripted_reply_caches()
    yield tmp_path
    clear_scripted_reply_caches()


def write(folder: Path, entries: str, prompt: str = PROMPT, comment: str = "") -> None:
    path = folder / f"{prompt}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{comment}written_by: a test\nreplies:\n{entries}", "utf-8")
    clear_scripted_reply_caches()


def test_scripted_reply_is_found_only_by_all_variables(folder: Path) -> None:
    write(folder, ENTRY)
    found = find_scripted_reply(PROMPT, ASKED)
    assert found is not None and found.text == "Yes"
    assert find_scripted_reply(PROMPT, {**ASKED, "answer": "Bob"}) is None
    assert find_scripted_reply("granola/granular_answers", ASKED) is None


def test_long_variable_is_found_by_digest_and_may_be_written_in_full(folder: Path) -> None:
    text = "many words " * 40
    write(folder, ENTRY.replace("a mathematician", text.strip()))
    asked = {**ASKED, "description": text.strip()}
    assert ("description_digest", digest_text(text.strip())[:16]) in make_scripted_reply_key(asked)
    found = find_scripted_reply(PROMPT, asked)
    assert found is not None and dict(found.begins) == {"description_begins": ("many words " * 6)[:60]}
    write(folder, format_scripted_replies_file(PROMPT, load_scripted_replies(PROMPT)).partition("replies:\n")[2])
    assert find_scripted_reply(PROMPT, asked) == found


WRONG = {
    "no list": ("replies: 3", "expected `written_by"),
    "not YAML": ("- reply: [", "not YAML"),
    "no reply": (ENTRY.replace("  reply: 'Yes'\n", ""), "reply 1: expected the variables"),
    "an empty reply": (ENTRY.replace(" 'Yes'", ""), "reply 1: `reply` is empty"),
    "reply is not text": (ENTRY.replace("'Yes'", "Yes"), "YAML reads reply as True"),
    "a variable too few": (ENTRY.replace("  answer: Ada\n", ""), "has the variables description, entity, question"),
    "unknown variable": (ENTRY + "  colour: red\n", "has the variables answer, colour"),
    "an odd finish": (ENTRY + "  finish: bored\n", "finish is 'bored'"),
    "the same variables twice": (ENTRY + ENTRY, "reply 2: .*the same variables"),
}


@pytest.mark.parametrize(("entries", "message"), WRONG.values(), ids=WRONG)
def test_invalid_reply_file_error_names_problem_and_folder(folder: Path, entries: str, message: str) -> None:
    if entries.startswith("replies"):
        write(folder, "")
        (folder / f"{PROMPT}.yaml").write_text("written_by: a test\n" + entries, "utf-8")
    else:
        write(folder, entries)
    with pytest.raises(EmbeddedWorldError, match=message) as caught:
        load_scripted_replies(PROMPT)
    assert str(folder) in str(caught.value)


def test_digest_changes_with_reply_but_not_with_comments_or_order(folder: Path) -> None:
    other = ENTRY.replace("Who?", "Where?")
    digests = []
    for entries, comment in (
        (ENTRY + other, ""),
        (other + ENTRY, "# a remark\n"),
        (ENTRY.replace("'Yes'", "'No'") + other, ""),
    ):
        write(folder, entries, comment=comment)
        digests.append(
            (
                digest_scripted_replies(PROMPT),
                digest_reply_scripted_for_prompt(PROMPT, ASKED),
                digest_reply_scripted_for_prompt(PROMPT, {**ASKED, "question": "Where?"}),
            )
        )
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[2][0] and digests[0][1] != digests[2][1] and digests[0][2] == digests[2][2]
    assert digest_reply_scripted_for_prompt(PROMPT, {**ASKED, "question": "When?"}) == ""


def ask(samples: int = 1, **variables: str) -> Call:
    return make_chat_call(
        SCRIPTED_MODEL_NAME,
        SCRIPTED_MODEL_NAME,
        fill_prompt_template(load_prompt(PROMPT), samples, **{**ASKED, **variables}),
        scripted_reply_digest="",
    )


def send(*calls: Call) -> dict[str, CallResponse]:
    found: dict[str, CallResponse] = {}
    ScriptedChatService().send(calls, lambda call, reply: found.__setitem__(call.key, reply))
    return found


def test_all_samples_return_same_reply_with_its_fault_and_finish_reason(folder: Path) -> None:
    write(folder, ENTRY + "  fault: cut off\n  finish: length\n")
    (reply,) = send(ask(samples=2)).values()
    assert parse_chat_response(reply.body).texts == ("Yes", "Yes") and parse_chat_response(reply.body).finish == (
        "length",
        "length",
    )
    assert isinstance(reply.body, dict)
    assert (reply.body["fault"], reply.body["fingerprint"]) == ("cut off", "written by a test")


def test_missing_replies_are_reported_once_with_advice_to_name_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, ENTRY)
    said: list[str] = []
    monkeypatch.setattr(progress, "print_and_log", said.append)
    service, found = ScriptedChatService(), dict[str, CallResponse]()
    for turn in ((ask(), ask(answer="Bob"), ask(answer="Cy")), (ask(answer="Di"),)):
        service.send(turn, lambda call, reply: found.__setitem__(str(call.parts["variables"]), reply))
    assert len(said) == 1 and said[0].startswith(
        f"note: no scripted reply to 2 of 3 requests with the prompt {PROMPT}, so"
    )
    assert "[models.author]" in said[0] and "--world FILE" in said[0]
    failed = [reply for reply in found.values() if reply.status == "failed"]
    assert len(failed) == 3 and not any(reply.transient for reply in failed)
    assert all(str(reply.error).startswith("no_scripted_reply: none is written for") for reply in failed)


def test_operation_that_is_not_prompt_is_refused_by_name(folder: Path) -> None:
    (reply,) = send(Call(SCRIPTED_MODEL_NAME, "translate_text", {"text": "x"})).values()
    assert "the operation translate_text" in str(reply.error)


@pytest.mark.parametrize("prompt", list_scripted_prompts())
def test_embedded_reply_files_are_formatted_and_name_their_author(prompt: str) -> None:
    file = load_scripted_replies(prompt)
    assert get_scripted_replies_path(prompt).read_text("utf-8") == format_scripted_replies_file(prompt, file)
    assert file.written_by and all(reply.text or reply.fault for reply in file.replies.values())
