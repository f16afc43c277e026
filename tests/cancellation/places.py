"""Where calls are cancelled: over loopback, or in memory; and what they did there."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from gateway_async import (
    BatchPolicy,
    DirectPayment,
    GatewayClient,
    OrderRef,
    PayoutRequest,
    RecoveryPolicy,
    RefundOrder,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox
from tests.memory import MemoryTransport, client_over
from tests.orders import client_of, direct_payment, made_up, orders_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

ORDERS = 6
SETTINGS: dict[str, Any] = {
    "policy": BatchPolicy(chunk_size=2, concurrency=2),
    "retry": RetryPolicy(first_pause_seconds=0, max_pause_seconds=0),
}


async def asked(sandbox: Sandbox, times: int = 1) -> None:
    """Wait until so many requests came."""
    while sandbox.requests.total() < times:  # noqa: ASYNC110  # the sandbox has no event for it
        await asyncio.sleep(0)


class Loopback:
    """The sandbox, over HTTP."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def client(self, **settings: Any) -> GatewayClient:
        return client_of(self.sandbox, **{**SETTINGS, **settings})

    def refunds(self) -> list[RefundOrder]:
        return orders_for("refund", self.sandbox.seed(ORDERS, status="captured"))

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
        self._made = 0

    def client(self, **settings: Any) -> GatewayClient:
        return client_over(self.gateway, **{**SETTINGS, **settings})

    def refunds(self) -> list[RefundOrder]:
        self._made += ORDERS
        return orders_for("refund", made_up(ORDERS, self._made))

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


Place = Loopback | InMemory
PLACES: "list[Callable[[], AbstractAsyncContextManager[Place]]]" = [loopback, in_memory]


def payment(number: int) -> DirectPayment:
    return direct_payment(f"P-{number}")


def refs(orders: list[RefundOrder]) -> list[OrderRef]:
    return [OrderRef(transaction_id=order.transaction_id) for order in orders]


BASELINE = RecoveryPolicy(record_baseline=True, settle_seconds=0, hold_alike_hours=None)
