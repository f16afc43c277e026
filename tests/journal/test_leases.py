"""Who may write: taken, renewed, lost; and the loser changes no row."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway_async.errors import JobBusyError, JournalError, LeaseLostError
from gateway_async.journal import JobState, Journal, leases
from gateway_async.journal.leases import Lease, LeaseKey
from gateway_async.journal.rows import NOT_DONE, Known
from tests.journal.tables import ALL, Tables, Watch, held_up, sent, submitted, succeeded, taken

WRITES: list[Callable[[Lease], Awaitable[object]]] = [
    lambda lease: sent(lease, range(3, 6)),
    lambda lease: lease.withdraw(1, range(3)),
    lambda lease: lease.settle(1, succeeded(range(3), reference="R"), ended_at=1.0),
    lambda lease: lease.recover({9: Known(JobState.NEW)}),
    lambda lease: lease.renew(),
]


async def test_a_job_has_one_lease(journal: Journal, other: Journal) -> None:
    job = await submitted(journal)
    ended = await asyncio.gather(
        *(each.job("job").take(f"{number}") for number in range(6) for each in (journal, other)),
        return_exceptions=True,
    )
    (lease,) = [each for each in ended if isinstance(each, Lease)]
    refused = [each for each in ended if isinstance(each, JobBusyError)]
    assert len(refused) == 11
    assert all(0 < error.seconds_left <= 15 and error.job == "job" for error in refused)
    assert "'job' is with '" in str(refused[0])
    assert (await other.status(job.name)).is_running
    await lease.release()
    assert not (await journal.status(job.name)).is_running
    assert (await other.job("job").take("second")).key.epoch == 2
    await lease.release()  # repeatable, and only of one's own
    assert (await other.status("job")).is_running
    with pytest.raises(LeaseLostError):
        lease.check()


async def test_what_was_in_flight_or_held_is_looked_up(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    request = await sent(lease, range(2))
    for position, state in enumerate(JobState):
        tables.put(4 + position, state=state, text="why", proof=NOT_DONE)
    tables.end_leases()
    again = await journal.job("job").take("second")
    assert [(row.state, row.known.text) for row in await again.rows(ALL, after=-1, last=9)] == [
        (JobState.UNKNOWN, "it was in flight when its process ended"),
        (JobState.UNKNOWN, "it was in flight when its process ended"),
        (JobState.NEW, ""),
        (JobState.NEW, ""),
        (JobState.NEW, "why"),
        (JobState.UNKNOWN, "it was in flight when its process ended"),
        (JobState.SUCCEEDED, "why"),
        (JobState.DECLINED, "why"),
        (JobState.UNKNOWN, "why"),
        (JobState.UNKNOWN, "earlier, why"),
    ]
    (row, *_) = await again.rows({JobState.UNKNOWN})
    assert (row.known.request, row.known.ended_at) == (request, None)


async def test_the_loser_changes_no_row(journal: Journal, other: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    assert await sent(lease, range(3)) == 1
    tables.end_leases()
    await other.job("job").take("second")
    tables.put(0, 1, 2, state="intent")
    tables.put(9, state="unknown")
    known = tables.snapshot()
    for write in WRITES:
        with pytest.raises(LeaseLostError, match="another process took it; nothing was changed"):
            await write(lease)
        assert tables.snapshot() == known
        assert lease.expires_in() == 0
        with pytest.raises(LeaseLostError):
            lease.check()
    await lease.release()
    assert tables.snapshot() == known


async def test_a_lease_that_ran_out_sends_nothing_more(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    tables.end_leases()
    await lease.renew()  # which no other process took
    lease.check()
    assert (await journal.status("job")).is_running
    request = await sent(lease, range(3))
    tables.end_leases()
    known = tables.snapshot()
    with pytest.raises(LeaseLostError, match="it ran out"):
        await sent(lease, range(3, 6))
    assert tables.snapshot() == known
    await lease.settle(request, succeeded(range(3)), ended_at=1.0)
    assert tables.states()[:4] == ["succeeded"] * 3 + ["new"]


async def test_either_clock_ends_a_lease_from_before_it_is_renewed(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = (100.0, 9000.0)
    monkeypatch.setattr(leases, "read_clocks", lambda: now)
    lease = await taken(journal)
    for awake, wall, left in ((5, 0, 10), (0, 5, 10), (0, 15, 0), (15, 0, 0), (15, -900, 0)):
        now = (100.0 + awake, 9000.0 + wall)
        assert lease.expires_in() == left
        now = (100.0, 9000.0)
        await lease.renew()
        assert lease.expires_in() == 15
    with held_up(journal):
        renewing = asyncio.create_task(lease.renew())
        await asyncio.sleep(0)
        now = (112.0, 9012.0)
    await renewing
    assert lease.expires_in() == 3
    now = (115.0, 9015.0)
    with pytest.raises(LeaseLostError, match="ran out"):
        lease.check()


def test_the_clock_goes_on_in_a_suspended_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(time, "CLOCK_BOOTTIME"):
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert before <= leases.read_clocks()[0] <= time.clock_gettime(time.CLOCK_BOOTTIME)
        monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    before = time.monotonic()
    assert before <= leases.read_clocks()[0] <= time.monotonic()
    monkeypatch.setattr(time, "time", lambda: 12.5)
    assert leases.read_clocks()[1] == 12.5


async def test_a_lease_whose_commit_is_in_doubt_is_given_back(journal: Journal) -> None:
    job = await submitted(journal)
    Watch(journal).loses_next_commit = True
    with pytest.raises(JournalError, match="cannot take job 'job'"):
        await job.take("first")
    assert (await job.take("second")).key.epoch == 2


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_caller_that_is_cancelled_keeps_no_lease(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, *, is_begun: bool
) -> None:
    job = await submitted(journal)
    begun, go_on = threading.Event(), threading.Event()
    take_job = leases.take_job

    def slowly(*arguments: Any) -> LeaseKey:
        begun.set()
        go_on.wait(30)
        return take_job(*arguments)

    with monkeypatch.context() as patched, held_up(journal) as let_go:
        patched.setattr(leases, "take_job", slowly)
        task = asyncio.create_task(job.take("first"))
        await asyncio.sleep(0)
        if is_begun:
            let_go()
            await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        let_go()
        go_on.set()
        assert not (await journal.status(job.name)).is_running
    assert (await job.take("second")).key.epoch == 1 + is_begun
