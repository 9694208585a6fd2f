"""What can be the address of a service or of a scheduler, and whose host it is.

Addresses stand in messages, logs and recorded calls, so none may hold a password, and what is refused is not repeated
where it may hold one.
"""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

_SECRET = re.compile(r"\A.*@|[?#].*", re.DOTALL)
"""What of an address may hold a password or a token."""
_WIKIMEDIA = (
    *(".wikipedia.org", ".wikimedia.org", ".wikidata.org", ".mediawiki.org", ".wikifunctions.org", ".wiktionary.org"),
    *(".wikibooks.org", ".wikinews.org", ".wikiquote.org", ".wikisource.org", ".wikiversity.org", ".wikivoyage.org"),
)
_QUERY_SERVICE = ("query.wikidata.org", "query-main.wikidata.org", "query-scholarly.wikidata.org")
_LONGEST = 2000
"""Characters of an address, at most."""


def check_service(url: str) -> None:
    """Raise ValueError, which repeats nothing of it, for what can be no service's address in a world's file."""
    if len(url) > _LONGEST or not url.isprintable() or " " in url:
        raise ValueError(
            f"holds spaces or control characters, or has more than {_LONGEST:,} characters; expected an address that begins "
            "with http:// or https://"
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        (host or "").encode("idna")
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


def is_this_machine(url: str) -> bool:
    """True when the host of a URL is a loopback address or `localhost`."""
    host = _find_host(url)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_wikimedia_api(url: str) -> bool:
    """True when the host of a URL is one whose API requests Wikimedia counts together: all but the Query Service."""
    return f".{_find_host(url)}".endswith(_WIKIMEDIA) and not is_query_service(url)


def is_query_service(url: str) -> bool:
    """True when the host of a URL is the Wikidata Query Service."""
    return _find_host(url) in _QUERY_SERVICE


def _find_host(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")
