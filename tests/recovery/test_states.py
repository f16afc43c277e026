"""Captures and cancels, settled by the states that the dialect gives a meaning."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    CancelOrder,
    CaptureOrder,
    Dialect,
    OutcomeStatus,
    PaymentState,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Fault, ResetBeforeEffect
from tests.recovery.books import NOT_SENT, SUCCEEDED, UNKNOWN, MakeClient, statuses

STATES = Dialect(
    payment_states={
        "4100": PaymentState.AUTHORISED,
        "3000": PaymentState.CAPTURED,
        "4200": PaymentState.CANCELLED,
    }
)


@pytest.mark.parametrize(
    ("operation", "order_class"), [("capture", CaptureOrder), ("cancel", CancelOrder)]
)
@pytest.mark.parametrize(
    ("fault", "expected"), [(DropReply(times=1), SUCCEEDED), (ResetBeforeEffect(times=1), NOT_SENT)]
)
async def test_captures_and_cancels_are_settled_by_the_states_of_the_dialect(
    sandbox: Sandbox,
    client: MakeClient,
    operation: str,
    order_class: Any,
    fault: Fault,
    expected: OutcomeStatus,
) -> None:
    gateway = client(dialect=STATES)
    orders = [
        order_class(
            transaction_id=seeded.transaction_id,
            order_no=seeded.order_no,
            currency=seeded.currency,
            amount=seeded.amount,
        )
        for seeded in sandbox.seed(4, status="authorised")
    ]
    sandbox.faults.add(operation, fault)
    result = await getattr(gateway, operation)(orders)
    assert len(result.unknown) == 2

    recovered = await gateway.recover(result)

    assert recovered.counts[UNKNOWN] == 0
    assert recovered.counts[expected] == (4 if expected is SUCCEEDED else 2)
    for outcome in recovered:
        effects = sandbox.ledger.effects(operation, outcome.order.transaction_id)
        assert effects == (outcome.status is SUCCEEDED)


async def test_without_states_captures_stay_unknown_with_their_record(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(dialect=Dialect())
    (seeded,) = sandbox.seed(1, status="authorised")
    order = CaptureOrder(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
    )
    sandbox.faults.add("capture", DropReply(times=1))

    recovered = await gateway.recover(await gateway.capture([order]))

    assert recovered[0].status is UNKNOWN
    record: Any = recovered[0].record
    assert record.payment_status == "3000"
    assert "no meaning" in str(recovered[0].error)


async def test_one_capture_is_no_proof_of_another(sandbox: Sandbox, client: MakeClient) -> None:
    gateway = client(dialect=STATES)
    (seeded,) = sandbox.seed(1, status="authorised")
    order = CaptureOrder(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
    )

    def losing_the_second() -> Iterator[CaptureOrder]:
        yield order
        sandbox.faults.add("capture", ResetBeforeEffect(times=1))
        yield order

    policy = BatchPolicy(concurrency=1, chunk_size=1, duplicates="serialize")
    result = await gateway.capture(losing_the_second(), policy=policy)
    assert statuses(result) == [SUCCEEDED, UNKNOWN]

    assert statuses(await gateway.recover(result)) == [SUCCEEDED, UNKNOWN]


@pytest.mark.parametrize("operation", ["capture", "cancel"])
async def test_a_state_may_be_an_earlier_siblings_that_was_not_given(
    sandbox: Sandbox, client: MakeClient, operation: str
) -> None:
    gateway = client(dialect=STATES)
    (seeded,) = sandbox.seed(1, status="authorised")
    order_class: Any = {"capture": CaptureOrder, "cancel": CancelOrder}[operation]
    order = order_class(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
    )

    def losing_the_second() -> Iterator[Any]:
        yield order
        sandbox.faults.add(operation, ResetBeforeEffect(times=1))
        yield order

    policy = BatchPolicy(concurrency=1, chunk_size=1, duplicates="serialize")
    result = await getattr(gateway, operation)(losing_the_second(), policy=policy)

    assert statuses(await gateway.recover(list(result.unknown))) == [UNKNOWN]
