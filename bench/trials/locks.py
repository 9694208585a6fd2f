"""Check which edits of the code rename builds: only those that may change rows.

    python bench trials.locks [--commits 200] [--constants 50] [--seed 1]

Prints four tables. Last commits of the repository: how many rename each benchmark's builds, by definition as in the run
lock, and by the text of all modules that the recipe imports, as in the past. Harmless edits in every module: a comment,
another docstring, another line length, a new function. Twenty edits that change rows, three in each benchmark's package
and five in shared code: the builds that each one renames. One changed constant in functions that rows pass through: how
many rename the builds. These functions run in an embedded build after it is opened and count by definition; packages
that count by version are excluded. Exits 1 when a harmless edit renames a build, or a planted edit renames other builds
than expected.
"""

import ast
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts import read_options

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.digests import digest_json
from factmill.tasks.engine.naming import code_versions
from factmill.tasks.engine.naming.code_versions import digest_import_closure, load_source_code
from factmill.tasks.errors import BuildError

Code = Mapping[str, str]

PLANTED = (
    ("factmill.tasks.granola.answer_levels", "num_granola_answers=len(levels)", "num_granola_answers=len(levels) + 1", "granola"),
    ("factmill.tasks.granola.core.rows", "    num_granola_answers: int\n", "    num_granola_answers: float\n", "granola"),
    ("factmill.tasks.granola.answer_levels", "_EVIDENCE_HOPS = 5", "_EVIDENCE_HOPS = 0", "granola"),
    ("factmill.tasks.multihal.judge", "judged_score=score", "judged_score=6 - score", "multihal"),
    ("factmill.tasks.multihal.core.path_selection", "MAX_SCORED_PATHS = 10", "MAX_SCORED_PATHS = 3", "multihal"),
    ("factmill.tasks.multihal.judge", "responses_formatted=path.ids", "responses_formatted=path.ids[::-1]", "multihal"),
    ("factmill.tasks.biokalma.evolve", 'id=f"{row.id}_{each.number}"', 'id=f"{row.id}/{each.number}"', "biokalma"),
    ("factmill.tasks.biokalma.core.evolution", "MAX_VALUES_PER_SENTENCE = 4", "MAX_VALUES_PER_SENTENCE = 1", "biokalma"),
    ("factmill.tasks.biokalma.core.author_replies", "MIN_ASKED_SHARE = 0.5", "MIN_ASKED_SHARE = 1.5", "biokalma"),
    ("factmill.tasks.slaq.questions", "Pageviews=row.views or 0", "Pageviews=1 + (row.views or 0)", "slaq"),
    ("factmill.tasks.slaq.core.topic_sampling", "(-(topic.views or 0), *make_equal_views_tie_break_key(topic))", "((topic.views or 0), *make_equal_views_tie_break_key(topic))", "slaq"),
    ("factmill.tasks.slaq.questions", '!= "none")', '== "none")', "slaq"),
    ("factmill.tasks.fanoutqa.core.questions", "MIN_ARTICLES = 5", "MIN_ARTICLES = 6", "fanoutqa"),
    ("factmill.tasks.fanoutqa.core.flags", "DEV_SHARE = 0.3", "DEV_SHARE = 0.5", "fanoutqa"),
    ("factmill.tasks.fanoutqa.core.sets.members", "MAX_LISTED_MEMBERS = 30", "MAX_LISTED_MEMBERS = 6", "fanoutqa"),
    ("factmill.tasks.core.authoring.granular_answers", "MAX_LEVELS = 8", "MAX_LEVELS = 2", "granola"),
    ("factmill.tasks.lookups.labels", "{each: label for", "{each: label and label.replace('-', ' ') for", "multihal biokalma fanoutqa"),
    ("factmill.tasks.text.article_html", 'return "\\n\\n".join(paragraph', 'return "\\n".join(paragraph', "biokalma slaq fanoutqa"),
    ("factmill.tasks.lookups.classes", "work.run.services.wikidata, sorted(set(pids))", "work.run.services.wikidata, sorted(set(pids))[:1]", "granola biokalma fanoutqa"),
    ("factmill.tasks.text.reply_wrappers", "[*kept, text[at:]])", "[*kept, text[at:]]).lower()", "granola multihal biokalma slaq fanoutqa"),
)  # fmt: skip
"""Module, old text, new text that changes rows, and the benchmarks whose rows pass through it."""


def describe(code: Code, recipe: str) -> str:
    """Return the digest of this code that a run lock contains."""
    code_versions.load_source_code = lambda _packages=(): code  # type: ignore[attr-defined]
    code_versions.collect_recipe_code.cache_clear()
    return digest_json(code_versions.make_code_manifest(recipe))


def read_commit(commit: str, texts: dict[str, str]) -> Code:
    """Return the modules of a commit; `texts` caches file contents by git object id."""
    listed = subprocess.check_output(
        ["git", "ls-tree", "-r", commit, "flows", "tasks"], cwd=ASSETS_ROOT, text=True
    ).splitlines()
    modules = {}
    for line in listed:
        head, path = line.split("\t")
        if not path.endswith(".py"):
            continue
        name = head.split()[2]
        if name not in texts:
            texts[name] = subprocess.check_output(["git", "cat-file", "blob", name], cwd=ASSETS_ROOT, text=True)
        modules[path.removesuffix(".py").replace("/", ".")] = texts[name]
    return modules


def replay_commits(number: int) -> None:
    """Print how many of the last commits rename each benchmark's builds, by both rules."""
    listed = ["git", "log", "--no-merges", f"-{number}", "--format=%H %P"]
    texts: dict[str, str] = {}
    renamed: dict[str, Counter[str]] = {"by definition": Counter(), "by all modules": Counter()}
    compared = touched = 0
    for line in subprocess.check_output(listed, cwd=ASSETS_ROOT, text=True).splitlines():
        after, before = (read_commit(commit, texts) for commit in line.split()[:2])
        compared += 1
        if after == before:
            continue
        touched += 1
        for name, benchmark in BENCHMARKS.items():
            module = benchmark.recipe.partition(":")[0]
            try:
                renamed["by definition"][name] += describe(after, benchmark.recipe) != describe(
                    before, benchmark.recipe
                )
                renamed["by all modules"][name] += digest_import_closure([module], after) != digest_import_closure(
                    [module], before
                )
            except BuildError:  # a recipe that was elsewhere at that commit
                continue
    print(f"{compared} commits, of which {touched} touch modules of the product; they rename")
    for rule, counts in renamed.items():
        print(f"  {rule:15}", ", ".join(f"{name} {counts[name]}" for name in BENCHMARKS))


def edit_harmlessly(code: Code) -> dict[str, Code]:
    """Return kind of edit → the code with that edit in every module."""

    def in_docstrings(text: str) -> str:
        lines = text.splitlines(keepends=True)
        for node in ast.walk(ast.parse(text)):
            first = (
                node.body[0] if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body else None
            )
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                line = lines[first.lineno - 1]
                lines[first.lineno - 1] = line.replace('"""', '"""Indeed: ', 1)
        return "".join(lines)

    def line_by_line(text: str) -> str:
        return (
            "".join(f"{line}" if line.strip() else "\n\n" for line in text.splitlines(keepends=True))
            + "\n# a comment\n"
        )

    edits: dict[str, Callable[[str], str]] = {
        "a comment and blank lines": line_by_line,
        "a word in every docstring": in_docstrings,
        "a new function": lambda text: f"{text}\n\ndef _not_used_by_anybody() -> int:\n    return 1\n",
    }
    return {
        **{kind: {module: edit(text) for module, text in code.items()} for kind, edit in edits.items()},
        "another line length": format_otherwise(code),
    }


def format_otherwise(code: Code) -> Code:
    """Return the code formatted with lines of 79 characters."""
    with tempfile.TemporaryDirectory() as folder:
        for module, text in code.items():
            Path(folder, f"{module}.py").write_text(text, "utf-8")
        ruff = Path(sys.executable).with_name("ruff")
        subprocess.run([ruff, "format", "--quiet", "--isolated", "--line-length", "79", folder], check=True)
        return {module: Path(folder, f"{module}.py").read_text("utf-8") for module in code}


def print_harmless() -> bool:
    """Print which builds each harmless edit renames; return whether none is renamed."""
    code = {**load_source_code()}
    before = {name: describe(code, benchmark.recipe) for name, benchmark in BENCHMARKS.items()}
    none = True
    for kind, edited in edit_harmlessly(code).items():
        changed = sum(edited[module] != code[module] for module in code)
        found = [name for name, benchmark in BENCHMARKS.items() if describe(edited, benchmark.recipe) != before[name]]
        print(f"  {kind:26} in {changed:4} of {len(code)} modules renames: {', '.join(found) or 'nothing'}")
        none &= not found
    return none


def print_planted() -> bool:
    """Print which builds each planted edit renames; return whether they are exactly the expected ones."""
    code = {**load_source_code()}
    before = {name: describe(code, benchmark.recipe) for name, benchmark in BENCHMARKS.items()}
    right = 0
    for module, old, new, passing in PLANTED:
        if code[module].count(old) != 1:
            sys.exit(f"{module} has {old!r} {code[module].count(old)} times, once was expected; mend PLANTED")
        edited = {**code, module: code[module].replace(old, new)}
        found = {name for name, benchmark in BENCHMARKS.items() if describe(edited, benchmark.recipe) != before[name]}
        is_right = found == set(passing.split())
        right += is_right
        text = "" if is_right else f", EXPECTED {passing}"
        print(f"  {module:34} {old.strip()[:30]:30} renames: {', '.join(sorted(found)) or 'nothing'}{text}")
    print(f"  {right} of {len(PLANTED)} rename the builds whose rows pass through them, and no others")
    return right == len(PLANTED)


_TRACED = """
import atexit, inspect, sys, threading
seen, opened = set(), []
def note(frame, event, _argument):
    if event == "call":
        code = frame.f_code
        if code.co_name == "open_build":
            opened.append(code)
        # the bodies of modules and classes run where they are imported
        if opened and code.co_flags & inspect.CO_OPTIMIZED:
            seen.add((code.co_filename, code.co_qualname))
def write():
    sys.setprofile(None)
    print(*(f"{name}\\t{called}" for name, called in sorted(seen)), sep="\\n", file=open(TRACED, "w"))
atexit.register(write)
threading.setprofile(note)
sys.setprofile(note)
from factmill.flows.cli.main import main
main()
"""


def list_run(benchmark: str) -> set[tuple[str, str]]:
    """Return factmill's functions and classes that run in an embedded build of a benchmark, as (module, name)."""
    with tempfile.TemporaryDirectory() as home:
        traced = Path(home, "traced")
        program = _TRACED.replace("TRACED", repr(str(traced)))
        command = [sys.executable, "-c", program, "build", benchmark, "--json"]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "FACTMILL_HOME": home}, cwd=ASSETS_ROOT
        )
        pairs = (line.split("\t") for line in traced.read_text("utf-8").splitlines())
        root = str(ASSETS_ROOT) + os.sep
        return {
            (file.removeprefix(root).removesuffix(".py").replace(os.sep, "."), called.partition(".")[0])
            for file, called in pairs
            if file.startswith(root)
        }


def change_constant(text: str, name: str, draw: random.Random) -> tuple[str, str] | None:
    """Return a module with one constant of a definition changed, and its old value; None if it has no constant."""
    tree = ast.parse(text)
    found = next((each for each in tree.body if getattr(each, "name", "") == name), None)
    if found is None:
        return None
    words = {
        id(each.value)
        for each in ast.walk(found)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    }
    constants = [
        each
        for each in ast.walk(found)
        if isinstance(each, ast.Constant) and id(each) not in words and isinstance(each.value, bool | int | str)
    ]
    if not constants:
        return None
    chosen = draw.choice(constants)
    before = chosen.value
    chosen.value = not before if isinstance(before, bool) else before + 1 if isinstance(before, int) else f"{before}x"  # type: ignore[assignment]
    return ast.unparse(tree), repr(before)


def print_constants(number: int, seed: int) -> None:
    """Print how many changed constants rename the builds whose rows pass through them."""
    code = {**load_source_code()}
    before = {name: describe(code, benchmark.recipe) for name, benchmark in BENCHMARKS.items()}
    draw = random.Random(seed)
    counts: Counter[bool] = Counter()
    for name, benchmark in BENCHMARKS.items():
        recipe = benchmark.recipe.partition(":")[0]
        run = sorted(
            each for each in list_run(name) if code_versions.find_package_versioning_module(recipe, each[0]) == ""
        )
        draw.shuffle(run)
        left = number // len(BENCHMARKS)
        for module, definition in run:
            if not left or module not in code or (changed := change_constant(code[module], definition, draw)) is None:
                continue
            left -= 1
            is_renamed = describe({**code, module: changed[0]}, benchmark.recipe) != before[name]
            counts[is_renamed] += 1
            text = "renamed" if is_renamed else "NOT renamed"
            print(f"  {name:9} {module}:{definition} {changed[1][:40]}: {text}")
    print(f"  {counts[True]} renamed, {counts[False]} not")


def main() -> int:
    """Print the tables."""
    asked = read_options(__doc__, commits=200, constants=50, seed=1)
    if asked.commits:
        replay_commits(asked.commits)
    print("harmless edits")
    is_quiet = print_harmless()
    print("edits that change rows")
    is_right = print_planted()
    if asked.constants:
        print("one changed constant in a function that rows pass through")
        print_constants(asked.constants, asked.seed)
    return 0 if is_quiet and is_right else 1
