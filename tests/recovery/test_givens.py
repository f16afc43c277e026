"""What may be given to a recovery, and what can be settled of less than a whole batch."""

import pickle
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    ConfigurationError,
    Dialect,
    PaymentState,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, EmptyLookUp, ResetBeforeEffect
from tests.orders import Make, orders_for, seeded
from tests.recovery.books import REFERENCES, lost
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, check_books, statuses


async def test_recovery_takes_outcomes_of_another_process_and_then_asks_no_more(
    sandbox: Sandbox, make: Make
) -> None:
    gateway = make(recovery=REFERENCES)
    sandbox.faults.add("refund", DropReply(times=1))
    result = pickle.loads(pickle.dumps(await gateway.refund(seeded(sandbox))))  # noqa: S301  # our own

    recovered = await gateway.recover(result.unknown)

    assert [outcome.index for outcome in recovered] == [o.index for o in result.unknown]
    assert statuses(recovered) == [SUCCEEDED] * 2
    asked = sandbox.requests["search_refunds"]
    assert statuses(await gateway.recover(recovered)) == [SUCCEEDED] * 2
    assert len(await gateway.recover([])) == 0
    assert sandbox.requests["search_refunds"] == asked
    wrong: Any
    for wrong in ([1], "abc", 5, None):
        with pytest.raises(TypeError, match="expected a BatchResult or outcomes"):
            await gateway.recover(wrong)


async def test_a_reference_that_no_look_up_can_ask_for_stays_unknown_and_is_no_control(
    sandbox: Sandbox, make: Make
) -> None:
    gateway = make(recovery=REFERENCES)
    result = await lost(sandbox, gateway)
    odd = [
        attrs.evolve(outcome, order=attrs.evolve(outcome.order, transaction_id="T,1"))
        for outcome in (result.succeeded[0], result.unknown[0])
    ]

    recovered = await gateway.recover([*odd, *result])

    assert recovered.counts[NOT_SENT] == 2
    assert recovered[1].status is UNKNOWN
    assert "cannot be looked up" in str(recovered[1].error)


async def test_an_outcome_that_a_stream_yielded_must_be_given_itself(
    sandbox: Sandbox, make: Make
) -> None:
    gateway = make(recovery=REFERENCES)
    sandbox.faults.add("refund", DropReply(times=1))
    async with gateway.refund(seeded(sandbox)) as batch:
        outcomes = [outcome async for outcome in batch]

    with pytest.raises(ConfigurationError, match="has yielded unknown outcomes"):
        await gateway.recover(batch.result)
    assert statuses(await gateway.recover(outcomes)) == [SUCCEEDED] * 6


# Captures and cancels, settled by the states that the dialect gives a meaning

STATES = Dialect(
    payment_states={
        "4100": PaymentState.AUTHORISED,
        "3000": PaymentState.CAPTURED,
        "4200": PaymentState.CANCELLED,
    }
)


@pytest.mark.parametrize("operation", ["capture", "cancel"])
async def test_captures_and_cancels_are_settled_by_the_states_of_the_dialect(
    sandbox: Sandbox, make: Make, operation: str
) -> None:
    gateway = make(dialect=STATES, policy=BatchPolicy(concurrency=1, chunk_size=2))
    orders = orders_for(operation, sandbox.seed(6, status="authorised"))
    sandbox.faults.add(operation, DropReply(times=1))
    sandbox.faults.add(operation, ResetBeforeEffect(times=1))
    result = await getattr(gateway, operation)(orders)
    assert statuses(result) == [UNKNOWN] * 4 + [SUCCEEDED] * 2

    recovered = await gateway.recover(result)

    assert recovered.counts[SUCCEEDED] == 4
    assert recovered.counts[NOT_SENT] == 2
    check_books(sandbox, recovered, operation)


@pytest.mark.parametrize(
    ("dialect", "is_listed", "problem"),
    [(Dialect(), True, "no meaning"), (STATES, False, "lists 0 records of it")],
)
async def test_without_a_state_that_has_a_meaning_captures_stay_unknown(
    sandbox: Sandbox, make: Make, dialect: Dialect, problem: str, *, is_listed: bool
) -> None:
    gateway = make(dialect=dialect)
    sandbox.faults.add("capture", DropReply(times=1))
    result = await gateway.capture(orders_for("capture", sandbox.seed(1, status="authorised")))
    if not is_listed:
        sandbox.faults.add("query", EmptyLookUp())

    (outcome,) = await gateway.recover(result)

    assert outcome.status is UNKNOWN
    record: Any = outcome.record
    assert (record is not None and record.payment_status == "3000") is is_listed
    assert problem in str(outcome.error)
