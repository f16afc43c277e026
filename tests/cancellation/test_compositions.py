"""Calls behave inside asyncio's own tools as any coroutine does."""

import asyncio
from collections.abc import Callable

import pytest

from gateway_async import BatchPolicy, GatewayClient
from tests.coalescer.held import HeldReplies
from tests.orders import direct_payment, refunds
from tests.support.interruptions import WAYS, Call, Way, beside_a_failure, timed_out

CALLS: dict[str, Callable[[GatewayClient], Call]] = {
    "payment": lambda client: client.pay_direct(direct_payment()),
    "refund": lambda client: client.refund(refunds(6)),
    "page": lambda client: client.recent_transactions(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_call_ends_with_what_holds_it(way: Way, name: str) -> None:
    """The gateway takes every request, carries it out, and says nothing."""
    held, task = HeldReplies(), asyncio.current_task()
    client = held.client(policy=BatchPolicy(chunk_size=2, concurrency=2, drain_seconds=0))
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
