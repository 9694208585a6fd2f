"""Serve scripted responses on loopback."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Seen:
    """One received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Lower-case name → value."""
    body: bytes
    at: float
    port: int = 0
    """The client's port: one for each connection."""

    def json(self) -> Any:
        return json.loads(self.body)

    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class _Web(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    """Number of connections that may wait to be accepted; the system resets some of those beyond it."""


class Loopback:
    """The server.

    An answer is a dict: status, headers, json, text or bytes (and type), delay_s, until, cut, truncate, slice and
    every_s. `until` is an event (threading.Event) that the answer waits for; `slice` is the number of bytes sent at
    once, with pauses of `every_s` seconds.
    """

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        """Start; `port`: 0 takes any free one; `tls`: the context that encrypts connections."""
        self.seen: list[Seen] = []
        self.handle: Callable[[Seen], dict[str, Any]] = lambda _: {"status": 500, "text": "nothing scripted"}
        self.most_at_once = 0
        self._at_once = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._web = _Web(("127.0.0.1", port), self._make_handler())
        if tls:
            # each connection performs its handshake in its own thread
            self._web.socket = tls.wrap_socket(self._web.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._web.server_port}"
        threading.Thread(target=self._web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def script(self, *answers: dict[str, Any]) -> None:
        """Give these answers one after the other, and repeat the last one."""
        left = list(answers)
        self.handle = lambda _: left.pop(0) if len(left) > 1 else left[0]

    @property
    def port(self) -> int:
        return int(self._web.server_port)

    def stop(self) -> None:
        """Stop accepting connections."""
        self._web.shutdown()
        self._web.server_close()

    def close(self) -> None:
        """Stop, and end the clients' open connections, whose threads would keep all handlers in memory."""
        self.stop()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                seen = Seen(self.command, parts.path, query, headers, body, time.monotonic(), self.client_address[1])
                with server._lock:
                    server.seen.append(seen)
                    server._at_once += 1
                    server.most_at_once = max(server.most_at_once, server._at_once)
                    answer = server.handle(seen)
                if "until" in answer:
                    answer["until"].wait()
                time.sleep(answer.get("delay_s", 0))
                with server._lock:
                    server._at_once -= 1
                if answer.get("cut"):
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self._write(answer)

            do_POST = do_GET  # noqa: N815 (the name that http.server looks for)

            def _write(self, answer: dict[str, Any]) -> None:
                text = json.dumps(answer["json"]) if "json" in answer else answer.get("text", "")
                kind = answer.get("type", "application/json" if "json" in answer else "text/html")
                data = answer.get("bytes", text.encode())
                self.send_response(answer.get("status", 200))
                for name, value in {"Content-Type": kind, **answer.get("headers", {})}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                data = data[: len(data) // 2] if answer.get("truncate") else data
                size = answer.get("slice", len(data) or 1)
                for start in range(0, len(data), size):
                    self.wfile.write(data[start : start + size])
                    time.sleep(answer.get("every_s", 0))
                self.close_connection |= bool(answer.get("truncate"))

            def handle(self) -> None:
                server._open.add(self.connection)
                try:
                    super().handle()
                except (OSError, ValueError):
                    self.close_connection = True

            def finish(self) -> None:
                server._open.discard(self.connection)
                try:
                    super().finish()
                except (OSError, ValueError):
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

        return Handler
