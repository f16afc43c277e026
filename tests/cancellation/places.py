"""Where calls are cancelled: over loopback, or in memory; and what they did there."""

import asyncio
import contextlib
import itertools
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    Credentials,
    DirectPayment,
    GatewayClient,
    HmacSigner,
    OrderRef,
    PayoutRequest,
    RecoveryPolicy,
    RefundOrder,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox
from tests.memory import MemoryTransport, client_over

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

ORDERS = 6
SETTINGS: dict[str, Any] = {
    "policy": BatchPolicy(chunk_size=2, concurrency=2),
    "retry": RetryPolicy(first_pause_seconds=0, max_pause_seconds=0),
}


class Place(Protocol):
    """A gateway and its books."""

    def client(self, **settings: Any) -> "AbstractAsyncContextManager[GatewayClient]":
        """Make a client, closed at the end."""
        ...

    def refunds(self) -> list[RefundOrder]:
        """Make orders that can be refunded."""
        ...

    def effects(self, order: RefundOrder) -> int:
        """Say how often an order was refunded."""
        ...

    def payments(self, payment: DirectPayment) -> int:
        """Say how often a payment was made."""
        ...

    def payouts(self, request: PayoutRequest) -> int:
        """Say how often a payout was made."""
        ...


async def asked(sandbox: Sandbox, times: int = 1) -> None:
    """Wait until so many requests came."""
    while sandbox.requests.total() < times:  # noqa: ASYNC110  # the sandbox has no event for it
        await asyncio.sleep(0)


class Loopback:
    """The sandbox, over HTTP."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def client(self, **settings: Any) -> GatewayClient:
        credentials = Credentials(
            merchant_id="M1", account_id="A1", signer=HmacSigner(self.sandbox.secret)
        )
        return GatewayClient(self.sandbox.base_url, credentials, **{**SETTINGS, **settings})

    def refunds(self) -> list[RefundOrder]:
        return [
            RefundOrder(
                transaction_id=order.transaction_id,
                order_no=order.order_no,
                currency=order.currency,
                amount=order.amount,
                refund_amount=Decimal(1),
            )
            for order in self.sandbox.seed(ORDERS, status="captured")
        ]

    def effects(self, order: RefundOrder) -> int:
        return self.sandbox.ledger.effects("refund", order.transaction_id)

    def payments(self, payment: DirectPayment) -> int:
        return len(self.sandbox.ledger.payments_of(payment.order_no))

    def payouts(self, request: PayoutRequest) -> int:
        return len(self.sandbox.ledger.payouts_of(request.request_id))


class InMemory:
    """A gateway that takes several turns of the loop for everything, and no time."""

    def __init__(self) -> None:
        self.gateway = MemoryTransport(steps=2)
        self._numbers = itertools.count()

    def client(self, **settings: Any) -> GatewayClient:
        return client_over(self.gateway, **{**SETTINGS, **settings})

    def refunds(self) -> list[RefundOrder]:
        return [
            RefundOrder(
                transaction_id=f"T{number}",
                order_no=f"N{number}",
                currency="EUR",
                amount=Decimal(10),
                refund_amount=Decimal(1),
            )
            for number in itertools.islice(self._numbers, ORDERS)
        ]

    def effects(self, order: RefundOrder) -> int:
        return self.gateway.effects[order.transaction_id]

    def payments(self, payment: DirectPayment) -> int:
        return self.gateway.effects[payment.order_no]

    def payouts(self, request: PayoutRequest) -> int:
        return self.gateway.effects[request.request_id]


@contextlib.asynccontextmanager
async def loopback() -> "AsyncIterator[Place]":
    async with Sandbox() as sandbox:
        yield Loopback(sandbox)


@contextlib.asynccontextmanager
async def in_memory() -> "AsyncIterator[Place]":
    yield InMemory()


PLACES: "list[Callable[[], AbstractAsyncContextManager[Place]]]" = [loopback, in_memory]


def payment(number: int) -> DirectPayment:
    return DirectPayment(
        order_no=f"P-{number}",
        currency="EUR",
        amount=Decimal("12.30"),
        card="4111111111111111",
        expiration_month="11",
        expiration_year="2031",
        security_code="987",
    )


def payout(number: int) -> PayoutRequest:
    return PayoutRequest(
        request_id=f"6f0d3c5e-1f83-4cbb-9c1d-{number:012x}",
        payment_amount=Decimal(1),
        payment_currency="USD",
        beneficiary=Beneficiary(bank_details=BankDetails(account_number="1")),
    )


def refs(orders: list[RefundOrder]) -> list[OrderRef]:
    return [OrderRef(transaction_id=order.transaction_id) for order in orders]


BASELINE = RecoveryPolicy(record_baseline=True, settle_seconds=0, hold_alike_hours=None)
