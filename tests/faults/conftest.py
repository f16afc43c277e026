"""What every fault strikes, and what the client owes whatever happens.

A look-up changes nothing and may be repeated. A refund, a payment and a payout move money: each is
done once at most, and what the client says of it is true.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import attrs
import pytest
import trustme

from gateway_async import (
    BatchPolicy,
    BatchResult,
    GatewayClient,
    GatewayError,
    NotSentError,
    Outcome,
    OutcomeStatus,
    RetryPolicy,
)
from gateway_async.recovery.evidence import as_result
from gateway_async.sandbox import Sandbox
from tests.support.books import ERRORS, NOT_SENT, check_books, check_conserved, effects, statuses
from tests.support.clock import PATIENT
from tests.support.collaborators import Diary, Limiter
from tests.support.orders import client_of, direct_payment, payout_request, seeded
from tests.support.servers import Proxy

T = TypeVar("T")
Result = BatchResult[Any, Any]

ATTEMPTS = 3
SINGLES: dict[str, Callable[[int], Any]] = {
    "pay_direct": lambda number: direct_payment(f"P-{number}"),
    "payout": payout_request,
}
"""What is no batch: each is given what it makes of a number."""


@attrs.define
class Trial:
    """A sandbox, and one operation, done as often as the test wants, each time on new orders."""

    sandbox: Sandbox
    operation: str
    results: list[Result] = attrs.field(factory=list)
    diary: Diary = attrs.field(factory=Diary)

    @property
    def reads(self) -> bool:
        return self.operation == "query"

    def by_kind(self, *, read: T, money: T) -> T:
        return read if self.reads else money

    def orders(self, count: int = 3) -> list[Any]:
        return seeded(self.sandbox, count, self.operation)

    def client(self, base_url: str | None = None, **settings: Any) -> GatewayClient:
        """Return a client that repeats without pauses, for whatever listens at `base_url`."""
        chosen = {
            "retry": RetryPolicy(attempts=ATTEMPTS, first_pause_seconds=0),
            "timeouts": PATIENT,
            "policy": BatchPolicy(concurrency=1),
            "telemetry": self.diary,
            **settings,
        }
        return client_of(self.sandbox, base_url, **chosen)

    async def run(self, base_url: str | None = None, **settings: Any) -> Result:
        async with self.client(base_url, **settings) as gateway:
            return await self.run_with(gateway)

    async def run_with(self, gateway: GatewayClient) -> Result:
        if self.operation in SINGLES:
            result = await self._call(gateway, SINGLES[self.operation](len(self.results)))
        else:
            orders = self.orders()
            result = await gateway.batch(self.operation, orders)
            check_conserved(result, orders)
        for outcome in result:
            assert isinstance(outcome.error, ERRORS[outcome.status])
            if self.reads:
                found = {record.transaction_id for record in outcome.record or ()}
                assert found <= {outcome.order.value}
        self.results.append(result)
        self.check()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0, "a time limit left its cancellation behind"
        return result

    async def _call(self, gateway: GatewayClient, order: Any) -> Result:
        """Make a payment or payout, and return the result that a batch of it would have."""
        error: GatewayError | None = None
        try:
            await getattr(gateway, self.operation)(order)
        except GatewayError as failure:
            error = failure
        status = next(status for status, kinds in ERRORS.items() if isinstance(error, kinds))
        (_, end) = self.diary.requests[-1]
        assert end is not None
        result = as_result([Outcome(order=order, index=0, status=status, error=error)])
        return attrs.evolve(result, requests=end.sent, retries=end.tries - 1)

    @property
    def requests(self) -> int:
        return self.sandbox.requests[self.operation]

    @property
    def effects(self) -> list[int]:
        """How often each order of the last result was carried out."""
        return effects(self.sandbox, [outcome.order for outcome in self.results[-1]])

    def check(self) -> None:
        """What was said is true, and nothing was done twice, now that more time has passed."""
        if not self.reads:
            for result in self.results:
                check_books(self.sandbox, result)


def status_of(result: Result) -> OutcomeStatus:
    (status,) = set(statuses(result))
    return status


def error_of(result: Result) -> GatewayError:
    error = result[0].error
    assert error is not None
    return error


def check_not_sent(
    trial: Trial, result: Result, attempts: Limiter, kind: type[GatewayError] = NotSentError
) -> None:
    """Nothing left this machine: it was tried as often as that allows, and is said so."""
    assert status_of(result) is NOT_SENT
    assert type(error_of(result)) is kind
    assert attempts.entered == (ATTEMPTS if kind is NotSentError else 1)
    assert trial.requests == 0
    assert (result.requests, result.retries) == (0, attempts.entered - 1)


@pytest.fixture
async def proxy(sandbox: Sandbox) -> AsyncIterator[Proxy]:
    async with Proxy(sandbox.base_url) as proxy:
        yield proxy


@pytest.fixture(params=["query", "refund", "pay_direct", "payout"])
def trial(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Trial]:
    """A look-up, refund, payment or payout; what the client said must be true at the end."""
    trial = Trial(sandbox, request.param)
    yield trial
    trial.check()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """An authority of certificates that nobody trusts by itself."""
    return trustme.CA()
