"""A job that is cancelled, wherever it is, doubles nothing once it is run again."""

import asyncio
import contextlib
from typing import Any

import attrs
import pytest

from gateway_async import GatewayClient
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from tests.jobs.books import RESENDING, Interposed, counts, kept, refuse, sent
from tests.orders import POLICY, Make, seeded
from tests.support.books import SUCCEEDED, check_books, effects

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)

TURNS = [*range(1, 20), *(int(20 * 1.5**number) for number in range(15))]


async def _awaited(batch: Any) -> Any:
    return await batch


async def _streamed(batch: Any) -> Any:
    async with batch:
        async for _ in batch:
            await asyncio.sleep(0)


async def _left(batch: Any) -> Any:
    """Leave a stream early, and then wait to be cancelled."""
    async with batch:
        async for _ in batch:
            break
    await asyncio.sleep(0)


async def _check_after(
    sandbox: Sandbox, gateway: GatewayClient, journal: Journal, name: str, orders: list[Any]
) -> None:
    """Check what a call left that was cancelled, and that the same line ends the job."""
    for status in await journal.jobs():
        if status.name == name:
            assert not status.is_running
            assert status.counts[JobState.INTENT] == 0
            check_books(sandbox, await kept(journal, name))
    assert (await gateway.refund(orders, job=journal.job(name))).ok
    assert effects(sandbox, orders) == [1] * len(orders)


@pytest.mark.parametrize(
    ("drive", "is_resumed"), [(_awaited, False), (_streamed, True), (_left, False)]
)
async def test_in_any_turn(
    sandbox: Sandbox, make: Make, journal: Journal, drive: Any, *, is_resumed: bool
) -> None:
    gateway, refusing, cancelled = make(recovery=RESENDING), make(), 0
    Interposed(refusing, before=refuse)
    before = asyncio.all_tasks()
    for turns in TURNS:
        orders, job = seeded(sandbox, 6), journal.job(f"job {turns}")
        if is_resumed:
            await refusing.refund(orders, job=job)
        batch = gateway.resume(job) if is_resumed else gateway.refund(iter(orders), job=job)
        task = asyncio.create_task(drive(batch))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        cancelled += task.cancelled()
        assert not {one for one in asyncio.all_tasks() - before if "job" in one.get_name()}
        with contextlib.suppress(RuntimeError):  # it was never begun
            check_books(sandbox, batch.result)
            assert batch.result.counts[SUCCEEDED] <= len(orders)
        await _check_after(sandbox, gateway, journal, job.name, orders)
    assert cancelled > 10


async def test_a_second_cancellation_ends_the_drain(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, 6)
    sandbox.faults.add("refund", Latency(seconds=30))
    patient = make(policy=attrs.evolve(POLICY, drain_seconds=60))
    task = asyncio.create_task(_awaited(patient.refund(orders, job=journal.job("job"))))
    await sent(sandbox, 2)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=20)
    assert task.cancelled()
    assert await counts(journal) == {JobState.UNKNOWN: 4, JobState.NEW: 2}
    sandbox.faults.clear()
    await _check_after(sandbox, make(recovery=RESENDING), journal, "job", orders)


async def test_a_second_cancellation_ends_an_input_that_takes_its_time_to_end(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders, begun, ending = seeded(sandbox, 1), asyncio.Event(), asyncio.Event()

    async def given() -> Any:
        try:
            yield orders[0]
            begun.set()
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(_awaited(make().refund(given(), job=journal.job("job"))))
    for reached in (begun, ending):
        await reached.wait()
        task.cancel()
    await asyncio.wait({task}, timeout=20)
    assert task.cancelled()
    assert sandbox.requests.total() == 0
