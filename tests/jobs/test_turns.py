"""What the journal keeps of requests whose turn has not come."""

import asyncio
import contextlib
from typing import Any

import pytest

from gateway_async import BatchPolicy
from gateway_async.batching.runner import Tasks
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.books import Interposed, counts, refuse
from tests.orders import Make, seeded
from tests.support.books import NOT_SENT, SUCCEEDED, check_books, check_conserved, effects, statuses
from tests.support.collaborators import Limiter

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


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
    assert await counts(journal) == {JobState.NEW: 8}
    await turnstile.let(1)
    while await counts(journal) != {JobState.NEW: 6, JobState.SUCCEEDED: 2}:  # noqa: ASYNC110  # see above
        await asyncio.sleep(0)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await batch
    result = cancelled.value.outcome  # type: ignore[attr-defined]  # the batch's result
    check_conserved(result, orders)
    assert (result.counts[SUCCEEDED], result.counts[NOT_SENT]) == (2, 6)
    assert await counts(journal) == {JobState.NEW: 6, JobState.SUCCEEDED: 2}
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 8


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_request_that_is_tried_again_is_intended_only_when_it_is_sent(
    sandbox: Sandbox, make: Make, journal: Journal, *, is_cancelled: bool
) -> None:
    orders, turnstile = seeded(sandbox, 2, "capture"), Turnstile()
    gateway, tries = make(limiter=turnstile), 0

    async def refuse_the_first(_: object) -> None:
        nonlocal tries
        tries += 1
        assert await counts(journal) == {JobState.INTENT: 2}
        if tries == 1:
            await refuse()

    Interposed(gateway, before=refuse_the_first)
    batch = asyncio.create_task(gateway.capture(orders, job=journal.job("job")))
    await turnstile.let(1, until_asked=2)
    assert await counts(journal) == {JobState.NEW: 2}
    if is_cancelled:
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        assert await counts(journal) == {JobState.NEW: 2}
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
                await asyncio.wait(working)
            monkeypatch.undo()
            async for outcome in batch:
                told.append(outcome)  # it raises in the end
    told += batch.result
    assert statuses(told).count(NOT_SENT) == 4
    check_books(sandbox, told)
    assert sum(effects(sandbox, orders)) == 2
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 6
