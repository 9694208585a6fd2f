"""One MediaWiki's Action API over mwclient: a request, and what its answer means.

mwclient's own retries and error handling stay off: trying again is the Sender's matter, so that maxlag, a 429 or a cut
connection slows down the service as a whole. `maxlag` goes with every request, as Wikimedia asks of programs that are
in no hurry.

Errors come as `error` (errorformat=bc) or as a list `errors` (all other formats), and their codes in a header as well.
Those of a wiki that is busy or read-only may pass. A block, or a token that the wiki refuses, stops the run, since every
other request would be refused too.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import mwclient
import requests
from mwclient.errors import APIDisabledError, InvalidResponse

from tasks.clients.sending.answers import fail, judge_status, read_json, read_retry_after, shorten
from tasks.clients.sending.sender import Retry
from tasks.clients.sending.web_sessions import open_session, raise_retry
from tasks.core.calls.call import Reply
from tasks.core.service_settings import Limits
from tasks.errors import ServiceUnreachable

_MAXLAG_S = 5
_PASSING = re.compile(
    r"maxlag|ratelimited|readonly|timeouterror|internal_api_error.*|cirrussearch-(.*too-busy.*|backend-error)"
)
_BLOCKED = re.compile(r"(|auto|system)blocked|(wikimedia-)?globalblocking-.*")
_TOKEN_REFUSED = re.compile(r"mwoauth-invalid-authorization.*")


class RefusedError(Exception):
    """An answer that is final for what was asked; `reply` says why."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.error)
        self.reply = reply


class MediaWiki:
    """The Action API of one wiki."""

    def __init__(self, url: str, name: str, limits: Limits, user_agent: str, token: str = "") -> None:
        """Open nothing yet. `url`: scheme and host, and the script path where that is not `/w`."""
        self._name = name
        session = open_session(name, user_agent, limits, token)
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
        """Return the JSON of one request; Retry for what may pass, ServiceUnreachable for a block or a refused token,
        RefusedError for every other error of the wiki."""
        try:
            with raise_retry():
                answer = self._site.raw_api(action, "GET", retry_on_error=False, maxlag=_MAXLAG_S, **params)
        except InvalidResponse as error:
            answer = read_json(str(error.response_text))
        except APIDisabledError as error:
            raise RefusedError(fail("api_disabled", f"{self._name} has its API switched off")) from error
        if not isinstance(answer, dict):
            raise Retry(f"malformed_reply: expected a JSON object, got {type(answer).__name__}")
        errors = _list_errors(answer)
        self._check_errors(errors, None)
        if errors:
            raise RefusedError(fail(*errors[0]))
        return answer

    def _check_response(self, response: requests.Response, **_: Any) -> None:
        """Judge status and headers before mwclient sees them: it keeps no Retry-After."""
        lag = response.headers.get("X-Database-Lag")
        if lag is not None:
            raise Retry(f"maxlag: {lag} s behind", read_retry_after(response.headers.get("Retry-After")))
        if response.is_redirect:
            return  # is followed
        if codes := response.headers.get("MediaWiki-API-Error"):
            texts = dict(_list_errors(read_json(response.text))) if response.text[:1] == "{" else {}
            body = shorten(response.text)
            errors = [(code, texts.get(code, body)) for code in codes.replace(",", " ").split()]
            self._check_errors(errors, response.headers.get("Retry-After"))
        failure = judge_status(self._name, response.status_code, response.text, response.headers.get("Retry-After"))
        if failure:
            raise RefusedError(failure)

    def _check_errors(self, errors: Sequence[tuple[str, str]], retry_after: str | None) -> None:
        """Raise ServiceUnreachable when one of an answer's errors (code and text) stops the run, Retry when one may pass."""
        for code, text in errors:
            if _BLOCKED.fullmatch(code):
                raise ServiceUnreachable(
                    f"{self._name}: blocks us ({code}): {shorten(text)}. Send nothing more until you know why: the wiki's block log "
                    "gives the reason for your address or account. What was answered is kept; run the same command once you are unblocked"
                )
            if _TOKEN_REFUSED.fullmatch(code):
                raise ServiceUnreachable(
                    f"{self._name}: refuses the token ({code}): {shorten(text)}. Put a valid one into the environment variable that "
                    "token_env names, or leave token_env out"
                )
        for code, text in errors:
            if _PASSING.fullmatch(code):
                raise Retry(f"{code}: {text}", read_retry_after(retry_after))


def _list_errors(answer: Any) -> list[tuple[str, str]]:
    """Return code and text of each error in an answer; Retry when an error is in neither format."""
    if not isinstance(answer, Mapping):
        return []
    errors = [answer["error"]] if "error" in answer else answer.get("errors", [])
    found = []
    for error in errors if isinstance(errors, list) else [errors]:
        if not isinstance(error, Mapping) or not isinstance(error.get("code"), str):
            raise Retry(f"malformed_reply: expected errors with codes, got {shorten(str(errors))}")
        texts = (error.get(name) for name in ("info", "text", "html", "*", "key"))
        found.append((error["code"], str(next(filter(None, texts), ""))))
    return found
