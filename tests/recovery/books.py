"""Refunds to recover, and what the sandbox's books must say of them."""

from collections.abc import Callable
from typing import Any

import attrs

from gateway_async import (
    BatchResult,
    GatewayClient,
    OutcomeStatus,
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

SUCCEEDED, UNKNOWN, NOT_SENT = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.UNKNOWN,
    OutcomeStatus.NOT_SENT,
)

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


def statuses(result: BatchResult[Any, Any]) -> list[OutcomeStatus]:
    return [outcome.status for outcome in result]


def assert_books_agree(sandbox: Sandbox, result: BatchResult[Any, Any]) -> None:
    for outcome in result:
        effects = sandbox.ledger.effects("refund", outcome.order.transaction_id)
        assert effects <= 1
        if outcome.status is SUCCEEDED:
            assert effects == 1
        if outcome.status is NOT_SENT:
            assert effects == 0
