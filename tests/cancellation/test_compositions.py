"""Calls behave inside asyncio's own tools as any coroutine does."""

import asyncio
import collections.abc
import contextlib
import gc
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from gateway_async import BatchPolicy, NotSentError, OutcomeStatus, OutcomeUnknownError
from gateway_async.sandbox import Sandbox, faults
from tests.cancellation.places import ORDERS, SETTINGS, InMemory, Loopback, asked, payment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway_async import Batch, BatchResult, GatewayClient

    Result = BatchResult[Any, Any]

BRIEF = BatchPolicy(chunk_size=2, concurrency=2, drain_seconds=0.05)


@pytest.fixture
async def held() -> "AsyncIterator[Loopback]":
    """A gateway that takes every request, carries it out, and says nothing."""
    async with Sandbox() as sandbox:
        sandbox.faults.add("*", faults.NoReply())
        yield Loopback(sandbox)


def brief_client(place: Loopback) -> "GatewayClient":
    return place.client(**{**SETTINGS, "policy": BRIEF})


def _payment(client: "GatewayClient", _: Loopback) -> "Awaitable[object]":
    return client.pay_direct(payment(1))


def _refund(client: "GatewayClient", place: Loopback) -> "Awaitable[object]":
    return client.refund(place.refunds())


def _query(client: "GatewayClient", _: Loopback) -> "Awaitable[object]":
    return client.recent_transactions()


CALLS = pytest.mark.parametrize("call", [_payment, _refund, _query])
Call = "Callable[[GatewayClient, Loopback], Awaitable[object]]"


def _cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@CALLS
async def test_asyncio_timeout(held: Loopback, call: Any) -> None:
    async with brief_client(held) as client:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.1):
                await call(client, held)
        assert _cancelling() == 0
        assert type(caught.value.__cause__) is asyncio.CancelledError
        await asyncio.sleep(0)


@CALLS
async def test_wait_for(held: Loopback, call: Any) -> None:
    async with brief_client(held) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call(client, held), 0.1)
        assert _cancelling() == 0


@CALLS
async def test_a_task_group_whose_other_task_fails(held: Loopback, call: Any) -> None:
    async def run() -> None:
        await call(client, held)

    async def fail() -> None:
        await asked(held.sandbox)
        raise LookupError("the sibling")

    async def together(ours: list[asyncio.Task[None]]) -> None:
        async with asyncio.TaskGroup() as group:
            ours.append(group.create_task(run()))
            group.create_task(fail())

    async with brief_client(held) as client:
        ours: list[asyncio.Task[None]] = []
        with pytest.raises(ExceptionGroup) as caught:
            await together(ours)
        assert [type(error) for error in caught.value.exceptions] == [LookupError]
        assert ours[0].cancelled()
        assert ours[0].cancelling() == 1


async def test_a_task_group_whose_task_is_ours_and_fails(held: Loopback) -> None:
    held.sandbox.faults.clear()
    held.sandbox.faults.add("*", faults.DropReply())
    async with brief_client(held) as client:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(client.pay_direct(payment(1)))
        assert [type(error) for error in caught.value.exceptions] == [OutcomeUnknownError]


@CALLS
async def test_shield(held: Loopback, call: Any) -> None:
    async with brief_client(held) as client:
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


async def test_gather_cancels_all_and_each_knows_its_outcome(held: Loopback) -> None:
    async with brief_client(held) as client:
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


async def test_a_caller_cancelled_before_anything_left_is_told_so() -> None:
    place = InMemory()
    client = place.client()

    async def pay() -> None:
        with pytest.raises(asyncio.CancelledError) as caught:
            await client.pay_direct(payment(1))
        assert isinstance(getattr(caught.value, "outcome", None), NotSentError)
        assert _cancelling() == 1
        raise caught.value

    task = asyncio.create_task(pay())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert place.payments(payment(1)) == 0


async def test_a_caught_cancellation_leaves_the_task_usable(held: Loopback) -> None:
    held.sandbox.faults.clear()
    held.sandbox.faults.add("*", faults.NoReply(times=1))
    async with brief_client(held) as client:

        async def pay_twice() -> object:
            with contextlib.suppress(asyncio.CancelledError):
                await client.pay_direct(payment(1))
            task = asyncio.current_task()
            assert task is not None
            assert task.uncancel() == 0
            return await client.pay_direct(payment(2))

        task = asyncio.create_task(pay_twice())
        await asked(held.sandbox)
        task.cancel()
        await task
        assert held.payments(payment(2)) == 1


# A batch as a coroutine


async def _as_task(batch: "Batch[Any, Any]") -> "Result":
    return await asyncio.create_task(batch)


async def _in_group(batch: "Batch[Any, Any]") -> "Result":
    async with asyncio.TaskGroup() as group:
        task = group.create_task(batch)
    return task.result()


async def _gathered(batch: "Batch[Any, Any]") -> "Result":
    (result,) = await asyncio.gather(batch)
    return result


async def _waited_for(batch: "Batch[Any, Any]") -> "Result":
    return await asyncio.wait_for(batch, 30)


async def _shielded(batch: "Batch[Any, Any]") -> "Result":
    return await asyncio.shield(batch)


async def _as_future(batch: "Batch[Any, Any]") -> "Result":
    return await asyncio.ensure_future(batch)


@pytest.mark.parametrize(
    "use", [_as_task, _in_group, _gathered, _waited_for, _shielded, _as_future]
)
async def test_a_batch_is_a_coroutine(
    use: "Callable[[Batch[Any, Any]], Awaitable[Result]]",
) -> None:
    place = InMemory()
    batch = place.client().refund(place.refunds())
    assert isinstance(batch, collections.abc.Coroutine)
    result = await use(batch)
    assert result.ok
    assert len(result) == ORDERS
    assert batch.result is result


def test_a_batch_is_run_by_asyncio_run() -> None:
    place = InMemory()
    assert asyncio.run(place.client().refund(place.refunds())).ok


def test_a_batch_that_is_closed_does_not_warn() -> None:
    place = InMemory()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place.client().refund(place.refunds()).close()
        gc.collect()
