"""Client of a Wikipedia's Action API over mwclient: requests, errors, and the operations that it answers.

mwclient's own retries and error handling are off: the Sender retries, so that maxlag, a 429 or a cut connection slows
down all requests to the service. `maxlag` goes with every request, as Wikimedia asks of programs without urgency.

Errors come as `error` (errorformat=bc) or as a list `errors` (all other formats), and their codes in a header as well.
Errors of a busy or read-only wiki are transient. A block, or a token that the wiki refuses, stops the run, since every
other request would be refused too.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import mwclient
import requests
from mwclient.errors import APIDisabledError, InvalidResponse

from factmill.tasks.clients.sending.http_responses import (
    find_final_http_failure_or_raise,
    parse_json_body,
    parse_retry_after,
    shorten_to_line,
)
from factmill.tasks.clients.sending.limiter import RequestLimiter
from factmill.tasks.clients.sending.response_limits import answer_in_thread
from factmill.tasks.clients.sending.sender import Retry, RetryingRequestSender
from factmill.tasks.clients.sending.web_sessions import connection_errors_as_retry, make_http_session
from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler, make_failed_response
from factmill.tasks.core.calls.operation import find_operation
from factmill.tasks.core.calls.wikipedia import normalise_title_except_first_letter
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import ServiceUnreachable

_MAXLAG_S = 5
_TRANSIENT_ERROR_CODE = re.compile(
    r"maxlag|ratelimited|readonly|timeouterror|internal_api_error.*|cirrussearch-(.*too-busy.*|backend-error)"
)
_BLOCKED_ERROR_CODE = re.compile(r"(|auto|system)blocked|(wikimedia-)?globalblocking-.*")
_TOKEN_REFUSED_CODE = re.compile(r"mwoauth-invalid-authorization.*")


class PermanentFailureError(Exception):
    """Raised for a permanent failure of one request; `reply` holds the reason."""

    def __init__(self, reply: CallResponse) -> None:
        super().__init__(reply.error)
        self.reply = reply


class MediaWikiApi:
    """Client of one wiki's Action API."""

    def __init__(self, url: str, name: str, limits: ServiceLimits, user_agent: str, token: str = "") -> None:
        """Set up the session; send nothing. `url`: scheme and host, and the script path unless it is `/w`."""
        self._name = name
        session = make_http_session(name, user_agent, limits, token)
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
        """Send one request and return its JSON.

        Retry for a transient failure, ServiceUnreachable for a block or a refused token, PermanentFailureError for every other
        error of the wiki.
        """
        try:
            with connection_errors_as_retry():
                answer = self._site.raw_api(action, "GET", retry_on_error=False, maxlag=_MAXLAG_S, **params)
        except InvalidResponse as error:
            answer = parse_json_body(str(error.response_text))
        except APIDisabledError as error:
            raise PermanentFailureError(
                make_failed_response("api_disabled", f"{self._name} has its API switched off")
            ) from error
        if not isinstance(answer, dict):
            raise Retry(f"malformed_reply: expected a JSON object, got {type(answer).__name__}")
        errors = _list_errors(answer)
        self._check_errors(errors, None)
        if errors:
            raise PermanentFailureError(make_failed_response(*errors[0]))
        return answer

    def _check_response(self, response: requests.Response, **_: Any) -> None:
        """Check status and headers before mwclient sees the response, since it does not keep Retry-After."""
        lag = response.headers.get("X-Database-Lag")
        if lag is not None:
            raise Retry(f"maxlag: {lag} s behind", parse_retry_after(response.headers.get("Retry-After")))
        if response.is_redirect:
            return  # the session follows it
        if codes := response.headers.get("MediaWiki-API-Error"):
            texts = dict(_list_errors(parse_json_body(response.text))) if response.text[:1] == "{" else {}
            body = shorten_to_line(response.text)
            errors = [(code, texts.get(code, body)) for code in codes.replace(",", " ").split()]
            self._check_errors(errors, response.headers.get("Retry-After"))
        failure = find_final_http_failure_or_raise(
            self._name, response.status_code, response.text, response.headers.get("Retry-After")
        )
        if failure:
            raise PermanentFailureError(failure)

    def _check_errors(self, errors: Sequence[tuple[str, str]], retry_after: str | None) -> None:
        """Raise ServiceUnreachable when an error (code and text) stops the run, Retry when one is transient."""
        for code, text in errors:
            if _BLOCKED_ERROR_CODE.fullmatch(code):
                raise ServiceUnreachable(
                    f"{self._name}: blocks your address or account ({code}): {shorten_to_line(text)}. Send no more requests until you know why; the "
                    "wiki's block log gives the reason. Answers so far are recorded; run the same command once the block ends"
                )
            if _TOKEN_REFUSED_CODE.fullmatch(code):
                raise ServiceUnreachable(
                    f"{self._name}: refuses the token ({code}): {shorten_to_line(text)}. Put a valid token into the environment variable that "
                    "token_env names, or remove token_env"
                )
        for code, text in errors:
            if _TRANSIENT_ERROR_CODE.fullmatch(code):
                raise Retry(f"{code}: {text}", parse_retry_after(retry_after))


def _list_errors(answer: Any) -> list[tuple[str, str]]:
    """Return code and text of each error in a response; Retry when an error is in neither format."""
    if not isinstance(answer, Mapping):
        return []
    errors = [answer["error"]] if "error" in answer else answer.get("errors", [])
    found = []
    for error in errors if isinstance(errors, list) else [errors]:
        if not isinstance(error, Mapping) or not isinstance(error.get("code"), str):
            raise Retry(f"malformed_reply: expected errors with codes, got {shorten_to_line(str(errors))}")
        texts = (error.get(name) for name in ("info", "text", "html", "*", "key"))
        found.append((error["code"], str(next(filter(None, texts), ""))))
    return found


_MAX_TITLES = 50
_MAX_TITLES_LENGTH = 5000
_FORBIDDEN_TITLE_CHARACTERS = frozenset("#<>[]|{}\n\t")


class WikipediaClient:
    """Client that answers calls from a MediaWiki."""

    is_outside = True

    def __init__(
        self,
        url: str,
        identity: str,
        limits: ServiceLimits,
        user_agent: str,
        token: str = "",
        shared: RequestLimiter | None = None,
    ) -> None:
        """Set up the client; send nothing. `url`: scheme and host, and the script path unless it is /w."""
        self.identity = identity
        name = f"Wikipedia at {url}"
        self._wiki = MediaWikiApi(url, name, limits, user_agent, token)
        self._batch = min(limits.batch, _MAX_TITLES)
        self._sender = RetryingRequestSender(limits, name, token=token, shared=shared)

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer calls; a title that no page can have fails alone, with `invalid_title`."""
        together: dict[str, list[Call]] = defaultdict(list)
        groups: list[list[Call]] = []
        for call in calls:
            if trouble := _find_title_error(call):
                deliver(call, make_failed_response("invalid_title", trouble))
                continue
            operation = find_operation(call.operation)
            if operation is None or operation.fetch_from_wiki is None:
                raise ValueError(
                    f"a MediaWiki cannot answer {call.operation}: the operation defines no MediaWiki request"
                )
            if operation.batches_titles:
                together[call.operation].append(call)
            else:
                groups.append([call])
        groups += [group for alike in together.values() for group in _group_by_title_length(alike, self._batch)]
        self._sender.send(groups, partial(answer_in_thread, self._answer), deliver)

    def _answer(self, group: Sequence[Call]) -> list[CallResponse]:
        operation = find_operation(group[0].operation)
        assert operation
        assert operation.fetch_from_wiki
        try:
            return operation.fetch_from_wiki(self._wiki.get, group)
        except PermanentFailureError as refused:
            return [refused.reply] * len(group)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise Retry(f"malformed_reply: not what the API documents: {error!r}") from error


def _find_title_error(call: Call) -> str | None:
    title = call.parts.get("title", call.parts.get("category"))
    if title is None or (
        normalise_title_except_first_letter(str(title)) and not _FORBIDDEN_TITLE_CHARACTERS & set(str(title))
    ):
        return None
    return f"{title!r} is empty or holds one of {''.join(sorted(_FORBIDDEN_TITLE_CHARACTERS)).strip()}"


def _group_by_title_length(calls: Sequence[Call], max_calls_per_group: int) -> list[list[Call]]:
    """Group calls so that the titles of each group fit into one URL."""
    groups: list[list[Call]] = []
    length = 0
    for call in calls:
        longer = len(quote(str(call.parts["title"]))) + 3
        if not groups or len(groups[-1]) == max_calls_per_group or length + longer > _MAX_TITLES_LENGTH:
            groups.append([])
            length = 0
        groups[-1].append(call)
        length += longer
    return groups
