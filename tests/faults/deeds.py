"""The four things that every fault strikes, and what the client owes its user whatever happens.

A look-up changes nothing and may be repeated. A refund, a payment and a payout move money: each
may have one effect in the ledger at most, and what the client says of it must be true.
"""

import abc
import itertools
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs
import pytest

from gateway_async import (
    Batch,
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
from tests.orders import client_of, direct_payment, orders_for, payout_request
from tests.support.clock import PATIENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from gateway_async.sandbox import Sandbox

T = TypeVar("T")

SUCCEEDED, DECLINED = OutcomeStatus.SUCCEEDED, OutcomeStatus.DECLINED
UNKNOWN, NOT_SENT, ABSENT = OutcomeStatus.UNKNOWN, OutcomeStatus.NOT_SENT, OutcomeStatus.ABSENT

ATTEMPTS = 3
_NUMBERS = itertools.count()
_FATES: tuple[tuple[type[GatewayError], OutcomeStatus], ...] = (
    (NotSentError, NOT_SENT),
    (ConfigurationError, NOT_SENT),
    (RejectedError, DECLINED),
    (OutcomeUnknownError, UNKNOWN),
)


@attrs.frozen
class Told:
    """What the client said of each order, in input order."""

    statuses: list[OutcomeStatus]
    errors: list[GatewayError | None]
    result: BatchResult[Any, Any] | None = None

    @property
    def status(self) -> OutcomeStatus:
        assert len(set(self.statuses)) == 1, self.statuses
        return self.statuses[0]

    @property
    def error(self) -> GatewayError:
        assert self.errors[0] is not None
        return self.errors[0]


class Deed(abc.ABC):
    """One of the four, of orders that nobody used before."""

    operation: ClassVar[str]
    is_read: ClassVar[bool] = False
    size: ClassVar[int] = 1

    def __init__(self, sandbox: "Sandbox", *, size: int | None = None) -> None:
        assert size in (None, 1), "a single one has no size"
        self.sandbox = sandbox

    @abc.abstractmethod
    async def do(self, gateway: GatewayClient) -> Told:
        """Do it, and say what was told of it."""

    @abc.abstractmethod
    def effects(self) -> list[int]:
        """Return how often each order was really carried out."""

    def check(self, told: Told) -> None:
        """What was told is true, and nothing was done twice."""
        effects = self.effects()
        assert len(told.statuses) == len(effects)
        assert all(count <= 1 for count in effects), effects
        for status, count in zip(told.statuses, effects, strict=True):
            assert status is not SUCCEEDED or count == 1, "succeeded without an effect"
            assert status not in (DECLINED, NOT_SENT) or not count, f"{status} with an effect"


class BatchDeed(Deed):
    size = 3
    seeded_as: ClassVar[str]

    def __init__(self, sandbox: "Sandbox", *, size: int | None = None) -> None:
        super().__init__(sandbox)
        self.seeded = sandbox.seed(size or self.size, status=self.seeded_as)
        self.orders: list[Any] = []

    def batch(self, gateway: GatewayClient) -> Batch[Any, Any]:
        batch: Batch[Any, Any] = getattr(gateway, self.operation)(self.orders)
        return batch

    async def do(self, gateway: GatewayClient) -> Told:
        result = await self.batch(gateway)
        assert [outcome.order for outcome in result] == self.orders
        assert [outcome.index for outcome in result] == list(range(len(self.orders)))
        statuses = [outcome.status for outcome in result]
        assert {s: n for s, n in result.counts.items() if n} == {
            status: statuses.count(status) for status in statuses
        }
        for outcome in result:
            assert outcome.status is _status(outcome.error, outcome.status)
        return Told(statuses, [outcome.error for outcome in result], result)


class LookUp(BatchDeed):
    operation = "query"
    is_read = True
    seeded_as = "authorised"

    def __init__(self, sandbox: "Sandbox", *, size: int | None = None) -> None:
        super().__init__(sandbox, size=size)
        self.orders = [OrderRef(order_no=order.order_no) for order in self.seeded]

    def effects(self) -> list[int]:
        return [1 for _ in self.orders]

    def check(self, told: Told) -> None:
        for outcome, order in zip(told.result or (), self.seeded, strict=True):
            assert outcome.status is not DECLINED
            if outcome.status is SUCCEEDED:
                records = outcome.record or ()
                assert {record.order_no for record in records} == {order.order_no}
                assert {record.transaction_id for record in records} == {order.transaction_id}


class Refund(BatchDeed):
    operation = "refund"
    seeded_as = "captured"
    reason = "returned"

    def __init__(self, sandbox: "Sandbox", *, size: int | None = None) -> None:
        super().__init__(sandbox, size=size)
        changes = {"refund_amount": "4.00", "refund_reason": self.reason}
        self.orders = orders_for("refund", self.seeded, **changes)

    def effects(self) -> list[int]:
        ledger = self.sandbox.ledger
        return [ledger.effects(self.operation, order.transaction_id) for order in self.orders]


class PayDirect(Deed):
    operation = "pay_direct"

    def __init__(self, sandbox: "Sandbox", *, size: int | None = None) -> None:
        super().__init__(sandbox, size=size)
        self.payment = direct_payment(f"P-{len(sandbox.ledger)}")

    async def do(self, gateway: GatewayClient) -> Told:
        told, result = await _told(gateway.pay_direct(self.payment))
        assert result is None or (result.order_status, result.order_no) == (
            "1",
            self.payment.order_no,
        )
        return told

    def effects(self) -> list[int]:
        return [len(self.sandbox.ledger.payments_of(self.payment.order_no))]


class PayOut(Deed):
    operation = "payout"

    def __init__(self, sandbox: "Sandbox", *, size: int | None = None) -> None:
        super().__init__(sandbox, size=size)
        self.request = payout_request(next(_NUMBERS))

    async def do(self, gateway: GatewayClient) -> Told:
        told, result = await _told(gateway.payout(self.request))
        assert result is None or (result.status, result.request_id) == (
            "COMPLETED",
            self.request.request_id,
        )
        return told

    def effects(self) -> list[int]:
        return [len(self.sandbox.ledger.payouts_of(self.request.request_id))]


DEEDS: dict[str, type[Deed]] = {
    deed.operation: deed for deed in (LookUp, Refund, PayDirect, PayOut)
}


def with_deeds(name: str, rows: "Iterable[Any]") -> pytest.MarkDecorator:
    """Try each row with the look-up and with one of those that move money, each in its turn."""
    money = itertools.cycle(kind for kind, deed in DEEDS.items() if not deed.is_read)
    tried = [(deed, row) for row in rows for deed in (LookUp.operation, next(money))]
    return pytest.mark.parametrize(("trial", name), tried, indirect=["trial"])


def _status(error: GatewayError | None, without: OutcomeStatus) -> OutcomeStatus:
    """Return what an error means; an error of no such kind is a defect."""
    if error is None:
        assert without in (SUCCEEDED, ABSENT)
        return without
    return next(status for kind, status in _FATES if isinstance(error, kind))


async def _told(call: "Awaitable[T]") -> tuple[Told, T | None]:
    try:
        return Told([SUCCEEDED], [None]), await call
    except GatewayError as error:
        return Told([_status(error, UNKNOWN)], [error]), None


class Attempts:
    """A limiter that counts attempts, and may do something before the second."""

    def __init__(self, *, before_second: "Callable[[], Awaitable[object]] | None" = None) -> None:
        self.count = 0
        self._before_second = before_second

    async def __aenter__(self) -> None:
        self.count += 1
        if self.count == 2 and self._before_second is not None:
            await self._before_second()

    async def __aexit__(self, *_: object) -> None:
        pass


def client(sandbox: "Sandbox", base_url: str | None = None, **settings: Any) -> GatewayClient:
    """Return a client that repeats without pauses, for whatever listens at `base_url`."""
    chosen = {
        "retry": RetryPolicy(attempts=ATTEMPTS, first_pause_seconds=0),
        "timeouts": PATIENT,
        "policy": BatchPolicy(concurrency=1),
        **settings,
    }
    return client_of(sandbox, base_url, **chosen)


@attrs.define
class Trial:
    """A sandbox and one of the four deeds, done as often as the test wants, each on new orders."""

    sandbox: "Sandbox"
    kind: type[Deed]
    done: list[tuple[Deed, Told]] = attrs.field(factory=list)

    async def run(self, base_url: str | None = None, **settings: Any) -> Told:
        async with self.client(base_url, **settings) as gateway:
            return await self.run_with(gateway)

    def client(self, base_url: str | None = None, **settings: Any) -> GatewayClient:
        return client(self.sandbox, base_url, **settings)

    async def run_with(self, gateway: GatewayClient, *, size: int | None = None) -> Told:
        deed = self.kind(self.sandbox, size=size)
        told = await deed.do(gateway)
        self.done.append((deed, told))
        deed.check(told)
        return told

    def by_kind(self, *, read: T, money: T) -> T:
        """Return what is expected of a look-up, or of what moves money."""
        return read if self.kind.is_read else money

    @property
    def requests(self) -> int:
        return self.sandbox.requests[self.kind.operation]

    @property
    def effects(self) -> list[int]:
        """How often each order of the last deed was carried out."""
        return self.done[-1][0].effects()

    def check(self) -> None:
        for deed, told in self.done:
            deed.check(told)
