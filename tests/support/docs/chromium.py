"""Open a page in Chromium, and record its requests."""

import json
import re
import shutil
import socketserver
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


def find_chromium() -> str:
    """Return the path of Chromium; skip the test if it is not installed."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium is installed: apt-get install chromium")


def open_page(page: Path) -> tuple[str, list[str]]:
    """Return the document that Chromium made from a page, and the addresses that it requested from a proxy."""
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_CONNECT = do_GET  # noqa: N815 - named so by the library

        def log_message(self, format: str, *args: object) -> None:
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        own = [f"--user-data-dir={page.parent / 'profile'}", f"--proxy-server=127.0.0.1:{server.server_address[1]}"]
        command = [
            find_chromium(),
            *FLAGS,
            *own,
            "--proxy-bypass-list=<-loopback>",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ]
        dumped = subprocess.run(
            [*command, f"file://{page}"], capture_output=True, text=True, check=True, timeout=120
        ).stdout
        server.shutdown()
    return dumped, asked


def open_filtered(html: str, folder: Path, **wanted: str) -> str:
    """Return the document after its filters are set: `search` to words, any other by name to an option."""
    fields = "".join(
        f"form.querySelector({json.dumps('input' if name == 'search' else f'select[name={name}]')}).value = {json.dumps(value)};"
        for name, value in wanted.items()
    )
    script = f"<script>const form = document.querySelector('.browse'); {fields} form.dispatchEvent(new Event('input'));</script>"
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    (folder / "page.html").write_text(page.replace("</body>", f"{script}</body>"), "utf-8")
    return open_page(folder / "page.html")[0]
