"""Redirects of services: followed within one host, refused to any other that the world does not allow.

What is asked, and the key it is asked with, are meant for the address in the world's file alone.
"""

from collections.abc import Collection
from urllib.parse import urljoin, urlsplit

from tasks.clients.sending.budget import find_account
from tasks.errors import ServiceUnreachable

_PORTS = {"http": 80, "https": 443}


def check_redirect(service: str, asked: str, location: str, allowed: Collection[str]) -> None:
    """Raise ServiceUnreachable when the URL that was asked redirects to a host that is not allowed, to an unencrypted address, or
    to none.

    `location`: the header of that name; `allowed`: hosts other than the one that was asked, with the port where it is not the
    scheme's own.
    """
    try:
        leads_to = urljoin(asked, location)
        old, new = urlsplit(asked), urlsplit(leads_to)
        _ = new.port
    except ValueError as error:
        raise ServiceUnreachable(f"{service} redirects to {location[:200]!r}, which is no address: {error}") from None
    host = new.netloc.rpartition("@")[2].lower()
    if new.scheme not in _PORTS or (old.scheme, new.scheme) == ("https", "http"):
        why = "which is not followed, since it would be sent unencrypted"
    elif is_same_service(asked, leads_to) or host in allowed:
        return
    else:
        why = (
            f"another host, to which nothing is sent; put that address into the world's file, or allow it there: "
            f'limits = {{ redirects = ["{host}"] }}'
        )
    raise ServiceUnreachable(f"{service} redirects to {new.scheme}://{host}{new.path[:200]}, {why}")


def is_same_service(asked: str, leads_to: str) -> bool:
    """True when two addresses have one host and port, or the second is the TLS form of the first's host."""
    old, new = urlsplit(asked), urlsplit(leads_to)
    ports = [each.port or _PORTS.get(each.scheme) for each in (old, new)]
    is_upgrade = (old.scheme, new.scheme) == ("http", "https")
    return old.hostname == new.hostname and (ports[0] == ports[1] or is_upgrade)


def count_redirect() -> None:
    """Count a redirect that is about to be followed as a request of its own; BudgetReached when it is one too many."""
    account = find_account()
    account.budget.take(account.service)
