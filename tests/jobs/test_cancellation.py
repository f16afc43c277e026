"""A job that is cancelled, wherever it is, doubles nothing once it is run again."""

import asyncio
from typing import Any

import attrs
import pytest

from gateway_async import GatewayClient
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from tests.jobs.books import (
    POLICY,
    RESENDING,
    SUCCEEDED,
    Make,
    check_books,
    counts,
    effects,
    make_client,
    seeded,
    sent,
    statuses,
)

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)

TURNS = [*range(1, 20), *(int(20 * 1.25**number) for number in range(28))]
ORDERS = 6


async def _awaited(batch: Any) -> Any:
    return await batch


async def _streamed(batch: Any) -> Any:
    async with batch:
        async for _ in batch:
            await asyncio.sleep(0)


async def _cancelled_in(turns: int, call: Any) -> bool:
    """Cancel a call after so many turns of the loop; say whether it still ran."""
    task = asyncio.get_running_loop().create_task(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    return task.cancelled()


async def _check_after(
    sandbox: Sandbox, gateway: GatewayClient, journal: Journal, name: str, orders: list[Any]
) -> None:
    """Check what a call left that was cancelled, and that the same line ends the job."""
    known = await journal.jobs()
    for status in known:
        if status.name == name:
            assert not status.is_running
            assert status.counts[JobState.INTENT] == 0
            check_books(sandbox, [outcome async for outcome in journal.outcomes(name)])
    again = await gateway.refund(orders, job=journal.job(name))
    assert statuses(again) == [SUCCEEDED] * ORDERS
    assert effects(sandbox, orders) == [1] * ORDERS


@pytest.mark.parametrize(("drive", "given"), [(_awaited, list), (_streamed, iter)])
async def test_in_any_turn(
    sandbox: Sandbox, make: Make, journal: Journal, drive: Any, given: Any
) -> None:
    gateway, cancelled = make(recovery=RESENDING), 0
    before = asyncio.all_tasks()
    for turns in TURNS:
        name, orders = f"job {turns}", seeded(sandbox, ORDERS)
        batch = gateway.refund(given(orders), job=journal.job(name))
        cancelled += await _cancelled_in(turns, drive(batch))
        left = {task for task in asyncio.all_tasks() - before if "job" in task.get_name()}
        assert left == set()
        if batch._run is not None and drive is _awaited:
            check_books(sandbox, batch.result)
        await _check_after(sandbox, gateway, journal, name, orders)
    assert cancelled > 10


async def test_leaving_a_stream_early(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    orders = seeded(sandbox, 40)
    async with make().refund(orders, job=journal.job("job")) as batch:
        seen = [await anext(batch)]
    told = [*seen, *batch.result]
    check_books(sandbox, told)
    assert sorted(outcome.index for outcome in told) == list(range(40))
    assert sum(batch.result.counts.values()) == 40
    assert not (await journal.status("job")).is_running
    assert (await make().refund(orders, job=journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 40


async def test_a_second_cancellation_ends_the_drain(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, ORDERS)
    sandbox.faults.add("refund", Latency(seconds=30))
    batch = make(policy=attrs.evolve(POLICY, drain_seconds=60)).refund(
        orders, job=journal.job("job")
    )
    task = asyncio.create_task(_awaited(batch))
    await sent(sandbox, 2)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=20)
    assert task.cancelled()
    assert await counts(journal) == {JobState.UNKNOWN: 4, JobState.NEW: 2}
    sandbox.faults.clear()
    async with make_client(sandbox, recovery=RESENDING) as another:
        await _check_after(sandbox, another, journal, "job", orders)


async def test_during_the_import(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    orders = seeded(sandbox, 3000)
    pulled = asyncio.Event()

    async def given() -> Any:
        for number, order in enumerate(orders):
            if number == 2500:
                pulled.set()
                await asyncio.Event().wait()
            yield order

    batch = make().refund(given(), job=journal.job("job"))
    task = asyncio.create_task(_awaited(batch))
    await pulled.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert not batch.result.exhausted
    assert sandbox.requests.total() == 0
    await _check_after(sandbox, make(), journal, "job", orders[:ORDERS])


async def test_a_resumed_job_has_a_result_however_early_it_is_cancelled(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, ORDERS)
    gateway, cancelled = make(), 0
    await gateway.refund(orders[:1], job=journal.job("job"))
    for turns in range(1, 60):
        batch = gateway.resume(journal.job("job"))
        drive = _streamed if turns % 2 else _awaited
        if await _cancelled_in(turns, drive(batch)):
            cancelled += 1
            assert not batch.result.ok or batch.result.counts[SUCCEEDED] == 1
    assert cancelled > 10
