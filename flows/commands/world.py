"""`factmill world`: serve the embedded world; count, check and complete its scripted replies.

The prompts of builds come from their recorded calls. A form lists prompts without a reply:

    granola/granular_answers:
    - question: Where was Ada Lovelace born?
      answer: London
      reply:
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from factmill.flows.benchmarks import BENCHMARKS, get_benchmark
from factmill.flows.build_runner import make_or_reuse_build
from factmill.flows.cli.options import (
    JsonOption,
    NewWarehouseOption,
    has_subcommand,
    print_lines_escaping_control_characters,
    print_result,
)
from factmill.flows.prefect_server import sharing_one_prefect_server
from factmill.flows.published_digests import load_scripted_reply_keys_by_prompt, load_world_and_reply_key_digests
from factmill.tasks import progress
from factmill.tasks.assets import load_prompt
from factmill.tasks.core.service_settings import EMBEDDED_SERVICE
from factmill.tasks.errors import EmbeddedWorldError, NoRowsPublished, UsageError
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.settings import factmill_home
from factmill.tasks.world.data import digest_world_files
from factmill.tasks.world.scripted_replies import (
    PromptVariables,
    ScriptedRepliesToPrompt,
    ScriptedReplyKey,
    digest_reply_key_set,
    format_readable_yaml,
    format_scripted_replies_file,
    format_scripted_reply_key,
    get_scripted_replies_path,
    list_scripted_prompts,
    load_scripted_replies,
    parse_scripted_replies,
    parse_yaml_text,
    write_scripted_replies,
)
from factmill.tasks.world.serving import serve_world_until_interrupted

world_app = typer.Typer()


@world_app.callback(invoke_without_command=True)
def serve_world(
    context: typer.Context,
    port: int = typer.Option(
        8123, min=0, max=65534, help="Port of the server; SPARQL uses the next port. 0: any free port.", metavar="PORT"
    ),
) -> None:
    """Serve the offline services of the embedded world, or check them.

    Without a subcommand, the command serves SPARQL, MediaWiki, Pageviews and Falcon on this machine until Ctrl-C, and
    prints their addresses.
    """
    if not has_subcommand(context):
        serve_world_until_interrupted(factmill_home(), port)


@world_app.command("replies")
def replies(
    missing: bool = typer.Option(
        False, "--missing", help="Print the prompts that have no reply, as a YAML form to fill in."
    ),
    unused: bool = typer.Option(False, "--unused", help="List the replies that no embedded build uses."),
    add: Path | None = typer.Option(None, help="Add the replies of a filled-in form to the files.", metavar="FILE"),
    written_by: str | None = typer.Option(
        None, help="With --add: new author of the replies. Default: the author stated in each file.", metavar="NAME"
    ),
    tidy: bool = typer.Option(False, "--tidy", help="Sort and reformat all files."),
    check: bool = typer.Option(
        False,
        "--check",
        help="Compare the files with the prompts recorded in data/world/digests.json, without a build. The exit code is 1 if they differ.",
    ),
    benchmark: list[str] | None = typer.Option(None, help="Only this benchmark (repeatable).", metavar="BENCHMARK"),
    warehouse: NewWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count, check and complete the scripted replies of the embedded world (data/world/replies).

    --missing, --unused and --add need the prompts of every embedded build. They first make the builds that do not
    exist yet.

    \b
    Examples:
      factmill world replies
      factmill world replies --missing --benchmark granola > form.yaml
      factmill world replies --add form.yaml
    """
    if [bool(add), tidy, check, missing or unused].count(True) > 1:
        raise UsageError(
            "expected only one of --add, --tidy, --check, or --missing with --unused; see factmill world replies --help"
        )

    progress.set_progress_style()
    if tidy:
        changed = _list_prompts_with_untidy_reply_files()
        for prompt in changed:
            write_scripted_replies(prompt, load_scripted_replies(prompt))
        return print_lines_escaping_control_characters(f"{prompt}: reformatted" for prompt in changed)
    if check:
        if wrong := _check_scripted_reply_files():
            raise EmbeddedWorldError("\n".join(wrong))
        return None
    if not (missing or unused or add):
        files = {prompt: load_scripted_replies(prompt) for prompt in list_scripted_prompts()}
        counts: list[dict[str, Any]] = [
            {"prompt": prompt, "replies": len(file.replies), "faults": file.fault_count, "written_by": file.written_by}
            for prompt, file in files.items()
        ]
        line = "{prompt}: {replies:,} replies, {faults:,} with a planted fault; by {written_by}"
        return print_result(as_json, counts, (line.format(**each) for each in counts))
    asked = _build_and_collect_reply_keys_by_prompt(benchmark or (), warehouse)
    if add:
        added = _add_form_replies_and_count_by_prompt(add, written_by, asked)
        return print_result(as_json, added, (f"{prompt}: {count:,} added" for prompt, count in added.items()))
    lacking: dict[str, list[PromptVariables]] = {}
    idle: dict[str, list[ScriptedReplyKey]] = {}
    for prompt, keys in asked.items():
        there = load_scripted_replies(prompt).replies.keys()
        if missing and (without := sorted(keys.keys() - there)):
            lacking[prompt] = [keys[key] for key in without]
        if unused and (left := sorted(there - keys.keys())):
            idle[prompt] = left
    result: dict[str, Any] = {"missing": lacking} if missing else {}
    result |= {"unused": {prompt: list(map(dict, keys)) for prompt, keys in idle.items()}} if unused else {}
    if not as_json:
        typer.echo(_format_missing_replies_form(lacking), nl=False)
        if missing and not lacking:
            progress.print_and_log("every prompt of these builds has a reply")
    lines = (f"# unused: {prompt}: {format_scripted_reply_key(key)}" for prompt, keys in idle.items() for key in keys)
    return print_result(as_json, result, lines)


_CHAINED_REPLIES_NOTE = (
    "Further prompts depend on the missing replies, such as BioKaLMA's later rounds; run this again after adding them."
)


def _build_and_collect_reply_keys_by_prompt(
    names: Sequence[str], warehouse: Path | None
) -> dict[str, Mapping[ScriptedReplyKey, PromptVariables]]:
    """Make the missing embedded builds of these benchmarks (without names: of all) and return prompt → key → variables
    of their scripted replies."""
    run = RunOptions(world=EMBEDDED_SERVICE, warehouse=warehouse)
    asked: dict[str, Mapping[ScriptedReplyKey, PromptVariables]] = {}
    with sharing_one_prefect_server():
        for benchmark in [get_benchmark(name) for name in names or BENCHMARKS]:
            try:
                build_id = make_or_reuse_build(benchmark, benchmark.params(), run).build_id
            except NoRowsPublished as nothing:
                build_id = nothing.report.build_id
            asked |= load_scripted_reply_keys_by_prompt(resolve_warehouse_path(run), build_id)
    return asked


def _format_missing_replies_form(missing: Mapping[str, Sequence[PromptVariables]]) -> str:
    if not missing:
        return ""
    count = sum(map(len, missing.values()))
    entries = {
        prompt: [{name: variables[name] for name in load_prompt(prompt).inputs} | {"reply": None} for variables in of]
        for prompt, of in missing.items()
    }
    return (
        f"# {count:,} prompts of the embedded builds have no reply. Write each reply after `reply:`. For a planted fault, add the line\n"
        f"# `fault: NAME` above it. Then run: factmill world replies --add FILE\n# {_CHAINED_REPLIES_NOTE}\n{format_readable_yaml(entries)}"
    )


def _add_form_replies_and_count_by_prompt(
    form: Path, written_by: str | None, known: Mapping[str, Mapping[ScriptedReplyKey, PromptVariables]]
) -> dict[str, int]:
    """Add the replies of a filled form to the files; return prompt → number added. EmbeddedWorldError, before anything is
    written, for an entry that is empty, exists already, or has variables that no build uses."""
    content = parse_yaml_text(form.read_text("utf-8"), str(form))
    if not isinstance(content, dict) or not all(isinstance(entries, list) for entries in content.values()):
        raise EmbeddedWorldError(f"{form}: expected prompts with a list of entries each, as `--missing` prints them")
    files = {}
    for prompt, entries in content.items():
        if prompt not in known:
            raise EmbeddedWorldError(
                f"{form}: no embedded build sends the prompt {prompt}; expected one of {', '.join(known)}"
            )
        added, there = parse_scripted_replies(entries, prompt, f"{form}: {prompt}"), load_scripted_replies(prompt)
        for key in added:
            if key in there.replies:
                raise EmbeddedWorldError(
                    f"{form}: {prompt} already has a reply for these variables; edit it in {get_scripted_replies_path(prompt)}: {format_scripted_reply_key(key)}"
                )
            if key not in known[prompt]:
                raise EmbeddedWorldError(
                    f"{form}: no embedded build sends {prompt} with these variables; keep them as `--missing` prints them: "
                    f"{format_scripted_reply_key(key)}"
                )
        author = written_by or there.written_by
        if not author:
            raise UsageError(
                f"{prompt} has no file of replies yet; give the author of the new replies with --written-by NAME"
            )
        files[prompt] = ScriptedRepliesToPrompt(author, {**there.replies, **added})
    for prompt, file in files.items():
        write_scripted_replies(prompt, file)
    return {prompt: len(entries) for prompt, entries in content.items()}


def _list_prompts_with_untidy_reply_files() -> list[str]:
    """Return the prompts whose files differ from the form that `--tidy` writes."""
    return [
        prompt
        for prompt in list_scripted_prompts()
        if get_scripted_replies_path(prompt).read_text("utf-8")
        != format_scripted_replies_file(prompt, load_scripted_replies(prompt))
    ]


def _check_scripted_reply_files() -> list[str]:
    """Return the problems of the reply files, compared with what `make digests` last stored, without a build."""
    world_digest, asked = load_world_and_reply_key_digests()
    wrong = [
        f"{get_scripted_replies_path(prompt)}: not sorted, or in another format; fix it with factmill world replies --tidy"
        for prompt in _list_prompts_with_untidy_reply_files()
    ]
    if world_digest != digest_world_files():
        wrong.append(
            "the world's files have changed since data/world/digests.json was written: list missing replies with "
            "`factmill world replies --missing`, then run `make digests`"
        )
    for prompt in sorted({*asked, *list_scripted_prompts()}):
        if asked.get(prompt) != digest_reply_key_set(load_scripted_replies(prompt).replies):
            wrong.append(
                f"{prompt}: the replies differ from those that the builds use (data/world/digests.json): list the differences with "
                "`factmill world replies --missing --unused`, then run `make digests`"
            )
    return wrong
