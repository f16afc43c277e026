"""The four things that every fault strikes, and what the client owes its user whatever happens.

A look-up changes nothing and may be repeated. A refund, a payment and a payout move money: each
may have one effect in the ledger at most, and what the client says of it must be true.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    BatchResult,
    ConfigurationError,
    GatewayClient,
    GatewayError,
    NotSentError,
    OrderRef,
    OutcomeStatus,
    OutcomeUnknownError,
    RejectedError,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox
from tests.orders import client_of, direct_payment, payout_request, seeded
from tests.support.clock import PATIENT
from tests.support.collaborators import Limiter

T = TypeVar("T")

SUCCEEDED, DECLINED = OutcomeStatus.SUCCEEDED, OutcomeStatus.DECLINED
UNKNOWN, NOT_SENT, ABSENT = OutcomeStatus.UNKNOWN, OutcomeStatus.NOT_SENT, OutcomeStatus.ABSENT

ATTEMPTS = 3
_NUMBERS = itertools.count()
_STATUSES: dict[type[GatewayError], OutcomeStatus] = {
    NotSentError: NOT_SENT,
    ConfigurationError: NOT_SENT,
    RejectedError: DECLINED,
    OutcomeUnknownError: UNKNOWN,
}


@attrs.frozen
class Deed:
    """One of the four.

    Attributes:
        make: Makes orders that were not used before, so many of them.
        effects: How often the ledger has carried one out.
        success: The field of a single answer that says so, and its text; none for a batch.
    """

    make: Callable[[Sandbox, int], list[Any]]
    effects: Callable[[Sandbox, Any], int]
    success: tuple[str, str] | None = None


def references(sandbox: Sandbox, size: int) -> list[Any]:
    return [OrderRef(order_no=order.order_no) for order in sandbox.seed(size)]


def refunds(sandbox: Sandbox, size: int, reason: str = "returned") -> list[Any]:
    return seeded(sandbox, size, refund_amount="4.00", refund_reason=reason)


DEEDS = {
    "query": Deed(references, lambda *_: 1),
    "refund": Deed(
        refunds, lambda sandbox, order: sandbox.ledger.effects("refund", order.transaction_id)
    ),
    "pay_direct": Deed(
        lambda sandbox, _: [direct_payment(f"P-{len(sandbox.ledger)}")],
        lambda sandbox, payment: len(sandbox.ledger.payments_of(payment.order_no)),
        ("order_status", "1"),
    ),
    "payout": Deed(
        lambda *_: [payout_request(next(_NUMBERS))],
        lambda sandbox, payout: len(sandbox.ledger.payouts_of(payout.request_id)),
        ("status", "COMPLETED"),
    ),
}


def with_deeds(name: str, rows: Iterable[Any]) -> pytest.MarkDecorator:
    """Try each row with the look-up and with one of those that move money, each in its turn."""
    money = itertools.cycle(name for name in DEEDS if name != "query")
    tried = [(deed, row) for row in rows for deed in ("query", next(money))]
    return pytest.mark.parametrize(("trial", name), tried, indirect=["trial"])


@attrs.frozen
class Told:
    """What the client said of each order, in input order."""

    statuses: list[OutcomeStatus]
    errors: list[GatewayError | None]
    result: BatchResult[Any, Any] | None = None

    @property
    def status(self) -> OutcomeStatus:
        (status,) = set(self.statuses)
        return status

    @property
    def error(self) -> GatewayError:
        assert self.errors[0] is not None
        return self.errors[0]


@attrs.define
class Trial:
    """A sandbox and one of the four deeds, done as often as the test wants, each on new orders."""

    sandbox: Sandbox
    operation: str
    done: list[tuple[list[Any], Told]] = attrs.field(factory=list)

    @property
    def reads(self) -> bool:
        return self.operation == "query"

    def by_kind(self, *, read: T, money: T) -> T:
        """Return what is expected of a look-up, or of what moves money."""
        return read if self.reads else money

    def client(self, base_url: str | None = None, **settings: Any) -> GatewayClient:
        """Return a client that repeats without pauses, for whatever listens at `base_url`."""
        chosen = {
            "retry": RetryPolicy(attempts=ATTEMPTS, first_pause_seconds=0),
            "timeouts": PATIENT,
            "policy": BatchPolicy(concurrency=1),
            **settings,
        }
        return client_of(self.sandbox, base_url, **chosen)

    async def run(self, base_url: str | None = None, **settings: Any) -> Told:
        async with self.client(base_url, **settings) as gateway:
            return await self.run_with(gateway)

    async def run_with(self, gateway: GatewayClient, orders: list[Any] | None = None) -> Told:
        deed = DEEDS[self.operation]
        orders = orders or deed.make(self.sandbox, 1 if deed.success else 3)
        call = getattr(gateway, self.operation)
        told = await (_single(call(*orders), *deed.success) if deed.success else _all(call, orders))
        self.done.append((orders, told))
        self.check()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0, "a time limit left its cancellation behind"
        return told

    @property
    def requests(self) -> int:
        return self.sandbox.requests[self.operation]

    @property
    def effects(self) -> list[int]:
        """How often each order of the last deed was carried out."""
        return self._effects(self.done[-1][0])

    def _effects(self, orders: list[Any]) -> list[int]:
        return [DEEDS[self.operation].effects(self.sandbox, order) for order in orders]

    def check(self) -> None:
        """What was told is true, and nothing was done twice."""
        for orders, told in self.done:
            for status, count in zip(told.statuses, self._effects(orders), strict=True):
                assert count <= 1
                assert status is not SUCCEEDED or count == 1, "succeeded without an effect"
                assert status not in (DECLINED, NOT_SENT) or not count or self.reads
                assert status is not DECLINED or not self.reads


async def _single(call: Awaitable[Any], field: str, text: str) -> Told:
    try:
        answer = await call
    except GatewayError as error:
        return Told([_status_of(error)], [error])
    assert getattr(answer, field) == text
    return Told([SUCCEEDED], [None])


async def _all(call: Callable[[list[Any]], Awaitable[BatchResult[Any, Any]]], orders: Any) -> Told:
    result = await call(orders)
    assert [(each.index, each.order) for each in result] == [*enumerate(orders)]
    statuses = [each.status for each in result]
    assert all(count == statuses.count(status) for status, count in result.counts.items())
    for each in result:
        if each.error is not None:
            assert each.status is _status_of(each.error)
            continue
        assert each.status in (SUCCEEDED, ABSENT)
        if isinstance(each.order, OrderRef):
            assert {record.order_no for record in each.record or ()} <= {each.order.value}
    return Told(statuses, [each.error for each in result], result)


def _status_of(error: GatewayError) -> OutcomeStatus:
    """Return what an error means; an error of no such kind is a defect."""
    return next(status for kind, status in _STATUSES.items() if isinstance(error, kind))


def check_not_sent(
    trial: Trial, told: Told, attempts: Limiter, kind: type[GatewayError] = NotSentError
) -> None:
    """Nothing left this machine: it was tried as often as that allows, and is said so."""
    assert told.status is NOT_SENT
    assert type(told.error) is kind
    assert attempts.entered == (ATTEMPTS if kind is NotSentError else 1)
    assert trial.requests == 0
    if told.result is not None:
        assert (told.result.requests, told.result.retries) == (0, attempts.entered - 1)
