"""A job that is cancelled, wherever it is, doubles nothing once it is run again."""

import asyncio
import contextlib
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, GatewayClient, Timeouts
from gateway_async.batching.runner import Tasks
from gateway_async.journal import Journal, OrderState
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from tests.jobs.books import RESENDING, Interposed, counts, kept, refuse, sent
from tests.journal.tables import on_a_file
from tests.orders import POLICY, Make, seeded
from tests.support.books import NOT_SENT, SUCCEEDED, check_books, check_conserved, effects, statuses
from tests.support.collaborators import Limiter

pytestmark = on_a_file

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
            assert status.counts[OrderState.INTENT] == 0
            check_books(sandbox, await kept(journal, name))
    assert (await gateway.refund(orders, job=journal.job(name))).ok
    assert effects(sandbox, orders) == [1] * len(orders)


@pytest.mark.parametrize(
    ("drive", "is_resumed"), [(_awaited, False), (_streamed, True), (_left, False)]
)
async def test_in_any_turn(
    sandbox: Sandbox, make: Make, journal: Journal, drive: Any, is_resumed: bool
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


async def test_a_second_cancel_ends_drain(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    orders = seeded(sandbox, 6)
    sandbox.faults.add("refund", Latency(seconds=3600))
    patient = make(
        policy=attrs.evolve(POLICY, drain_seconds=3600),
        timeouts=Timeouts(reply_seconds=3600, total_seconds=3600),
    )
    task = asyncio.create_task(_awaited(patient.refund(orders, job=journal.job("job"))))
    await sent(sandbox, 2)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=120)
    assert task.cancelled()
    assert await counts(journal) == {OrderState.UNKNOWN: 4, OrderState.NEW: 2}
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
    await asyncio.wait({task}, timeout=120)
    assert task.cancelled()
    assert sandbox.requests.total() == 0


# What the journal keeps of requests whose turn has not come


class Turnstile(Limiter):
    """Lets as many requests through as it is told."""

    def __init__(self) -> None:
        super().__init__(enter=lambda _: self._free.acquire())
        self._free = asyncio.Semaphore(0)

    async def let(self, through: int, *, until_asked: int = 0) -> None:
        """Let requests through, and wait until so many have come."""
        for _ in range(through):
            self._free.release()
        while self.entered < until_asked:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0)


async def test_what_waits_for_the_limiter_is_new_and_sent_by_the_next_run(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders, turnstile = seeded(sandbox, 8), Turnstile()
    gateway = make(policy=BatchPolicy(concurrency=4, chunk_size=2), limiter=turnstile)
    batch = asyncio.create_task(gateway.refund(orders, job=journal.job("job")))
    await turnstile.let(4, until_asked=8)  # each chunk's look-up
    assert await counts(journal) == {OrderState.NEW: 8}
    await turnstile.let(1)
    while await counts(journal) != {OrderState.NEW: 6, OrderState.SUCCEEDED: 2}:  # noqa: ASYNC110  # see above
        await asyncio.sleep(0)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await batch
    result = cancelled.value.outcome  # type: ignore[attr-defined]  # the batch's result
    check_conserved(result, orders)
    assert (result.counts[SUCCEEDED], result.counts[NOT_SENT]) == (2, 6)
    assert await counts(journal) == {OrderState.NEW: 6, OrderState.SUCCEEDED: 2}
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 8


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_request_that_is_tried_again_is_intended_only_when_it_is_sent(
    sandbox: Sandbox, make: Make, journal: Journal, is_cancelled: bool
) -> None:
    orders, turnstile = seeded(sandbox, 2, "capture"), Turnstile()
    gateway, tries = make(limiter=turnstile), 0

    async def refuse_the_first(_: object) -> None:
        nonlocal tries
        tries += 1
        assert await counts(journal) == {OrderState.INTENT: 2}
        if tries == 1:
            await refuse()

    Interposed(gateway, before=refuse_the_first)
    batch = asyncio.create_task(gateway.capture(orders, job=journal.job("job")))
    await turnstile.let(1, until_asked=2)
    assert await counts(journal) == {OrderState.NEW: 2}
    if is_cancelled:
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        assert await counts(journal) == {OrderState.NEW: 2}
        batch = asyncio.ensure_future(make().resume(journal.job("job")))
    await turnstile.let(1)
    assert (await batch).ok
    assert tries == 2 - is_cancelled
    assert effects(sandbox, orders, "capture") == [1] * 2


class AlarmError(Exception):
    """What a signal handler raises, wherever the program is just then."""


async def test_what_waits_is_sent_no_more_once_a_job_that_was_cut_short_called_it_not_sent(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def alarmed(senders: Tasks) -> None:
        while not senders._run.results.finished:  # noqa: ASYNC110  # the first refund is made; the second waits for its turn
            await asyncio.sleep(0)
        raise AlarmError

    monkeypatch.setattr(Tasks, "wait", alarmed)
    orders, turnstile, told = seeded(sandbox, 6), Turnstile(), list[Any]()
    with contextlib.suppress(AlarmError):
        async with make(limiter=turnstile).refund(orders, job=journal.job("job")) as batch:
            await turnstile.let(3)  # two look-ups and a refund
            while not batch.progress.counts[NOT_SENT]:  # noqa: ASYNC110  # see above
                await asyncio.sleep(0)
            await turnstile.let(6)  # the lease is still ours, until the outcomes are read
            if working := {task for task in asyncio.all_tasks() if "worker" in task.get_name()}:
                await asyncio.wait(working, timeout=120)
            monkeypatch.undo()
            async for outcome in batch:
                told.append(outcome)  # it raises in the end
    told += batch.result
    assert statuses(told).count(NOT_SENT) == 4
    check_books(sandbox, told)
    assert sum(effects(sandbox, orders)) == 2
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 6
