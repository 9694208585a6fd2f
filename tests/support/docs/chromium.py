"""A page as Chromium shows it, and what it asked for on the way."""

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
    """Return the document that Chromium made of a page, and the addresses that it asked a proxy for."""
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
