"""Who may write: taken, renewed, lost; and the loser changes no row."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway_async.errors import JobBusyError, JobNotFoundError, JournalError, LeaseLostError
from gateway_async.journal import JobState, Journal, leases
from gateway_async.journal.leases import Lease, LeaseKey
from gateway_async.journal.rows import NOT_DONE, Known
from tests.journal.tables import ALL, Tables, Watch, held_up, sent, submitted, succeeded, taken

WRITES: dict[str, Callable[[Lease], Awaitable[object]]] = {
    "intend": lambda lease: sent(lease, range(3, 6)),
    "withdraw": lambda lease: lease.withdraw(1, range(3)),
    "settle": lambda lease: lease.settle(1, succeeded(range(3), reference="R"), ended_at=1.0),
    "recover": lambda lease: lease.recover({9: Known(JobState.NEW)}),
    "renew": lambda lease: lease.renew(),
}


async def test_a_job_has_one_lease(journal: Journal, other: Journal) -> None:
    job = await submitted(journal)
    lease = await job.take("first")
    assert (lease.key.name, lease.key.slice_number, lease.key.epoch) == ("job", 0, 1)
    assert (await journal.status(job.name)).is_running
    with pytest.raises(JobBusyError, match="'job' is with 'first'") as caught:
        await other.job("job").take("second")
    assert 0 < caught.value.seconds_left <= 15
    assert caught.value.job == "job"
    assert (await other.status(job.name)).is_running
    await lease.release()
    assert not (await journal.status(job.name)).is_running
    assert (await other.job("job").take("second")).key.epoch == 2


async def test_no_lease_on_no_job(journal: Journal) -> None:
    with pytest.raises(JobNotFoundError, match="no job 'nowhere'") as caught:
        await journal.job("nowhere").take("me")
    assert caught.value.job == "nowhere"


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


@pytest.mark.parametrize("write", WRITES)
async def test_the_loser_changes_no_row(
    journal: Journal, other: Journal, tables: Tables, write: str
) -> None:
    lease = await taken(journal)
    assert await sent(lease, range(3)) == 1
    tables.end_leases()
    await other.job("job").take("second")
    tables.put(0, 1, 2, state="intent")
    tables.put(9, state="unknown")
    known = tables.snapshot()
    with pytest.raises(LeaseLostError, match="another process took it; nothing was changed"):
        await WRITES[write](lease)
    assert tables.snapshot() == known
    assert lease.expires_in() == 0
    with pytest.raises(LeaseLostError):
        lease.check()
    await lease.release()
    assert tables.snapshot() == known


async def test_a_lease_that_ran_out_sends_nothing_more(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    request = await sent(lease, range(3))
    tables.end_leases()
    known = tables.snapshot()
    with pytest.raises(LeaseLostError, match="it ran out"):
        await sent(lease, range(3, 6))
    assert tables.snapshot() == known
    await lease.settle(request, succeeded(range(3)), ended_at=1.0)
    assert tables.states()[:4] == ["succeeded"] * 3 + ["new"]


async def test_one_that_ran_out_and_nobody_took_is_renewed(
    journal: Journal, tables: Tables
) -> None:
    lease = await taken(journal)
    tables.end_leases()
    await lease.renew()
    lease.check()
    assert (await journal.status("job")).is_running
    assert await sent(lease, range(3))


async def test_release_is_repeatable_and_only_of_ones_own(journal: Journal, other: Journal) -> None:
    lease = await taken(journal)
    await lease.release()
    await other.job("job").take("second")
    await lease.release()
    assert (await other.status("job")).is_running
    with pytest.raises(LeaseLostError):
        lease.check()


def set_clocks(monkeypatch: pytest.MonkeyPatch, clocks: Callable[[], tuple[float, float]]) -> None:
    monkeypatch.setattr("gateway_async.journal.leases.read_clocks", clocks)


@pytest.mark.parametrize(
    ("awake", "wall", "left"),
    [(5, 0, 10), (0, 5, 10), (0, 15, 0), (15, 0, 0), (15, -900, 0), (3, 4, 11)],
)
async def test_either_clock_ends_a_lease(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, awake: float, wall: float, left: float
) -> None:
    passed = (0.0, 0.0)
    set_clocks(monkeypatch, lambda: (100 + passed[0], 9000 + passed[1]))
    lease = await taken(journal)
    passed = (awake, wall)
    assert lease.expires_in() == left
    await lease.renew()
    assert lease.expires_in() == 15


async def test_a_lease_whose_commit_is_in_doubt_is_given_back(journal: Journal) -> None:
    job = await submitted(journal)
    Watch(journal).loses_next_commit = True
    with pytest.raises(JournalError, match="cannot take job 'job'"):
        await job.take("first")
    assert (await job.take("second")).key.epoch == 2


async def test_the_local_view_is_the_shorter_one(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    set_clocks(monkeypatch, lambda: (now, now))
    lease = await taken(journal)
    assert lease.expires_in() == 15
    now = 110.0
    assert lease.expires_in() == 5
    with held_up(journal):
        renewing = asyncio.create_task(lease.renew())
        await asyncio.sleep(0)
        now = 112.0
    await renewing
    assert lease.expires_in() == 13
    now = 125.0
    assert lease.expires_in() == 0
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


async def test_a_caller_that_was_cancelled_before_takes_no_lease(journal: Journal) -> None:
    job = await submitted(journal)
    with held_up(journal):
        task = asyncio.create_task(job.take("first"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not (await journal.status(job.name)).is_running
    assert (await job.take("second")).key.epoch == 1


async def test_a_caller_that_is_cancelled_meanwhile_gives_the_lease_back(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await submitted(journal)
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> LeaseKey:
        begun.set()
        go_on.wait(30)
        return take_job(*arguments)

    take_job = leases.take_job
    with monkeypatch.context() as patched:
        patched.setattr(leases, "take_job", slowly)
        task = asyncio.create_task(job.take("first"))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        assert not (await journal.status(job.name)).is_running
    assert (await job.take("second")).key.epoch == 2


async def test_of_many_that_take_at_once_one_has_it(journal: Journal, other: Journal) -> None:
    await submitted(journal)
    ended = await asyncio.gather(
        *(each.job("job").take(f"{number}") for number in range(6) for each in (journal, other)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Lease) for each in ended) == 1
    assert sum(isinstance(each, JobBusyError) for each in ended) == 11
