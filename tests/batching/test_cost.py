"""What an order costs, counted in calls: figures that no busy machine changes."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import gateway_async
from gateway_async import BatchPolicy, GatewayClient, Outcome, OutcomeStatus, RefundRecord
from gateway_async.batching.results import Exchange
from gateway_async.wire import records
from tests.fuzz.memory import MemoryGateway, client_of
from tests.orders import refunds
from tests.steps import count_calls

PACKAGE = str(Path(gateway_async.__file__).parent)
FEW, MANY = 500, 1500


async def _awaited(client: GatewayClient, orders: list[Any]) -> None:
    result = await client.refund(iter(orders), policy=BatchPolicy(concurrency=2))
    assert result.ok


async def _streamed(client: GatewayClient, orders: list[Any]) -> None:
    policy = BatchPolicy(concurrency=2)
    async with client.refund(iter(orders), policy=policy) as batch:
        statuses = [outcome.status async for outcome in batch]
    assert statuses == [OutcomeStatus.SUCCEEDED] * len(orders)


async def _calls(run: Callable[[GatewayClient, list[Any]], Awaitable[None]], count: int) -> int:
    """Count the calls that our modules make, or receive, during a batch."""
    calls = 0

    def hear(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        is_ours = frame.f_code.co_filename.startswith(PACKAGE)
        calls += is_ours and event in ("call", "c_call")

    client, orders = client_of(MemoryGateway()), refunds(count)
    sys.setprofile(hear)
    try:
        await run(client, orders)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(("run", "most"), [(_awaited, 20), (_streamed, 24)])
async def test_an_order_costs_few_calls(
    run: Callable[[GatewayClient, list[Any]], Awaitable[None]], most: int
) -> None:
    await _calls(run, FEW)  # what is compiled at first use does not count
    few, many = await _calls(run, FEW), await _calls(run, MANY)
    assert (many - few) / (MANY - FEW) < most


def test_the_record_of_an_outcome_is_read_in_few_calls() -> None:
    records._reader.cache_clear()  # which may have met other records with as many fields before
    item = {
        "transaction_id": "T1",
        "order_no": "A",
        "amount": "100.00",
        "currency": "EUR",
        "refund_amount": "10.00",
        "refund_status": "1",
        "refund_message": "V0000:success",
    }
    outcome: Outcome[None, RefundRecord] = Outcome(
        order=None,
        index=0,
        status=OutcomeStatus.SUCCEEDED,
        items=(item,),
        exchange=Exchange(record_class=RefundRecord),
    )
    assert outcome.record == outcome.record  # what is compiled at first use does not count
    assert count_calls(lambda: outcome.record) < 18
