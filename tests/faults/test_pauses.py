"""A gateway that asks for a pause gets one: of the whole batch, and never longer than allowed."""

import asyncio
from typing import TYPE_CHECKING

import attrs
import pytest

from gateway_async import BatchPolicy, Dialect, RetryPolicy, Timeouts
from gateway_async.sandbox.faults import Status
from gateway_async.session import Gate
from tests.faults.deeds import (
    ATTEMPTS,
    DECLINED,
    SUCCEEDED,
    UNKNOWN,
    Attempts,
    Trial,
    client,
)

if TYPE_CHECKING:
    from gateway_async.sandbox import Sandbox

batches = pytest.mark.parametrize("trial", ["query", "refund"], indirect=True)


@attrs.define
class Pauses:
    """Watches the gates of all calls, and lets their pauses end when the test says so."""

    asked: list[float] = attrs.field(factory=list)
    waiting: int = 0
    over: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def until_waiting(self, count: int) -> None:
        while self.waiting < count:  # noqa: ASYNC110  # the loop does the work
            await asyncio.sleep(0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Pauses of a gate that end at `pauses.over`, however long they are."""
    seen = Pauses()
    pause, sleep = Gate.pause, Gate.sleep

    def noted_pause(gate: Gate, seconds: float) -> None:
        seen.asked.append(seconds)
        pause(gate, seconds)

    async def held_sleep(gate: Gate, seconds: float) -> None:
        if gate.paused_until < asyncio.get_running_loop().time():
            await sleep(gate, seconds)
            return
        seen.waiting += 1
        await seen.over.wait()
        seen.waiting -= 1
        gate.paused_until = -1

    monkeypatch.setattr(Gate, "pause", noted_pause)
    monkeypatch.setattr(Gate, "sleep", held_sleep)
    return seen


def retry(max_pause_seconds: float) -> RetryPolicy:
    return RetryPolicy(
        attempts=ATTEMPTS, first_pause_seconds=0, max_pause_seconds=max_pause_seconds
    )


PATIENT = Timeouts(connect_seconds=5, reply_seconds=5, total_seconds=10_000)


@batches
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("trusted", [False, True], ids=["unlisted", "nothing done"])
async def test_the_whole_batch_pauses(
    trial: Trial, sandbox: "Sandbox", pauses: Pauses, status: int, *, trusted: bool
) -> None:
    fault = Status(status, "20", times=1)
    limiter = Attempts()
    sandbox.faults.add(trial.kind.operation, fault)
    async with client(
        sandbox,
        policy=BatchPolicy(concurrency=3, chunk_size=1),
        retry=retry(30),
        timeouts=PATIENT,
        limiter=limiter,
        dialect=Dialect(nothing_done_http_statuses={status} if trusted else ()),
    ) as gateway:
        async with asyncio.timeout(20):
            running = asyncio.create_task(trial.run_with(gateway, size=12))
            await pauses.until_waiting(3)
            sent = trial.requests
            for _ in range(100):
                await asyncio.sleep(0)
            assert (trial.requests, pauses.waiting) == (sent, 3), "nothing leaves in a pause"
            assert limiter.count == sent, "a pause takes no place of the limiter"
            assert sent < 12
            pauses.over.set()
            told = await running
    assert pauses.asked == [20]
    refused = trial.by_kind(read=SUCCEEDED, money=DECLINED if trusted else UNKNOWN)
    assert sorted(told.statuses) == sorted([refused] + [SUCCEEDED] * 11)
    assert trial.requests == trial.by_kind(read=13, money=12)
