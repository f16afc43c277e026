"""What the journal keeps of requests whose turn has not come."""

import asyncio
import contextlib
from typing import Any

import pytest

from gateway_async import BatchPolicy, GatewayClient, NotSentError, RetryPolicy
from gateway_async.batching.runner import BatchRunner
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.transport import AiohttpTransport
from tests.jobs.books import (
    NOT_SENT,
    SUCCEEDED,
    Make,
    check_books,
    check_conserved,
    counts,
    effects,
    refuse,
    seeded,
    statuses,
)

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)

WIDE = BatchPolicy(concurrency=4, chunk_size=2, drain_seconds=5)


class Turnstile(contextlib.AbstractAsyncContextManager[None]):
    """A limiter that lets as many requests through as it is told."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(0)
        self.asked = 0

    async def __aenter__(self) -> None:
        self.asked += 1
        await self.free.acquire()

    async def __aexit__(self, *_: object) -> None:
        return None

    async def wait_for(self, asked: int) -> None:
        """Wait until so many requests have come to it."""
        while self.asked < asked:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0)


async def _waiting(
    gateway: GatewayClient, orders: list[Any], journal: Journal, turnstile: Turnstile
) -> "asyncio.Task[Any]":
    """Begin a job of four chunks, and return it once each waits for its turn."""
    batch = asyncio.create_task(gateway.refund(orders, job=journal.job("job")))
    for _ in range(4):  # each chunk's look-up
        turnstile.free.release()
    await turnstile.wait_for(8)
    return batch


async def test_what_waits_for_the_limiter_is_new_and_sent_by_the_next_run(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders, turnstile = seeded(sandbox, 8), Turnstile()
    batch = await _waiting(make(policy=WIDE, limiter=turnstile), orders, journal, turnstile)
    assert await counts(journal) == {JobState.NEW: 8}
    turnstile.free.release()
    while (await counts(journal)).get(JobState.SUCCEEDED, 0) < 2:  # noqa: ASYNC110  # see above
        await asyncio.sleep(0)
    assert await counts(journal) == {JobState.NEW: 6, JobState.SUCCEEDED: 2}
    batch.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await batch
    result = cancelled.value.outcome  # type: ignore[attr-defined]  # the batch's result
    check_conserved(result, orders)
    assert (result.counts[SUCCEEDED], result.counts[NOT_SENT]) == (2, 6)
    assert await counts(journal) == {JobState.NEW: 6, JobState.SUCCEEDED: 2}
    result = await make().resume(journal.job("job"))
    assert set(statuses(result)) == {SUCCEEDED}
    assert effects(sandbox, orders) == [1] * 8


async def test_what_waits_to_be_tried_again_when_the_job_is_cancelled_is_new(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, turnstile = seeded(sandbox, 2, "capture"), Turnstile()

    with monkeypatch.context() as patching:
        patching.setattr(AiohttpTransport, "send", refuse)
        gateway = make(policy=WIDE, limiter=turnstile)
        batch = asyncio.create_task(gateway.capture(orders, job=journal.job("job")))
        turnstile.free.release()
        await turnstile.wait_for(2)
        assert await counts(journal) == {JobState.NEW: 2}
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
    assert await counts(journal) == {JobState.NEW: 2}
    assert set(statuses(await make().resume(journal.job("job")))) == {SUCCEEDED}
    assert effects(sandbox, orders, "capture") == [1] * 2


async def test_a_request_that_is_tried_again_is_intended_each_time(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = seeded(sandbox, 2)
    send, tries = AiohttpTransport.send, 0

    async def fail_first(self: AiohttpTransport, message: Any, **how: Any) -> Any:
        nonlocal tries
        if message.path == "/v1/refund":
            tries += 1
            assert await counts(journal) == {JobState.INTENT: 2}
            if tries == 1:
                raise NotSentError("nothing was sent: no connection")
        return await send(self, message, **how)

    monkeypatch.setattr(AiohttpTransport, "send", fail_first)
    retry = RetryPolicy(attempts=2, first_pause_seconds=0, max_pause_seconds=0)
    result = await make(retry=retry).refund(orders, job=journal.job("job"))
    assert result.ok
    assert tries == 2
    assert effects(sandbox, orders) == [1] * 2


class AlarmError(Exception):
    """What a signal handler raises, wherever the program is just then."""


async def test_what_waits_is_sent_no_more_once_a_job_that_was_cut_short_called_it_not_sent(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, turnstile = seeded(sandbox, 6), Turnstile()

    async def alarmed(run: BatchRunner) -> None:
        while not run.results.finished:  # noqa: ASYNC110  # the first refund is made; the second waits for its turn
            await asyncio.sleep(0)
        raise AlarmError

    monkeypatch.setattr(BatchRunner, "work", alarmed)
    policy = BatchPolicy(concurrency=2, chunk_size=2)
    gateway = make(policy=policy, limiter=turnstile)
    told: list[Any] = []
    with contextlib.suppress(AlarmError):
        async with gateway.refund(orders, job=journal.job("job")) as batch:
            for _ in range(3):  # two look-ups and a refund
                turnstile.free.release()
            run: Any = batch._run
            while not any(NOT_SENT in statuses(block.outcomes()) for block in run.results.finished):  # noqa: ASYNC110  # see above
                await asyncio.sleep(0)
            for _ in orders:  # and the lease is still ours, until somebody reads this
                turnstile.free.release()
            if working := {task for task in asyncio.all_tasks() if "worker" in task.get_name()}:
                await asyncio.wait(working)
            monkeypatch.undo()
            async for outcome in batch:
                told.append(outcome)  # noqa: PERF401  # it raises in the end
    told += batch.result
    assert [outcome.status for outcome in told].count(NOT_SENT) == 4
    check_books(sandbox, told)
    assert sum(effects(sandbox, orders)) == 2
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 6
