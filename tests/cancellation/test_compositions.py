"""Calls behave inside asyncio's own tools as any coroutine does."""

import asyncio
import collections.abc
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gateway_async import Batch, BatchPolicy, GatewayClient, OutcomeStatus, OutcomeUnknownError
from gateway_async.sandbox import Sandbox, faults
from tests.cancellation.places import Loopback, asked, payment
from tests.memory import MemoryTransport, client_over
from tests.orders import refunds

Call = Callable[[GatewayClient, Loopback], Awaitable[Any]]
CALLS: list[Call] = [
    lambda client, _: client.pay_direct(payment(1)),
    lambda client, place: client.refund(place.refunds()),
    lambda client, _: client.recent_transactions(),
]
EACH = pytest.mark.parametrize("call", CALLS, ids=["payment", "refund", "page"])


@pytest.fixture
async def held() -> AsyncIterator[Loopback]:
    """A gateway that takes every request, carries it out, and says nothing."""
    async with Sandbox() as sandbox:
        sandbox.faults.add("*", faults.NoReply())
        yield Loopback(sandbox)


@pytest.fixture
async def client(held: Loopback) -> AsyncIterator[GatewayClient]:
    policy = BatchPolicy(chunk_size=2, concurrency=2, drain_seconds=0.05)
    async with held.client(policy=policy) as client:
        yield client


async def _within(work: Awaitable[Any], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await work


@EACH
@pytest.mark.parametrize("wait", [_within, asyncio.wait_for])
async def test_a_timeout(held: Loopback, client: GatewayClient, call: Call, wait: Any) -> None:
    with pytest.raises(TimeoutError) as caught:
        await wait(call(client, held), 0.1)
    assert type(caught.value.__cause__) is asyncio.CancelledError
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


@EACH
async def test_a_task_group_whose_other_task_fails(
    held: Loopback, client: GatewayClient, call: Call
) -> None:
    async def run() -> None:
        await call(client, held)

    async def fail() -> None:
        await asked(held.sandbox)
        raise LookupError("the sibling")

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            ours.append(group.create_task(run()))
            group.create_task(fail())

    ours: list[asyncio.Task[None]] = []
    with pytest.raises(ExceptionGroup) as caught:
        await together()
    assert [type(error) for error in caught.value.exceptions] == [LookupError]
    assert ours[0].cancelled()
    assert ours[0].cancelling() == 1


@EACH
async def test_shield(held: Loopback, client: GatewayClient, call: Call) -> None:
    inner = asyncio.ensure_future(call(client, held))

    async def shielded() -> None:
        await asyncio.shield(inner)

    outer = asyncio.create_task(shielded())
    await asked(held.sandbox)
    outer.cancel()
    await asyncio.wait({outer})
    assert outer.cancelled()
    assert not inner.done()
    inner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await inner


async def test_gather_cancels_all_and_each_knows_its_outcome(
    held: Loopback, client: GatewayClient
) -> None:
    batch = client.refund(held.refunds())
    paying = asyncio.ensure_future(client.pay_direct(payment(1)))
    gathered = asyncio.gather(batch, paying)
    await asked(held.sandbox, 3)
    gathered.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathered
    assert batch.result.counts[OutcomeStatus.UNKNOWN] == 4
    assert batch.result.counts[OutcomeStatus.NOT_SENT] == 2
    with pytest.raises(asyncio.CancelledError) as caught:
        await paying
    assert isinstance(getattr(caught.value, "outcome", None), OutcomeUnknownError)


# A batch as a coroutine


async def _in_group(batch: Batch[Any, Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(batch)


def _batch() -> Batch[Any, Any]:
    return client_over(MemoryTransport(steps=2)).refund(refunds(6))


@pytest.mark.parametrize(
    "use",
    [
        asyncio.create_task,
        _in_group,
        asyncio.gather,
        lambda batch: asyncio.wait_for(batch, 30),
        asyncio.shield,
        asyncio.ensure_future,
    ],
)
async def test_a_batch_is_a_coroutine(use: Callable[[Batch[Any, Any]], Awaitable[Any]]) -> None:
    batch = _batch()
    assert isinstance(batch, collections.abc.Coroutine)
    came = await use(batch)
    assert batch.result.ok
    assert came is batch.result or came in (None, [batch.result])


def test_a_batch_is_run_by_asyncio_run() -> None:
    assert asyncio.run(_batch()).ok


def test_a_batch_that_is_closed_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _batch().close()
        gc.collect()
