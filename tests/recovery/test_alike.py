"""Refunds that the gateway lists already: the same money does not go out under another batch."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from gateway_async import AlikeRefundError, BatchPolicy, Dialect, RefundOrder
from gateway_async.sandbox import Sandbox
from tests.memory import Asked, MemoryTransport, client_over, listing
from tests.orders import Make, client_of, reply_to, seeded
from tests.recovery.books import REFERENCES, losing
from tests.support.books import NOT_SENT, SUCCEEDED, statuses


@pytest.mark.parametrize(("hours", "held"), [(25, False), (23, True), (-1, True)])
@pytest.mark.parametrize("ahead", [0, 8, -8])
async def test_refunds_count_back_by_the_gateways_clock(hours: int, held: bool, ahead: int) -> None:
    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(hours=ahead - shift)

    shift = hours
    async with Sandbox(clock=clock) as sandbox:
        dialect = attrs.evolve(sandbox.dialect, utc_offset_hours=ahead)
        async with client_of(sandbox, dialect=dialect, recovery=REFERENCES) as gateway:
            orders = seeded(sandbox, 2)
            assert (await gateway.refund(orders)).ok
            shift = 0
            assert statuses(await gateway.refund(orders)) == [NOT_SENT if held else SUCCEEDED] * 2


ORDER = RefundOrder(
    transaction_id="T1", order_no="N1", currency="EUR", amount="10.00", refund_amount="1.00"
)
RECENT = f"{datetime.now(UTC):%Y%m%d%H%M%S}"
AHEAD = datetime.now(UTC) + timedelta(hours=14)
"""What a clock shows in the zone that is ahead of all others."""


@pytest.mark.parametrize(
    ("listed", "held"),
    [
        ({}, True),
        ({"refund_amount": 1}, True),
        ({"refund_amount": "1.01"}, False),
        ({"refund_amount": "one"}, True),
        ({"refund_amount": None}, True),
        ({"refund_amount": ""}, True),
        ({"refund_amount": None, "refund_reference_id": " "}, False),
        ({"refund_date": "20200101000000"}, False),
        ({"refund_date": "2020-01-01T00:00:00+08:00"}, False),
        ({"refund_date": f"{AHEAD - timedelta(hours=23):%Y-%m-%dT%H:%M:%S}+14:00"}, True),
        ({"refund_date": f"{AHEAD - timedelta(hours=25):%Y-%m-%dT%H:%M:%S}+14:00"}, False),
        ({"refund_date": ""}, True),
        ({"refund_date": "yesterday"}, True),
        ({"refund_date": ["20200101000000"]}, True),
        ({"refund_reference_id": ""}, True),
        ({"refund_status": "7"}, True),
        ({"refund_status": "2"}, False),
    ],
)
async def test_unclear_fields_of_a_refund_count(listed: dict[str, Any], held: bool) -> None:
    record = {
        "transaction_id": "T1",
        "refund_amount": "1.00",
        "refund_status": "1",
        "refund_reference_id": "T1-01",
        "refund_date": RECENT,
    }
    dialect = Dialect(declined_statuses={"2"})
    transport = MemoryTransport(listing([{**record, **listed}]))
    gateway = client_over(transport, recovery=REFERENCES, dialect=dialect)
    (outcome,) = await gateway.refund([ORDER])
    assert isinstance(outcome.error, AlikeRefundError) is held
    assert (outcome.status is SUCCEEDED) is not held


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (["T2"], "did not honour the selection"),
        (["T1", "T2"], "refunds that were not asked for"),
        (None, r"could not be looked up.*busy"),
    ],
)
async def test_a_refund_whose_earlier_ones_are_not_known_is_not_sent(
    listed: list[str] | None, problem: str
) -> None:
    old = {"refund_amount": "2.00", "refund_date": RECENT, "refund_reference_id": "R1"}
    records = [{"transaction_id": one, **old} for one in listed or ()]
    busy = {"return_status": "0", "return_message": "busy"} if listed is None else {}
    transport = MemoryTransport(listing(records, **busy))
    (outcome,) = await client_over(transport, recovery=REFERENCES).refund([ORDER])
    assert outcome.status is NOT_SENT
    assert re.search(problem, str(outcome.error))
    unguarded = attrs.evolve(REFERENCES, hold_alike_hours=None)
    result = await client_over(transport, recovery=unguarded).refund([ORDER])
    assert result.ok is (listed is not None)


@pytest.mark.parametrize("hours", [24, None])
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_refund_that_is_held_stops_no_other_but_a_look_up_without_a_reply_does(
    hours: float | None, is_lost: bool
) -> None:
    def answer(asked: Asked) -> Any:
        if asked.operation.name != "search_refunds":
            return asked.done()
        like = {"transaction_id": "T1", "refund_amount": "1.00", "refund_reference_id": "R1"}
        return b"" if is_lost else reply_to("search_refunds", [like] * ("T1" in asked.transactions))

    policy = BatchPolicy(chunk_size=1, concurrency=1, stop_after_unknown=1)
    transport = MemoryTransport(answer)
    recovery = attrs.evolve(REFERENCES, hold_alike_hours=hours)
    gateway = client_over(transport, recovery=recovery, policy=policy)
    orders = [attrs.evolve(ORDER, transaction_id=name) for name in ("T1", "T2", "T3")]

    result = await gateway.refund(orders)

    others = NOT_SENT if is_lost else SUCCEEDED
    assert statuses(result) == [NOT_SENT if hours else others, others, others]
    named = {name for asked in transport.asked for name in asked.transactions}
    assert named == ({"T1"} if is_lost else {"T1", "T2", "T3"})


async def test_a_resend_of_recovery_is_not_held_back_as_alike(sandbox: Sandbox, make: Make) -> None:
    (order,) = seeded(sandbox, 1)
    gateway = make(recovery=attrs.evolve(REFERENCES, resend_absent=True))
    policy = BatchPolicy(chunk_size=1, concurrency=1, duplicates="allow")
    orders = losing(sandbox, "refund", order, order)
    result = await gateway.recover(await gateway.refund(orders, policy=policy))
    assert statuses(result) == [SUCCEEDED, SUCCEEDED]
    assert sandbox.ledger.effects("refund", order.transaction_id) == 2


async def test_parts_of_one_batch_that_are_listed_without_amounts_hold_no_other() -> None:
    made: list[dict[str, Any]] = []

    def answer(asked: Asked) -> Any:
        (item,) = asked.done()["refund_orders"]
        made.append({"transaction_id": "T1", "refund_reference_id": f"R{len(made)}"})
        return reply_to("refund", [{**item, **made[-1]}])

    policy = BatchPolicy(chunk_size=1, concurrency=1, duplicates="serialize")
    transport = MemoryTransport(listing(made, answer))
    gateway = client_over(transport, recovery=REFERENCES, policy=policy)
    parts = [attrs.evolve(ORDER, refund_amount=amount) for amount in (1, 2, 1)]
    assert (await gateway.refund(parts)).ok
