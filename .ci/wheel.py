"""Build the wheel, and use it without a checkout on each supported Python.

    python .ci/wheel.py

The working folder has its own `tasks.py` and `flows/`, which factmill must not import. There the wheel builds a
benchmark in the embedded world, evaluates on it and is imported from Python. A Python that this machine lacks is
reported.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.13")
LOCKS = ("requirements.lock", "requirements-minilm.lock")
SCRIPT = """
import json, factmill
asked = factmill.questions("slaq", setting="short")
scored = factmill.score("slaq", "oracle", setting="short")
print(json.dumps([factmill.__file__, len(asked), scored.metrics["value"][0].as_py()]))
"""


def find_python(version: str) -> str | None:
    """Return a Python of this version, from the path or from pyenv."""
    found = [shutil.which(f"python{version}"), *Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python")]
    for each in filter(None, found):
        asked = subprocess.run(
            [each, "-c", "import sys, venv; print(sys.version)"], capture_output=True, text=True, check=False
        )
        if asked.stdout.startswith(f"{version}."):
            return str(each)
    return None


def build_wheel(folder: Path) -> Path:
    """Build the wheel and check that it installs only one package."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("*.whl")
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    if names != {"factmill", "factmill-0.1.0.dist-info"}:
        raise SystemExit(f"the wheel brings {sorted(names)}, expected factmill alone")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; top-level names: {', '.join(sorted(names))}")
    return wheel


def install(python: str, wheel: Path, folder: Path) -> Path:
    """Install the wheel and its locked requirements into a new environment; return the folder of its commands."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    binaries = folder / "bin"
    uv = [Path(sys.executable).with_name("uv"), "pip", "install", "--no-config", "--quiet", "--no-deps"]
    into = ["--python", binaries / "python"]
    locks = [argument for lock in LOCKS for argument in ("-r", ROOT / lock)]
    done = subprocess.run([*uv, *into, "--require-hashes", *locks], check=False)
    if done.returncode:  # uv ignores pip's settings (index, certificates)
        pip = [binaries / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--require-hashes", *locks], check=True)
    subprocess.run([*uv, *into, wheel], check=True)
    return binaries


def use(binaries: Path, folder: Path) -> None:
    """Build, evaluate and import in a folder whose own modules share the names of factmill's folders."""
    (folder / "flows").mkdir(parents=True)
    for name in ("tasks.py", "flows/__init__.py"):
        (folder / name).write_text("raise RuntimeError('factmill imported a module of its user')\n")
    (folder / "script.py").write_text(SCRIPT)
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    environment = kept | {"PATH": path, "PYTHONPATH": str(folder), "FACTMILL_HOME": str(folder / "home")}

    def run(*command: str) -> Any:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    built = run("factmill", "build", "slaq", "--json")
    measured = run("factmill", "evaluate", "slaq", "--model", "oracle", "--json")
    gallery = run("factmill", "site", "--to", "gallery", "--json")  # from templates in the wheel
    shown = {f"evaluations/{measured['evaluation_id']}.html", "slaq.html", "index.html"}
    assert shown <= {*gallery["files"]} and all((folder / "gallery" / name).is_file() for name in shown), gallery
    place, asked, right = run("python", "script.py")
    assert Path(place).is_relative_to(binaries.parent), place
    assert asked and right == 1.0, (asked, right)
    print(
        f"built {built['build_id']}, measured in {measured['evaluation_id']}, a site of {len(gallery['files'])} pages, "
        f"{asked} questions read"
    )


def main() -> None:
    """Build the wheel and use it."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder, "wheel"))
        for version in PYTHONS:
            python = find_python(version)
            if python is None:
                print(f"Python {version}: not on this machine, so the wheel was not tried with it")
                continue
            print(f"Python {version}: {python}")
            use(install(python, wheel, Path(folder, version)), Path(folder, f"work-{version}"))


if __name__ == "__main__":
    main()
