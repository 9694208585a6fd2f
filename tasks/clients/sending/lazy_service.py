"""A service that is opened at its first call and spends from its run's budget."""

import threading
from collections.abc import Callable, Sequence

from factmill.tasks.clients.sending.budget import Budget, ServiceBudgetAccount, charge_requests_to_account
from factmill.tasks.core.calls.call import Call, CallResponse, CallService, ResponseHandler


class LazyBudgetedService:
    """A service that is opened at the first call."""

    def __init__(
        self, identity: str, is_outside: bool, open_service: Callable[[], CallService], *, computes: bool = False
    ) -> None:
        """`computes`: answers are computed locally, slowly and free of charge, so they stop between two replies when
        the budget is reached; requests to other services are waited for."""
        self.identity = identity
        self._computes = computes
        self.budget = Budget()
        """Budget that it spends from; replaced by the run's."""
        self.is_outside = is_outside
        self._open = open_service
        self._service: CallService | None = None
        self._lock = threading.Lock()

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer every call (see core.calls.call.Service); BudgetExhausted when the run may spend no more."""
        self.budget.check()
        with self._lock:
            if self._service is None:
                self._service = self._open()
        with charge_requests_to_account(ServiceBudgetAccount(self.identity, self.budget)):
            self._service.send(calls, self._check_after_each(deliver) if self._computes else deliver)

    def _check_after_each(self, deliver: ResponseHandler) -> ResponseHandler:
        def deliver_and_check(call: Call, reply: CallResponse) -> None:
            deliver(call, reply)
            self.budget.check()

        return deliver_and_check

    def notes(self) -> list[str]:
        """Return messages on what was learnt of the service, where it learns (a chat model)."""
        noting = getattr(self._service, "notes", None)
        return noting() if noting else []
