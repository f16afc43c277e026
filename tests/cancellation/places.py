"""A sandbox over loopback: what is cancelled there, and what it did."""

import asyncio
from typing import Any

from gateway_async import (
    BatchPolicy,
    DirectPayment,
    GatewayClient,
    PayoutRequest,
    RefundOrder,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox
from tests.orders import client_of, direct_payment, orders_for

ORDERS = 6
SETTINGS: dict[str, Any] = {
    "policy": BatchPolicy(chunk_size=2, concurrency=2),
    "retry": RetryPolicy(first_pause_seconds=0, max_pause_seconds=0),
}


async def asked(sandbox: Sandbox, times: int = 1) -> None:
    """Wait until so many requests came."""
    while sandbox.requests.total() < times:  # noqa: ASYNC110  # the sandbox has no event for it
        await asyncio.sleep(0)


def payment(number: int) -> DirectPayment:
    return direct_payment(f"P-{number}")


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
