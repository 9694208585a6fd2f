"""Events that commands tell a standing Prefect server, for its automations to act on (data/automations).

Where PREFECT_API_URL names no server nobody can act on them, and nothing is told.
"""

import os
from collections.abc import Mapping
from typing import Any

from flows.prefect_server import find_standing, find_trouble, prefect_settings
from tasks.progress import say
from tasks.settings import home


def tell_drift(build_id: str, about: Mapping[str, Any]) -> None:
    """Tell that a build has drifted more than it may; `about`: its epoch, share and counts, as JSON has them."""
    _tell("factmill.drift.found", f"factmill.build.{build_id}", build_id, about)


def tell_release(name: str, about: Mapping[str, Any]) -> None:
    """Tell that a release is finished; `about`: its builds, where it lies, as JSON has it."""
    _tell("factmill.release.finished", f"factmill.release.{name}", name, about)


def _tell(event: str, resource: str, name: str, payload: Mapping[str, Any]) -> None:
    """Send an event to the standing server, if there is one; that it does not take it is a note, no error."""
    url = find_standing()
    if not url:
        return
    if trouble := find_trouble(url):
        say(f"note: {event} is not told to the Prefect server at {url.removesuffix('/api')}: {trouble}")
        return
    os.environ.update(prefect_settings(home()))
    # Prefect is imported when its settings stand, by commands that need it alone
    from prefect.client.orchestration import get_client
    from prefect.events import Event

    told = Event(
        event=event,
        resource={"prefect.resource.id": resource, "prefect.resource.name": name},  # type: ignore[arg-type]
        payload=dict(payload),
    )
    try:
        with get_client(sync_client=True) as client:
            client.request("POST", "/events", json=[told.model_dump(mode="json")])
    except Exception as error:  # noqa: BLE001 - what was done is done, whatever the server makes of the news
        say(f"note: {event} is not told to the Prefect server at {url.removesuffix('/api')}: {error}")
