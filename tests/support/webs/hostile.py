"""Serve one kind of hostile reply on raw loopback sockets."""

import gzip
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count

Reply = Callable[[socket.socket, float], None]
"""Writes a reply to a connection until the connection ends; the second argument is the seconds between trickled bytes.
"""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BODY = b'{"results": {"bindings": []}}'
PIECE = b" " * 65_536


class HostileServer:
    """The server; `drip_s`: seconds between bytes; `reads_request`: False to reply before the request."""

    def __init__(self, reply: Reply, drip_s: float = 1.0, *, reads_request: bool = True) -> None:
        self.requests = 0
        self._reply, self._drip_s, self._reads_request = reply, drip_s, reads_request
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._listening.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_until_closed(self, timeout_s: float) -> bool:
        """Return whether all clients close their connections within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout_s)

    def close(self) -> None:
        """Stop accepting connections, and end the open ones."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._listening.accept()[0]
                self._open.add(connection)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            request = b""
            # reads the whole request: closing a connection with unread bytes resets it and loses the reply
            while self._reads_request and not _is_whole(request):
                if not (piece := connection.recv(65_536)):
                    break
                request += piece
            else:
                self.requests += 1
                self._reply(connection, self._drip_s)
        with self._changed:
            self._open.discard(connection)
            self._changed.notify_all()


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return bool(end) and len(body) >= int(length[1] if length else 0)


def send(head: bytes, body: bytes) -> Reply:
    """Return a reply of a head, without the empty line, and a body, after which the connection closes."""
    return lambda connection, _: connection.sendall(head + b"\r\n" + body)


def wait_for_end(connection: socket.socket, _: float = 0) -> None:
    """Send nothing until the client disconnects."""
    while connection.recv(65_536):
        pass


def _drip(head: bytes, drop: bytes) -> Reply:
    def reply(connection: socket.socket, drip_s: float) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(drop)
            time.sleep(drip_s)

    return reply


def _send_endless(connection: socket.socket, _: float) -> None:
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(PIECE)


@cache
def _pack() -> tuple[bytes, bytes]:
    """Return the start of a gzip stream and a part to repeat, a thousandth of its inflated size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    begin = packer.compress(PIECE) + packer.flush(zlib.Z_FULL_FLUSH)
    return begin, packer.compress(PIECE * 256) + packer.flush(zlib.Z_FULL_FLUSH)


def _send_bomb(connection: socket.socket, _: float) -> None:
    begin, packed = _pack()
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\n\r\n" + begin)
    while True:
        connection.sendall(packed)


_turn = count()


def _send_wrong_length(connection: socket.socket, _: float) -> None:
    """Announce more bytes than follow and keep the connection open; every second time announce fewer."""
    announced = 5 if next(_turn) % 2 else 10_000
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % announced + BODY)
    wait_for_end(connection)


REPLIES: dict[str, Reply] = {
    "endless": _send_endless,
    "drip": _drip(HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
    "gzip bomb": _send_bomb,
    "wrong length": _send_wrong_length,
    "silent": wait_for_end,
    "header drip": _drip(HEAD, b"X-Drip: 1\r\n"),
}
"""Replies that never end, or lie."""
DEFECTS: dict[str, tuple[Reply, set[str]]] = {
    "shorter than announced": (send(HEAD + b"Content-Length: 900\r\n", BODY), {"truncated", "connection_cut"}),
    "longer than announced": (send(HEAD + b"Content-Length: 12\r\n", BODY), {"broken_json"}),
    "half a gzip": (send(HEAD + b"Content-Encoding: gzip\r\n", gzip.compress(BODY * 99)[:-20]), {"truncated"}),
    "no gzip at all": (send(HEAD + b"Content-Encoding: gzip\r\n", BODY), {"broken_encoding"}),
    "an encoding nobody accepted": (send(HEAD + b"Content-Encoding: br\r\n", BODY), {"unknown_encoding"}),
    "gzip within gzip": (send(HEAD + b"Content-Encoding: gzip, gzip\r\n", BODY), {"unknown_encoding"}),
    "chunks that break off": (
        send(HEAD + b"Transfer-Encoding: chunked\r\n", b"1d\r\n" + BODY + b"\r\n1d\r\n{"),
        {"truncated", "connection_cut"},
    ),
    "chunks of no length": (
        send(HEAD + b"Transfer-Encoding: chunked\r\n", b"zz\r\n" + BODY),
        {"truncated", "connection_cut"},
    ),
    "a charset with a codec that fails": (
        send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=idna\r\n", b"\xff{"),
        {"broken_json"},
    ),
    "no HTTP": (send(b"SSH-2.0-OpenSSH\r\n", b""), {"connection_cut"}),
    "nothing": (lambda connection, _: None, {"connection_cut"}),
}
"""Broken replies, and the codes that may name the fault."""
