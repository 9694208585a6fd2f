"""The command `factmill world replies`: its options."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, NewWarehouse, print_json, print_lines
from tasks import progress
from tasks.errors import UsageError, WorldError
from tasks.world.replies import describe_key


def replies(
    missing: Annotated[
        bool, typer.Option("--missing", help="Print the prompts without a reply, as a form to fill in.")
    ] = False,
    unused: Annotated[bool, typer.Option("--unused", help="List the replies that no embedded build asks for.")] = False,
    add: Annotated[
        Path | None, typer.Option(help="Put the replies of a filled form into the files.", metavar="FILE")
    ] = None,
    written_by: Annotated[
        str | None, typer.Option(help="With --add: who wrote them, where that changes.", metavar="NAME")
    ] = None,
    tidy: Annotated[bool, typer.Option("--tidy", help="Write all files anew in their own form, sorted.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Hold the files to what the builds were noted to ask; builds nothing.")
    ] = False,
    benchmark: Annotated[
        list[str] | None, typer.Option(help="Only of this benchmark; may be repeated.", metavar="BENCHMARK")
    ] = None,
    warehouse: NewWarehouse = None,
    as_json: AsJson = False,
) -> None:
    """Count, check and complete the scripted replies of the embedded world (data/world/replies).

    --missing, --unused and --add make the embedded builds where they are not there, and read what these ask.

    \b
    Examples:
      factmill world replies
      factmill world replies --missing --benchmark granola > form.yaml
      factmill world replies --add form.yaml
    """
    if [bool(add), tidy, check, missing or unused].count(True) > 1:
        raise UsageError(
            "give one of --add, --tidy, --check, or --missing and --unused; see factmill world replies --help"
        )
    from flows.commands.local import replies as files

    progress.show()
    if tidy:
        print_lines(f"{prompt}: written anew" for prompt in files.tidy_files())
    elif check:
        if wrong := files.check_files():
            raise WorldError("\n".join(wrong))
    elif not (missing or unused or add):
        found = files.count_replies()
        if as_json:
            print_json(found)
        else:
            print_lines(
                "{prompt}: {replies:,} replies, {faults:,} with a planted fault; by {written_by}".format(**each)
                for each in found
            )
    else:
        asked = files.ask_builds(benchmark or (), warehouse)
        if add:
            added = files.add_replies(add, written_by, asked)
            print_json(added) if as_json else print_lines(
                f"{prompt}: {count:,} added" for prompt, count in added.items()
            )
            return
        lacking = {prompt: of for each in asked for prompt, of in each.list_missing().items()} if missing else {}
        idle = files.list_unused(asked) if unused else {}
        if as_json:
            print_json(
                ({"missing": lacking} if missing else {})
                | ({"unused": {prompt: list(map(dict, keys)) for prompt, keys in idle.items()}} if unused else {})
            )
            return
        typer.echo(files.format_form(lacking), nl=False)
        if missing and not lacking:
            progress.say("every prompt that these builds ask has a reply")
        print_lines(f"# unused: {prompt}: {describe_key(key)}" for prompt, keys in idle.items() for key in keys)
