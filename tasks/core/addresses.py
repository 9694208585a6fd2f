"""What can be the address of a service or of a scheduler.

Addresses stand in messages, logs and recorded calls, so none may hold a password, and what is refused is not repeated
where it may hold one.
"""

import re
from urllib.parse import urlsplit

_SECRET = re.compile(r"\A.*@|[?#].*", re.DOTALL)
"""What of an address may hold a password or a token."""


def check_service(url: str) -> None:
    """Raise ValueError, which repeats nothing of it, for what can be no service's address in a world's file."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"no address of a service: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "holds a user name or password, which would stand in messages and recorded calls; leave them out of the address, "
            "and name a key by key_env where the service is a model"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("expected an address that begins with http:// or https:// and a host, or `embedded`")
    if parts.query or parts.fragment:
        raise ValueError("holds ? or #; expected an address that paths can be put behind")


def check_scheduler(address: str) -> None:
    """Raise ValueError for what can be no address of a Dask scheduler."""
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port) and address.isprintable()
    except ValueError:
        fits = False
    if not fits or parts.path or parts.query or parts.fragment or parts.username is not None:
        told = _SECRET.sub("…", address)
        raise ValueError(f"expected a scheduler's address such as tcp://10.0.0.5:8786, not {told!r}")
