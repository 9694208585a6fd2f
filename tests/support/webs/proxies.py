"""Run a small HTTP proxy on loopback, and make certificates of a test authority for servers behind it."""

import base64
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class LoopbackProxy:
    """Forwards CONNECT and requests with absolute addresses, over one connection each.

    `hosts`: host → port on loopback, for names that only this proxy resolves. `password`: the required `user:password`.
    """

    def __init__(self, hosts: Mapping[str, int], password: str = "") -> None:
        self.seen: list[str] = []
        """Method and target of every request."""
        proxy = self
        expected = f"basic {base64.b64encode(password.encode()).decode()}"

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                lines = []
                while (line := self.rfile.readline()) not in (b"\r\n", b"\n", b""):
                    lines.append(line.decode("latin-1").rstrip("\r\n"))
                if not lines:
                    return
                method, target, _ = lines[0].split(" ")
                proxy.seen.append(f"{method} {target}")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
                if password and headers.get("proxy-authorization", "").lower() != expected.lower():
                    self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                    return
                parts = urlsplit(target if "://" in target else f"//{target}")
                if parts.hostname not in hosts:
                    self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                    return
                with socket.create_connection(("127.0.0.1", hosts[parts.hostname])) as onward:
                    if method == "CONNECT":
                        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        _relay(self.connection, onward)
                        return
                    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
                    kept = [line for line in lines[1:] if not line.lower().startswith(("proxy-", "connection:"))]
                    head = [f"{method} {path} HTTP/1.1", *kept, "Via: 1.1 loopback", "Connection: close", "", ""]
                    onward.sendall("\r\n".join(head).encode("latin-1"))
                    onward.sendall(self.rfile.read(int(headers.get("content-length", 0))))
                    answer = b""
                    while data := onward.recv(65536):
                        answer += data
                    self.wfile.write(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

        self._web = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._web.daemon_threads = True
        self._web.socket.listen(128)
        self.port = int(self._web.server_address[1])
        threading.Thread(target=self._web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._web.shutdown()
        self._web.server_close()


def _relay(one: socket.socket, other: socket.socket) -> None:
    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=copy, args=(other, one), daemon=True)
    back.start()
    copy(one, other)
    back.join()


def make_certificates(folder: Path, host: str, days: int = 1) -> tuple[Path, ssl.SSLContext]:
    """Return the certificate file of a test authority, and the TLS context of a server of this host that it signs.

    `days`: from now to the end of the server's certificate; a negative number makes an expired one.
    """
    now = datetime.now(UTC)

    def write_certificate(
        name: str, key: ec.EllipticCurvePrivateKey, issuer: str, days: int = 1
    ) -> x509.CertificateBuilder:
        names = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer))
        subject, issued_by = names
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issued_by).public_key(key.public_key())
        return (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=9))
            .not_valid_after(now + timedelta(days=days))
        )

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = (
        write_certificate("made authority", authority_key, "made authority")
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        write_certificate(host, key, "made authority", days)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    bundle, chain = folder / "authority.pem", folder / "server.pem"
    bundle.write_bytes(authority.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(private + server.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return bundle, context
