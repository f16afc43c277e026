"""Captures and cancels, settled by the states that the dialect gives a meaning."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    Dialect,
    OutcomeStatus,
    PaymentState,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Fault, ResetBeforeEffect
from tests.orders import orders_for
from tests.recovery.books import NOT_SENT, SUCCEEDED, UNKNOWN, MakeClient, statuses

STATES = Dialect(
    payment_states={
        "4100": PaymentState.AUTHORISED,
        "3000": PaymentState.CAPTURED,
        "4200": PaymentState.CANCELLED,
    }
)


@pytest.mark.parametrize("operation", ["capture", "cancel"])
@pytest.mark.parametrize(
    ("fault", "expected"), [(DropReply(times=1), SUCCEEDED), (ResetBeforeEffect(times=1), NOT_SENT)]
)
async def test_captures_and_cancels_are_settled_by_the_states_of_the_dialect(
    sandbox: Sandbox,
    client: MakeClient,
    operation: str,
    fault: Fault,
    expected: OutcomeStatus,
) -> None:
    gateway = client(dialect=STATES)
    orders = orders_for(operation, sandbox.seed(4, status="authorised"))
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
    (order,) = orders_for("capture", sandbox.seed(1, status="authorised"))
    sandbox.faults.add("capture", DropReply(times=1))

    recovered = await gateway.recover(await gateway.capture([order]))

    assert recovered[0].status is UNKNOWN
    record: Any = recovered[0].record
    assert record.payment_status == "3000"
    assert "no meaning" in str(recovered[0].error)


@pytest.mark.parametrize("operation", ["capture", "cancel"])
async def test_a_state_is_no_proof_where_it_may_be_an_earlier_siblings(
    sandbox: Sandbox, client: MakeClient, operation: str
) -> None:
    gateway = client(dialect=STATES)
    (order,) = orders_for(operation, sandbox.seed(1, status="authorised"))

    def losing_the_second() -> Iterator[Any]:
        yield order
        sandbox.faults.add(operation, ResetBeforeEffect(times=1))
        yield order

    policy = BatchPolicy(concurrency=1, chunk_size=1, duplicates="serialize")
    result = await getattr(gateway, operation)(losing_the_second(), policy=policy)

    assert statuses(await gateway.recover(list(result.unknown))) == [UNKNOWN]
    if operation == "capture":
        assert statuses(await gateway.recover(result)) == [SUCCEEDED, UNKNOWN]
