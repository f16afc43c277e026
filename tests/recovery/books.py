"""Refunds to recover."""

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from gateway_async import (
    BatchResult,
    GatewayClient,
    RecoveryPolicy,
    RefundOrder,
    RefundRecord,
)
from gateway_async.sandbox import Sandbox, Transaction
from gateway_async.sandbox.faults import ResetBeforeEffect
from tests.orders import orders_for

REFERENCES = RecoveryPolicy(settle_seconds=0, record_baseline=True)
AGAIN = attrs.evolve(REFERENCES, hold_alike_hours=None)
NO_BASELINE = RecoveryPolicy(settle_seconds=0)
MARKER = RecoveryPolicy(settle_seconds=0, refund_evidence="marker")
EVIDENCE = [REFERENCES, MARKER]

MakeClient = Callable[..., GatewayClient]


def refund_of(seeded: Transaction, amount: str = "1.00", reason: str = "torn") -> RefundOrder:
    order: RefundOrder
    (order,) = orders_for("refund", [seeded], refund_amount=amount, refund_reason=reason)
    return order


def refunds(sandbox: Sandbox, count: int = 6) -> list[RefundOrder]:
    return [refund_of(seeded) for seeded in sandbox.seed(count, status="captured")]


async def lost(sandbox: Sandbox, gateway: GatewayClient) -> BatchResult[RefundOrder, RefundRecord]:
    """Refund six orders, two of which the gateway never sees and does not answer."""
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    return await gateway.refund(refunds(sandbox))


def losing(sandbox: Sandbox, operation: str, first: Any, *rest: Any) -> Iterator[Any]:
    """Yield orders one by one; the gateway never sees those behind the first."""
    yield first
    sandbox.faults.add(operation, ResetBeforeEffect(times=len(rest)))
    yield from rest
