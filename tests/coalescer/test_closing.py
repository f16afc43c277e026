"""Where a coalescer may be used, and how it ends: no order is lost, and nobody hangs."""

import asyncio
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    Coalescer,
    ConfigurationError,
    OutcomeStatus,
)
from gateway_async.sandbox import Sandbox
from tests.coalescer.held import LONG, HeldReplies, settle_down, start
from tests.memory import MemoryTransport, all_done, client_over
from tests.orders import client_of, orders_for, refunds

SUCCEEDED, NOT_SENT, UNKNOWN = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.NOT_SENT,
    OutcomeStatus.UNKNOWN,
)


# The end of a coalescer


async def test_closing_sends_what_waits(sandbox: Sandbox) -> None:
    orders = orders_for("refund", sandbox.seed(120, status="captured"))
    async with client_of(sandbox, policy=BatchPolicy(concurrency=1)) as gateway:
        async with gateway.coalesced(linger_seconds=LONG) as single:
            tasks = [start(single.refund(order)) for order in orders]
            await asyncio.sleep(0)
        assert not [t for t in asyncio.all_tasks() if "coalesced" in t.get_name()]
    assert [(await task).status for task in tasks] == [SUCCEEDED] * 120
    assert sandbox.requests["refund"] == 3


async def test_an_exception_sends_nothing_more_and_waits_for_what_has_left() -> None:
    held = HeldReplies()

    async def fail(single: Coalescer) -> None:
        tasks.append(start(single.refund(refunds(1)[0])))
        await held.asked.wait()
        tasks.append(start(single.refund(refunds(2)[1])))
        await settle_down()
        asyncio.get_running_loop().call_soon(held.goes_on.set)
        raise LookupError

    tasks: list[asyncio.Task[Any]] = []
    policy = BatchPolicy(concurrency=1)
    with pytest.raises(LookupError):
        async with held.client(policy=policy).coalesced(linger_seconds=0) as single:
            await fail(single)
    assert [(await task).status for task in tasks] == [SUCCEEDED, NOT_SENT]
    assert held.sent == [["T000000"]]


async def test_what_is_not_answered_within_the_drain_time_is_given_up() -> None:
    held = HeldReplies()
    policy = BatchPolicy(concurrency=1, chunk_size=1, drain_seconds=0.05)
    async with held.client(policy=policy).coalesced(linger_seconds=LONG) as single:
        tasks = [start(single.refund(order)) for order in refunds(2)]
        await settle_down()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [(await task).status for task in tasks] == [UNKNOWN, NOT_SENT]
    assert held.sent == [["T000000"]]
    assert "the coalescer was closed" in str((await tasks[1]).error)


async def test_closing_without_any_drain_time_leaves_nobody_hanging() -> None:
    held = HeldReplies()
    policy = BatchPolicy(concurrency=2, chunk_size=1, drain_seconds=0)
    async with held.client(policy=policy).coalesced(linger_seconds=LONG) as single:
        tasks = [start(single.refund(order)) for order in refunds(3)]
        await asyncio.sleep(0)
    assert [(await task).status for task in tasks] == [NOT_SENT] * 3
    assert held.sent == []


async def test_a_second_cancellation_ends_the_draining() -> None:
    held = HeldReplies()
    started = asyncio.Event()

    async def serve() -> None:
        async with held.client().coalesced(linger_seconds=0) as single:
            tasks.append(start(single.refund(refunds(1)[0])))
            await held.asked.wait()
            started.set()
            await asyncio.Event().wait()

    tasks: list[asyncio.Task[Any]] = []
    service = start(serve())
    await started.wait()
    service.cancel()
    await settle_down()
    assert not service.done()  # it waits for the reply, for as long as the drain time
    service.cancel()
    await asyncio.wait({service})
    assert service.cancelled()
    assert (await tasks[0]).status is UNKNOWN


# Where it may be used


async def test_a_coalescer_is_used_inside_its_block_alone() -> None:
    gateway = client_over(MemoryTransport(all_done))
    single = gateway.coalesced()
    with pytest.raises(ConfigurationError, match="not open"):
        await single.refund(refunds(1)[0])
    async with single:
        pass
    with pytest.raises(ConfigurationError, match="not open"):
        await single.refund(refunds(1)[0])
    with pytest.raises(ConfigurationError, match="entered once"):
        await single.__aenter__()


async def test_another_event_loop_is_refused() -> None:
    async with client_over(MemoryTransport(all_done)).coalesced() as single:

        async def elsewhere() -> None:
            with pytest.raises(ConfigurationError, match="entered on another event loop"):
                await single.refund(refunds(1)[0])

        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))


async def test_a_closed_client_gives_no_coalescer_and_sends_nothing_for_an_open_one(
    sandbox: Sandbox,
) -> None:
    orders = orders_for("refund", sandbox.seed(1, status="captured"))
    gateway = client_of(sandbox)
    async with gateway.coalesced() as single:
        await gateway.aclose()
        outcome = await single.refund(orders[0])
        with pytest.raises(ConfigurationError, match="closed"):
            gateway.coalesced()
    assert outcome.status is NOT_SENT
