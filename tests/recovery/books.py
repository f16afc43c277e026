"""Refunds to recover."""

from collections.abc import Iterator
from typing import Any

import attrs

from gateway_async import BatchResult, GatewayClient, RecoveryPolicy, RefundOrder, RefundRecord
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import ResetBeforeEffect
from tests.orders import seeded

REFERENCES = RecoveryPolicy(settle_seconds=0, record_baseline=True)
AGAIN = attrs.evolve(REFERENCES, hold_alike_hours=None)
MARKER = RecoveryPolicy(settle_seconds=0, refund_evidence="marker")


async def lost(sandbox: Sandbox, gateway: GatewayClient) -> BatchResult[RefundOrder, RefundRecord]:
    """Refund six orders, two of which the gateway never sees and does not answer."""
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    return await gateway.refund(seeded(sandbox))


def losing(sandbox: Sandbox, operation: str, first: Any, *rest: Any) -> Iterator[Any]:
    """Yield orders one by one; the gateway never sees those behind the first."""
    yield first
    sandbox.faults.add(operation, ResetBeforeEffect(times=len(rest)))
    yield from rest
