"""A gateway that asks for a pause gets one: of the whole batch, and never longer than allowed."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

import attrs
import pytest

from gateway_async import BatchPolicy, Dialect, RetryPolicy, Timeouts
from gateway_async.sandbox.faults import Status
from gateway_async.session import Gate
from tests.faults.deeds import (
    ATTEMPTS,
    DECLINED,
    NOT_SENT,
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


def in_an_hour() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)


@pytest.mark.parametrize(
    ("retry_after", "pause"),
    [
        ("0", 0),
        ("20", 20),
        ("3600", 30),
        ("9" * 400, 30),
        (in_an_hour(), 30),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
    ],
    ids=["none", "seconds", "too long", "endless", "a date", "a date gone by", "an old date"],
)
async def test_a_pause_is_capped(
    trial: Trial, pauses: Pauses, retry_after: str, pause: float
) -> None:
    pauses.over.set()
    trial.sandbox.faults.add(trial.kind.operation, Status(429, retry_after, times=1))
    told = await trial.run(retry=retry(30), timeouts=PATIENT)
    assert told.status is trial.by_kind(read=SUCCEEDED, money=UNKNOWN)
    assert pauses.asked == [pause]
    assert trial.requests == trial.by_kind(read=2, money=1)


@pytest.mark.parametrize("retry_after", ["", "soon", "-1", "1.5", "1 2", "Sun, 99 Nov 1994", "٣"])
async def test_a_pause_that_cannot_be_read_is_none(
    trial: Trial, pauses: Pauses, retry_after: str
) -> None:
    trial.sandbox.faults.add(trial.kind.operation, Status(503, retry_after, times=1))
    told = await trial.run(retry=retry(30))
    assert told.status is trial.by_kind(read=SUCCEEDED, money=UNKNOWN)
    assert pauses.asked == []


async def test_a_pause_beyond_the_total_time_ends_a_call(trial: Trial) -> None:
    """It is not waited for in vain."""
    trial.sandbox.faults.add(trial.kind.operation, Status(503, "9999"))
    told = await trial.run(retry=retry(9999))
    assert told.status is UNKNOWN
    assert trial.requests == 1


@batches
async def test_a_pause_ends_with_the_deadline(trial: Trial, sandbox: "Sandbox") -> None:
    sandbox.faults.add(trial.kind.operation, Status(503, "9999", times=1))
    policy = BatchPolicy(concurrency=1, chunk_size=1, deadline_seconds=1)
    async with client(sandbox, policy=policy, retry=retry(9999)) as gateway:
        async with asyncio.timeout(20):
            told = await trial.run_with(gateway, size=4)
    assert told.statuses == [UNKNOWN, NOT_SENT, NOT_SENT, NOT_SENT]
    assert trial.requests == 1
