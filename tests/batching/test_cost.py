"""What an order and a payment cost, counted in calls: figures that no busy machine changes."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import gateway_async
from gateway_async import BatchPolicy, GatewayClient, OutcomeStatus
from tests.memory import MemoryTransport, all_done, client_over
from tests.models import examples
from tests.orders import refunds
from tests.steps import count_calls

PACKAGE = str(Path(gateway_async.__file__).parent)
FEW, MANY = 500, 1500
RESULT = b"""<?xml version="1.0" encoding="UTF-8"?><respon>
  <transaction_id>T1</transaction_id><amount>1.50</amount><card>411111******1111</card>
  <order_status>1</order_status><result_info>V0000:success</result_info><note></note>
  <risk_score>12</risk_score><risk_reasons><name>ip</name><status>ok</status></risk_reasons>
</respon>"""


async def _calls(act: Callable[[], Awaitable[object]]) -> int:
    """Count the calls that our modules make, or receive; the first time does not count."""
    calls = 0

    def hear(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        is_ours = frame.f_code.co_filename.startswith(PACKAGE)
        calls += is_ours and event in ("call", "c_call")

    await act()  # what is compiled at first use
    sys.setprofile(hear)
    try:
        await act()
    finally:
        sys.setprofile(None)
    return calls


async def _awaited(client: GatewayClient, orders: list[Any]) -> None:
    result = await client.refund(iter(orders), policy=BatchPolicy(concurrency=2))
    assert result.ok


async def _streamed(client: GatewayClient, orders: list[Any]) -> None:
    policy = BatchPolicy(concurrency=2)
    async with client.refund(iter(orders), policy=policy) as batch:
        statuses = [outcome.status async for outcome in batch]
    assert statuses == [OutcomeStatus.SUCCEEDED] * len(orders)


@pytest.mark.parametrize(("run", "most"), [(_awaited, 20), (_streamed, 24)])
async def test_an_order_costs_few_calls(
    run: Callable[[GatewayClient, list[Any]], Awaitable[None]], most: int
) -> None:
    client = client_over(MemoryTransport(all_done))
    orders = refunds(MANY)
    few = await _calls(lambda: run(client, orders[:FEW]))
    many = await _calls(lambda: run(client, orders))
    assert (many - few) / (MANY - FEW) < most


async def test_the_record_of_an_outcome_is_read_in_few_calls() -> None:
    (outcome,) = await client_over(MemoryTransport(all_done)).refund(refunds(1))
    assert outcome.record == outcome.record
    assert count_calls(lambda: outcome.record) < 18


async def test_a_payment_costs_few_calls() -> None:
    payment, client = examples.direct_payment(), client_over(MemoryTransport(lambda _: RESULT))
    assert await _calls(lambda: client.pay_direct(payment)) < 700


async def test_a_reply_takes_a_time_in_proportion_to_its_size() -> None:
    """One object of it has many values of one name, all different."""

    async def calls(size: int) -> int:
        body = b"{%s}" % b",".join(b'"a":%d' % number for number in range(size))
        client = client_over(MemoryTransport(lambda _: body))
        return await _calls(lambda: client.refund(refunds(1)))

    assert await calls(4000) < 3 * await calls(2000)


@pytest.mark.parametrize("piece", [b"<a> </a>", b"<a><b> </b>", b"<a>", b" ", b"<a> <b> </b> <c>"])
async def test_a_reply_in_xml_takes_a_time_in_proportion_to_its_size(piece: bytes) -> None:
    """In the square of its size, this would hang."""
    body = b"<respon>" + piece * (60_000 // len(piece)) + b"<respon>"
    client = client_over(MemoryTransport(lambda _: body))
    with pytest.raises(gateway_async.ReplyUnreadableError):
        await client.call("/v1/authorise", {}, reply="xml")
