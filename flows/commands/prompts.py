"""`factmill prompts`: list, print and copy the prompts, and show which of them a folder of own prompts replaces."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.options import JsonOption, print_result
from factmill.flows.evaluate.evaluations import list_evaluations_and_analyses
from factmill.tasks.assets import asset_path, find_asset, list_packaged_prompts, load_packaged_prompt
from factmill.tasks.errors import OutputError, UsageError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import RunOptions
from factmill.tasks.own_prompts import OwnPrompt, load_own_prompts
from factmill.tasks.settings import load_world
from factmill.tasks.text.sanitize import format_did_you_mean

_RUN = RunOptions.model_fields


def prompts(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID", help="Prompts to print: their ids, or the name of a benchmark for all its prompts."
        ),
    ] = None,
    copy_to: Annotated[
        Path | None,
        typer.Option(
            "--copy-to",
            metavar="FOLDER",
            help="Copy the packaged prompts to this folder, where you can edit them, instead of printing them. The folder is created if it does not exist.",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="With --copy-to: also replace files that have a different text, and list them."
        ),
    ] = False,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FOLDER", help=_RUN["prompts"].description)
    ] = None,
    world: Annotated[str, typer.Option("--world", metavar="WORLD", help=_RUN["world"].description)] = "embedded",
    as_json: JsonOption = False,
) -> None:
    """List, print and copy prompts, to replace them with your own.

    Without ID, the command lists all prompts: which benchmarks use each one, which model gets it, its purpose and its
    variables. With --prompts or --world, it names the files of your own prompts, and prints your text of a prompt
    instead of the packaged one.

    \b
    Examples:
      factmill prompts
      factmill prompts slaq/judge_short
      factmill prompts granola/answer slaq/judge_short --copy-to my-prompts/
      factmill prompts --prompts my-prompts/
    """
    names = _resolve_prompt_ids(ids or ())
    if copy_to:
        if not names:
            raise UsageError(
                "--copy-to expects ids, or a benchmark; for example: `factmill prompts granola/answer --copy-to my-prompts/`"
            )
        return _copy_prompts(names, copy_to, overwrite, as_json)
    if overwrite:
        raise UsageError(
            "--overwrite works only with --copy-to; for example: `factmill prompts granola/answer --copy-to my-prompts/`"
        )
    given = prompts or load_world(world).prompts
    folder = resolve_absolute_path(given) if given else None
    own = load_own_prompts(folder) if folder else {}
    if names:
        texts = {
            name: own[name].text if name in own else asset_path("prompts", f"{name}.md").read_text("utf-8")
            for name in names
        }
        shown = [{**_describe_prompt(name, own), "text": text} for name, text in texts.items()]
        marks = {each["id"]: f" (own prompt: {each['file']})" if each["is_own"] else "" for each in shown}
        heads = [f"=== {name}{marks[name]} ===\n" if len(names) > 1 else "" for name in names]
        if len(names) == 1 and marks[names[0]]:
            typer.echo(f"note: {names[0]} is an own prompt: {shown[0]['file']}", err=True)
        return print_result(
            as_json, shown, [head + text.rstrip("\n") for head, text in zip(heads, texts.values(), strict=True)]
        )
    found = [_describe_prompt(name, own) for name in list_packaged_prompts()]
    return print_result(as_json, found, _format_prompt_list(found, own, folder))


def _format_prompt_list(
    found: Sequence[dict[str, Any]], own: Mapping[str, OwnPrompt], folder: Path | None
) -> Iterator[str]:
    used = {each["id"]: ", ".join(each["benchmarks"]) for each in found}
    width, widest = max(map(len, used)), max(map(len, used.values()))
    for each in found:
        variables = " ".join(f"${name}" for name in each["variables"])
        yield f"{each['id']:{width}}  {used[each['id']]:{widest}}  {each['role']:8}  {each['purpose']}: {variables}"
        if each["id"] in own:
            which = "own prompt" if each["is_own"] else "same text as the packaged prompt"
            yield f"{'':{width}}  {which}: {each['file']}"
    if folder:
        replaced = [each["id"] for each in found if each["is_own"]]
        which = f": {', '.join(replaced)}" if replaced else ""
        yield f"{len(replaced)} of {len(found)} prompts are own ones, of {folder}{which}; the others are the packaged ones"


def _copy_prompts(names: Sequence[str], to: Path, overwrite: bool, as_json: bool) -> None:
    folder = resolve_absolute_path(to)
    contents = {name: asset_path("prompts", f"{name}.md").read_bytes() for name in names}
    state = {name: _compare_prompt_file(folder / f"{name}.md", content) for name, content in contents.items()}
    edited = [name for name, how in state.items() if how == "edited"]
    if edited and not overwrite:
        raise OutputError(
            f"{', '.join(str(folder / f'{name}.md') for name in edited)}: there already, with another text, and nothing was "
            "copied; leave it out of the command, or replace it with --overwrite"
        )
    done = {"missing": "copied", "edited": "overwritten", "same": "there already"}
    for name, content in contents.items():
        path = folder / f"{name}.md"
        try:
            if state[name] != "same":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
    results = [{"id": name, "file": str(folder / f"{name}.md"), "done": done[how]} for name, how in state.items()]
    lines = [f"{each['done']}: {each['file']}" for each in results]
    print_result(as_json, results, [*lines, f"next: edit, then see what is read: factmill prompts --prompts {to}"])


def _resolve_prompt_ids(given: Sequence[str]) -> list[str]:
    """Return the ids that ids and names of benchmarks mean, without repetitions; UsageError for an unknown one."""
    known = list_packaged_prompts()
    found: dict[str, None] = {}
    for each in given:
        name = each.removesuffix(".md").strip("/")
        meant = [other for other in known if name in (other, other.partition("/")[0])]
        if not meant:
            raise UsageError(
                f"no prompt {each!r}; `factmill prompts` lists all {len(known)}{format_did_you_mean(name, known)}"
            )
        found |= dict.fromkeys(meant)
    return list(found)


def _compare_prompt_file(path: Path, content: bytes) -> str:
    """Return whether a file is missing, edited, or the same; OutputError where it cannot be read."""
    try:
        return "same" if path.read_bytes() == content else "edited"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error


def _describe_prompt(prompt_id: str, own: Mapping[str, OwnPrompt]) -> dict[str, Any]:
    """Return a prompt as `--json` prints it; `is_own`: an own prompt with another text replaces the packaged one."""
    records = (*BENCHMARKS.values(), *list_evaluations_and_analyses().values())
    mine = own.get(prompt_id)
    template = mine.template if mine else load_packaged_prompt(prompt_id)
    return {
        "id": prompt_id,
        "benchmarks": [each.name for each in records if prompt_id in each.assets.prompts],
        "role": template.role,
        "purpose": _load_prompt_purposes().get(prompt_id, f"asked of the {template.role}"),
        "variables": template.inputs,
        "digest": template.digest,
        "file": str(mine.path if mine else find_asset("prompts", f"{prompt_id}.md")),
        "is_own": bool(mine and not mine.is_packaged_text),
    }


@cache
def _load_prompt_purposes() -> dict[str, str]:
    """Return prompt → what it is for, from `data/lists/prompt_purposes.csv`."""
    with asset_path("data/lists", "prompt_purposes.csv").open(encoding="utf-8", newline="") as file:
        return {row["prompt"]: row["purpose"] for row in csv.DictReader(file)}
