"""A look-up and a refund, which every fault strikes, and what the client owes whatever happens.

A look-up changes nothing and may be repeated. A refund moves money: it is done once at most, and
what the client says of it is true.
"""

import asyncio
from typing import Any, TypeVar

import attrs

from gateway_async import (
    BatchPolicy,
    BatchResult,
    GatewayClient,
    GatewayError,
    NotSentError,
    OutcomeStatus,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox
from tests.orders import client_of, seeded
from tests.support.books import ERRORS, NOT_SENT, check_books, check_conserved, effects, statuses
from tests.support.clock import PATIENT
from tests.support.collaborators import Limiter

T = TypeVar("T")
Result = BatchResult[Any, Any]

ATTEMPTS = 3


@attrs.define
class Trial:
    """A sandbox, and one of the two, done as often as the test wants, each time on new orders."""

    sandbox: Sandbox
    operation: str
    results: list[Result] = attrs.field(factory=list)

    @property
    def reads(self) -> bool:
        return self.operation == "query"

    def by_kind(self, *, read: T, money: T) -> T:
        return read if self.reads else money

    def orders(self, count: int = 3, **changes: Any) -> list[Any]:
        return seeded(self.sandbox, count, self.operation, **changes)

    def client(self, base_url: str | None = None, **settings: Any) -> GatewayClient:
        """Return a client that repeats without pauses, for whatever listens at `base_url`."""
        chosen = {
            "retry": RetryPolicy(attempts=ATTEMPTS, first_pause_seconds=0),
            "timeouts": PATIENT,
            "policy": BatchPolicy(concurrency=1),
            **settings,
        }
        return client_of(self.sandbox, base_url, **chosen)

    async def run(self, base_url: str | None = None, **settings: Any) -> Result:
        async with self.client(base_url, **settings) as gateway:
            return await self.run_with(gateway)

    async def run_with(self, gateway: GatewayClient) -> Result:
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

    @property
    def requests(self) -> int:
        return self.sandbox.requests[self.operation]

    @property
    def effects(self) -> list[int]:
        """How often each order of the last refund was carried out."""
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
