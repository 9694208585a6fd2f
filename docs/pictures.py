"""Draw the pictures of the README and the documentation: the diagram, and with `--screens` the screenshots too.

    python docs/pictures.py [--screens]

The screenshots show a real build of GRANOLA-EQ in the embedded world, made in a temporary home with its own Prefect
server: its report page and its run in Prefect's UI, as rendered by Chromium.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.docs.driven_chromium import DrivenChromium

FOLDER = Path(__file__).parent / "pictures"
MAX_BYTES = 150_000
"""Maximum size of a screenshot's file."""
_SETTLES_IN_S = 15
"""Seconds until the drawings of Prefect's UI stand still."""
STEPS = (
    ("Source", ("Wikidata,", "Wikipedia,", "your files")),
    ("Stages", ("link, write,", "judge; a row", "goes on or is", "dropped with", "a reason")),
    ("Table", ("DuckDB,", "Parquet; each", "row by item,", "statement or", "revision")),
    ("Measure", ("a model is", "asked once,", "judged and", "scored")),
    ("Report", ("page, release,", "comparison,", "what changed")),
)
"""Title and lines of each box of the diagram."""
BAND = (
    "Call cache: every question to a service or a model is recorded with its reply",
    "factmill verify makes the same bytes from it, without network",
)
NARROW_BAND = (
    "Call cache: every question is recorded",
    "with its reply; factmill verify makes",
    "the same bytes from it, without network",
)
FONT = 'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif"'
TITLE = '<title id="t">Source, stages, table, measure, report; a call cache below all of them</title>'
COLOURS = {
    "light": {"text": "#1f2328", "soft": "#57606a", "box": "#f6f8fa", "line": "#8c959f", "band": "#ddf4ff"},
    "dark": {"text": "#e6edf3", "soft": "#9da7b3", "box": "#161b22", "line": "#6e7681", "band": "#12263f"},
}


def draw_narrow_diagram(theme: str) -> str:
    """Return the diagram for narrow screens, with the boxes stacked."""
    colours = COLOURS[theme]
    width, box, gap = 360, 62, 18
    height = len(STEPS) * (box + gap) + 92
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t" {FONT}>',
        TITLE,
    ]
    for number, (title, lines) in enumerate(STEPS):
        top = 4 + number * (box + gap)
        words = " ".join(lines)
        cut = words.index(" ", len(words) // 2 - 4) if len(words) > 29 else len(words)
        parts.append(
            f'<rect x="1" y="{top}" width="{width - 2}" height="{box}" rx="8" fill="{colours["box"]}" stroke="{colours["line"]}"/>'
        )
        parts.append(
            f'<text x="14" y="{top + 38}" font-size="19" font-weight="600" fill="{colours["text"]}">{title}</text>'
        )
        parts += [
            f'<text x="118" y="{top + (27 if words[cut:] else 37) + 20 * row}" font-size="15" fill="{colours["soft"]}">{escape(line.strip())}</text>'
            for row, line in enumerate((words[:cut], words[cut:]))
            if line
        ]
        if number:
            parts.append(
                f'<path d="M{width / 2} {top - gap + 2} v{gap - 5} m-6 -6 l6 6 l6 -6" fill="none" stroke="{colours["soft"]}" stroke-width="2"/>'
            )
    top = height - 88
    parts.append(
        f'<rect x="1" y="{top}" width="{width - 2}" height="84" rx="8" fill="{colours["band"]}" stroke="{colours["line"]}"/>'
    )
    parts += [
        f'<text x="{width / 2}" y="{top + 26 + 21 * row}" text-anchor="middle" font-size="15" fill="{colours["text"]}">{escape(line)}</text>'
        for row, line in enumerate(NARROW_BAND)
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def draw_diagram(theme: str) -> str:
    """Return the diagram source → stages → table → measure → report as SVG, in the colours of a theme."""
    colours = COLOURS[theme]
    width, gap, box, top, height = 700, 25, 120, 8, 134
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 224" role="img" aria-labelledby="t" {FONT}>',
        TITLE,
    ]
    for number, (title, lines) in enumerate(STEPS):
        left = number * (box + gap)
        middle = left + box / 2
        parts.append(
            f'<rect x="{left + 1}" y="{top}" width="{box - 2}" height="{height}" rx="8" fill="{colours["box"]}" stroke="{colours["line"]}"/>'
        )
        parts.append(
            f'<text x="{middle}" y="{top + 27}" text-anchor="middle" font-size="19" font-weight="600" fill="{colours["text"]}">{title}</text>'
        )
        parts += [
            f'<text x="{middle}" y="{top + 50 + 18 * row}" text-anchor="middle" font-size="15" fill="{colours["soft"]}">{escape(line)}</text>'
            for row, line in enumerate(lines)
        ]
        if number:
            parts.append(
                f'<path d="M{left - gap + 3} {top + height / 2} h{gap - 9} m-7 -6 l7 6 l-7 6" fill="none" stroke="{colours["soft"]}" stroke-width="2"/>'
            )
    parts.append(
        f'<rect x="1" y="158" width="{width - 2}" height="58" rx="8" fill="{colours["band"]}" stroke="{colours["line"]}"/>'
    )
    parts += [
        f'<text x="{width / 2}" y="{182 + 22 * row}" text-anchor="middle" font-size="16" fill="{colours["text"]}">{escape(line)}</text>'
        for row, line in enumerate(BAND)
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def take_screenshots() -> None:
    """Build GRANOLA-EQ in the embedded world, and take the screenshots of its page, its run and the run's artifacts."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        prepare = {"FACTMILL_HOME": str(home / "factmill")}
        run_factmill(prepare, "doctor", "--prepare")
        with serve_prefect(home / "prefect") as api:
            settings = {**prepare, "PREFECT_API_URL": api}
            run_factmill(settings, "build", "granola")
            run_factmill(settings, "report", "latest:granola", "--to", str(home / "granola.html"))
            (run,) = httpx.post(
                f"{api}/flow_runs/filter", json={"limit": 1, "sort": "START_TIME_DESC"}, timeout=60
            ).json()
            of_run = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
            found = httpx.post(f"{api}/artifacts/filter", json=of_run, timeout=60).json()
            artifacts = {each["key"]: each["id"] for each in found}
            run_factmill(settings, "evaluate", "granola", "--model", "guesser", "--limit", "50")
            base = api.removesuffix("/api")
            page = f"{base}/runs/flow-run/{run['id']}"
            browser = DrivenChromium(home, "--hide-scrollbars")
            try:
                report = f"file://{home / 'granola.html'}"
                table, figures = (
                    f"{base}/artifacts/artifact/{artifacts[f'granola-{each}']}" for each in ("funnel", "figures")
                )
                for url, name, awaited, top, above, height in (
                    (report, "report", "From source to rows", ".key", 16, 664),
                    (page, "prefect-run", run["name"], "", 0, 580),
                    (f"{base}/runs", "prefect-runs", run["name"], "", 0, 900),
                    (table, "prefect-table", "describe_entities", "table", 60, 530),
                    (figures, "prefect-figures", "Time of each stage", "img", 48, 720),
                ):
                    save_screenshot(
                        browser, url, FOLDER / f"{name}.png", awaited=awaited, top=top, above=above, height=height
                    )
            finally:
                browser.kill()


@contextmanager
def serve_prefect(home: Path) -> Iterator[str]:
    """Run a Prefect server on a free port; yield the address of its API."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = f"http://127.0.0.1:{port}/api"
    command = [find_program("prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    environment.pop("PREFECT_API_URL", None)
    environment["PREFECT_SERVER_UI_API_URL"] = api
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            # a server that has just started answers once, and then is busy for a while
            is_up = lambda: all(answers(f"{api}/{path}") for path in ("ready", "admin/version", "ready"))  # noqa: E731
            wait_until(is_up, f"the Prefect server does not answer at {api}")
            time.sleep(_SETTLES_IN_S)
            yield api
        finally:
            server.terminate()


def answers(url: str) -> bool:
    """Return whether a server answers at an address."""
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def run_factmill(settings: Mapping[str, str], *arguments: str) -> None:
    """Run the `factmill` command of this Python's environment."""
    subprocess.run([find_program("factmill"), *arguments], env={**os.environ, **settings}, check=True)


def find_program(name: str) -> str:
    """Return the path of a program of this Python's environment."""
    return str(Path(sys.executable).parent / name)


def save_screenshot(
    browser: DrivenChromium,
    url: str,
    file: Path,
    *,
    awaited: str,
    top: str = "",
    above: int = 0,
    width: int = 1240,
    height: int,
    theme: str = "light",
) -> None:
    """Save Chromium's rendering of a page as a PNG of at most `MAX_BYTES`, with fewer colours if necessary.

    `awaited`: text on the page that shows that it is complete. `top`: selector of what stands at the picture's top, `above`
    pixels below its edge, which leaves out ids further up that change with each build; empty: the page's top.
    `theme`: light or dark, as in the reader's system settings.
    """
    size = {"width": width, "height": height, "deviceScaleFactor": 1.5, "mobile": width < 600}
    browser.send("Emulation.setDeviceMetricsOverride", **size)
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.open(url)
    script = f"document.body.innerText.includes({json.dumps(awaited)})"
    wait_until(lambda: browser.read(script), f"{url} never shows {awaited!r}")
    time.sleep(_SETTLES_IN_S)
    if top:
        scroll = f"each.style.scrollMarginTop = '{above}px', each.scrollIntoView(), true"
        if not browser.read(f"((each) => each && ({scroll}))(document.querySelector({json.dumps(top)}))"):
            raise RuntimeError(f"{url} has no {top!r}")
        time.sleep(1)
    raw = b64decode(browser.send("Page.captureScreenshot", format="png")["data"])
    with Image.open(BytesIO(raw)) as image:
        for colours in (128, 64, 32):
            packed = BytesIO()
            image.convert("RGB").quantize(colours).save(packed, "PNG", optimize=True)
            if packed.tell() <= MAX_BYTES:
                file.write_bytes(packed.getvalue())
                return
    raise RuntimeError(f"{file}: {packed.tell():,} bytes, expected at most {MAX_BYTES:,}; take a smaller window")


def wait_until(is_so: Callable[[], Any], problem: str) -> None:
    """Wait until `is_so` returns true; raise RuntimeError with the problem after ten minutes."""
    for _ in range(1200):
        if is_so():
            return
        time.sleep(0.5)
    raise RuntimeError(problem)


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--screens", action="store_true", help="take the screenshots too (some minutes)")
    FOLDER.mkdir(exist_ok=True)
    for theme in COLOURS:
        (FOLDER / f"stages-{theme}.svg").write_text(draw_diagram(theme), "utf-8")
        (FOLDER / f"stages-narrow-{theme}.svg").write_text(draw_narrow_diagram(theme), "utf-8")
    if parser.parse_args().screens:
        take_screenshots()


if __name__ == "__main__":
    main()
