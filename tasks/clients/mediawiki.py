"""One MediaWiki's Action API over mwclient: a request, and what its answer means.

mwclient's own retries and error handling stay off: trying again is the Sender's matter, so that maxlag, a 429 or a cut
connection slows down the service as a whole. `maxlag` goes with every request, as Wikimedia asks of programs that are
in no hurry.
"""

from typing import Any
from urllib.parse import urlsplit

import mwclient
import requests
from mwclient.errors import APIDisabledError, InvalidResponse

from tasks.clients.sending.answers import fail, judge_status, read_json, read_retry_after
from tasks.clients.sending.sender import Retry
from tasks.clients.sending.web_sessions import open_session, raise_retry
from tasks.core.calls.call import Reply
from tasks.settings import Limits

_MAXLAG_S = 5
_PASSING = ("maxlag", "ratelimited", "readonly", "internal_api_error")


class RefusedError(Exception):
    """An answer that is final for what was asked; `reply` says why."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.error)
        self.reply = reply


class MediaWiki:
    """The Action API of one wiki."""

    def __init__(self, url: str, name: str, limits: Limits, user_agent: str) -> None:
        """Open nothing yet. `url`: scheme and host, and the script path where that is not `/w`."""
        self._name = name
        session = open_session(name, user_agent, limits)
        session.hooks["response"].append(self._check_response)
        parts = urlsplit(url)
        self._site = mwclient.Site(
            parts.netloc,
            path=f"{parts.path.rstrip('/').removesuffix('/api.php') or '/w'}/",
            scheme=parts.scheme,
            pool=session,
            do_init=False,
            max_retries=0,
            connection_options={"timeout": limits.timeout_s},
        )

    def get(self, action: str, **params: str | int) -> Any:
        """Return the JSON of one request; Retry for what may pass, RefusedError for every other error of the wiki."""
        try:
            with raise_retry():
                answer = self._site.raw_api(action, "GET", retry_on_error=False, maxlag=_MAXLAG_S, **params)
        except InvalidResponse as error:
            answer = read_json(str(error.response_text))
        except APIDisabledError as error:
            raise RefusedError(fail("api_disabled", f"{self._name} has its API switched off")) from error
        if not isinstance(answer, dict):
            raise Retry(f"malformed_reply: expected a JSON object, got {type(answer).__name__}")
        if "error" in answer:
            code, info = str(answer["error"].get("code")), str(answer["error"].get("info"))
            if code.startswith(_PASSING):
                raise Retry(f"{code}: {info}")
            raise RefusedError(fail(code, info))
        return answer

    def _check_response(self, response: requests.Response, **_: Any) -> None:
        """Judge status and headers before mwclient sees them: it keeps no Retry-After."""
        lag = response.headers.get("X-Database-Lag")
        if lag is not None:
            raise Retry(f"maxlag: {lag} s behind", read_retry_after(response.headers.get("Retry-After")))
        if response.is_redirect:
            return  # is followed
        failure = judge_status(self._name, response.status_code, response.text, response.headers.get("Retry-After"))
        if failure:
            raise RefusedError(failure)
