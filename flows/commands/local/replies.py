"""`factmill world replies`: which scripted replies the embedded builds ask for, which are missing, and how they come into files.

What builds ask is read from their recorded calls. A form lists prompts without a reply:

    granola/granular_answers:
    - question: Where was Ada Lovelace born?
      answer: London
      reply:
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.benchmarks import BENCHMARKS, find_benchmark
from flows.commands.digests import list_asked, read_asked
from tasks.assets import load_prompt
from tasks.core.service_settings import EMBEDDED
from tasks.errors import NothingPublished, UsageError, WorldError
from tasks.options import RunOptions, warehouse_of
from tasks.world.data import digest_world
from tasks.world.replies import (
    Key,
    RepliesFile,
    Variables,
    describe_key,
    digest_keys,
    format_file,
    format_yaml,
    list_prompts,
    load_replies,
    load_yaml,
    read_entries,
    replies_path,
    save_replies,
)

_CHAINED = "What rests on replies that are missing, such as BioKaLMA's later rounds, is asked once these are written; run this again then."


@dataclass(frozen=True, slots=True)
class Asked:
    """What the embedded build of a benchmark asks, by prompt."""

    benchmark: str
    prompts: Mapping[str, Mapping[Key, Variables]]

    def list_missing(self) -> dict[str, list[Variables]]:
        """Return prompt → variables for which no reply is written, in the order of their keys."""
        found = {
            prompt: [asked[key] for key in sorted(asked.keys() - load_replies(prompt).replies.keys())]
            for prompt, asked in self.prompts.items()
        }
        return {prompt: missing for prompt, missing in found.items() if missing}


def ask_builds(names: Sequence[str], warehouse: Path | None) -> list[Asked]:
    """Make the embedded builds of these benchmarks (all where none is named), where they are not there, and return what they ask."""
    from flows.prefect_server import shared_server
    from flows.running import make_build

    run = RunOptions(world=EMBEDDED, warehouse=warehouse)
    found = []
    with shared_server():
        for benchmark in [find_benchmark(name) for name in names or BENCHMARKS]:
            try:
                build_id = make_build(benchmark, benchmark.params(), run).build_id
            except NothingPublished as nothing:
                build_id = nothing.report.build_id
            found.append(Asked(benchmark.name, list_asked(warehouse_of(run), build_id)))
    return found


def format_form(missing: Mapping[str, Sequence[Variables]]) -> str:
    """Return the form of what is missing; empty where nothing is."""
    if not missing:
        return ""
    count = sum(map(len, missing.values()))
    entries = {
        prompt: [{name: variables[name] for name in load_prompt(prompt).inputs} | {"reply": None} for variables in of]
        for prompt, of in missing.items()
    }
    return (
        f"# {count:,} prompts of the embedded builds have no reply. Write each one behind `reply:`, with `fault: which` above it\n"
        f"# where one is planted, then: factmill world replies --add FILE\n# {_CHAINED}\n{format_yaml(entries)}"
    )


def list_unused(asked: Iterable[Asked]) -> dict[str, list[Key]]:
    """Return prompt → keys of replies that no embedded build asks for."""
    found = {
        prompt: sorted(load_replies(prompt).replies.keys() - keys.keys())
        for each in asked
        for prompt, keys in each.prompts.items()
    }
    return {prompt: keys for prompt, keys in found.items() if keys}


def add_replies(form: Path, written_by: str | None, asked: Sequence[Asked]) -> dict[str, int]:
    """Put the replies of a filled form into the files; return prompt → number. WorldError, before anything is written, for an
    entry that is empty, is there already, or has variables that no build asks."""
    told = load_yaml(form.read_text("utf-8"), str(form))
    if not isinstance(told, dict) or not all(isinstance(entries, list) for entries in told.values()):
        raise WorldError(f"{form}: expected prompts with a list of entries each, as `--missing` prints them")
    known = {prompt: keys for each in asked for prompt, keys in each.prompts.items()}
    files = {}
    for prompt, entries in told.items():
        if prompt not in known:
            raise WorldError(f"{form}: no embedded build asks the prompt {prompt}; expected one of {', '.join(known)}")
        added, there = read_entries(entries, prompt, f"{form}: {prompt}"), load_replies(prompt)
        for key in added:
            if key in there.replies:
                raise WorldError(
                    f"{form}: {prompt} has a reply for this already; edit it in {replies_path(prompt)}: {describe_key(key)}"
                )
            if key not in known[prompt]:
                raise WorldError(
                    f"{form}: no embedded build asks {prompt} with these variables; leave them as `--missing` prints them: "
                    f"{describe_key(key)}"
                )
        author = written_by or there.written_by
        if not author:
            raise UsageError(f"there is no file of replies to {prompt} yet; say who wrote these with --written-by NAME")
        files[prompt] = RepliesFile(author, {**there.replies, **added})
    for prompt, file in files.items():
        save_replies(prompt, file)
    return {prompt: len(entries) for prompt, entries in told.items()}


def tidy_files() -> list[str]:
    """Write all files anew in their own form, sorted; return the prompts whose files were otherwise."""
    changed = find_untidy()
    for prompt in changed:
        save_replies(prompt, load_replies(prompt))
    return changed


def find_untidy() -> list[str]:
    """Return the prompts whose files are not in the form that `--tidy` gives them."""
    return [
        prompt
        for prompt in list_prompts()
        if replies_path(prompt).read_text("utf-8") != format_file(prompt, load_replies(prompt))
    ]


def check_files() -> list[str]:
    """Return what is wrong with the files, without a build: by what the builds asked when `make digests` was last run."""
    asked = read_asked()
    wrong = [
        f"{replies_path(prompt)}: not sorted, or written otherwise; mend it with --tidy" for prompt in find_untidy()
    ]
    if asked.world != digest_world():
        wrong.append(
            "the world's files changed since it was last noted what the builds ask (data/world/digests.json): look for missing "
            "replies with `factmill world replies --missing`, then run `make digests`"
        )
    for prompt in sorted({*asked.prompts, *list_prompts()}):
        if asked.prompts.get(prompt) != digest_keys(load_replies(prompt).replies):
            wrong.append(
                f"{prompt}: the replies are not those that the builds ask for (data/world/digests.json): "
                "`factmill world replies --missing --unused` tells which, `make digests` notes what they ask now"
            )
    return wrong


def count_replies() -> list[dict[str, Any]]:
    """Return prompt, number of replies, of planted faults, and who wrote them, of each file."""
    files = {prompt: load_replies(prompt) for prompt in list_prompts()}
    return [
        {"prompt": prompt, "replies": len(file.replies), "faults": file.faults, "written_by": file.written_by}
        for prompt, file in files.items()
    ]
