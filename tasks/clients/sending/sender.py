"""The engine that all clients send through: retries, time-outs, splitting, and an adaptive limiter.

All sending happens in one asyncio loop in one background thread of the process, so that batches in several threads
share each service's limiter. Replies are delivered in the thread that called `send`, one at a time: processing them
(appending to a journal) cannot block the loop, and errors there reach the caller.

A request covers a group of calls (one VALUES block, fifty titles). It returns a reply for each, `failed` ones where
retrying is useless, and raises Retry for transient failures. A group that is too big is halved, and the size of groups
may adapt to that (limiter.py). Pending work is two lists and one heap: a task exists only for a request in progress, so
100,000 calls do not cost 100,000 tasks, and a call that waits for its next try occupies no place.
"""

import asyncio
import heapq
import itertools
import logging
import random
import socket
import ssl
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from factmill.tasks.clients.sending.budget import BudgetFullyReserved, RunBudgetForService, get_current_budget_account
from factmill.tasks.clients.sending.limiter import (
    MAX_BACKOFF_S,
    MAX_PAUSE_S,
    SHORT_PAUSE_S,
    AdaptiveCallsPerRequest,
    PauseTooLongError,
    RequestLimiter,
    SendGroup,
    wait_for_event,
)
from factmill.tasks.clients.sending.secret_redaction import SecretRedactor
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import (
    AccountBlocked,
    BudgetExhausted,
    ResourcesExhausted,
    ServiceError,
    ServiceUnreachable,
    iterate_exception_chain,
)
from factmill.tasks.memory import find_resource_shortage

Item = TypeVar("Item")
RequestFunction = Callable[[Sequence[Item]], Awaitable[list[CallResponse]]]
Result = TypeVar("Result")

UNREACHABLE_ADVICE = (
    ". Start the server, or check network and address (`factmill doctor --world FILE` tests them); then run the same command "
    "again: it continues"
)
"""End of the message that a service cannot be reached."""
_MAX_LOST_IN_ROW = {False: 10, True: 100}
"""Requests in a row without a useful answer that stop a run: for failures of the service, and of single requests, which
may be all that is left at the end of a run."""
_RATE_LIMIT_CODES = frozenset({"http_429", "maxlag", "ratelimited"})
"""Codes of responses to a client that sends too much."""
_OVERLOAD_CODES = _RATE_LIMIT_CODES | {"http_503", "http_504", "timeout", "timeouterror", "provider_busy"}
_TRANSIENT_TLS_ERRORS = (ssl.SSLEOFError, ssl.SSLSyscallError, ssl.SSLZeroReturnError)
"""Connections that end during the handshake, as at a server that starts or stops."""
_log = logging.getLogger(__name__)


class Retry(Exception):
    """A request failed in a way that may pass.

    `reason`: a short code, a colon and the details (`http_503: …`); `retry_after_s`: the pause that the service asked
    for; `split`: half of the group may succeed where the whole did not; `is_about_request`: the service works and fails
    this request alone.
    """

    def __init__(
        self, reason: str, retry_after_s: float | None = None, split: bool = False, *, is_about_request: bool = False
    ) -> None:
        super().__init__(reason)
        self.code = reason.partition(":")[0]
        self.retry_after_s = retry_after_s
        self.split = split
        self.is_about_request = is_about_request

    @property
    def is_overload(self) -> bool:
        """True when the service asks for fewer requests."""
        return self.code in _OVERLOAD_CODES or "too-busy" in self.code or self.retry_after_s is not None

    @property
    def is_over_limit(self) -> bool:
        """True when the response exceeds its limit, as it would on another try."""
        return self.code == "reply_too_big"


class _UnsentAndDeferredGroups(Generic[Item]):
    """Work that one `send` still has to do."""

    def __init__(
        self,
        groups: Sequence[Sequence[Item]],
        request: RequestFunction[Item],
        sizes: Sequence[AdaptiveCallsPerRequest] | None,
    ) -> None:
        self.request = request
        self.open_count = sum(map(len, groups))
        """Items that have no reply yet."""
        self.stopped: BudgetExhausted | AccountBlocked | None = None
        """Why nothing more goes out; requests in progress are waited for."""
        self.changed = asyncio.Event()
        self.arrived: SimpleQueue[list[tuple[Item, CallResponse]] | None] = SimpleQueue()
        given: Sequence[AdaptiveCallsPerRequest | None] = [None] * len(groups) if sizes is None else sizes
        self._untried_groups = deque(zip(map(deque, groups), given, strict=True))
        self._ready: deque[SendGroup[Item]] = deque()
        self._deferred: list[tuple[float, int, SendGroup[Item]]] = []
        self._order = itertools.count()

    def take(self, now: float) -> tuple[SendGroup[Item] | None, float | None]:
        """Return a piece that is due, or None and the seconds until the next one is (None: unknown)."""
        if self._deferred and self._deferred[0][0] <= now:
            return heapq.heappop(self._deferred)[2], None
        if self._ready:
            return self._ready.popleft(), None
        if piece := self._cut_next_group():
            return piece, None
        return None, self._deferred[0][0] - now if self._deferred else None

    def defer(self, piece: SendGroup[Item], due: float) -> None:
        piece.tries += 1
        heapq.heappush(self._deferred, (due, next(self._order), piece))
        self.changed.set()

    def stop(self, why: BudgetExhausted | AccountBlocked) -> None:
        self.stopped = self.stopped or why
        self.changed.set()

    def put_back(self, piece: SendGroup[Item]) -> None:
        """Put an unsent piece back in front."""
        self._ready.appendleft(piece)
        self.changed.set()

    def trim(self, piece: SendGroup[Item]) -> None:
        """Cut a piece to the current size, since it may have waited long for its place."""
        if rest := piece.trim_to_size():
            self._ready.appendleft(rest)

    def split(self, piece: SendGroup[Item]) -> None:
        """Put both halves in front."""
        piece.note_too_big()
        self._ready.extendleft(reversed(piece.halve()))
        self.changed.set()

    def finish(self, piece: SendGroup[Item], replies: Sequence[CallResponse]) -> None:
        self.arrived.put(list(zip(piece.items, replies, strict=True)))
        self.open_count -= len(piece.items)
        self.changed.set()

    def _cut_next_group(self) -> SendGroup[Item] | None:
        """Return the next items that were not tried yet; None when there are no more."""
        while self._untried_groups:
            waiting, size = self._untried_groups[0]
            if waiting:
                count = min(len(waiting), size.current) if size else len(waiting)
                return SendGroup([waiting.popleft() for _ in range(count)], size)
            self._untried_groups.popleft()
        return None


class RetryingRequestSender:
    """Sends one service's requests, from any number of threads, under one limiter.

    `timeouts_s`: the time-outs of the first, second, … try of a request, the last one for all further tries; by default
    always `limits.timeout_s`. `counts`: False where `request` itself counts its requests (openai_server.py).
    `find_subject`: returns the subject of an item, where several requests share one (the samples of a prompt).
    `shared`: a limiter that admits other services' requests too. `token`: redacted in replies and messages.
    """

    def __init__(
        self,
        limits: ServiceLimits,
        name: str,
        timeouts_s: Sequence[float] = (),
        *,
        counts: bool = True,
        find_subject: Callable[[Any], Hashable] | None = None,
        shared: RequestLimiter | None = None,
        token: str = "",
    ) -> None:
        self._limits = limits
        self._name = name
        self._timeouts_s = tuple(timeouts_s) or (limits.timeout_s,)
        self._counts_requests = counts
        self._secrets = SecretRedactor() if token else None
        if self._secrets is not None:
            self._secrets.add_secret(token)
        self._limiter = RequestLimiter(limits.parallel, within=shared)
        self._random = random.Random()
        self._was_answered = False
        self._find_subject = find_subject
        self._lost_subjects: dict[bool, set[Hashable]] = {False: set(), True: set()}
        """Subjects without a useful answer since the last success: for failures of the service, and of single requests."""

    def send(
        self,
        groups: Sequence[Sequence[Item]],
        request: RequestFunction[Item],
        deliver: Callable[[Item, CallResponse], object],
        sizes: Sequence[AdaptiveCallsPerRequest] | None = None,
    ) -> None:
        """Send every group, calling `deliver` in this thread for each item as soon as its reply is there.

        A group goes out in one request, or, with `sizes`, one for each group, in requests of that many items. Raises
        ServiceUnreachable when the service never answers, and whatever `request` and `deliver` raise apart from Retry.
        Ctrl-C passes through at once and cancels requests in progress. BudgetExhausted and AccountBlocked come after all
        requests in progress have been delivered, since they are paid for.
        """
        job = _UnsentAndDeferredGroups(groups, request, sizes)
        run_in_sending_loop_and_deliver(self._name, self._run(job), job.arrived, deliver)

    async def _run(self, job: _UnsentAndDeferredGroups[Any]) -> None:
        loop = asyncio.get_running_loop()
        account = get_current_budget_account()
        try:
            async with asyncio.TaskGroup() as under_way:
                while job.open_count and job.stopped is None:
                    job.changed.clear()
                    piece, wait_s = job.take(loop.time())
                    if piece is None:
                        waits_s = [each for each in (wait_s, account.budget.seconds_left) if each is not None]
                        await wait_for_event(job.changed, min(waits_s, default=None))
                        self._stop_when_time_is_up(job, account)
                        continue
                    if not self._counts_requests:
                        await account.budget.wait_for_free_budget()
                    try:
                        async with asyncio.timeout(account.budget.seconds_left):
                            await self._limiter.acquire()
                    except TimeoutError:
                        job.put_back(piece)
                        self._stop_when_time_is_up(job, account)
                    except PauseTooLongError as error:
                        self._give_up(job, piece, Retry(f"asked_to_wait: {error}"))
                    else:
                        job.trim(piece)
                        under_way.create_task(self._try_or_stop_loop(job, piece, account))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        if job.stopped is not None:
            raise job.stopped

    def _stop_when_time_is_up(self, job: _UnsentAndDeferredGroups[Any], account: RunBudgetForService) -> None:
        """Stop a job when time is up, even if the service asked for a longer pause."""
        try:
            account.budget.check_time()
        except BudgetExhausted as reached:
            job.stop(reached)

    async def _try_or_stop_loop(
        self, job: _UnsentAndDeferredGroups[Any], piece: SendGroup[Any], account: RunBudgetForService
    ) -> None:
        try:
            await self._try_once(job, piece, account)
        except Exception as error:
            if find_resource_shortage(error):  # which may have kept asyncio from waking up the tasks that wait for this
                asyncio.get_running_loop().call_exception_handler({"message": str(error), "exception": error})
            raise

    async def _try_once(
        self, job: _UnsentAndDeferredGroups[Any], piece: SendGroup[Any], account: RunBudgetForService
    ) -> None:
        timeout_s = self._timeouts_s[min(piece.tries, len(self._timeouts_s) - 1)]
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            if self._counts_requests:
                account.budget.count_request(account.service)
            async with asyncio.timeout(timeout_s):
                replies = await self._request(job, piece)
        except (BudgetExhausted, AccountBlocked) as why:
            job.stop(why)
        except BudgetFullyReserved:
            job.put_back(piece)
        except TimeoutError:
            self._try_again(job, piece, Retry(f"timeout: no answer within {timeout_s:g} s", split=True))
        except Retry as trouble:
            if advice := _find_tls_advice(trouble, self._was_answered):
                reason = str(trouble).removeprefix("unreachable: ")
                raise ServiceUnreachable(f"{self._name}: no secure connection: {reason}. {advice}") from trouble
            self._try_again(job, piece, trouble)
        else:
            self._was_answered = True
            self._lost_subjects[False].clear()
            self._lost_subjects[True].clear()
            latency_s = loop.time() - started
            self._limiter.note_success(latency_s)
            if piece.size is not None:
                piece.size.note_success(len(piece.items))
            job.finish(piece, [replace(reply, latency_s=latency_s) for reply in replies])
        finally:
            self._limiter.release(loop.time() - started)

    async def _request(self, job: _UnsentAndDeferredGroups[Any], piece: SendGroup[Any]) -> list[CallResponse]:
        """Send one request, and redact the token in its replies and errors."""
        if self._secrets is None:
            return await job.request(piece.items)
        try:
            replies = await job.request(piece.items)
        except (Retry, ServiceError) as error:
            error.args = (self._secrets.redact(str(error)),)
            raise
        hide = self._secrets.redact_json
        return [replace(reply, body=hide(reply.body), error=hide(reply.error)) for reply in replies]

    def _try_again(self, job: _UnsentAndDeferredGroups[Any], piece: SendGroup[Any], trouble: Retry) -> None:
        self._was_answered |= trouble.code != "unreachable"
        if trouble.is_overload:
            backoff_s = self._limits.backoff_s if trouble.code in _RATE_LIMIT_CODES else None
            pause_s = self._limiter.note_trouble(trouble.retry_after_s, backoff_s)
            if pause_s > 10 * SHORT_PAUSE_S:
                _log.warning("%s: pausing all requests for %.0f s (%s)", self._name, pause_s, trouble)
        if (trouble.retry_after_s or 0) > 10 * SHORT_PAUSE_S:
            _log.warning("%s: the service asked for a pause of %.0f s (%s)", self._name, trouble.retry_after_s, trouble)
        if (trouble.retry_after_s or 0) > MAX_PAUSE_S:
            reason = f"the service asked for a pause of {trouble.retry_after_s:.0f} s, over {MAX_PAUSE_S:.0f} s"
            self._give_up(job, piece, Retry(f"asked_to_wait: {reason}; {trouble}"))
        elif trouble.split and len(piece.items) > 1:
            job.split(piece)
        elif piece.tries + 1 >= self._limits.attempts or trouble.is_over_limit:
            self._give_up(job, piece, trouble)
        else:
            job.defer(piece, asyncio.get_running_loop().time() + self._compute_pause_s(piece.tries, trouble))

    def _give_up(self, job: _UnsentAndDeferredGroups[Any], piece: SendGroup[Any], trouble: Retry) -> None:
        """Deliver a failure; stop the whole run when probably no request would be answered."""
        job.finish(piece, [CallResponse(None, "failed", error=str(trouble), transient=True)] * len(piece.items))
        lost = self._lost_subjects[trouble.is_about_request]
        lost.add(self._find_subject(piece.items[0]) if self._find_subject else object())
        if not self._was_answered:
            raise ServiceUnreachable(
                f"{self._name}: cannot be reached: {str(trouble).removeprefix('unreachable: ')}{UNREACHABLE_ADVICE}"
            )
        if len(lost) >= max(_MAX_LOST_IN_ROW[trouble.is_about_request], 2 * self._limits.parallel):
            is_web_page = str(trouble).startswith("html_instead_of_json")
            advice = (
                "the address answers with web pages; check url in the world's file"
                if is_web_page
                else "run again later"
            )
            raise ServiceUnreachable(
                f"{self._name}: gave no useful response to {len(lost)} requests in a row, each tried up to"
                f" {self._limits.attempts} times; last problem: {str(trouble).rstrip('.')}. Answers so far are recorded; {advice}"
            )

    def _compute_pause_s(self, tries: int, trouble: Retry) -> float:
        """Return the seconds until the next try: Retry-After plus up to a tenth, or doubled backoff with jitter."""
        if trouble.retry_after_s:
            return trouble.retry_after_s * self._random.uniform(1.0, 1.1)
        backoff_s: float = self._limits.backoff_s * 2**tries * self._random.uniform(0.5, 1.5)
        return min(MAX_BACKOFF_S, backoff_s)


def _find_tls_advice(failure: Retry, was_answered: bool) -> str:
    """Return advice for a connection that no further try makes secure; empty for any other failure.

    OpenSSL names its errors differently from version to version; before the first answer, any of them is of the
    handshake.
    """
    for each in iterate_exception_chain(failure):
        if isinstance(each, ssl.SSLCertVerificationError):
            return (
                "The server's certificate is not valid: the service has to renew it, or the address or this machine's clock is "
                "wrong. If your own authority signs it, set REQUESTS_CA_BUNDLE and SSL_CERT_FILE to that authority's file (PEM)"
            )
        if isinstance(each, ssl.SSLError) and not isinstance(each, _TRANSIENT_TLS_ERRORS) and not was_answered:
            return "The server and this machine have no common version of TLS: check that the address is one for https"
    return ""


def run_in_sending_loop_and_deliver(
    name: str,
    work: Coroutine[Any, Any, None],
    arrived: SimpleQueue[list[tuple[Item, CallResponse]] | None],
    deliver: Callable[[Item, CallResponse], object],
) -> None:
    """Run a coroutine in the sending loop, calling `deliver` in this thread for everything that it queues, until it
    ends.

    Raises the errors of the coroutine and of `deliver`. Ctrl-C passes through at once; the coroutine is then cancelled.
    ServiceError when it was interrupted.
    """
    # requests may go out before this thread continues; cancel_all_sends, and a loop that ends, have to find them
    with _start_lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run_sending_loop, args=(loop,), name="factmill-sending", daemon=True).start()
            _loops.append(loop)
        future = asyncio.run_coroutine_threadsafe(work, _loops[0])
        _active_sends.add(future)
    future.add_done_callback(lambda _: arrived.put(None))
    try:
        while (pairs := arrived.get()) is not None:
            for item, reply in pairs:
                deliver(item, reply)
        future.result()
    except CancelledError:
        raise ServiceError(f"{name}: sending was interrupted") from None
    finally:
        future.cancel()
        _active_sends.discard(future)


class _SocketsOfOneThread:
    """Sockets that a function in a thread uses, shut down once nobody waits for the function."""

    def __init__(self) -> None:
        self._registered: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_shut_down = False

    def register(self, connected: socket.socket) -> None:
        """Register a socket to be shut down once nobody waits for the function; TimeoutError when that is already so."""
        with self._lock:
            if self._is_shut_down:
                raise TimeoutError("the time of this request is over")
            # a duplicate, since TLS detaches the descriptor from the object, and pools close it
            self._registered.append(socket.fromfd(connected.fileno(), socket.AF_INET, socket.SOCK_STREAM))

    def unregister_all(self) -> None:
        """Unregister all sockets, since other functions may use their connections."""
        with self._lock:
            for held in self._registered:
                held.close()
            self._registered.clear()

    def shut_down(self) -> None:
        """Shut all sockets down, which wakes threads that wait for them, and accept no more."""
        with self._lock:
            self._is_shut_down = True
            for held in self._registered:
                with held, suppress(OSError):  # the other side has closed it
                    held.shutdown(socket.SHUT_RDWR)


_current_sockets: ContextVar[_SocketsOfOneThread | None] = ContextVar("sockets", default=None)


def register_socket_to_shut_when_abandoned(connected: socket.socket) -> None:
    """Register a socket to be shut down once nobody waits for the function that `run_blocking_in_thread` runs in this thread.

    TimeoutError when that is already so.
    """
    if sockets := _current_sockets.get():
        sockets.register(connected)


def unregister_thread_sockets() -> None:
    """Unregister this thread's sockets: their responses are read, and other threads may use their connections."""
    if sockets := _current_sockets.get():
        sockets.unregister_all()


async def run_blocking_in_thread(function: Callable[..., Result], *args: Any) -> Result:
    """Run a blocking function in a thread of its own, and return its result.

    After a time-out or Ctrl-C the function's connections are shut down (`register_socket_to_shut_when_abandoned`), so that its thread stops
    reading and ends. The thread is a daemon: at exit the interpreter does not wait for one that resolves an address or
    connects, as it would for the threads of a pool.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    sockets, context = _SocketsOfOneThread(), copy_context()
    context.run(_current_sockets.set, sockets)
    work = partial(_run_here_and_set_future_outcome, partial(function, *args), loop, future)
    threading.Thread(target=context.run, args=(work,), name="factmill-request", daemon=True).start()
    try:
        return await future
    finally:
        sockets.shut_down()
        del future, work  # an error keeps this frame alive, and the frame would keep the body


def _run_here_and_set_future_outcome(
    function: Callable[[], Result], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result]
) -> None:
    """Run a function and pass its result or error to a future."""
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 (raised where the future is awaited)
        set_outcome = partial(_set_future_outcome_if_pending, future, future.set_exception, error)
    else:
        set_outcome = partial(_set_future_outcome_if_pending, future, future.set_result, result)
    with suppress(RuntimeError):  # the loop is closed, so nothing waits
        loop.call_soon_threadsafe(set_outcome)


def _set_future_outcome_if_pending(
    future: asyncio.Future[Result], set_outcome: Callable[[Any], None], outcome: Any
) -> None:
    if not future.done():
        set_outcome(outcome)


def cancel_all_sends() -> None:
    """Cancel every `send` of this process; each raises ServiceError in its own thread."""
    with _start_lock:
        under_way = list(_active_sends)
    for future in under_way:
        future.cancel()


_active_sends: set[Future[None]] = set()
_loops: list[asyncio.AbstractEventLoop] = []
_start_lock = threading.RLock()
"""Reentrant, since a signal handler may take it while its thread holds it."""


def _run_sending_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until memory or threads run out in it; every `send` then ends with ResourcesExhausted.

    asyncio only logs a callback lost that way, and whatever waits for the callback would wait forever.
    """
    short: list[str] = []

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error and (found := find_resource_shortage(error)):
            short.append(found)
            loop.stop()
        elif not short:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        loop.run_forever()
    except MemoryError as error:
        short.append(find_resource_shortage(error))
    with _start_lock:
        _loops.remove(loop)
        left = list(_active_sends)
    for future in left:
        with suppress(InvalidStateError):  # it has just ended
            future.set_exception(ResourcesExhausted(short[0]))
