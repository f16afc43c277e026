"""Calls behave inside asyncio's own tools as any coroutine does."""

import asyncio
from collections.abc import Callable

import pytest

from gateway_async import BatchPolicy, GatewayClient
from tests.coalescer.held import HeldReplies
from tests.orders import direct_payment, refunds
from tests.support.clock import BEYOND, Clock
from tests.support.interruptions import WAYS, Call, Way, beside_a_failure, timed_out

CALLS: dict[str, Callable[[GatewayClient], Call]] = {
    "payment": lambda client: client.pay_direct(direct_payment()),
    "refund": lambda client: client.refund(refunds(6)),
    "page": lambda client: client.recent_transactions(),
}
EACH = pytest.mark.parametrize("name", CALLS)


@pytest.fixture
def held() -> HeldReplies:
    """A gateway that takes every request, carries it out, and says nothing."""
    return HeldReplies()


@pytest.fixture
def client(held: HeldReplies) -> GatewayClient:
    return held.client(policy=BatchPolicy(chunk_size=2, concurrency=2, drain_seconds=0))


@EACH
@pytest.mark.parametrize("way", WAYS)
async def test_a_call_ends_with_what_holds_it(
    held: HeldReplies, client: GatewayClient, way: Way, name: str
) -> None:
    task = asyncio.current_task()
    expected: dict[Way, type] = {timed_out: TimeoutError, beside_a_failure: ExceptionGroup}
    with pytest.raises(expected.get(way, asyncio.CancelledError)) as caught:
        await way(CALLS[name](client), held.asked.wait())
    assert task is not None
    if way is timed_out:
        assert type(caught.value.__cause__) is asyncio.CancelledError
        assert task.cancelling() == 0
    if isinstance(caught.value, ExceptionGroup):
        assert [type(error) for error in caught.value.exceptions] == [LookupError]
    for _ in range(20):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {task}


@EACH
async def test_wait_for_and_shield(
    held: HeldReplies, client: GatewayClient, name: str, clock: Clock
) -> None:
    inner = asyncio.ensure_future(CALLS[name](client))
    waiting = asyncio.create_task(asyncio.wait_for(asyncio.shield(inner), BEYOND - 1))
    await held.asked.wait()
    clock.advance()
    with pytest.raises(TimeoutError):
        await waiting
    assert not inner.done()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(inner, 0)
    assert inner.cancelled()
